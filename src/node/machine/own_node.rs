//! The daemon's own Node as values: what its decisions read of it, and nothing else.

use crate::api::protocol::{CordonMark, DrainKind, DrainRequest, DrainStatus, NodeState, PhaseSince};
use crate::api::{ConfigName, NodeName, Uid, annotation};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use std::str::FromStr;

/// Taint of a cordoned node; its time tells one cordon from another.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

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
        fn parsed<T: FromStr>(text: Option<&str>) -> Option<T> {
            text?.parse().ok()
        }
        let meta = &node.metadata;
        let text = |key: &str| meta.annotations.as_ref()?.get(key).filter(|v| !v.is_empty()).map(String::as_str);
        let status: Option<DrainStatus> = text(annotation::DRAIN_STATUS).and_then(|t| serde_json::from_str(t).ok());
        Self {
            name: meta.name.clone().unwrap_or_default().into(),
            uid: meta.uid.clone().unwrap_or_default().into(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            has_annotations: meta.annotations.as_ref().is_some_and(|a| !a.is_empty()),
            desired: text(annotation::DESIRED_CONFIG).map(ConfigName::from),
            current: text(annotation::CURRENT_CONFIG).map(ConfigName::from),
            state: parsed(text(annotation::STATE)),
            reason: text(annotation::REASON).map(str::to_owned),
            phase: parsed(text(annotation::PHASE)),
            desired_drain: parsed(text(annotation::DESIRED_DRAIN)),
            applied_drain: parsed(text(annotation::LAST_APPLIED_DRAIN)),
            ended: status.filter(|s| s.ended).and_then(|s| s.request.parse().ok()),
            cordon_is_ours: cordon_is_ours(node, parsed(text(annotation::CORDONED_BY))),
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

fn cordon_is_ours(node: &Node, mark: Option<CordonMark>) -> bool {
    let spec = node.spec.as_ref();
    let cordoned = spec.and_then(|s| s.unschedulable).unwrap_or_default();
    let taint_time = spec
        .iter()
        .flat_map(|s| s.taints.iter().flatten())
        .find(|t| t.key == UNSCHEDULABLE_TAINT)
        .and_then(|t| t.time_added.as_ref())
        .map(|t| t.0);
    cordoned
        && match mark {
            None => false,
            Some(CordonMark { taint_time: None }) => true,
            // Compared as times: the same instant can be printed in more than one way.
            Some(CordonMark { taint_time: Some(marked) }) => {
                marked.parse::<Timestamp>().is_ok_and(|marked| Some(marked) == taint_time)
            }
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
    fn a_mark_of_another_cordon_is_not_ours() {
        let cordoned = json!({"unschedulable": true, "taints": [{"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule",
            "timeAdded": "2026-01-02T03:04:05Z"}]});
        let marks = [
            ("mcx", true),
            ("mcx 2026-01-02T03:04:05Z", true),
            ("mcx 2026-01-02T03:04:05.000Z", true),
            ("mcx 2026-01-02T03:04:04Z", false),
            ("mcx nonsense", false),
            ("somebody", false),
        ];
        for (mark, ours) in marks {
            assert_eq!(node(&cordoned, &json!({key("cordonedBy"): mark})).cordon_is_ours, ours, "{mark}");
        }
        assert!(!node(&cordoned, &json!({})).cordon_is_ours, "a cordon without a mark is foreign");
        assert!(!node(&json!({}), &json!({key("cordonedBy"): "mcx"})).cordon_is_ours, "a mark alone is no cordon");
    }

    #[test]
    fn annotations_edited_into_nonsense_are_absent() {
        let own = node(
            &json!({}),
            &json!({key("state"): "Fine", key("phase"): "x", key("desiredDrain"): "drain", key("drainStatus"): "{",
                    key("desiredConfig"): ""}),
        );
        assert_eq!(own.state, None);
        assert_eq!(own.phase, None);
        assert_eq!(own.desired_drain, None);
        assert_eq!(own.ended, None);
        assert_eq!(own.desired, None);
        assert!(own.asks_nothing());
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
