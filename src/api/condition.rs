//! Condition types of pools and of `cluster`, and their reasons.
//!
//! `docs/operations.md` says for each reason what it means, how to check and how to fix.

/// Pool: every node has the target.
pub const UPDATED: &str = "Updated";
/// Pool: at least one node does not have the target yet and is on its way.
pub const UPDATING: &str = "Updating";
/// Pool: something needs a person; the sum of the two below.
pub const DEGRADED: &str = "Degraded";
/// Pool: at least one node is Degraded, or cannot be given its config.
pub const NODE_DEGRADED: &str = "NodeDegraded";
/// Pool: the sources do not merge into a valid config; the pool keeps its target.
pub const RENDER_DEGRADED: &str = "RenderDegraded";
/// `MachineConfiguration`: the object is in effect. False when it is not the one that is read, or part of it is refused.
pub const VALID: &str = "Valid";

/// Reason of [`VALID`] True: the policy in `status` is the one in `spec`.
pub const IN_EFFECT: &str = "InEffect";
/// Reason of [`VALID`] False: another name than `cluster`, so nobody reads it.
pub const NOT_READ: &str = "NotRead";

/// Why a pool condition is as it is. `CamelCase`, stable: scripts compare them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// All nodes are Done at the target.
    AllNodesUpdated,
    /// Nodes are on their way to the target.
    NodesUpdating,
    /// Sources changed; the new target is not there yet.
    Rendering,
    /// The pool is paused and nodes wait.
    Paused,
    /// Nodes wait: each is named with what keeps it.
    NodesWaiting,
    /// Nothing is wrong.
    AsExpected,
    /// Nodes report Degraded.
    NodesDegraded,
    /// Nodes match two custom pools.
    AmbiguousNodes,
    /// The sources were refused.
    InvalidSources,
    /// No source is selected.
    NoSources,
    /// The pool itself is refused: its selectors.
    InvalidPool,
    /// `maxUnavailable` is negative or unreadable.
    InvalidMaxUnavailable,
    /// The rendered config is larger than an API server takes.
    TooLarge,
    /// `cluster` is missing or its status is older than its spec.
    PolicyNotReady,
    /// The policy of `cluster` is refused.
    InvalidPolicy,
    /// The rendered config could not be written.
    WriteFailed,
}

impl Reason {
    /// The text in the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllNodesUpdated => "AllNodesUpdated",
            Self::NodesUpdating => "NodesUpdating",
            Self::Rendering => "Rendering",
            Self::Paused => "Paused",
            Self::NodesWaiting => "NodesWaiting",
            Self::AsExpected => "AsExpected",
            Self::NodesDegraded => "NodesDegraded",
            Self::AmbiguousNodes => "AmbiguousNodes",
            Self::InvalidSources => "InvalidSources",
            Self::NoSources => "NoSources",
            Self::InvalidPool => "InvalidPool",
            Self::InvalidMaxUnavailable => "InvalidMaxUnavailable",
            Self::TooLarge => "TooLarge",
            Self::PolicyNotReady => "PolicyNotReady",
            Self::InvalidPolicy => "InvalidPolicy",
            Self::WriteFailed => "WriteFailed",
        }
    }
}
