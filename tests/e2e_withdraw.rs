//! Behaviour: a source that cannot be applied costs one node its state and no more; withdrawing it heals without hands.

mod harness;

use harness::{Observer, ROLLOUT, STEP, WORKERS, rig, source};
use serde_json::json;
use std::time::Duration;

const UNIT: &str = "mcx-service.service";
const PATH: &str = "/etc/systemd/system/mcx-service.service";

fn unit(command: &str) -> serde_json::Value {
    let contents = format!("[Service]\nExecStart={command}\n[Install]\nWantedBy=multi-user.target\n");
    source(
        "80-service",
        "worker",
        &json!({"systemd": {"units": [{"name": UNIT, "enabled": true, "contents": contents}]}}),
    )
}

fn policy() -> serde_json::Value {
    let restart = json!([{"type": "DaemonReload"}, {"type": "Restart", "restart": {"serviceName": UNIT}}]);
    json!({"nodeDisruptionPolicy": {"units": [{"name": UNIT, "actions": restart}]}})
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_source_whose_action_fails_degrades_one_node_and_is_healed_by_deleting_it() {
    let rig = rig();
    rig.set_policy(&policy());
    let first = rig.workers_by_age()[0].clone();
    let before = rig.target("worker");
    let observer = Observer::start(&rig, &WORKERS, 1);
    // It starts and ends with an error a moment later: `systemctl restart` alone says nothing.
    rig.apply_source(&unit("/bin/sh -c 'sleep 1; exit 3'"));
    let bad = rig.new_target("worker", &before);
    let reason = rig.node(&first).degraded(ROLLOUT);
    assert!(reason.contains(UNIT) && !reason.starts_with("Drift:"), "{reason}");
    rig.eventually(STEP, "the pool names the node", || match rig.condition("worker", "NodeDegraded") {
        (status, _, message) if status == "True" && message.contains(&first) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    // Undone: the old files are back, and the node is in service.
    rig.eventually(STEP, "the failed update is undone", || {
        let view = rig.view(&first);
        if !rig.node(&first).exists(PATH) && !view.unschedulable { Ok(()) } else { Err(view.line()) }
    });
    rig.always(Duration::from_secs(4), "the others are not touched", || {
        let others = WORKERS.iter().filter(|n| **n != first).map(|n| rig.view(n));
        others.into_iter().find(|v| v.desired == bad || v.state != "Done").map_or(Ok(()), |v| Err(v.line()))
    });
    rig.delete_source("80-service");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &before);
    let node = rig.node(&first);
    assert!(!node.exists(PATH));
    assert_ne!(node.active(UNIT), "active");
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_unit_that_a_source_brings_and_restarts_can_be_withdrawn_again() {
    let rig = rig();
    rig.set_policy(&policy());
    let before = rig.target("worker");
    let observer = Observer::start(&rig, &WORKERS, 1);
    rig.roll_out(&[unit("/bin/sleep infinity")]);
    for name in WORKERS {
        assert_eq!(rig.node(name).active(UNIT), "active", "{name}");
        assert_eq!(rig.node(name).enabled(UNIT), "enabled", "{name}");
    }
    rig.delete_source("80-service");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &before);
    for name in WORKERS {
        let node = rig.node(name);
        assert!(!node.exists(PATH), "{name}");
        assert!(
            !node.exists("/etc/systemd/system/multi-user.target.wants/mcx-service.service"),
            "{name}: a dangling link"
        );
        assert_eq!(node.active(UNIT), "inactive", "{name}");
        assert_eq!(observer.boots(name).len(), 1, "{name}");
    }
    observer.finish();
}
