//! An API server in memory, as much of one as a drain talks to: guarded patches, the taint of a cordon, pods with
//! scripted answers to evictions, and hooks that act between any two requests.

use crate::api::protocol::UNSCHEDULABLE_TAINT;
use crate::api::protocol::{SlotHolder, Slots};
use crate::api::{Epoch, annotation};
use crate::pool::door::Door;
use crate::pool::view::NodeView;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time of the taint that follows a cordon.
pub(super) const CORDONED_AT: &str = "2026-01-01T00:00:10Z";

type Hook = Box<dyn FnOnce(&mut State) + Send>;

#[derive(Default)]
pub(super) struct State {
    version: u64,
    pub(super) nodes: BTreeMap<String, Value>,
    pub(super) pools: BTreeMap<String, Value>,
    /// By `namespace/name`.
    pub(super) pods: BTreeMap<String, Value>,
    /// By `namespace/name`.
    pub(super) daemon_sets: BTreeMap<String, Value>,
    pub(super) budgets: Vec<Value>,
    pub(super) attachments: Vec<Value>,
    /// Answers to the next evictions of a pod, by `namespace/name`; afterwards they are granted.
    pub(super) refusals: BTreeMap<String, VecDeque<Value>>,
    /// Pods that stay Terminating when they are evicted.
    pub(super) lingering: bool,
    /// How long each eviction takes.
    pub(super) eviction_takes: Duration,
    /// `METHOD path`, of all requests.
    pub(super) log: Vec<String>,
    /// Header `Date` of its answers.
    pub(super) date: Option<&'static str>,
    hooks: Vec<(String, Hook)>,
    running: usize,
    pub(super) most_at_a_time: usize,
}

#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Mutex<State>>);

impl Fake {
    /// A cluster of one pool, whose slots are the first `held` of `nodes`.
    pub(super) fn new(nodes: &[&str], held: usize) -> Self {
        let fake = Self::default();
        for name in nodes {
            fake.with(|s| {
                let node = json!({
                    "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"node-role.kubernetes.io/worker": ""}},
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]}
                });
                s.nodes.insert((*name).to_owned(), node);
                s.touch_node(name);
            });
        }
        let holders = nodes.iter().take(held);
        let nodes = holders.map(|n| SlotHolder { name: (*n).into(), uid: format!("uid-{n}").into() }).collect();
        fake.set_slots(Some(&Slots { epoch: Epoch::from("ours"), nodes }));
        fake
    }

    pub(super) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }

    pub(super) fn set_slots(&self, slots: Option<&Slots>) {
        self.with(|s| s.set_slots(slots));
    }

    /// As [`NodeView`].
    pub(super) fn node(&self, name: &str) -> NodeView {
        self.with(|s| NodeView::new(&serde_json::from_value(s.nodes[name].clone()).unwrap()))
    }

    /// Sets annotations.
    pub(super) fn annotate(&self, node: &str, key: &str, value: &str) {
        self.with(|s| s.annotate(node, key, value));
    }

    pub(super) fn add_pod(&self, node: &str, name: &str, created: &str) {
        self.with(|s| s.add_pod(node, name, created));
    }

    /// Does `hook` just before the first request whose `METHOD path` begins with `request` is served.
    pub(super) fn before(&self, request: &str, hook: impl FnOnce(&mut State) + Send + 'static) {
        self.with(|s| s.hooks.push((request.to_owned(), Box::new(hook))));
    }

    /// Requests that began with `prefix`.
    pub(super) fn count(&self, prefix: &str) -> usize {
        self.with(|s| s.log.iter().filter(|line| line.starts_with(prefix)).count())
    }

    pub(super) fn door(&self) -> Door {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move { Ok::<_, tower::BoxError>(fake.serve(request).await) }
        });
        Door::new(Client::new(service, "default"))
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let line = format!("{} {path}", parts.method);
        let is_eviction = path.ends_with("/eviction");
        let pause = self.with(|s| {
            s.log.push(line.clone());
            if let Some(at) = s.hooks.iter().position(|(prefix, _)| line.starts_with(prefix)) {
                let (_, hook) = s.hooks.remove(at);
                hook(s);
            }
            s.running += usize::from(is_eviction);
            s.most_at_a_time = s.most_at_a_time.max(s.running);
            if is_eviction { s.eviction_takes } else { Duration::ZERO }
        });
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let answer = self.with(|s| {
            s.running -= usize::from(is_eviction);
            s.answer(&parts.method, &path, parts.uri.query().unwrap_or_default(), &body)
        });
        let code = answer["code"].as_u64().and_then(|c| u16::try_from(c).ok()).unwrap_or(200);
        let date = self.with(|s| s.date);
        let response = date.into_iter().fold(Response::builder().status(code), |r, date| r.header("date", date));
        response.body(Body::from(answer.to_string().into_bytes())).unwrap()
    }
}

/// An answer that refuses.
pub(super) fn failure(code: u16, message: &str, causes: &Value) -> Value {
    let reason = if code == 404 { "NotFound" } else { "" };
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
        "details": {"causes": causes}
    })
}

/// What a budget answers.
pub(super) fn over_budget() -> Value {
    let cause = json!([{
        "reason": "DisruptionBudget", "message": "The disruption budget b needs 2 healthy pods and has 2 currently"
    }]);
    failure(429, "Cannot evict pod as it would violate the pod's disruption budget.", &cause)
}

fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return into.clone_from(patch) };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

impl State {
    fn touch_node(&mut self, name: &str) {
        self.version += 1;
        let version = self.version.to_string();
        let Some(node) = self.nodes.get_mut(name) else { return };
        node["metadata"]["resourceVersion"] = version.into();
        let cordoned = node["spec"]["unschedulable"] == true;
        let tainted = node["spec"]["taints"].as_array().is_some_and(|t| !t.is_empty());
        if cordoned && !tainted {
            node["spec"]["taints"] =
                json!([{"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule", "timeAdded": CORDONED_AT}]);
        } else if !cordoned && tainted {
            node["spec"]["taints"] = json!([]);
        }
    }

    pub(super) fn set_slots(&mut self, slots: Option<&Slots>) {
        self.version += 1;
        let mut annotations = json!({});
        if let Some(slots) = slots {
            annotations[annotation::SLOTS] = serde_json::to_string(slots).unwrap().into();
        }
        let pool = json!({
            "apiVersion": crate::api::API_VERSION, "kind": "MachineConfigPool",
            "metadata": {"name": "worker", "resourceVersion": self.version.to_string(), "annotations": annotations},
            "spec": {"nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}}}
        });
        self.pools.insert("worker".to_owned(), pool);
    }

    pub(super) fn annotate(&mut self, node: &str, key: &str, value: &str) {
        self.nodes.get_mut(node).unwrap()["metadata"]["annotations"][key] = value.into();
        self.touch_node(node);
    }

    /// As an administrator does.
    pub(super) fn set_unschedulable(&mut self, node: &str, value: bool) {
        self.nodes.get_mut(node).unwrap()["spec"]["unschedulable"] = value.into();
        self.touch_node(node);
    }

    pub(super) fn add_pod(&mut self, node: &str, name: &str, created: &str) {
        self.version += 1;
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": format!("pod-{}", self.version), "creationTimestamp": created},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        });
        self.pods.insert(format!("shop/{name}"), pod);
    }

    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> Value {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let absent = || failure(404, "not found", &json!([]));
        match (method.as_str(), parts.as_slice()) {
            ("GET", ["api", "v1", "nodes", name]) => self.nodes.get(*name).cloned().unwrap_or_else(absent),
            ("PATCH", ["api", "v1", "nodes", name]) => self.patch_node(name, body),
            ("GET", [.., "machineconfigpools", name]) => self.pools.get(*name).cloned().unwrap_or_else(absent),
            ("GET", ["api", "v1", "pods"]) => {
                let node = query.rsplit("spec.nodeName%3D").next().unwrap();
                let items: Vec<&Value> = self.pods.values().filter(|p| p["spec"]["nodeName"] == node).collect();
                json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
            }
            ("POST", ["api", "v1", "namespaces", namespace, "pods", name, "eviction"]) => {
                self.evict(&format!("{namespace}/{name}"), body)
            }
            ("GET", ["apis", "apps", "v1", "namespaces", namespace, "daemonsets", name]) => {
                self.daemon_sets.get(&format!("{namespace}/{name}")).cloned().unwrap_or_else(absent)
            }
            ("GET", [.., "volumeattachments"]) => {
                json!({"kind": "VolumeAttachmentList", "apiVersion": "storage.k8s.io/v1", "metadata": {}, "items": self.attachments})
            }
            ("GET", [.., "poddisruptionbudgets"]) => {
                json!({"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "metadata": {}, "items": self.budgets})
            }
            _ => failure(500, &format!("nobody serves {method} {path}"), &json!([])),
        }
    }

    fn patch_node(&mut self, name: &str, patch: &Value) -> Value {
        let Some(node) = self.nodes.get_mut(name) else { return failure(404, "not found", &json!([])) };
        for key in ["resourceVersion", "uid"] {
            assert!(!patch["metadata"][key].is_null(), "an unguarded write: {patch}");
            if patch["metadata"][key] != node["metadata"][key] {
                return failure(409, "the object has been modified", &json!([]));
            }
        }
        merge(node, patch);
        self.touch_node(name);
        self.nodes[name].clone()
    }

    fn evict(&mut self, key: &str, eviction: &Value) -> Value {
        let Some(pod) = self.pods.get_mut(key) else { return failure(404, "not found", &json!([])) };
        let wanted = &eviction["deleteOptions"]["preconditions"]["uid"];
        assert!(wanted.is_string(), "an eviction of whatever bears the name: {eviction}");
        if *wanted != pod["metadata"]["uid"] {
            return failure(409, "the UID in the precondition does not match", &json!([]));
        }
        if let Some(refusal) = self.refusals.get_mut(key).and_then(VecDeque::pop_front) {
            return refusal;
        }
        if self.lingering {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:50Z".into();
        } else {
            self.pods.remove(key);
        }
        json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201})
    }
}
