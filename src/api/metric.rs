//! Metric names. Labels come from closed sets or are object names that vanish with the object.

/// Prefix of every metric.
pub const PREFIX: &str = "mcx";
/// Gauge by pool and kind (`machines`, `ready`, `updated`, `unavailable`, `degraded`): the pool's counts.
pub const POOL_MACHINES: &str = "pool_machines";
/// Gauge by pool and condition: 1 when the condition is True.
pub const POOL_CONDITION: &str = "pool_condition";
/// Gauge by node: 1 while a drain takes longer than the threshold.
pub const DRAIN_OVERDUE: &str = "drain_overdue";
/// Gauge: nodes that no pool selects.
pub const UNMANAGED_NODES: &str = "unmanaged_nodes";
/// Gauge: `MachineConfigs` that no pool selects.
pub const UNSELECTED_SOURCES: &str = "unselected_sources";
/// Gauge: 1 on the replica that leads.
pub const LEADING: &str = "leading";
/// Counter by kind of object: writes to the API.
pub const API_WRITES: &str = "api_writes";
/// Counter by outcome (`rendered`, `refused`): renderings of a pool.
pub const RENDERINGS: &str = "renderings";
/// Gauge by state: 1 for the node's state, on its daemon.
pub const NODE_STATE: &str = "node_state";
/// Gauge: drift findings on the node.
pub const DRIFT_FINDINGS: &str = "drift_findings";
/// Counter by outcome: updates of the node.
pub const UPDATES: &str = "updates";
