//! The guard: what becomes of a node whose update has taken its kubelet, its runtime or its network away.
//!
//! After actions that can do this an update is closed only when the kubelet is healthy and the API server has answered
//! this node. The daemon sees to that while it runs. A unit of the host with a copy of this binary, left before the
//! first switch and gone with the end of the update, sees to it when no daemon comes.
//!
//! | file | knows |
//! |---|---|
//! | `rule` | when the proof is there, and when it has been waited for long enough: pure |
//! | `course` | what the guard of the host does about an open update: pure |
//! | `health` | how the kubelet and the API server are asked |
//! | `unit` | the unit and the binary on the host: how they come and go |
//! | `watch` | the process of the host's unit (thin) |
//!
//! Undoing is the transaction's business, and is the same code whoever begins it.

pub mod course;
pub mod health;
pub mod rule;
pub mod unit;
pub mod watch;
