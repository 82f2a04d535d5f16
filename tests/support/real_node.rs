//! The Node of a machine on a real API server: registered as a kubelet does, told and drained as the controller does. The
//! daemon is whoever its token says, with the rights and under the admission policy of an installation.

use crate::cluster::{admin, custom, object, with_token};
use crate::machine::{Cluster, Cost, policy, rendered};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use mcx::api::{DAEMONSET, NAMESPACE, annotation};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const PREFIX: &str = "machineconfiguration.alauda.io/";
const CORDONED: &str = "2026-01-01T00:00:00Z";
/// For so long what was read counts as what is there: tests look all the time.
const FRESH: Duration = Duration::from_millis(100);

/// The server, with the configs and the policy that machines need, until it is dropped.
pub(crate) struct Server {
    runtime: Runtime,
    admin: Client,
}

impl Server {
    pub(crate) fn with(cost: Cost) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let admin = runtime.block_on(admin());
        let this = Self { runtime, admin };
        this.clear();
        this.runtime.block_on(async {
            for n in 0..3 {
                let (name, config) = rendered(n);
                let object = object("MachineConfig", &name, &json!({"config": config}));
                custom(&this.admin, "MachineConfig").create(&PostParams::default(), &object).await.unwrap();
            }
            let policies = custom(&this.admin, "MachineConfiguration");
            let cluster = object("MachineConfiguration", "cluster", &json!({}));
            let made = policies.create(&PostParams::default(), &cluster).await.unwrap();
            let generation = made.metadata.generation;
            let mut status = policy(cost)["status"].clone();
            status["observedGeneration"] = json!(generation);
            let patch = Patch::Merge(json!({"status": status}));
            policies.patch_status("cluster", &PatchParams::default(), &patch).await.unwrap();
        });
        this
    }

    fn clear(&self) {
        self.runtime.block_on(async {
            let now = DeleteParams::default();
            for n in 0..3 {
                custom(&self.admin, "MachineConfig").delete(&rendered(n).0, &now).await.ok();
            }
            custom(&self.admin, "MachineConfiguration").delete("cluster", &now).await.ok();
        });
    }

    /// A Node of this name, new.
    pub(crate) fn node(self: &Arc<Self>, name: &str) -> RealNode {
        let node = RealNode(Arc::new(Inner { server: self.clone(), name: name.to_owned(), seen: Mutex::default() }));
        node.register();
        node
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Clones share it.
#[derive(Clone)]
pub(crate) struct RealNode(Arc<Inner>);

struct Inner {
    server: Arc<Server>,
    name: String,
    seen: Mutex<Option<(Instant, Node)>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let nodes: Api<Node> = Api::all(self.server.admin.clone());
        self.server.runtime.block_on(nodes.delete(&self.name, &DeleteParams::default())).ok();
    }
}

impl RealNode {
    fn api(&self) -> Api<Node> {
        Api::all(self.0.server.admin.clone())
    }

    fn keep(&self, node: Option<Node>) {
        *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner) = node.map(|node| (Instant::now(), node));
    }

    /// Deletes it if it is there, and registers another under the same name.
    pub(crate) fn register(&self) {
        self.0.server.runtime.block_on(async {
            self.api().delete(&self.0.name, &DeleteParams::default()).await.ok();
            let node = serde_json::from_value(json!({"metadata": {"name": self.0.name}})).unwrap();
            self.api().create(&PostParams::default(), &node).await.unwrap();
        });
        self.keep(None);
    }

    /// The server as the daemon of this Node reaches it, with a token that ends with the Node.
    pub(crate) fn daemon(&self) -> Client {
        self.0.server.runtime.block_on(async {
            let accounts: Api<ServiceAccount> = Api::namespaced(self.0.server.admin.clone(), NAMESPACE);
            let node = self.api().get(&self.0.name).await.unwrap();
            let bound = BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: node.metadata.name,
                uid: node.metadata.uid,
            };
            let spec = TokenRequestSpec {
                audiences: Vec::new(),
                expiration_seconds: Some(3600),
                bound_object_ref: Some(bound),
            };
            let request = TokenRequest { spec, ..TokenRequest::default() };
            let answer = accounts.create_token_request(DAEMONSET, &PostParams::default(), &request).await.unwrap();
            with_token(&answer.status.unwrap().token).await
        })
    }

    /// The Node as it was a moment ago; none while there is none.
    fn seen(&self) -> Option<Node> {
        let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, node)) = seen.filter(|(at, _)| at.elapsed() < FRESH) {
            return Some(node);
        }
        let node = self.0.server.runtime.block_on(self.api().get_opt(&self.0.name)).unwrap();
        self.keep(node.clone());
        node
    }

    /// Merges this into the Node, if it is there.
    fn change(&self, patch: &Value) {
        let patch = Patch::Merge(patch);
        let changed = self.0.server.runtime.block_on(self.api().patch(&self.0.name, &PatchParams::default(), &patch));
        self.keep(changed.ok());
    }
}

impl Cluster for RealNode {
    fn annotation(&self, key: &str) -> String {
        let annotations = self.seen().and_then(|node| node.metadata.annotations).unwrap_or_default();
        annotations.get(&format!("{PREFIX}{key}")).cloned().unwrap_or_default()
    }

    fn annotate(&self, key: &str, value: &str) {
        self.change(&json!({"metadata": {"annotations": {format!("{PREFIX}{key}"): value}}}));
    }

    fn is_cordoned(&self) -> bool {
        self.seen().and_then(|node| node.spec?.unschedulable).unwrap_or_default()
    }

    fn serve_drains(&self) {
        let (asked, applied) = (self.annotation("desiredDrain"), self.annotation("lastAppliedDrain"));
        if asked.is_empty() || asked == applied {
            return;
        }
        let is_drain = asked.starts_with("drain-");
        let mark = is_drain.then(|| format!("mcx {CORDONED}"));
        let taint = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": CORDONED});
        let taints = if is_drain { json!([taint]) } else { json!([]) };
        self.change(&json!({
            "metadata": {"annotations": {annotation::LAST_APPLIED_DRAIN: asked, annotation::CORDONED_BY: mark}},
            "spec": {"unschedulable": is_drain.then_some(true), "taints": taints},
        }));
    }

    fn told(&self) -> String {
        format!("{:?}", self.seen().map(|node| (node.metadata, node.spec)))
    }
}
