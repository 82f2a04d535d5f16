//! An API server in memory, for tests of what reads and writes: objects by path, resourceVersions, conflicts, merge
//! patches, the status subresource. Tests look at the objects that are there in the end.

use super::door::Door;
use super::events::Events;
use super::metrics::Metrics;
use super::world::{Leader, Settings};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The server; clones share it.
#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>);

/// What it holds.
#[derive(Default)]
pub(crate) struct State {
    /// By path: `/apis/…/machineconfigs/x`.
    pub(crate) objects: BTreeMap<String, Value>,
    /// All writes: method and path.
    pub(crate) writes: Vec<String>,
    /// Answers a request with this code instead: method, part of the path, code.
    pub(crate) refuse: Option<(Method, &'static str, u16)>,
    version: u64,
}

impl FakeApi {
    /// A leader over it with this epoch, whose Events go nowhere.
    pub(crate) fn leader(&self, epoch: &str) -> Leader {
        Leader {
            door: Door::new(self.client()),
            epoch: epoch.into(),
            settings: Arc::new(Settings {
                drain_threshold: Duration::from_mins(10),
                volume_detach: Duration::from_mins(1),
                settle: Duration::ZERO,
                settle_limit: Duration::ZERO,
                keep_rendered: 1,
                namespace: "mcx-system".to_owned(),
            }),
            events: Events::discarding(),
            metrics: Arc::new(Metrics::default()),
            rollout: Arc::default(),
        }
    }

    /// A client of it.
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let bytes = body.collect_bytes().await.unwrap_or_default();
                let sent = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let (code, answer) = api.state().answer(&head.method, head.uri.path(), sent);
                let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, std::convert::Infallible>(answer.expect("a code and a body make an answer"))
            }
        });
        Client::new(service, "default")
    }

    /// To look at, or to change behind everybody's back.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn refusal(code: u16) -> (u16, Value) {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason});
    (code, status)
}

impl State {
    /// Puts an object in place, as a person would.
    pub(crate) fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let earlier = self.objects.get(path);
        let uid = earlier.map_or_else(|| json!(format!("uid-{}", self.version)), |o| o["metadata"]["uid"].clone());
        let generation = earlier.map_or(1, |o| {
            let same = o["spec"] == object["spec"];
            o["metadata"]["generation"].as_i64().unwrap_or_default() + i64::from(!same)
        });
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object["metadata"]["uid"] = uid;
        object["metadata"]["generation"] = json!(generation);
        if object["metadata"]["creationTimestamp"].is_null() {
            object["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
        }
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn answer(&mut self, method: &Method, path: &str, sent: Value) -> (u16, Value) {
        if *method != Method::GET {
            self.writes.push(format!("{method} {path}"));
        }
        if let Some((refused, part, code)) = &self.refuse
            && refused == method
            && path.contains(part)
        {
            return refusal(*code);
        }
        let (path, status_only) = path.strip_suffix("/status").map_or((path, false), |p| (p, true));
        if *method == Method::POST {
            let path = format!("{path}/{}", sent["metadata"]["name"].as_str().unwrap_or_default());
            return if self.objects.contains_key(&path) { refusal(409) } else { (201, self.put(&path, sent)) };
        }
        let Some(current) = self.objects.get(path).cloned() else {
            return if *method == Method::GET && !Self::is_object(path) {
                (200, self.list(path))
            } else {
                refusal(404)
            };
        };
        let guard = match *method {
            Method::DELETE => &sent["preconditions"]["resourceVersion"],
            _ => &sent["metadata"]["resourceVersion"],
        };
        if *method != Method::GET && !guard.is_null() && *guard != current["metadata"]["resourceVersion"] {
            return refusal(409);
        }
        match *method {
            Method::GET => (200, current),
            Method::DELETE => {
                self.objects.remove(path);
                (200, current)
            }
            Method::PUT if status_only => {
                let mut new = current;
                new["status"] = sent["status"].clone();
                (200, self.put(path, new))
            }
            Method::PUT => (200, self.put(path, sent)),
            _ => {
                let mut new = current;
                merge(&mut new, &sent);
                (200, self.put(path, new))
            }
        }
    }

    /// Paths end with the plural of a kind, or with a name below it.
    fn is_object(path: &str) -> bool {
        let last = path.rsplit('/').next().unwrap_or_default();
        !matches!(last, "nodes" | "pods" | "leases" | "machineconfigs" | "machineconfigpools" | "machineconfigurations")
    }

    fn list(&self, path: &str) -> Value {
        let prefix = format!("{path}/");
        let items: Vec<&Value> = self.objects.iter().filter(|(p, _)| p.starts_with(&prefix)).map(|(_, o)| o).collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            if let Some(target) = target.as_object_mut() {
                target.remove(key);
            }
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}
