//! Whether a node may be drained, and a schedulable one be cordoned for it: the order of the reads, and what each of them decides.
//!
//! The caller has read the Node; here the pools are read uncached, after it; then the caller writes under the
//! resourceVersion of that first read. In another order a slot that was given back in between would be taken for there.

use crate::api::protocol::{Slots, first_and_count};
use crate::api::{Epoch, MachineConfigPool, NodeName, PoolName};
use crate::pool::door::{self, Door, Error};
use crate::pool::limit::max_unavailable;
use crate::pool::membership::{Membership, Place, Pools, place};
use crate::pool::rollout::may_cordon;
use crate::pool::view::NodeView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What stands around the nodes, from the caches: where to look, and who else is unavailable.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// All pools.
    pub(super) pools: Pools,
    /// All nodes.
    pub(super) nodes: BTreeMap<NodeName, Arc<NodeView>>,
    /// Which node is in which pool.
    pub(super) membership: Membership,
}

/// Whether the node may be drained now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grant {
    /// It holds a slot and the limit has room.
    Granted,
    /// Not yet: why, for people.
    Waits(String),
}

/// Reads the pools uncached and decides. Another leader's epoch in one of them ends this leadership. For a node that is
/// cordoned already the limit is not counted: it is unavailable as it is.
pub(super) async fn ask(door: &Door, epoch: &Epoch, node: &NodeView, around: &Surroundings) -> Result<Grant, Error> {
    let home = match place(&around.pools, node) {
        Place::In(pool) => Some(pool),
        Place::Ambiguous(_) | Place::Unmanaged => None,
    };
    let mut holds = false;
    let mut counted = Ok(());
    for name in around.candidates(node, home.as_ref()) {
        let is_home = home.as_ref() == Some(&name);
        let Some(pool) = door.pool(&name).await? else { continue };
        let Some(slots) = door::slots(&pool) else {
            if is_home {
                return Ok(Grant::Waits(format!("pool {name} has no slots: nobody has taken it over yet")));
            }
            continue;
        };
        if slots.epoch != *epoch {
            return Err(Error::Deposed { pool: name });
        }
        holds |= slots.holds(&node.name, &node.uid);
        if is_home && !node.cordoned {
            counted = around.recount(node, &pool, &slots);
        }
    }
    Ok(match (holds, home, counted) {
        (false, Some(pool), _) => Grant::Waits(format!("no slot of pool {pool} is free for the node yet")),
        (false, None, _) => {
            Grant::Waits("the node is in no pool, so nothing hands it a slot: give it the label of one role".to_owned())
        }
        (true, _, Err(why)) => Grant::Waits(why),
        // In no pool any more: what it was handed by the pool that it came from is finished.
        (true, _, Ok(())) => Grant::Granted,
    })
}

impl Surroundings {
    /// Pools that may hold a slot of the node: the one that it is in, and those that it came from.
    fn candidates(&self, node: &NodeView, home: Option<&PoolName>) -> BTreeSet<PoolName> {
        self.pools
            .iter()
            .filter(|(_, pool)| door::slots(pool).is_some_and(|s| s.holds(&node.name, &node.uid)))
            .map(|(name, _)| name)
            .chain(home)
            .cloned()
            .collect()
    }

    /// Counts the limit of the pool again that the node is in: since the hand-out other nodes may have failed, the limit
    /// may have been lowered, or the node may have moved.
    fn recount(&self, node: &NodeView, pool: &MachineConfigPool, slots: &Slots) -> Result<(), String> {
        let names = self.membership.nodes_of(&pool.name().into());
        let members: Vec<&NodeView> = names.iter().filter_map(|n| self.nodes.get(n)).map(Arc::as_ref).collect();
        let limit = max_unavailable(pool.spec.max_unavailable.as_ref(), members.len())
            .map_err(|e| format!("pool {}: {e}", pool.name()))?;
        may_cordon(&node.name, &members, slots, limit).map_err(|others| {
            format!("pool {} allows {limit} unavailable: {}", pool.name(), first_and_count(&others, ", "))
        })
    }
}
