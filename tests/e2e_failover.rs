//! Behaviour: a controller or a daemon that dies, or stands still, at any moment of a rollout does no harm: the rollout
//! ends right, within its limit.
//!
//! `make test` runs a sample of the matrix, `make soak` (`MCX_SOAK=1`) all of it; both print what they ran.

#![allow(clippy::panic, clippy::print_stderr, reason = "test code outside of #[test] functions")]

mod harness;

use harness::{Observer, ROLLOUT, Rig, STEP, WORKERS, file, rig, source, text};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The moments: the phase of a node, and the action under which a node comes through it.
const MOMENTS: [(&str, &str); 7] = [
    ("Claimed", "Drain"),
    ("Draining", "Drain"),
    ("Applying", "Drain"),
    ("Restarting", "Restart"),
    ("Rebooting", "Reboot"),
    ("Verifying", "Reboot"),
    ("Uncordoning", "Reboot"),
];

fn soak() -> bool {
    std::env::var_os("MCX_SOAK").is_some()
}

/// All moments, or those of the sample.
fn moments(sample: &[&str]) -> Vec<(&'static str, &'static str)> {
    let run: Vec<_> = MOMENTS.into_iter().filter(|(phase, _)| soak() || sample.contains(phase)).collect();
    eprintln!("{} of {} moments: {run:?}", run.len(), MOMENTS.len());
    run
}

fn cost(rig: &Rig, action: &str) {
    let action = match action {
        "Restart" => json!({"type": "Restart", "restart": {"serviceName": "chronyd.service"}}),
        other => json!({"type": other}),
    };
    rig.set_policy(&json!({"nodeDisruptionPolicy": {"files": [{"path": "/etc/mcx-test", "actions": [action]}]}}));
}

/// Begins a rollout, waits until a worker comes through `phase` (or has come: a short one may be missed), and does it.
fn strike(rig: &Rig, round: &str, (phase, action): (&str, &str), strike: impl Fn(&str)) {
    cost(rig, action);
    let observer = Observer::start(rig, &WORKERS, 1);
    let before = rig.target("worker");
    rig.apply_source(&source("60-strike", "worker", &file("/etc/mcx-test/strike", 0o644, round)));
    let target = rig.new_target("worker", &before);
    let start = Instant::now();
    let mut looked = 0;
    let node = loop {
        let history = observer.history();
        let hit = history[looked..].iter().find(|s| s.view.phase == phase && s.view.desired == target);
        if let Some(hit) = hit {
            break Some(hit.view.name.clone());
        }
        looked = history.len();
        let over = WORKERS.iter().all(|n| observer.ever(n, |v| v.state == "Done" && v.current == target));
        if over || start.elapsed() > ROLLOUT {
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let node = node.unwrap_or_else(|| panic!("{round}: no worker ever said {phase}: {}", observer.way("w1")));
    strike(&node);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
    for name in WORKERS {
        assert_eq!(rig.node(name).text("/etc/mcx-test/strike"), round, "{name}: {}", observer.way(name));
        let boots = observer.boots(name).len();
        let most = if action == "Reboot" { 2 } else { 1 };
        assert_eq!(boots, most, "{round}: {name}: {}", observer.way(name));
    }
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn the_leader_is_killed_in_the_middle() {
    let rig = rig();
    for moment in moments(&["Draining", "Uncordoning"]) {
        strike(&rig, &format!("leader killed at {}", moment.0), moment, |_| {
            // The one that leads now may be going down with its node: then the next one is killed.
            rig.eventually(STEP, "a leader is killed", || {
                let leader = rig.leader().and_then(|name| rig.pod(&name)).ok_or("nobody leads")?;
                rig.try_signal_pod(&leader, "SIGKILL")
            });
        });
    }
}

#[test]
#[ignore = "needs the rig: make test"]
fn the_daemon_is_killed_in_the_middle() {
    let rig = rig();
    for moment in moments(&["Applying", "Restarting"]) {
        strike(&rig, &format!("daemon killed at {}", moment.0), moment, |node| {
            let pod = rig.daemon_on(node);
            // While the node goes down there may be none to kill: that is the same end.
            let id = text(&pod, "/status/containerStatuses/0/containerID").replace("containerd://", "");
            let _ = rig.node(node).try_sh(&format!("ctr -n k8s.io tasks kill -s SIGKILL {id}"));
        });
    }
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_leader_that_stood_still_while_another_took_over_does_no_harm_when_it_wakes() {
    let rig = rig();
    strike(&rig, "leader frozen", ("Claimed", "Drain"), |_| {
        let old = rig.leader().expect("a leader");
        let pod = rig.pod(&old).expect("the leader's pod");
        rig.signal_pod(&pod, "SIGSTOP");
        rig.eventually(Duration::from_secs(90), "another replica leads", || match rig.leader() {
            Some(now) if now != old => Ok(()),
            other => Err(format!("{other:?}")),
        });
        // It wakes with what it knew then, in the middle of the other's rollout. The kubelet may have ended it by now.
        let container = |pod: &Value| text(pod, "/status/containerStatuses/0/containerID");
        if rig.pod(&old).is_some_and(|now| container(&now) == container(&pod)) {
            rig.signal_pod(&pod, "SIGCONT");
        }
    });
}

#[test]
#[ignore = "needs the rig: make test"]
fn rolling_the_daemonset_in_the_middle_of_an_update_does_not_harm_it() {
    let rig = rig();
    strike(&rig, "daemons rolled", ("Draining", "Drain"), |_| {
        rig.kubectl(&["-n", "mcx-system", "rollout", "restart", "daemonset/machine-config-daemon"]);
    });
    rig.kubectl(&["-n", "mcx-system", "rollout", "status", "daemonset/machine-config-daemon", "--timeout", "120s"]);
}

#[test]
#[ignore = "needs the rig: make test"]
fn every_node_is_rebooted_those_of_the_controllers_too() {
    let rig = rig();
    cost(&rig, "Reboot");
    let observer = Observer::start(&rig, &WORKERS, 1);
    let masters = Observer::start(&rig, &["m1"], 1);
    let lease = || {
        let lease =
            rig.get("/apis/coordination.k8s.io/v1/namespaces/mcx-system/leases/machine-config-controller").unwrap();
        lease["spec"]["leaseTransitions"].as_i64().unwrap_or_default()
    };
    let (changes, before) = (lease(), (rig.target("worker"), rig.target("master")));
    for (name, role) in [("60-all", "worker"), ("60-all-masters", "master")] {
        rig.apply_source(&source(name, role, &file("/etc/mcx-test/all", 0o644, "all\n")));
    }
    let worker = rig.new_target("worker", &before.0);
    let master = rig.new_target("master", &before.1);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &worker);
    rig.all_done(ROLLOUT, "master", &["m1"], &master);
    for name in WORKERS {
        assert_eq!(observer.boots(name).len(), 2, "{name}: {}", observer.way(name));
    }
    assert_eq!(masters.boots("m1").len(), 2, "{}", masters.way("m1"));
    // Each of the four nodes may make the leader hand over once; more would be two replicas that pass it in a circle.
    let changes = lease() - changes;
    assert!(changes <= 4, "the leader changed {changes} times in a rollout over four nodes");
    observer.finish();
    masters.finish();
    rig.eventually(STEP, "both replicas are ready again", || {
        let deployment = rig.get("/apis/apps/v1/namespaces/mcx-system/deployments/machine-config-controller").unwrap();
        let ready = deployment["status"]["readyReplicas"].clone();
        if ready == 2 { Ok(()) } else { Err(ready.to_string()) }
    });
}
