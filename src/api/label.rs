//! Label keys and the labels of other systems that mcx reads.

/// On a source: the role whose pool selects it, by convention of the shipped pools.
pub const ROLE: &str = "machineconfiguration.alauda.io/role";
/// On a rendered config: the pool it was made for. An object with it is never a source.
pub const RENDERED: &str = "machineconfiguration.alauda.io/rendered";
/// On a Node: prefix of the role labels.
pub const NODE_ROLE_PREFIX: &str = "node-role.kubernetes.io/";
/// On a Node: the older name of a control-plane node.
pub const NODE_ROLE_MASTER: &str = "node-role.kubernetes.io/master";
/// On a Node: a control-plane node.
pub const NODE_ROLE_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// On a Node: a worker.
pub const NODE_ROLE_WORKER: &str = "node-role.kubernetes.io/worker";

/// Name of the control-plane pool, and the value of [`ROLE`] for its sources.
pub const MASTER: &str = "master";
/// Name of the pool of all other nodes, and the value of [`ROLE`] for its sources.
pub const WORKER: &str = "worker";

/// On pods of mcx: which part they are, [`super::DEPLOYMENT`] or [`super::DAEMONSET`].
pub const COMPONENT: &str = "app.kubernetes.io/component";
