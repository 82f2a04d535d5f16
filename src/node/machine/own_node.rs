//! The daemon's own Node as values: what its decisions read of it, and nothing else.

use crate::api::node::{NodeRecord, cordon_is_ours};
use crate::api::protocol::{DrainKind, DrainRequest, NodeState, PhaseSince};
use crate::api::{ConfigName, NodeName, Uid};
use k8s_openapi::api::core::v1::Node;

/// The own Node. Annotations that do not parse are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnNode {
    /// Name.
    pub name: NodeName,
    /// UID: tells this Node from a later one of the same name.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// Whether the object has any annotation: without one there is no map to put a value into.
    pub has_annotations: bool,
    /// `desiredConfig`.
    pub desired: Option<ConfigName>,
    /// `currentConfig`.
    pub current: Option<ConfigName>,
    /// `state`.
    pub state: Option<NodeState>,
    /// `reason`, as it is.
    pub reason: Option<String>,
    /// `phase`.
    pub phase: Option<PhaseSince>,
    /// `desiredDrain`.
    pub desired_drain: Option<DrainRequest>,
    /// `lastAppliedDrain`.
    pub applied_drain: Option<DrainRequest>,
    /// The request that `drainStatus` calls ended: an administrator uncordoned the node.
    pub ended: Option<DrainRequest>,
    /// Cordoned, with our mark, and the mark is of this very cordon.
    pub cordon_is_ours: bool,
}

impl OwnNode {
    /// Reads a Node. Never fails: what is absent or unreadable is none.
    pub fn new(node: &Node) -> Self {
        let meta = &node.metadata;
        let record = NodeRecord::new(node);
        Self {
            cordon_is_ours: cordon_is_ours(record.cordoned, record.mark, record.cordoned_at),
            name: record.name,
            uid: record.uid,
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            has_annotations: meta.annotations.as_ref().is_some_and(|a| !a.is_empty()),
            desired: record.desired,
            current: record.current,
            state: record.state,
            reason: record.reason,
            phase: record.phase,
            desired_drain: record.desired_drain,
            applied_drain: record.applied_drain,
            ended: record.drain_status.filter(|s| s.ended).and_then(|s| s.request.parse().ok()),
        }
    }

    /// Whether nothing is asked of the controller: no request at all, or an uncordon that is fulfilled.
    pub fn asks_nothing(&self) -> bool {
        match &self.desired_drain {
            None => true,
            Some(request) => request.kind == DrainKind::Uncordon && self.fulfilled(),
        }
    }

    /// Whether the request that is there is fulfilled. The numbers never repeat, so equal means this very request.
    pub fn fulfilled(&self) -> bool {
        self.desired_drain.is_some() && self.applied_drain == self.desired_drain
    }

    /// Whether `newer` may take this one's place as the last thing known: a watch may deliver an older version after a
    /// write has answered with a newer one. Versions that are no numbers cannot be told apart; then the later arrival wins.
    pub fn is_older_than(&self, newer: &Self) -> bool {
        let version = |n: &Self| n.resource_version.parse::<u64>().ok();
        self.uid != newer.uid || version(self).zip(version(newer)).is_none_or(|(old, new)| old <= new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(spec: &serde_json::Value, annotations: &serde_json::Value) -> OwnNode {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7", "annotations": annotations},
            "spec": spec,
        }))
        .unwrap();
        OwnNode::new(&node)
    }

    fn key(name: &str) -> String {
        format!("machineconfiguration.alauda.io/{name}")
    }

    #[test]
    fn only_a_fulfilled_uncordon_asks_nothing() {
        let cases = [
            ("uncordon-c-2", "uncordon-c-2", true),
            ("uncordon-c-2", "uncordon-c-1", false),
            ("drain-c-2", "drain-c-2", false),
            ("drain-c-2", "", false),
        ];
        for (asked, applied, nothing) in cases {
            let own = node(&json!({}), &json!({key("desiredDrain"): asked, key("lastAppliedDrain"): applied}));
            assert_eq!(own.asks_nothing(), nothing, "{asked} {applied}");
        }
    }

    #[test]
    fn a_late_watch_event_does_not_undo_what_a_write_has_answered() {
        let at = |version: &str| OwnNode { resource_version: version.into(), ..OwnNode::default() };
        assert!(at("9").is_older_than(&at("10")));
        assert!(!at("10").is_older_than(&at("9")));
        let other = OwnNode { uid: "u2".into(), ..at("3") };
        assert!(at("10").is_older_than(&other), "another Node is always news");
    }
}
