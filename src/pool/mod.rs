//! The controller: which nodes belong to which pool, which may have a new config now, how they are drained, what the
//! pool's status says. Decisions are pure functions of values; the loops that carry them out are thin.
//!
//! | module | knows |
//! |---|---|
//! | `view` | a Node, a pool and their surroundings as values |
//! | `membership` | which pool a node is in |
//! | `limit` | `maxUnavailable` |
//! | `rollout` | who gets a slot and a desired config, who gives a slot back |
//! | `takeover` | what a new leader does before anything else |
//! | `status` | a pool's counts and conditions |
//! | `drain` | drain and uncordon requests |
//! | `rendering` | sources to rendered configs: settle, publish, put back, collect |
//! | `policy` | the status of `cluster` |
//! | `shipped` | the objects that mcx creates when they are absent |
//! | `door` | every request to the API server |
//! | `leader` | who leads |
//! | `world` | the caches, and one consistent view of them |
//! | `controller` | the wiring of all this |

pub mod door;
pub mod drain;
pub mod limit;
pub mod membership;
pub mod metrics;
pub mod rollout;
#[cfg(test)]
pub(crate) mod scene;
pub mod status;
pub mod takeover;
pub mod view;
pub mod world;
