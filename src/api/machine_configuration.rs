//! `MachineConfiguration`: the node disruption policy. Only the object named `cluster` is read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which actions a change costs a node.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "machineconfiguration.alauda.io",
    version = "v1alpha1",
    kind = "MachineConfiguration",
    plural = "machineconfigurations",
    singular = "machineconfiguration",
    status = "MachineConfigurationStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "The node disruption policy of the cluster. Only the object named `cluster` is read."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigurationSpec {
    /// What files and units without an entry cost. Absent: files None, units Reboot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::default_actions")]
    pub default_node_disruption_policy_spec_action: Option<DefaultActions>,
    /// Entries for files, units and SSH keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::policy")]
    pub node_disruption_policy: Option<NodeDisruptionPolicy>,
}

/// What the shipped lists say: actions for what has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefaultActions {
    /// For files.
    pub files: Vec<PolicyAction>,
    /// For units.
    pub units: Vec<PolicyAction>,
}

/// Entries of a policy, as written in `spec` and as in effect in `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeDisruptionPolicy {
    /// By path; at most 50 in `spec`, 100 in `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FilePolicy>>,
    /// By unit name; at most 50 in `spec`, 100 in `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<Vec<UnitPolicy>>,
    /// For the keys of `boot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sshkey: Option<KeyPolicy>,
}

/// What a change of a file at or below `path` costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePolicy {
    /// A file, or a folder for all below it.
    pub path: String,
    /// In order.
    #[serde(default)]
    pub actions: Vec<PolicyAction>,
}

/// What a change of a unit costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitPolicy {
    /// Exact name; an instance of a template is named as such.
    pub name: String,
    /// In order.
    #[serde(default)]
    pub actions: Vec<PolicyAction>,
}

/// What a change of the SSH keys costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPolicy {
    /// In order.
    #[serde(default)]
    pub actions: Vec<PolicyAction>,
}

/// An action as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyAction {
    /// `Reboot`, `Drain`, `Reload`, `Restart`, `DaemonReload`, `None`; in `status` also `Special`, which mcx never writes.
    #[serde(rename = "type")]
    pub type_: String,
    /// With `Reload` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<ServiceName>,
    /// With `Restart` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<ServiceName>,
}

/// The unit of a `Reload` or `Restart`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceName {
    /// With its suffix, at most 255 characters.
    pub service_name: String,
}

/// What is in effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigurationStatus {
    /// `Valid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
    /// The policy in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::policy_status")]
    pub node_disruption_policy_status: Option<NodeDisruptionPolicyStatus>,
    /// Generation of the spec that is in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::int64")]
    pub observed_generation: Option<i64>,
}

/// The policy in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeDisruptionPolicyStatus {
    /// Entries in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_policies: Option<NodeDisruptionPolicy>,
    /// Addition of mcx: what holds for files and units without an entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_actions: Option<DefaultActions>,
}

impl MachineConfiguration {
    /// The object's name; empty when it has none.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}
