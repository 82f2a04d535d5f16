//! Behaviour: the daemon as a plain process of its node (`--root /`), with a token that is bound to the Node.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod harness;

use harness::{Node, Observer, ROLLOUT, Rig, STEP, WORKERS, data, file, rig, source};
use serde_json::{Value, json};
use std::time::Duration;

/// The node whose daemon is no pod.
const NODE: &str = "w3";
const DAEMONSET: &str = "/apis/apps/v1/namespaces/mcx-system/daemonsets/machine-config-daemon";
const SERVICE: &str = "mcx-daemon.service";

/// Puts the pod back in the process's place, however the test ends.
struct InPlaceOfThePod<'a>(&'a Rig);

impl<'a> InPlaceOfThePod<'a> {
    fn install(rig: &'a Rig) -> Self {
        let this = Self(rig);
        let node = rig.node(NODE);
        node.sh("mkdir -p /opt/mcx");
        copy_binary(rig, &node);
        this.place_daemonset(&json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [NODE]}]}]
        }}}));
        rig.eventually(STEP, "the pod leaves the node", || match rig.pods_on(NODE, "machine-config-daemon").len() {
            0 => Ok(()),
            n => Err(format!("{n} pods")),
        });

        this.renew_token();
        let mut kubeconfig = mcx::yaml::documents(&node.text("/rig/kubeconfig")).unwrap().remove(0).value;
        let users = kubeconfig["users"].as_array_mut().unwrap();
        users[0]["user"] = json!({"tokenFile": "/opt/mcx/token"});
        node.write("/opt/mcx/kubeconfig", kubeconfig.to_string().as_bytes());
        node.write(&format!("/etc/systemd/system/{SERVICE}"), data("host-process.service").as_bytes());
        node.sh(&format!("systemctl daemon-reload && systemctl enable -q --now {SERVICE}"));
        this
    }

    fn renew_token(&self) {
        let token = self.0.kubectl(&[
            "-n",
            "mcx-system",
            "create",
            "token",
            "machine-config-daemon",
            "--bound-object-kind",
            "Node",
            "--bound-object-name",
            NODE,
        ]);
        self.0.node(NODE).write("/opt/mcx/token", token.trim().as_bytes());
    }

    fn place_daemonset(&self, affinity: &Value) {
        self.0.patch(DAEMONSET, &json!({"spec": {"template": {"spec": {"affinity": affinity}}}}));
        self.0.kubectl(&["-n", "mcx-system", "rollout", "status", "daemonset/machine-config-daemon", "--timeout=90s"]);
    }
}

impl Drop for InPlaceOfThePod<'_> {
    fn drop(&mut self) {
        let line = format!(
            "systemctl disable -q --now {SERVICE}; rm -rf /opt/mcx /etc/systemd/system/{SERVICE}; systemctl daemon-reload"
        );
        self.0.node(NODE).try_sh(&line);
        self.place_daemonset(&Value::Null);
    }
}

/// The very binary of the pod that runs there now.
fn copy_binary(rig: &Rig, node: &Node<'_>) {
    let pod = rig.daemon_on(NODE);
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap().replace("containerd://", "");
    node.sh(&format!(
        "pid=$(ctr -n k8s.io tasks ls | awk '$1 == \"{id}\" {{print $2}}') && cp /proc/$pid/exe /opt/mcx/mcx"
    ));
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_process_of_the_host_does_what_the_pod_does() {
    let rig = rig();
    let in_place = InPlaceOfThePod::install(&rig);
    let node = rig.node(NODE);
    assert_eq!(node.active(SERVICE), "active");
    let before = rig.target("worker");

    // A restart of a service, with files of each kind.
    rig.set_policy(&json!({"nodeDisruptionPolicy": {"files": [{"path": "/etc/host-process.conf", "actions": [
        {"type": "Restart", "restart": {"serviceName": "chronyd.service"}}]}]}}));
    let starts = node.starts("chronyd.service");
    let observer = Observer::start(&rig, &WORKERS, 1);
    let target = rig.roll_out(&[source("50-host-process", "worker", &file("/etc/host-process.conf", 0o640, "one\n"))]);
    assert_eq!(node.text("/etc/host-process.conf"), "one\n");
    assert_eq!(node.stat("/etc/host-process.conf"), "640 root:root regular file");
    assert_eq!(node.starts("chronyd.service"), starts + 1);
    assert_eq!(observer.boots(NODE).len(), 1, "{}", observer.way(NODE));
    assert_eq!(rig.view(NODE).current, target);

    // Drift, put right by hand.
    node.sh("echo two >>/etc/host-process.conf");
    let reason = node.degraded(STEP);
    assert!(reason.starts_with("Drift:") && reason.contains("/etc/host-process.conf"), "{reason}");
    node.write("/etc/host-process.conf", b"one\n");
    node.done(STEP);

    // Drain and reboot: the process ends with the node, comes back with it, and finishes.
    rig.apply(&data("guide/disable-chrony.yaml"));
    let rebooted = rig.new_target("worker", &target);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &rebooted);
    assert_eq!(observer.boots(NODE).len(), 2, "{}", observer.way(NODE));
    assert!(observer.ever(NODE, |v| v.unschedulable && v.cordoned_by.is_some()), "{}", observer.way(NODE));
    assert_eq!((node.enabled("chronyd.service").as_str(), node.active(SERVICE).as_str()), ("disabled", "active"));

    // The token is renewed from outside, as it must be before it expires.
    in_place.renew_token();
    rig.delete_source("99-worker-disable-chrony");
    rig.delete_source("50-host-process");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &before);
    assert!(!node.exists("/etc/host-process.conf"));
    assert_eq!(node.enabled("chronyd.service"), "enabled");
    observer.finish();

    // The pod takes over where the process has stopped.
    drop(in_place);
    rig.eventually(STEP, "the pod is back", || match rig.pods_on(NODE, "machine-config-daemon").len() {
        1 => Ok(()),
        n => Err(format!("{n} pods")),
    });
    rig.always(Duration::from_secs(3), "the node stays Done", || {
        let view = rig.view(NODE);
        if view.state == "Done" && view.current == before { Ok(()) } else { Err(view.line()) }
    });
}
