//! Behaviour: a config that takes the kubelet, the runtime or the network away is undone by the node itself, which comes
//! back Degraded with the reason; nobody touches the node. A healthy node is never touched.
//!
//! One case runs always; `MCX_SOAK=1` (`make soak`) runs all.

#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod harness;

use harness::{NodeView, Observer, ROLLOUT, Rig, STEP, WORKERS, file, rig, source};
use mcx::api::GUARD_UNIT;
use mcx::api::protocol::{NO_API, NO_KUBELET};
use serde_json::{Value, json};
use std::time::Duration;

const DAEMONSET: &str = "/apis/apps/v1/namespaces/mcx-system/daemonsets/machine-config-daemon";
/// For how long a lost node waits here. One that is well needs a few seconds after its boot.
const PATIENCE: &str = "20s";
/// An update, its boot, the patience, the undo and its boot; for what is tried again, twice, on a busy machine.
const LOST: Duration = Duration::from_mins(6);

/// Daemons that have little patience; those of before come back however the test ends.
struct Impatient<'a>(&'a Rig);

impl<'a> Impatient<'a> {
    fn install(rig: &'a Rig) -> Self {
        let this = Self(rig);
        this.set(&format!("MCX_GUARD_TIMEOUT={PATIENCE}"), "100%");
        this
    }

    fn set(&self, env: &str, at_a_time: &str) {
        let strategy = json!({"rollingUpdate": {"maxUnavailable": at_a_time}});
        self.0.patch(DAEMONSET, &json!({"spec": {"updateStrategy": strategy}}));
        self.0.kubectl(&["-n", "mcx-system", "set", "env", "daemonset/machine-config-daemon", env]);
        self.0.kubectl(&["-n", "mcx-system", "rollout", "status", "daemonset/machine-config-daemon", "--timeout=120s"]);
    }
}

impl Drop for Impatient<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // With the log of the guard, which says what it saw.
            for name in WORKERS {
                let line = format!("journalctl -q --no-pager -u {GUARD_UNIT} -u kubelet -n 60 -o short-precise");
                let output = self.0.node(name).try_sh(&line);
                eprintln!("--- {name}\n{}", String::from_utf8_lossy(&output.stdout));
            }
        }
        self.set("MCX_GUARD_TIMEOUT-", "100%");
        self.0.patch(DAEMONSET, &json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}}}}));
    }
}

fn is_soak() -> bool {
    std::env::var_os("MCX_SOAK").is_some()
}

/// A drop-in for a unit of the node.
fn dropin(unit: &str, text: &str) -> Value {
    let dropins = json!([{"name": "10-test.conf", "contents": text}]);
    source("80-lost", "worker", &json!({"systemd": {"units": [{"name": unit, "dropins": dropins}]}}))
}

/// Waits until the node is Degraded and in service with a reason that holds all of `words`, and gives back what it says
/// and the boots that it was seen in.
fn comes_back(rig: &Rig, name: &str, words: &[&str]) -> (NodeView, Vec<String>) {
    let mut boots: Vec<String> = vec![rig.node(name).boot_id()];
    let view = rig.eventually(LOST, &format!("{name} undoes the update and comes back"), || {
        // The guest is down in between.
        let output = rig.script("node.sh", &["bootid", name]);
        let boot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && !boot.is_empty() && !boots.contains(&boot) {
            boots.push(boot);
        }
        let view = rig.view(name);
        let is_back = view.state == "Degraded" && view.ready && !view.unschedulable && view.cordoned_by.is_none();
        if is_back && words.iter().all(|w| view.reason.contains(w)) { Ok(view) } else { Err(view.line()) }
    });
    (view, boots)
}

/// The case: `bad` loses the first worker, which comes back by itself after so many boots (the one before included) with
/// these words; deleting the source is all that a person does.
fn heals(rig: &Rig, bad: &Value, words: &[&str], boots: usize) {
    let _impatient = Impatient::install(rig);
    let before = rig.target("worker");
    let first = rig.workers_by_age()[0].clone();
    let observer = Observer::start(rig, &WORKERS, 1);
    rig.apply_source(bad);
    let target = rig.new_target("worker", &before);
    let (view, seen) = comes_back(rig, &first, words);
    assert!(!view.reason.starts_with("Drift:"), "{}", view.reason);
    assert_eq!((view.desired.as_str(), view.current.as_str()), (target.as_str(), before.as_str()));
    assert_eq!(seen.len(), boots, "{first} was booted: {seen:?}; {}", observer.way(&first));
    let node = rig.node(&first);
    rig.always(Duration::from_secs(5), "it is not tried again, and the others are not touched", || {
        let others = WORKERS.iter().filter(|n| **n != first).map(|n| rig.view(n));
        if let Some(touched) = others.into_iter().find(|v| v.desired == target || v.state != "Done") {
            return Err(touched.line());
        }
        let view = rig.view(&first);
        if view.state == "Degraded" && !view.unschedulable { Ok(()) } else { Err(view.line()) }
    });
    assert_eq!(Some(&node.boot_id()), seen.last());
    is_unguarded(rig, &first);
    rig.delete_source("80-lost");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &before);
    assert_eq!(Some(&node.boot_id()), seen.last(), "nothing was left to be undone");
    observer.finish();
}

/// Nothing of the guard is left on the node.
fn is_unguarded(rig: &Rig, name: &str) {
    let node = rig.node(name);
    for path in [&format!("/etc/systemd/system/{GUARD_UNIT}"), "/var/lib/mcx/bin", "/var/lib/mcx/journal.json"] {
        assert!(!node.exists(path), "{name}: {path}");
    }
    assert_eq!(node.unit(GUARD_UNIT, "LoadState"), "not-found", "{name}");
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_kubelet_that_does_not_start_is_undone_by_its_node() {
    let rig = rig();
    let wrong = "[Service]\nExecStart=\nExecStart=/usr/local/bin/kubelet --no-such-flag\n";
    heals(&rig, &dropin("kubelet.service", wrong), &[NO_KUBELET], 3);
}

#[test]
#[ignore = "needs the rig and MCX_SOAK=1: make soak"]
fn a_container_runtime_that_does_not_start_is_undone_by_its_node() {
    if !is_soak() {
        return;
    }
    let rig = rig();
    let reboot = json!([{"path": "/etc/containerd/config.toml", "actions": [{"type": "Reboot"}]}]);
    rig.set_policy(&json!({"nodeDisruptionPolicy": {"files": reboot}}));
    let bad = source("80-lost", "worker", &file("/etc/containerd/config.toml", 0o644, "version = [2\n"));
    heals(&rig, &bad, &[NO_KUBELET], 3);
}

#[test]
#[ignore = "needs the rig and MCX_SOAK=1: make soak"]
fn an_address_change_that_cuts_the_api_server_off_is_undone_and_tried_once_more() {
    if !is_soak() {
        return;
    }
    let rig = rig();
    let moved = "[Socket]\nListenStream=\nListenStream=127.0.0.1:6444\n";
    heals(&rig, &dropin("rig-api.socket", moved), &[NO_API, "not tried again"], 5);
}

/// Packets to both addresses of the API server vanish.
fn firewall() -> Value {
    let rules = |how: &str, command: &str| -> String {
        let rule = |to: &str| format!("{command}=/usr/sbin/iptables -w {how} OUTPUT -p tcp -d {to} -j DROP\n");
        rule("127.0.0.1 --dport 6443") + &rule("10.97.0.1 --dport 443")
    };
    let text = format!(
        "[Service]\nType=oneshot\nRemainAfterExit=yes\n{}{}[Install]\nWantedBy=multi-user.target\n",
        rules("-I", "ExecStart"),
        rules("-D", "ExecStop")
    );
    let units = json!([{"name": "firewall.service", "enabled": true, "contents": text}]);
    source("80-lost", "worker", &json!({"systemd": {"units": units}}))
}

#[test]
#[ignore = "needs the rig and MCX_SOAK=1: make soak"]
fn a_firewall_that_cuts_the_api_server_off_is_undone_without_a_reboot() {
    if !is_soak() {
        return;
    }
    let rig = rig();
    let restart = json!([{"type": "Restart", "restart": {"serviceName": "firewall.service"}}]);
    rig.set_policy(&json!({"nodeDisruptionPolicy": {"units": [{"name": "firewall.service", "actions": restart}]}}));
    heals(&rig, &firewall(), &[NO_API, "not tried again"], 1);
}

#[test]
#[ignore = "needs the rig and MCX_SOAK=1: make soak"]
fn a_firewall_that_cuts_the_api_server_off_after_a_reboot_is_undone() {
    if !is_soak() {
        return;
    }
    let rig = rig();
    heals(&rig, &firewall(), &[NO_API, "not tried again"], 5);
}

#[test]
#[ignore = "needs the rig and MCX_SOAK=1: make soak"]
fn a_healthy_node_whose_daemon_does_not_come_is_left_as_it_is() {
    if !is_soak() {
        return;
    }
    let rig = rig();
    let _impatient = Impatient::install(&rig);
    let first = rig.workers_by_age()[0].clone();
    let reboot = json!([{"path": "/etc/test.conf", "actions": [{"type": "Reboot"}]}]);
    rig.set_policy(&json!({"nodeDisruptionPolicy": {"files": reboot}}));
    let before = rig.target("worker");
    let node = rig.node(&first);
    node.hold();
    let old = node.boot_id();
    rig.apply_source(&source("80-lost", "worker", &file("/etc/test.conf", 0o644, "one\n")));
    let target = rig.new_target("worker", &before);
    rig.eventually(ROLLOUT, "the node goes down", || {
        if rig.script("node.sh", &["bootid", &first]).status.success() { Err("it runs") } else { Ok(()) }
    });
    // While it is down the DaemonSet is told to leave it.
    let elsewhere = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [first]}]}]}}});
    let place = |affinity: &Value| {
        rig.patch(DAEMONSET, &json!({"spec": {"template": {"spec": {"affinity": affinity}}}}));
    };
    place(&elsewhere);
    node.unhold();
    node.wait();
    assert_ne!(node.boot_id(), old);
    rig.eventually(STEP, "the guard stands down", || {
        if node.exists("/var/lib/mcx/bin") { Err("it is there") } else { Ok(()) }
    });
    rig.always(Duration::from_secs(30), "beyond the patience nothing is undone", || {
        if node.text("/etc/test.conf") == "one\n" { Ok(()) } else { Err("it was undone".to_owned()) }
    });
    let new = node.boot_id();
    place(&Value::Null);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
    assert_eq!(node.boot_id(), new);
    for name in WORKERS {
        is_unguarded(&rig, name);
    }
}
