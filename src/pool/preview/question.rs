//! What a plan is made from: two folders, a folder applied to a cluster, or two rendered configs of a cluster.
//!
//! Reading files is the command's, reading a cluster is `read`'s; what is made here is the state before and after.

use super::apply::apply;
use super::drain::Pods;
use super::read::Cluster;
use super::{Configs, Policy, Question, with_target, world};
use crate::api::{
    self, CLUSTER, ConfigName, MachineConfig, MachineConfigPool, MachineConfiguration, NodeName, PoolName, label,
};
use crate::change::policy::{self, EffectivePolicy};
use crate::pool::membership::{Pools, pool_of_config};
use crate::pool::world::World;
use crate::render::finding::{Finding, Severity};
use crate::render::items::Items;
use crate::render::load::Loaded;
use crate::render::{self, rule, select};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why two rendered configs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is not one of a rendered config.
    #[error(
        "{0:?} is no name of a rendered config; expected rendered-POOL- and 32 hex digits, as kubectl get mc prints it"
    )]
    NoName(String),
    /// No such object.
    #[error("MachineConfig {0} does not exist in the cluster; see kubectl get mc")]
    NoConfig(ConfigName),
    /// It is there and says nothing.
    #[error("MachineConfig {0} cannot be used: {1}")]
    Unusable(ConfigName, String),
    /// The pool of the second config is gone.
    #[error("MachineConfigPool {0} of the second config does not exist in the cluster")]
    NoPool(PoolName),
}

/// The question, unless a finding is an error; and all findings about what is to be, as `mcx render` prints them.
pub type Answer = (Option<Question>, Vec<Finding>);

/// From one folder to another. Without `from`: from a cluster that has only what mcx ships. `namespace` is that of mcx.
///
/// Nodes, pods and what else is there are taken from `to`, kind by kind, and from `from` where `to` has none of a kind.
pub fn between_folders(from: Option<&Loaded>, to: &Loaded, namespace: &str) -> Answer {
    let nothing = Loaded::default();
    let from = from.unwrap_or(&nothing);
    let (before, mut refused) = State::of_folder(from);
    // Of what was, only what makes it unknown is worth saying.
    refused.retain(|f| f.severity == Severity::Error);
    let (after, mut findings) = State::of_folder(to);
    findings.extend(refused);
    let mut found = Vec::new();
    let nodes: Vec<Node> = either(from, to, "Node", &mut found);
    let pods: Vec<Pod> = either(from, to, "Pod", &mut found);
    let sets: Vec<DaemonSet> = either(from, to, "DaemonSet", &mut found);
    let _: Vec<PodDisruptionBudget> = either(from, to, "PodDisruptionBudget", &mut found);
    findings.extend(found);
    sort(&mut findings);
    if has_errors(&findings) {
        return (None, findings);
    }
    // Without any pod it is not known where daemons run: then a node that has a state has one.
    let sets = if pods.is_empty() { &[][..] } else { &sets };
    let world = world(&nodes, &pods, sets, namespace);
    let policy = match to.policies.iter().find(|p| p.name() == CLUSTER) {
        Some(cluster) => Policy {
            effective: EffectivePolicy::from_spec(cluster),
            origin: format!("MachineConfiguration {CLUSTER} of the new state"),
        },
        None => shipped(&format!("the new state has no MachineConfiguration {CLUSTER}")),
    };
    let targets = before.pools.values().map(|p| (p.name().into(), p.target().map(ConfigName::from))).collect();
    (Some(question(world, targets, after, before.configs, policy)), findings)
}

/// The pods of these nodes that the folders hold, taken as in [`between_folders`]; none when they hold no pods at all.
pub fn pods_of_folders(from: Option<&Loaded>, to: &Loaded, nodes: BTreeSet<NodeName>, namespace: &str) -> Option<Pods> {
    let nothing = Loaded::default();
    let from = from.unwrap_or(&nothing);
    // What cannot be read was a finding already.
    let mut found = Vec::new();
    let all: Vec<Pod> = either(from, to, "Pod", &mut found);
    if all.is_empty() {
        return None;
    }
    let mut pods = Pods::of(nodes, namespace);
    for pod in &all {
        pods.pod(pod);
    }
    let budgets: Vec<PodDisruptionBudget> = either(from, to, "PodDisruptionBudget", &mut found);
    for budget in &budgets {
        pods.budget(budget);
    }
    let sets: Vec<DaemonSet> = either(from, to, "DaemonSet", &mut found);
    if sets.is_empty() {
        pods.trust_owners();
    }
    for set in &sets {
        pods.daemon_set(set);
    }
    Some(pods)
}

/// What `kubectl apply` of a folder would do to a cluster. With `prune` the sources of the cluster that are not in it are
/// deleted, as by `kubectl apply --prune` or a tool that keeps a cluster to a repository.
pub fn over_cluster(cluster: &Cluster, input: &Loaded, prune: bool) -> Answer {
    let live = |c: &&MachineConfig| !c.is_rendered();
    let deleted = if prune { missing(cluster, input) } else { Vec::new() };
    let kept = |c: &&MachineConfig| live(c) && !deleted.iter().any(|name| name == c.name());
    let sources = laid_over(cluster.configs.iter().filter(kept), input.configs.iter().filter(live));
    let pools = laid_over(cluster.pools.iter(), input.pools.iter());
    let given = input.policies.iter().find(|p| p.name() == CLUSTER);
    let policy = match (given, &cluster.policy) {
        (Some(given), Some(live)) => applied_policy(&apply(live, given)),
        (Some(given), None) => applied_policy(given),
        (None, Some(live)) => live_policy(live),
        (None, None) => shipped(&format!("the cluster has no MachineConfiguration {CLUSTER}")),
    };
    let mut findings = input.findings.clone();
    findings.extend(input.policies.iter().flat_map(policy::findings));
    let (after, found) = State::new(&pools, &sources, input.has_errors());
    findings.extend(found);
    input.locate(&mut findings);
    // What is odd in the cluster's own objects was so before, and is no news.
    findings.retain(|f| f.severity == Severity::Error || f.file.is_some());
    sort(&mut findings);
    if has_errors(&findings) {
        return (None, findings);
    }
    let before = cluster.targets();
    let world = cluster.world.clone();
    let known =
        cluster.items_of(before.values().flatten().chain(world.nodes.values().filter_map(|n| n.current.as_ref())));
    (Some(Question { deleted, ..question(world, before, after, known, policy) }), findings)
}

/// The sources of a cluster that an input does not have, by name. Those that the controller makes whenever they are missing
/// cannot be deleted.
fn missing(cluster: &Cluster, input: &Loaded) -> Vec<String> {
    let made = api::shipped::sources();
    let has = |configs: &[MachineConfig], name: &str| configs.iter().any(|c| c.name() == name);
    let sources = cluster.configs.iter().filter(|c| !c.is_rendered());
    let mut names: Vec<String> = sources.map(|c| c.name().to_owned()).collect();
    names.retain(|name| !has(&input.configs, name) && !has(&made, name));
    names.sort();
    names
}

/// From one rendered config of a cluster to another, for the nodes of the second one's pool.
pub fn between_rendered(cluster: &Cluster, from: &str, to: &str) -> Result<Question, Error> {
    for name in [from, to] {
        let config = ConfigName::from(name);
        pool_of_config(&config).ok_or_else(|| Error::NoName(name.to_owned()))?;
        let found = cluster.configs.iter().find(|c| c.name() == name).ok_or_else(|| Error::NoConfig(config.clone()))?;
        let usable = Items::from_config(found.spec.config.clone().unwrap_or_default());
        usable.map_err(|errors| Error::Unusable(config, errors.join("; ")))?;
    }
    let (from, to) = (ConfigName::from(from), ConfigName::from(to));
    let name = pool_of_config(&to).unwrap_or_default();
    let mut pools: Pools = cluster.pools.iter().map(|p| (p.name().into(), Arc::new(p.clone()))).collect();
    let pool = pools.get(&name).ok_or_else(|| Error::NoPool(name.clone()))?;
    let pool = Arc::new(with_target(pool, Some(&to)));
    pools.insert(name.clone(), pool);
    let policy = cluster.policy.as_ref().map_or_else(|| shipped("the cluster has none"), live_policy);
    let currents = cluster.world.nodes.values().filter_map(|n| n.current.as_ref());
    Ok(Question {
        configs: cluster.items_of(currents.chain([&from, &to])),
        world: World { pools, ..cluster.world.clone() },
        before: BTreeMap::from([(name.clone(), Some(from))]),
        policy,
        only: BTreeSet::from([name]),
        deleted: Vec::new(),
    })
}

/// Pools with the targets that their sources give them.
struct State {
    pools: Pools,
    configs: Configs,
}

impl State {
    fn of_folder(loaded: &Loaded) -> (Self, Vec<Finding>) {
        let mut findings = loaded.findings.clone();
        findings.extend(loaded.policies.iter().flat_map(policy::findings));
        let (state, found) = Self::new(&loaded.known_pools(), &loaded.known_sources(), loaded.has_errors());
        findings.extend(found);
        loaded.locate(&mut findings);
        (state, findings)
    }

    /// `incomplete`: something could not be read, which may be what a pool without sources selects.
    fn new(pools: &[MachineConfigPool], sources: &[MachineConfig], incomplete: bool) -> (Self, Vec<Finding>) {
        let mut state = Self { pools: Pools::new(), configs: Configs::new() };
        let mut findings = Vec::new();
        for pool in pools {
            let outcome = render::render(pool, sources);
            for finding in outcome.findings {
                // A source of several pools is looked at for each.
                if !findings.contains(&finding) && (finding.rule != rule::NO_SOURCES.id || !incomplete) {
                    findings.push(finding);
                }
            }
            let name = outcome.rendered.as_ref().map(|r| r.name.clone());
            state.pools.insert(pool.name().into(), Arc::new(with_target(pool, name.as_ref())));
            state.configs.extend(outcome.rendered.map(|r| (r.name, Arc::new(r.items))));
        }
        findings.extend(select::unselected(pools, sources));
        (state, findings)
    }
}

fn question(
    world: World,
    mut before: BTreeMap<PoolName, Option<ConfigName>>,
    after: State,
    mut configs: Configs,
    policy: Policy,
) -> Question {
    // The nodes of a pool that is new come from worker: custom pools take theirs from there.
    let worker = before.get(label::WORKER).cloned().flatten();
    for name in after.pools.keys() {
        before.entry(name.clone()).or_insert_with(|| worker.clone());
    }
    configs.extend(after.configs);
    let world = World { pools: after.pools, ..world };
    Question { world, before, configs, policy, only: BTreeSet::new(), deleted: Vec::new() }
}

/// `given` applied to `live`, by name; what is not given stays.
fn laid_over<'a, K>(live: impl Iterator<Item = &'a K>, given: impl Iterator<Item = &'a K>) -> Vec<K>
where
    K: kube::Resource + serde::Serialize + serde::de::DeserializeOwned + Clone + 'a,
{
    let mut all: BTreeMap<String, K> = live.map(|k| (k.name_any(), k.clone())).collect();
    for given in given {
        let name = given.name_any();
        let applied = all.get(&name).map_or_else(|| given.clone(), |live| apply(live, given));
        all.insert(name, applied);
    }
    all.into_values().collect()
}

fn either<T: serde::de::DeserializeOwned>(from: &Loaded, to: &Loaded, kind: &str, found: &mut Vec<Finding>) -> Vec<T> {
    let new = to.foreign(kind, found);
    if new.is_empty() { from.foreign(kind, found) } else { new }
}

fn shipped(why: &str) -> Policy {
    Policy { effective: EffectivePolicy::shipped(), origin: format!("as shipped: {why}") }
}

fn applied_policy(cluster: &MachineConfiguration) -> Policy {
    let origin = format!("MachineConfiguration {CLUSTER} of the input, applied to the cluster");
    Policy { effective: EffectivePolicy::from_spec(cluster), origin }
}

fn live_policy(cluster: &MachineConfiguration) -> Policy {
    let generation = cluster.metadata.generation.unwrap_or_default();
    match EffectivePolicy::from_status(cluster) {
        Some(effective) => Policy {
            effective,
            origin: format!("status of MachineConfiguration {CLUSTER} in the cluster, generation {generation}"),
        },
        None => Policy {
            effective: EffectivePolicy::from_spec(cluster),
            origin: format!(
                "spec of MachineConfiguration {CLUSTER} in the cluster, generation {generation}; its status is older"
            ),
        },
    }
}

/// As a person reads: what stops it first, then from top to bottom.
fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let key = |f: &Finding| (f.severity, f.file.clone(), f.line, f.column);
        key(a).cmp(&key(b))
    });
}

fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|f| f.severity == Severity::Error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::shipped;
    use crate::render::load::{Input, load};
    use serde_json::json;

    fn source(name: &str, path: &str) -> MachineConfig {
        serde_json::from_value(json!({
            "apiVersion": api::API_VERSION, "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {label::ROLE: "worker"}},
            "spec": {"config": {"ignition": {"version": "3.4.0"},
                "storage": {"files": [{"path": path, "contents": {"source": "data:,x"}}]}}}
        }))
        .unwrap()
    }

    #[test]
    fn sources_that_the_input_lacks_are_deleted_only_where_that_is_asked_for() {
        let mut configs = shipped::sources();
        configs.extend([source("50-a", "/etc/a"), source("60-b", "/etc/b"), source("70-c", "/etc/c")]);
        let worker = shipped::pools().into_iter().find(|pool| pool.name() == label::WORKER).unwrap();
        let before = render::render(&worker, &configs).rendered.unwrap();
        let pools = shipped::pools().into_iter().map(|pool| {
            let target = (pool.name() == label::WORKER).then_some(&before.name);
            with_target(&pool, target)
        });
        let pools: Vec<MachineConfigPool> = pools.collect();
        configs.push(serde_json::from_value(serde_json::to_value(before.to_object(&worker)).unwrap()).unwrap());
        let cluster = Cluster { pools, configs, ..Cluster::default() };
        let text = serde_json::to_string(&source("60-b", "/etc/b")).unwrap();
        let input = load(vec![Input { name: "-".to_owned(), bytes: text.into_bytes() }]);
        let changes = |prune: bool| {
            let (question, findings) = over_cluster(&cluster, &input, prune);
            assert_eq!(findings, []);
            let plan = super::super::plan(question.unwrap());
            let worker = plan.pools.iter().find(|p| p.pool.as_str() == label::WORKER).unwrap();
            (plan.deleted.clone(), worker.updates[0].change.as_ref().map(|c| c.changes.to_string()))
        };
        assert_eq!(changes(false), (Vec::new(), Some("nothing".to_owned())));
        // What is rendered, and what the controller makes again, is left out.
        let deleted = vec!["50-a".to_owned(), "70-c".to_owned()];
        assert_eq!(changes(true), (deleted, Some("2 files removed".to_owned())));
    }
}
