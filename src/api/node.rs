//! What mcx reads of a Node: one reader for both sides of the protocol.
//!
//! What the controller and the daemon make of it is theirs (`pool::view`, `node::machine`).

use super::protocol::{CordonMark, DrainRequest, DrainStatus, NodeState, PhaseSince, UNSCHEDULABLE_TAINT};
use super::{ConfigName, NodeName, Uid, annotation};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use std::str::FromStr;

/// The own part of a Node. Annotations that do not parse are absent, and so are empty ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeRecord {
    /// Name.
    pub name: NodeName,
    /// UID.
    pub uid: Uid,
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
    /// `drainStatus`.
    pub drain_status: Option<DrainStatus>,
    /// `cordonedBy`.
    pub mark: Option<CordonMark>,
    /// `spec.unschedulable` is set.
    pub cordoned: bool,
    /// `timeAdded` of the taint of a cordoned node; none while it is not there.
    pub cordoned_at: Option<Timestamp>,
}

impl NodeRecord {
    /// Reads a Node. Never fails: what is absent or unreadable is none.
    pub fn new(node: &Node) -> Self {
        fn parsed<T: FromStr>(text: Option<&str>) -> Option<T> {
            text?.parse().ok()
        }
        let meta = &node.metadata;
        let text = |key: &str| meta.annotations.as_ref()?.get(key).filter(|v| !v.is_empty()).map(String::as_str);
        let spec = node.spec.as_ref();
        let taints = spec.iter().flat_map(|s| s.taints.iter().flatten());
        Self {
            name: meta.name.clone().unwrap_or_default().into(),
            uid: meta.uid.clone().unwrap_or_default().into(),
            desired: text(annotation::DESIRED_CONFIG).map(ConfigName::from),
            current: text(annotation::CURRENT_CONFIG).map(ConfigName::from),
            state: parsed(text(annotation::STATE)),
            reason: text(annotation::REASON).map(str::to_owned),
            phase: parsed(text(annotation::PHASE)),
            desired_drain: parsed(text(annotation::DESIRED_DRAIN)),
            applied_drain: parsed(text(annotation::LAST_APPLIED_DRAIN)),
            drain_status: text(annotation::DRAIN_STATUS).and_then(|t| serde_json::from_str(t).ok()),
            mark: parsed(text(annotation::CORDONED_BY)),
            cordoned: spec.and_then(|s| s.unschedulable).unwrap_or_default(),
            cordoned_at: taints
                .filter(|t| t.key == UNSCHEDULABLE_TAINT)
                .find_map(|t| t.time_added.as_ref())
                .map(|t| t.0),
        }
    }
}

/// Whether a cordon is ours: the node is cordoned, and `mark` is of this very cordon, whose taint is of `cordoned_at`.
pub fn cordon_is_ours(cordoned: bool, mark: Option<CordonMark>, cordoned_at: Option<Timestamp>) -> bool {
    cordoned && mark.is_some_and(|mark| Some(mark.at()) == cordoned_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(spec: &serde_json::Value, annotations: &serde_json::Value) -> NodeRecord {
        let annotations: serde_json::Map<String, serde_json::Value> = annotations
            .as_object()
            .unwrap()
            .iter()
            .map(|(k, v)| (format!("machineconfiguration.alauda.io/{k}"), v.clone()))
            .collect();
        let node = json!({"metadata": {"name": "n1", "uid": "u1", "annotations": annotations}, "spec": spec});
        NodeRecord::new(&serde_json::from_value(node).unwrap())
    }

    fn is_ours(record: &NodeRecord) -> bool {
        cordon_is_ours(record.cordoned, record.mark, record.cordoned_at)
    }

    #[test]
    fn a_mark_of_another_cordon_is_not_ours() {
        let cordoned = json!({"unschedulable": true, "taints": [{"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule",
            "timeAdded": "2026-01-02T03:04:05Z"}]});
        let marks = [
            ("mcx", false),
            ("mcx 2026-01-02T03:04:05Z", true),
            ("mcx 2026-01-02T03:04:05.000Z", true),
            ("mcx 2026-01-02T03:04:04Z", false),
            ("mcx nonsense", false),
            ("somebody", false),
        ];
        for (mark, ours) in marks {
            assert_eq!(is_ours(&record(&cordoned, &json!({"cordonedBy": mark}))), ours, "{mark}");
        }
        assert!(!is_ours(&record(&cordoned, &json!({}))), "a cordon without a mark is foreign");
        let mark = json!({"cordonedBy": "mcx 2026-01-02T03:04:05Z"});
        assert!(!is_ours(&record(&json!({}), &mark)), "a mark alone is no cordon");
        let untainted = json!({"unschedulable": true});
        assert!(!is_ours(&record(&untainted, &mark)), "an uncordon took the taint: this cordon is a later one");
    }

    #[test]
    fn annotations_edited_into_nonsense_are_absent() {
        let own = record(
            &json!({}),
            &json!({"state": "Fine", "phase": "x", "desiredDrain": "drain", "drainStatus": "{", "desiredConfig": ""}),
        );
        assert_eq!(own, NodeRecord { name: "n1".into(), uid: "u1".into(), ..NodeRecord::default() });
    }
}
