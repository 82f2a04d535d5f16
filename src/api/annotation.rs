//! Annotation keys. Each has one writer; the values are typed in [`super::protocol`].

names! {
    /// On a Node, written by the controller: the rendered config that the node shall have.
    DESIRED_CONFIG = "machineconfiguration.alauda.io/desiredConfig";
    /// On a Node, written by the daemon: the rendered config that the node has, proven. Changes only together with `state: Done`.
    CURRENT_CONFIG = "machineconfiguration.alauda.io/currentConfig";
    /// On a Node, written by the daemon: `Done`, `Working` or `Degraded`.
    STATE = "machineconfiguration.alauda.io/state";
    /// On a Node, written by the daemon: why it is Degraded. Begins with `Drift:` if it is drift, and only then.
    REASON = "machineconfiguration.alauda.io/reason";
    /// On a Node, written by the daemon: the phase of a Working node and the time it began.
    PHASE = "machineconfiguration.alauda.io/phase";
    /// On a Node, written by the daemon: the drain or uncordon it asks for.
    DESIRED_DRAIN = "machineconfiguration.alauda.io/desiredDrain";
    /// On a Node, written by the controller: the drain or uncordon request that is fulfilled.
    LAST_APPLIED_DRAIN = "machineconfiguration.alauda.io/lastAppliedDrain";
    /// On a Node, written by the controller: how the request goes, and what blocks it.
    DRAIN_STATUS = "machineconfiguration.alauda.io/drainStatus";
    /// On a Node, written by the controller: present when mcx cordoned it. Without it mcx never uncordons.
    CORDONED_BY = "machineconfiguration.alauda.io/cordonedBy";
    /// On a Node, written by the controller: epoch of the leader that last took over this node's slot. Never compared.
    EPOCH = "machineconfiguration.alauda.io/epoch";
    /// On a Node, written by an administrator: as `paused`, for one node; the value is the reason.
    HOLD = "machineconfiguration.alauda.io/hold";
    /// On a pool, written by the controller: epoch of the leader, and the nodes handed out.
    SLOTS = "machineconfiguration.alauda.io/slots";
    /// On a rendered config: the mcx version that made it.
    GENERATED_BY = "machineconfiguration.alauda.io/generated-by-controller-version";
}

/// The annotations of a Node that its daemon may write; admission refuses it every other change.
pub const DAEMON_OWNED: [&str; 5] = [CURRENT_CONFIG, STATE, REASON, PHASE, DESIRED_DRAIN];

/// Longest `reason` in bytes. Kubernetes allows 256 KiB for all annotations of an object together.
pub const REASON_LIMIT: usize = 2048;

/// `text` cut to at most `limit` bytes on a character boundary, with `…` where something was cut.
pub fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_on_a_character_boundary() {
        let text = "é".repeat(REASON_LIMIT);
        let short = cut(&text, REASON_LIMIT);
        assert!(short.len() <= REASON_LIMIT && short.ends_with('…'), "{} bytes", short.len());
        assert_eq!(cut("short", REASON_LIMIT), "short");
    }
}
