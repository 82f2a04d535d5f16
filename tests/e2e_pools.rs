//! Behaviour: custom pools inherit the workers' sources, are not for masters, and a node that moves gets the other config.

mod harness;

use harness::{MASTER, NODES, Observer, ROLLOUT, Rig, STEP, file, rig, source};
use serde_json::{Value, json};
use std::time::Duration;

fn pool(name: &str, roles: &[&str]) -> Value {
    json!({
        "apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfigPool", "metadata": {"name": name},
        "spec": {
            "machineConfigSelector": {"matchExpressions": [
                {"key": "machineconfiguration.alauda.io/role", "operator": "In", "values": roles}]},
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
        },
    })
}

/// Gives or takes a role label.
fn role(rig: &Rig, node: &str, role: &str, has: bool) {
    let value = if has { json!("") } else { Value::Null };
    rig.patch(
        &format!("{NODES}/{node}"),
        &json!({"metadata": {"labels": {format!("node-role.kubernetes.io/{role}"): value}}}),
    );
}

/// Waits until the node is Done at its pool's target, and the pool has as many nodes as said.
fn in_pool(rig: &Rig, node: &str, pool: &str, count: usize) {
    rig.eventually(ROLLOUT, &format!("{node} has the config of pool {pool}, one of {count}"), || {
        let target = rig.target(pool);
        if !target.starts_with(&format!("rendered-{pool}-")) {
            return Err(format!("the target is {target:?}"));
        }
        let machines = rig.pool(pool)["status"]["machineCount"].clone();
        if machines != count {
            return Err(format!("{machines} machines"));
        }
        rig.lacks(node, &target).map_or(Ok(()), Err)
    });
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_custom_pool_inherits_the_workers_sources_and_their_changes() {
    let rig = rig();
    let observer = Observer::start(&rig, &["w1", "w2"], 1);
    rig.roll_out(&[source("60-base", "worker", &file("/etc/mcx-test/base", 0o644, "base\n"))]);
    rig.apply_source(&source("70-infra", "infra", &file("/etc/mcx-test/infra", 0o644, "infra\n")));
    rig.apply(&pool("infra", &["worker", "infra"]).to_string());
    role(&rig, "w3", "infra", true);
    in_pool(&rig, "w3", "infra", 1);
    in_pool(&rig, "w1", "worker", 2);
    let node = rig.node("w3");
    assert_eq!(
        (node.text("/etc/mcx-test/base"), node.text("/etc/mcx-test/infra")),
        ("base\n".into(), "infra\n".into())
    );
    assert!(!rig.node("w1").exists("/etc/mcx-test/infra"));

    // A change of the workers' reaches it.
    let before = rig.target("infra");
    rig.apply_source(&source("60-base", "worker", &file("/etc/mcx-test/base", 0o644, "changed\n")));
    rig.new_target("infra", &before);
    in_pool(&rig, "w3", "infra", 1);
    assert_eq!(node.text("/etc/mcx-test/base"), "changed\n");

    // Moved to another pool, and back to the workers: each time the other config, and what is no longer named goes.
    rig.apply_source(&source("70-gpu", "gpu", &file("/etc/mcx-test/gpu", 0o600, "gpu\n")));
    rig.apply(&pool("gpu", &["worker", "gpu"]).to_string());
    role(&rig, "w3", "infra", false);
    role(&rig, "w3", "gpu", true);
    in_pool(&rig, "w3", "gpu", 1);
    assert!(node.exists("/etc/mcx-test/gpu") && !node.exists("/etc/mcx-test/infra"));
    role(&rig, "w3", "gpu", false);
    in_pool(&rig, "w3", "worker", 3);
    assert!(!node.exists("/etc/mcx-test/gpu"));
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_custom_pool_over_masters_is_refused() {
    let rig = rig();
    let before = rig.view(MASTER);
    let mut over = pool("infra", &["worker", "infra"]);
    over["spec"]["nodeSelector"] = json!({"matchLabels": {"node-role.kubernetes.io/master": ""}});
    rig.apply(&over.to_string());
    rig.eventually(STEP, "the pool says why it is refused", || match rig.condition("infra", "Degraded") {
        (status, _, message) if status == "True" && message.contains("master") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    rig.always(Duration::from_secs(3), "the master stays in its pool", || {
        let view = rig.view(MASTER);
        if view.desired == before.desired && rig.pool("master")["status"]["machineCount"] == 1 {
            Ok(())
        } else {
            Err(view.line())
        }
    });
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_custom_pool_that_does_not_inherit_the_workers_is_refused() {
    let rig = rig();
    rig.apply_source(&source("70-infra", "infra", &file("/etc/mcx-test/infra", 0o644, "infra\n")));
    rig.apply(&pool("infra", &["infra"]).to_string());
    let before = rig.target("worker");
    role(&rig, "w3", "infra", true);
    rig.eventually(STEP, "the pool says why it is refused", || match rig.condition("infra", "Degraded") {
        (status, _, message) if status == "True" && message.contains("worker") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    rig.always(Duration::from_secs(2), "its node gets nothing of it", || {
        let view = rig.view("w3");
        if view.desired == before && view.state == "Done" { Ok(()) } else { Err(view.line()) }
    });
    // Put right, it heals by itself.
    rig.apply(&pool("infra", &["worker", "infra"]).to_string());
    in_pool(&rig, "w3", "infra", 1);
    assert_eq!(rig.condition("infra", "Degraded").0, "False");
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_node_of_two_custom_pools_gets_nothing_new_and_both_say_so() {
    let rig = rig();
    for name in ["infra", "gpu"] {
        rig.apply_source(&source(&format!("70-{name}"), name, &file(&format!("/etc/mcx-test/{name}"), 0o644, "x\n")));
        rig.apply(&pool(name, &["worker", name]).to_string());
    }
    role(&rig, "w3", "infra", true);
    in_pool(&rig, "w3", "infra", 1);
    let before = rig.view("w3");
    role(&rig, "w3", "gpu", true);
    for name in ["infra", "gpu"] {
        rig.eventually(STEP, &format!("pool {name} names the node"), || match rig.condition(name, "Degraded") {
            (status, _, message) if status == "True" && message.contains("w3") => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    let events = rig.kubectl(&[
        "get",
        "events",
        "-A",
        "--field-selector",
        "involvedObject.kind=Node,involvedObject.name=w3",
        "-o",
        "name",
    ]);
    assert!(!events.is_empty(), "no Event on the Node");
    let target = rig.target("infra");
    rig.apply_source(&source("71-infra", "infra", &file("/etc/mcx-test/second", 0o644, "x\n")));
    rig.new_target("infra", &target);
    rig.always(Duration::from_secs(3), "the node gets nothing", || {
        let view = rig.view("w3");
        if view.desired == before.desired { Ok(()) } else { Err(view.line()) }
    });
    role(&rig, "w3", "gpu", false);
    in_pool(&rig, "w3", "infra", 1);
    assert!(rig.node("w3").exists("/etc/mcx-test/second"));
}
