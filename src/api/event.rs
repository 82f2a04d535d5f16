//! Reasons of the Events that mcx publishes, on the objects people look at.

names! {
    /// Pool: a new rendered config became the target.
    RENDERED = "RenderedConfigGenerated";
    /// Pool: rendering failed.
    RENDER_FAILED = "RenderFailed";
    /// Pool: a rendered config that had been edited or deleted by hand was put back.
    RENDERED_PUT_BACK = "RenderedConfigPutBack";
    /// Source: no pool selects it, so it does nothing.
    SOURCE_NOT_SELECTED = "SourceNotSelected";
    /// Pool and Node: a node was given a desired config.
    DESIRED_SET = "SetDesiredConfig";
    /// Pool: all nodes are updated.
    COMPLETED = "Completed";
    /// Pool and Node: a node matches two custom pools.
    AMBIGUOUS = "AmbiguousPool";
    /// Node: no pool selects it, though it has a daemon.
    NO_POOL = "NoPool";
    /// Node: a drain began.
    DRAIN_STARTED = "DrainStarted";
    /// Node: a drain ended, the node is empty.
    DRAINED = "Drained";
    /// Node: a drain takes longer than the threshold.
    DRAIN_SLOW = "DrainThresholdExceeded";
    /// Node: an administrator uncordoned it during a drain.
    DRAIN_ENDED = "DrainEndedByUncordon";
    /// Node: mcx lifted its own cordon.
    UNCORDONED = "Uncordoned";
    /// Node: the daemon began an update.
    UPDATE_STARTED = "UpdateStarted";
    /// Node: the node has its desired config.
    UPDATE_DONE = "UpdateDone";
    /// Node: an update failed and was undone.
    UPDATE_FAILED = "UpdateFailed";
    /// Node: drift was found.
    DRIFT = "ConfigDriftDetected";
    /// Node: drift is gone.
    DRIFT_HEALED = "ConfigDriftHealed";
    /// Node: the daemon asks for a reboot.
    REBOOT = "Reboot";
    /// Node: the force file was taken.
    FORCED = "ForceFileTaken";
}
