//! Every request of the controller to the API server: bounded in time, guarded where it must be.
//!
//! A guarded write carries the resourceVersion of what was read; a conflict is not retried here, since the decision
//! has to be made again from what is there now.

use super::metrics::Metrics;
use crate::api::protocol::{CordonMark, Slots, UNSCHEDULABLE_TAINT};
use crate::api::{ConfigName, NodeName, PoolName};
use crate::api::{MachineConfig, MachineConfigPool, MachineConfigPoolStatus, MachineConfiguration, annotation};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{self, Timestamp};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::client::Body;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// How the controller signs its writes (`metadata.managedFields`).
pub const FIELD_MANAGER: &str = "mcx-controller";

/// Longest time for one request that is no watch.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// Why a request did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or could not be reached.
    #[error("cannot {what}")]
    Api {
        /// What was tried, with the object.
        what: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// No answer in time.
    #[error("cannot {what}: no answer from the API server within {} s", TIMEOUT.as_secs())]
    Timeout {
        /// What was tried, with the object.
        what: String,
    },
    /// Another leader has taken over: this one stops.
    #[error("another leader has taken over pool {pool}")]
    Deposed {
        /// The pool whose epoch is another's.
        pool: PoolName,
    },
    /// Only a take-over can tell who holds a slot: this leader stops and stands again.
    #[error(
        "annotation {} of MachineConfigPool {pool} was removed or made unreadable; the next leader rebuilds it",
        annotation::SLOTS
    )]
    NoSlots {
        /// The pool without slots.
        pool: PoolName,
    },
}

impl Error {
    /// Whether the leader must stop at once, give up its lease, and stand again with a new epoch.
    pub fn stops_leading(&self) -> bool {
        matches!(self, Self::Deposed { .. } | Self::NoSlots { .. })
    }
}

/// What becomes of a node's cordon, with the taint that goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cordon {
    /// Cordoned; the taint gets this time.
    On(CordonMark),
    /// Uncordoned; the taint goes, too.
    Off,
}

/// A change of one Node: annotations (none: removed) and the cordon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeChange {
    /// By key; none removes it.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// `spec.unschedulable` and its taint; none leaves them.
    pub cordon: Option<Cordon>,
}

impl NodeChange {
    /// Sets an annotation.
    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "names and numbers are written as they are at hand")]
    pub fn set(mut self, key: &'static str, value: impl ToString) -> Self {
        self.annotations.insert(key, Some(value.to_string()));
        self
    }

    /// Removes an annotation.
    #[must_use]
    pub fn remove(mut self, key: &'static str) -> Self {
        self.annotations.insert(key, None);
        self
    }

    /// Cordons with our mark.
    #[must_use]
    pub fn cordon(mut self, mark: CordonMark) -> Self {
        self.cordon = Some(Cordon::On(mark));
        self.set(annotation::CORDONED_BY, mark)
    }

    /// Lifts the cordon and removes our mark.
    #[must_use]
    pub fn uncordon(mut self) -> Self {
        self.cordon = Some(Cordon::Off);
        self.remove(annotation::CORDONED_BY)
    }
}

/// The API server.
#[derive(Clone)]
pub struct Door {
    /// Client without retries of its own: a refused eviction must come back at once.
    client: Client,
    metrics: Option<Arc<Metrics>>,
}

impl Door {
    /// Through `client`, which must have `default_retry` off.
    pub fn new(client: Client) -> Self {
        Self { client, metrics: None }
    }

    /// The same, with every write counted.
    #[must_use]
    pub fn counted(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    fn wrote(&self, kind: &'static str) {
        if let Some(metrics) = &self.metrics {
            metrics.wrote(kind);
        }
    }

    /// The client, for watches and for objects that this module does not know.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for a request within [`TIMEOUT`]. `what` completes "cannot …".
    pub async fn bounded<T>(
        &self,
        what: impl Fn() -> String,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(TIMEOUT, request).await {
            Err(_) => Err(Error::Timeout { what: what() }),
            Ok(Err(source)) => Err(Error::Api { what: what(), source: Box::new(source) }),
            Ok(Ok(answer)) => Ok(answer),
        }
    }

    /// What time it is for the API server, in whole seconds: pods carry its time, and another clock may be minutes off.
    /// Where it does not say, our own `now`.
    pub async fn time(&self, now: Timestamp) -> Result<Timestamp, Error> {
        let what = || "ask the API server for its time".to_owned();
        let request = axum::http::Request::get("/version").body(Body::empty()).map_err(kube::Error::HttpError);
        let answer = self.bounded(what, async { self.client.send(request?).await }).await?;
        let date = answer.headers().get(axum::http::header::DATE).and_then(|date| date.to_str().ok());
        let time = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        Ok(time.map_or(now, |time| time.timestamp()))
    }

    /// Uncached. None when there is no such Node.
    pub async fn node(&self, name: &NodeName) -> Result<Option<Node>, Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        self.bounded(|| format!("read Node {name}"), api.get_opt(name.as_str())).await
    }

    /// Uncached. None when there is no such pool.
    pub async fn pool(&self, name: &PoolName) -> Result<Option<MachineConfigPool>, Error> {
        let api: Api<MachineConfigPool> = Api::all(self.client.clone());
        self.bounded(|| format!("read MachineConfigPool {name}"), api.get_opt(name.as_str())).await
    }

    /// Uncached. None when there is no such config.
    pub async fn config(&self, name: &ConfigName) -> Result<Option<MachineConfig>, Error> {
        self.bounded(|| format!("read MachineConfig {name}"), self.configs().get_opt(name.as_str())).await
    }

    /// Changes `node` under the resourceVersion it was read with. None when it has changed meanwhile or is gone:
    /// read again and decide again.
    pub async fn change_node(&self, node: &Node, change: &NodeChange) -> Result<Option<Node>, Error> {
        let name = node.meta().name.clone().unwrap_or_default();
        let annotations: Map<String, Value> = change
            .annotations
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.clone().map_or(Value::Null, Value::String)))
            .collect();
        let mut patch = json!({"metadata": {
            "resourceVersion": node.meta().resource_version, "uid": node.meta().uid, "annotations": annotations
        }});
        if let Some(cordon) = change.cordon {
            patch["spec"] = cordon_patch(node, cordon);
        }
        let api: Api<Node> = Api::all(self.client.clone());
        let (params, patch) = (patch_params(), Patch::Merge(&patch));
        let request = api.patch(&name, &params, &patch);
        self.wrote("Node");
        guarded(self.bounded(|| format!("change Node {name}"), request).await)
    }

    /// Writes the slots of `pool` under the resourceVersion it was read with. None as in [`Door::change_node`].
    pub async fn change_slots(
        &self,
        pool: &MachineConfigPool,
        slots: &Slots,
    ) -> Result<Option<MachineConfigPool>, Error> {
        let name = pool.name().to_owned();
        let text = serde_json::to_string(slots).unwrap_or_default();
        let patch = json!({"metadata": {
            "resourceVersion": pool.meta().resource_version, "uid": pool.meta().uid,
            "annotations": {annotation::SLOTS: text}
        }});
        let api: Api<MachineConfigPool> = Api::all(self.client.clone());
        let (params, patch) = (patch_params(), Patch::Merge(&patch));
        let request = api.patch(&name, &params, &patch);
        self.wrote("MachineConfigPool");
        guarded(self.bounded(|| format!("write slots of MachineConfigPool {name}"), request).await)
    }

    /// Changes fields of the spec of `pool` under the resourceVersion it was read with. None as in [`Door::change_node`].
    pub async fn change_pool_spec(
        &self,
        pool: &MachineConfigPool,
        spec: Value,
    ) -> Result<Option<MachineConfigPool>, Error> {
        let name = pool.name().to_owned();
        let patch = json!({
            "metadata": {"resourceVersion": pool.meta().resource_version, "uid": pool.meta().uid},
            "spec": spec
        });
        let api = self.pools();
        let (params, patch) = (patch_params(), Patch::Merge(&patch));
        let request = api.patch(&name, &params, &patch);
        self.wrote("MachineConfigPool");
        guarded(self.bounded(|| format!("write spec.configuration of MachineConfigPool {name}"), request).await)
    }

    /// Writes the status of `pool` under the resourceVersion it was read with. None as in [`Door::change_node`].
    pub async fn change_pool_status(
        &self,
        pool: &MachineConfigPool,
        status: &MachineConfigPoolStatus,
    ) -> Result<Option<MachineConfigPool>, Error> {
        let name = pool.name().to_owned();
        let patch = json!({
            "metadata": {"resourceVersion": pool.meta().resource_version, "uid": pool.meta().uid},
            "status": status
        });
        let api = self.pools();
        let (params, patch) = (patch_params(), Patch::Merge(&patch));
        let request = api.patch_status(&name, &params, &patch);
        self.wrote("MachineConfigPool");
        guarded(self.bounded(|| format!("write the status of MachineConfigPool {name}"), request).await)
    }

    /// Creates an object of ours. None when one of that name is there.
    pub async fn create<K: Ours>(&self, object: &K) -> Result<Option<K>, Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        self.wrote(K::KIND);
        guarded(self.bounded(|| format!("create {}", named(object)), api.create(&params, object)).await)
    }

    /// Writes an object of ours as a whole under the resourceVersion in it. None as in [`Door::change_node`].
    pub async fn replace<K: Ours>(&self, object: &K) -> Result<Option<K>, Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let name = object.meta().name.clone().unwrap_or_default();
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        self.wrote(K::KIND);
        guarded(self.bounded(|| format!("write {}", named(object)), api.replace(&name, &params, object)).await)
    }

    /// Writes the status of an object of ours under the resourceVersion in it. None as in [`Door::change_node`].
    pub async fn replace_status<K: Ours>(&self, object: &K) -> Result<Option<K>, Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let name = object.meta().name.clone().unwrap_or_default();
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let request = api.replace_status(&name, &params, object);
        self.wrote(K::KIND);
        guarded(self.bounded(|| format!("write the status of {}", named(object)), request).await)
    }

    /// Deletes this very object, as it was read. False when it has changed meanwhile or is gone.
    pub async fn delete<K: Ours>(&self, object: &K) -> Result<bool, Error> {
        let api: Api<K> = Api::all(self.client.clone());
        let meta = object.meta();
        let only = Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
        let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        let name = meta.name.clone().unwrap_or_default();
        self.wrote(K::KIND);
        let request = self.bounded(|| format!("delete {}", named(object)), api.delete(&name, &params)).await;
        Ok(guarded(request)?.is_some())
    }

    /// A typed API of the three resources, for reads and writes that need no guard.
    pub fn configs(&self) -> Api<MachineConfig> {
        Api::all(self.client.clone())
    }

    /// As [`Door::configs`].
    pub fn pools(&self) -> Api<MachineConfigPool> {
        Api::all(self.client.clone())
    }

    /// As [`Door::configs`].
    pub fn machine_configurations(&self) -> Api<MachineConfiguration> {
        Api::all(self.client.clone())
    }
}

/// A kind of ours.
pub trait Ours:
    Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope> + Serialize + DeserializeOwned + Clone + Debug
{
    /// As in `kind`.
    const KIND: &'static str;
}

impl Ours for MachineConfig {
    const KIND: &'static str = "MachineConfig";
}

impl Ours for MachineConfigPool {
    const KIND: &'static str = "MachineConfigPool";
}

impl Ours for MachineConfiguration {
    const KIND: &'static str = "MachineConfiguration";
}

fn named<K: Ours>(object: &K) -> String {
    format!("{} {}", K::KIND, object.meta().name.as_deref().unwrap_or_default())
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// `slots` of a pool; none when absent or unreadable.
pub fn slots(pool: &MachineConfigPool) -> Option<Slots> {
    serde_json::from_str(pool.metadata.annotations.as_ref()?.get(annotation::SLOTS)?).ok()
}

/// `spec` of a Node with or without our cordon. The list of taints is written as a whole, which the resourceVersion makes
/// safe; other taints stay as they are.
fn cordon_patch(node: &Node, cordon: Cordon) -> Value {
    let others = node.spec.iter().flat_map(|s| s.taints.iter().flatten()).filter(|t| t.key != UNSCHEDULABLE_TAINT);
    let mut taints: Vec<Taint> = others.cloned().collect();
    let unschedulable = match cordon {
        Cordon::Off => Value::Null,
        Cordon::On(mark) => {
            taints.push(Taint {
                key: UNSCHEDULABLE_TAINT.to_owned(),
                effect: "NoSchedule".to_owned(),
                time_added: Some(Time(mark.at())),
                value: None,
            });
            Value::Bool(true)
        }
    };
    json!({"unschedulable": unschedulable, "taints": if taints.is_empty() { Value::Null } else { json!(taints) }})
}

/// Conflict and absence are answers, not errors.
fn guarded<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Api { source, .. }) if matches!(&*source, kube::Error::Api(s) if s.code == 409 || s.code == 404) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
