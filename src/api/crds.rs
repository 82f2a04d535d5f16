//! The three custom resource definitions, as `mcx crds` prints them and `manifests/crds/` holds them.

use super::{
    GROUP, MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus, MachineConfigSpec, MachineConfiguration,
    MachineConfigurationSpec, MachineConfigurationStatus, VERSION,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// `MachineConfig`, `MachineConfigPool`, `MachineConfiguration`, as JSON in the order of their names.
pub fn all() -> Vec<Value> {
    vec![
        machine_config(),
        derived(
            &MachineConfigPool::crd(),
            &schema_of::<MachineConfigPoolSpec>(),
            &schema_of::<MachineConfigPoolStatus>(),
        ),
        derived(
            &MachineConfiguration::crd(),
            &schema_of::<MachineConfigurationSpec>(),
            &schema_of::<MachineConfigurationStatus>(),
        ),
    ]
}

/// Schema of a type, as written in [`super::schema`] and with the descriptions of its fields. Not taken from the
/// derived CRD, which passes through kube's rewriting: bounds become floating numbers there, int-or-string loses its types.
fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    schema
}

fn machine_config() -> Value {
    let spec = schema_of::<MachineConfigSpec>();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("machineconfigs.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": "MachineConfig",
                "listKind": "MachineConfigList",
                "plural": "machineconfigs",
                "shortNames": ["mc"],
                "singular": "machineconfig"
            },
            "scope": "Cluster",
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {},
                "additionalPrinterColumns": [
                    {
                        "name": "IgnitionVersion",
                        "type": "string",
                        "description": "Version of the Ignition config in it.",
                        "jsonPath": ".spec.config.ignition.version"
                    },
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
                ],
                "schema": {"openAPIV3Schema": root("Files, systemd units and SSH keys for nodes.", &spec, None)}
            }]
        }
    })
}

/// A derived CRD with the root written as the published ones are: `apiVersion`, `kind` and `metadata` are in it.
fn derived(crd: &CustomResourceDefinition, spec: &Value, status: &Value) -> Value {
    let mut crd = serde_json::to_value(crd).unwrap_or_default();
    if let Some(names) = crd["spec"]["names"].as_object_mut() {
        names.insert("listKind".to_owned(), format!("{}List", names["kind"].as_str().unwrap_or_default()).into());
        names.retain(|_, v| !v.as_array().is_some_and(Vec::is_empty));
    }
    let version = &mut crd["spec"]["versions"][0];
    let schema = version["schema"]["openAPIV3Schema"].take();
    let mut whole = root(schema["description"].as_str().unwrap_or_default(), spec, Some(status));
    whole["required"] = json!(["spec"]);
    version["schema"]["openAPIV3Schema"] = whole;
    if let Some(version) = version.as_object_mut() {
        version.retain(|_, v| !v.as_array().is_some_and(Vec::is_empty));
    }
    crd
}

fn root(description: &str, spec: &Value, status: Option<&Value>) -> Value {
    let mut properties = json!({
        "apiVersion": {"type": "string", "description": "Version of the schema of this object."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object"},
        "spec": spec
    });
    if let Some(status) = status {
        properties["status"] = status.clone();
    }
    json!({"description": description, "type": "object", "properties": properties})
}

/// Takes off what schema generation adds and the published CRDs lack.
fn tidy(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        object.remove("nullable");
        object.remove("title");
        object.remove("$schema");
        if let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) {
            for field in fields.values_mut().filter_map(Value::as_object_mut) {
                field.remove("default");
            }
        }
    }
}
