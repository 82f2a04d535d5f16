//! Drain and uncordon requests: cordon with our mark, evict, wait, fulfil; or lift the cordon that is ours.

use super::door::Error;
use super::world::{Leader, World};

/// Looks after all requests of all nodes: called after every change of the world and at least once a second while one
/// is under way. Long waits live in the API (`drainStatus`), not in memory; evictions run concurrently, bounded.
pub async fn sync(_leader: &Leader, _world: &World) -> Result<(), Error> {
    todo!()
}
