//! Which kinds of objects the controller caches, and what of each is kept.
//!
//! Every replica keeps them warm; a new leader decides at once. Objects of ours that cannot be read are kept by name
//! with the reason: one of them must be named to people, and must not stop the others (`DeserializeGuard`).

use super::cache::{Cache, follow, one_line};
use super::placement::Placement;
use super::view::NodeView;
use super::world::World;
use crate::api::{
    CLUSTER, ConfigName, DAEMONSET, DEPLOYMENT, MachineConfig, MachineConfigPool, MachineConfiguration, NodeName,
    PoolName, annotation,
};
use crate::change::policy::EffectivePolicy;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Where kubelets keep their leases.
const NODE_LEASES: &str = "kube-node-lease";
/// kubectl keeps a second copy of the whole object here.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object, or why it cannot be read.
pub type Readable<K> = Result<Arc<K>, Unreadable>;

/// An object that is there and cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// Its labels: which pools it concerns.
    pub labels: BTreeMap<String, String>,
    /// What is wrong, one line.
    pub error: String,
}

/// A pod of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// Name.
    pub name: String,
    /// Controller or daemon.
    pub role: Role,
    /// Where it runs; none before it is scheduled.
    pub node: Option<NodeName>,
    /// Ready, and not about to go.
    pub ready: bool,
}

/// What a pod of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Of the Deployment.
    Controller,
    /// Of the DaemonSet.
    Daemon,
}

/// All caches.
#[derive(Debug, Default)]
pub struct Caches {
    pools: Arc<Cache<Readable<MachineConfigPool>>>,
    configs: Arc<Cache<Readable<MachineConfig>>>,
    policies: Arc<Cache<Readable<MachineConfiguration>>>,
    nodes: Arc<Cache<Arc<NodeView>>>,
    pods: Arc<Cache<PodView>>,
    leases: Arc<Cache<Timestamp>>,
    daemon_sets: Arc<Cache<Placement>>,
    changed: Arc<Notify>,
}

/// Objects that only rendering, policy and hand-over look at, at the moment of a [`World`].
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// Sources and rendered configs.
    pub configs: BTreeMap<String, Readable<MachineConfig>>,
    /// All `MachineConfigurations`, whatever their name.
    pub policies: BTreeMap<String, Readable<MachineConfiguration>>,
    /// Pools as the API has them: in the world they show what this leader has written already.
    pub pools: BTreeMap<String, Arc<MachineConfigPool>>,
    /// Pools that cannot be read.
    pub unreadable_pools: BTreeMap<String, Unreadable>,
    /// Pods of the controller and the daemons.
    pub pods: Vec<PodView>,
}

impl Caches {
    /// Starts to follow all kinds, in tasks of `tasks`, which end only when they are dropped.
    pub fn start(client: &Client, namespace: &str, tasks: &mut JoinSet<()>) -> Self {
        let caches = Self::default();
        let all = watcher::Config::default;
        let changed = || Some(Arc::clone(&caches.changed));
        let c = || client.clone();
        tasks.spawn(follow(Arc::clone(&caches.pools), Api::all(c()), all(), readable, changed()));
        tasks.spawn(follow(Arc::clone(&caches.configs), Api::all(c()), all(), readable, changed()));
        tasks.spawn(follow(Arc::clone(&caches.policies), Api::all(c()), all(), readable, changed()));
        let node = |node: Node| Some(Arc::new(NodeView::new(&node)));
        tasks.spawn(follow(Arc::clone(&caches.nodes), Api::all(c()), all(), node, changed()));
        let pods = Api::namespaced(c(), namespace);
        tasks.spawn(follow(Arc::clone(&caches.pods), pods, all(), |pod: Pod| PodView::new(&pod), changed()));
        let daemon_sets: Api<DaemonSet> = Api::namespaced(c(), namespace);
        let by_name = all().fields(&format!("metadata.name={DAEMONSET}"));
        tasks.spawn(follow(
            Arc::clone(&caches.daemon_sets),
            daemon_sets,
            by_name,
            |set| Some(Placement::new(&set)),
            changed(),
        ));
        // A renewed lease wakes nobody: there are some hundreds a second in a large cluster.
        let leases: Api<Lease> = Api::namespaced(c(), NODE_LEASES);
        let renewed = |lease: Lease| Some(lease.spec?.renew_time?.0);
        tasks.spawn(follow(Arc::clone(&caches.leases), leases, all(), renewed, None));
        caches
    }

    /// Whether every kind has been listed once: until then nothing may be decided.
    pub fn are_synced(&self) -> bool {
        self.missing().is_empty()
    }

    /// The kinds that have not been listed yet.
    pub fn missing(&self) -> Vec<&'static str> {
        let all = [
            ("MachineConfigPools", self.pools.is_synced()),
            ("MachineConfigs", self.configs.is_synced()),
            ("MachineConfigurations", self.policies.is_synced()),
            ("Nodes", self.nodes.is_synced()),
            ("Pods", self.pods.is_synced()),
            ("DaemonSets", self.daemon_sets.is_synced()),
            ("Leases", self.leases.is_synced()),
        ];
        all.into_iter().filter(|(_, synced)| !synced).map(|(kind, _)| kind).collect()
    }

    /// Returns once something has changed since the last return.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Everything at one moment. How the rendering stands is for the renderer to add.
    pub fn snapshot(&self, now: Timestamp) -> (World, Objects) {
        let mut world = World { now: Some(now), ..World::default() };
        let mut objects = Objects::default();
        for (name, pool) in &*self.pools.read() {
            match pool {
                Ok(pool) => {
                    world.pools.insert(PoolName::from(name.as_str()), Arc::clone(pool));
                    objects.pools.insert(name.clone(), Arc::clone(pool));
                }
                Err(why) => {
                    objects.unreadable_pools.insert(name.clone(), why.clone());
                }
            }
        }
        objects.configs.clone_from(&self.configs.read());
        objects.policies.clone_from(&self.policies.read());
        objects.pods = self.pods.read().values().cloned().collect();
        let rendered = objects.configs.values().filter_map(|c| c.as_ref().ok()).filter(|c| c.is_rendered());
        world.rendered = rendered.map(|c| ConfigName::from(c.name())).collect();
        world.nodes = self.nodes.read().iter().map(|(n, v)| (NodeName::from(n.as_str()), Arc::clone(v))).collect();
        world.leases = self.leases.read().iter().map(|(n, t)| (NodeName::from(n.as_str()), *t)).collect();
        let sets = self.daemon_sets.read();
        let expected = |node: &&Arc<NodeView>| sets.values().any(|placement| placement.expects(node));
        world.daemons_expected = world.nodes.values().filter(expected).map(|n| n.name.clone()).collect();
        drop(sets);
        let daemons = objects.pods.iter().filter(|p| p.role == Role::Daemon && p.ready);
        world.daemons = daemons.filter_map(|p| p.node.clone()).collect();
        world.policy_problem = problem(&objects);
        if world.policy_problem.is_none()
            && let Some(Ok(cluster)) = objects.policies.get(CLUSTER)
        {
            world.policy = EffectivePolicy::from_status(cluster).map(Arc::new);
        }
        (world, objects)
    }
}

/// Why nothing may be handed out. A pool that cannot be read is a reason: its nodes would look like another pool's.
fn problem(objects: &Objects) -> Option<String> {
    if let Some((name, why)) = objects.unreadable_pools.iter().next() {
        return Some(format!("MachineConfigPool {name} cannot be read: {}; correct or delete it", why.error));
    }
    match objects.policies.get(CLUSTER) {
        None => Some(format!("MachineConfiguration {CLUSTER} is missing; it is about to be created again")),
        Some(Err(why)) => Some(format!("MachineConfiguration {CLUSTER} cannot be read: {}; correct it", why.error)),
        Some(Ok(_)) => None,
    }
}

#[allow(clippy::unnecessary_wraps, reason = "a cache may drop objects; of these it keeps all")]
fn readable<K: Resource>(object: DeserializeGuard<K>) -> Option<Readable<K>> {
    Some(match object.0 {
        Ok(mut object) => {
            slim(object.meta_mut());
            Ok(Arc::new(object))
        }
        Err(invalid) => Err(Unreadable {
            labels: invalid.metadata.labels.clone().unwrap_or_default(),
            error: annotation::cut(&one_line(&invalid), 300),
        }),
    })
}

/// Takes off what no decision reads and what can be as large as the object itself.
fn slim(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

impl PodView {
    /// Reads a Pod in the namespace of mcx; none when it is not of mcx.
    pub fn new(pod: &Pod) -> Option<Self> {
        let owners = pod.metadata.owner_references.iter().flatten();
        let role = owners.filter(|o| o.controller == Some(true)).find_map(|o| match o.kind.as_str() {
            "DaemonSet" if o.name == DAEMONSET => Some(Role::Daemon),
            "ReplicaSet" if o.name.rsplit_once('-').is_some_and(|(deployment, _)| deployment == DEPLOYMENT) => {
                Some(Role::Controller)
            }
            _ => None,
        })?;
        let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
        Some(Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            role,
            node: pod.spec.as_ref().and_then(|s| s.node_name.clone()).map(NodeName::from),
            ready: ready && pod.metadata.deletion_timestamp.is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod_of(owner: (&str, &str), ready: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": owner.0, "name": owner.1, "uid": "u", "controller": true
            }]},
            "spec": {"nodeName": "n1", "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}
        }))
        .unwrap()
    }

    #[test]
    fn pods_are_known_by_their_owner_and_a_going_one_is_not_ready() {
        let daemon = PodView::new(&pod_of(("DaemonSet", DAEMONSET), "True")).unwrap();
        assert!(daemon.role == Role::Daemon && daemon.ready && daemon.node == Some("n1".into()));
        let controller = PodView::new(&pod_of(("ReplicaSet", "machine-config-controller-5d8f"), "False")).unwrap();
        assert!(controller.role == Role::Controller && !controller.ready);
        assert_eq!(PodView::new(&pod_of(("ReplicaSet", "other-5d8f"), "True")), None);
        assert_eq!(PodView::new(&pod_of(("DaemonSet", "other"), "True")), None);
        let mut going = pod_of(("DaemonSet", DAEMONSET), "True");
        going.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
        assert!(!PodView::new(&going).unwrap().ready);
    }

    #[test]
    fn a_malformed_object_is_kept_by_name_with_its_labels() {
        let bad: DeserializeGuard<MachineConfig> = serde_json::from_value(json!({
            "metadata": {"name": "99-bad", "labels": {"role": "worker"}},
            "spec": {"kernelArguments": "quiet"}
        }))
        .unwrap();
        let why = readable(bad).unwrap().unwrap_err();
        assert_eq!(why.labels["role"], "worker");
        assert!(!why.error.is_empty() && !why.error.contains('\n'), "{}", why.error);
    }

    #[test]
    fn r_166_copies_that_kubectl_and_the_server_keep_are_not_cached() {
        let object: DeserializeGuard<MachineConfig> = serde_json::from_value(json!({
            "metadata": {
                "name": "x", "managedFields": [{"manager": "kubectl"}],
                "annotations": {LAST_APPLIED: "{}", "keep": "me"}
            }
        }))
        .unwrap();
        let object = readable(object).unwrap().unwrap();
        assert_eq!(object.metadata.managed_fields, None);
        assert_eq!(object.metadata.annotations.clone().unwrap().into_keys().collect::<Vec<_>>(), ["keep"]);
    }

    #[test]
    fn nothing_is_handed_out_while_a_pool_or_the_policy_cannot_be_read() {
        let caches = Caches::default();
        let (world, _) = caches.snapshot(Timestamp::UNIX_EPOCH);
        assert!(world.policy.is_none() && world.policy_problem.unwrap().contains("is missing"));
        let mut objects = Objects::default();
        let cluster = crate::api::shipped::machine_configuration();
        objects.policies.insert(CLUSTER.to_owned(), Ok(Arc::new(cluster)));
        assert_eq!(problem(&objects), None);
        let broken = Unreadable { labels: BTreeMap::new(), error: "no".to_owned() };
        objects.unreadable_pools.insert("infra".to_owned(), broken);
        assert!(problem(&objects).unwrap().contains("MachineConfigPool infra"));
    }
}
