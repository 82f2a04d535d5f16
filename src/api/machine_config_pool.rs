//! `MachineConfigPool`: nodes, the sources that apply to them, and how their rollout goes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a pool is.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "machineconfiguration.alauda.io",
    version = "v1alpha1",
    kind = "MachineConfigPool",
    plural = "machineconfigpools",
    singular = "machineconfigpool",
    shortname = "mcp",
    status = "MachineConfigPoolStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Nodes, the sources that apply to them, and how their rollout goes.",
    printcolumn = r#"{"name":"Config","type":"string","jsonPath":".status.configuration.name"}"#,
    printcolumn = r#"{"name":"Updated","type":"string","description":"True when every node of the pool has the target.","jsonPath":".status.conditions[?(@.type==\"Updated\")].status"}"#,
    printcolumn = r#"{"name":"Updating","type":"string","description":"True when at least one node is on its way to the target.","jsonPath":".status.conditions[?(@.type==\"Updating\")].status"}"#,
    printcolumn = r#"{"name":"Degraded","type":"string","description":"True when a node or the pool's rendering needs a person.","jsonPath":".status.conditions[?(@.type==\"Degraded\")].status"}"#,
    printcolumn = r#"{"name":"MachineCount","type":"number","description":"Nodes in the pool.","jsonPath":".status.machineCount"}"#,
    printcolumn = r#"{"name":"ReadyMachineCount","type":"number","description":"Nodes that have the target, are Ready and schedulable.","jsonPath":".status.readyMachineCount"}"#,
    printcolumn = r#"{"name":"UpdatedMachineCount","type":"number","description":"Nodes that have the target.","jsonPath":".status.updatedMachineCount"}"#,
    printcolumn = r#"{"name":"DegradedMachineCount","type":"number","description":"Nodes that are Degraded.","jsonPath":".status.degradedMachineCount"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolSpec {
    /// The pool's target: written by mcx, and put back when edited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::configuration_reference")]
    pub configuration: Option<ConfigurationReference>,
    /// Which sources apply. Absent selects none, `{}` selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::label_selector")]
    pub machine_config_selector: Option<LabelSelector>,
    /// Which nodes belong to the pool. Absent selects none, `{}` selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::label_selector")]
    pub node_selector: Option<LabelSelector>,
    /// How many nodes may be unavailable at a time, whatever made them so: a number, or a percentage of the pool rounded
    /// down. Absent, 0 and `0%` mean 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// True: no node is given a new config. What is under way is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::boolean")]
    pub paused: Option<bool>,
}

/// A rendered config and the sources it was made from. Fields of `ObjectReference`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigurationReference {
    /// `apiVersion` of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Part of the object; mcx never sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// `MachineConfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the rendered config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// mcx never sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// mcx never sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// mcx never sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The sources, in order of merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Vec<SourceReference>>,
}

/// A source of a rendered config. Fields of `ObjectReference`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceReference {
    /// `apiVersion` of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// mcx never sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// `MachineConfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// mcx never sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// mcx never sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// mcx never sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// How the pool's rollout goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigPoolStatus {
    /// Updated, Updating, Degraded, `NodeDegraded`, `RenderDegraded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::pool_conditions")]
    pub conditions: Option<Vec<PoolCondition>>,
    /// The config that all nodes of the pool had last; moves only when every node is updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::configuration_reference")]
    pub configuration: Option<ConfigurationReference>,
    /// Nodes that are Degraded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::int32")]
    pub degraded_machine_count: Option<i32>,
    /// Nodes in the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::int32")]
    pub machine_count: Option<i32>,
    /// Generation of the pool that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::int64")]
    pub observed_generation: Option<i64>,
    /// Kept for clients of the published CRD; mcx never writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::pool_synchronizers")]
    pub pool_synchronizers_status: Option<Vec<serde_json::Value>>,
    /// Nodes that have the target, are Ready and schedulable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::int32")]
    pub ready_machine_count: Option<i32>,
    /// Nodes that count against `maxUnavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::int32")]
    pub unavailable_machine_count: Option<i32>,
    /// Nodes that are Done at the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::int32")]
    pub updated_machine_count: Option<i32>,
}

/// A condition of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolCondition {
    /// When `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// For people: object, field, node, next step.
    pub message: String,
    /// For programs: one of [`super::condition::Reason`].
    pub reason: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// See [`super::condition`].
    #[serde(rename = "type")]
    pub type_: String,
}

impl MachineConfigPool {
    /// The pool's name; empty when it has none.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether new configs are held back.
    pub fn is_paused(&self) -> bool {
        self.spec.paused.unwrap_or_default()
    }

    /// Name of the target; none before the first rendering.
    pub fn target(&self) -> Option<&str> {
        self.spec.configuration.as_ref()?.name.as_deref().filter(|n| !n.is_empty())
    }
}
