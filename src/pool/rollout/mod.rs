//! The rollout: who gets a slot and a desired config, and who gives a slot back.
//!
//! Here is only what acts: it asks [`decide`] what is worth trying, lets the machines of [`steps`] read and write in
//! their order, publishes Events and writes the pools' status. It decides nothing.

mod cordon;
pub mod decide;
mod harmless;
mod memory;
pub mod recovery;
#[cfg(test)]
mod sim;
pub mod steps;

pub use cordon::may_cordon;
pub use memory::Memory;

use super::door::{Door, Error};
use super::membership::Membership;
use super::view::NodeView;
use super::world::{Leader, Subject, World};
use super::{status, takeover};
use crate::api::protocol::Slots;
use crate::api::{MachineConfigPool, MachineConfigPoolStatus, NodeName, PoolName, event, label};
use decide::{Case, Fresh, Kind, Plan};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use steps::{Answer, Ask, Context, Given, HandOut, Next, SlotRun, Stop};

/// Carries the rollout of all pools on: called after every change of the world. Says when it must be called again at
/// the latest, though nothing changed: a status that waits to be written, or a node that has yet to prove itself.
///
/// An error of one pool does not keep the others waiting; the first one is returned. One that
/// [stops the leadership](Error::stops_leading) is returned at once, and nothing more is written.
pub async fn sync(leader: &Leader, world: &World) -> Result<Option<Duration>, Error> {
    let mut memory = leader.rollout.lock().await;
    let membership = Membership::new(&world.pools, &world.nodes);
    memory.look_at(world);
    let mut first_error = None;
    let mut again: Option<Duration> = None;
    for (name, cached) in &world.pools {
        let mut pool = Pool { leader, world, membership: &membership, memory: &mut memory, name };
        match pool.sync(cached).await {
            Ok(wait) => again = [again, wait].into_iter().flatten().min(),
            Err(error) if error.stops_leading() => return Err(error),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    report_placeless(leader, world, &membership, &mut memory).await;
    memory.forget_gone(world);
    first_error.map_or(Ok(again), Err)
}

/// One pool, while it is looked after.
struct Pool<'a> {
    leader: &'a Leader,
    world: &'a World,
    membership: &'a Membership,
    memory: &'a mut Memory,
    name: &'a PoolName,
}

impl Pool<'_> {
    async fn sync(&mut self, cached: &Arc<MachineConfigPool>) -> Result<Option<Duration>, Error> {
        let Some((pool, mut slots)) = self.led(cached).await? else { return Ok(None) };
        let mut plan = self.plan(&pool, &slots);
        if plan.changes_slots()
            && let Some(written) = self.run_slots(cached).await?
        {
            slots = written;
            plan = self.plan(&pool, &slots);
        }
        for node in std::mem::take(&mut plan.give) {
            self.hand_out(node).await?;
        }
        self.report(cached, &pool, &slots).await
    }

    fn plan(&self, pool: &MachineConfigPool, slots: &Slots) -> Plan {
        let fresh = self.memory.own_nodes();
        Case::new(self.world, self.membership, &self.memory.recovery, pool, slots, &fresh).plan()
    }

    /// The pool and its slots as far as known. Where the cache says that another leads or that there are no slots, the
    /// pool is read: the cache may be older than the take-over. A pool that was created since is taken over now.
    async fn led(&mut self, cached: &Arc<MachineConfigPool>) -> Result<Option<(Arc<MachineConfigPool>, Slots)>, Error> {
        let known = self.memory.own_pool(cached);
        if let Ok(slots) = steps::standing(&known, &self.leader.epoch) {
            return Ok(Some((known, slots)));
        }
        for _ in 0..2 {
            let Some(read) = self.leader.door.pool(self.name).await?.map(Arc::new) else { return Ok(None) };
            match steps::standing(&read, &self.leader.epoch) {
                Ok(slots) => {
                    self.memory.own_pools.wrote(cached, Arc::clone(&read));
                    return Ok(Some((read, slots)));
                }
                Err(Stop::NoSlots) if !self.memory.has_led(&read) => {
                    takeover::adopt(self.leader, self.memory, self.name).await?;
                }
                Err(stop) => return Err(self.stopped(stop)),
            }
        }
        Ok(None)
    }

    fn stopped(&self, stop: Stop) -> Error {
        match stop {
            Stop::OtherEpoch => Error::Deposed { pool: self.name.clone() },
            Stop::NoSlots => Error::NoSlots { pool: self.name.clone() },
        }
    }

    fn context(&self) -> Context<'_> {
        Context {
            world: self.world,
            membership: self.membership,
            recovery: &self.memory.recovery,
            epoch: &self.leader.epoch,
        }
    }

    async fn run_slots(&mut self, cached: &Arc<MachineConfigPool>) -> Result<Option<Slots>, Error> {
        let mut run = SlotRun::new(self.name.clone());
        let mut server = Server::new(&self.leader.door);
        let mut answer = None;
        loop {
            match run.step(&self.context(), answer.take()) {
                Next::Ask(ask) => answer = Some(server.answer(ask).await?),
                Next::Stop(stop) => return Err(self.stopped(stop)),
                Next::End(None) => return Ok(None),
                Next::End(Some(written)) => {
                    for holder in &written.granted {
                        if let Some(node) = self.world.nodes.get(&holder.name).filter(|n| n.uid == holder.uid) {
                            self.memory.recovery.granted(node);
                        }
                    }
                    if let Some(pool) = server.pool {
                        self.memory.own_pools.wrote(cached, Arc::new(pool));
                    }
                    return Ok(Some(written.slots));
                }
            }
        }
    }

    async fn hand_out(&mut self, node: NodeName) -> Result<(), Error> {
        let mut run = HandOut::new(self.name.clone(), node);
        let mut server = Server::new(&self.leader.door);
        let mut answer = None;
        loop {
            match run.step(&self.context(), answer.take()) {
                Next::Ask(ask) => answer = Some(server.answer(ask).await?),
                Next::Stop(stop) => return Err(self.stopped(stop)),
                Next::End(None) => return Ok(()),
                Next::End(Some(given)) => {
                    if let Some(node) = server.node {
                        self.memory.own_node_written(self.world, NodeView::new(&node));
                    }
                    self.given(&given).await;
                    return Ok(());
                }
            }
        }
    }

    /// Tells people, and remembers what the write does to the node.
    async fn given(&mut self, given: &Given) {
        let Given { node, give } = given;
        let harmless = give.kind == Kind::Back
            || self.memory.harmless.is(&self.leader.door, self.world, node.current.as_ref(), give.to.as_ref()).await;
        self.memory.recovery.given(node, give.to.as_ref(), harmless);
        let to = give.to.as_ref().map_or("no config", |c| c.as_str());
        tracing::info!(node = %node.name, pool = %self.name, config = to, kind = ?give.kind, "desired config written");
        let note = match give.kind {
            Kind::HandOut => format!("Node {} is given {to}", node.name),
            Kind::Retarget => format!("Node {} is sent to {to} instead of what it was on its way to", node.name),
            Kind::Back => format!("Node {} had not begun and goes back to {to}", node.name),
        };
        let subject = Subject::Node(node.name.clone(), node.uid.clone());
        self.leader.events.publish(&subject, false, event::DESIRED_SET, note.clone()).await;
        if let Some(pool) = self.world.pools.get(self.name) {
            let subject = Subject::Pool(Arc::clone(pool));
            self.leader.events.publish(&subject, false, event::DESIRED_SET, note).await;
        }
    }

    /// Writes the pool's status when it differs: at most once a second, but at once when `Updated` is withdrawn. Where the
    /// pool has changed meanwhile, the caches hear of that, and it is computed again.
    async fn report(
        &mut self,
        cached: &Arc<MachineConfigPool>,
        pool: &Arc<MachineConfigPool>,
        slots: &Slots,
    ) -> Result<Option<Duration>, Error> {
        let fresh: Fresh = self.memory.own_nodes();
        let previous = self.memory.statuses.previous(self.name, pool.status.as_ref()).cloned();
        let next = {
            let case = Case::new(self.world, self.membership, &self.memory.recovery, pool, slots, &fresh);
            let plan = case.plan();
            status::compute(&status::Input {
                world: self.world,
                membership: self.membership,
                pool,
                case: &case,
                plan: &plan,
                previous: previous.as_ref(),
                now: self.world.now.unwrap_or(Timestamp::UNIX_EPOCH),
            })
        };
        let unproven = slots.nodes.iter().any(|h| {
            let node = self.world.nodes.get(&h.name).filter(|n| n.uid == h.uid);
            node.is_some_and(|n| n.settled() && !self.memory.recovery.has_recovered(n))
        });
        let soon = unproven.then_some(recovery::LOOK_AGAIN);
        if previous.as_ref() == Some(&next) {
            return Ok(soon);
        }
        let urgent = status::withdraws_updated(previous.as_ref(), &next);
        if let Some(wait) = self.memory.statuses.must_wait(self.name).filter(|_| !urgent) {
            return Ok(Some(soon.map_or(wait, |soon| soon.min(wait))));
        }
        // Under the version that says that we lead: a leader that was frozen must not tell of what was.
        let known = self.memory.own_pool(cached);
        let Some(written) = self.leader.door.change_pool_status(&known, &next).await? else { return Ok(soon) };
        self.memory.own_pools.wrote(cached, Arc::new(written));
        let name_of = |s: &MachineConfigPoolStatus| s.configuration.as_ref().and_then(|c| c.name.clone());
        let moved = previous.as_ref().is_some_and(|previous| name_of(previous) != name_of(&next));
        if let Some(config) = name_of(&next).filter(|_| moved) {
            let note = format!("All nodes of the pool have {config}");
            let subject = Subject::Pool(Arc::clone(pool));
            self.leader.events.publish(&subject, false, event::COMPLETED, note).await;
        }
        self.memory.statuses.wrote(self.name, next);
        Ok(soon)
    }
}

/// Answers the requests of a machine, and keeps what was read: a write goes under its resourceVersion.
pub(super) struct Server<'a> {
    door: &'a Door,
    node: Option<Node>,
    pool: Option<MachineConfigPool>,
}

impl<'a> Server<'a> {
    pub(super) fn new(door: &'a Door) -> Self {
        Self { door, node: None, pool: None }
    }

    pub(super) async fn answer(&mut self, ask: Ask) -> Result<Answer, Error> {
        Ok(match ask {
            Ask::Node(name) => {
                self.node = self.door.node(&name).await?;
                Answer::Node(self.node.as_ref().map(NodeView::new))
            }
            Ask::Pool(name) => {
                self.pool = self.door.pool(&name).await?;
                Answer::Pool(self.pool.clone().map(Arc::new))
            }
            Ask::WriteSlots(slots) => {
                let Some(read) = self.pool.take() else { return Ok(Answer::Wrote(false)) };
                self.pool = self.door.change_slots(&read, &slots).await?;
                Answer::Wrote(self.pool.is_some())
            }
            Ask::WriteNode(change) => {
                let Some(read) = self.node.take() else { return Ok(Answer::Wrote(false)) };
                self.node = self.door.change_node(&read, &change).await?;
                Answer::Wrote(self.node.is_some())
            }
        })
    }
}

/// An Event on each node, and its pools, when two custom pools begin to select it, or none selects a node that has a
/// daemon.
async fn report_placeless(leader: &Leader, world: &World, membership: &Membership, memory: &mut Memory) {
    let mut placeless = BTreeSet::new();
    for (name, pools) in &membership.ambiguous {
        let Some(view) = world.nodes.get(name) else { continue };
        placeless.insert((view.uid.clone(), true));
        if memory.placeless.contains(&(view.uid.clone(), true)) {
            continue;
        }
        let text = format!("Node {name} {}", Membership::ambiguity(pools));
        let subject = Subject::Node(name.clone(), view.uid.clone());
        leader.events.publish(&subject, true, event::AMBIGUOUS, text.clone()).await;
        for pool in pools.iter().filter_map(|pool| world.pools.get(pool)) {
            leader.events.publish(&Subject::Pool(Arc::clone(pool)), true, event::AMBIGUOUS, text.clone()).await;
        }
    }
    let managed = |name: &&NodeName| world.nodes.get(*name).filter(|n| n.state.is_some());
    for view in membership.unmanaged.iter().filter_map(|name| managed(&name)) {
        placeless.insert((view.uid.clone(), false));
        if !memory.placeless.contains(&(view.uid.clone(), false)) {
            let text = format!(
                "No MachineConfigPool selects Node {}: it keeps what it has; give it a role label, such as {}",
                view.name,
                label::NODE_ROLE_WORKER
            );
            let subject = Subject::Node(view.name.clone(), view.uid.clone());
            leader.events.publish(&subject, true, event::NO_POOL, text).await;
        }
    }
    memory.placeless = placeless;
}

#[cfg(test)]
mod tests;
