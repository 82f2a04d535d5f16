//! A Node, a pool and what surrounds them, as plain values: what every decision of this folder is made from.

use crate::api::protocol::{CordonMark, DrainRequest, DrainStatus, NodeState, PhaseSince};
use crate::api::{ConfigName, NodeName, Uid, annotation};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Taint that the node controller of Kubernetes keeps on cordoned nodes, with the time of the cordon.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Taints of systems that are about to delete a node: the cluster autoscaler's and Cluster API's.
pub const DELETION_TAINTS: [&str; 3] = [
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "node.cluster.x-k8s.io/outdated-revision",
];

/// A Node as the controller sees it. Annotations that do not parse are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeView {
    /// Name.
    pub name: NodeName,
    /// UID.
    pub uid: Uid,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Condition Ready is True.
    pub ready: bool,
    /// `spec.unschedulable` is set.
    pub cordoned: bool,
    /// `timeAdded` of the unschedulable taint, as printed; none before the node controller has put it there.
    pub cordoned_at: Option<String>,
    /// Why it is about to go: deletion timestamp, or the taint that says so.
    pub deletion: Option<String>,
    /// `hold`: the administrator's reason.
    pub hold: Option<String>,
    /// `desiredConfig`.
    pub desired: Option<ConfigName>,
    /// `currentConfig`.
    pub current: Option<ConfigName>,
    /// `state`.
    pub state: Option<NodeState>,
    /// `reason`.
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
}

fn parsed<T: FromStr>(text: Option<&str>) -> Option<T> {
    text?.parse().ok()
}

impl NodeView {
    /// Reads a Node. Never fails: what is absent or unreadable is none.
    pub fn new(node: &Node) -> Self {
        let meta = &node.metadata;
        let text = |key: &str| meta.annotations.as_ref()?.get(key).filter(|v| !v.is_empty()).map(String::as_str);
        let spec = node.spec.as_ref();
        let taints = || spec.iter().flat_map(|s| s.taints.iter().flatten());
        let ready = node
            .status
            .iter()
            .flat_map(|s| s.conditions.iter().flatten())
            .any(|c| c.type_ == "Ready" && c.status == "True");
        let deletion = meta.deletion_timestamp.as_ref().map(|t| format!("deleted at {}", t.0)).or_else(|| {
            taints().find(|t| DELETION_TAINTS.contains(&t.key.as_str())).map(|t| format!("taint {}", t.key))
        });
        Self {
            name: meta.name.clone().unwrap_or_default().into(),
            uid: meta.uid.clone().unwrap_or_default().into(),
            created: meta.creation_timestamp.as_ref().map(|t| t.0),
            labels: meta.labels.clone().unwrap_or_default(),
            ready,
            cordoned: spec.and_then(|s| s.unschedulable).unwrap_or_default(),
            cordoned_at: taints()
                .find(|t| t.key == UNSCHEDULABLE_TAINT)
                .and_then(|t| t.time_added.as_ref())
                .map(|t| t.0.to_string()),
            deletion,
            hold: text(annotation::HOLD).map(str::to_owned),
            desired: text(annotation::DESIRED_CONFIG).map(ConfigName::from),
            current: text(annotation::CURRENT_CONFIG).map(ConfigName::from),
            state: parsed(text(annotation::STATE)),
            reason: text(annotation::REASON).map(str::to_owned),
            phase: parsed(text(annotation::PHASE)),
            desired_drain: parsed(text(annotation::DESIRED_DRAIN)),
            applied_drain: parsed(text(annotation::LAST_APPLIED_DRAIN)),
            drain_status: text(annotation::DRAIN_STATUS).and_then(|t| serde_json::from_str(t).ok()),
            mark: parsed(text(annotation::CORDONED_BY)),
        }
    }

    /// Whether the node is cordoned by us: our mark is there and is not void (made for another cordon).
    pub fn cordon_is_ours(&self) -> bool {
        self.cordoned && self.mark.as_ref().is_some_and(|m| m.taint_time.is_none() || m.taint_time == self.cordoned_at)
    }

    /// Whether the node says that it drifted: `reason` begins so, and only then.
    pub fn drifted(&self) -> bool {
        self.state == Some(NodeState::Degraded)
            && self.reason.as_deref().is_some_and(|r| r.starts_with(crate::api::protocol::DRIFT_PREFIX))
    }

    /// Done at the config it should have, or Done without one.
    pub fn settled(&self) -> bool {
        self.state == Some(NodeState::Done) && (self.desired.is_none() || self.desired == self.current)
    }
}
