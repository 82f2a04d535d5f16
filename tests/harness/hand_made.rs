//! Nodes made by hand, on a control plane without any: the test is their daemon, and a thread their kubelet.

use super::{NODES, Rig, STEP};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use std::time::Duration;

/// The controller manager takes a node for dead when it has not heard of it for 20 s.
const BEAT: Duration = Duration::from_secs(2);

/// Workers that are there until this is dropped.
pub struct HandMade<'a> {
    rig: &'a Rig,
    names: &'a [&'a str],
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl<'a> HandMade<'a> {
    /// Registers workers, Ready and Done at `config`, oldest first. No pod is placed on them.
    pub fn register(rig: &'a Rig, names: &'a [&'a str], config: &str) -> Self {
        // A daemon pod on them would never be Ready, and the controller waits for those that it can expect.
        let nowhere = json!({"spec": {"template": {"spec": {"nodeSelector": {"test/nowhere": ""}}}}});
        rig.patch("/apis/apps/v1/namespaces/mcx-system/daemonsets/machine-config-daemon", &nowhere);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let mut made = Self { rig, names, stop: Some(stop), thread: None };
        for name in names {
            rig.delete(&format!("{NODES}/{name}"));
            let annotations = annotations(&[("state", "Done"), ("desiredConfig", config), ("currentConfig", config)]);
            let node = json!({
                "metadata": {
                    "name": name, "labels": {"node-role.kubernetes.io/worker": ""}, "annotations": annotations
                },
                "spec": {"taints": [{"key": "test/hand-made", "effect": "NoSchedule"}]},
            });
            rig.create(NODES, &node).unwrap_or_else(|error| panic!("Node {name}: {error}"));
            made.ready(name, true);
        }
        // Until then the control plane has something of its own to write to the Nodes.
        rig.eventually(STEP, "the controller manager is through with the Nodes", || {
            let mut nodes = names.iter().filter_map(|name| rig.get(&format!("{NODES}/{name}")));
            let seen = |node: &Value| {
                let tainted = node["spec"]["taints"].to_string().contains("node.kubernetes.io/");
                !tainted && node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"].is_string()
            };
            nodes.try_for_each(|node| if seen(&node) { Ok(()) } else { Err(node.to_string()) })
        });
        let (client, names) = (rig.client.clone(), names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        let handle = rig.runtime.handle().clone();
        made.thread = Some(std::thread::spawn(move || {
            handle.block_on(async {
                tokio::select! {
                    () = beat(client, names) => {}
                    _ = stopped => {}
                }
            });
        }));
        made
    }

    /// What its kubelet says of a node.
    pub fn ready(&self, name: &str, ready: bool) {
        let now = Timestamp::now();
        let condition = json!({
            "type": "Ready", "status": if ready { "True" } else { "False" }, "reason": "Test", "message": "made by hand",
            "lastHeartbeatTime": now, "lastTransitionTime": now
        });
        self.rig.patch(&format!("{NODES}/{name}/status"), &json!({"status": {"conditions": [condition]}}));
    }

    /// Claims what a node is given and goes on to the files, as a daemon does when no drain is needed.
    pub fn begin(&self, name: &str) {
        let phase = format!("Applying {:.0}", Timestamp::now());
        self.say(name, &[("state", "Working"), ("phase", &phase)]);
    }

    /// Ends what was begun: the node is Done at what it was given.
    pub fn end(&self, name: &str) {
        let desired = self.rig.view(name).desired;
        self.say(name, &[("state", "Done"), ("currentConfig", &desired)]);
    }

    fn say(&self, name: &str, words: &[(&str, &str)]) {
        self.rig.patch(&format!("{NODES}/{name}"), &json!({"metadata": {"annotations": annotations(words)}}));
    }
}

impl Drop for HandMade<'_> {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for name in self.names {
            // Not `delete`: after a failed test its failure would hide the test's.
            let path = format!("{NODES}/{name}");
            let _ = self.rig.request(http::Method::DELETE, &path, "application/json", Vec::new());
        }
    }
}

fn annotations(words: &[(&str, &str)]) -> Value {
    words.iter().map(|(key, value)| (format!("machineconfiguration.alauda.io/{key}"), json!(value))).collect()
}

/// Renews the kubelets' leases for ever.
async fn beat(client: Client, names: Vec<String>) {
    loop {
        for name in &names {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
                "spec": {
                    "holderIdentity": name, "leaseDurationSeconds": 40,
                    "renewTime": format!("{:.6}", Timestamp::now())
                }
            });
            let path = format!(
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}?fieldManager=test&force=true"
            );
            let request = http::Request::patch(path)
                .header("Content-Type", "application/apply-patch+yaml")
                .body(lease.to_string().into_bytes());
            // One that is missed is made up for by the next.
            let _ = client.request::<Value>(request.unwrap()).await;
        }
        tokio::time::sleep(BEAT).await;
    }
}
