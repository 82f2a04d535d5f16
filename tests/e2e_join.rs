//! Behaviour: a node that joins later gets the right config by itself, and one that was away catches up.

mod harness;

use harness::{Observer, POOLS, ROLLOUT, STEP, WORKERS, file, rig, source};
use serde_json::json;
use std::time::Duration;

#[test]
#[ignore = "needs the rig: make test"]
fn a_node_that_joins_later_gets_the_config_by_itself() {
    let rig = rig();
    let target = rig.roll_out(&[source("60-here", "worker", &file("/etc/mcx-test/here", 0o600, "here\n"))]);
    let observer = Observer::start(&rig, &WORKERS, 1);
    let node = rig.join("w4", None);
    rig.all_done(ROLLOUT, "worker", &["w1", "w2", "w3", "w4"], &target);
    assert_eq!(node.text("/etc/mcx-test/here"), "here\n");
    assert_eq!(node.stat("/etc/mcx-test/here"), "600 root:root regular file");
    assert_eq!(rig.pool("worker")["status"]["machineCount"], 4);
    let moved = observer.finish().into_iter().find(|s| s.view.state != "Done" || s.view.desired != target);
    assert!(moved.is_none(), "a node that joins is no business of the others: {moved:?}");

    // The same machine registers again under its name: another Node, whose disk already has the config.
    rig.kubectl(&["delete", "node", "w4"]);
    node.sh("systemctl restart kubelet");
    rig.eventually(STEP, "the kubelet has registered again", || match rig.get("/api/v1/nodes/w4") {
        Some(_) => Ok(()),
        None => Err("no Node w4"),
    });
    rig.kubectl(&["label", "node", "w4", "node-role.kubernetes.io/worker="]);
    rig.all_done(ROLLOUT, "worker", &["w1", "w2", "w3", "w4"], &target);
    assert_eq!(node.text("/etc/mcx-test/here"), "here\n");

    node.remove();
    rig.eventually(STEP, "a node that is gone is no longer counted", || {
        let count = rig.pool("worker")["status"]["machineCount"].clone();
        if count == 3 { Ok(()) } else { Err(count.to_string()) }
    });
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_node_without_a_role_is_left_alone_until_it_has_one() {
    let rig = rig();
    let target = rig.roll_out(&[source("60-here", "worker", &file("/etc/mcx-test/here", 0o644, "here\n"))]);
    let node = rig.join("w4", None);
    rig.all_done(ROLLOUT, "worker", &["w4"], &target);
    rig.kubectl(&["label", "node", "w4", "node-role.kubernetes.io/worker-"]);
    rig.eventually(STEP, "the pool lets it go", || {
        let count = rig.pool("worker")["status"]["machineCount"].clone();
        if count == 3 { Ok(()) } else { Err(count.to_string()) }
    });
    rig.apply_source(&source("60-here", "worker", &file("/etc/mcx-test/here", 0o644, "later\n")));
    let next = rig.new_target("worker", &target);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &next);
    assert_eq!(node.view().desired, target);
    assert_eq!(node.text("/etc/mcx-test/here"), "here\n");
    rig.kubectl(&["label", "node", "w4", "node-role.kubernetes.io/worker="]);
    rig.all_done(ROLLOUT, "worker", &["w4"], &next);
    assert_eq!(node.text("/etc/mcx-test/here"), "later\n");
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_node_that_was_cut_off_catches_up() {
    let rig = rig();
    // Two, so that the node that is away does not hold up the others.
    rig.patch(&format!("{POOLS}/worker"), &json!({"spec": {"maxUnavailable": 2}}));
    let node = rig.node("w2");
    let before = rig.target("worker");
    let observer = Observer::start(&rig, &WORKERS, 2);
    node.cut();
    rig.eventually(STEP, "w2 is NotReady", || if node.view().ready { Err("Ready") } else { Ok(()) });
    rig.apply_source(&source("60-away", "worker", &file("/etc/mcx-test/away", 0o644, "first\n")));
    let first = rig.new_target("worker", &before);
    for name in ["w1", "w3"] {
        rig.eventually(ROLLOUT, "the others go on", || rig.lacks(name, &first).map_or(Ok(()), Err));
    }
    assert!(!node.exists("/etc/mcx-test/away"));
    assert_eq!(rig.condition("worker", "Updated").0, "False");
    // It has missed one config by now, and gets the newest.
    rig.apply_source(&source("60-away", "worker", &file("/etc/mcx-test/away", 0o644, "second\n")));
    let second = rig.new_target("worker", &first);
    node.mend();
    rig.all_done(ROLLOUT, "worker", &WORKERS, &second);
    assert_eq!(node.text("/etc/mcx-test/away"), "second\n");
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_node_whose_power_fails_in_the_middle_goes_on_by_itself() {
    let rig = rig();
    rig.set_policy(
        &json!({"nodeDisruptionPolicy": {"files": [{"path": "/etc/mcx-test", "actions": [{"type": "Reboot"}]}]}}),
    );
    let before = rig.target("worker");
    let first = rig.workers_by_age()[0].clone();
    let node = rig.node(&first);
    let observer = Observer::start(&rig, &WORKERS, 1);
    rig.apply_source(&source("60-power", "worker", &file("/etc/mcx-test/power", 0o644, "on\n")));
    let target = rig.new_target("worker", &before);
    rig.eventually(STEP, "its update is under way", || {
        let view = node.view();
        if matches!(view.phase.as_str(), "Applying" | "Restarting" | "Rebooting") { Ok(()) } else { Err(view.line()) }
    });
    // The power may go just when the node has gone down by itself to reboot.
    let killed = rig.script("node.sh", &["kill", &first]).status.success();
    if killed {
        node.start();
    }
    node.wait();
    rig.all_done(Duration::from_mins(5), "worker", &WORKERS, &target);
    assert_eq!(node.text("/etc/mcx-test/power"), "on\n");
    observer.finish();
}
