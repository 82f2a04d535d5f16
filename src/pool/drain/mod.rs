//! Drain and uncordon requests: cordon with our mark, evict, wait, fulfil; or lift the cordon that is ours.
//!
//! | module | knows |
//! |---|---|
//! | `decide` | what a request needs next, from the Node |
//! | `slot` | whether a schedulable node may be cordoned |
//! | `pods` | which pods go |
//! | `budgets` | which budgets protect a pod, and how much they allow |
//! | `answer` | what the answer to an eviction means |
//! | `evict` | one round of evictions |
//! | `volumes` | what is still attached afterwards |
//! | `pass` | one look at one node |
//!
//! Here: which nodes are looked at, when, and side by side, so that a node that is stuck holds no other.
//! Whatever must outlive this process is on the Node.

pub(in crate::pool) mod answer;
pub(in crate::pool) mod budgets;
mod decide;
mod evict;
mod pass;
pub(in crate::pool) mod pods;
mod slot;
mod volumes;

use super::backoff::elapsed;
use super::door::Error;
use super::membership::Membership;
use super::view::NodeView;
use super::world::{Leader, Subject, World};
use crate::api::NodeName;
use k8s_openapi::jiff::Timestamp;
use pass::{Memory, Report, Work};
use slot::Surroundings;
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Nodes that are looked at at a time; each has up to ten requests under way.
const SIDE_BY_SIDE: usize = 16;

/// How often a node that waits is looked at: after a twentieth of the time it has waited, within these bounds.
const OFTEN: Duration = Duration::from_secs(1);
/// As [`OFTEN`]: whoever clears the way sees the drain go on within this and one retry.
const SELDOM: Duration = Duration::from_secs(10);

/// Looks after the requests of all nodes, for one leadership: dropping it stops all of it.
pub struct Drainer {
    state: Mutex<State>,
    gate: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<NodeName, Job>,
    running: JoinSet<(NodeName, Memory, Finished)>,
}

/// A node that is looked after.
struct Job {
    /// None while a pass runs.
    memory: Option<Memory>,
    /// The Node as the cache had it at the last pass.
    seen: Arc<NodeView>,
    /// Since when it is looked after, by the controller's clock.
    since: Timestamp,
    /// When the last pass was taken in, and how long the next waits, unless the Node changes.
    last: Timestamp,
    wait: Duration,
    /// Failed passes in a row.
    failures: u32,
}

struct Finished {
    report: Report,
    result: Result<(), Error>,
}

impl Default for Drainer {
    fn default() -> Self {
        Self::new()
    }
}

impl Drainer {
    /// With nothing under way: all there is to know is on the Nodes.
    pub fn new() -> Self {
        Self { state: Mutex::default(), gate: Arc::new(Semaphore::new(SIDE_BY_SIDE)) }
    }

    /// Whether anything is under way: then [`Drainer::sync`] wants to be called once a second.
    pub fn is_busy(&self) -> bool {
        !self.lock().jobs.is_empty()
    }

    /// Looks after all requests of all nodes: to be called after every change of the world, and at least once a second
    /// while [`Drainer::is_busy`]. Never waits: the passes run beside it, and their outcome is taken in at a later call.
    /// Must be called inside a runtime.
    ///
    /// # Errors
    /// [`Error::Deposed`] when a pass has read another leader's epoch: nothing goes on, and this leadership is over.
    pub fn sync(&self, leader: &Leader, world: &World) -> Result<(), Error> {
        let now = world.now.unwrap_or_else(Timestamp::now);
        let mut state = self.lock();
        state.take_in(leader, now)?;
        state.forget_gone(leader, world);
        let around = LazyCell::new(|| {
            Arc::new(Surroundings {
                pools: world.pools.clone(),
                nodes: world.nodes.clone(),
                membership: Membership::new(&world.pools, &world.nodes),
            })
        });
        for (name, node) in &world.nodes {
            if state.is_due(name, node, now) {
                let work = Work {
                    door: leader.door.clone(),
                    epoch: leader.epoch.clone(),
                    threshold: leader.settings.drain_threshold,
                    detach: leader.settings.volume_detach,
                    namespace: leader.settings.namespace.clone(),
                    name: name.clone(),
                    around: Arc::clone(&around),
                };
                state.begin(work, node, leader, Arc::clone(&self.gate), now);
            }
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while it was held loses back-off times at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes in the passes that have ended.
    fn take_in(&mut self, leader: &Leader, now: Timestamp) -> Result<(), Error> {
        while let Some(ended) = self.running.try_join_next() {
            let (name, memory, Finished { report, result }) = match ended {
                Ok(ended) => ended,
                Err(error) => {
                    // A panic is a fault of ours; its node is looked at anew, the others never notice.
                    tracing::error!(%error, "a drain pass ended badly");
                    self.jobs.retain(|_, job| job.memory.is_some());
                    continue;
                }
            };
            if result.is_ok() {
                leader.metrics.drain_overdue(name.as_str(), report.overdue);
            }
            match result {
                Err(error) if error.stops_leading() => {
                    self.running.abort_all();
                    self.jobs.clear();
                    return Err(error);
                }
                Ok(()) if !report.waits => {
                    self.jobs.remove(&name);
                }
                result => {
                    if let Some(job) = self.jobs.get_mut(&name) {
                        job.ended(&name, memory, result.err(), now);
                    }
                }
            }
        }
        Ok(())
    }

    /// A node that is gone leaves nothing behind.
    fn forget_gone(&mut self, leader: &Leader, world: &World) {
        self.jobs.retain(|name, job| {
            let there = job.memory.is_none() || world.nodes.contains_key(name);
            if !there {
                leader.metrics.drain_overdue(name.as_str(), false);
            }
            there
        });
    }

    fn is_due(&self, name: &NodeName, node: &Arc<NodeView>, now: Timestamp) -> bool {
        match self.jobs.get(name) {
            None => decide::next(node, now) != decide::Next::Nothing,
            Some(job) => {
                job.memory.is_some() && (elapsed(job.last, now) >= job.wait || concerns(&job.seen) != concerns(node))
            }
        }
    }

    fn begin(&mut self, work: Work, node: &Arc<NodeView>, leader: &Leader, gate: Arc<Semaphore>, now: Timestamp) {
        let job = self.jobs.entry(work.name.clone()).or_insert_with(|| Job {
            memory: Some(Memory::default()),
            seen: Arc::clone(node),
            since: now,
            last: now,
            wait: Duration::ZERO,
            failures: 0,
        });
        job.seen = Arc::clone(node);
        let mut memory = job.memory.take().unwrap_or_default();
        let events = leader.events.clone();
        let asked = Instant::now();
        self.running.spawn(async move {
            // The gate is never closed: without a permit it would still be right to go on.
            let _permit = gate.acquire_owned().await.ok();
            let mut report = Report::default();
            let result = pass::pass(&work, &mut memory, now + asked.elapsed(), &mut report).await;
            if let Some(uid) = &report.uid {
                let on = Subject::Node(work.name.clone(), uid.clone());
                for notice in std::mem::take(&mut report.notices) {
                    events.publish(&on, notice.warning, notice.reason, notice.note).await;
                }
            }
            (work.name, memory, Finished { report, result })
        });
    }
}

impl Job {
    fn ended(&mut self, name: &NodeName, memory: Memory, error: Option<Error>, now: Timestamp) {
        self.memory = Some(memory);
        self.last = now;
        if let Some(error) = error {
            self.failures = self.failures.saturating_add(1);
            self.wait = answer::retry_after(self.failures, None, name.as_str());
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(node = %name, %error, cause, failures = self.failures, "a look at a drain failed");
        } else {
            self.failures = 0;
            let waited = Duration::try_from(now.duration_since(self.since)).unwrap_or_default();
            self.wait = (waited / 20).clamp(OFTEN, SELDOM);
        }
    }
}

/// The part of a Node that a request depends on.
fn concerns(node: &NodeView) -> impl PartialEq + '_ {
    (&node.uid, node.cordoned, &node.cordoned_at, &node.mark, &node.desired_drain, &node.applied_drain, node.ready)
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
