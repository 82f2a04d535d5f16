//! From the sources of a pool to one rendered config, or to findings that say what is wrong. Pure: no clock, no disk, no API.

pub mod finding;
pub mod ignition;
pub mod items;
pub mod load;
pub mod merge;
pub mod select;
pub mod validate;

use crate::api::{ConfigName, MachineConfig, MachineConfigPool};
use finding::Finding;
use items::Items;
use serde_json::Value;

/// What a pool's sources merge into.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// `rendered-<pool>-<32 hex digits>`: the hash of what a node would have.
    pub name: ConfigName,
    /// The merged Ignition config, explicit (file mode, `overwrite`), as JSON without nulls.
    pub config: Value,
    /// Names of the sources, in order of merge.
    pub sources: Vec<String>,
    /// What a node would have.
    pub items: Items,
    /// Items that a later source replaced: shown by preview and lint.
    pub shadowed: Vec<merge::Shadowed>,
}

/// The result for one pool.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The config, unless a finding is an error.
    pub rendered: Option<Rendered>,
    /// All findings, errors first, each with its object and field path.
    pub findings: Vec<Finding>,
    /// True when the pool selects no source at all (then `rendered` is none and there need be no other finding).
    pub no_sources: bool,
}

/// Renders `pool` from all `MachineConfig`s of a cluster or a folder, in any order, rendered ones included (they are left out).
pub fn render(_pool: &MachineConfigPool, _all: &[MachineConfig]) -> Outcome {
    todo!()
}

impl Rendered {
    /// The object for the API: name, label, annotation with the mcx version, owned by `pool` when it has a UID.
    pub fn to_object(&self, _pool: &MachineConfigPool) -> MachineConfig {
        todo!()
    }
}
