//! A Node, a pool and what surrounds them, as plain values: what every decision of this folder is made from.

use crate::api::node::{NodeRecord, cordon_is_ours};
use crate::api::protocol::{CordonMark, DrainRequest, DrainStatus, NodeState, PhaseSince};
use crate::api::{ConfigName, NodeName, Uid, annotation};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;

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
    /// `timeAdded` of the taint of a cordoned node; none while it is not there.
    pub cordoned_at: Option<Timestamp>,
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
        let record = NodeRecord::new(node);
        Self {
            name: record.name,
            uid: record.uid,
            created: meta.creation_timestamp.as_ref().map(|t| t.0),
            labels: meta.labels.clone().unwrap_or_default(),
            ready,
            cordoned: record.cordoned,
            cordoned_at: record.cordoned_at,
            deletion,
            hold: text(annotation::HOLD).map(str::to_owned),
            desired: record.desired,
            current: record.current,
            state: record.state,
            reason: record.reason,
            phase: record.phase,
            desired_drain: record.desired_drain,
            applied_drain: record.applied_drain,
            drain_status: record.drain_status,
            mark: record.mark,
        }
    }

    /// Whether the node is cordoned by us: our mark is there and is not void (made for another cordon).
    pub fn cordon_is_ours(&self) -> bool {
        cordon_is_ours(self.cordoned, self.mark, self.cordoned_at)
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
