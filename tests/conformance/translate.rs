//! From the peer's language to ours, by rule. All that is done to a case before mcx sees it is here:
//!
//! - `apiVersion` and the prefix of labels are ours; the user `core` is `boot`, as user and as owner of files.
//! - Fields of the operating system (`osImageURL`, `baseOSExtensionsContainerImage`, `kernelType`, `extensions`, `fips`) are
//!   left out of sources and answers, with `controller` and `osImageStream`. Where an answer follows from such a field alone,
//!   mcx must refuse the field as unknown.
//! - Annotations are left out: they say who made a source, which matters for the operating system only.
//! - Two sources of one name, which a cluster cannot hold, are told apart by their order of arrival.
//! - Without `policies` the peer's built-in policies are the policy. Unlisted files and units reboot, the peer's fixed rule.
//!   `Special`, which only the peer can write, reloads crio, as there.
//! - `overrides`, which let changes of disks through, are left out: such a section is refused whether it changes or not.
//! - Of the answers about a change, `kargsArgs`, `legacyActions` and `requiresRebuild` have no counterpart and are left out.
//! - A pool that selects everything stands for the one that was given just these sources.

use crate::ignition;
use mcx::api::machine_configuration::{FilePolicy, PolicyAction, ServiceName, UnitPolicy};
use mcx::api::{API_VERSION, MachineConfig, MachineConfigPool, label};
use mcx::change::policy::EffectivePolicy;
use mcx::render::ignition::Config;
use serde_json::{Map, Value, json};

const PEER_PREFIX: &str = "machineconfiguration.openshift.io/";
const PEER_USER: &str = "core";
const OUR_USER: &str = "boot";

/// Fields of `spec` that are the operating system's.
pub(crate) const OS_FIELDS: [&str; 5] =
    ["osImageURL", "baseOSExtensionsContainerImage", "kernelType", "extensions", "fips"];

/// A source of a case.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// All but its Ignition config.
    pub(crate) config: MachineConfig,
    /// Its Ignition config as the peer has it, translated only.
    pub(crate) ignition: Option<Value>,
    pub(crate) labelled: bool,
    /// The same object with the fields of the operating system.
    pub(crate) whole: Value,
}

impl Source {
    pub(crate) fn name(&self) -> &str {
        self.config.metadata.name.as_deref().unwrap_or_default()
    }

    /// The Ignition config; null when there is none.
    pub(crate) fn ignition(&self) -> &Value {
        self.ignition.as_ref().unwrap_or(&Value::Null)
    }

    pub(crate) fn ignition_mut(&mut self) -> &mut Value {
        self.ignition.get_or_insert(Value::Null)
    }

    /// The whole object, as mcx reads it.
    pub(crate) fn machine_config(&self) -> MachineConfig {
        let mut config = self.config.clone();
        config.spec.config = self.ignition.as_ref().map(Into::into);
        config
    }

    fn is_of_worker(&self) -> bool {
        self.config.metadata.labels.as_ref().and_then(|l| l.get(label::ROLE)).is_some_and(|role| role == label::WORKER)
    }
}

/// A `MachineConfig` of the peer.
pub(crate) fn source(peer: &Value) -> Source {
    let labels = peer["metadata"]["labels"].as_object();
    let ours = |key: &String| match key.strip_prefix(PEER_PREFIX) {
        Some(rest) => label::ROLE.replace("role", rest),
        None => key.clone(),
    };
    let labels: Option<Map<String, Value>> =
        labels.map(|labels| labels.iter().map(|(key, value)| (ours(key), value.clone())).collect());
    let mut whole = json!({
        "apiVersion": API_VERSION,
        "kind": "MachineConfig",
        "metadata": {"name": peer["metadata"]["name"].as_str().unwrap_or_default()},
        "spec": peer["spec"].as_object().cloned().unwrap_or_default(),
    });
    if let Some(labels) = &labels {
        whole["metadata"]["labels"] = labels.clone().into();
    }
    if let Some(ignition) = whole["spec"].get_mut("config") {
        rename_user(ignition);
    }
    let mut plain = whole.clone();
    plain["spec"].as_object_mut().unwrap().retain(|key, _| !OS_FIELDS.contains(&key.as_str()));
    let ignition = plain["spec"].as_object_mut().unwrap().remove("config").filter(|config| !config.is_null());
    Source { config: serde_json::from_value(plain).unwrap(), ignition, labelled: labels.is_some(), whole }
}

/// The sources of a case of rendering.
pub(crate) fn sources(input: &Value) -> Vec<Source> {
    let mut sources: Vec<Source> = input["machineConfigs"].as_array().into_iter().flatten().map(source).collect();
    let names: Vec<String> = sources.iter().map(|s| s.name().to_owned()).collect();
    for (i, source) in sources.iter_mut().enumerate() {
        if names.iter().filter(|name| **name == names[i]).count() > 1 {
            // `!` sorts before all that a name may hold, so that nothing comes between the two.
            source.config.metadata.name = Some(format!("{}!{i:03}", names[i]));
        }
    }
    sources
}

/// A config of the answer.
pub(crate) fn config(peer: &Value) -> Value {
    let mut ours = peer.clone();
    rename_user(&mut ours);
    ours
}

/// `core` and `boot` change places: as name of a user, and as owner.
fn rename_user(value: &mut Value) {
    fn swap(name: Option<&mut Value>) {
        let Some(name) = name else { return };
        match name.as_str() {
            Some(PEER_USER) => *name = OUR_USER.into(),
            Some(OUR_USER) => *name = PEER_USER.into(),
            _ => {}
        }
    }
    for user in value.pointer_mut("/passwd/users").and_then(Value::as_array_mut).into_iter().flatten() {
        swap(user.get_mut("name"));
    }
    for list in ["files", "directories", "links"] {
        let nodes = value.pointer_mut(&format!("/storage/{list}")).and_then(Value::as_array_mut);
        for node in nodes.into_iter().flatten() {
            for owner in ["user", "group"] {
                swap(node.get_mut(owner).and_then(|owner| owner.get_mut("name")));
            }
        }
    }
}

/// A pool that selects everything.
pub(crate) fn pool() -> MachineConfigPool {
    serde_json::from_value(json!({"metadata": {"name": label::WORKER}, "spec": {"machineConfigSelector": {}}})).unwrap()
}

/// By the peer's rule: sources of role worker by name, then all others by name.
pub(crate) fn in_peer_order(sources: &[Source]) -> Vec<Source> {
    let mut sorted = sources.to_vec();
    sorted.sort_by(|a, b| (!a.is_of_worker(), a.name()).cmp(&(!b.is_of_worker(), b.name())));
    sorted
}

/// The Ignition config that the peer's rules make of these, which are in its order: the specification's merge, but a later
/// file without `compression` takes an earlier one's away, an empty one is none, and `overwrite` is true unless it is given.
pub(crate) fn peer_merge(sources: &[Source]) -> Result<Value, String> {
    let mut merged: Option<Value> = None;
    for source in sources {
        let given = source.ignition();
        let Some(below) = merged.take() else {
            let none = given.is_null();
            merged = Some(if none { json!({"ignition": {"version": "3.4.0"}}) } else { given.clone() });
            continue;
        };
        if given.is_null() {
            merged = Some(below);
            continue;
        }
        let mut above = given.clone();
        for file in files_mut(&mut above).filter_map(Value::as_object_mut) {
            let contents = file.entry("contents").or_insert(Value::Null);
            if contents.is_null() {
                *contents = json!({});
            }
            let unset = contents.get("compression").is_none_or(Value::is_null);
            if let Some(contents) = contents.as_object_mut().filter(|_| unset) {
                contents.insert("compression".to_owned(), "".into());
            }
        }
        let Config(mut both) = ignition::fold(&[below, above])?;
        for file in files_mut(&mut both) {
            if let Some(contents) = file.get_mut("contents").and_then(Value::as_object_mut)
                && contents.get("compression").and_then(Value::as_str) == Some("")
            {
                contents.remove("compression");
            }
        }
        merged = Some(both);
    }
    let mut merged = merged.unwrap_or(Value::Null);
    for file in files_mut(&mut merged).filter_map(Value::as_object_mut) {
        let overwrite = file.entry("overwrite").or_insert(Value::Null);
        if overwrite.is_null() {
            *overwrite = true.into();
        }
    }
    Ok(ignition::fold(&[merged])?.0)
}

fn files_mut(config: &mut Value) -> impl Iterator<Item = &mut Value> {
    config.pointer_mut("/storage/files").and_then(Value::as_array_mut).into_iter().flatten()
}

/// The policy of a case about a change.
pub(crate) fn policy(input: &Value) -> EffectivePolicy {
    let reboot = vec![PolicyAction { type_: "Reboot".to_owned(), reload: None, restart: None }];
    let built_in;
    let given = if input["policies"].is_null() {
        built_in = built_in_policies();
        &built_in
    } else {
        &input["policies"]
    };
    let list = |name: &str| given[name].as_array().cloned().unwrap_or_default();
    let files =
        list("files").iter().map(|e| FilePolicy { path: text(&e["path"]), actions: actions(&e["actions"]) }).collect();
    let units =
        list("units").iter().map(|e| UnitPolicy { name: text(&e["name"]), actions: actions(&e["actions"]) }).collect();
    EffectivePolicy {
        generation: 1,
        files,
        units,
        keys: actions(&given["sshkey"]["actions"]),
        default_files: reboot.clone(),
        default_units: reboot,
    }
}

/// Actions of a policy, or of an answer.
pub(crate) fn actions(list: &Value) -> Vec<PolicyAction> {
    let one = |action: &Value| {
        let service =
            |key: &str| action[key]["serviceName"].as_str().map(|s| ServiceName { service_name: s.to_owned() });
        match action["type"].as_str().unwrap_or_default() {
            "Special" => PolicyAction {
                type_: "Reload".to_owned(),
                reload: Some(ServiceName { service_name: "crio.service".to_owned() }),
                restart: None,
            },
            other => PolicyAction { type_: other.to_owned(), reload: service("reload"), restart: service("restart") },
        }
    };
    list.as_array().into_iter().flatten().map(one).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What the peer's own list says, in its order. One entry of it, for a drop-in of the kubelet, is not in here: its path is
/// not known to us, and no recorded case speaks of it.
fn built_in_policies() -> Value {
    let none = json!([{"type": "None"}]);
    let reload = json!([{"type": "Reload", "reload": {"serviceName": "crio.service"}}]);
    let restart = |service: &str| json!({"type": "Restart", "restart": {"serviceName": service}});
    let (trust, registry) = ("coreos-update-ca-trust.service", "iri-registry.service");
    let anchors = "/etc/pki/ca-trust/source/anchors";
    json!({
        "files": [
            {"path": "/var/lib/kubelet/config.json", "actions": none},
            {"path": "/etc/machine-config-daemon/no-reboot/containers-gpg.pub", "actions": reload},
            {"path": "/etc/containers/policy.json", "actions": reload},
            {"path": "/etc/containers/registries.conf", "actions": [{"type": "Special"}]},
            {"path": "/etc/containers/registries.d", "actions": reload},
            {"path": "/etc/crio/policies", "actions": reload},
            {"path": "/etc/nmstate/openshift", "actions": none},
            {"path": format!("{anchors}/openshift-config-user-ca-bundle.crt"),
                "actions": [restart(trust), restart("crio.service")]},
            {"path": "/etc/kubernetes/credential-providers", "actions": [restart("kubelet.service")]},
            {"path": "/etc/iri-registry", "actions": [restart(registry)]},
            {"path": "/usr/local/bin/load-registry-image.sh", "actions": [restart(registry)]},
            {"path": format!("{anchors}/iri-root-ca.crt"), "actions": [restart(trust)]},
        ],
        "units": [{"name": registry, "actions": [{"type": "DaemonReload"}, restart(registry)]}],
        "sshkey": {"actions": none},
    })
}
