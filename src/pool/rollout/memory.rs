//! What a leader remembers between two looks at the world. All of it may be lost: then something is read, awaited or
//! written once more.

use super::decide::Fresh;
use super::harmless::Harmless;
use super::recovery::Recovery;
use crate::api::{MachineConfigPool, MachineConfigPoolStatus, NodeName, PoolName, Uid};
use crate::pool::door;
use crate::pool::view::NodeView;
use crate::pool::world::World;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Shortest time between two writes of a pool's status.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long an own write of a status is believed while the cache says something else.
const STATUS_ARRIVES: Duration = Duration::from_secs(2);

/// Of one leadership.
#[derive(Debug, Default)]
pub struct Memory {
    pub(super) recovery: Recovery,
    pub(super) harmless: Harmless,
    pub(super) statuses: Statuses,
    pub(super) own_pools: OwnPools,
    own_nodes: BTreeMap<NodeName, OwnNode>,
    /// Nodes for which an Event said that they are in no pool: true where several select them.
    pub(super) placeless: BTreeSet<(Uid, bool)>,
    /// Pools whose slots this leader has seen or written.
    led: BTreeSet<Uid>,
}

/// A Node as it was after an own write, as long as the cache still says what it said before.
#[derive(Debug)]
struct OwnNode {
    cached: Option<Arc<NodeView>>,
    written: NodeView,
}

impl Memory {
    /// Takes in what the caches say.
    pub(super) fn look_at(&mut self, world: &World) {
        self.own_nodes.retain(|name, own| world.nodes.get(name) == own.cached.as_ref());
        let mut held = BTreeSet::new();
        for pool in world.pools.values() {
            let slots = door::slots(&self.own_pools.newest(pool)).unwrap_or_default();
            held.extend(slots.nodes.into_iter().map(|h| (h.name, h.uid)));
        }
        let nodes = held.iter().filter_map(|(name, uid)| world.nodes.get(name).filter(|n| n.uid == *uid));
        let now = world.now.unwrap_or(Timestamp::UNIX_EPOCH);
        self.recovery.observe(nodes.map(Arc::as_ref), &world.leases, now);
    }

    /// Forgets what is gone.
    pub(super) fn forget_gone(&mut self, world: &World) {
        self.statuses.0.retain(|name, _| world.pools.contains_key(name));
        self.own_pools.0.retain(|name, _| world.pools.contains_key(name));
    }

    /// Notes that the slots of a pool are ours.
    pub(in crate::pool) fn lead(&mut self, pool: &Uid) {
        self.led.insert(pool.clone());
    }

    /// Whether this leader has seen slots on this very pool.
    pub(super) fn has_led(&self, pool: &MachineConfigPool) -> bool {
        pool.metadata.uid.as_deref().is_some_and(|uid| self.led.contains(uid))
    }

    /// The newest of what the cache says and what was read or written by ourselves.
    pub(super) fn own_pool(&mut self, cached: &Arc<MachineConfigPool>) -> Arc<MachineConfigPool> {
        self.own_pools.newest(cached)
    }

    /// Nodes that the caches do not show yet as we wrote them.
    pub(super) fn own_nodes(&self) -> Fresh {
        self.own_nodes.iter().map(|(name, own)| (name.clone(), Some(own.written.clone()))).collect()
    }

    pub(super) fn own_node_written(&mut self, world: &World, written: NodeView) {
        let cached = world.nodes.get(&written.name).cloned();
        self.own_nodes.insert(written.name.clone(), OwnNode { cached, written });
    }
}

/// Pools as they were after an own read or write, with the resourceVersion that the cache had then: as long as it has
/// not moved, ours is newer.
#[derive(Debug, Default)]
pub(super) struct OwnPools(BTreeMap<PoolName, (Option<String>, Arc<MachineConfigPool>)>);

impl OwnPools {
    pub(super) fn wrote(&mut self, cached: &MachineConfigPool, own: Arc<MachineConfigPool>) {
        self.0.insert(cached.name().into(), (cached.metadata.resource_version.clone(), own));
    }

    fn newest(&mut self, cached: &Arc<MachineConfigPool>) -> Arc<MachineConfigPool> {
        match self.0.get(cached.name()) {
            Some((then, own)) if *then == cached.metadata.resource_version => Arc::clone(own),
            _ => {
                self.0.remove(cached.name());
                Arc::clone(cached)
            }
        }
    }
}

/// Statuses that were written, and when.
#[derive(Debug, Default)]
pub(super) struct Statuses(BTreeMap<PoolName, (Instant, MachineConfigPoolStatus)>);

impl Statuses {
    /// What the status was last: what we wrote just now, or what the cache says.
    pub(super) fn previous<'a>(
        &'a self,
        pool: &PoolName,
        cached: Option<&'a MachineConfigPoolStatus>,
    ) -> Option<&'a MachineConfigPoolStatus> {
        match self.0.get(pool) {
            Some((at, written)) if at.elapsed() < STATUS_ARRIVES => Some(written),
            _ => cached,
        }
    }

    /// How long the next write must wait; none when it need not.
    pub(super) fn must_wait(&self, pool: &PoolName) -> Option<Duration> {
        let (at, _) = self.0.get(pool)?;
        STATUS_INTERVAL.checked_sub(at.elapsed()).filter(|wait| !wait.is_zero())
    }

    pub(super) fn wrote(&mut self, pool: &PoolName, status: MachineConfigPoolStatus) {
        self.0.insert(pool.clone(), (Instant::now(), status));
    }
}
