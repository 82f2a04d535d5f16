//! Writing a node disruption policy: what changes of files and units cost a node.

use super::text;
use crate::api::machine_configuration::PolicyAction;
use crate::api::{API_VERSION, CLUSTER};
use crate::yaml::{self, Form};

/// The `MachineConfiguration` in which each of these paths and units has these actions.
pub fn policy(paths: &[String], units: &[String], actions: &[PolicyAction]) -> String {
    let entries = |key: &'static str, names: &[String]| {
        let entry = |name: &String| Form::Fields(vec![(key, text(name)), ("actions", list(actions))]);
        Form::Items(names.iter().map(entry).collect())
    };
    let mut policy = Vec::new();
    if !paths.is_empty() {
        policy.push(("files", entries("path", paths)));
    }
    if !units.is_empty() {
        policy.push(("units", entries("name", units)));
    }
    yaml::to_hand_written(&Form::Fields(vec![
        ("apiVersion", text(API_VERSION)),
        ("kind", text("MachineConfiguration")),
        ("metadata", Form::Fields(vec![("name", text(CLUSTER))])),
        ("spec", Form::Fields(vec![("nodeDisruptionPolicy", Form::Fields(policy))])),
    ]))
}

fn list(actions: &[PolicyAction]) -> Form {
    let action = |action: &PolicyAction| {
        let mut fields = vec![("type", text(&action.type_))];
        for (key, service) in [("reload", &action.reload), ("restart", &action.restart)] {
            let named = |name: &str| Form::Fields(vec![("serviceName", text(name))]);
            fields.extend(service.as_ref().map(|service| (key, named(&service.service_name))));
        }
        Form::Fields(fields)
    };
    Form::Items(actions.iter().map(action).collect())
}
