//! mcx: files, systemd units and SSH keys of Kubernetes nodes, from custom resources.
//!
//! One library serves the cluster controller, the daemon on each node and the offline commands, so that what a preview
//! says is what a node does. Imports point one way: `cmd` → `pool`, `node`, `review` → `change`
//! → `render` → `api`, `yaml`.
//!
//! | module | knows |
//! |---|---|
//! | [`api`] | the custom resources, and every name and value that two parts share |
//! | [`yaml`] | YAML as kubectl reads it |
//! | [`render`] | sources of a pool → one rendered config, or findings; Ignition 3.4.0 |
//! | [`change`] | what differs between two configs, and what that costs a node |
//! | [`pool`] | the controller: membership, rollout, drain, status |
//! | [`node`] | the daemon: transaction, drift, actions, reboot |
//! | [`review`] | all that can be said of an input at once |
//! | [`client`], [`serve`], [`logging`] | what controller and daemon share: the way to the API server, metrics, probes, logs |
//! | `spread` | the same work on many files, by several threads |
//! | [`cmd`] | the subcommands: flags in, library call, output out |

pub mod api;
pub mod change;
pub mod client;
pub mod cmd;
pub mod logging;
pub mod node;
pub mod pool;
pub mod render;
pub mod review;
pub mod serve;
mod spread;
pub mod yaml;
