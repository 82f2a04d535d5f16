//! The API of mcx: the custom resources as Rust types, the values of its annotations, and every name that two parts share.
//!
//! What is written here once: labels, annotations, condition types and reasons, event reasons, metric names, drain
//! requests, slots. The controller and the daemon do not know each other; they meet in this module.
//! It decides nothing: rules about these values live in `render`, `change`, `pool` and `node`.

/// Constants with their documentation as data: what is written once here is also a row of the generated reference.
macro_rules! names {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:literal;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = $value;)*
        /// All names of this module with their meaning, in the order of the source.
        pub const TABLE: &[(&str, &str)] = &[$(($value, concat!($($doc),+))),*];
    };
}

pub mod annotation;
pub mod condition;
pub mod crds;
pub mod event;
pub mod ignition_config;
pub mod label;
pub mod machine_config;
pub mod machine_config_pool;
pub mod machine_configuration;
pub mod metric;
pub mod name;
pub mod node;
pub mod protocol;
mod schema;
pub mod shipped;

/// What the name of a systemd unit may end in.
pub const UNIT_TYPES: [&str; 12] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];

pub use ignition_config::IgnitionConfig;
pub use machine_config::{MachineConfig, MachineConfigSpec};
pub use machine_config_pool::{MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus};
pub use machine_configuration::{MachineConfiguration, MachineConfigurationSpec, MachineConfigurationStatus};
pub use name::{ConfigName, Epoch, NodeName, PoolName, Uid};

/// API group of all three resources.
pub const GROUP: &str = "machineconfiguration.alauda.io";
/// The one served and stored version.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of all three resources.
pub const API_VERSION: &str = "machineconfiguration.alauda.io/v1alpha1";
/// The one Ignition version that sources and rendered configs have.
pub const IGNITION_VERSION: &str = "3.4.0";
/// Name of the one `MachineConfiguration` that is read.
pub const CLUSTER: &str = "cluster";
/// The user whose SSH keys are managed; no other is.
pub const SSH_USER: &str = "boot";
/// Presence of this file on a node asks the daemon to apply the config again and reboot.
pub const FORCE_FILE: &str = "/run/machine-config-daemon-force";
/// Where the daemon keeps its state on the node.
pub const STATE_DIR: &str = "/var/lib/mcx";
/// Name of the daemon's DaemonSet, as the guide prints it.
pub const DAEMONSET: &str = "machine-config-daemon";
/// Name of the controller's Deployment.
pub const DEPLOYMENT: &str = "machine-config-controller";
/// Namespace that the manifests create.
pub const NAMESPACE: &str = "mcx-system";
/// Name of the Lease by which controllers elect a leader.
pub const LEASE: &str = "machine-config-controller";
