//! `mcx plan` between folders: what a change costs, who goes when, who waits and why, before anybody applies it.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

use command_line::{command, err, mcx, out};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;

const PREFIX: &str = "machineconfiguration.alauda.io/";

fn plan(args: &[&str]) -> Output {
    mcx(&[&["plan"], args].concat())
}

/// The plan for programs; it must be one.
fn json_of(args: &[&str]) -> Value {
    let output = plan(&[args, &["-o", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    serde_json::from_str(out(&output)).unwrap()
}

fn pool<'a>(plan: &'a Value, name: &str) -> &'a Value {
    plan["pools"].as_array().unwrap().iter().find(|p| p["pool"] == name).unwrap_or_else(|| panic!("no {name}: {plan}"))
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(name), value.to_string()).unwrap();
}

fn copy(folder: &Path, example: &str) {
    fs::copy(format!("{}/examples/{example}", env!("CARGO_MANIFEST_DIR")), folder.join(example)).unwrap();
}

fn path(folder: &tempfile::TempDir) -> String {
    folder.path().display().to_string()
}

/// A folder with the guide's objects of these names.
fn examples(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        copy(folder.path(), name);
    }
    folder
}

/// A worker, Done at `config`.
fn node(name: &str, age: u32, config: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z"),
            "labels": {"node-role.kubernetes.io/worker": ""},
            "annotations": {
                format!("{PREFIX}state"): "Done",
                format!("{PREFIX}currentConfig"): config,
                format!("{PREFIX}desiredConfig"): config,
            }
        },
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}
    })
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// What a cluster with nothing but what mcx creates has on its workers.
fn empty_config() -> String {
    let plan = json_of(&["--to", "examples/chrony.yaml"]);
    pool(&plan, "worker")["updates"][0]["from"].as_str().unwrap().to_owned()
}

fn worker_pool(spec: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": format!("{PREFIX}v1alpha1"), "kind": "MachineConfigPool", "metadata": {"name": "worker"},
        "spec": {
            "machineConfigSelector": {"matchLabels": {format!("{PREFIX}role"): "worker"}},
            "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}}
        }
    });
    for (key, value) in spec.as_object().unwrap() {
        pool["spec"][key] = value.clone();
    }
    pool
}

#[test]
fn chrony_with_its_policy_restarts_chronyd_and_drains_nobody() {
    let folder = examples(&["chrony.yaml", "chrony-policy.yaml"]);
    let output = plan(&["--to", &path(&folder), "--exit-code"]);
    assert_eq!(output.status.code(), Some(10), "{}", err(&output));
    for part in [
        "pool worker: no drain, no reboot",
        "+ file /etc/chrony.conf",
        "actions   DaemonReload, Restart chronyd.service",
        "Restart chronyd.service <- file /etc/chrony.conf",
        "MachineConfiguration cluster of the new state",
        "pool master: nothing changes",
    ] {
        assert!(out(&output).contains(part), "{part} in {}", out(&output));
    }
    assert!(out(&output).lines().all(|line| line.chars().count() <= 80), "{}", out(&output));
}

#[test]
fn without_the_policy_the_same_file_costs_nothing_by_default() {
    let plan = json_of(&["--to", "examples/chrony.yaml"]);
    assert_eq!(plan["policy"], "as shipped: the new state has no MachineConfiguration cluster");
    let update = &pool(&plan, "worker")["updates"][0];
    assert_eq!(update["actions"], json!([]));
    assert_eq!(update["causes"], json!([{"action": "None", "item": "file /etc/chrony.conf", "entry": "default"}]));
    assert_eq!(
        (&update["drain"], &update["reboot"], &plan["cost"]),
        (&json!(false), &json!(false), &json!("noDisruption"))
    );
}

#[test]
fn disabling_chrony_reboots_and_says_that_the_default_asks_for_it() {
    let folder = examples(&["disable-chrony.yaml", "chrony-policy.yaml"]);
    let output = plan(&["--to", &path(&folder), "--exit-code"]);
    assert_eq!(output.status.code(), Some(12), "{}", err(&output));
    assert!(out(&output).contains("Reboot <- unit chronyd.service (no policy entry)"), "{}", out(&output));
    let policy = json!({"apiVersion": format!("{PREFIX}v1alpha1"), "kind": "MachineConfiguration",
        "metadata": {"name": "cluster"}, "spec": {"nodeDisruptionPolicy": {"units": [
            {"name": "chronyd.service", "actions": [{"type": "Drain"}]}]}}});
    fs::remove_file(folder.path().join("chrony-policy.yaml")).unwrap();
    write(folder.path(), "policy.json", &policy);
    assert_eq!(plan(&["--to", &path(&folder), "--exit-code"]).status.code(), Some(11));
}

#[test]
fn a_drop_in_of_a_unit_that_nothing_defines_is_named_itself() {
    let folder = tempfile::tempdir().unwrap();
    let source = json!({"apiVersion": format!("{PREFIX}v1alpha1"), "kind": "MachineConfig",
        "metadata": {"name": "50-nice", "labels": {format!("{PREFIX}role"): "worker"}},
        "spec": {"config": {"ignition": {"version": "3.4.0"}, "systemd": {"units": [
            {"name": "kubelet.service", "dropins": [{"name": "20-nice.conf", "contents": "[Service]\nNice=1\n"}]}]}}}});
    write(folder.path(), "nice.json", &source);
    let output = plan(&["--to", &path(&folder), "--diff"]);
    for part in [
        "changes   1 drop-in added",
        "+ drop-in kubelet.service/20-nice.conf",
        "Reboot <- unit kubelet.service (no policy entry)",
        "drop-in kubelet.service/20-nice.conf added\n--- /dev/null\n",
    ] {
        assert!(out(&output).contains(part), "{part} in {}", out(&output));
    }
    assert!(!out(&output).contains("+ unit") && !out(&output).contains("unit added"), "{}", out(&output));
    let plan = json_of(&["--to", &path(&folder)]);
    let changes = &pool(&plan, "worker")["updates"][0]["changes"];
    assert_eq!(changes, &json!([{"item": "drop-in kubelet.service/20-nice.conf", "difference": "added"}]));
}

#[test]
fn the_same_state_twice_is_nothing() {
    let output = plan(&["--from", "examples/", "--to", "examples/", "--exit-code"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("pool worker: nothing changes"), "{}", out(&output));
    let withdrawn = plan(&["--from", "examples/chrony.yaml", "--to", "examples/chrony-policy.yaml"]);
    assert!(out(&withdrawn).contains("- file /etc/chrony.conf"), "{}", out(&withdrawn));
}

#[test]
fn without_nodes_it_is_said_that_waves_are_not_shown_and_how_to_give_them() {
    let said = |output: &Output| out(output).split_whitespace().collect::<Vec<_>>().join(" ");
    let without = plan(&["--to", "examples/"]);
    let line = "nodes none given: who goes when is not shown; give them: kubectl get nodes -o yaml >nodes.yaml, and --to nodes.yaml";
    assert!(said(&without).contains(line), "{}", out(&without));
    assert_eq!(json_of(&["--to", "examples/"])["nodes"], 0);
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "nodes.json", &node("w1", 1, &empty_config()));
    let nodes = path(&folder);
    let with = plan(&["--to", "examples/", "--to", &nodes]);
    assert!(!out(&with).contains("none given") && out(&with).contains("1. w1"), "{}", out(&with));
    // Of a pool that has none there is nothing to say.
    let other = plan(&["--to", "examples/", "--to", &nodes, "--pool", "master"]);
    assert!(!out(&other).contains("none given"), "{}", out(&other));
}

#[test]
fn everything_that_keeps_a_node_is_said() {
    let folder = examples(&["chrony.yaml"]);
    let config = empty_config();
    let mut nodes: Vec<Value> = (1..=9).map(|n| node(&format!("w{n}"), n, &config)).collect();
    nodes[1]["spec"]["unschedulable"] = true.into();
    nodes[2]["metadata"]["annotations"][format!("{PREFIX}hold")] = "being debugged".into();
    nodes[3]["metadata"]["annotations"][format!("{PREFIX}state")] = "Degraded".into();
    nodes[3]["metadata"]["annotations"][format!("{PREFIX}reason")] = "Drift: /etc/x".into();
    nodes[4]["metadata"]["annotations"] = json!({});
    nodes[5]["spec"]["taints"] = json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]);
    nodes[6]["status"]["conditions"][0]["status"] = "False".into();
    nodes[7]["metadata"]["labels"] = json!({});
    write(folder.path(), "nodes.json", &list(&nodes));
    write(folder.path(), "pool.json", &worker_pool(&json!({"maxUnavailable": 4})));
    let plan = json_of(&["--to", &path(&folder)]);
    let worker = pool(&plan, "worker");
    let why = |name: &str| {
        let waits = worker["waits"].as_array().unwrap().iter().chain(plan["withoutPool"].as_array().unwrap());
        waits.into_iter().find(|w| w["node"] == name).map_or("", |w| w["why"].as_str().unwrap())
    };
    for (name, part) in [
        ("w2", "cordoned, and not by mcx"),
        ("w3", "being debugged"),
        ("w4", "it drifted"),
        ("w5", "no daemon"),
        ("w6", "taint ToBeDeletedByClusterAutoscaler"),
        ("w7", "NotReady"),
        ("w8", "no pool"),
    ] {
        assert!(why(name).contains(part), "{name}: {:?} in {plan:#}", why(name));
    }
    // Three of four places are taken by w2, w4 and w7, for whom it costs nothing more.
    assert_eq!(worker["waves"], json!([["w1", "w7"], ["w9"]]));
    assert_eq!((&worker["nodes"], &worker["maxUnavailable"]), (&json!(8), &json!(4)));

    write(folder.path(), "pool.json", &worker_pool(&json!({"paused": true})));
    let plan = json_of(&["--to", &path(&folder)]);
    let paused = pool(&plan, "worker");
    assert_eq!(paused["waves"], json!([]));
    assert!(paused["waits"].to_string().contains("the pool is paused (spec.paused)"), "{paused}");
}

#[test]
fn nodes_go_in_waves_and_two_custom_pools_stop_one() {
    let folder = examples(&["disable-chrony.yaml"]);
    let config = empty_config();
    let mut nodes: Vec<Value> = (1..=5).map(|n| node(&format!("w{n}"), 6 - n, &config)).collect();
    for role in ["infra", "gpu"] {
        nodes[4]["metadata"]["labels"][format!("node-role.kubernetes.io/{role}")] = "".into();
        let mut custom = worker_pool(&json!({
            "machineConfigSelector": {"matchExpressions": [
                {"key": format!("{PREFIX}role"), "operator": "In", "values": ["worker", role]}]},
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{role}"): ""}}
        }));
        custom["metadata"]["name"] = role.into();
        write(folder.path(), &format!("{role}.json"), &custom);
    }
    nodes[3]["metadata"]["labels"]["node-role.kubernetes.io/infra"] = "".into();
    write(folder.path(), "nodes.json", &list(&nodes));
    write(folder.path(), "pool.json", &worker_pool(&json!({"maxUnavailable": "70%"})));
    let plan = json_of(&["--to", &path(&folder)]);
    assert_eq!(pool(&plan, "worker")["waves"], json!([["w3", "w2"], ["w1"]]), "oldest first, 70 % of three is two");
    // A custom pool takes the sources of worker, and its nodes come from there.
    let infra = pool(&plan, "infra");
    assert_eq!((&infra["cost"], &infra["waves"]), (&json!("reboot"), &json!([["w4"]])));
    assert_eq!(infra["updates"][0]["from"], config.as_str());
    assert_eq!(infra["updates"].as_array().unwrap().len(), 1, "{infra}");
    assert_eq!(plan["withoutPool"][0]["node"], "w5");
    let why = plan["withoutPool"][0]["why"].as_str().unwrap();
    assert!(why.contains("custom pools gpu, infra"), "{why}");
}

#[test]
fn pods_in_the_input_tell_what_a_drain_meets_and_loses() {
    let folder = examples(&["disable-chrony.yaml"]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "db-0", "namespace": "shop", "uid": "u", "labels": {"app": "db"}},
        "spec": {"nodeName": "w1", "containers": [], "volumes": [{"name": "data", "emptyDir": {}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0, "desiredHealthy": 1, "currentHealthy": 1, "expectedPods": 1}
    });
    write(folder.path(), "now.json", &list(&[node("w1", 1, &empty_config()), pod, budget]));
    let output = plan(&["--to", &path(&folder)]);
    let text = out(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "blocked w1: pod shop/db-0: PodDisruptionBudget shop/db needs 1 healthy pods and has 1",
        "lost w1: pod shop/db-0",
        "emptyDir w1: pod shop/db-0 (data)",
    ] {
        assert!(text.contains(part), "{part} in {}", out(&output));
    }
    // A change that drains nobody meets nobody.
    copy(folder.path(), "chrony.yaml");
    fs::remove_file(folder.path().join("disable-chrony.yaml")).unwrap();
    assert_eq!(pool(&json_of(&["--to", &path(&folder)]), "worker")["drains"], Value::Null);
}

#[test]
fn the_lines_that_differ_are_shown_where_asked_for() {
    let without = plan(&["--to", "examples/chrony.yaml"]);
    assert!(!out(&without).contains("makestep"), "contents may be secret");
    let with = plan(&["--to", "examples/chrony.yaml", "--diff"]);
    assert!(out(&with).contains("+makestep 1.0 3"), "{}", out(&with));
}

#[test]
fn a_state_that_is_refused_has_no_plan() {
    let folder = examples(&["chrony.yaml"]);
    let text = fs::read_to_string(folder.path().join("chrony.yaml")).unwrap();
    fs::write(folder.path().join("chrony.yaml"), text.replace("/etc/chrony.conf", "etc/chrony.conf")).unwrap();
    for sides in [["--from", "examples/chrony.yaml"], ["--from", &path(&folder)]] {
        let output = plan(&[&sides[..], &["--to", &path(&folder), "--exit-code"]].concat());
        assert_eq!((output.status.code(), out(&output)), (Some(1), ""), "{}", err(&output));
        assert!(err(&output).contains("[file-path]"), "{}", err(&output));
    }
}

#[test]
fn what_cannot_be_planned_is_said_with_exit_code_2() {
    for (args, part) in [
        (&["--from", "-", "--to", "-"][..], "standard input can be read only once"),
        (
            &["--to", "examples/chrony.yaml", "--pool", "infra"],
            "there is no pool \"infra\"; known here: master, worker",
        ),
        (&["--to", "examples/none.yaml"], "examples/none.yaml"),
        (&[], "--to"),
        (&["-f", "examples/", "--kubeconfig", "/nonexistent"], "/nonexistent"),
    ] {
        let output = plan(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(part), "{part} in {}", err(&output));
    }
}

#[test]
fn a_node_that_cannot_be_read_is_a_finding_of_plan_and_of_nobody_else() {
    let folder = examples(&["chrony.yaml"]);
    write(folder.path(), "node.json", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": ["w1"]}}));
    let output = plan(&["--to", &path(&folder)]);
    assert_eq!(output.status.code(), Some(1), "{}", out(&output));
    assert!(err(&output).contains("node.json") && err(&output).contains("[field-type]"), "{}", err(&output));
    let render = mcx(&["render", "--pool", "worker", "-f", &path(&folder)]);
    assert_eq!((render.status.code(), err(&render)), (Some(0), ""));
}

#[test]
fn without_a_cluster_the_way_to_plan_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy("examples/chrony.yaml", folder.path().join("a.yaml")).unwrap();
    fs::write(folder.path().join("empty.yaml"), "").unwrap();
    for (args, expected) in [
        (
            &["-f", "a.yaml"][..],
            "-f and names ask the cluster; without one use --to: no way to the API server: this is no pod",
        ),
        (&["-f", "empty.yaml"], "nothing to apply in empty.yaml: there is no MachineConfig, "),
        (&["a.yaml", "a.yaml"], "a.yaml is a file and no rendered config; write --to a.yaml"),
    ] {
        let output = command(&[&["plan"], args].concat())
            .current_dir(&folder)
            .env("HOME", folder.path())
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
        assert!(!said.contains("os error"), "{said}");
    }
}
