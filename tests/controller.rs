//! The controller as a process on a real API server: what it creates, puts back and heals, and how replicas follow one
//! another. Nodes are made by hand; no daemon takes part.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod cluster;
#[path = "support/controller_process.rs"]
mod controller_process;

use cluster::{admin, install, kubeconfig, kubectl};
use controller_process::ControllerProcess;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use mcx::api::machine_config_pool::PoolCondition;
use mcx::api::protocol::Slots;
use mcx::api::{
    CLUSTER, LEASE, MachineConfig, MachineConfigPool, MachineConfiguration, NAMESPACE, annotation, condition, label,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

/// The shipped objects are one per cluster: tests take turns.
static TURN: Mutex<()> = Mutex::const_new(());

/// With the flags of an installation.
fn start(pod: &str) -> ControllerProcess {
    ControllerProcess::start(pod, Path::new(&kubeconfig()), &[])
}

async fn ended(controller: &mut ControllerProcess) -> ExitStatus {
    eventually("the controller ends", 10, async || controller.process.try_wait().ok().flatten()).await
}

/// Asks until there is an answer.
async fn eventually<T>(what: &str, seconds: u64, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < until, "not within {seconds} s: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

struct Case {
    pools: Api<MachineConfigPool>,
    configs: Api<MachineConfig>,
    policies: Api<MachineConfiguration>,
    leases: Api<Lease>,
    _turn: MutexGuard<'static, ()>,
}

impl Case {
    /// An installed cluster whose lease nobody holds.
    async fn new() -> Self {
        let turn = TURN.lock().await;
        install();
        let client: Client = admin().await;
        let case = Self {
            pools: Api::all(client.clone()),
            configs: Api::all(client.clone()),
            policies: Api::all(client.clone()),
            leases: Api::namespaced(client, NAMESPACE),
            _turn: turn,
        };
        // What a killed controller of an earlier test holds would run out by itself.
        let _ = case.leases.delete(LEASE, &DeleteParams::default()).await;
        case
    }

    /// A leading controller whose pools' targets are of the sources that are there, not of what an earlier test left.
    async fn lead(&self, pod: &str) -> ControllerProcess {
        let controller = start(pod);
        eventually("it is ready", 30, async || controller.is_ready().then_some(())).await;
        eventually("it leads", 30, async || controller.leads().then_some(())).await;
        for role in [label::MASTER, label::WORKER] {
            let selected = ListParams::default().labels(&format!("{}={role}", label::ROLE));
            eventually("the target is of the sources", 15, async || {
                let sources = self.configs.list(&selected).await.ok()?.items;
                let mut named = sources.iter().map(|source| source.metadata.name.clone());
                let target = self.pool(role).await?.spec.configuration?.source?;
                (target.iter().all(|s| Some(&s.name) == named.next().as_ref()) && named.next().is_none()).then_some(())
            })
            .await;
            self.target(role, |_| true).await;
        }
        controller
    }

    async fn pool(&self, name: &str) -> Option<MachineConfigPool> {
        self.pools.get_opt(name).await.ok().flatten()
    }

    /// The name of the pool's target once it is accepted.
    async fn target(&self, pool: &str, accept: impl Fn(&str) -> bool) -> String {
        eventually("the target", 15, async || {
            let target = self.pool(pool).await?.target()?.to_owned();
            (accept(&target) && self.configs.get_opt(&target).await.ok()?.is_some()).then_some(target)
        })
        .await
    }

    async fn condition(&self, pool: &str, type_: &str, status: &str) -> PoolCondition {
        eventually(&format!("{pool} {type_}={status}"), 15, async || {
            let conditions = self.pool(pool).await?.status?.conditions?;
            conditions.into_iter().find(|c| c.type_ == type_ && c.status == status)
        })
        .await
    }

    async fn source(&self, name: &str, config: Value) {
        self.remove(name).await;
        let source = json!({
            "apiVersion": mcx::api::API_VERSION, "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {label::ROLE: label::WORKER}}, "spec": {"config": config}
        });
        let source = serde_json::from_value(source).expect("a MachineConfig");
        self.configs.create(&PostParams::default(), &source).await.expect("it is created");
    }

    async fn remove(&self, name: &str) {
        let _ = self.configs.delete(name, &DeleteParams::default()).await;
    }

    async fn epoch(&self) -> String {
        let pool = self.pool(label::WORKER).await.expect("the pool");
        let text = &pool.metadata.annotations.expect("annotations")[annotation::SLOTS];
        serde_json::from_str::<Slots>(text).expect("slots").epoch.to_string()
    }
}

fn file(text: &str) -> Value {
    let contents = json!({"source": format!("data:,{text}")});
    json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/x", "mode": 420, "contents": contents}]}})
}

#[tokio::test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
async fn shipped_objects_are_created_when_absent_and_never_overwritten() {
    let case = Case::new().await;
    let _controller = case.lead("c1").await;
    let limit = |n: Value| Patch::Merge(json!({"spec": {"maxUnavailable": n}}));
    case.pools.patch(label::WORKER, &PatchParams::default(), &limit(json!(2))).await.expect("patched");
    case.policies.delete(CLUSTER, &DeleteParams::default()).await.expect("deleted");
    case.remove("00-worker").await;
    let status = eventually("cluster is back with its status", 10, async || {
        let cluster = case.policies.get_opt(CLUSTER).await.ok().flatten()?;
        let generation = cluster.metadata.generation;
        cluster.status.filter(|s| s.observed_generation == generation)
    })
    .await;
    let defaults = status.node_disruption_policy_status.and_then(|p| p.default_actions).expect("defaults");
    assert_eq!((defaults.files[0].type_.as_str(), defaults.units[0].type_.as_str()), ("None", "Reboot"));
    eventually("00-worker is back", 10, async || case.configs.get_opt("00-worker").await.ok().flatten()).await;
    let kept = case.pool(label::WORKER).await.expect("the pool").spec.max_unavailable;
    assert_eq!(serde_json::to_value(kept).expect("a value"), json!(2), "what a person wrote was overwritten");
    case.pools.patch(label::WORKER, &PatchParams::default(), &limit(Value::Null)).await.expect("patched");
}

#[tokio::test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
async fn rendered_configs_and_targets_that_people_edit_or_delete_are_put_back() {
    let case = Case::new().await;
    let _controller = case.lead("c1").await;
    let first = case.target(label::WORKER, |_| true).await;
    case.source("50-test", file("one")).await;
    let target = case.target(label::WORKER, |t| t != first).await;
    let spec = case.configs.get(&target).await.expect("it is there").spec;
    let evil = Patch::Merge(json!({"spec": {"config": {"storage": {"files": []}}}}));
    case.configs.patch(&target, &PatchParams::default(), &evil).await.expect("patched");
    let same = async || case.configs.get_opt(&target).await.ok().flatten().filter(|c| c.spec == spec).map(drop);
    eventually("the edited config is put back", 10, same).await;
    case.remove(&target).await;
    eventually("the deleted config is put back", 10, same).await;
    let other = Patch::Merge(json!({"spec": {"configuration": {"name": "rendered-master-1"}}}));
    case.pools.patch(label::WORKER, &PatchParams::default(), &other).await.expect("patched");
    assert_eq!(case.target(label::WORKER, |t| t == target).await, target);
    case.remove("50-test").await;
    assert_eq!(case.target(label::WORKER, |t| t == first).await, first, "the same sources give the same config");
}

#[tokio::test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
async fn a_bad_source_is_named_stops_nothing_else_and_heals_when_it_is_gone() {
    let case = Case::new().await;
    let _controller = case.lead("c1").await;
    let target = case.target(label::WORKER, |_| true).await;
    case.source("99-bad", json!({"ignition": {"version": "2.2.0"}})).await;
    let named = case.condition(label::WORKER, condition::RENDER_DEGRADED, "True").await;
    assert!(named.message.contains("MachineConfig/99-bad") && named.message.contains("ignition.version"), "{named:?}");
    assert_eq!(case.target(label::WORKER, |_| true).await, target, "the pool keeps its target");
    case.condition(label::MASTER, condition::RENDER_DEGRADED, "False").await;
    let unlike = json!({"metadata": {"labels": {label::ROLE: label::MASTER}}});
    case.configs.patch("99-bad", &PatchParams::default(), &Patch::Merge(unlike)).await.expect("patched");
    case.condition(label::MASTER, condition::RENDER_DEGRADED, "True").await;
    case.condition(label::WORKER, condition::RENDER_DEGRADED, "False").await;
    case.remove("99-bad").await;
    case.condition(label::MASTER, condition::RENDER_DEGRADED, "False").await;
}

#[tokio::test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
async fn r_018_twenty_sources_at_once_give_one_rendered_config() {
    let case = Case::new().await;
    let _controller = case.lead("c1").await;
    let before = case.target(label::WORKER, |_| true).await;
    let count = async || {
        let selected = ListParams::default().labels(&format!("{}={}", label::RENDERED, label::WORKER));
        case.configs.list(&selected).await.expect("a list").items.len()
    };
    let (at_first, unique) = (count().await, std::process::id());
    let list: Vec<Value> = (0..20)
        .map(|n| {
            let mut config = file(&format!("{unique}"));
            config["storage"]["files"][0]["path"] = json!(format!("/etc/burst/{n}"));
            json!({
                "apiVersion": mcx::api::API_VERSION, "kind": "MachineConfig",
                "metadata": {"name": format!("60-burst-{n}"), "labels": {label::ROLE: label::WORKER}},
                "spec": {"config": config}
            })
        })
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("list.json");
    std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": list}).to_string()).expect("written");
    kubectl(&["apply", "-f", &path.display().to_string()]);
    case.target(label::WORKER, |t| t != before).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let rendered = count().await - at_first;
    kubectl(&["delete", "-f", &path.display().to_string()]);
    assert_eq!(rendered, 1);
    case.target(label::WORKER, |t| t == before).await;
}

#[tokio::test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
async fn r_167_a_quiet_cluster_is_left_alone() {
    let case = Case::new().await;
    let controller = case.lead("c1").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = controller.writes();
    assert!(!before.is_empty());
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(controller.writes(), before);
}

#[tokio::test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
async fn r_178_the_next_leader_follows_at_once_after_sigterm_and_within_15_s_after_a_kill() {
    let case = Case::new().await;
    let mut first = case.lead("c1").await;
    let second = start("c2");
    eventually("the second is ready", 30, async || second.is_ready().then_some(())).await;
    assert!(first.leads() && !second.leads());
    first.signal(Signal::SIGTERM);
    let asked = Instant::now();
    assert_eq!(ended(&mut first).await.code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?} to end", asked.elapsed());
    eventually("the second leads", 4, async || second.leads().then_some(())).await;
    let third = start("c3");
    eventually("the third is ready", 30, async || third.is_ready().then_some(())).await;
    second.signal(Signal::SIGKILL);
    eventually("the third leads", 15, async || third.leads().then_some(())).await;
}

#[tokio::test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
async fn r_177_a_frozen_leader_that_wakes_after_another_has_taken_over_writes_nothing() {
    let case = Case::new().await;
    let first = case.lead("c1").await;
    let second = start("c2");
    eventually("the second is ready", 30, async || second.is_ready().then_some(())).await;
    let frozen = case.epoch().await;
    first.signal(Signal::SIGSTOP);
    // Work that waits for it when it wakes.
    case.source("50-test", file("frozen")).await;
    eventually("the second leads", 20, async || second.leads().then_some(())).await;
    eventually("the second has taken over", 10, async || (case.epoch().await != frozen).then_some(())).await;
    let epoch = case.epoch().await;
    assert!(first.page("/healthz").is_none(), "it is not frozen");
    first.signal(Signal::SIGCONT);
    eventually("the first notices", 10, async || (first.page("/healthz").is_some() && !first.leads()).then_some(()))
        .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(case.epoch().await, epoch, "the frozen leader took the pool back");
    assert!(second.leads() && !first.leads());
    case.remove("50-test").await;
}
