//! Behaviour: the guide's chrony example, word for word.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod harness;

use harness::{MASTER, Observer, POLICIES, ROLLOUT, STEP, WORKERS, data, rig, scripts};
use serde_json::json;
use std::process::Command;

/// The guide's steps 1 to 3: a temporary file, `base64 -w0` of it, and the source with the result in its place.
fn chrony_source() -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chrony.conf");
    std::fs::write(&path, data("guide/chrony.conf")).unwrap();
    let encoded = Command::new("base64").arg("-w0").arg(&path).output().unwrap();
    assert!(encoded.status.success());
    data("guide/chrony.yaml").replace("<encoded-content>", &String::from_utf8(encoded.stdout).unwrap())
}

#[test]
#[ignore = "needs the rig: make test"]
fn workers_follow_one_at_a_time_and_chronyd_is_restarted_exactly_once() {
    let rig = rig();
    let workers = rig.workers_by_age();
    let observer = Observer::start(&rig, &["m1", "w1", "w2", "w3"], 1);
    let starts: Vec<usize> = WORKERS.iter().map(|n| rig.node(n).starts("chronyd.service")).collect();
    let master_starts = rig.node(MASTER).starts("chronyd.service");
    let before = rig.target("worker");

    // The policy first, and only when `status` shows it the source: the guide's order.
    rig.apply(&data("guide/chrony-policy.yaml"));
    rig.eventually(STEP, "status shows the policy", || {
        let cluster = rig.get(&format!("{POLICIES}/cluster")).ok_or("no `cluster`")?;
        let files = &cluster["status"]["nodeDisruptionPolicyStatus"]["clusterPolicies"]["files"];
        let wanted = json!([{"path": "/etc/chrony.conf", "actions": [
            {"type": "DaemonReload"}, {"type": "Restart", "restart": {"serviceName": "chronyd.service"}}]}]);
        if *files == wanted { Ok(()) } else { Err(files.to_string()) }
    });
    rig.apply(&chrony_source());
    let target = rig.new_target("worker", &before);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);

    let conf = data("guide/chrony.conf");
    for (name, starts) in WORKERS.iter().zip(starts) {
        let node = rig.node(name);
        assert_eq!(node.text("/etc/chrony.conf"), conf, "{name}");
        assert_eq!(node.stat("/etc/chrony.conf"), "644 root:root regular file", "{name}");
        assert_eq!(node.starts("chronyd.service"), starts + 1, "{name}: {}", observer.way(name));
        assert_eq!(node.active("chronyd.service"), "active", "{name}");
        assert_eq!(observer.boots(name).len(), 1, "{name} was rebooted: {}", observer.way(name));
        assert!(!observer.ever(name, |v| v.unschedulable), "{name} was cordoned: {}", observer.way(name));
        assert!(
            !observer.ever(name, |v| v.desired_drain.starts_with("drain-") && v.desired_drain.contains(&target)),
            "{name} asked for a drain"
        );
    }
    assert_eq!(observer.order(&target), workers, "oldest first");

    let vendor = std::fs::read_to_string(scripts().join("guest/etc/chrony.conf")).unwrap();
    let master = rig.node(MASTER);
    assert_eq!(master.text("/etc/chrony.conf"), vendor);
    assert_eq!(master.starts("chronyd.service"), master_starts);
    let seen = observer.of(MASTER);
    assert!(seen.iter().all(|s| s.view.desired == seen[0].view.desired), "masters are untouched");
    observer.finish();

    // Taken away again: the vendor's file comes back, and chronyd reads it.
    rig.delete_source("99-worker-chrony");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &before);
    for name in WORKERS {
        let node = rig.node(name);
        assert_eq!(node.text("/etc/chrony.conf"), vendor, "{name}");
        assert_eq!(node.active("chronyd.service"), "active", "{name}");
    }
}

#[test]
#[ignore = "needs the rig: make test"]
fn writing_the_same_bytes_in_other_clothes_changes_nothing() {
    let rig = rig();
    let plain = harness::source("60-clothes", "worker", &harness::file("/etc/mcx-test/clothes", 0o644, "abc\n"));
    let target = rig.roll_out(&[plain]);
    let observer = Observer::start(&rig, &WORKERS, 1);
    // base64 for percent-encoding, and a name that sorts elsewhere: the same node, so the same config.
    let mut other = harness::source(
        "61-clothes",
        "worker",
        &json!({"storage": {"files": [{
        "path": "/etc/mcx-test/clothes", "mode": 420, "contents": {"source": "data:text/plain;base64,YWJjCg=="}}]}}),
    );
    other["metadata"]["labels"]["extra"] = "yes".into();
    rig.apply_source(&other);
    rig.delete_source("60-clothes");
    rig.always(std::time::Duration::from_secs(4), "the target stays", || {
        let now = rig.target("worker");
        if now == target { Ok(()) } else { Err(now) }
    });
    assert!(observer.finish().iter().all(|s| s.view.state == "Done"));
}
