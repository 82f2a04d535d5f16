//! The node disruption policy in effect: what `cluster` says over what is shipped.

use crate::api::MachineConfiguration;
use crate::api::machine_configuration::{FilePolicy, NodeDisruptionPolicyStatus, PolicyAction, UnitPolicy};
use serde::{Deserialize, Serialize};

/// The policy in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectivePolicy {
    /// Generation of `cluster` it was taken from; 0 for the shipped one.
    pub generation: i64,
    /// Entries for files, as `status` lists them.
    pub files: Vec<FilePolicy>,
    /// Entries for units, as `status` lists them.
    pub units: Vec<UnitPolicy>,
    /// For keys.
    pub keys: Vec<PolicyAction>,
    /// For files without an entry.
    pub default_files: Vec<PolicyAction>,
    /// For units without an entry.
    pub default_units: Vec<PolicyAction>,
}

impl EffectivePolicy {
    /// What holds while there is no `cluster`.
    pub fn shipped() -> Self {
        todo!()
    }

    /// What the spec of `cluster` asks for: the controller writes it into `status`, preview uses it as it is.
    pub fn from_spec(_cluster: &MachineConfiguration) -> Self {
        todo!()
    }

    /// What the status of `cluster` says; none while it is older than the spec.
    pub fn from_status(_cluster: &MachineConfiguration) -> Option<Self> {
        todo!()
    }

    /// As the status shows it.
    pub fn to_status(&self) -> NodeDisruptionPolicyStatus {
        todo!()
    }
}
