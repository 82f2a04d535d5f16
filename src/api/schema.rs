//! Parts of the CRD schemas that Rust types do not imply: list types, bounds, CEL rules, nullability.
//!
//! The published CRDs are the measure; `tests/crds.rs` compares them property by property.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

fn schema(value: Value) -> Schema {
    match value {
        Value::Object(map) => Schema::from(map),
        _ => Schema::default(),
    }
}

pub(super) fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

pub(super) fn nullable_atomic_strings(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "nullable": true, "x-kubernetes-list-type": "atomic", "items": {"type": "string"}})
}

pub(super) fn int32(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32"})
}

pub(super) fn int64(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int64"})
}

pub(super) fn boolean(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "boolean"})
}

pub(super) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
}

pub(super) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "description": "Requirements that all hold.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "description": "Label key."},
                        "operator": {"type": "string", "description": "In, NotIn, Exists or DoesNotExist."},
                        "values": {
                            "description": "For In and NotIn: at least one; for the others: none.",
                            "type": "array",
                            "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string"}
                        }
                    }
                }
            },
            "matchLabels": {
                "description": "Labels that are there with these values.",
                "type": "object",
                "additionalProperties": {"type": "string"}
            }
        }
    })
}

fn object_reference() -> serde_json::Map<String, Value> {
    let mut fields = serde_json::Map::new();
    for (name, text) in [
        ("apiVersion", "API version of the referent."),
        ("fieldPath", "Part of the referent; not used."),
        ("kind", "Kind of the referent."),
        ("name", "Name of the referent."),
        ("namespace", "Namespace of the referent; not used."),
        ("resourceVersion", "Version of the referent; not used."),
        ("uid", "UID of the referent; not used."),
    ] {
        fields.insert(name.to_owned(), json!({"type": "string", "description": text}));
    }
    fields
}

pub(super) fn configuration_reference(_: &mut SchemaGenerator) -> Schema {
    let source = json!({
        "description": "The sources, in order of merge.",
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": object_reference()}
    });
    let mut properties = object_reference();
    properties.insert("source".to_owned(), source);
    schema(json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": properties}))
}

pub(super) fn pool_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "properties": {
                "lastTransitionTime": {
                    "type": "string", "format": "date-time", "nullable": true,
                    "description": "When status last changed."
                },
                "message": {"type": "string", "description": "For people: object, field, node and next step."},
                "reason": {"type": "string", "description": "For programs, in CamelCase."},
                "status": {"type": "string", "description": "True, False or Unknown."},
                "type": {"type": "string", "description": "Which condition this is."}
            }
        }
    })
}

pub(super) fn pool_synchronizers(_: &mut SchemaGenerator) -> Schema {
    let count = json!({"type": "integer", "format": "int64", "minimum": 0});
    let at_least = |upper: &str, lower: &str| {
        json!({
            "rule": format!("self.{upper} >= self.{lower}"),
            "message": format!("{upper} must not be less than {lower}")
        })
    };
    schema(json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["poolSynchronizerType"],
        "items": {
            "type": "object",
            "required": [
                "availableMachineCount", "machineCount", "poolSynchronizerType", "readyMachineCount",
                "unavailableMachineCount", "updatedMachineCount"
            ],
            "properties": {
                "availableMachineCount": count,
                "machineCount": count,
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "x-kubernetes-validations": [{
                        "rule": "self >= oldSelf || (self == 0 && oldSelf > 0)",
                        "message": "observedGeneration must not go back, except to zero"
                    }]
                },
                "poolSynchronizerType": {"type": "string", "enum": ["PinnedImageSets"], "maxLength": 256},
                "readyMachineCount": count,
                "unavailableMachineCount": count,
                "updatedMachineCount": count
            },
            "x-kubernetes-validations": [
                at_least("machineCount", "updatedMachineCount"),
                at_least("machineCount", "availableMachineCount"),
                at_least("machineCount", "unavailableMachineCount"),
                at_least("machineCount", "readyMachineCount"),
                at_least("availableMachineCount", "readyMachineCount")
            ]
        }
    }))
}

/// Name of a unit in a policy. The published rule with one addition: `@`, so that template instances can be named.
fn unit_name(description: &str) -> Value {
    json!({
        "type": "string",
        "description": description,
        "maxLength": 255,
        "x-kubernetes-validations": [
            {
                "rule": format!(r"self.matches('\\.({})$')", super::UNIT_TYPES.join("|")),
                "message": "must end in .service, .socket, .device, .mount, .automount, .swap, .target, .path, .timer, \
                            .snapshot, .slice or .scope"
            },
            {
                "rule": r"self.matches('^[a-zA-Z0-9:._@\\\\-]+\\..')",
                "message": "the part before the suffix must be one or more of letters, digits, \":\", \"-\", \"_\", \".\", \"@\" and \"\\\""
            }
        ]
    })
}

fn service_name(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "required": ["serviceName"],
        "properties": {"serviceName": unit_name("Unit to act on, with its suffix.")}
    })
}

fn actions(description: &str, types: &[&str]) -> Value {
    json!({
        "type": "array",
        "description": description,
        "maxItems": 10,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {"type": "string", "enum": types, "description": "What to do."},
                "reload": service_name("With Reload: which unit."),
                "restart": service_name("With Restart: which unit.")
            },
            "x-kubernetes-validations": [
                {
                    "rule": "has(self.type) && self.type == 'Reload' ? has(self.reload) : !has(self.reload)",
                    "message": "reload is required with type Reload, and refused with any other"
                },
                {
                    "rule": "has(self.type) && self.type == 'Restart' ? has(self.restart) : !has(self.restart)",
                    "message": "restart is required with type Restart, and refused with any other"
                }
            ]
        },
        "x-kubernetes-validations": [
            {
                "rule": "self.exists(x, x.type=='Reboot') ? size(self) == 1 : true",
                "message": "Reboot stands alone: it includes all other actions"
            },
            {
                "rule": "self.exists(x, x.type=='None') ? size(self) == 1 : true",
                "message": "None stands alone: beside other actions it says nothing"
            }
        ]
    })
}

const SPEC_TYPES: [&str; 6] = ["Reboot", "Drain", "Reload", "Restart", "DaemonReload", "None"];
const STATUS_TYPES: [&str; 7] = ["Reboot", "Drain", "Reload", "Restart", "DaemonReload", "None", "Special"];

fn lists(types: &[&str]) -> Value {
    json!({
        "type": "object",
        "required": ["files", "units"],
        "properties": {
            "files": actions("For files without an entry.", types),
            "units": actions("For units without an entry.", types)
        }
    })
}

fn entries(types: &[&str], most: usize) -> Value {
    let list = |key: &str, key_schema: Value, description: &str| {
        json!({
            "type": "array",
            "description": description,
            "maxItems": most,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [key],
            "items": {
                "type": "object",
                "required": ["actions", key],
                "properties": {key: key_schema, "actions": actions("In order.", types)}
            }
        })
    };
    let path = json!({"type": "string", "description": "A file, or a folder for all below it."});
    json!({
        "type": "object",
        "properties": {
            "files": list("path", path, "By path: the longest one that is the file or a folder above it counts."),
            "units": list("name", unit_name("Exact name of the unit."), "By name of the unit."),
            "sshkey": {
                "type": "object",
                "description": "For the SSH keys of user boot.",
                "required": ["actions"],
                "properties": {"actions": actions("In order.", types)}
            }
        }
    })
}

pub(super) fn default_actions(_: &mut SchemaGenerator) -> Schema {
    schema(lists(&SPEC_TYPES))
}

pub(super) fn policy(_: &mut SchemaGenerator) -> Schema {
    schema(entries(&SPEC_TYPES, 50))
}

pub(super) fn policy_status(_: &mut SchemaGenerator) -> Schema {
    let mut defaults = lists(&STATUS_TYPES);
    defaults["description"] = "Addition of mcx: what holds for files and units without an entry.".into();
    let mut policies = entries(&STATUS_TYPES, 100);
    policies["description"] = "Entries in effect.".into();
    schema(json!({"type": "object", "properties": {"clusterPolicies": policies, "defaultActions": defaults}}))
}

pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "type": "string", "format": "date-time", "description": "When status last changed."
                },
                "message": {"type": "string", "maxLength": 32768, "description": "For people."},
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "Generation of the object that this condition speaks of."
                },
                "reason": {
                    "type": "string", "maxLength": 1024, "minLength": 1, "description": "For programs.",
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
                },
                "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it holds."},
                "type": {
                    "type": "string", "maxLength": 316, "description": "Which condition this is.",
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
                }
            }
        }
    })
}
