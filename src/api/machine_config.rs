//! `MachineConfig`: a source that a person wrote, or a rendered config that the controller made.

use super::{API_VERSION, GROUP, IgnitionConfig, VERSION, annotation, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;

/// Files, systemd units and SSH keys for nodes.
///
/// Written out and not derived, since `spec` is optional: a `MachineConfig` without one is legal and changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MachineConfig {
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted; absent and null are an empty spec.
    #[serde(default, deserialize_with = "null_is_default")]
    pub spec: MachineConfigSpec,
}

/// What a `MachineConfig` wants of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigSpec {
    /// An Ignition 3.4.0 config as an object. Absent: nothing is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::free_object")]
    pub config: Option<IgnitionConfig>,
    /// Arguments for the kernel's command line. Not served yet: anything but an empty list is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::nullable_atomic_strings")]
    pub kernel_arguments: Option<Vec<String>>,
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Serialize for MachineConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            api_version: &'a str,
            kind: &'a str,
            metadata: &'a ObjectMeta,
            spec: &'a MachineConfigSpec,
        }
        Wire { api_version: API_VERSION, kind: "MachineConfig", metadata: &self.metadata, spec: &self.spec }
            .serialize(serializer)
    }
}

impl kube::Resource for MachineConfig {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "MachineConfig".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "machineconfigs".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl MachineConfig {
    /// The object's name; empty when it has none.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether it is a rendered config and so never a source: by label, by maker, or by an owning pool.
    pub fn is_rendered(&self) -> bool {
        let labelled = self.metadata.labels.as_ref().is_some_and(|l| l.contains_key(label::RENDERED));
        let generated = self.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(annotation::GENERATED_BY));
        let owned = self.metadata.owner_references.iter().flatten().any(|o| o.kind == "MachineConfigPool");
        labelled || generated || owned
    }
}
