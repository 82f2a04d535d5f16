//! Behaviour: the guide's "disable chrony", word for word: cordon, drain, apply, reboot, uncordon; and back again.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod harness;

use harness::{MASTER, NodeView, Observer, ROLLOUT, STEP, WORKERS, Workload, data, rig};
use std::time::Duration;

const UNIT: &str = "chronyd.service";
const PATH: &str = "/etc/systemd/system/chronyd.service";

#[test]
#[ignore = "needs the rig: make test"]
fn a_node_is_drained_before_it_changes_and_its_unit_is_off_after_the_reboot() {
    let rig = rig();
    let workers = rig.workers_by_age();
    let first = workers[0].as_str();
    let workload = Workload::start(&rig, "mcx-test-budget", 1, Some(first));
    let pod = workload.pods()[0].clone();
    let observer = Observer::start(&rig, &["m1", "w1", "w2", "w3"], 1);
    let before = rig.target("worker");

    rig.apply(&data("guide/disable-chrony.yaml"));
    let target = rig.new_target("worker", &before);

    // The budget refuses: the node is cordoned by us, says what it waits for, and nothing on it has changed.
    rig.eventually(STEP, "the drain names the budget that refuses", || {
        let view = rig.view(first);
        let named = view.drain_status.contains("mcx-test-budget") && view.drain_status.contains(&pod.0);
        if view.unschedulable && view.cordoned_by.is_some() && named {
            Ok(())
        } else {
            Err(view.line() + &view.drain_status)
        }
    });
    rig.always(Duration::from_secs(3), "a node that is not drained is not touched", || {
        let view = rig.view(first);
        if rig.node(first).exists(PATH) {
            return Err(format!("{PATH} is there already"));
        }
        if view.last_applied_drain == view.desired_drain { Err("the drain counts as done".to_owned()) } else { Ok(()) }
    });
    assert!(workload.pods().iter().any(|p| p.1 == pod.1), "the pod under the budget is gone");
    assert_eq!(observer.boots(first).len(), 1);

    workload.keep(0);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
    assert!(!workload.pods().iter().any(|p| p.1 == pod.1), "the pod was never evicted");

    for name in WORKERS {
        let node = rig.node(name);
        assert_eq!(observer.boots(name).len(), 2, "{name} is rebooted once: {}", observer.way(name));
        assert_eq!(node.enabled(UNIT), "disabled", "{name}");
        assert_eq!(node.active(UNIT), "inactive", "{name}");
        assert!(
            node.text(PATH).starts_with("[Unit]\nDescription=NTP client/server\nDocumentation=man:chronyd(8)"),
            "{name}"
        );
        assert_eq!(node.stat(PATH), "644 root:root regular file", "{name}");
        in_the_guides_order(&observer, name, &target);
    }
    assert_eq!(observer.order(&target), workers, "oldest first");
    assert_eq!(observer.boots(MASTER).len(), 1, "masters are untouched");
    assert_eq!(rig.node(MASTER).active(UNIT), "active");
    observer.finish();

    // Withdrawn: the vendor's unit and its earlier enablement come back with the next reboot.
    let observer = Observer::start(&rig, &WORKERS, 1);
    rig.delete_source("99-worker-disable-chrony");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &before);
    for name in WORKERS {
        let node = rig.node(name);
        assert_eq!(observer.boots(name).len(), 2, "{name}: {}", observer.way(name));
        assert!(!node.exists(PATH), "{name}");
        // Debian prints it through its link /lib.
        let vendors = node.unit(UNIT, "FragmentPath");
        assert!(vendors.ends_with("/lib/systemd/system/chronyd.service"), "{name}: {vendors}");
        assert_eq!(node.enabled(UNIT), "enabled", "{name}");
        assert_eq!(node.active(UNIT), "active", "{name}");
    }
    observer.finish();
}

/// Cordon, drain, reboot, uncordon, and Done last.
fn in_the_guides_order(observer: &Observer, name: &str, target: &str) {
    let seen = observer.of(name);
    let first = |what: &str, is: &dyn Fn(&NodeView) -> bool| {
        let found = seen.iter().position(|s| is(&s.view));
        found.unwrap_or_else(|| panic!("{name} never was {what}: {}", observer.way(name)))
    };
    let old_boot = seen[0].view.boot_id.clone();
    let cordoned = first("cordoned", &|v| v.unschedulable && v.cordoned_by.is_some());
    let drained =
        first("drained", &|v| v.desired_drain.starts_with("drain-") && v.last_applied_drain == v.desired_drain);
    let rebooted = first("rebooted", &|v| v.boot_id != old_boot);
    let done = first("Done", &|v| v.state == "Done" && v.current == target);
    assert!(cordoned <= drained && drained < rebooted && rebooted < done, "{name}: {}", observer.way(name));
    assert!(!seen[done].view.unschedulable, "{name} was Done before it was uncordoned: {}", observer.way(name));
    assert!(
        seen[drained..rebooted].iter().all(|s| s.view.unschedulable),
        "{name} lost its cordon before the reboot: {}",
        observer.way(name)
    );
}
