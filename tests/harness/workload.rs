//! Pods of users: a Deployment under a disruption budget, in a namespace that ends with the test.

use super::Rig;
use serde_json::{Value, json};

/// Label of the namespaces that tests make; the reset removes them.
pub const MARK: &str = "mcx-test";

/// A Deployment `app` and its budget, in a namespace of its own.
pub struct Workload<'a> {
    rig: &'a Rig,
    namespace: String,
}

impl<'a> Workload<'a> {
    /// Starts `replicas` pods, on `node` if one is named, and waits until they run. The budget keeps all of them.
    pub fn start(rig: &'a Rig, namespace: &str, replicas: usize, node: Option<&str>) -> Self {
        let selector = node.map_or(json!({}), |n| json!({"kubernetes.io/hostname": n}));
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {MARK: "yes"}}}),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app", "namespace": namespace},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": namespace}},
                    "template": {
                        "metadata": {"labels": {"app": namespace}},
                        "spec": {
                            "nodeSelector": selector,
                            "terminationGracePeriodSeconds": 5,
                            "containers": [{
                                "name": "app", "image": "rig.test/probe:1", "imagePullPolicy": "Never",
                                "env": [{"name": "TERM_DELAY", "value": "300ms"}],
                                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                            }],
                        },
                    },
                },
            }),
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "app", "namespace": namespace},
                "spec": {"minAvailable": replicas, "selector": {"matchLabels": {"app": namespace}}},
            }),
        ] {
            rig.apply(&object.to_string());
        }
        let workload = Self { rig, namespace: namespace.to_owned() };
        rig.eventually(super::STEP, &format!("{replicas} pods of {namespace} run"), || {
            let ready = workload.deployment()["status"]["readyReplicas"].as_u64().unwrap_or_default();
            let seen = workload.budget()["status"]["currentHealthy"].as_u64().unwrap_or_default();
            let enough = replicas as u64;
            if ready == enough && seen == enough { Ok(()) } else { Err(format!("{ready} are, the budget sees {seen}")) }
        });
        workload
    }

    fn deployment(&self) -> Value {
        self.rig.get(&format!("/apis/apps/v1/namespaces/{}/deployments/app", self.namespace)).expect("the Deployment")
    }

    fn budget_path(&self) -> String {
        format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets/app", self.namespace)
    }

    fn budget(&self) -> Value {
        self.rig.get(&self.budget_path()).expect("the budget")
    }

    /// The budget keeps this many from now on; returns once that is in force.
    pub fn keep(&self, pods: usize) {
        let generation = self.rig.patch(&self.budget_path(), &json!({"spec": {"minAvailable": pods}}));
        let generation = generation["metadata"]["generation"].clone();
        self.rig.eventually(super::STEP, "the budget is in force", || {
            let seen = self.budget()["status"]["observedGeneration"].clone();
            if seen == generation { Ok(()) } else { Err(format!("generation {generation}, observed {seen}")) }
        });
    }

    /// The pods: name, UID, node.
    pub fn pods(&self) -> Vec<(String, String, String)> {
        let pods = self.rig.list(&format!("/api/v1/namespaces/{}/pods", self.namespace));
        let text = super::text;
        pods.iter().map(|p| (text(p, "/metadata/name"), text(p, "/metadata/uid"), text(p, "/spec/nodeName"))).collect()
    }
}
