//! The daemon: brings one node to its desired config in a transaction, runs the actions, watches for drift, and says
//! what is true.
//!
//! | module | knows |
//! |---|---|
//! | `host` | the only door to the node's file system and processes |
//! | `journal` | what is on disk of mcx itself: state, journal, originals |
//! | `disk` | these together: what the rest of the daemon calls |
//! | `layout` | what a config means for paths and units of a node: pure |
//! | `plan` | the steps of an update: pure |
//! | `transaction` | carries the steps out, forward or back |
//! | `originals` | what stood at a path before mcx |
//! | `units` | how units are enabled |
//! | `check` | whether an update can be carried out |
//! | `compare` | what of the disk differs from a config: one comparison for check, drift and verify |
//! | `look` | a disk beside a config, for people: without the daemon's lock, nothing is written |
//! | `form` | state files that notice damage: pure |
//! | `watch` | inotify on what is managed |
//! | `machine` | the state machine: pure |
//! | `actions` | daemon-reload, reload, restart, reboot |
//! | `guard` | whether the node is still part of its cluster, and what becomes of it when not |
//! | `cluster` | the daemon's requests to the API server |
//! | `daemon` | the loop that ties these together |
//! | `folder` | the same for a root without a cluster |

pub mod actions;
mod check;
pub mod cluster;
pub mod compare;
pub mod daemon;
pub mod disk;
pub mod folder;
mod form;
pub mod guard;
pub mod host;
pub mod journal;
mod layout;
pub mod look;
pub mod machine;
mod originals;
pub mod plan;
mod transaction;
mod units;
mod watch;
