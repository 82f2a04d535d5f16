//! Whether a schedulable node may be cordoned: the order of the reads, and what each of them decides.
//!
//! The caller has read the Node; here the pools are read uncached, after it; then the caller writes under the
//! resourceVersion of that first read. In another order a slot that was given back in between would be taken for there.

use crate::api::{Epoch, NodeName, PoolName};
use crate::pool::door::{self, Door, Error};
use crate::pool::view::NodeView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What stands around a node, from the caches: where to look, never what to believe.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    /// The pool that the node is in.
    pub(super) pool: Option<PoolName>,
    /// Pools whose `slots` may name the node: the one that it is in, and those that it came from.
    pub(super) pools: BTreeSet<PoolName>,
    /// All nodes of the pool that it is in.
    pub(super) members: BTreeMap<NodeName, Arc<NodeView>>,
}

/// Whether the node may be cordoned now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grant {
    /// It holds a slot and the limit has room.
    Granted,
    /// Not yet: why, for people.
    Waits(String),
}

/// Reads the pools uncached and decides. A pool of another leader's ends this leadership.
pub(super) async fn ask(door: &Door, epoch: &Epoch, node: &NodeView, around: &Surroundings) -> Result<Grant, Error> {
    let mut holds = false;
    let mut recount = None;
    for name in around.pools.iter().chain(&around.pool).collect::<BTreeSet<_>>() {
        let Some(pool) = door.pool(name).await? else { continue };
        let Some(slots) = door::slots(&pool) else {
            if around.pool.as_ref() == Some(name) {
                return Ok(Grant::Waits(format!("pool {name} has no slots yet")));
            }
            continue;
        };
        if slots.epoch != *epoch {
            return Err(Error::Deposed { pool: name.clone() });
        }
        holds |= slots.holds(&node.name, &node.uid);
        if around.pool.as_ref() == Some(name) {
            recount = Some(Ok::<(), String>(())); // RECOUNT
        }
    }
    if !holds {
        return Ok(Grant::Waits(match &around.pool {
            Some(pool) => format!("no slot of pool {pool} yet: as many nodes as it allows are unavailable"),
            None => "the node is in no pool, so nothing hands it a slot: give it a role label".to_owned(),
        }));
    }
    // In no pool any more: what it was handed in the pool that it came from is finished.
    Ok(match recount {
        Some(Err(why)) => Grant::Waits(why),
        Some(Ok(())) | None => Grant::Granted,
    })
}
