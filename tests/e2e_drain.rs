//! Behaviour: what an administrator does in the middle of an update is respected, and an update that is withdrawn ends
//! well.

mod harness;

use harness::{NODES, Observer, ROLLOUT, Rig, STEP, WORKERS, Workload, file, rig, source};
use serde_json::{Value, json};
use std::time::Duration;

/// Changes of `/etc/mcx-test` cost a drain.
fn cost_a_drain(rig: &Rig) {
    let files = json!([{"path": "/etc/mcx-test", "actions": [{"type": "Drain"}]}]);
    rig.set_policy(&json!({"nodeDisruptionPolicy": {"files": files}}));
}

fn config(text: &str) -> Value {
    source("60-drain", "worker", &file("/etc/mcx-test/drain", 0o644, text))
}

/// Waits until the node's drain waits for the budget of namespace `blocker`.
fn blocked(rig: &Rig, node: &str, blocker: &str) {
    rig.eventually(STEP, &format!("{node} waits for the budget in {blocker}"), || {
        let view = rig.view(node);
        if view.unschedulable && view.cordoned_by.is_some() && view.drain_status.contains(blocker) {
            Ok(())
        } else {
            Err(format!("{} {}", view.line(), view.drain_status))
        }
    });
}

#[test]
#[ignore = "needs the rig: make test"]
fn an_update_that_is_withdrawn_while_its_drain_is_blocked_ends_done_and_uncordoned() {
    let rig = rig();
    cost_a_drain(&rig);
    let first = rig.workers_by_age()[0].clone();
    let workload = Workload::start(&rig, "mcx-test-withdrawn", 1, Some(&first));
    let pods = workload.pods();
    let before = rig.target("worker");
    let observer = Observer::start(&rig, &WORKERS, 1);
    rig.apply_source(&config("never\n"));
    rig.new_target("worker", &before);
    blocked(&rig, &first, "mcx-test-withdrawn");
    rig.delete_source("60-drain");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &before);
    assert_eq!(workload.pods(), pods, "the pod under the budget was never evicted");
    assert!(!rig.node(&first).exists("/etc/mcx-test/drain"));
    assert_eq!(rig.view(&first).cordoned_by, None);
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn an_uncordon_by_hand_ends_the_attempt_and_the_next_one_finishes() {
    let rig = rig();
    cost_a_drain(&rig);
    let first = rig.workers_by_age()[0].clone();
    let workload = Workload::start(&rig, "mcx-test-uncordon", 1, Some(&first));
    let before = rig.target("worker");
    let observer = Observer::start(&rig, &WORKERS, 1);
    rig.apply_source(&config("after all\n"));
    let target = rig.new_target("worker", &before);
    blocked(&rig, &first, "mcx-test-uncordon");
    let request = rig.view(&first).desired_drain;
    rig.kubectl(&["uncordon", &first]);
    rig.eventually(STEP, "the attempt is ended and the mark is gone", || {
        // A later attempt may already have begun: then another request is on the Node.
        let seen = observer.of(&first);
        let ended = seen.iter().any(|s| {
            s.view.cordoned_by.is_none()
                && s.view.drain_status.contains(&request)
                && s.view.drain_status.contains("\"ended\":true")
        });
        if ended { Ok(()) } else { Err(rig.view(&first).line()) }
    });
    workload.keep(0);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
    let asked = |s: &harness::Seen| s.view.desired_drain.starts_with("drain-") && s.view.desired_drain != request;
    assert!(observer.of(&first).iter().any(asked), "the same request was used again");
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_foreign_cordon_is_never_lifted_and_is_shown() {
    let rig = rig();
    cost_a_drain(&rig);
    rig.kubectl(&["cordon", "w2"]);
    let before = rig.target("worker");
    let observer = Observer::start(&rig, &WORKERS, 1);
    rig.apply_source(&config("patience\n"));
    let target = rig.new_target("worker", &before);
    rig.eventually(STEP, "the pool names the node", || {
        let conditions = rig.pool("worker")["status"]["conditions"].to_string();
        if conditions.contains("w2") { Ok(()) } else { Err(conditions) }
    });
    rig.always(Duration::from_secs(5), "w2 stays cordoned by its administrator and is not drained", || {
        let view = rig.view("w2");
        if view.unschedulable && view.cordoned_by.is_none() && !rig.node("w2").exists("/etc/mcx-test/drain") {
            Ok(())
        } else {
            Err(view.line())
        }
    });
    rig.kubectl(&["uncordon", "w2"]);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_node_that_loses_its_pool_in_the_middle_finishes() {
    let rig = rig();
    cost_a_drain(&rig);
    let first = rig.workers_by_age()[0].clone();
    let workload = Workload::start(&rig, "mcx-test-poolless", 1, Some(&first));
    let before = rig.target("worker");
    rig.apply_source(&config("finished\n"));
    let target = rig.new_target("worker", &before);
    blocked(&rig, &first, "mcx-test-poolless");
    let label = "node-role.kubernetes.io/worker";
    rig.patch(&format!("{NODES}/{first}"), &json!({"metadata": {"labels": {label: null}}}));
    workload.keep(0);
    rig.eventually(ROLLOUT, "what it had begun is finished", || rig.lacks(&first, &target).map_or(Ok(()), Err));
    assert_eq!(rig.node(&first).text("/etc/mcx-test/drain"), "finished\n");
    rig.patch(&format!("{NODES}/{first}"), &json!({"metadata": {"labels": {label: ""}}}));
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
}
