//! A cluster as a plan looks at it: read once, page by page, each request bounded in time. Nothing is written.

use super::drain::Pods;
use super::{Configs, world};
use crate::api::{
    CLUSTER, ConfigName, DAEMONSET, MachineConfig, MachineConfigPool, MachineConfiguration, NodeName, PoolName,
};
use crate::pool::cache::one_line;
use crate::pool::door::{self, Door};
use crate::pool::world::World;
use crate::render::items::Items;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

/// Objects in one answer of the API server.
const PAGE: u32 = 500;
/// The same for `MachineConfigs`, of which one may take 1.5 MiB.
const CONFIG_PAGE: u32 = 50;

/// Why a cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error(transparent)]
    Door(#[from] door::Error),
    /// An object of ours that the API server keeps and mcx cannot read.
    #[error("{kind} {name} in the cluster cannot be read: {why}; correct or delete it")]
    Unreadable {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// Whether whoever asks may not see it.
    pub fn is_forbidden(&self) -> bool {
        let Self::Door(door::Error::Api { source, .. }) = self else { return false };
        matches!(&**source, kube::Error::Api(status) if status.code == 403)
    }
}

/// What a cluster has.
#[derive(Debug, Default)]
pub struct Cluster {
    /// All pools.
    pub pools: Vec<MachineConfigPool>,
    /// Sources and rendered configs.
    pub configs: Vec<MachineConfig>,
    /// `cluster`; none when it is missing.
    pub policy: Option<MachineConfiguration>,
    /// Nodes and daemons; no pools.
    pub world: World,
}

impl Cluster {
    /// Reads all but pods. `namespace` is that of mcx.
    pub async fn read(door: &Door, namespace: &str) -> Result<Self, Error> {
        let client = || door.client().clone();
        let pools = ours("MachineConfigPool", door, door.client(), PAGE).await?;
        let configs = ours("MachineConfig", door, door.client(), CONFIG_PAGE).await?;
        let policies: Vec<MachineConfiguration> = ours("MachineConfiguration", door, door.client(), PAGE).await?;
        let (mut nodes, mut pods) = (Vec::<Node>::new(), Vec::<Pod>::new());
        list(door, &Api::all(client()), "Nodes", ListParams::default().limit(PAGE), |node| nodes.push(node)).await?;
        let what = format!("Pods of namespace {namespace}");
        let params = ListParams::default().limit(PAGE);
        list(door, &Api::namespaced(client(), namespace), &what, params, |pod| pods.push(pod)).await?;
        let sets: Api<DaemonSet> = Api::namespaced(client(), namespace);
        let what = || format!("read DaemonSet {namespace}/{DAEMONSET}");
        let set = door.bounded(what, sets.get_opt(DAEMONSET)).await?;
        Ok(Self {
            pools,
            configs,
            policy: policies.into_iter().find(|p| p.name() == CLUSTER),
            world: world(&nodes, &pods, set.as_slice(), namespace),
        })
    }

    /// The target of each pool.
    pub fn targets(&self) -> BTreeMap<PoolName, Option<ConfigName>> {
        self.pools.iter().map(|p| (p.name().into(), p.target().map(ConfigName::from))).collect()
    }

    /// What these rendered configs mean. One that is missing, or was made unreadable by hand, is left out.
    pub fn items_of<'a>(&self, names: impl Iterator<Item = &'a ConfigName>) -> Configs {
        let wanted: BTreeSet<&str> = names.map(ConfigName::as_str).collect();
        let of = |config: &MachineConfig| {
            let items = Items::from_config(config.spec.config.as_ref()?).ok()?;
            Some((ConfigName::from(config.name()), Arc::new(items)))
        };
        self.configs.iter().filter(|c| c.is_rendered() && wanted.contains(c.name())).filter_map(of).collect()
    }
}

/// The pods of these nodes, budgets and `DaemonSets`.
pub async fn pods(door: &Door, nodes: BTreeSet<NodeName>, namespace: &str) -> Result<Pods, Error> {
    let client = || door.client().clone();
    let mut pods = Pods::of(nodes, namespace);
    let params = || ListParams::default().limit(PAGE);
    list(door, &Api::<Pod>::all(client()), "Pods", params(), |pod| pods.pod(&pod)).await?;
    let budgets = Api::<PodDisruptionBudget>::all(client());
    list(door, &budgets, "PodDisruptionBudgets", params(), |budget| pods.budget(&budget)).await?;
    list(door, &Api::<DaemonSet>::all(client()), "DaemonSets", params(), |set| pods.daemon_set(&set)).await?;
    Ok(pods)
}

/// All objects of a kind of ours.
async fn ours<K>(kind: &'static str, door: &Door, client: &kube::Client, page: u32) -> Result<Vec<K>, Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<DeserializeGuard<K>> = Api::all(client.clone());
    let (mut found, mut wrong) = (Vec::new(), None);
    list(door, &api, &format!("{kind}s"), ListParams::default().limit(page), |object| match object.0 {
        Ok(object) => found.push(object),
        Err(invalid) => {
            let name = invalid.metadata.name.clone().unwrap_or_default();
            wrong.get_or_insert(Error::Unreadable { kind, name, why: one_line(&invalid) });
        }
    })
    .await?;
    wrong.map_or(Ok(found), Err)
}

/// Hands over all objects, page by page.
async fn list<K>(
    door: &Door,
    api: &Api<K>,
    what: &str,
    mut params: ListParams,
    mut each: impl FnMut(K),
) -> Result<(), Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    loop {
        let page = door.bounded(|| format!("list {what}"), api.list(&params)).await?;
        page.items.into_iter().for_each(&mut each);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}
