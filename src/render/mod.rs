//! From the sources of a pool to one rendered config, or to findings that say what is wrong. Pure: no clock, no disk, no API.
//!
//! | module | knows |
//! |---|---|
//! | [`load`] | texts → objects, with the places of their fields |
//! | [`select`] | label selectors, and the sources of a pool |
//! | [`validate`] | what is refused and what is warned of |
//! | [`merge`] | sources laid over each other |
//! | [`items`] | what a config means for a node; its canonical form and hash |
//! | [`stored`] | a node's own copy of a config, read back by its shape |
//! | [`item`] | items by the names that people use, and their bytes |
//! | [`story`] | which sources speak of an item, and which wins |
//! | [`state`] | what an input says that the nodes of each pool have |
//! | [`size`] | what the API server can store |
//! | [`author`] | from plain files to the source that a person would write |
//! | [`limit`] | `maxUnavailable` |
//! | [`lint`] | what is allowed and probably not meant: for `mcx validate` |
//! | [`rule`], [`finding`], [`path`] | what is said about it, and where |
//! | [`ignition`] | the specification |
//! | [`systemd`] | unit files as systemd reads them |

pub mod author;
pub mod finding;
pub mod ignition;
pub mod item;
pub mod items;
mod layer;
pub mod limit;
pub mod lint;
pub mod load;
pub mod merge;
pub mod path;
pub mod rule;
pub mod select;
mod shape;
pub mod size;
pub mod state;
pub mod stored;
pub mod story;
pub mod systemd;
pub mod validate;

use crate::api::{API_VERSION, ConfigName, MachineConfig, MachineConfigPool, MachineConfigSpec, annotation, label};
use finding::{Finding, Severity};
use items::Items;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use merge::{Merged, Source};
use serde_json::Value;
use std::collections::BTreeMap;
use validate::Decoder;

/// What a pool's sources merge into.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// `rendered-<pool>-<32 hex digits>`: the hash of what a node would have.
    pub name: ConfigName,
    /// The merged Ignition config, explicit (file mode, `overwrite`), as JSON without nulls.
    ///
    /// Its bytes follow from the set of sources, whatever their order. Contents keep the encoding that their source gives
    /// them, so two sets of sources may have one name and other bytes: an object of that name that is there already is
    /// equal by meaning ([`Items::from_config`] reads the same items from it) and stays as it is.
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
    /// True when the pool selects no source at all (then `rendered` is none, and a finding says so, too).
    pub no_sources: bool,
}

/// Renders `pool` from all `MachineConfig`s of a cluster or a folder, in any order, rendered ones included (they are left out).
pub fn render(pool: &MachineConfigPool, all: &[MachineConfig]) -> Outcome {
    let (mut outcome, merged) = merged(pool, all);
    if let Some(rendered) = &outcome.rendered {
        let size = size::of(&rendered.to_object(pool));
        if let Some(finding) = size::check(size, || merged.weights(&rendered.items), &validate::pool_object(pool)) {
            outcome.findings.push(finding);
        }
    }
    outcome.finished()
}

/// As [`render`], without looking at the size of the result: for measurements, and for pools beyond what an API server stores.
pub fn compose(pool: &MachineConfigPool, all: &[MachineConfig]) -> Outcome {
    merged(pool, all).0.finished()
}

impl Outcome {
    /// Errors first, else in the order in which they were found; no config beside an error.
    fn finished(mut self) -> Self {
        self.findings.sort_by_key(|f| f.severity);
        if self.findings.first().is_some_and(|f| f.severity == Severity::Error) {
            self.rendered = None;
        }
        self
    }
}

/// The merged result, and the values it was made from.
fn merged<'a>(pool: &MachineConfigPool, all: &'a [MachineConfig]) -> (Outcome, Merged<'a>) {
    let mut outcome = Outcome { rendered: None, findings: validate::pool(pool), no_sources: false };
    let found = &mut outcome.findings;
    // A selector that cannot be read is among the findings of the pool.
    let Ok(sources) = select::sources(pool, all) else { return (outcome, Merged::default()) };
    let pool_object = validate::pool_object(pool);
    if sources.is_empty() {
        found.push(rule::NO_SOURCES.finding(&pool_object, "spec.machineConfigSelector", "selects no source"));
        outcome.no_sources = true;
        return (outcome, Merged::default());
    }
    let mut decoder = Decoder::default();
    let mut all_of_them = Merged::default();
    for config in &sources {
        let object = format!("MachineConfig/{}", config.name());
        let layer = validate::source(config, &object, &mut decoder, found);
        all_of_them.lay(Source { object, at: "spec.config" }, &layer);
    }
    if found.iter().any(|f| f.severity == Severity::Error) {
        return (outcome, Merged::default());
    }
    validate::whole(&all_of_them, true, &mut decoder, found);
    let items = all_of_them.items(&mut decoder);
    let config = items.to_config();
    if found.iter().all(|f| f.severity == Severity::Warning) {
        found.extend(merge::specification(&config, &pool_object));
    }
    let name = format!("{}{}-{}", ConfigName::PREFIX, pool.name(), items.hash());
    outcome.rendered = Some(Rendered {
        name: name.into(),
        config,
        sources: sources.iter().map(|s| s.name().to_owned()).collect(),
        shadowed: all_of_them.shadowed(&mut decoder),
        items,
    });
    (outcome, all_of_them)
}

impl Rendered {
    /// The object for the API: name, label, annotation with the mcx version, owned by `pool` when it has a UID.
    pub fn to_object(&self, pool: &MachineConfigPool) -> MachineConfig {
        let pair = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let owner = pool.metadata.uid.as_ref().filter(|uid| !uid.is_empty()).map(|uid| OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: "MachineConfigPool".to_owned(),
            name: pool.name().to_owned(),
            uid: uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        });
        MachineConfig {
            metadata: ObjectMeta {
                name: Some(self.name.to_string()),
                labels: Some(pair(label::RENDERED, pool.name())),
                annotations: Some(pair(annotation::GENERATED_BY, env!("CARGO_PKG_VERSION"))),
                owner_references: owner.map(|o| vec![o]),
                ..ObjectMeta::default()
            },
            spec: MachineConfigSpec { config: Some(self.config.clone()), kernel_arguments: None },
        }
    }
}

#[cfg(test)]
mod tests;
