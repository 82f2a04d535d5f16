//! A controller: late caches, and the real machines, one request a step. Its drains are a short form of the real ones,
//! with the real recount.

use super::cluster::Cluster;
use crate::api::protocol::{CordonMark, DrainKind, DrainRequest, DrainStatus};
use crate::api::{ConfigName, Epoch, MachineConfigPool, NodeName, PoolName, annotation};
use crate::change::policy::EffectivePolicy;
use crate::pool::door::{self, NodeChange};
use crate::pool::limit::max_unavailable;
use crate::pool::membership::Membership;
use crate::pool::rollout::decide::{Case, Fresh};
use crate::pool::rollout::may_cordon;
use crate::pool::rollout::recovery::Recovery;
use crate::pool::rollout::steps::{
    Answer, Ask, Context, HandOut, Lists, Next, SlotRun, Stop, TakeOver, TakeOverNext, standing,
};
use crate::pool::view::NodeView;
use crate::pool::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    #[default]
    Standby,
    TakingOver,
    Leading,
}

enum Job {
    Slots(SlotRun),
    HandOut(HandOut),
    TakeOver(TakeOver),
    Cordon(Box<Cordon>),
}

/// The cordon of a node: read the Node, read the pools, count, write.
struct Cordon {
    node: NodeName,
    read: Option<NodeView>,
    pools: BTreeMap<PoolName, Arc<MachineConfigPool>>,
}

#[derive(Default)]
pub(super) struct Leader {
    pub(super) role: Role,
    pub(super) lists: Lists,
    epoch: Epoch,
    job: Option<(Job, Option<Answer>)>,
    world: World,
    node_versions: BTreeMap<NodeName, u64>,
    pool_versions: BTreeMap<PoolName, u64>,
    recovery: Recovery,
    led: BTreeSet<PoolName>,
    read_node: Option<(NodeName, u64)>,
    read_pool: Option<(PoolName, u64)>,
}

impl Leader {
    /// Whether it has read something and is about to write by it.
    pub(super) fn is_in_mid_job(&self) -> bool {
        self.role == Role::Leading && self.job.as_ref().is_some_and(|(_, answer)| answer.is_some())
    }

    pub(super) fn stand(&mut self, epoch: Epoch, pools: Vec<PoolName>) {
        self.epoch = epoch;
        self.role = Role::TakingOver;
        self.recovery = Recovery::default();
        self.led = pools.iter().cloned().collect();
        self.job = Some((Job::TakeOver(TakeOver::new(pools)), None));
    }
}

impl Cluster {
    pub(super) fn lists(&self) -> Lists {
        Lists {
            pools: self.pools.iter().map(|(n, p)| (n.clone(), Arc::clone(&p.object))).collect(),
            nodes: self.nodes.iter().map(|(n, p)| (n.clone(), Arc::clone(&p.object))).collect(),
        }
    }

    /// The cache of `who` hears of one object.
    pub(super) fn deliver(&mut self, who: usize, pick: usize) {
        let names: Vec<NodeName> = self.daemons.keys().cloned().collect();
        let leader = &mut self.leaders[who];
        if let Some(name) = names.get(pick) {
            leader.world.nodes.remove(name);
            leader.node_versions.remove(name);
            if let Some(node) = self.nodes.get(name) {
                leader.world.nodes.insert(name.clone(), Arc::clone(&node.object));
                leader.node_versions.insert(name.clone(), node.version);
            }
            return;
        }
        if let Some((name, pool)) = self.pools.iter().nth(pick - names.len()) {
            leader.world.pools.insert(name.clone(), Arc::clone(&pool.object));
            leader.pool_versions.insert(name.clone(), pool.version);
            leader.world.rendered.extend(pool.object.target().map(ConfigName::from));
            return;
        }
        leader.world.leases.clone_from(&self.leases);
    }

    fn is_fresh(&self, who: usize) -> bool {
        let leader = &self.leaders[who];
        self.nodes.iter().map(|(n, s)| (n, s.version)).eq(leader.node_versions.iter().map(|(n, v)| (n, *v)))
            && self.pools.iter().map(|(n, s)| (n, s.version)).eq(leader.pool_versions.iter().map(|(n, v)| (n, *v)))
    }

    pub(super) fn leader_step(&mut self, who: usize) {
        match self.leaders[who].job.take() {
            Some((job, answer)) => self.job_step(who, job, answer),
            None => self.new_job(who),
        }
    }

    fn stop(&mut self, who: usize, why: Stop) {
        self.tell(|| format!("leader {who} stops: {why:?}"));
        self.leaders[who].role = Role::Standby;
        self.leaders[who].job = None;
    }

    fn job_step(&mut self, who: usize, mut job: Job, answer: Option<Answer>) {
        let leader = &self.leaders[who];
        let membership = Membership::new(&leader.world.pools, &leader.world.nodes);
        let context =
            Context { world: &leader.world, membership: &membership, recovery: &leader.recovery, epoch: &leader.epoch };
        let ask = match &mut job {
            Job::Slots(run) => match run.step(&context, answer) {
                Next::Ask(ask) => ask,
                Next::Stop(why) => return self.stop(who, why),
                Next::End(written) => {
                    if let Some(written) = written {
                        let nodes = leader.world.nodes.clone();
                        let granted = written.granted.iter().filter_map(|h| nodes.get(&h.name));
                        granted.for_each(|node| self.leaders[who].recovery.granted(node));
                        self.tell(|| format!("leader {who} has written slots {:?}", written.slots.nodes));
                    }
                    return;
                }
            },
            Job::HandOut(run) => match run.step(&context, answer) {
                Next::Ask(ask) => ask,
                Next::Stop(why) => return self.stop(who, why),
                Next::End(given) => {
                    if let Some(given) = given {
                        let cost = self.cost(given.node.current.as_ref(), given.give.to.as_ref());
                        self.leaders[who].recovery.given(&given.node, given.give.to.as_ref(), cost == 0);
                        self.tell(|| format!("leader {who} has given {} {:?}", given.node.name, given.give));
                    }
                    return;
                }
            },
            Job::TakeOver(machine) => match machine.step(&leader.epoch, &leader.lists, answer) {
                TakeOverNext::Ask(ask) => ask,
                TakeOverNext::List => {
                    self.leaders[who].lists = self.lists();
                    self.leaders[who].job = Some((job, None));
                    return;
                }
                TakeOverNext::End => {
                    self.leaders[who].role = Role::Leading;
                    self.tell(|| format!("leader {who} has taken over"));
                    return;
                }
            },
            Job::Cordon(cordon) => match self.cordon_step(who, cordon, answer) {
                Ok(Some(ask)) => ask,
                Ok(None) => return,
                Err(why) => return self.stop(who, why),
            },
        };
        let answer = self.serve(who, &job, ask);
        self.leaders[who].job = Some((job, Some(answer)));
    }

    /// One request at the API server.
    fn serve(&mut self, who: usize, job: &Job, ask: Ask) -> Answer {
        match ask {
            Ask::Node(name) => {
                let node = self.nodes.get(&name).cloned();
                self.leaders[who].read_node = node.as_ref().map(|n| (name, n.version));
                Answer::Node(node.map(|n| (*n.object).clone()))
            }
            Ask::Pool(name) => {
                let pool = self.pools[&name].clone();
                self.leaders[who].read_pool = Some((name, pool.version));
                Answer::Pool(Some(pool.object))
            }
            Ask::WriteSlots(slots) => {
                let (pool, version) = self.leaders[who].read_pool.clone().unwrap();
                Answer::Wrote(self.write_slots(&pool, version, &slots))
            }
            Ask::WriteNode(change) => {
                let (node, version) = self.leaders[who].read_node.clone().unwrap();
                let fresh = self.is_fresh(who);
                if fresh && matches!(job, Job::HandOut(_)) {
                    self.check_hand_out(&node, version, &change);
                }
                let wrote = self.write_node(&node, version, &change);
                if wrote && matches!(job, Job::Cordon(_)) {
                    self.tell(|| format!("leader {who} cordons {node}"));
                    self.takes_away(&node, "a cordon", fresh);
                }
                Answer::Wrote(wrote)
            }
        }
    }

    /// A node that serves is not sent to a config that costs something while others, whatever made them so, are away.
    fn check_hand_out(&mut self, name: &NodeName, version: u64, change: &NodeChange) {
        let Some(stored) = self.nodes.get(name).filter(|s| s.version == version) else { return };
        let node = Arc::clone(&stored.object);
        let to = change.annotations.get(annotation::DESIRED_CONFIG).cloned().flatten().map(ConfigName::from);
        let serves = node.settled() && node.ready && !node.cordoned;
        if serves && self.cost(node.current.as_ref(), to.as_ref()) > 0 {
            self.takes_away(name, "a hand-out", true);
        }
    }

    fn new_job(&mut self, who: usize) {
        let now = self.timestamp();
        let leader = &mut self.leaders[who];
        leader.world.now = Some(now);
        leader.world.policy.get_or_insert_with(|| {
            Arc::new(EffectivePolicy {
                generation: 1,
                files: vec![],
                units: vec![],
                keys: vec![],
                default_files: vec![],
                default_units: vec![],
            })
        });
        let holders = leader.world.pools.values().filter_map(|p| door::slots(p)).flat_map(|s| s.nodes);
        let held: Vec<_> = holders.filter_map(|h| leader.world.nodes.get(&h.name).cloned()).collect();
        leader.recovery.observe(held.iter().map(Arc::as_ref), &leader.world.leases, now);
        if self.rng.chance(2) {
            self.new_drain_job(who);
        } else {
            self.new_rollout_job(who);
        }
    }

    fn new_rollout_job(&mut self, who: usize) {
        let pick = self.rng.below(self.pools.len());
        let name = self.pools.keys().nth(pick).unwrap().clone();
        let leader = &self.leaders[who];
        let Some(mut pool) = leader.world.pools.get(&name).cloned() else { return };
        if standing(&pool, &leader.epoch).is_err() {
            // The cache may be older than the take-over: read.
            let read = self.pools[&name].clone();
            if let Err(why) = standing(&read.object, &self.leaders[who].epoch) {
                return self.stop(who, why);
            }
            pool = Arc::clone(&read.object);
            self.leaders[who].world.pools.insert(name.clone(), read.object);
            self.leaders[who].pool_versions.insert(name.clone(), read.version);
        }
        let leader = &self.leaders[who];
        let membership = Membership::new(&leader.world.pools, &leader.world.nodes);
        let (slots, nothing) = (door::slots(&pool).unwrap(), Fresh::new());
        let plan = Case::new(&leader.world, &membership, &leader.recovery, &pool, &slots, &nothing).plan();
        let job = if plan.changes_slots() && (plan.give.is_empty() || self.rng.chance(2)) {
            Job::Slots(SlotRun::new(name))
        } else if !plan.give.is_empty() {
            let node = plan.give[self.rng.below(plan.give.len())].clone();
            Job::HandOut(HandOut::new(name, node))
        } else {
            return;
        };
        self.leaders[who].job = Some((job, None));
    }

    /// One node's request: what needs no slot is written at once, a cordon in its steps.
    fn new_drain_job(&mut self, who: usize) {
        let names: Vec<NodeName> = self.leaders[who].world.nodes.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let name = names[self.rng.below(names.len())].clone();
        let Some(read) = self.nodes.get(&name).cloned() else { return };
        let node = &read.object;
        let pending = node.desired_drain.as_ref().filter(|r| node.applied_drain.as_ref() != Some(r)).cloned();
        if node.mark.is_some() && !node.cordon_is_ours() {
            let mut change = NodeChange::default().remove(annotation::CORDONED_BY);
            if let Some(request) = node.desired_drain.as_ref().filter(|r| r.kind == DrainKind::Drain) {
                let ended = DrainStatus { request: request.to_string(), ended: true, ..DrainStatus::default() };
                change = change.set(annotation::DRAIN_STATUS, serde_json::to_string(&ended).unwrap());
            }
            self.write_node(&name, read.version, &change);
            return;
        }
        let Some(request) = pending else { return };
        let ended = node.drain_status.as_ref().is_some_and(|s| s.ended && s.request == request.to_string());
        match request.kind {
            DrainKind::Uncordon => self.uncordon(&name, node, read.version, &request),
            DrainKind::Drain if ended => {}
            DrainKind::Drain if node.cordon_is_ours() => self.empty(&name, read.version, &request),
            DrainKind::Drain if node.cordoned => {}
            DrainKind::Drain => {
                let cordon = Cordon { node: name, read: None, pools: BTreeMap::new() };
                self.leaders[who].job = Some((Job::Cordon(Box::new(cordon)), None));
            }
        }
    }

    fn uncordon(&mut self, name: &NodeName, node: &NodeView, version: u64, request: &DrainRequest) {
        let mut change = NodeChange::default().set(annotation::LAST_APPLIED_DRAIN, request);
        if node.cordon_is_ours() {
            change = change.uncordon();
        }
        self.write_node(name, version, &change);
    }

    fn empty(&mut self, name: &NodeName, version: u64, request: &DrainRequest) {
        self.write_node(name, version, &NodeChange::default().set(annotation::LAST_APPLIED_DRAIN, request));
    }

    fn cordon_step(&self, who: usize, cordon: &mut Cordon, answer: Option<Answer>) -> Result<Option<Ask>, Stop> {
        match answer {
            None => return Ok(Some(Ask::Node(cordon.node.clone()))),
            Some(Answer::Node(node)) => cordon.read = node,
            Some(Answer::Pool(Some(pool))) => {
                cordon.pools.insert(pool.name().into(), pool);
            }
            Some(_) => return Ok(None),
        }
        let Some(node) = &cordon.read else { return Ok(None) };
        let leader = &self.leaders[who];
        if let Some(unread) = leader.world.pools.keys().find(|name| !cordon.pools.contains_key(*name)) {
            return Ok(Some(Ask::Pool(unread.clone())));
        }
        let mut holds = false;
        for pool in cordon.pools.values() {
            holds |= standing(pool, &leader.epoch)?.holds(&node.name, &node.uid);
        }
        let mut nodes = leader.world.nodes.clone();
        nodes.insert(node.name.clone(), Arc::new(node.clone()));
        let membership = Membership::new(&cordon.pools, &nodes);
        let Some(pool) = membership.pool_of(&node.name) else { return Ok(None) };
        let members: Vec<&NodeView> = membership.nodes_of(pool).iter().map(|n| nodes[n].as_ref()).collect();
        let limit = max_unavailable(cordon.pools[pool].spec.max_unavailable.as_ref(), members.len()).unwrap();
        let slots = door::slots(&cordon.pools[pool]).unwrap();
        let pending = node.desired_drain.as_ref().is_some_and(|r| r.kind == DrainKind::Drain)
            && node.desired_drain != node.applied_drain;
        if !holds || node.cordoned || !pending || may_cordon(&node.name, &members, &slots, limit).is_err() {
            return Ok(None);
        }
        Ok(Some(Ask::WriteNode(NodeChange::default().cordon(CordonMark::new(self.instant())))))
    }
}
