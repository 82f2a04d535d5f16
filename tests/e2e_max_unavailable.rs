//! Behaviour: `maxUnavailable` and `paused`, judged by an observer that knows only what any client sees.

mod harness;

use harness::{NODES, Observer, POOLS, ROLLOUT, Rig, STEP, Seen, WORKERS, file, rig, source};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

fn limit(rig: &Rig, value: &Value) {
    rig.patch(&format!("{POOLS}/worker"), &json!({"spec": {"maxUnavailable": value}}));
}

/// Changes of `/etc/mcx-test` cost these actions.
fn cost(rig: &Rig, actions: &Value) {
    rig.set_policy(&json!({"nodeDisruptionPolicy": {"files": [{"path": "/etc/mcx-test", "actions": actions}]}}));
}

fn config(text: &str) -> Value {
    source("60-limit", "worker", &file("/etc/mcx-test/limit", 0o644, text))
}

/// Most nodes that were on their way at one moment.
fn most_at_once(seen: &[Seen]) -> usize {
    let (mut away, mut most) = (BTreeSet::new(), 0);
    for seen in seen {
        if seen.view.unavailable() {
            away.insert(&seen.view.name)
        } else {
            away.remove(&seen.view.name)
        };
        most = most.max(away.len());
    }
    most
}

#[test]
#[ignore = "needs the rig: make test"]
fn two_of_three_at_a_time_and_never_three() {
    let rig = rig();
    limit(&rig, &json!(2));
    cost(&rig, &json!([{"type": "Reboot"}]));
    let observer = Observer::start(&rig, &WORKERS, 2);
    let before = rig.target("worker");
    rig.apply_source(&config("a\n"));
    let target = rig.new_target("worker", &before);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
    for name in WORKERS {
        assert_eq!(observer.boots(name).len(), 2, "{name}: {}", observer.way(name));
    }
    assert_eq!(most_at_once(&observer.finish()), 2, "the limit is also what is used");
}

#[test]
#[ignore = "needs the rig: make test"]
fn there_and_back_again_in_quick_succession_stays_within_the_limit() {
    let rig = rig();
    limit(&rig, &json!(2));
    cost(&rig, &json!([{"type": "Drain"}]));
    let before = rig.target("worker");
    rig.apply_source(&config("a\n"));
    let a = rig.new_target("worker", &before);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &a);
    let observer = Observer::start(&rig, &WORKERS, 2);
    for text in ["b\n", "a\n", "c\n", "b\n", "a\n"] {
        let now = rig.target("worker");
        rig.apply_source(&config(text));
        rig.new_target("worker", &now);
    }
    assert_eq!(rig.target("worker"), a, "equal content is the same config");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &a);
    for name in WORKERS {
        assert_eq!(rig.node(name).text("/etc/mcx-test/limit"), "a\n", "{name}: {}", observer.way(name));
    }
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_paused_pool_renders_and_says_who_waits_but_hands_out_nothing() {
    let rig = rig();
    let before = rig.target("worker");
    rig.patch(&format!("{POOLS}/worker"), &json!({"spec": {"paused": true}}));
    rig.apply_source(&config("paused\n"));
    let target = rig.new_target("worker", &before);
    rig.eventually(STEP, "the pool says that it is paused", || match rig.condition("worker", "Updated") {
        (status, _, message) if status == "False" && message.contains("paused") && message.contains('3') => Ok(()),
        other => Err(format!("{other:?}")),
    });
    rig.always(Duration::from_secs(4), "no node is given anything", || {
        let moved = WORKERS.iter().map(|n| rig.view(n)).find(|v| v.desired != before);
        moved.map_or(Ok(()), |v| Err(v.line()))
    });
    rig.patch(&format!("{POOLS}/worker"), &json!({"spec": {"paused": false}}));
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_held_node_waits_and_is_named_while_the_others_go_on() {
    let rig = rig();
    let before = rig.target("worker");
    let hold = |value: Value| {
        rig.patch(
            &format!("{NODES}/w1"),
            &json!({"metadata": {"annotations": {"machineconfiguration.alauda.io/hold": value}}}),
        );
    };
    hold("the accountants need it".into());
    rig.apply_source(&config("held\n"));
    let target = rig.new_target("worker", &before);
    for name in ["w2", "w3"] {
        rig.eventually(ROLLOUT, "the others go on", || rig.lacks(name, &target).map_or(Ok(()), Err));
    }
    assert_eq!(rig.view("w1").desired, before);
    rig.eventually(STEP, "the pool names the node and the reason", || {
        let conditions = rig.pool("worker")["status"]["conditions"].to_string();
        if conditions.contains("w1") && conditions.contains("accountants") { Ok(()) } else { Err(conditions) }
    });
    hold(Value::Null);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
}

#[test]
#[ignore = "needs the rig: make test"]
fn an_unreadable_limit_is_named_and_hands_out_nothing() {
    let rig = rig();
    let before = rig.target("worker");
    for bad in [json!(-1), json!("abc")] {
        limit(&rig, &bad);
        rig.apply_source(&config(&format!("{bad}\n")));
        rig.eventually(STEP, "the pool names the field", || match rig.condition("worker", "Degraded") {
            (status, _, message) if status == "True" && message.contains("maxUnavailable") => Ok(()),
            other => Err(format!("{bad}: {other:?}")),
        });
        rig.always(Duration::from_secs(2), "no node is given anything", || {
            let moved = WORKERS.iter().map(|n| rig.view(n)).find(|v| v.desired != before);
            moved.map_or(Ok(()), |v| Err(v.line()))
        });
    }
    // Zero means one, as published.
    limit(&rig, &json!("0%"));
    let observer = Observer::start(&rig, &WORKERS, 1);
    let target = rig.target("worker");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
    assert_eq!(most_at_once(&observer.finish()).max(1), 1);
    assert_eq!(rig.condition("worker", "Degraded").0, "False");
}
