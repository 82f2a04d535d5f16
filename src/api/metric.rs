//! Metric names. Labels come from closed sets or are object names that vanish with the object.

names! {
    /// Prefix of every metric.
    PREFIX = "mcx";
    /// Gauge by pool and kind (`machines`, `ready`, `updated`, `unavailable`, `degraded`): the pool's counts.
    POOL_MACHINES = "pool_machines";
    /// Gauge by pool and condition: 1 when the condition is True.
    POOL_CONDITION = "pool_condition";
    /// Gauge by node: 1 while a drain takes longer than the threshold.
    DRAIN_OVERDUE = "drain_overdue";
    /// Gauge: nodes that no pool selects.
    UNMANAGED_NODES = "unmanaged_nodes";
    /// Gauge: `MachineConfigs` that no pool selects.
    UNSELECTED_SOURCES = "unselected_sources";
    /// Gauge: 1 on the replica that leads.
    LEADING = "leading";
    /// Counter by kind of object: writes to the API.
    API_WRITES = "api_writes";
    /// Counter by outcome (`rendered`, `refused`): renderings of a pool.
    RENDERINGS = "renderings";
    /// Gauge by state: 1 for the node's state, on its daemon.
    NODE_STATE = "node_state";
    /// Gauge: drift findings on the node.
    DRIFT_FINDINGS = "drift_findings";
    /// Counter by outcome: updates of the node.
    UPDATES = "updates";
}
