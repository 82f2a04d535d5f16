//! The objects that mcx creates whenever they are absent, and never overwrites.

use super::machine_configuration::{
    DefaultActions, KeyPolicy, MachineConfiguration, MachineConfigurationSpec, NodeDisruptionPolicy, PolicyAction,
};
use super::{
    CLUSTER, IGNITION_VERSION, MachineConfig, MachineConfigPool, MachineConfigPoolSpec, MachineConfigSpec, label,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::json;
use std::collections::BTreeMap;

fn labels(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

/// Pools `master` and `worker`: by role label.
pub fn pools() -> Vec<MachineConfigPool> {
    [(label::MASTER, label::NODE_ROLE_MASTER), (label::WORKER, label::NODE_ROLE_WORKER)]
        .into_iter()
        .map(|(name, role)| {
            MachineConfigPool::new(
                name,
                MachineConfigPoolSpec {
                    machine_config_selector: Some(LabelSelector {
                        match_labels: Some(labels(label::ROLE, name)),
                        ..LabelSelector::default()
                    }),
                    node_selector: Some(LabelSelector {
                        match_labels: Some(labels(role, "")),
                        ..LabelSelector::default()
                    }),
                    ..MachineConfigPoolSpec::default()
                },
            )
        })
        .collect()
}

/// Sources `00-master` and `00-worker`: empty Ignition 3.4.0.
pub fn sources() -> Vec<MachineConfig> {
    [label::MASTER, label::WORKER]
        .into_iter()
        .map(|role| MachineConfig {
            metadata: ObjectMeta {
                name: Some(format!("00-{role}")),
                labels: Some(labels(label::ROLE, role)),
                ..ObjectMeta::default()
            },
            spec: MachineConfigSpec {
                config: Some(json!({"ignition": {"version": IGNITION_VERSION}}).into()),
                kernel_arguments: None,
            },
        })
        .collect()
}

fn action(type_: &str) -> PolicyAction {
    PolicyAction { type_: type_.to_owned(), reload: None, restart: None }
}

/// What holds for files and units without an entry, unless `cluster` says otherwise: files None, units Reboot.
pub fn default_actions() -> DefaultActions {
    DefaultActions { files: vec![action("None")], units: vec![action("Reboot")] }
}

/// What SSH keys cost unless `cluster` says otherwise: None.
pub fn key_policy() -> KeyPolicy {
    KeyPolicy { actions: vec![action("None")] }
}

/// The one `MachineConfiguration`, `cluster`.
pub fn machine_configuration() -> MachineConfiguration {
    MachineConfiguration::new(
        CLUSTER,
        MachineConfigurationSpec {
            default_node_disruption_policy_spec_action: Some(default_actions()),
            node_disruption_policy: Some(NodeDisruptionPolicy { files: None, units: None, sshkey: Some(key_policy()) }),
        },
    )
}
