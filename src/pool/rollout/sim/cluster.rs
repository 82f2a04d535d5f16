//! The API server, and what must hold in it.

use super::Setting;
use super::daemon::{Daemon, Stage};
use super::leader::Leader;
use crate::api::machine_config_pool::ConfigurationReference;
use crate::api::protocol::{CordonMark, DrainStatus, NodeState, Slots};
use crate::api::{ConfigName, MachineConfigPool, MachineConfigPoolSpec, NodeName, PoolName, annotation, label};
use crate::pool::door::{self, NodeChange};
use crate::pool::limit::max_unavailable;
use crate::pool::membership::{Place, Pools, place};
use crate::pool::view::NodeView;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// A random generator, `SplitMix64`: small, seeded, the same everywhere.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    /// True once in `n`.
    pub(super) fn chance(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// An object with its resourceVersion.
#[derive(Clone)]
pub(super) struct Stored<T> {
    pub(super) object: Arc<T>,
    pub(super) version: u64,
}

#[expect(clippy::struct_excessive_bools, reason = "what people did is remembered apart")]
pub(super) struct Cluster {
    pub(super) setting: Setting,
    pub(super) rng: Rng,
    pub(super) nodes: BTreeMap<NodeName, Stored<NodeView>>,
    pub(super) pools: BTreeMap<PoolName, Stored<MachineConfigPool>>,
    pub(super) daemons: BTreeMap<NodeName, Daemon>,
    pub(super) leases: BTreeMap<NodeName, Timestamp>,
    pub(super) leaders: Vec<Leader>,
    /// Nodes that are cordoned by an administrator.
    pub(super) foreign: BTreeSet<NodeName>,
    pub(super) frozen: [u32; 2],
    pub(super) version: u64,
    uids: u64,
    epochs: u64,
    pub(super) configs: usize,
    pub(super) now: i64,
    story: Vec<String>,
    pub(super) broken: Option<String>,
    pub(super) faults: bool,
    pub(super) moved: bool,
    pub(super) wiped: bool,
    pub(super) limited: bool,
    /// Nodes fail or are deleted in this run: those get slots though they are away.
    foreign_faults: bool,
    checked: u64,
    /// The pools without their versions.
    known: Pools,
}

pub(super) fn config(pool: &PoolName, number: usize) -> ConfigName {
    format!("rendered-{pool}-{number:032x}").into()
}

/// The number of a config in its name.
pub(super) fn number(config: &ConfigName) -> usize {
    config.as_str().rsplit_once('-').and_then(|(_, n)| usize::from_str_radix(n, 16).ok()).unwrap_or_default()
}

impl Cluster {
    pub(super) fn new(setting: Setting, rng: Rng) -> Self {
        let mut cluster = Self {
            setting,
            rng,
            nodes: BTreeMap::new(),
            pools: BTreeMap::new(),
            daemons: BTreeMap::new(),
            leases: BTreeMap::new(),
            leaders: vec![Leader::default(), Leader::default()],
            foreign: BTreeSet::new(),
            frozen: [0; 2],
            version: 0,
            uids: 0,
            epochs: 0,
            configs: 0,
            now: 1_700_000_000,
            story: Vec::new(),
            broken: None,
            faults: true,
            moved: false,
            wiped: false,
            limited: false,
            foreign_faults: false,
            checked: 0,
            known: Pools::new(),
        };
        let set = &cluster.setting;
        cluster.foreign_faults = set.not_ready + set.admin + set.deletions + set.forces + set.drifts > 0;
        for name in ["worker", "infra"].into_iter().take(cluster.setting.pools) {
            cluster.store_pool(pool(name, cluster.setting.limit));
        }
        for i in 0..cluster.setting.nodes {
            let name = NodeName::from(format!("n{i}"));
            let infra = cluster.setting.pools > 1 && i + 1 == cluster.setting.nodes;
            let has = config(&if infra { "infra".into() } else { "worker".into() }, 0);
            cluster.daemons.insert(name.clone(), Daemon { current: Some(has.clone()), ..Daemon::default() });
            let mut node = cluster.new_node(&name, i);
            node.desired = Some(has.clone());
            node.current = Some(has);
            node.state = Some(NodeState::Done);
            if infra {
                node.labels.insert(role("infra"), String::new());
            }
            cluster.store_node(node);
        }
        cluster.elect(0);
        cluster
    }

    pub(super) fn new_node(&mut self, name: &NodeName, age: usize) -> NodeView {
        self.uids += 1;
        NodeView {
            name: name.clone(),
            uid: format!("u{}", self.uids).into(),
            created: Some(Timestamp::from_second(1_000 + i64::try_from(age).unwrap()).unwrap()),
            labels: BTreeMap::from([(role("worker"), String::new())]),
            ready: true,
            ..NodeView::default()
        }
    }

    pub(super) fn store_node(&mut self, node: NodeView) {
        self.version += 1;
        self.nodes.insert(node.name.clone(), Stored { object: Arc::new(node), version: self.version });
    }

    pub(super) fn change_node(&mut self, name: &NodeName, change: impl FnOnce(&mut NodeView)) {
        let Some(stored) = self.nodes.get(name) else { return };
        let mut node = (*stored.object).clone();
        change(&mut node);
        if node != *stored.object {
            self.store_node(node);
        }
    }

    pub(super) fn change_pool(&mut self, name: &PoolName, change: impl FnOnce(&mut MachineConfigPool)) {
        let mut pool = (*self.pools[name].object).clone();
        change(&mut pool);
        self.store_pool(pool);
    }

    fn store_pool(&mut self, pool: MachineConfigPool) {
        self.version += 1;
        let (name, object) = (PoolName::from(pool.name()), Arc::new(pool));
        self.known.insert(name.clone(), Arc::clone(&object));
        self.pools.insert(name, Stored { object, version: self.version });
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap()
    }

    /// For the story of a run, which is printed when it breaks.
    pub(super) fn tell(&mut self, text: impl FnOnce() -> String) {
        self.story.push(text());
    }

    pub(super) fn story(&self) -> String {
        let from = self.story.len().saturating_sub(120);
        let mut text = self.story[from..].join("\n");
        for node in self.nodes.values() {
            let _ = write!(text, "\n{:?}", node.object);
        }
        for pool in self.pools.values() {
            let _ = write!(text, "\n{:?} {:?}", pool.object.spec, door::slots(&pool.object));
        }
        for daemon in &self.daemons {
            let _ = write!(text, "\n{daemon:?}");
        }
        text
    }

    /// What must hold after every step.
    pub(super) fn check(&mut self, name: &str, seed: u64) {
        if self.checked != self.version {
            self.checked = self.version;
            self.broken = self.broken.take().or_else(|| self.unslotted());
        }
        if let Some(broken) = &self.broken {
            panic!("{name}, seed {seed}: {broken}\n{:?}\n{}", self.setting, self.story());
        }
    }

    /// A node that was sent somewhere, or cordoned by mcx, without a slot of the pool it is in; or more slots than the
    /// limit. Where people delete slots, only how many nodes are on their way is counted; where they move nodes or
    /// lower limits, this does not hold at all, and only what is done to nodes is checked.
    fn unslotted(&self) -> Option<String> {
        let people = self.setting.pools > 1 || self.limited;
        if people {
            return None;
        }
        let limit = usize::try_from(self.setting.limit).unwrap();
        let is_sent = |n: &NodeView| n.desired.is_some() && n.desired != n.current;
        if self.wiped {
            let sent: Vec<&NodeName> =
                self.nodes.values().filter(|n| is_sent(&n.object)).map(|n| &n.object.name).collect();
            let faults = self.setting.bad || self.foreign_faults;
            return (!faults && sent.len() > limit).then(|| format!("{sent:?} are on their way, limit {limit}"));
        }
        let slots = self.pools.values().find_map(|p| door::slots(&p.object))?;
        if slots.nodes.len() > limit {
            return Some(format!("{} slots, limit {limit}", slots.nodes.len()));
        }
        let mut nodes = self.nodes.values().map(|n| &n.object);
        let bare = nodes.find(|n| (is_sent(n) || n.cordon_is_ours()) && !slots.holds(&n.name, &n.uid))?;
        Some(format!("{} is on its way without a slot", bare.name))
    }

    /// Writes slots under the resourceVersion that was read.
    pub(super) fn write_slots(&mut self, pool: &PoolName, read: u64, slots: &Slots) -> bool {
        if self.pools[pool].version != read {
            return false;
        }
        let text = serde_json::to_string(slots).unwrap();
        self.change_pool(pool, |p| {
            p.metadata.annotations.get_or_insert_default().insert(annotation::SLOTS.to_owned(), text);
        });
        true
    }

    /// A time that no earlier write has had.
    pub(super) fn instant(&self) -> Timestamp {
        Timestamp::from_second(i64::try_from(self.version).unwrap()).unwrap()
    }

    /// Changes a Node under the resourceVersion that was read.
    pub(super) fn write_node(&mut self, name: &NodeName, read: u64, change: &NodeChange) -> bool {
        let Some(stored) = self.nodes.get(name).filter(|s| s.version == read) else { return false };
        let mut node = (*stored.object).clone();
        for (key, value) in &change.annotations {
            let value = value.as_deref();
            match *key {
                annotation::DESIRED_CONFIG => node.desired = value.map(ConfigName::from),
                annotation::LAST_APPLIED_DRAIN => node.applied_drain = value.and_then(|v| v.parse().ok()),
                annotation::CORDONED_BY => node.mark = value.and_then(|v| v.parse::<CordonMark>().ok()),
                annotation::DRAIN_STATUS => {
                    node.drain_status = value.and_then(|v| serde_json::from_str::<DrainStatus>(v).ok());
                }
                _ => {}
            }
        }
        if let Some(cordon) = change.cordon {
            (node.cordoned, node.cordoned_at) = match cordon {
                door::Cordon::On(mark) => (true, Some(mark.at())),
                door::Cordon::Off => (false, None),
            };
        }
        self.store_node(node);
        true
    }

    pub(super) fn place_of(&self, node: &NodeView) -> Option<PoolName> {
        if self.known.len() == 1 {
            return self.known.keys().next().cloned();
        }
        match place(&self.known, node) {
            Place::In(pool) => Some(pool),
            _ => None,
        }
    }

    pub(super) fn limit_of(&self, pool: &PoolName) -> usize {
        let size = self.nodes.values().filter(|n| self.place_of(&n.object).as_ref() == Some(pool)).count();
        max_unavailable(self.pools[pool].object.spec.max_unavailable.as_ref(), size).unwrap()
    }

    /// Whether mcx has taken this node away: it carries our cordon, or its services are being disturbed.
    fn is_away_by_mcx(&self, node: &NodeView) -> bool {
        let journal = self.daemons[&node.name].journal.as_ref();
        let disturbed = journal.is_some_and(|j| j.cost > 0 && j.stage != Stage::Opened && j.uid == node.uid);
        node.cordon_is_ours() || disturbed
    }

    /// Called when mcx takes `name` away. `fresh`: the leader's caches were up to date, so that it must have seen
    /// nodes that failed by themselves too.
    pub(super) fn takes_away(&mut self, name: &NodeName, what: &str, fresh: bool) {
        let Some(node) = self.nodes.get(name).map(|s| Arc::clone(&s.object)) else { return };
        let Some(pool) = self.place_of(&node) else { return };
        if self.moved && !fresh {
            // Who moved where is only known by the caches, and the move is the user's.
            return;
        }
        let others: Vec<NodeName> = self
            .nodes
            .values()
            .filter(|o| o.object.name != *name && self.place_of(&o.object).as_ref() == Some(&pool))
            .filter(|o| self.is_away_by_mcx(&o.object) || (fresh && (!o.object.ready || o.object.cordoned)))
            .map(|o| o.object.name.clone())
            .collect();
        let limit = self.limit_of(&pool);
        if others.len() >= limit {
            self.broken = Some(format!("{what} of {name} while {others:?} are away, limit {limit}"));
        }
    }

    pub(super) fn cost(&self, from: Option<&ConfigName>, to: Option<&ConfigName>) -> u8 {
        let of = |c: Option<&ConfigName>| match c.map(number) {
            None | Some(0) => 0,
            Some(n) => self.setting.costs[n % self.setting.costs.len()],
        };
        if from == to { 0 } else { of(from).max(of(to)) }
    }

    pub(super) fn is_bad(&self, config: &ConfigName) -> bool {
        self.setting.bad && number(config) % 3 == 1
    }

    pub(super) fn elect(&mut self, who: usize) {
        self.epochs += 1;
        let epoch = format!("e{}", self.epochs).into();
        let pools = self.pools.keys().cloned().collect();
        self.leaders[who].stand(epoch, pools);
        let lists = self.lists();
        self.leaders[who].lists = lists;
        self.tell(|| format!("leader {who} is elected"));
    }

    /// Every node Done at its pool's target, schedulable and Ready, no slot held.
    pub(super) fn is_at_rest(&self) -> bool {
        let done = |node: &NodeView| {
            let daemon = &self.daemons[&node.name];
            let idle = node.settled() && daemon.is_idle() && node.ready && !node.cordoned && node.mark.is_none();
            idle && {
                let pool = self.place_of(node).map(|p| &self.pools[&p]);
                let target = pool.and_then(|p| p.object.target()).map(ConfigName::from);
                node.desired == target && daemon.current == target
            }
        };
        self.nodes.values().all(|n| done(&n.object))
            && self.pools.values().all(|p| door::slots(&p.object).is_some_and(|s| s.nodes.is_empty()))
    }
}

pub(super) fn role(name: &str) -> String {
    format!("{}{name}", label::NODE_ROLE_PREFIX)
}

pub(super) fn reference(target: &ConfigName) -> ConfigurationReference {
    ConfigurationReference { name: Some(target.to_string()), ..ConfigurationReference::default() }
}

fn pool(name: &str, limit: u32) -> MachineConfigPool {
    let role_in = LabelSelectorRequirement {
        key: label::ROLE.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec!["worker".to_owned(), name.to_owned()]),
    };
    let spec = MachineConfigPoolSpec {
        configuration: Some(reference(&config(&name.into(), 0))),
        machine_config_selector: Some(LabelSelector { match_expressions: Some(vec![role_in]), match_labels: None }),
        node_selector: Some(LabelSelector {
            match_labels: Some(BTreeMap::from([(role(name), String::new())])),
            match_expressions: None,
        }),
        max_unavailable: Some(IntOrString::Int(i32::try_from(limit).unwrap())),
        paused: None,
    };
    let mut pool = MachineConfigPool::new(name, spec);
    pool.metadata.uid = Some(format!("pool-{name}"));
    let none = serde_json::to_string(&Slots::default()).unwrap();
    pool.metadata.annotations = Some(BTreeMap::from([(annotation::SLOTS.to_owned(), none)]));
    pool
}
