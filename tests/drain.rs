//! Drains on a real API server with its real controllers: taints of cordons, budgets, terminating pods.
//!
//! No kubelet and no controller of mcx take part: Nodes and pods are made by hand, the test is the leader and the daemon.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod cluster;

use cluster::{admin, custom, install, kubectl, object};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use mcx::api::protocol::{SlotHolder, Slots};
use mcx::api::{Epoch, MachineConfigPool, annotation};
use mcx::pool::door::Door;
use mcx::pool::drain::Drainer;
use mcx::pool::events::Events;
use mcx::pool::metrics::Metrics;
use mcx::pool::view::NodeView;
use mcx::pool::world::{Leader, Settings, World};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A cluster of one pool of its own, with two nodes that nobody runs: one to drain, one for other pods.
struct Case {
    client: Client,
    name: &'static str,
    leader: Leader,
    drainer: Drainer,
}

impl Case {
    async fn new(name: &'static str) -> Self {
        install();
        let client = admin().await;
        let settings = Settings {
            drain_threshold: Duration::from_mins(10),
            volume_detach: Duration::from_mins(1),
            settle: Duration::ZERO,
            settle_limit: Duration::ZERO,
            keep_rendered: 0,
            namespace: mcx::api::NAMESPACE.to_owned(),
        };
        let leader = Leader {
            door: Door::new(client.clone()),
            epoch: Epoch::from("ours"),
            settings: Arc::new(settings),
            events: Events::discarding(),
            metrics: Arc::new(Metrics::new(&mut Registry::default())),
            rollout: Arc::default(),
        };
        let case = Self { client, name, leader, drainer: Drainer::new() };
        case.remove().await;
        case.set_up().await;
        case
    }

    fn node(&self) -> String {
        format!("{}-node", self.name)
    }

    fn elsewhere(&self) -> String {
        format!("{}-elsewhere", self.name)
    }

    async fn set_up(&self) {
        kubectl(&["create", "namespace", self.name]);
        let nodes: Api<Node> = Api::all(self.client.clone());
        let label = format!("test/{}", self.name);
        let mut holders = Vec::new();
        for name in [self.node(), self.elsewhere()] {
            let node = json!({"metadata": {"name": name, "labels": {&label: ""}}});
            let node: Node = serde_json::from_value(node).expect("a Node");
            let node = nodes.create(&PostParams::default(), &node).await.expect("created");
            holders.push(SlotHolder { name: name.into(), uid: node.metadata.uid.expect("a UID").into() });
        }
        holders.truncate(1);
        let slots = serde_json::to_string(&Slots { epoch: Epoch::from("ours"), nodes: holders }).expect("JSON");
        // These Nodes are never Ready: a limit of two leaves room for one.
        let spec = json!({"maxUnavailable": 2, "nodeSelector": {"matchLabels": {&label: ""}}});
        let mut pool = object("MachineConfigPool", self.name, &spec);
        pool.metadata.annotations = Some([(annotation::SLOTS.to_owned(), slots)].into());
        custom(&self.client, "MachineConfigPool").create(&PostParams::default(), &pool).await.expect("created");
    }

    async fn remove(&self) {
        for pod in self.pods().list(&ListParams::default()).await.expect("a list").items {
            self.end(&pod.metadata.name.expect("a name")).await;
        }
        kubectl(&["delete", "namespace", self.name, "--ignore-not-found"]);
        kubectl(&["delete", "node", &self.node(), &self.elsewhere(), "--ignore-not-found"]);
        kubectl(&["delete", "machineconfigpool", self.name, "--ignore-not-found"]);
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), self.name)
    }

    /// A pod that counts as healthy.
    async fn run(&self, node: &str, name: &str, labels: &Value) {
        let pod = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "registry.local/none"}]}
        });
        let pod: Pod = serde_json::from_value(pod).expect("a Pod");
        self.pods().create(&PostParams::default(), &pod).await.expect("created");
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        self.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.expect("patched");
    }

    /// What a kubelet does at the end of a pod.
    async fn end(&self, name: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(name, &now).await.ok();
    }

    async fn is_ending(&self, name: &str) -> bool {
        self.pods().get_opt(name).await.expect("an answer").is_some_and(|p| p.metadata.deletion_timestamp.is_some())
    }

    fn budget(&self, name: &str, app: &str, needed: u8) {
        let selector = format!("--selector=app={app}");
        let least = format!("--min-available={needed}");
        kubectl(&["-n", self.name, "create", "poddisruptionbudget", name, &selector, &least]);
    }

    /// As the daemon does.
    async fn ask(&self, request: &str) {
        let patch = json!({"metadata": {"annotations": {annotation::DESIRED_DRAIN: request}}});
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.patch(&self.node(), &PatchParams::default(), &Patch::Merge(&patch)).await.expect("patched");
    }

    async fn view(&self) -> NodeView {
        let nodes: Api<Node> = Api::all(self.client.clone());
        NodeView::new(&nodes.get(&self.node()).await.expect("the Node"))
    }

    async fn waiting(&self) -> String {
        self.view().await.drain_status.map(|s| s.waiting.join("\n")).unwrap_or_default()
    }

    /// Leads until `done`, as the controller does: twice a second here.
    async fn until(&self, what: &str, mut done: impl AsyncFnMut(&NodeView) -> bool) {
        let begun = Instant::now();
        loop {
            let nodes: Api<Node> = Api::all(self.client.clone());
            let nodes = nodes.list(&ListParams::default()).await.expect("a list").items;
            let pools: Api<MachineConfigPool> = Api::all(self.client.clone());
            let pool = pools.get(self.name).await.expect("the pool");
            let world = World {
                now: Some(Timestamp::now()),
                nodes: nodes.iter().map(NodeView::new).map(|n| (n.name.clone(), Arc::new(n))).collect(),
                pools: [(self.name.into(), Arc::new(pool))].into(),
                ..World::default()
            };
            self.drainer.sync(&self.leader, &world).expect("the only leader");
            let view = self.view().await;
            if done(&view).await {
                return;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "{what}: not in 60 s; {view:#?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn until_fulfilled(&self, request: &str) {
        self.until(request, async |n| n.applied_drain.as_ref().is_some_and(|r| r.to_string() == request)).await;
    }
}

#[tokio::test]
#[ignore = "needs a control plane without a controller of mcx: set MCX_RIG_KUBECONFIG"]
async fn a_real_budget_holds_a_drain_is_named_and_lets_it_go() {
    let case = Case::new("drain-budget").await;
    case.run(&case.node(), "db-0", &json!({"app": "db"})).await;
    case.run(&case.node(), "bare", &json!({})).await;
    case.run(&case.elsewhere(), "unconcerned", &json!({})).await;
    case.budget("db", "db", 1);
    let budgets = ["-n", case.name, "get", "pdb", "db", "-o", "jsonpath={.status.expectedPods}"];
    case.until("the budget counts its pod", async |_| kubectl(&budgets) == "1").await;

    case.ask("drain-c-1").await;
    let named = "pod drain-budget/db-0: PodDisruptionBudget drain-budget/db needs 1 healthy pods and has 1";
    case.until("the budget is named", async |_| case.waiting().await.contains(named)).await;
    let view = case.view().await;
    assert!(view.cordon_is_ours(), "evicted before the mark was whole");
    assert!(case.is_ending("bare").await, "R-087: one pod held another");
    assert!(!case.is_ending("db-0").await && view.applied_drain.is_none());
    case.until("a pod that ends slowly is named", async |_| {
        case.waiting().await.contains("drain-budget/bare is ending")
    })
    .await;

    // Another healthy one: the budget has room.
    case.run(&case.elsewhere(), "db-1", &json!({"app": "db"})).await;
    case.until("the eviction goes through", async |_| case.is_ending("db-0").await).await;
    assert!(case.view().await.applied_drain.is_none(), "fulfilled while pods are ending");
    case.end("bare").await;
    case.end("db-0").await;
    case.until_fulfilled("drain-c-1").await;
    assert!(!case.is_ending("unconcerned").await && !case.is_ending("db-1").await, "pods of another node");

    case.ask("uncordon-c-2").await;
    case.until_fulfilled("uncordon-c-2").await;
    let view = case.view().await;
    assert!(!view.cordoned && view.mark.is_none() && view.drain_status.is_none());
    case.remove().await;
}

#[tokio::test]
#[ignore = "needs a control plane without a controller of mcx: set MCX_RIG_KUBECONFIG"]
async fn the_node_controller_finds_nothing_to_add_to_our_cordon_nor_to_take_from_its_end() {
    // Its cache may be late: a taint that it adds itself it may add twice, each time with a new time, and the cordon would
    // not be ours any more. So the taint comes and goes with the cordon, and every version of the Node is whole.
    let case = Case::new("drain-taint").await;
    for attempt in [1, 3, 5] {
        case.ask(&format!("drain-c-{attempt}")).await;
        case.until_fulfilled(&format!("drain-c-{attempt}")).await;
        let view = case.view().await;
        assert_eq!(view.cordoned_at, view.mark.map(mcx::api::protocol::CordonMark::at));
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let later = case.view().await;
            assert!(later.cordon_is_ours(), "{later:?}");
        }
        case.ask(&format!("uncordon-c-{}", attempt + 1)).await;
        case.until_fulfilled(&format!("uncordon-c-{}", attempt + 1)).await;
        let view = case.view().await;
        assert!(!view.cordoned && view.cordoned_at.is_none(), "{view:?}");
    }
    case.remove().await;
}

#[tokio::test]
#[ignore = "needs a control plane without a controller of mcx: set MCX_RIG_KUBECONFIG"]
async fn a_pod_under_two_budgets_is_named_as_a_mistake_r076() {
    let case = Case::new("drain-two-budgets").await;
    case.run(&case.node(), "db-0", &json!({"app": "db"})).await;
    for name in ["one", "two"] {
        case.budget(name, "db", 0);
    }
    case.ask("drain-c-1").await;
    let named = "more than one PodDisruptionBudget (drain-two-budgets/one, drain-two-budgets/two)";
    case.until("both are named", async |_| case.waiting().await.contains(named)).await;
    kubectl(&["-n", case.name, "delete", "pdb", "two"]);
    case.until("one is fine", async |_| case.is_ending("db-0").await).await;
    case.end("db-0").await;
    case.until_fulfilled("drain-c-1").await;
    case.remove().await;
}

#[tokio::test]
#[ignore = "needs a control plane without a controller of mcx: set MCX_RIG_KUBECONFIG"]
async fn the_real_taint_tells_an_administrators_cordon_from_ours_hole_4() {
    let case = Case::new("drain-toggled").await;
    case.run(&case.node(), "web", &json!({})).await;
    case.ask("drain-c-1").await;
    case.until("evictions", async |_| case.is_ending("web").await).await;
    // The taint's time has whole seconds: within the second of our own cordon a toggle cannot be seen.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let node = case.node();
    kubectl(&["uncordon", &node]);
    kubectl(&["cordon", &node]);
    case.end("web").await;
    case.until("the attempt ends", async |n| n.drain_status.as_ref().is_some_and(|s| s.ended)).await;
    let view = case.view().await;
    assert!(view.cordoned && view.mark.is_none() && view.applied_drain.is_none(), "{view:#?}");

    case.ask("drain-c-2").await;
    case.until("it waits for the administrator", async |_| case.waiting().await.contains("somebody else")).await;
    case.ask("uncordon-c-3").await;
    case.until_fulfilled("uncordon-c-3").await;
    assert!(case.view().await.cordoned, "the administrator's cordon was lifted");
    case.remove().await;
}
