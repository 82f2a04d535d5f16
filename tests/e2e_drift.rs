//! Behaviour: what differs on disk from the config is reported and never overwritten; a person puts it right by hand or
//! by the force file.

mod harness;

use harness::{Node, Observer, ROLLOUT, Rig, STEP, WORKERS, file, rig, source};
use serde_json::{Value, json};
use std::time::Duration;

const FILE: &str = "/etc/mcx-test/drift";
const UNIT: &str = "mcx-drift.service";
const BODY: &str = "/etc/systemd/system/mcx-drift.service";
const DROP_IN: &str = "/etc/systemd/system/mcx-drift.service.d/10-mcx.conf";
/// Puts the file back as the config says.
const REPAIR: &str = "rm -rf /etc/mcx-test/drift; (umask 022; echo one >/etc/mcx-test/drift)";

/// A file and a unit, at the cost of a daemon-reload.
fn managed(rig: &Rig) -> String {
    rig.set_policy(
        &json!({"nodeDisruptionPolicy": {"units": [{"name": UNIT, "actions": [{"type": "DaemonReload"}]}]}}),
    );
    let mut body = file(FILE, 0o644, "one\n");
    body["systemd"] = json!({"units": [{
        "name": UNIT, "enabled": true,
        "contents": "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
        "dropins": [{"name": "10-mcx.conf", "contents": "[Service]\nEnvironment=A=1\n"}],
    }]});
    rig.roll_out(&[source("70-drift", "worker", &body)])
}

/// Breaks the node and checks that it says so and leaves it alone; puts it right and checks that it is Done.
fn breaks_and_heals(rig: &Rig, node: Node<'_>, case: &str, (break_it, repair): (&str, &str), named: &str) {
    node.sh(break_it);
    let reason = node.degraded(STEP);
    assert!(reason.starts_with("Drift:") && reason.contains(named), "{case}: {reason}");
    let broken = node.try_sh(&format!("ls -lan {FILE} {BODY} {DROP_IN}; cat {FILE} {BODY} {DROP_IN}")).stdout;
    rig.always(Duration::from_secs(1), "drift is not overwritten", || {
        let now = node.try_sh(&format!("ls -lan {FILE} {BODY} {DROP_IN}; cat {FILE} {BODY} {DROP_IN}")).stdout;
        if now == broken { Ok(()) } else { Err(case.to_owned()) }
    });
    node.sh(repair);
    rig.eventually(STEP, &format!("{case}: Done after the repair"), || {
        let view = node.view();
        if view.state == "Done" && view.reason.is_empty() { Ok(()) } else { Err(view.line()) }
    });
}

#[test]
#[ignore = "needs the rig: make test"]
fn every_kind_of_drift_is_reported_and_healed_by_hand_without_a_reboot() {
    let rig = rig();
    managed(&rig);
    let node = rig.node("w1");
    let observer = Observer::start(&rig, &WORKERS, 1);
    let again = format!("cp /root/body {BODY}; cp /root/drop-in {DROP_IN}");
    node.sh(&format!("cp {BODY} /root/body; cp {DROP_IN} /root/drop-in"));
    for (case, break_it, repair, named) in [
        ("bytes", "echo two >>/etc/mcx-test/drift", REPAIR, FILE),
        ("mode", "chmod 600 /etc/mcx-test/drift", "chmod 644 /etc/mcx-test/drift", FILE),
        ("owner", "chown boot /etc/mcx-test/drift", "chown root /etc/mcx-test/drift", FILE),
        ("group", "chgrp boot /etc/mcx-test/drift", "chgrp root /etc/mcx-test/drift", FILE),
        ("removal", "rm /etc/mcx-test/drift", REPAIR, FILE),
        ("replaced by a rename", "echo x >/etc/mcx-test/n; mv /etc/mcx-test/n /etc/mcx-test/drift", REPAIR, FILE),
        (
            "its folder too",
            "rm -r /etc/mcx-test",
            "mkdir -m 755 /etc/mcx-test; (umask 022; echo one >/etc/mcx-test/drift)",
            FILE,
        ),
        ("a symlink", "mv /etc/mcx-test/drift /root/aside; ln -s /root/aside /etc/mcx-test/drift", REPAIR, FILE),
        ("an empty directory", "rm /etc/mcx-test/drift; mkdir /etc/mcx-test/drift", REPAIR, FILE),
        ("a unit's body", "echo '# x' >>/etc/systemd/system/mcx-drift.service", &again, UNIT),
        ("a drop-in", "rm /etc/systemd/system/mcx-drift.service.d/10-mcx.conf", &again, "10-mcx.conf"),
        ("enablement", "systemctl disable -q mcx-drift.service", "systemctl enable -q mcx-drift.service", UNIT),
        (
            "a mask",
            "mv /etc/systemd/system/mcx-drift.service /root/m; ln -s /dev/null /etc/systemd/system/mcx-drift.service",
            &format!("rm {BODY}; {again}"),
            UNIT,
        ),
    ] {
        breaks_and_heals(&rig, node, case, (break_it, repair), named);
    }
    assert_eq!(observer.boots("w1").len(), 1);
    assert!(!observer.ever("w1", |v| v.unschedulable), "{}", observer.way("w1"));
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn what_is_not_managed_is_no_drift() {
    let rig = rig();
    managed(&rig);
    let node = rig.node("w1");
    node.sh("echo '[Service]' >/etc/systemd/system/mcx-drift.service.d/90-own.conf; echo x >/etc/mcx-test/neighbour; touch /etc/mcx-test/drift");
    rig.always(Duration::from_secs(4), "the node is Done", || {
        let view = node.view();
        if view.state == "Done" { Ok(()) } else { Err(view.line()) }
    });
    node.sh("rm /etc/systemd/system/mcx-drift.service.d/90-own.conf /etc/mcx-test/neighbour");
}

#[test]
#[ignore = "needs the rig: make test"]
fn all_findings_are_in_the_reason_and_a_drifted_node_gets_no_new_config() {
    let rig = rig();
    let target = managed(&rig);
    // Two, so that the drifted node does not hold up the others.
    rig.patch(
        "/apis/machineconfiguration.alauda.io/v1alpha1/machineconfigpools/worker",
        &json!({"spec": {"maxUnavailable": 2}}),
    );
    let node = rig.node("w1");
    node.sh("echo two >/etc/mcx-test/drift; systemctl disable -q mcx-drift.service");
    rig.eventually(STEP, "both findings are reported", || {
        let view = node.view();
        if view.state == "Degraded" && view.reason.contains(FILE) && view.reason.contains(UNIT) {
            Ok(())
        } else {
            Err(view.line())
        }
    });
    let (status, _, message) =
        rig.eventually(STEP, "the pool names the node", || match rig.condition("worker", "NodeDegraded") {
            found if found.0 == "True" => Ok(found),
            other => Err(format!("{other:?}")),
        });
    assert!(message.contains("w1"), "{status} {message}");
    assert_eq!(rig.pool("worker")["status"]["degradedMachineCount"], 1);

    let observer = Observer::start(&rig, &WORKERS, 2);
    rig.apply_source(&source("71-more", "worker", &file("/etc/mcx-test/more", 0o644, "more\n")));
    let next = rig.new_target("worker", &target);
    for name in ["w2", "w3"] {
        rig.eventually(ROLLOUT, "the others go on", || rig.lacks(name, &next).map_or(Ok(()), Err));
    }
    rig.always(Duration::from_secs(2), "the drifted node keeps its config", || {
        let view = node.view();
        if view.desired == target && view.state == "Degraded" && !node.exists("/etc/mcx-test/more") {
            Ok(())
        } else {
            Err(view.line())
        }
    });
    node.sh(&format!("{REPAIR}; systemctl enable -q mcx-drift.service"));
    rig.all_done(ROLLOUT, "worker", &WORKERS, &next);
    assert_eq!(node.text("/etc/mcx-test/more"), "more\n");
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn the_force_file_puts_everything_back_and_reboots() {
    let rig = rig();
    let target = managed(&rig);
    let node = rig.node("w1");
    let observer = Observer::start(&rig, &WORKERS, 1);
    for break_it in [
        "echo two >/etc/mcx-test/drift; rm -r /etc/systemd/system/mcx-drift.service.d",
        "rm /etc/mcx-test/drift; mkdir /etc/mcx-test/drift",
    ] {
        node.sh(break_it);
        node.degraded(STEP);
        let boot = node.boot_id();
        node.force();
        rig.eventually(ROLLOUT, "the node is rebooted and Done", || {
            let view = node.view();
            if view.state == "Done" && view.boot_id != boot {
                rig.lacks("w1", &target).map_or(Ok(()), Err)
            } else {
                Err(view.line())
            }
        });
        assert_eq!(node.text(FILE), "one\n");
        assert_eq!(node.stat(FILE), "644 root:root regular file");
        assert!(node.exists(DROP_IN));
        assert_eq!(node.enabled(UNIT), "enabled");
        assert!(!node.exists("/run/machine-config-daemon-force"));
    }
    assert_eq!(observer.boots("w1").len(), 3, "one reboot each: {}", observer.way("w1"));
    assert_eq!(observer.boots("w2").len(), 1);
    observer.finish();
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_directory_with_something_in_it_is_not_removed_by_force() {
    let rig = rig();
    managed(&rig);
    let node = rig.node("w1");
    node.sh("rm /etc/mcx-test/drift; mkdir /etc/mcx-test/drift; echo precious >/etc/mcx-test/drift/x");
    node.degraded(STEP);
    node.force();
    rig.eventually(ROLLOUT, "the node says what is in the way", || {
        let view = node.view();
        let says = view.state == "Degraded" && view.reason.contains(FILE) && !view.unschedulable;
        // The daemon has looked at it: either the file is taken, or the reason speaks of the directory.
        if says && view.reason.contains("director") { Ok(()) } else { Err(view.line()) }
    });
    assert_eq!(node.text("/etc/mcx-test/drift/x"), "precious\n");
    node.sh("rm -f /run/machine-config-daemon-force");
    node.sh(REPAIR);
    let _: Value = rig.eventually(ROLLOUT, "Done after the repair", || {
        let view = node.view();
        if view.state == "Done" && !view.unschedulable { Ok(Value::Null) } else { Err(view.line()) }
    });
}
