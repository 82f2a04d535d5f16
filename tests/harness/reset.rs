//! Puts a cluster back into its shipped state, whatever a test left behind, so that no test depends on another.

use super::workload::MARK;
use super::{CONFIGS, MASTER, NODES, POLICIES, POOLS, Rig, STEP, WORKERS, scripts, text};
use mcx::api::shipped;
use serde_json::{Value, json};
use std::time::Duration;

/// How long a cluster may take to come back by itself.
const HEAL: Duration = Duration::from_secs(90);

impl Rig {
    /// Ends what tests do to nodes, removes what they made, restores what they changed, and waits until every node is
    /// Done and in service. A node that does not come back by itself is made anew.
    pub(super) fn reset(&self) {
        let expected: Vec<&str> = std::iter::once(MASTER).chain(WORKERS).collect();
        self.heal_nodes(&expected);
        self.remove_foreign_objects(&expected);
        self.restore_shipped_objects();
        if let Err(lack) = self.settle(HEAL) {
            eprintln!("reset: {lack}; forcing");
            self.force_degraded();
            if let Err(lack) = self.settle(HEAL) {
                eprintln!("reset: {lack}; making the node anew");
                eprintln!("{}", self.dump());
                self.replace_broken(&expected);
                if let Err(lack) = self.settle(HEAL) {
                    eprintln!("{}", self.dump());
                    panic!("the cluster cannot be put back into its shipped state: {lack}");
                }
            }
        }
        self.tidy_services();
    }

    fn heal_nodes(&self, expected: &[&str]) {
        let folders = std::fs::read_dir(self.path("nodes")).unwrap();
        for folder in folders {
            let name = folder.unwrap().file_name().into_string().unwrap();
            if expected.contains(&name.as_str()) {
                self.node(&name).heal();
            } else {
                self.node(&name).remove();
            }
        }
        for name in expected {
            self.node(name).wait();
        }
    }

    fn remove_foreign_objects(&self, expected: &[&str]) {
        let selector = format!("/api/v1/namespaces?labelSelector={MARK}");
        for namespace in self.list(&selector) {
            self.delete(&format!("/api/v1/namespaces/{}", text(&namespace, "/metadata/name")));
        }
        for node in self.list(NODES) {
            let name = text(&node, "/metadata/name");
            let path = format!("{NODES}/{name}");
            if !expected.contains(&name.as_str()) {
                self.delete(&path);
                continue;
            }
            let mut labels = serde_json::Map::new();
            for key in node["metadata"]["labels"].as_object().into_iter().flatten().map(|(key, _)| key) {
                let role = key.strip_prefix("node-role.kubernetes.io/");
                let wanted: &[&str] = if name == MASTER { &["master", "control-plane"] } else { &["worker"] };
                if role.is_some_and(|role| !wanted.contains(&role)) {
                    labels.insert(key.clone(), Value::Null);
                }
            }
            let annotations = &node["metadata"]["annotations"];
            let on_hold = annotations.get("machineconfiguration.alauda.io/hold").is_some();
            let foreign = node["spec"]["unschedulable"] == true
                && annotations.get("machineconfiguration.alauda.io/cordonedBy").is_none();
            if !labels.is_empty() || on_hold {
                let no_hold = json!({"machineconfiguration.alauda.io/hold": null});
                self.patch(&path, &json!({"metadata": {"labels": labels, "annotations": no_hold}}));
            }
            if foreign {
                self.patch(&path, &json!({"spec": {"unschedulable": null}}));
            }
        }
        // Their finalization is waited for: a pod that is still there would hold up the next drain.
        self.eventually(STEP, "namespaces of tests are gone", || match self.list(&selector).len() {
            0 => Ok(()),
            n => Err(format!("{n} are left")),
        });
    }

    /// Removes sources and pools at no cost to the nodes: under a policy that asks for nothing, all at a time.
    fn restore_shipped_objects(&self) {
        let shipped_sources: Vec<Value> = shipped::sources().iter().map(|s| serde_json::to_value(s).unwrap()).collect();
        let shipped_pools: Vec<Value> = shipped::pools().iter().map(|p| serde_json::to_value(p).unwrap()).collect();
        let policy = serde_json::to_value(shipped::machine_configuration()).unwrap();
        let foreign = |items: Vec<Value>, shipped: &[Value]| -> Vec<String> {
            let rendered = "/metadata/labels/machineconfiguration.alauda.io~1rendered";
            let own = items.into_iter().filter(|i| i.pointer(rendered).is_none());
            let names = own.map(|i| text(&i, "/metadata/name"));
            names.filter(|name| !shipped.iter().any(|s| text(s, "/metadata/name") == *name)).collect()
        };
        let sources = foreign(self.list(CONFIGS), &shipped_sources);
        let pools = foreign(self.list(POOLS), &shipped_pools);
        let cluster = format!("{POLICIES}/cluster");
        if !sources.is_empty() || !pools.is_empty() {
            self.put_back(POLICIES, &json!({
                "apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfiguration",
                "metadata": {"name": "cluster"},
                "spec": {
                    "defaultNodeDisruptionPolicySpecAction": {"files": [{"type": "None"}], "units": [{"type": "None"}]},
                    "nodeDisruptionPolicy": {"files": null, "units": null, "sshkey": {"actions": [{"type": "None"}]}},
                },
            }));
            self.policy_in_effect();
            for pool in &shipped_pools {
                let path = format!("{POOLS}/{}", text(pool, "/metadata/name"));
                if self.get(&path).is_some() {
                    self.patch(&path, &json!({"spec": {"maxUnavailable": "100%", "paused": null}}));
                }
            }
            for name in pools {
                self.delete(&format!("{POOLS}/{name}"));
            }
            for name in sources {
                self.delete_source(&name);
            }
            // An error here comes again below, with remedies.
            let _ = self.settle(HEAL);
        }
        for source in &shipped_sources {
            self.put_back(CONFIGS, source);
        }
        for pool in &shipped_pools {
            let mut pool = pool.clone();
            for key in ["maxUnavailable", "paused"] {
                pool["spec"][key] = Value::Null;
            }
            for key in ["machineConfigSelector", "nodeSelector"] {
                pool["spec"][key]["matchExpressions"] = Value::Null;
            }
            self.put_back(POOLS, &pool);
        }
        let mut wanted = policy;
        wanted["spec"]["nodeDisruptionPolicy"]["files"] = Value::Null;
        wanted["spec"]["nodeDisruptionPolicy"]["units"] = Value::Null;
        self.put_back(POLICIES, &wanted);
        assert!(self.get(&cluster).is_some(), "`cluster` was put back a moment ago");
        self.policy_in_effect();
    }

    /// Creates the object, or gives its spec these values again.
    fn put_back(&self, collection: &str, object: &Value) {
        let path = format!("{collection}/{}", text(object, "/metadata/name"));
        if self.get(&path).is_some() {
            self.patch(&path, &json!({"spec": object["spec"]}));
        } else if let Err(error) = self.create(collection, object) {
            // The controller does so too.
            assert!(self.get(&path).is_some(), "{path}: {error}");
        }
    }

    /// Waits until every node is Done at its pool's target and in service, and the pools say so.
    fn settle(&self, limit: Duration) -> Result<(), String> {
        let start = std::time::Instant::now();
        loop {
            match self.unsettled() {
                None => return Ok(()),
                Some(lack) if start.elapsed() > limit => return Err(lack),
                Some(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    fn unsettled(&self) -> Option<String> {
        let (master, worker) = (self.target("master"), self.target("worker"));
        self.lacks(MASTER, &master).or_else(|| WORKERS.iter().find_map(|n| self.lacks(n, &worker))).or_else(|| {
            ["master", "worker"].into_iter().find_map(|pool| {
                let (status, reason, message) = self.condition(pool, "Updated");
                (status != "True").then(|| format!("pool {pool}: Updated is {status} {reason}: {message}"))
            })
        })
    }

    fn force_degraded(&self) {
        for view in self.views().iter().filter(|v| v.state == "Degraded") {
            self.node(&view.name).force();
        }
    }

    fn replace_broken(&self, expected: &[&str]) {
        for name in expected {
            if self.view(name).unavailable() {
                self.node(name).remove();
                let role = if *name == MASTER { "master" } else { "worker" };
                let output = self.script("node.sh", &["start", name, role]);
                assert!(output.status.success(), "start {name}: {}", String::from_utf8_lossy(&output.stderr));
                self.node(name).wait();
            }
        }
    }

    /// chronyd runs again with the vendor's file, and no unit is failed.
    fn tidy_services(&self) {
        let vendor = std::fs::read(scripts().join("guest/etc/chrony.conf")).unwrap();
        for name in WORKERS {
            let node = self.node(name);
            if node.read("/etc/chrony.conf").as_deref() != Some(vendor.as_slice()) {
                node.write("/etc/chrony.conf", &vendor);
            }
            node.sh("systemctl reset-failed; systemctl is-active -q chronyd || systemctl enable -q --now chronyd");
        }
    }
}
