//! What a change would do to the nodes, before anybody applies it: what changes, what that costs, who goes when, who waits
//! and why, what a drain meets. Pure, but for `read`.
//!
//! | module | knows |
//! |---|---|
//! | `question` | folders, or a folder over a cluster → what a plan is made from |
//! | `apply` | what `kubectl apply` makes of an object that is there |
//! | `waves` | how a rollout goes on, by the rollout's own decisions |
//! | `drain` | which pods would go, what holds them, what is lost |
//! | `read` | all of it from a cluster |
//!
//! Nothing is decided here anew: change sets and actions are `change`'s, who may go is `rollout::decide`'s. What a preview
//! says is what controller and daemons do, as long as nothing else happens meanwhile.

pub mod apply;
pub mod drain;
pub mod question;
pub mod read;
mod waves;

use super::caches::{PodView, Role};
use super::membership::{Membership, Pools};
use super::placement::Placement;
use super::view::NodeView;
use super::world::World;
use crate::api::machine_config_pool::ConfigurationReference;
use crate::api::{ConfigName, MachineConfigPool, NodeName, PoolName};
use crate::change::policy::EffectivePolicy;
use crate::change::text::{self, Diff};
use crate::change::{Actions, ChangeSet, Difference, actions};
use crate::render::item::Item;
use crate::render::items::Items;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// What an update costs a node, the least first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Cost {
    /// Nothing changes.
    #[default]
    Nothing,
    /// Files, units or keys change, services may be restarted; nothing is drained.
    NoDisruption,
    /// The node is drained.
    Drain,
    /// The node is drained and reboots.
    Reboot,
}

/// The policy that a plan is made under.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The policy.
    pub effective: EffectivePolicy,
    /// Where it comes from, for people.
    pub origin: String,
}

/// The rendered configs that are known, by name.
pub type Configs = BTreeMap<ConfigName, Arc<Items>>;

/// What a plan is made from.
#[derive(Debug)]
pub struct Question {
    /// Pools with their new targets, and the nodes as they are.
    pub world: World,
    /// What the nodes of each pool have before, by pool; none: nothing (the empty config).
    pub before: BTreeMap<PoolName, Option<ConfigName>>,
    /// All configs that are known. Of a node that has another, it is only said that it has.
    pub configs: Configs,
    /// The policy that holds.
    pub policy: Policy,
    /// Only these pools; empty: all.
    pub only: BTreeSet<PoolName>,
    /// Sources of the cluster that are gone after it.
    pub deleted: Vec<String>,
}

/// What a change would do.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The most that it costs any node.
    pub cost: Cost,
    /// Where the policy comes from.
    pub policy: String,
    /// Sources of the cluster that count as deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// Nodes that are known, in any pool or none. Who goes when is known only of them.
    pub nodes: usize,
    /// By name.
    pub pools: Vec<PoolPlan>,
    /// Nodes in no pool: they get nothing.
    pub without_pool: Vec<Waits>,
}

/// What a change would do to one pool.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolPlan {
    /// The pool.
    pub pool: PoolName,
    /// The most that it costs any node of the pool.
    pub cost: Cost,
    /// Nodes in the pool, as far as Nodes are known.
    pub nodes: usize,
    /// How many of them may be unavailable at a time; none when `spec.maxUnavailable` is no limit.
    pub max_unavailable: Option<usize>,
    /// First the pool's own; then one for each other config that nodes have.
    pub updates: Vec<Update>,
    /// Nodes that are on their way to some config now, and how far they are.
    pub under_way: Vec<Waits>,
    /// Nodes that would go, in order; those of one wave go together.
    pub waves: Vec<Vec<NodeName>>,
    /// Nodes that do not serve with the target when all others do, and why.
    pub waits: Vec<Waits>,
    /// What drains would meet, by node; none while the pods are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drains: Option<Vec<drain::NodeDrain>>,
}

/// The way from one config to the target.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// What nodes have before; none: nothing (the empty config).
    pub from: Option<ConfigName>,
    /// What they get; none: the pool has no target.
    pub to: Option<ConfigName>,
    /// Nodes that have `from` and are to go this way.
    pub nodes: Vec<NodeName>,
    /// None when `from` or `to` is not known.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// What an update changes, and what that costs.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What it costs.
    pub cost: Cost,
    /// The lines that differ, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diff>,
    /// The change set.
    #[serde(serialize_with = "change_set")]
    pub changes: ChangeSet,
    /// What the node does, in order, and why.
    #[serde(flatten, serialize_with = "actions_and_causes")]
    pub actions: Actions,
}

/// A node that does not go, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// The node.
    pub node: NodeName,
    /// For people.
    pub why: String,
}

impl Change {
    /// Between two configs.
    pub fn between(old: &Items, new: &Items, policy: &EffectivePolicy) -> Self {
        let changes = ChangeSet::between(old, new);
        let actions = actions(&changes, policy);
        let cost = match () {
            () if actions.reboots() => Cost::Reboot,
            () if actions.needs_drain() => Cost::Drain,
            () if changes.is_empty() => Cost::Nothing,
            () => Cost::NoDisruption,
        };
        Self { cost, diff: None, changes, actions }
    }
}

impl Update {
    /// What it costs; an unknown one nothing that is known.
    pub fn cost(&self) -> Cost {
        self.change.as_ref().map_or(Cost::Nothing, |c| c.cost)
    }
}

impl PoolPlan {
    /// Nodes that are drained on their way, in the order of their updates.
    fn draining(&self) -> impl Iterator<Item = &NodeName> {
        self.updates.iter().filter(|update| update.cost() >= Cost::Drain).flat_map(|update| &update.nodes)
    }
}

impl Plan {
    /// Nodes that are drained on their way: those whose pods are worth knowing.
    pub fn draining(&self) -> BTreeSet<NodeName> {
        self.pools.iter().flat_map(PoolPlan::draining).cloned().collect()
    }

    /// Adds the lines that differ: with the contents of files, which may be secret.
    pub fn show(&mut self, configs: &Configs) {
        let nothing = Items::default();
        let items = |name: &Option<ConfigName>| match name {
            None => Some(&nothing),
            Some(name) => configs.get(name).map(Arc::as_ref),
        };
        for update in self.pools.iter_mut().flat_map(|pool| &mut pool.updates) {
            if let (Some(change), Some(old), Some(new)) = (&mut update.change, items(&update.from), items(&update.to)) {
                change.diff = Some(text::diff(old, new));
            }
        }
    }

    /// Adds what the drains would meet.
    pub fn meet(&mut self, pods: &drain::Pods) {
        for pool in &mut self.pools {
            let met: Vec<_> = pool.draining().map(|node| pods.drain(node)).collect();
            pool.drains = (!met.is_empty()).then_some(met);
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing changes",
            Self::NoDisruption => "no drain, no reboot",
            Self::Drain => "drain, no reboot",
            Self::Reboot => "drain and reboot",
        })
    }
}

/// Everything that a plan looks at, but configs: nodes, and where daemons are and should be. `namespace` is that of mcx.
pub fn world(nodes: &[Node], pods: &[Pod], sets: &[DaemonSet], namespace: &str) -> World {
    let nodes: BTreeMap<NodeName, Arc<NodeView>> =
        nodes.iter().map(NodeView::new).map(|view| (view.name.clone(), Arc::new(view))).collect();
    let ours = |meta: Option<&String>| meta.is_some_and(|of| of == namespace);
    let is_daemon_set = |set: &&DaemonSet| {
        ours(set.metadata.namespace.as_ref()) && set.metadata.name.as_deref() == Some(crate::api::DAEMONSET)
    };
    let placements: Vec<Placement> = sets.iter().filter(is_daemon_set).map(Placement::new).collect();
    let expected = |node: &&Arc<NodeView>| placements.iter().any(|placement| placement.expects(node));
    let pods = pods.iter().filter(|pod| ours(pod.metadata.namespace.as_ref())).filter_map(PodView::new);
    World {
        daemons_expected: nodes.values().filter(expected).map(|node| node.name.clone()).collect(),
        daemons: pods.filter(|pod| pod.role == Role::Daemon && pod.ready).filter_map(|pod| pod.node).collect(),
        nodes,
        ..World::default()
    }
}

/// `pool` with another target.
pub fn with_target(pool: &MachineConfigPool, target: Option<&ConfigName>) -> MachineConfigPool {
    let reference = target.map(|name| ConfigurationReference {
        name: Some(name.to_string()),
        ..pool.spec.configuration.clone().unwrap_or_default()
    });
    let mut pool = pool.clone();
    pool.spec.configuration = reference;
    pool
}

/// Makes the plan.
pub fn plan(question: Question) -> Plan {
    let Question { mut world, before, configs, policy, only, deleted } = question;
    // The plan is for the moment when all this is in effect.
    world.policy = Some(Arc::new(policy.effective.clone()));
    world.rendered.extend(configs.keys().cloned());
    let nodes = world.nodes.len();
    let membership = Membership::new(&world.pools, &world.nodes);
    let mut ways = Ways { configs: &configs, policy: &policy.effective, known: BTreeMap::new() };
    let pools: Pools = world.pools.clone();
    let mut planned = Vec::new();
    for (name, pool) in pools.iter().filter(|(name, _)| only.is_empty() || only.contains(*name)) {
        let own = before.get(name).and_then(Option::as_ref);
        let target = pool.target().map(ConfigName::from);
        let updates = updates(&world, &membership, name, own, target.as_ref(), &mut ways);
        let course = waves::foretell(&mut world, &membership, pool);
        planned.push(PoolPlan {
            pool: name.clone(),
            cost: updates.iter().map(Update::cost).max().unwrap_or_default(),
            nodes: membership.nodes_of(name).len(),
            max_unavailable: course.limit,
            updates,
            under_way: course.under_way,
            waves: course.waves,
            waits: course.waits,
            drains: None,
        });
    }
    Plan {
        cost: planned.iter().map(|p| p.cost).max().unwrap_or_default(),
        policy: policy.origin,
        deleted,
        nodes,
        pools: planned,
        without_pool: without_pool(&membership),
    }
}

/// What the nodes of a pool go through: first what the pool as a whole does, then one for each other config.
fn updates(
    world: &World,
    membership: &Membership,
    pool: &PoolName,
    own: Option<&ConfigName>,
    target: Option<&ConfigName>,
    ways: &mut Ways,
) -> Vec<Update> {
    let mut nodes: BTreeMap<Option<ConfigName>, Vec<NodeName>> = BTreeMap::new();
    for node in membership.nodes_of(pool).iter().filter_map(|name| world.nodes.get(name)) {
        // What no daemon has reported on, has nothing that is known.
        if node.state.is_some() && (node.current.as_ref() != target || !node.settled()) {
            nodes.entry(node.current.clone()).or_default().push(node.name.clone());
        }
    }
    let own = own.cloned();
    let first = (own.clone(), nodes.remove(&own).unwrap_or_default());
    let update = |(from, nodes): (Option<ConfigName>, Vec<NodeName>)| {
        let change = ways.change(from.as_ref(), target);
        Update { from, to: target.cloned(), nodes, change }
    };
    std::iter::once(first).chain(nodes).map(update).collect()
}

/// Changes between configs, each made once: pools share many of them.
struct Ways<'a> {
    configs: &'a Configs,
    policy: &'a EffectivePolicy,
    known: BTreeMap<(Option<ConfigName>, Option<ConfigName>), Option<Change>>,
}

impl Ways<'_> {
    fn change(&mut self, from: Option<&ConfigName>, to: Option<&ConfigName>) -> Option<Change> {
        let (configs, policy) = (self.configs, self.policy);
        let make = || {
            let nothing = Items::default();
            let items = |name: Option<&ConfigName>| match name {
                None => Some(&nothing),
                Some(name) => configs.get(name).map(Arc::as_ref),
            };
            Some(Change::between(items(from)?, items(to)?, policy))
        };
        self.known.entry((from.cloned(), to.cloned())).or_insert_with(make).clone()
    }
}

fn without_pool(membership: &Membership) -> Vec<Waits> {
    let several = membership
        .ambiguous
        .iter()
        .map(|(node, pools)| Waits { node: node.clone(), why: Membership::ambiguity(pools) });
    let none = membership.unmanaged.iter().map(|node| Waits {
        node: node.clone(),
        why: format!(
            "is selected by no pool: it keeps what it has; give it a role label, such as {}",
            crate::api::label::NODE_ROLE_WORKER
        ),
    });
    several.chain(none).collect()
}

/// `[{"item": "file /etc/x", "difference": "added"}]`.
fn change_set<S: Serializer>(changes: &ChangeSet, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Changed {
        item: String,
        difference: String,
    }
    let named =
        |(item, difference): (Item, Difference)| Changed { item: item.to_string(), difference: difference.to_string() };
    serializer.collect_seq(changes.items().map(named))
}

/// Actions as they are printed, the two questions that matter, and the causes.
fn actions_and_causes<S: Serializer>(actions: &Actions, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Because<'a> {
        action: &'a str,
        item: &'a str,
        entry: &'a str,
    }
    #[derive(Serialize)]
    struct Taken<'a> {
        actions: Vec<String>,
        drain: bool,
        reboot: bool,
        causes: Vec<Because<'a>>,
    }
    Taken {
        actions: actions.list.iter().map(ToString::to_string).collect(),
        drain: actions.needs_drain(),
        reboot: actions.reboots(),
        causes: actions.causes.iter().map(|c| Because { action: &c.action, item: &c.item, entry: &c.entry }).collect(),
    }
    .serialize(serializer)
}

#[cfg(test)]
mod tests;
