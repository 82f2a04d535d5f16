//! How a rollout goes on when everything works: which nodes go together, which stay behind. The decisions are those of
//! `rollout::decide`; here the nodes that were taken are Done at what they were sent to, and it is asked again.
//!
//! Assumed: each wave ends before the next begins, kubelets come back, nobody else does anything. In a cluster the next node
//! goes as soon as one is done, in the same order and within the same limit.

use super::Waits;
use crate::api::protocol::{NodeState, SlotHolder, Slots};
use crate::api::{ConfigName, MachineConfigPool, NodeName};
use crate::pool::door;
use crate::pool::membership::Membership;
use crate::pool::rollout::decide::{Case, Fresh, Plan, Room, Why};
use crate::pool::rollout::recovery::Recovery;
use crate::pool::view::NodeView;
use crate::pool::world::World;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Looks in a row at which no node gets any further, before the rest counts as waiting: slots may still move.
const IDLE_LOOKS: usize = 2;

/// What becomes of the nodes of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// As in `spec.maxUnavailable`, of this pool; none when that is no limit.
    pub(super) limit: Option<usize>,
    /// Nodes that are on their way now.
    pub(super) under_way: Vec<Waits>,
    /// Nodes that go, wave by wave.
    pub(super) waves: Vec<Vec<NodeName>>,
    /// Nodes that are not Done at the target in the end, or do not serve.
    pub(super) waits: Vec<Waits>,
}

/// Carries the rollout of `pool` on to its end. The nodes of the pool are left in `world` as they are then.
pub(super) fn foretell(world: &mut World, membership: &Membership, pool: &Arc<MachineConfigPool>) -> Course {
    Simulation::new(world, membership, pool).run(true)
}

struct Simulation<'a> {
    world: &'a mut World,
    membership: &'a Membership,
    pool: &'a MachineConfigPool,
    slots: Slots,
    recovery: Recovery,
    fresh: Fresh,
    course: Course,
}

/// A node and what it is after its update.
type Finished = (NodeName, NodeView);

/// What a look at the world leads to.
enum Look {
    /// Slots that are free again.
    GiveBack(Vec<SlotHolder>),
    /// Nodes go: those that were on their way, those that are new, and the slots then.
    Go { under_way: Vec<(Finished, String)>, taken: Vec<Finished>, slots: Vec<SlotHolder> },
    /// All nodes are at rest: whole waves, and the nodes that keep their slots since they do not serve afterwards.
    Waves { waves: Vec<Vec<NodeName>>, finished: Vec<Finished>, stuck: Vec<SlotHolder> },
    /// Nobody goes any more.
    End(Vec<Waits>),
}

impl<'a> Simulation<'a> {
    fn new(world: &'a mut World, membership: &'a Membership, pool: &'a MachineConfigPool) -> Self {
        Self {
            world,
            membership,
            pool,
            slots: door::slots(pool).unwrap_or_default(),
            recovery: Recovery::assumed(),
            fresh: Fresh::new(),
            course: Course::default(),
        }
    }

    /// `at_once`: where nodes are at rest, all waves in one go. The result is the same.
    fn run(mut self, at_once: bool) -> Course {
        let mut idle = 0;
        let mut first = true;
        loop {
            let look = self.look(at_once, idle >= IDLE_LOOKS);
            idle += 1;
            match look {
                Look::End(waits) => {
                    self.course.waits = waits;
                    return self.course;
                }
                Look::GiveBack(free) => self.slots.nodes.retain(|h| !free.contains(h)),
                Look::Go { under_way, taken, slots } => {
                    self.slots.nodes = slots;
                    let mut wave: Vec<NodeName> = Vec::new();
                    for ((name, after), why) in under_way {
                        if first {
                            self.course.under_way.push(Waits { node: name.clone(), why });
                        } else {
                            wave.push(name.clone());
                        }
                        self.world.nodes.insert(name, Arc::new(after));
                        idle = 0;
                    }
                    for (name, after) in taken {
                        wave.push(name.clone());
                        self.world.nodes.insert(name, Arc::new(after));
                        idle = 0;
                    }
                    if !wave.is_empty() {
                        self.course.waves.push(wave);
                    }
                    first = false;
                }
                Look::Waves { waves, finished, stuck } => {
                    self.course.waves.extend(waves);
                    for (name, after) in finished {
                        self.world.nodes.insert(name, Arc::new(after));
                        idle = 0;
                    }
                    self.slots.nodes.extend(stuck);
                    first = false;
                }
            }
        }
    }

    fn case<'b>(&'b self, slots: &'b Slots) -> Case<'b> {
        Case::new(self.world, self.membership, &self.recovery, self.pool, slots, &self.fresh)
    }

    fn look(&mut self, at_once: bool, tired: bool) -> Look {
        let case = self.case(&self.slots);
        let limit = case.limit().ok();
        let plan = case.plan();
        let look = if !plan.give_back.is_empty() && !tired {
            Look::GiveBack(plan.give_back)
        } else if tired {
            self.end(&case, &plan)
        } else if at_once && self.is_at_rest(&case, &plan) {
            self.waves(&case, &plan)
        } else {
            self.step(&case, &plan)
        };
        self.course.limit = limit;
        look
    }

    fn node(&self, name: &NodeName) -> Option<&NodeView> {
        self.world.nodes.get(name).map(Arc::as_ref)
    }

    fn end(&self, case: &Case, plan: &Plan) -> Look {
        let went: BTreeSet<&NodeName> = self.course.waves.iter().flatten().collect();
        let waits = plan.waiting.iter().map(|waiting| {
            let why = match &waiting.why {
                Why::Turn => case.why_turn(&plan.in_the_way),
                Why::Progress(text) | Why::Kept(text) if went.contains(&waiting.node) => {
                    format!("after its wave {text}")
                }
                Why::Progress(text) | Why::Kept(text) => text.clone(),
            };
            Waits { node: waiting.node.clone(), why }
        });
        Look::End(waits.collect())
    }

    /// Whether nothing is under way, so that all that happens from here on is that nodes take their turns.
    fn is_at_rest(&self, case: &Case, plan: &Plan) -> bool {
        plan.give.is_empty()
            && plan.waiting.iter().filter(|w| !matches!(w.why, Why::Kept(_))).all(|w| {
                let Some(node) = self.node(&w.node) else { return false };
                let stuck = case.is_updated(node) && !moves(node, &finished(node, node.desired.as_ref()));
                stuck || (node.settled() && !case.holds(node))
            })
    }

    /// All waves from here on, counted by the decision's own [`Room`].
    fn waves(&self, case: &Case, plan: &Plan) -> Look {
        let granted: BTreeSet<&NodeName> = plan.grant.iter().map(|h| &h.name).collect();
        let candidates = plan.waiting.iter().filter(|w| w.why == Why::Turn || granted.contains(&w.node));
        let (mut serving, mut unavailable) = (VecDeque::new(), VecDeque::new());
        for (order, node) in candidates.filter_map(|w| self.node(&w.node)).enumerate() {
            // None of them holds a slot: what counts, is unavailable.
            let queue = if case.counts(node) { &mut unavailable } else { &mut serving };
            queue.push_back((order, node));
        }
        let mut room = Room::new(case, &plan.give_back);
        let (mut waves, mut done, mut stuck) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let wave = wave(&mut room, &mut serving, &mut unavailable);
            if wave.is_empty() {
                break;
            }
            for node in &wave {
                done.push((node.name.clone(), finished(node, case.target())));
                // As the slot is given back: by a node that is Ready.
                if node.ready {
                    room.give_back();
                } else {
                    stuck.push(SlotHolder { name: node.name.clone(), uid: node.uid.clone() });
                }
            }
            waves.push(wave.into_iter().map(|node| node.name.clone()).collect());
        }
        if done.is_empty() {
            return self.end(case, plan);
        }
        Look::Waves { waves, finished: done, stuck }
    }

    /// What goes now, one step at a time.
    fn step(&self, case: &Case, plan: &Plan) -> Look {
        let mut slots = self.slots.clone();
        slots.nodes.extend(plan.grant.iter().cloned());
        let then = self.case(&slots);
        let granted: BTreeSet<&NodeName> = plan.grant.iter().map(|h| &h.name).collect();
        let (mut under_way, mut taken) = (Vec::new(), Vec::new());
        for waiting in &plan.waiting {
            let Why::Progress(text) = &waiting.why else { continue };
            let Some(node) = self.node(&waiting.node) else { continue };
            let at = match then.due(node) {
                Ok(Some(give)) => give.to,
                Ok(None) => node.desired.clone().or_else(|| node.current.clone()),
                // It has a slot, and not yet a config.
                Err(_) => continue,
            };
            let after = finished(node, at.as_ref());
            if granted.contains(&node.name) {
                taken.push((node.name.clone(), after));
            } else if moves(node, &after) {
                under_way.push(((node.name.clone(), after), text.clone()));
            }
        }
        if under_way.is_empty() && taken.is_empty() && plan.grant.is_empty() {
            return self.end(case, plan);
        }
        Look::Go { under_way, taken, slots: slots.nodes }
    }
}

/// The nodes that take a slot now, in their order. A serving one that finds no room holds up those that are unavailable
/// already as little as in the decision: they cost nothing more.
fn wave<'a>(
    room: &mut Room,
    serving: &mut VecDeque<(usize, &'a NodeView)>,
    unavailable: &mut VecDeque<(usize, &'a NodeView)>,
) -> Vec<&'a NodeView> {
    let mut wave = Vec::new();
    let mut full = false;
    loop {
        let next = |queue: &VecDeque<(usize, &NodeView)>| queue.front().map(|(order, _)| *order);
        let (serves, waits) = (next(serving).filter(|_| !full), next(unavailable));
        let is_unavailable = match (serves, waits) {
            (None, None) => break,
            (Some(serves), Some(waits)) => waits < serves,
            (serves, _) => serves.is_none(),
        };
        if !room.take(is_unavailable) {
            if is_unavailable {
                break;
            }
            full = true;
            continue;
        }
        let queue = if is_unavailable { &mut *unavailable } else { &mut *serving };
        wave.extend(queue.pop_front().map(|(_, node)| node));
    }
    wave
}

/// The node once it is Done at `at`: our cordon is lifted, another's stays.
fn finished(node: &NodeView, at: Option<&ConfigName>) -> NodeView {
    let ours = node.cordon_is_ours();
    NodeView {
        desired: at.cloned(),
        current: at.cloned(),
        state: Some(NodeState::Done),
        reason: None,
        phase: None,
        mark: node.mark.filter(|_| !ours),
        cordoned: node.cordoned && !ours,
        cordoned_at: node.cordoned_at.filter(|_| !ours),
        ..node.clone()
    }
}

/// Whether anything of what counts is another.
fn moves(before: &NodeView, after: &NodeView) -> bool {
    let counts = |node: &NodeView| (node.state, node.desired.clone(), node.current.clone(), node.cordoned);
    counts(before) != counts(after)
}

#[cfg(test)]
mod tests;
