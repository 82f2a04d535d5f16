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

use super::Checked;
use super::finding::Finding;
use super::items::UnitItem;
use super::merge::{Merged, Place};
use super::validate::Decoder;
use crate::api::MachineConfigPool;
use std::collections::{BTreeMap, BTreeSet};

/// All pools and sources, as [`super::survey`] reads them. What is invalid is left out: validation has said so.
#[derive(Debug)]
pub struct View<'a> {
    pools: Vec<PoolView<'a>>,
    /// Those of a person, by name.
    sources: Vec<Checked<'a>>,
}

/// A pool with what its sources merge into.
#[derive(Debug)]
pub struct PoolView<'a> {
    /// The pool.
    pub pool: &'a MachineConfigPool,
    /// Its units, as a node would have them.
    pub units: BTreeMap<String, UnitItem>,
    merged: Merged<'a>,
}

impl<'a> View<'a> {
    pub(super) fn new(pools: Vec<PoolView<'a>>, mut sources: Vec<Checked<'a>>) -> Self {
        sources.sort_by(|a, b| a.config.name().cmp(b.config.name()));
        Self { pools, sources }
    }

    /// All that is to say of pools and sources, in a fixed order, nothing twice. `decoder` has seen their contents.
    pub(super) fn findings(&self, decoder: &mut Decoder<'a>) -> Vec<Finding> {
        let mut found = Vec::new();
        order::numbers(self, &mut found);
        order::shadowed(self, decoder, &mut found);
        texts::check(self, decoder, &mut found);
        units::check(self, &mut found);
        sizes::check(self, &mut found);
        // Names that validation refuses may hold line breaks.
        for finding in found.iter_mut().filter(|f| f.message.contains(char::is_control)) {
            finding.message = finding.message.replace(char::is_control, " ");
        }
        let mut said = BTreeSet::new();
        let is_new: Vec<bool> = found.iter().map(|f| said.insert((f.rule, &f.object, &f.path, &f.message))).collect();
        found.into_iter().zip(is_new).filter_map(|(finding, is_new)| is_new.then_some(finding)).collect()
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

impl<'a> PoolView<'a> {
    pub(super) fn new(pool: &'a MachineConfigPool, merged: Merged<'a>) -> Self {
        Self { pool, units: merged.unit_items(), merged }
    }

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

/// Field path of a source's config.
const CONFIG: &str = "spec.config";

/// `spec.config.` and a field below it.
fn in_config(field: impl std::fmt::Display) -> String {
    format!("{CONFIG}.{field}")
}

#[cfg(test)]
mod tests;
