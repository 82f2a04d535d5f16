//! What the nodes of one pool are given, what they give back, and why the others wait. Pure.
//!
//! A [`Case`] is the pool, its slots, and everything around them, at one moment. It may be made from caches, to see
//! what is worth trying, or from what was just read, to decide what is written: the rules are the same.

mod why;

use super::recovery::Recovery;
use crate::api::condition::Reason;
use crate::api::protocol::{DrainKind, NodeState, Phase, SlotHolder, Slots};
use crate::api::{ConfigName, MachineConfigPool, NodeName, PoolName, Uid};
use crate::pool::membership::{Membership, Place, Pools, place, pool_of_config, rank};
use crate::pool::view::NodeView;
use crate::pool::world::World;
use crate::pool::{door, limit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Longest text that a node contributes to a message, in bytes.
const TEXT_LIMIT: usize = 512;

/// Nodes that were just read, by name; none: there is none of that name. They stand in for what the caches say.
pub type Fresh = BTreeMap<NodeName, Option<NodeView>>;

/// What kind of write a desired config is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The second half of a hand-out: the node, at rest until now, is given the target.
    HandOut,
    /// The node is on its way already and is sent to the target instead, at no cost.
    Retarget,
    /// The node has not begun, and shall not: back to what it has.
    Back,
}

/// A desired config to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Give {
    /// The config; none removes `desiredConfig`, for a node that has none of its own to go back to.
    pub to: Option<ConfigName>,
    /// What kind of write it is.
    pub kind: Kind,
}

/// Why a node does not have the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It could be updated; the limit is used up by others.
    Turn,
    /// It is on its way.
    Progress(String),
    /// Something keeps it.
    Kept(String),
}

/// A node that does not have the target, or has it and cannot give its slot back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The node.
    pub node: NodeName,
    /// What it waits for.
    pub why: Why,
    /// Whether it is between two configs, and not stuck there.
    pub moving: bool,
}

/// What keeps a whole pool from handing out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// For the pool's conditions.
    pub reason: Reason,
    /// For people: object, field, next step.
    pub text: String,
}

/// What is worth doing for a pool, as far as is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Slots that seem to be free again: to be read first.
    pub give_back: Vec<SlotHolder>,
    /// Nodes that get a slot.
    pub grant: Vec<SlotHolder>,
    /// Nodes whose desired config is to be written: to be read first.
    pub give: Vec<NodeName>,
    /// All nodes that are not Done at the target, and why, in the order of the rollout.
    pub waiting: Vec<Waiting>,
    /// What uses up the limit, by node.
    pub in_the_way: Vec<String>,
}

impl Plan {
    /// Whether the slots of the pool are to be changed.
    pub fn changes_slots(&self) -> bool {
        !self.give_back.is_empty() || !self.grant.is_empty()
    }
}

/// One pool at one moment.
pub struct Case<'a> {
    world: &'a World,
    recovery: &'a Recovery,
    pool: &'a MachineConfigPool,
    name: PoolName,
    slots: &'a Slots,
    target: Option<ConfigName>,
    limit: Result<usize, limit::Invalid>,
    refused: Option<&'a str>,
    fresh: &'a Fresh,
    /// Nodes of the pool, in the order of a rollout.
    members: Vec<&'a NodeView>,
    /// Nodes that are in no pool.
    strays: Vec<&'a NodeView>,
    /// Members that count as unavailable by themselves, whether they hold a slot or not.
    unavailable: BTreeSet<&'a NodeName>,
    held: BTreeSet<(&'a NodeName, &'a Uid)>,
    held_elsewhere: BTreeMap<NodeName, Vec<Uid>>,
    inside: BTreeSet<(&'a NodeName, &'a Uid)>,
}

impl<'a> Case<'a> {
    /// `pool` and `slots` as they were read last; `fresh`: nodes that were just read.
    pub fn new(
        world: &'a World,
        membership: &'a Membership,
        recovery: &'a Recovery,
        pool: &'a MachineConfigPool,
        slots: &'a Slots,
        fresh: &'a Fresh,
    ) -> Self {
        let name = PoolName::from(pool.name());
        let mut case = Self {
            world,
            recovery,
            pool,
            slots,
            target: pool.target().map(ConfigName::from),
            limit: Ok(1),
            refused: membership.refused.get(&name).map(String::as_str),
            fresh,
            members: Vec::new(),
            strays: Vec::new(),
            unavailable: BTreeSet::new(),
            held: slots.nodes.iter().map(|h| (&h.name, &h.uid)).collect(),
            held_elsewhere: BTreeMap::new(),
            inside: BTreeSet::new(),
            name,
        };
        for (other, pool) in &world.pools {
            if *other != case.name {
                let slots = door::slots(pool).unwrap_or_default();
                for holder in slots.nodes {
                    case.held_elsewhere.entry(holder.name).or_default().push(holder.uid);
                }
            }
        }
        case.place(membership);
        case.inside = case.members.iter().map(|node| (&node.name, &node.uid)).collect();
        let size = case.members.len();
        case.limit = limit::max_unavailable(pool.spec.max_unavailable.as_ref(), size);
        case.unavailable =
            case.members.iter().filter(|node| case.is_unavailable(node)).map(|node| &node.name).collect();
        case
    }

    /// Sorts nodes into members and strays: as cached, and those just read by their labels now.
    fn place(&mut self, membership: &'a Membership) {
        let cached = |name: &NodeName| !self.fresh.contains_key(name);
        let known = |name: &NodeName| self.world.nodes.get(name).map(Arc::as_ref);
        let mut members: Vec<&NodeView> =
            membership.nodes_of(&self.name).iter().filter(|n| cached(n)).filter_map(known).collect();
        let none = membership.ambiguous.keys().chain(&membership.unmanaged);
        let mut strays: Vec<&NodeView> = none.filter(|n| cached(n)).filter_map(known).collect();
        if !self.fresh.is_empty() {
            let pools = with(&self.world.pools, self.pool);
            for node in self.fresh.values().flatten() {
                match place(&pools, node) {
                    Place::In(pool) if pool == self.name => members.push(node),
                    Place::In(_) => {}
                    Place::Ambiguous(_) | Place::Unmanaged => strays.push(node),
                }
            }
            members.sort_by(|a, b| rank(a).cmp(&rank(b)));
        }
        (self.members, self.strays) = (members, strays);
    }

    /// Nodes of the pool, in the order of a rollout.
    pub fn members(&self) -> &[&'a NodeView] {
        &self.members
    }

    /// The pool's target.
    pub fn target(&self) -> Option<&ConfigName> {
        self.target.as_ref()
    }

    /// The pool's limit.
    pub fn limit(&self) -> Result<usize, &limit::Invalid> {
        self.limit.as_ref().copied()
    }

    /// Whether the node holds a slot of this pool.
    pub fn holds(&self, node: &NodeView) -> bool {
        self.held.contains(&(&node.name, &node.uid))
    }

    /// Whether the member counts against the limit.
    pub fn counts(&self, node: &NodeView) -> bool {
        self.holds(node) || self.unavailable.contains(&node.name)
    }

    /// Whether the node is Done at the pool's target.
    pub fn is_updated(&self, node: &NodeView) -> bool {
        self.target.is_some() && node.settled() && node.desired == self.target
    }

    /// Whether a daemon can be expected to answer for the node.
    fn has_daemon(&self, node: &NodeView) -> bool {
        node.state.is_some()
            && (!self.world.daemons_expected.contains(&node.name) || self.world.daemons.contains(&node.name))
    }

    /// Whether the node is unavailable, whatever the target and whoever made it so.
    fn is_unavailable(&self, node: &NodeView) -> bool {
        if !node.ready || node.cordoned {
            return true;
        }
        let in_hand = self.holds(node) || self.holds_elsewhere(node);
        if !self.has_daemon(node) && !in_hand {
            // Nobody updates it, so nobody takes it away: a node without a daemon must not block its pool for ever.
            return false;
        }
        let differs = node.desired.is_some() && node.desired != node.current;
        match node.state {
            // A claim alone makes no node unavailable: one that was forced serves until it is drained, and has a slot
            // by then.
            Some(NodeState::Working) => {
                let waits = node.phase.as_ref().is_none_or(|p| matches!(p.phase, Phase::Claimed | Phase::Draining));
                differs || in_hand || !waits
            }
            Some(NodeState::Degraded) => true,
            Some(NodeState::Done) | None => differs,
        }
    }

    /// The desired config that is due for this node now; none when it has what it shall have, or needs a slot first.
    /// The error says what keeps it.
    pub fn due(&self, node: &NodeView) -> Result<Option<Give>, Why> {
        let unclaimed = node.state == Some(NodeState::Done) && !node.settled();
        if !self.is_member(node) {
            let stray = self.strays.iter().any(|s| s.name == node.name);
            return Ok((stray && unclaimed && self.holds(node)).then(|| back(node)));
        }
        if !self.holds(node) {
            return Ok(unclaimed.then(|| back(node)));
        }
        if node.desired == self.target {
            return Ok(None);
        }
        if let Some(obstacle) = self.obstacle(node) {
            return Err(Why::Kept(obstacle));
        }
        let kind = if node.settled() { Kind::HandOut } else { Kind::Retarget };
        // The slot was given by what was known then. A node that serves is not taken away by a second write that
        // comes when others have failed in between, or the limit was lowered.
        if kind == Kind::HandOut && !self.unavailable.contains(&node.name) && !self.has_room_for_holder(node) {
            return Err(Why::Turn);
        }
        Ok(Some(Give { to: self.target.clone(), kind }))
    }

    fn is_member(&self, node: &NodeView) -> bool {
        self.inside.contains(&(&node.name, &node.uid))
    }

    /// Whether the node holds a slot of another pool, which it was in when that was given.
    fn holds_elsewhere(&self, node: &NodeView) -> bool {
        self.held_elsewhere.get(&node.name).is_some_and(|uids| uids.contains(&node.uid))
    }

    /// Whether the others leave room for a holder: unavailable members, and holders before it.
    fn has_room_for_holder(&self, node: &NodeView) -> bool {
        let before = self.slots.nodes.iter().take_while(|h| h.name != node.name || h.uid != node.uid);
        let before = before.filter(|h| !self.unavailable.contains(&h.name)).count();
        let others = self.unavailable.len() - usize::from(self.unavailable.contains(&node.name));
        self.limit.as_ref().is_ok_and(|limit| before + others < *limit)
    }

    /// Whether the slot can be given back. `node`: what is there under the holder's name.
    pub fn is_returnable(&self, holder: &SlotHolder, node: Option<&NodeView>) -> bool {
        let Some(node) = node.filter(|n| n.uid == holder.uid) else { return true };
        let idle = node.settled() && !node.cordoned && node.ready && self.recovery.has_recovered(node);
        idle && !matches!(self.due(node), Ok(Some(_)))
    }

    /// A claimed node that asks for a drain and holds no slot of any pool.
    fn asks_for_slot(&self, node: &NodeView) -> bool {
        let claimed = matches!(node.state, Some(NodeState::Working | NodeState::Degraded));
        let asked = node.desired_drain.as_ref().is_some_and(|r| r.kind == DrainKind::Drain);
        let pending = asked && node.desired_drain != node.applied_drain;
        claimed && pending && !self.holds_elsewhere(node)
    }

    /// What keeps a member without a slot from getting one; `Ok(false)` when it needs none.
    fn wants_slot(&self, node: &NodeView) -> Result<bool, Why> {
        if self.asks_for_slot(node) {
            return self.drain_obstacle(node).map_or(Ok(true), |why| Err(Why::Kept(why)));
        }
        if self.target.is_some() && node.desired == self.target {
            return Ok(false);
        }
        if let Some(obstacle) = self.obstacle(node) {
            return Err(Why::Kept(obstacle));
        }
        if node.state == Some(NodeState::Working) {
            let what = node.desired.as_ref().map_or("what it had begun", |d| d.as_str());
            return Err(Why::Progress(format!("it finishes {what} first")));
        }
        if !self.has_daemon(node) {
            return Err(Why::Kept(why::no_daemon("its daemon is not Ready")));
        }
        self.limit.as_ref().map(|_| true).map_err(|invalid| Why::Kept(invalid.to_string()))
    }

    /// All decisions for the pool. What is granted counts on all the slots that seem to be free again.
    pub fn plan(&self) -> Plan {
        let node_of = |h: &SlotHolder| match self.fresh.get(&h.name) {
            Some(read) => read.as_ref(),
            None => self.world.nodes.get(&h.name).map(Arc::as_ref),
        };
        let holders = self.slots.nodes.iter();
        let free = holders.filter(|holder| self.is_returnable(holder, node_of(holder))).cloned().collect();
        let mut plan = self.plan_with(free);
        for holder in self.slots.nodes.iter().filter(|h| !plan.give_back.contains(h)) {
            let gone = node_of(holder).filter(|node| node.uid == holder.uid && !self.is_member(node));
            plan.give.extend(gone.filter(|node| matches!(self.due(node), Ok(Some(_)))).map(|node| node.name.clone()));
        }
        plan
    }

    /// The slots that can be given out while all that are out stay out.
    pub fn grants(&self) -> Vec<SlotHolder> {
        self.plan_with(Vec::new()).grant
    }

    /// All decisions for the pool but those for holders that are not in it.
    fn plan_with(&self, give_back: Vec<SlotHolder>) -> Plan {
        let mut plan = Plan { give_back, ..Plan::default() };
        let mut room = Room::new(self, &plan.give_back);
        for node in &self.members {
            let why = self.look_at(node, &mut room, &mut plan);
            if let Some(why) = why {
                let stuck = self.is_updated(node) || node.state == Some(NodeState::Degraded);
                let begun = node.state == Some(NodeState::Working) || (node.state.is_some() && !node.settled());
                let moving = !stuck && (begun || matches!(why, Why::Progress(_)));
                plan.waiting.push(Waiting { node: node.name.clone(), why, moving });
            }
        }
        for node in &self.strays {
            // A node that lost its pool is drained by the limit of the pool that it was in.
            let was_here = node.desired.as_ref().or(node.current.as_ref()).and_then(pool_of_config);
            let here = was_here.is_some_and(|pool| pool == self.name) && !self.holds(node);
            if here && self.asks_for_slot(node) && self.drain_obstacle(node).is_none() && room.take(false) {
                plan.grant.push(holder(node));
            }
        }
        plan.in_the_way = self.in_the_way();
        plan
    }

    /// Decides for one member, and says what it waits for unless it is at the target.
    fn look_at(&self, node: &NodeView, room: &mut Room, plan: &mut Plan) -> Option<Why> {
        match self.due(node) {
            Ok(Some(give)) => {
                plan.give.push(node.name.clone());
                return Some(Why::Progress(match give.kind {
                    Kind::Back => "it goes back to the config that it has".to_owned(),
                    Kind::HandOut | Kind::Retarget => "it is being given the config".to_owned(),
                }));
            }
            Err(why) => return Some(why),
            Ok(None) => {}
        }
        if self.holds(node) {
            return self.progress(node);
        }
        match self.wants_slot(node) {
            Err(why) => Some(why),
            Ok(false) => self.progress(node),
            Ok(true) if room.take(self.unavailable.contains(&node.name)) => {
                plan.grant.push(holder(node));
                Some(Why::Progress("it is next".to_owned()))
            }
            Ok(true) => Some(Why::Turn),
        }
    }
}

/// The slots that are left, while a plan is made.
pub(in crate::pool) struct Room {
    limit: usize,
    /// Nodes that count: holders and unavailable members, each once.
    taken: usize,
    holders: usize,
}

impl Room {
    /// What the pool has left once `given_back` are free again.
    pub(in crate::pool) fn new(case: &Case, given_back: &[SlotHolder]) -> Self {
        let kept: Vec<&SlotHolder> = case.slots.nodes.iter().filter(|h| !given_back.contains(h)).collect();
        let holding = kept.iter().filter(|h| !case.unavailable.contains(&h.name)).count();
        Self {
            limit: case.limit.clone().unwrap_or_default(),
            taken: holding + case.unavailable.len(),
            holders: kept.len(),
        }
    }

    /// Takes a slot for a node if there is one. No node counts against itself: one that is `unavailable` already costs
    /// nothing more, and gets a slot as long as fewer than the limit are out.
    pub(in crate::pool) fn take(&mut self, unavailable: bool) -> bool {
        let counted = if unavailable { self.holders } else { self.taken };
        if counted >= self.limit || self.holders >= Slots::LIMIT {
            return false;
        }
        self.holders += 1;
        self.taken += usize::from(!unavailable);
        true
    }

    /// Gives the slot back of a node that serves again: it counts no longer, whether it did before it took the slot or not.
    pub(in crate::pool) fn give_back(&mut self) {
        self.holders = self.holders.saturating_sub(1);
        self.taken = self.taken.saturating_sub(1);
    }
}

fn holder(node: &NodeView) -> SlotHolder {
    SlotHolder { name: node.name.clone(), uid: node.uid.clone() }
}

fn back(node: &NodeView) -> Give {
    Give { to: node.current.clone(), kind: Kind::Back }
}

/// `pools` with `pool` as it was just read.
fn with(pools: &Pools, pool: &MachineConfigPool) -> Pools {
    let mut pools = pools.clone();
    pools.insert(pool.name().into(), Arc::new(pool.clone()));
    pools
}

#[cfg(test)]
mod tests;
