//! The controller: which nodes belong to which pool, which may have a new config now, how they are drained, what the
//! pool's status says. Decisions are pure functions of values; the loops that carry them out are thin.
//!
//! | module | knows |
//! |---|---|
//! | `view` | a Node, a pool and their surroundings as values |
//! | `membership` | which pool a node is in |
//! | `rollout` | who gets a slot and a desired config, who gives a slot back |
//! | `takeover` | what a new leader does before anything else |
//! | `status` | a pool's counts and conditions |
//! | `drain` | drain and uncordon requests |
//! | `rendering` | sources to rendered configs: settle, publish, put back, collect |
//! | `placement` | on which nodes a daemon pod is expected |
//! | `policy` | the status of `cluster` |
//! | `preview` | what a change would do, before it is applied |
//! | `shipped` | the objects that mcx creates when they are absent |
//! | `door` | every request to the API server |
//! | `leader` | who leads |
//! | `handover` | when a leader leaves the lead to another replica because of its own node |
//! | `cache` | following a watch |
//! | `world` | one consistent view of everything that is cached |
//! | `caches` | which kinds are cached, and what of them |
//! | `events`, `metrics` | what is told to people and to Prometheus |
//! | `backoff` | how long to wait after a failure |
//! | `controller` | the wiring of all this |

pub use crate::render::limit;

pub mod backoff;
pub mod cache;
pub mod caches;
pub mod controller;
pub mod door;
pub mod drain;
pub mod events;
#[cfg(test)]
pub(crate) mod fake_api;
pub mod handover;
pub mod leader;
pub mod membership;
pub mod metrics;
pub mod placement;
pub mod policy;
pub mod preview;
pub mod rendering;
pub mod rollout;
#[cfg(test)]
pub(crate) mod scene;
pub mod shipped;
pub mod status;
pub mod takeover;
pub mod view;
pub mod world;
