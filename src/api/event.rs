//! Reasons of the Events that mcx publishes, on the objects people look at.

/// Pool: a new rendered config became the target.
pub const RENDERED: &str = "RenderedConfigGenerated";
/// Pool: rendering failed.
pub const RENDER_FAILED: &str = "RenderFailed";
/// Pool: a rendered config that had been edited or deleted by hand was put back.
pub const RENDERED_PUT_BACK: &str = "RenderedConfigPutBack";
/// Source: no pool selects it, so it does nothing.
pub const SOURCE_NOT_SELECTED: &str = "SourceNotSelected";
/// Pool and Node: a node was given a desired config.
pub const DESIRED_SET: &str = "SetDesiredConfig";
/// Pool: all nodes are updated.
pub const COMPLETED: &str = "Completed";
/// Pool and Node: a node matches two custom pools.
pub const AMBIGUOUS: &str = "AmbiguousPool";
/// Node: no pool selects it, though it has a daemon.
pub const NO_POOL: &str = "NoPool";
/// Node: a drain began.
pub const DRAIN_STARTED: &str = "DrainStarted";
/// Node: a drain ended, the node is empty.
pub const DRAINED: &str = "Drained";
/// Node: a drain takes longer than the threshold.
pub const DRAIN_SLOW: &str = "DrainThresholdExceeded";
/// Node: an administrator uncordoned it during a drain.
pub const DRAIN_ENDED: &str = "DrainEndedByUncordon";
/// Node: mcx lifted its own cordon.
pub const UNCORDONED: &str = "Uncordoned";
/// Node: the daemon began an update.
pub const UPDATE_STARTED: &str = "UpdateStarted";
/// Node: the node has its desired config.
pub const UPDATE_DONE: &str = "UpdateDone";
/// Node: an update failed and was undone.
pub const UPDATE_FAILED: &str = "UpdateFailed";
/// Node: drift was found.
pub const DRIFT: &str = "ConfigDriftDetected";
/// Node: drift is gone.
pub const DRIFT_HEALED: &str = "ConfigDriftHealed";
/// Node: the daemon asks for a reboot.
pub const REBOOT: &str = "Reboot";
/// Node: the force file was taken.
pub const FORCED: &str = "ForceFileTaken";
