//! The order of reads and writes in which slots and desired configs are written, as machines without I/O.
//!
//! The order is what makes a frozen leader and a stale cache harmless, so it is here, where tests can put any other
//! step between two of it. The executor does what a machine asks and tells it the answer; it decides nothing.
//!
//! A write is made under the resourceVersion with which the machine itself read the object last.

use super::decide::{Case, Fresh, Give, Kind};
use super::recovery::Recovery;
use crate::api::protocol::{SlotHolder, Slots};
use crate::api::{Epoch, MachineConfigPool, NodeName, PoolName, annotation};
use crate::pool::door::{self, NodeChange};
use crate::pool::membership::Membership;
use crate::pool::view::NodeView;
use crate::pool::world::World;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request to the API server.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Read this Node, uncached.
    Node(NodeName),
    /// Read this pool, uncached.
    Pool(PoolName),
    /// Write the slots of the pool that was read.
    WriteSlots(Slots),
    /// Change the Node that was read.
    WriteNode(NodeChange),
}

/// What came of an [`Ask`].
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The Node; none when there is none of that name.
    Node(Option<NodeView>),
    /// The pool; none when there is none of that name.
    Pool(Option<Arc<MachineConfigPool>>),
    /// Whether the write was made. False: the object has changed since it was read, or is gone.
    Wrote(bool),
}

/// What a machine wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next<T> {
    /// Do this, and tell it the answer.
    Ask(Ask),
    /// It is over; none: there was nothing to do, or somebody else was faster. What is left is decided again from
    /// what the caches say by then.
    End(Option<T>),
    /// This leader stops and stands again with a new epoch.
    Stop(Stop),
}

/// Why a leader stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The epoch in the pool is another leader's.
    OtherEpoch,
    /// Somebody deleted the pool's slots: only a take-over can tell who holds one.
    NoSlots,
}

/// The pool's slots, when the leader with `epoch` may still act on it.
///
/// Only the epoch in the pool is compared. The annotation on a Node may be an earlier leader's for good.
pub fn standing(pool: &MachineConfigPool, epoch: &Epoch) -> Result<Slots, Stop> {
    match door::slots(pool) {
        None => Err(Stop::NoSlots),
        Some(slots) if slots.epoch != *epoch => Err(Stop::OtherEpoch),
        Some(slots) => Ok(slots),
    }
}

/// What the machines know beside the answers.
pub struct Context<'a> {
    /// The caches.
    pub world: &'a World,
    /// Made from them.
    pub membership: &'a Membership,
    /// Of the nodes that hold slots.
    pub recovery: &'a Recovery,
    /// Of this leader.
    pub epoch: &'a Epoch,
}

/// Gives slots back and hands new ones out, in one write: reads the pool, then each node whose slot seems free, then
/// writes the slots under the resourceVersion of the pool. A take-over in between changes that, so a node that was
/// read at rest is still at rest when its slot goes: only another leader could have sent it somewhere.
#[derive(Debug, Clone)]
pub struct SlotRun {
    pool: PoolName,
    state: SlotState,
}

#[derive(Debug, Clone)]
enum SlotState {
    Start,
    Pool,
    Nodes { pool: Arc<MachineConfigPool>, slots: Slots, free: Vec<SlotHolder>, read: Fresh, reading: NodeName },
    Write { written: SlotsWritten },
}

/// Slots that were written.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotsWritten {
    /// All of them.
    pub slots: Slots,
    /// Those that are new.
    pub granted: Vec<SlotHolder>,
}

impl SlotRun {
    /// For one pool.
    pub fn new(pool: PoolName) -> Self {
        Self { pool, state: SlotState::Start }
    }

    /// The next request.
    pub fn step(&mut self, context: &Context, answer: Option<Answer>) -> Next<SlotsWritten> {
        match (std::mem::replace(&mut self.state, SlotState::Start), answer) {
            (SlotState::Start, None) => {
                self.state = SlotState::Pool;
                Next::Ask(Ask::Pool(self.pool.clone()))
            }
            (SlotState::Pool, Some(Answer::Pool(Some(pool)))) => match standing(&pool, context.epoch) {
                Err(stop) => Next::Stop(stop),
                Ok(slots) => {
                    let nothing = Fresh::new();
                    let free = context.case(&pool, &slots, &nothing).plan().give_back;
                    self.read_on(context, pool, slots, free, Fresh::new())
                }
            },
            (SlotState::Nodes { pool, slots, free, mut read, reading }, Some(Answer::Node(node))) => {
                read.insert(reading, node);
                self.read_on(context, pool, slots, free, read)
            }
            (SlotState::Write { written }, Some(Answer::Wrote(true))) => Next::End(Some(written)),
            _ => Next::End(None),
        }
    }

    /// Reads the next node whose slot seems free, or decides.
    fn read_on(
        &mut self,
        context: &Context,
        pool: Arc<MachineConfigPool>,
        slots: Slots,
        free: Vec<SlotHolder>,
        read: Fresh,
    ) -> Next<SlotsWritten> {
        if let Some(next) = free.iter().find(|h| !read.contains_key(&h.name)) {
            let reading = next.name.clone();
            self.state = SlotState::Nodes { pool, slots, free, read, reading: reading.clone() };
            return Next::Ask(Ask::Node(reading));
        }
        let mut kept = slots.clone();
        {
            let case = context.case(&pool, &slots, &read);
            let goes = |h: &SlotHolder| {
                free.contains(h) && read.get(&h.name).is_some_and(|node| case.is_returnable(h, node.as_ref()))
            };
            kept.nodes.retain(|h| !goes(h));
        }
        let granted = context.case(&pool, &kept, &read).grants();
        kept.nodes.extend(granted.iter().cloned());
        if kept == slots {
            return Next::End(None);
        }
        self.state = SlotState::Write { written: SlotsWritten { slots: kept.clone(), granted } };
        Next::Ask(Ask::WriteSlots(kept))
    }
}

/// Writes the desired config of one node: reads the Node, then the pool that decides about it, decides, and writes
/// under the resourceVersion of that read of the Node.
///
/// The other order is unsafe: between a read of the pool and a later read of the Node the slot may be given back,
/// handed on and used.
#[derive(Debug, Clone)]
pub struct HandOut {
    pool: PoolName,
    node: NodeName,
    state: HandOutState,
}

#[derive(Debug, Clone)]
enum HandOutState {
    Start,
    Node,
    Pool { node: Box<NodeView> },
    Write { node: Box<NodeView>, give: Give },
}

/// A desired config that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// The node as it was read.
    pub node: NodeView,
    /// What was written.
    pub give: Give,
}

impl HandOut {
    /// To `node`, by the rules of `pool`.
    pub fn new(pool: PoolName, node: NodeName) -> Self {
        Self { pool, node, state: HandOutState::Start }
    }

    /// The next request.
    pub fn step(&mut self, context: &Context, answer: Option<Answer>) -> Next<Given> {
        match (std::mem::replace(&mut self.state, HandOutState::Start), answer) {
            (HandOutState::Start, None) => {
                self.state = HandOutState::Node;
                Next::Ask(Ask::Node(self.node.clone()))
            }
            (HandOutState::Node, Some(Answer::Node(Some(node)))) => {
                self.state = HandOutState::Pool { node: Box::new(node) };
                Next::Ask(Ask::Pool(self.pool.clone()))
            }
            (HandOutState::Pool { node }, Some(Answer::Pool(Some(pool)))) => {
                let slots = match standing(&pool, context.epoch) {
                    Err(stop) => return Next::Stop(stop),
                    Ok(slots) => slots,
                };
                let fresh = Fresh::from([(node.name.clone(), Some((*node).clone()))]);
                let Ok(Some(give)) = context.case(&pool, &slots, &fresh).due(&node) else { return Next::End(None) };
                let change = match &give.to {
                    Some(config) => NodeChange::default().set(annotation::DESIRED_CONFIG, config),
                    None => NodeChange::default().remove(annotation::DESIRED_CONFIG),
                };
                self.state = HandOutState::Write { node, give };
                Next::Ask(Ask::WriteNode(change))
            }
            (HandOutState::Write { node, give }, Some(Answer::Wrote(true))) => {
                Next::End(Some(Given { node: *node, give }))
            }
            _ => Next::End(None),
        }
    }
}

impl Given {
    /// Whether the node was at rest and is disturbed by this.
    pub fn begins(&self) -> bool {
        self.give.kind == Kind::HandOut
    }
}

impl<'a> Context<'a> {
    fn case(&'a self, pool: &'a MachineConfigPool, slots: &'a Slots, fresh: &'a Fresh) -> Case<'a> {
        Case::new(self.world, self.membership, self.recovery, pool, slots, fresh)
    }
}

/// What a new leader does before anything else: writes its epoch into each pool's slots, then into the annotation of
/// every Node that holds one, so that every write of an earlier leader that is still under way fails.
///
/// Where slots are absent they are rebuilt from all nodes of the pool that are not Done at their desired config, and
/// every Node of the pool gets the epoch: an earlier leader may have a write under way to any of them. What such a
/// write changed before it was stopped is added to the slots in the end.
#[derive(Debug, Clone)]
pub struct TakeOver {
    pools: Vec<PoolName>,
    /// Pools whose slots were absent.
    rebuilt: Vec<PoolName>,
    nodes: Vec<NodeName>,
    state: TakeOverState,
}

#[derive(Debug, Clone)]
enum TakeOverState {
    Pools,
    Pool(PoolName),
    WriteEpoch { pool: PoolName, absent: bool, slots: Slots },
    Node(NodeName),
    WriteNode(NodeName),
    Completing,
    Complete(PoolName),
    WriteComplete(PoolName),
}

/// What a new leader reads as a whole, uncached, before [`TakeOver`] begins, and again when it asks for it.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    /// All pools.
    pub pools: BTreeMap<PoolName, Arc<MachineConfigPool>>,
    /// All nodes.
    pub nodes: BTreeMap<NodeName, Arc<NodeView>>,
}

/// What a take-over wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum TakeOverNext {
    /// Do this, and tell it the answer.
    Ask(Ask),
    /// List pools and nodes uncached, and go on with these.
    List,
    /// It is over.
    End,
}

impl TakeOver {
    /// Of `pools`.
    pub fn new(pools: Vec<PoolName>) -> Self {
        Self { pools, rebuilt: Vec::new(), nodes: Vec::new(), state: TakeOverState::Pools }
    }

    /// The next request. `lists`: what was listed last. A write that fails is tried again from a new read: giving up
    /// would leave a pool that nobody leads.
    pub fn step(&mut self, epoch: &Epoch, lists: &Lists, answer: Option<Answer>) -> TakeOverNext {
        match (std::mem::replace(&mut self.state, TakeOverState::Pools), answer) {
            (TakeOverState::Pool(name), Some(Answer::Pool(Some(pool)))) => {
                let (absent, mut slots) = match door::slots(&pool) {
                    Some(slots) => (false, slots),
                    None => (true, Slots { nodes: lists.unsettled(&name), ..Slots::default() }),
                };
                slots.epoch = epoch.clone();
                self.state = TakeOverState::WriteEpoch { pool: name, absent, slots: slots.clone() };
                TakeOverNext::Ask(Ask::WriteSlots(slots))
            }
            (TakeOverState::Pools | TakeOverState::Pool(_), _) => self.next_pool(),
            (TakeOverState::WriteEpoch { pool, absent, slots }, Some(Answer::Wrote(true))) => {
                self.nodes.extend(slots.nodes.into_iter().map(|h| h.name));
                if absent {
                    self.nodes.extend(lists.membership().nodes_of(&pool).iter().cloned());
                    self.rebuilt.push(pool);
                }
                self.next_pool()
            }
            (TakeOverState::WriteEpoch { pool, .. }, _) => self.read_pool(pool),
            (TakeOverState::Node(name), Some(Answer::Node(Some(_)))) => {
                self.state = TakeOverState::WriteNode(name);
                TakeOverNext::Ask(Ask::WriteNode(NodeChange::default().set(annotation::EPOCH, epoch)))
            }
            (TakeOverState::Node(_), _) | (TakeOverState::WriteNode(_), Some(Answer::Wrote(true))) => self.next_node(),
            (TakeOverState::WriteNode(name), _) => self.read_node(name),
            (TakeOverState::Completing, _) => self.complete_next(),
            (TakeOverState::Complete(name), Some(Answer::Pool(Some(pool)))) => match standing(&pool, epoch) {
                // Another leader took it over in the meantime: the first write that needs a slot finds that out.
                Err(_) => self.complete_next(),
                Ok(mut slots) => {
                    let missed = lists.unsettled(&name).into_iter().filter(|h| !slots.holds(&h.name, &h.uid));
                    let missed: Vec<SlotHolder> = missed.collect();
                    if missed.is_empty() {
                        return self.complete_next();
                    }
                    slots.nodes.extend(missed);
                    self.state = TakeOverState::WriteComplete(name);
                    TakeOverNext::Ask(Ask::WriteSlots(slots))
                }
            },
            (TakeOverState::Complete(_), _) | (TakeOverState::WriteComplete(_), Some(Answer::Wrote(true))) => {
                self.complete_next()
            }
            (TakeOverState::WriteComplete(name), _) => {
                self.state = TakeOverState::Complete(name.clone());
                TakeOverNext::Ask(Ask::Pool(name))
            }
        }
    }

    fn read_pool(&mut self, pool: PoolName) -> TakeOverNext {
        self.state = TakeOverState::Pool(pool.clone());
        TakeOverNext::Ask(Ask::Pool(pool))
    }

    fn next_pool(&mut self) -> TakeOverNext {
        if let Some(pool) = self.pools.pop() {
            return self.read_pool(pool);
        }
        self.nodes.sort();
        self.nodes.dedup();
        self.next_node()
    }

    fn read_node(&mut self, node: NodeName) -> TakeOverNext {
        self.state = TakeOverState::Node(node.clone());
        TakeOverNext::Ask(Ask::Node(node))
    }

    fn next_node(&mut self) -> TakeOverNext {
        match self.nodes.pop() {
            Some(node) => self.read_node(node),
            None if self.rebuilt.is_empty() => TakeOverNext::End,
            None => {
                self.state = TakeOverState::Completing;
                TakeOverNext::List
            }
        }
    }

    fn complete_next(&mut self) -> TakeOverNext {
        match self.rebuilt.pop() {
            Some(pool) => {
                self.state = TakeOverState::Complete(pool.clone());
                TakeOverNext::Ask(Ask::Pool(pool))
            }
            None => TakeOverNext::End,
        }
    }
}

impl Lists {
    fn membership(&self) -> Membership {
        Membership::new(&self.pools, &self.nodes)
    }

    /// Nodes of `pool` that are not Done at their desired config, oldest first. One without a daemon is at rest.
    fn unsettled(&self, pool: &PoolName) -> Vec<SlotHolder> {
        let membership = self.membership();
        let nodes = membership.nodes_of(pool).iter().filter_map(|name| self.nodes.get(name));
        let holders = nodes
            .filter(|node| node.state.is_some() && !node.settled())
            .map(|node| SlotHolder { name: node.name.clone(), uid: node.uid.clone() });
        holders.take(Slots::LIMIT).collect()
    }
}

#[cfg(test)]
mod tests;
