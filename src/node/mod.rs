//! The daemon: brings one node to its desired config in a transaction, runs the actions, watches for drift, and says
//! what is true.
//!
//! | module | knows |
//! |---|---|
//! | `host` | the only door to the node's file system and processes |
//! | `journal` | what is on disk of mcx itself: state, journal, originals |
//! | `plan` | the steps of an update: pure |
//! | `transaction` | carries the steps out, forward or back |
//! | `compare` | what of the disk differs from a config: one comparison for check, drift and verify |
//! | `watch` | inotify and the sweep |
//! | `machine` | the state machine: pure |
//! | `actions` | daemon-reload, reload, restart, reboot |
//! | `cluster` | the daemon's requests to the API server |
//! | `daemon` | the loop that ties these together |

pub mod compare;
pub mod disk;
pub mod host;
pub mod journal;
pub mod machine;
