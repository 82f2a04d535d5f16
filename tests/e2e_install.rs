//! Behaviour: `kubectl apply -k manifests/` on an empty cluster makes pools, empty sources and the policy, and the
//! commands of the guide show all nodes Done.

mod harness;

use harness::{CONFIGS, MASTER, POLICIES, POOLS, STEP, WORKERS, rig, text};
use serde_json::{Value, json};

/// The words of the first line, and those of the others.
fn table(output: &str) -> (Vec<&str>, Vec<Vec<&str>>) {
    let mut lines = output.lines();
    let head = lines.next().unwrap_or_default().split_whitespace().collect();
    (head, lines.map(|line| line.split_whitespace().collect()).collect())
}

#[test]
#[ignore = "needs the rig: make test"]
fn the_guides_commands_print_its_columns_and_all_nodes_are_done() {
    let rig = rig();
    let pools = rig.kubectl(&["get", "machineconfigpool"]);
    let (head, rows) = table(&pools);
    assert_eq!(
        head,
        [
            "NAME",
            "CONFIG",
            "UPDATED",
            "UPDATING",
            "DEGRADED",
            "MACHINECOUNT",
            "READYMACHINECOUNT",
            "UPDATEDMACHINECOUNT",
            "DEGRADEDMACHINECOUNT",
            "AGE"
        ]
    );
    for (name, count) in [("master", "1"), ("worker", "3")] {
        let row = rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("no {name} in\n{pools}"));
        assert!(row[1].starts_with(&format!("rendered-{name}-")), "{pools}");
        assert_eq!(row[2..9], ["True", "False", "False", count, count, count, "0"], "{pools}");
    }

    let configs = rig.kubectl(&["get", "machineconfig"]);
    let (head, rows) = table(&configs);
    assert_eq!(head, ["NAME", "IGNITIONVERSION", "AGE"]);
    for name in ["00-master", "00-worker"] {
        assert!(rows.iter().any(|row| row[0] == name && row[1] == "3.4.0"), "{configs}");
    }
    for prefix in ["rendered-master-", "rendered-worker-"] {
        assert!(rows.iter().any(|row| row[0].starts_with(prefix) && row[1] == "3.4.0"), "{configs}");
    }

    // The guide's third command, word for word.
    let columns = r#"custom-columns=NODE:.metadata.name,DESIRED:.metadata.annotations."machineconfiguration\.alauda\.io/desiredConfig",CURRENT:.metadata.annotations."machineconfiguration\.alauda\.io/currentConfig",STATE:.metadata.annotations."machineconfiguration\.alauda\.io/state""#;
    let nodes = rig.kubectl(&["get", "node", "-o", columns]);
    let (head, rows) = table(&nodes);
    assert_eq!(head, ["NODE", "DESIRED", "CURRENT", "STATE"]);
    assert_eq!(rows.len(), 4, "{nodes}");
    for row in &rows {
        let pool = if row[0] == MASTER { "master" } else { "worker" };
        let target = rig.target(pool);
        assert_eq!(row[1..], [target.as_str(), target.as_str(), "Done"], "{nodes}");
    }

    // Short names of the published resources.
    assert_eq!(rig.kubectl(&["get", "mcp", "-o", "name"]), rig.kubectl(&["get", "machineconfigpool", "-o", "name"]));
    assert_eq!(rig.kubectl(&["get", "mc", "-o", "name"]), rig.kubectl(&["get", "machineconfig", "-o", "name"]));
}

#[test]
#[ignore = "needs the rig: make test"]
fn the_shipped_sources_are_empty_and_the_shipped_policy_is_in_effect() {
    let rig = rig();
    for role in ["master", "worker"] {
        let source = rig.get(&format!("{CONFIGS}/00-{role}")).expect("shipped");
        assert_eq!(source["spec"]["config"], json!({"ignition": {"version": "3.4.0"}}));
        assert_eq!(source["metadata"]["labels"]["machineconfiguration.alauda.io/role"], role);
    }
    let cluster = rig.get(&format!("{POLICIES}/cluster")).expect("shipped");
    let defaults = &cluster["spec"]["defaultNodeDisruptionPolicySpecAction"];
    assert_eq!(*defaults, json!({"files": [{"type": "None"}], "units": [{"type": "Reboot"}]}));
    let status = &cluster["status"]["nodeDisruptionPolicyStatus"];
    assert_eq!(status["clusterPolicies"]["sshkey"], json!({"actions": [{"type": "None"}]}));
    assert_eq!(status["defaultActions"], *defaults);
    assert_eq!(cluster["status"]["observedGeneration"], cluster["metadata"]["generation"]);
}

#[test]
#[ignore = "needs the rig: make test"]
fn what_is_shipped_comes_back_when_deleted_and_is_never_overwritten() {
    let rig = rig();
    let before: Vec<String> = WORKERS.iter().map(|n| rig.node(n).boot_id()).collect();
    for path in [format!("{CONFIGS}/00-worker"), format!("{POLICIES}/cluster"), format!("{POOLS}/master")] {
        let uid = text(&rig.get(&path).expect("shipped"), "/metadata/uid");
        rig.delete(&path);
        rig.eventually(STEP, &format!("{path} is there again"), || match rig.get(&path) {
            Some(object) if text(&object, "/metadata/uid") != uid => Ok(()),
            other => Err(format!("{:?}", other.map(|o| text(&o, "/metadata/uid")))),
        });
    }
    let policy = format!("{POLICIES}/cluster");
    let spec = json!({"defaultNodeDisruptionPolicySpecAction": {"files": [{"type": "DaemonReload"}], "units": [{"type": "None"}]}});
    rig.set_policy(&spec);
    rig.kubectl(&["-n", "mcx-system", "rollout", "restart", "deployment/machine-config-controller"]);
    rig.kubectl(&["-n", "mcx-system", "rollout", "status", "deployment/machine-config-controller", "--timeout", "90s"]);
    rig.eventually(STEP, "a new leader is at work", || rig.leader().ok_or("nobody leads"));
    let kept: Value = rig.get(&policy).expect("shipped");
    assert_eq!(kept["spec"]["defaultNodeDisruptionPolicySpecAction"], spec["defaultNodeDisruptionPolicySpecAction"]);
    for (name, target) in [(MASTER, "master"), ("w1", "worker")] {
        rig.eventually(STEP, "the nodes have what they had", || match rig.lacks(name, &rig.target(target)) {
            Some(lack) => Err(lack),
            None => Ok(()),
        });
    }
    let after: Vec<String> = WORKERS.iter().map(|n| rig.node(n).boot_id()).collect();
    assert_eq!(before, after, "nothing of this may cost a reboot");
}

#[test]
#[ignore = "needs the rig: make test"]
fn offline_and_controller_render_the_same_bytes() {
    let rig = rig();
    let source = harness::source("50-same", "worker", &harness::file("/etc/mcx-test/same", 0o640, "täglich\n"));
    rig.set_policy(&json!({"nodeDisruptionPolicy": {"files": null}}));
    let target = rig.roll_out(std::slice::from_ref(&source));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), rig.kubectl(&["get", "mc", "00-worker", "50-same", "-o", "yaml"]))
        .unwrap();
    let output = std::process::Command::new(harness::mcx_bin())
        .args(["render", "--pool", "worker", "-o", "json", "-f"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let offline: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let online = rig.get(&format!("{CONFIGS}/{target}")).expect("the target");
    assert_eq!(text(&offline, "/metadata/name"), target);
    assert_eq!(offline["spec"], online["spec"]);
}
