//! The node disruption policy in effect: what `cluster` says over what is shipped.
//!
//! Which entry a change takes and how entries combine is the parent module's; which part of an invalid policy holds is
//! the controller's (it writes `status` only from a spec without [`problems`]).

use crate::api::machine_configuration::{
    DefaultActions, FilePolicy, KeyPolicy, NodeDisruptionPolicy, NodeDisruptionPolicyStatus, PolicyAction, UnitPolicy,
};
use crate::api::{CLUSTER, MachineConfiguration, shipped};
use crate::render::finding::Finding;
use crate::render::nearest;
use crate::render::path::{is_clean, is_within};
use crate::render::rule;
use crate::render::validate::unit_name_problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most entries for files, and for units, in a spec: as the published CRD.
pub const ENTRIES: usize = 50;
/// Most actions of an entry: as the published CRD.
pub const ACTIONS: usize = 10;
/// Types of actions: as the published CRD.
const TYPES: [&str; 6] = ["Reboot", "Drain", "Reload", "Restart", "DaemonReload", "None"];

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
        let defaults = shipped::default_actions();
        Self {
            generation: 0,
            files: Vec::new(),
            units: Vec::new(),
            keys: shipped::key_policy().actions,
            default_files: defaults.files,
            default_units: defaults.units,
        }
    }

    /// What the spec of `cluster` asks for: the controller writes it into `status`, preview uses it as it is.
    ///
    /// Each part that the spec leaves out is the shipped one.
    pub fn from_spec(cluster: &MachineConfiguration) -> Self {
        let generation = cluster.metadata.generation.unwrap_or_default();
        Self::over_shipped(
            generation,
            cluster.spec.node_disruption_policy.as_ref(),
            cluster.spec.default_node_disruption_policy_spec_action.as_ref(),
        )
    }

    /// What `cluster` among these asks for, or the shipped one: for previews of a folder.
    pub fn of(policies: &[MachineConfiguration]) -> Self {
        policies.iter().find(|policy| policy.name() == CLUSTER).map_or_else(Self::shipped, Self::from_spec)
    }

    /// What the status of `cluster` says; none while it is older than the spec.
    ///
    /// A status without the defaults, an addition of ours, was written by another program: the spec's hold then.
    pub fn from_status(cluster: &MachineConfiguration) -> Option<Self> {
        let status = cluster.status.as_ref()?;
        let generation = cluster.metadata.generation.unwrap_or_default();
        if status.observed_generation? != generation {
            return None;
        }
        let shown = status.node_disruption_policy_status.as_ref()?;
        let defaults =
            shown.default_actions.as_ref().or(cluster.spec.default_node_disruption_policy_spec_action.as_ref());
        Some(Self::over_shipped(generation, shown.cluster_policies.as_ref(), defaults))
    }

    fn over_shipped(generation: i64, policy: Option<&NodeDisruptionPolicy>, defaults: Option<&DefaultActions>) -> Self {
        let mut effective = Self { generation, ..Self::shipped() };
        if let Some(policy) = policy {
            effective.files = policy.files.clone().unwrap_or_default();
            effective.units = policy.units.clone().unwrap_or_default();
            if let Some(keys) = &policy.sshkey {
                effective.keys.clone_from(&keys.actions);
            }
        }
        if let Some(defaults) = defaults {
            effective.default_files.clone_from(&defaults.files);
            effective.default_units.clone_from(&defaults.units);
        }
        effective
    }

    /// As the status shows it.
    pub fn to_status(&self) -> NodeDisruptionPolicyStatus {
        NodeDisruptionPolicyStatus {
            cluster_policies: Some(NodeDisruptionPolicy {
                files: Some(self.files.clone()),
                units: Some(self.units.clone()),
                sshkey: Some(KeyPolicy { actions: self.keys.clone() }),
            }),
            default_actions: Some(DefaultActions {
                files: self.default_files.clone(),
                units: self.default_units.clone(),
            }),
        }
    }

    /// The entry that a file takes: the longest path that equals it or is one of its parent directories.
    pub fn file_entry(&self, path: &str) -> Option<&FilePolicy> {
        self.files.iter().filter(|e| is_within(path, &e.path)).max_by_key(|e| e.path.len())
    }

    /// The entry that a unit takes: the one of its exact name.
    pub fn unit_entry(&self, name: &str) -> Option<&UnitPolicy> {
        self.units.iter().find(|e| e.name == name)
    }
}

/// What is wrong with a policy, one line each, with the field path; empty when it can be put into effect.
///
/// The API server checks some of this by the CRD's rules; a folder has no API server, and no rule there knows paths.
pub fn problems(cluster: &MachineConfiguration) -> Vec<String> {
    let mut found = Vec::new();
    if cluster.name() != CLUSTER {
        // silently ignored at the peer.
        found.push(format!(
            "metadata.name: only the object named `{CLUSTER}` is read, not `{}`",
            one_line(cluster.name())
        ));
    }
    if let Some(defaults) = &cluster.spec.default_node_disruption_policy_spec_action {
        let at = "spec.defaultNodeDisruptionPolicySpecAction";
        actions(&format!("{at}.files"), &defaults.files, &mut found);
        actions(&format!("{at}.units"), &defaults.units, &mut found);
    }
    if let Some(policy) = &cluster.spec.node_disruption_policy {
        let at = "spec.nodeDisruptionPolicy";
        let files = policy.files.as_deref().unwrap_or_default();
        let mut paths = Vec::new();
        for (i, entry) in files.iter().enumerate() {
            let at = format!("{at}.files[{i}]");
            if let Some(problem) = path_problem(&entry.path) {
                found.push(format!("{at}.path: {problem}"));
            }
            actions(&format!("{at}.actions"), &entry.actions, &mut found);
            paths.push(entry.path.as_str());
        }
        entries(&format!("{at}.files"), "path", &paths, &mut found);
        let units = policy.units.as_deref().unwrap_or_default();
        let mut names = Vec::new();
        for (i, entry) in units.iter().enumerate() {
            let at = format!("{at}.units[{i}]");
            if let Some(problem) = unit_name_problem(&entry.name) {
                found.push(format!("{at}.name: {problem}"));
            }
            actions(&format!("{at}.actions"), &entry.actions, &mut found);
            names.push(entry.name.as_str());
        }
        entries(&format!("{at}.units"), "name", &names, &mut found);
        if let Some(keys) = &policy.sshkey {
            actions(&format!("{at}.sshkey.actions"), &keys.actions, &mut found);
        }
    }
    found
}

/// The same as findings, for offline commands.
pub fn findings(cluster: &MachineConfiguration) -> Vec<Finding> {
    let object = format!("MachineConfiguration/{}", one_line(cluster.name()));
    let split = |problem: &String| {
        let (path, message) = problem.split_once(": ").unwrap_or(("", problem));
        // What to do is in the message, which knows more than the rule.
        Finding { help: String::new(), ..rule::POLICY.finding(&object, path, message) }
    };
    problems(cluster).iter().map(split).collect()
}

fn entries(at: &str, key: &str, keys: &[&str], found: &mut Vec<String>) {
    if keys.len() > ENTRIES {
        found.push(format!("{at}: {} entries; at most {ENTRIES} are allowed, name a parent directory", keys.len()));
    }
    let mut seen = BTreeSet::new();
    for (i, name) in keys.iter().enumerate() {
        if !seen.insert(name) {
            found.push(format!("{at}[{i}].{key}: `{}` has an entry already; keep one", one_line(name)));
        }
    }
}

fn actions(at: &str, list: &[PolicyAction], found: &mut Vec<String>) {
    if list.len() > ACTIONS {
        found.push(format!("{at}: {} actions; at most {ACTIONS} are allowed", list.len()));
    }
    for alone in ["Reboot", "None"] {
        if list.len() > 1 && list.iter().any(|a| a.type_ == alone) {
            found.push(format!("{at}: {alone} stands alone or not at all; remove it or the others"));
        }
    }
    for (i, action) in list.iter().enumerate() {
        let at = format!("{at}[{i}]");
        if !TYPES.contains(&action.type_.as_str()) {
            let (found_type, known) = (one_line(&action.type_), TYPES.join(", "));
            let meant = nearest::hint(&action.type_, TYPES).map_or_else(String::new, |hint| format!("; {hint}"));
            found.push(format!("{at}.type: `{found_type}` is not one of {known}{meant}"));
            // Which fields belong to it is not known.
            continue;
        }
        for (type_, field, service) in [("Reload", "reload", &action.reload), ("Restart", "restart", &action.restart)] {
            match (action.type_ == type_, service) {
                (true, None) => found.push(format!("{at}.{field}: type {type_} needs {field}.serviceName")),
                (false, Some(_)) => found.push(format!("{at}.{field}: only type {type_} has it; remove it")),
                (true, Some(service)) => {
                    if let Some(problem) = unit_name_problem(&service.service_name) {
                        found.push(format!("{at}.{field}.serviceName: {problem}"));
                    }
                }
                (false, None) => {}
            }
        }
    }
}

fn path_problem(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return Some(format!("`{}` is not absolute; begin it with /", one_line(path)));
    }
    if path.chars().any(char::is_control) {
        return Some(format!("`{}` holds a control character", one_line(path)));
    }
    (!is_clean(path))
        .then(|| format!("`{path}` is not clean and matches nothing; write it without //, ., .. and a / at its end"))
}

/// A name as it may stand in a one-line message.
fn one_line(text: &str) -> String {
    text.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn cluster(spec: &Value) -> MachineConfiguration {
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.alauda.io/v1alpha1",
            "kind": "MachineConfiguration",
            "metadata": {"name": "cluster", "generation": 3},
            "spec": spec
        }))
        .unwrap()
    }

    fn guide() -> MachineConfiguration {
        cluster(&json!({"nodeDisruptionPolicy": {
            "files": [{"path": "/etc/chrony.conf", "actions": [
                {"type": "DaemonReload"},
                {"type": "Restart", "restart": {"serviceName": "chronyd.service"}}
            ]}],
            "sshkey": {"actions": [{"type": "None"}]}
        }}))
    }

    #[test]
    fn a_policy_without_defaults_keeps_the_shipped_ones() {
        let policy = EffectivePolicy::from_spec(&guide());
        assert_eq!(policy.generation, 3);
        assert_eq!(policy.default_files[0].type_, "None");
        assert_eq!(policy.default_units[0].type_, "Reboot");
        assert_eq!(EffectivePolicy::from_spec(&cluster(&json!({}))).files, EffectivePolicy::shipped().files);
    }

    #[test]
    fn a_status_older_than_the_spec_is_not_in_effect() {
        //
        let mut object = guide();
        assert_eq!(EffectivePolicy::from_status(&object), None);
        let policy = EffectivePolicy::from_spec(&object);
        object.status = Some(crate::api::MachineConfigurationStatus {
            observed_generation: Some(2),
            node_disruption_policy_status: Some(policy.to_status()),
            conditions: None,
        });
        assert_eq!(EffectivePolicy::from_status(&object), None);
        object.status.as_mut().unwrap().observed_generation = Some(3);
        assert_eq!(EffectivePolicy::from_status(&object), Some(policy));
    }

    #[test]
    fn a_status_without_defaults_takes_those_of_the_spec() {
        let mut object = cluster(&json!({"defaultNodeDisruptionPolicySpecAction": {
            "files": [{"type": "Drain"}], "units": [{"type": "None"}]}}));
        let policy = EffectivePolicy::from_spec(&object);
        let mut shown = policy.to_status();
        shown.default_actions = None;
        object.status = Some(crate::api::MachineConfigurationStatus {
            observed_generation: Some(3),
            node_disruption_policy_status: Some(shown),
            conditions: None,
        });
        assert_eq!(EffectivePolicy::from_status(&object), Some(policy));
    }

    #[test]
    fn the_longest_parent_path_wins() {
        let policy = EffectivePolicy::from_spec(&cluster(&json!({"nodeDisruptionPolicy": {"files": [
            {"path": "/"}, {"path": "/etc/foo"}, {"path": "/etc"}, {"path": "/etc/foo/deep"}
        ]}})));
        for (path, entry) in [
            ("/etc/foo", "/etc/foo"),
            ("/etc/foo/x", "/etc/foo"),
            ("/etc/foo/deep/x", "/etc/foo/deep"),
            ("/etc/foobar", "/etc"),
            ("/usr/local/x", "/"),
        ] {
            assert_eq!(policy.file_entry(path).map(|e| e.path.as_str()), Some(entry), "{path}");
        }
        assert_eq!(EffectivePolicy::shipped().file_entry("/etc/x"), None);
    }

    #[test]
    fn a_valid_policy_has_no_problems() {
        assert_eq!(problems(&guide()), Vec::<String>::new());
        assert_eq!(problems(&shipped::machine_configuration()), Vec::<String>::new());
        let template = cluster(&json!({"nodeDisruptionPolicy": {"files": [{"path": "/"}], "units": [
            {"name": "a@b.service", "actions": [{"type": "Reload", "reload": {"serviceName": "a@b.service"}}]}
        ]}}));
        assert_eq!(problems(&template), Vec::<String>::new());
    }

    #[test]
    fn each_problem_names_its_field() {
        let named = |name: &str| {
            let mut object = guide();
            object.metadata.name = Some(name.to_owned());
            object
        };
        let files = |entries: Value| cluster(&json!({"nodeDisruptionPolicy": {"files": entries}}));
        let keys = |list: Value| cluster(&json!({"nodeDisruptionPolicy": {"sshkey": {"actions": list}}}));
        let many: Vec<Value> = (0..51).map(|i| json!({"path": format!("/etc/{i}")})).collect();
        let restart = |name: &str| json!([{"type": "Restart", "restart": {"serviceName": name}}]);
        for (object, path, text) in [
            (named("other"), "metadata.name", "`cluster`"),
            (files(json!([{"path": "etc"}])), "spec.nodeDisruptionPolicy.files[0].path", "not absolute"),
            (files(json!([{"path": ""}])), "spec.nodeDisruptionPolicy.files[0].path", "not absolute"),
            (files(json!([{"path": "/etc/"}])), "spec.nodeDisruptionPolicy.files[0].path", "not clean"),
            (files(json!([{"path": "/etc/../x"}])), "spec.nodeDisruptionPolicy.files[0].path", "not clean"),
            (files(json!([{"path": "/a\nb"}])), "spec.nodeDisruptionPolicy.files[0].path", "control character"),
            (files(json!([{"path": "/a"}, {"path": "/a"}])), "spec.nodeDisruptionPolicy.files[1].path", "already"),
            (files(json!(many)), "spec.nodeDisruptionPolicy.files", "51 entries"),
            (
                cluster(&json!({"nodeDisruptionPolicy": {"units": [{"name": "chronyd"}]}})),
                "spec.nodeDisruptionPolicy.units[0].name",
                "no suffix",
            ),
            (
                keys(json!([{"type": "Reboot"}, {"type": "Drain"}])),
                "spec.nodeDisruptionPolicy.sshkey.actions",
                "Reboot stands alone",
            ),
            (
                keys(json!([{"type": "None"}, {"type": "Drain"}])),
                "spec.nodeDisruptionPolicy.sshkey.actions",
                "None stands alone",
            ),
            (
                keys(json!([{"type": "restart", "restart": {"serviceName": "a.service"}}])),
                "spec.nodeDisruptionPolicy.sshkey.actions[0].type",
                "`restart` is not one of Reboot, Drain, Reload, Restart, DaemonReload, None; did you mean Restart?",
            ),
            (
                keys(json!([{"type": "daemon-reload"}])),
                "spec.nodeDisruptionPolicy.sshkey.actions[0].type",
                "did you mean DaemonReload?",
            ),
            (keys(json!([{"type": "Special"}])), "spec.nodeDisruptionPolicy.sshkey.actions[0].type", "Special"),
            (
                keys(json!([{"type": "Restart"}])),
                "spec.nodeDisruptionPolicy.sshkey.actions[0].restart",
                "restart.serviceName",
            ),
            (
                keys(json!([{"type": "Drain", "reload": {"serviceName": "a.service"}}])),
                "spec.nodeDisruptionPolicy.sshkey.actions[0].reload",
                "only type Reload",
            ),
            (
                keys(restart("a b.service")),
                "spec.nodeDisruptionPolicy.sshkey.actions[0].restart.serviceName",
                "holds ' '",
            ),
            (
                keys(restart("a.servce")),
                "spec.nodeDisruptionPolicy.sshkey.actions[0].restart.serviceName",
                "kind of unit",
            ),
            (
                cluster(&json!({"defaultNodeDisruptionPolicySpecAction": {"files": [{"type": "x"}], "units": []}})),
                "spec.defaultNodeDisruptionPolicySpecAction.files[0].type",
                "not one of",
            ),
        ] {
            let found = problems(&object);
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert!(found[0].starts_with(&format!("{path}: ")) && found[0].contains(text), "{path}: {found:?}");
            assert!(!found[0].contains('\n'), "{found:?}");
        }
    }
}
