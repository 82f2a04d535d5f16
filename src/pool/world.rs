//! One view of everything that the controller has cached. Caches may be late: what is written is guarded (see `door`),
//! and what needs a slot is read again first.

pub use super::events::{Events, Subject};
use super::view::NodeView;
use crate::api::{ConfigName, Epoch, MachineConfigPool, NodeName, PoolName};
use crate::change::policy::EffectivePolicy;
use crate::render::finding::Finding;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Everything, at one moment.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// When it was put together, by the controller's clock.
    pub now: Option<Timestamp>,
    /// All pools.
    pub pools: BTreeMap<PoolName, Arc<MachineConfigPool>>,
    /// All nodes.
    pub nodes: BTreeMap<NodeName, Arc<NodeView>>,
    /// How each pool's rendering stands.
    pub rendering: BTreeMap<PoolName, Rendering>,
    /// Rendered configs that exist.
    pub rendered: BTreeSet<ConfigName>,
    /// The policy in effect; none while `cluster` is missing or its status is older than its spec: no hand-outs then.
    pub policy: Option<Arc<EffectivePolicy>>,
    /// What is wrong with the policy, for every pool's conditions.
    pub policy_problem: Option<String>,
    /// Nodes on which a daemon pod is Ready.
    pub daemons: BTreeSet<NodeName>,
    /// Nodes on which a daemon pod is expected. On the others a daemon may run as a process of the host.
    pub daemons_expected: BTreeSet<NodeName>,
    /// When each node's kubelet last renewed its lease.
    pub leases: BTreeMap<NodeName, Timestamp>,
}

/// How a pool's rendering stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendering {
    /// A source or the pool changed and the new rendering is not there yet: `Updated` is False at once.
    pub pending: bool,
    /// What was refused; empty when all is well. The pool keeps its target.
    pub errors: Vec<Finding>,
    /// The pool selects no source.
    pub no_sources: bool,
    /// The rendered config could not be written, and why.
    pub write_error: Option<String>,
}

/// What a leader works with.
#[derive(Clone)]
pub struct Leader {
    /// The API server.
    pub door: super::door::Door,
    /// Of this leadership.
    pub epoch: Epoch,
    /// Flags.
    pub settings: Arc<Settings>,
    /// Publishes Events. Failures are logged, never returned.
    pub events: Events,
    /// Of this process.
    pub metrics: Arc<super::metrics::Metrics>,
    /// What the rollout remembers during one leadership: `Arc::default()` for each.
    pub rollout: Arc<tokio::sync::Mutex<super::rollout::Memory>>,
}

/// Flags of `mcx controller` that decisions use.
#[derive(Debug, Clone)]
pub struct Settings {
    /// After this long a drain is overdue: an Event and a metric; it goes on.
    pub drain_threshold: std::time::Duration,
    /// For how long a drained node waits for its volumes to be detached; zero: it does not.
    pub volume_detach: std::time::Duration,
    /// Quiet time before rendering.
    pub settle: std::time::Duration,
    /// Longest time before rendering.
    pub settle_limit: std::time::Duration,
    /// Unused rendered configs kept per pool.
    pub keep_rendered: usize,
    /// Namespace of the controller and the daemons.
    pub namespace: String,
}
