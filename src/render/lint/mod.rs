//! What is allowed and probably not meant, beyond what rendering says: for `mcx validate`. Pure.
//!
//! Rendering warns of what the controller would warn of, too; here is what takes a look at all objects together, or would
//! be noise beside every rendering. What is said of policies is `change::lint`'s, which is also the one entry to all lints.
//!
//! | module | knows |
//! |---|---|
//! | `order` | names that sort where their author would not have them; shadowed items |
//! | `texts` | placeholders and line ends in files, units, paths and keys |
//! | `placeholder` | what a placeholder in angle brackets looks like |
//! | `units` | units as files; drop-ins |
//! | `sizes` | sources too large for `kubectl apply`; `maxUnavailable` |

mod order;
pub(crate) mod placeholder;
mod sizes;
mod texts;
mod units;

use super::finding::Finding;
use super::items::UnitItem;
use super::layer::Layer;
use super::merge::{Merged, Place, Source};
use super::select;
use super::validate::Decoder;
use crate::api::{IGNITION_VERSION, IgnitionConfig, MachineConfig, MachineConfigPool};
use std::collections::{BTreeMap, BTreeSet};

/// All pools and sources, read once. What is invalid is left out: validation has said so.
pub struct View<'a> {
    pools: Vec<PoolView<'a>>,
    /// By name.
    sources: Vec<SourceView<'a>>,
}

/// A pool with what its sources merge into.
pub struct PoolView<'a> {
    /// The pool.
    pub pool: &'a MachineConfigPool,
    /// Its units, as a node would have them.
    pub units: BTreeMap<String, UnitItem>,
    merged: Merged<'a>,
}

/// A source with what it says.
struct SourceView<'a> {
    config: &'a MachineConfig,
    /// `MachineConfig/NAME`.
    object: String,
    layer: Layer<'a>,
}

impl<'a> View<'a> {
    /// Reads `configs`, rendered ones left out, and merges them for each of `pools`.
    pub fn new(pools: &'a [MachineConfigPool], configs: &'a [MachineConfig]) -> Self {
        let mut sources: Vec<SourceView> = configs.iter().filter(|c| !c.is_rendered()).map(SourceView::new).collect();
        sources.sort_by(|a, b| a.config.name().cmp(b.config.name()));
        let merged = |pool: &'a MachineConfigPool| {
            let mut merged = Merged::default();
            // A selector that cannot be read is a finding of validation.
            let selected = |s: &&SourceView| select::selects(pool, s.config) == Ok(true);
            for source in sources.iter().filter(selected) {
                merged.lay(Source { object: source.object.clone(), at: CONFIG }, &source.layer);
            }
            PoolView { pool, units: merged.unit_items(), merged }
        };
        Self { pools: pools.iter().map(merged).collect(), sources }
    }

    /// All that is to say of pools and sources, in a fixed order, nothing twice.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        order::numbers(self, &mut found);
        order::shadowed(self, &mut Decoder::default(), &mut found);
        texts::check(self, &mut found);
        units::check(self, &mut found);
        sizes::check(self, &mut found);
        // Names that validation refuses may hold line breaks.
        for finding in found.iter_mut().filter(|f| f.message.contains(char::is_control)) {
            finding.message = finding.message.replace(char::is_control, " ");
        }
        let mut said = BTreeSet::new();
        found.retain(|f| said.insert((f.rule, f.object.clone(), f.path.clone(), f.message.clone())));
        found
    }

    /// The pools, in the order in which they were given.
    pub fn pools(&self) -> &[PoolView<'a>] {
        &self.pools
    }

    /// Paths of the files of all sources, whether a pool selects them or not.
    pub fn files(&self) -> BTreeSet<&'a str> {
        self.sources.iter().flat_map(|s| s.layer.files.iter().map(|f| f.path)).collect()
    }

    /// Names of the units of all sources, whether a pool selects them or not.
    pub fn units(&self) -> BTreeSet<&'a str> {
        self.sources.iter().flat_map(|s| s.layer.units.iter().map(|u| u.name)).collect()
    }
}

impl PoolView<'_> {
    /// Paths of the pool's files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.merged.files.keys().copied()
    }

    /// Whether a source of the pool brings SSH keys.
    pub fn has_keys(&self) -> bool {
        !self.merged.keys.is_empty()
    }

    fn object_of(&self, place: Place) -> &str {
        &self.merged.sources[place.source].object
    }
}

impl<'a> SourceView<'a> {
    fn new(config: &'a MachineConfig) -> Self {
        let readable = |config: &&IgnitionConfig| config.version() == Some(IGNITION_VERSION);
        let layer = config.spec.config.as_ref().filter(readable).map(Layer::new).unwrap_or_default();
        Self { config, object: format!("MachineConfig/{}", config.name()), layer }
    }
}

/// Field path of a source's config.
const CONFIG: &str = "spec.config";

/// `spec.config.` and a field below it.
fn in_config(field: impl std::fmt::Display) -> String {
    format!("{CONFIG}.{field}")
}

#[cfg(test)]
mod tests;
