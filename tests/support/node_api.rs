//! An API server in memory for one daemon: Nodes with a watch and JSON patches, rendered configs, the policy, Events.
//! It can be cut off. Tests look at the Node that is there in the end, and at all values that its annotations had.
#![allow(dead_code, reason = "each test file uses a part of it")]

use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use http::{Method, Request, Response};
use kube::Client;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};

pub(crate) const PREFIX: &str = "machineconfiguration.alauda.io/";
const CONFIGS: &str = "/apis/machineconfiguration.alauda.io/v1alpha1/machineconfigs/";

/// A kubeconfig for the server at `address`, with what the user shows, as YAML of one line.
pub(crate) fn kubeconfig(address: impl std::fmt::Display, user: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
         clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}], users: [{{name: a, user: {{{user}}}}}]}}"
    )
}

/// A policy, in effect, by which no item costs anything.
pub(crate) fn policy_of_no_cost() -> Value {
    policy(&json!([{"type": "None"}]))
}

/// A policy, in effect, by which files have these actions, and nothing else costs anything.
pub(crate) fn policy(files: &Value) -> Value {
    let none = json!([{"type": "None"}]);
    json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfiguration",
        "metadata": {"name": "cluster", "generation": 2}, "spec": {},
        "status": {"observedGeneration": 2, "nodeDisruptionPolicyStatus": {
            "clusterPolicies": {"sshkey": {"actions": none}}, "defaultActions": {"files": files, "units": none}}}})
}

/// The server; clones share it.
#[derive(Clone)]
pub(crate) struct NodeApi(Arc<Mutex<State>>, broadcast::Sender<Value>);

pub(crate) struct State {
    /// The Node; none when it was deleted.
    pub(crate) node: Option<Value>,
    pub(crate) configs: std::collections::BTreeMap<String, Value>,
    pub(crate) policy: Option<Value>,
    /// Reasons of the Events that were published.
    pub(crate) events: Vec<String>,
    /// All that the daemon has written: patches and Events, as they came.
    pub(crate) said: Vec<String>,
    /// What they said.
    pub(crate) notes: Vec<String>,
    /// `state` or `phase` of the Node after each patch by the daemon.
    pub(crate) story: Vec<String>,
    /// No request is answered.
    pub(crate) cut: bool,
    version: u64,
    uids: u64,
}

impl NodeApi {
    pub(crate) fn new() -> Self {
        let state = State {
            node: None,
            configs: std::collections::BTreeMap::default(),
            policy: None,
            events: vec![],
            said: vec![],
            notes: vec![],
            story: vec![],
            cut: false,
            version: 0,
            uids: 0,
        };
        let api = Self(Arc::new(Mutex::new(state)), broadcast::channel(1024).0);
        api.register();
        api
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new Node object, with a new UID.
    pub(crate) fn register(&self) {
        let mut state = self.state();
        state.uids += 1;
        let uid = format!("uid-{}", state.uids);
        state.node =
            Some(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": uid}, "spec": {}}));
        drop(state);
        self.change(|_| {});
    }

    /// Changes the Node as others do.
    pub(crate) fn change(&self, f: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version.to_string();
        if let Some(node) = &mut state.node {
            f(node);
            node["metadata"]["resourceVersion"] = json!(version);
            // Nobody listens before the first watch.
            let _ = self.1.send(json!({"type": "MODIFIED", "object": node}));
        }
    }

    pub(crate) fn annotate(&self, key: &str, value: &str) {
        self.change(|node| node["metadata"]["annotations"][format!("{PREFIX}{key}")] = json!(value));
    }

    pub(crate) fn annotation(&self, key: &str) -> String {
        let state = self.state();
        let value = state.node.as_ref().map(|n| n["metadata"]["annotations"][format!("{PREFIX}{key}")].clone());
        value.and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Adds a rendered config.
    pub(crate) fn config(&self, name: &str, config: &Value) {
        let object = json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfig",
            "metadata": {"name": name}, "spec": {"config": config}});
        self.state().configs.insert(name.to_owned(), object);
    }

    /// Does what the controller does with requests: cordon and fulfil, or uncordon.
    pub(crate) fn serve_drains(&self) {
        let (asked, applied) = (self.annotation("desiredDrain"), self.annotation("lastAppliedDrain"));
        if asked.is_empty() || asked == applied {
            return;
        }
        self.change(|node| {
            let notes = &mut node["metadata"]["annotations"];
            notes[format!("{PREFIX}lastAppliedDrain")] = json!(asked);
            if asked.starts_with("drain-") {
                notes[format!("{PREFIX}cordonedBy")] = json!("mcx 2026-01-01T00:00:00Z");
                node["spec"] = json!({"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable",
                    "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]});
            } else {
                notes.as_object_mut().unwrap().remove(&format!("{PREFIX}cordonedBy"));
                node["spec"] = json!({});
            }
        });
    }

    pub(crate) fn is_cordoned(&self) -> bool {
        self.state().node.as_ref().is_some_and(|n| n["spec"]["unschedulable"] == json!(true))
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let sent = body.collect_bytes().await.unwrap_or_default();
                Ok::<_, Infallible>(api.answer(head, sent).await)
            }
        });
        Client::new(service, "default")
    }

    /// Answers on a port of this machine too, for a daemon that is a process of its own.
    pub(crate) async fn serve(&self) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let api = self.clone();
        let app = axum::Router::new().fallback(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let sent = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
                api.answer(head, sent).await
            }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        address
    }

    async fn answer(&self, head: http::request::Parts, sent: Bytes) -> Response<Body> {
        if self.state().cut {
            // A connection on which no byte ever comes back.
            std::future::pending::<()>().await;
        }
        let sent: Value = serde_json::from_slice(&sent).unwrap_or(Value::Null);
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default();
        if path == "/api/v1/nodes" && query.contains("watch=true") {
            assert!(query.contains("metadata.name%3Dn1"), "the daemon watches its own Node only: {query}");
            let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")?.parse().ok());
            return self.stream(from.unwrap_or(0));
        }
        let (code, value) = self.reply(&head.method, &path, sent);
        Response::builder().status(code).body(Body::from(value.to_string())).unwrap()
    }

    /// What happens after version `from`. What happened since then is told as one change.
    fn stream(&self, from: u64) -> Response<Body> {
        let (send, receive) = mpsc::unbounded_channel::<Result<Bytes, Infallible>>();
        let state = self.state();
        let (mut changes, api) = (self.1.subscribe(), self.clone());
        let missed = state.node.as_ref().filter(|_| state.version > from);
        let mut missed = missed.map(|node| json!({"type": "MODIFIED", "object": node}));
        drop(state);
        tokio::spawn(async move {
            loop {
                let event = match missed.take() {
                    Some(event) => event,
                    None => match changes.recv().await {
                        Ok(event) => event,
                        Err(_) => return,
                    },
                };
                while api.state().cut {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                if send.send(Ok(Bytes::from(format!("{event}\n")))).is_err() {
                    return;
                }
            }
        });
        let lines =
            futures::stream::unfold(receive, |mut receive| async { receive.recv().await.map(|line| (line, receive)) });
        Response::new(Body::from_stream(lines.boxed()))
    }

    fn reply(&self, method: &Method, path: &str, sent: Value) -> (u16, Value) {
        let status = |code: u16, message: &str| {
            let text =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message});
            (code, text)
        };
        let mut state = self.state();
        if *method != Method::GET {
            state.said.push(sent.to_string());
        }
        if path.contains("/events") {
            state.events.push(sent["reason"].as_str().unwrap_or_default().to_owned());
            state.notes.push(sent["note"].as_str().unwrap_or_default().to_owned());
            return (201, sent);
        }
        if let Some(name) = path.strip_prefix(CONFIGS) {
            return state.configs.get(name).map_or_else(|| status(404, "not found"), |c| (200, c.clone()));
        }
        if path.ends_with("/machineconfigurations/cluster") {
            return state.policy.clone().map_or_else(|| status(404, "not found"), |p| (200, p));
        }
        if path == "/api/v1/nodes" {
            let items: Vec<Value> = state.node.iter().cloned().collect();
            let meta = json!({"resourceVersion": state.version.to_string()});
            return (200, json!({"kind": "NodeList", "apiVersion": "v1", "metadata": meta, "items": items}));
        }
        let Some(mut node) = state.node.clone().filter(|_| path == "/api/v1/nodes/n1") else {
            return status(404, "not found");
        };
        if *method == Method::GET {
            return (200, node);
        }
        for operation in sent.as_array().unwrap() {
            if !apply(&mut node, operation) {
                return status(422, &format!("the patch does not fit: {operation}"));
            }
        }
        state.version += 1;
        node["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let annotation =
            |key: &str| node["metadata"]["annotations"][format!("{PREFIX}{key}")].as_str().unwrap_or_default();
        let told =
            annotation("phase").split(' ').next().filter(|p| !p.is_empty()).unwrap_or(annotation("state")).to_owned();
        state.story.push(told);
        state.node = Some(node.clone());
        let _ = self.1.send(json!({"type": "MODIFIED", "object": node}));
        (200, node)
    }
}

/// One operation of a JSON patch: test, add, remove.
fn apply(object: &mut Value, operation: &Value) -> bool {
    let pointer = operation["path"].as_str().unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match operation["op"].as_str().unwrap() {
        "test" => object.pointer(pointer) == Some(&operation["value"]),
        "add" => match object.pointer_mut(parent).and_then(Value::as_object_mut) {
            Some(map) => {
                map.insert(key, operation["value"].clone());
                true
            }
            None => false,
        },
        "remove" => object.pointer_mut(parent).and_then(Value::as_object_mut).is_some_and(|m| m.remove(&key).is_some()),
        other => panic!("operation {other}"),
    }
}
