//! What `kubectl apply -k manifests/` installs agrees with the code and asks for no more than it needs.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("manifests")
}

fn documents(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let documents = mcx::yaml::documents(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    documents.into_iter().map(|d| d.value).collect()
}

fn all() -> Vec<Value> {
    let kustomization = documents("kustomization.yaml").remove(0);
    let resources = kustomization["resources"].as_array().expect("a list").clone();
    resources.iter().flat_map(|name| documents(name.as_str().expect("a file"))).collect()
}

fn one(kind: &str, name: &str) -> Value {
    let found = all().into_iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn every_file_is_installed() {
    let listed: BTreeSet<String> = documents("kustomization.yaml")[0]["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|v| v.as_str().expect("a file").to_owned())
        .collect();
    let mut there = BTreeSet::new();
    for sub in ["", "crds/"] {
        for entry in std::fs::read_dir(folder().join(sub)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
            if name.rsplit('.').next() == Some("yaml") && name != "kustomization.yaml" {
                there.insert(format!("{sub}{name}"));
            }
        }
    }
    assert_eq!(listed, there);
}

#[test]
fn the_definitions_are_those_that_mcx_prints() {
    for crd in mcx::api::crds::all() {
        let file = format!("crds/{}.yaml", crd["spec"]["names"]["plural"].as_str().expect("a plural"));
        assert_eq!(documents(&file), [crd], "{file} is stale: write it anew from `mcx crds`");
    }
}

#[test]
fn the_image_has_the_version_of_the_crate() {
    let kustomization = documents("kustomization.yaml").remove(0);
    assert_eq!(kustomization["images"][0]["newTag"], env!("CARGO_PKG_VERSION"));
    for object in all() {
        for container in
            object.pointer("/spec/template/spec/containers").and_then(Value::as_array).into_iter().flatten()
        {
            assert_eq!(container["image"], kustomization["images"][0]["name"]);
        }
    }
}

#[test]
fn admission_knows_the_annotations_of_the_daemon_and_its_name() {
    let policy = one("ValidatingAdmissionPolicy", "machine-config-daemon");
    let variables = policy["spec"]["variables"].as_array().expect("a list");
    let owned =
        variables.iter().find(|v| v["name"] == "owned").expect("the list")["expression"].as_str().expect("text");
    let owned: Vec<String> = serde_json::from_str(owned).expect("a list of texts is JSON too");
    assert_eq!(owned, mcx::api::annotation::DAEMON_OWNED);
    let user = format!("system:serviceaccount:{}:{}", mcx::api::NAMESPACE, mcx::api::DAEMONSET);
    let condition = policy["spec"]["matchConditions"][0]["expression"].as_str().expect("text");
    assert!(condition.contains(&user), "{condition}");
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
}

#[test]
fn objects_bear_the_names_that_the_code_looks_for() {
    use mcx::api::{DAEMONSET, DEPLOYMENT, LEASE, NAMESPACE, label};
    one("Namespace", NAMESPACE);
    for (kind, name) in [("Deployment", DEPLOYMENT), ("DaemonSet", DAEMONSET)] {
        let workload = one(kind, name);
        assert_eq!(workload["metadata"]["namespace"], NAMESPACE);
        let labels = &workload["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels[label::COMPONENT], name, "a drain knows mcx's pods by it");
        assert_eq!(workload["spec"]["selector"]["matchLabels"][label::COMPONENT], name);
    }
    let role =
        all().into_iter().find(|o| o["kind"] == "Role" && o["metadata"]["namespace"] == NAMESPACE).expect("a Role");
    let rules = role["rules"].as_array().expect("rules");
    assert!(rules.iter().any(|r| r["resources"][0] == "leases" && r["resourceNames"][0] == LEASE));
}

#[test]
fn no_identity_may_do_everything_to_anything_r184() {
    let roles: Vec<Value> =
        all().into_iter().filter(|o| o["kind"].as_str().is_some_and(|k| k.ends_with("Role"))).collect();
    assert!(roles.len() >= 4, "{} roles", roles.len());
    for role in roles {
        for rule in role["rules"].as_array().expect("rules") {
            for key in ["apiGroups", "resources", "verbs"] {
                let list = rule[key].as_array().unwrap_or_else(|| panic!("{}: {key}", role["metadata"]["name"]));
                assert!(list.iter().all(|v| !v.as_str().unwrap_or("*").contains('*')), "{role}");
            }
            let secrets = rule["resources"].as_array().expect("a list").contains(&"secrets".into());
            assert!(!secrets, "nothing of mcx reads secrets");
        }
    }
}

#[test]
fn a_daemon_in_the_middle_of_an_update_is_not_killed_for_being_slow() {
    let daemon = one("DaemonSet", mcx::api::DAEMONSET);
    let pod = &daemon["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0].get("livenessProbe"), None);
    assert!(pod["terminationGracePeriodSeconds"].as_u64().is_some_and(|s| s >= 120));
    assert_eq!(pod["tolerations"], serde_json::json!([{"operator": "Exists"}]), "R-104: no taint may evict it");
    assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPropagation"], "HostToContainer");
    assert_eq!(pod["priorityClassName"], "system-node-critical");
}

#[test]
fn a_cluster_of_one_node_can_run_the_controller_while_it_is_cordoned_r212() {
    let controller = one("Deployment", mcx::api::DEPLOYMENT);
    let pod = &controller["spec"]["template"]["spec"];
    assert_eq!(pod["affinity"]["podAntiAffinity"].get("requiredDuringSchedulingIgnoredDuringExecution"), None);
    let tolerated: Vec<&str> =
        pod["tolerations"].as_array().expect("a list").iter().filter_map(|t| t["key"].as_str()).collect();
    for key in [
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/master",
        mcx::api::protocol::UNSCHEDULABLE_TAINT,
    ] {
        assert!(tolerated.contains(&key), "{key}");
    }
    let budget = one("PodDisruptionBudget", mcx::api::DEPLOYMENT);
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
}
