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
//! | [`mode`] | permission bits, in octal or meant in octal |
//! | [`nearest`] | which known word was probably meant |
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
pub mod mode;
pub mod nearest;
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

use crate::api::{
    API_VERSION, ConfigName, IgnitionConfig, MachineConfig, MachineConfigPool, MachineConfigSpec, annotation, label,
};
use finding::{Finding, Severity};
use items::Items;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use layer::Layer;
use merge::{Merged, Source};
use std::collections::{BTreeMap, BTreeSet};
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
    pub config: IgnitionConfig,
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
    let (outcome, merged) = merged(pool, all);
    outcome.measured(pool, &merged).finished()
}

/// As [`render`], without looking at the size of the result: for measurements, and for pools beyond what an API server stores.
pub fn compose(pool: &MachineConfigPool, all: &[MachineConfig]) -> Outcome {
    merged(pool, all).0.finished()
}

/// What is found in all pools of an input and in all its sources.
#[derive(Debug)]
pub struct Survey {
    /// Of every source on its own, whether a pool selects it or not.
    pub sources: Vec<Finding>,
    /// Of every pool, in the order in which they were given. Findings of a source are in the outcome of each pool that selects it.
    pub outcomes: Vec<Outcome>,
}

/// Renders all of `pools` from `all`, as [`render`] does. Each source is checked and decoded once, however many pools select
/// it, and also when none does; rendered ones are left out.
pub fn survey(pools: &[MachineConfigPool], all: &[&MachineConfig]) -> Survey {
    let mut decoder = Decoder::default();
    let checked: Vec<Checked> =
        all.iter().filter(|c| !c.is_rendered()).map(|config| Checked::new(config, &mut decoder)).collect();
    let outcomes = pools.iter().map(|pool| {
        let (outcome, merged) = laid(pool, select::selected(pool, &checked, |source| source.config), &mut decoder);
        outcome.measured(pool, &merged).finished()
    });
    Survey { outcomes: outcomes.collect(), sources: checked.into_iter().flat_map(|c| c.findings).collect() }
}

/// A source that was checked on its own.
struct Checked<'a> {
    config: &'a MachineConfig,
    /// As findings name it.
    object: String,
    layer: Layer<'a>,
    findings: Vec<Finding>,
}

impl<'a> Checked<'a> {
    fn new(config: &'a MachineConfig, decoder: &mut Decoder) -> Self {
        let object = format!("MachineConfig/{}", config.name());
        let mut findings = Vec::new();
        let layer = validate::source(config, &object, decoder, &mut findings);
        Self { config, object, layer, findings }
    }

    fn is_refused(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Error)
    }
}

impl Outcome {
    /// With what there is to say of the size of the result.
    fn measured(mut self, pool: &MachineConfigPool, merged: &Merged) -> Self {
        if let Some(rendered) = &self.rendered {
            let size = size::of(&rendered.to_object(pool));
            let weights = || merged.weights(&rendered.items);
            self.findings.extend(size::check(size, weights, &validate::pool_object(pool)));
        }
        self
    }

    /// Errors first, else in the order in which they were found; no config beside an error.
    fn finished(mut self) -> Self {
        self.findings.sort_by_key(|f| f.severity);
        if self.findings.first().is_some_and(|f| f.severity == Severity::Error) {
            self.rendered = None;
        }
        self
    }
}

/// Warnings of the merged whole that say what no source says: beside a source that is refused nobody can know.
static OF_ABSENCE: [&str; 2] = [rule::FILE_EMPTY.id, rule::UNIT_INSTALL.id];

/// The merged result, and the values it was made from.
fn merged<'a>(pool: &MachineConfigPool, all: &'a [MachineConfig]) -> (Outcome, Merged<'a>) {
    let mut decoder = Decoder::default();
    match select::sources(pool, all) {
        Ok(sources) => {
            let checked: Vec<Checked> = sources.into_iter().map(|c| Checked::new(c, &mut decoder)).collect();
            laid(pool, Ok(checked.iter().collect()), &mut decoder)
        }
        Err(error) => laid(pool, Err(error), &mut decoder),
    }
}

/// The sources of a pool laid over each other, in the order in which they are given.
fn laid<'a>(
    pool: &MachineConfigPool,
    selected: Result<Vec<&Checked<'a>>, select::SelectorError>,
    decoder: &mut Decoder,
) -> (Outcome, Merged<'a>) {
    let mut outcome = Outcome { rendered: None, findings: validate::pool(pool), no_sources: false };
    let found = &mut outcome.findings;
    // A selector that cannot be read is among the findings of the pool.
    let Ok(sources) = selected else { return (outcome, Merged::default()) };
    let pool_object = validate::pool_object(pool);
    if sources.is_empty() {
        found.push(rule::NO_SOURCES.finding(&pool_object, "spec.machineConfigSelector", "selects no source"));
        outcome.no_sources = true;
        return (outcome, Merged::default());
    }
    let mut all_of_them = Merged::default();
    for source in &sources {
        found.extend_from_slice(&source.findings);
        all_of_them.lay(Source { object: source.object.clone(), at: "spec.config" }, &source.layer);
    }
    let refused: BTreeSet<&str> = sources.iter().filter(|s| s.is_refused()).map(|s| s.object.as_str()).collect();
    let mut together = Vec::new();
    validate::whole(&all_of_them, true, decoder, &mut together);
    if !refused.is_empty() {
        // What a refused source says is known only in part: nothing is guessed from what seems to be missing, and what was
        // found in it alone is not said again.
        let certain = |f: &Finding| !OF_ABSENCE.contains(&f.rule) && !refused.contains(f.object.as_str());
        together.retain(|f| (f.severity == Severity::Error || certain(f)) && !found.contains(f));
        found.append(&mut together);
        return (outcome, Merged::default());
    }
    found.append(&mut together);
    let items = all_of_them.items(decoder);
    let config = items.to_config();
    let name = format!("{}{}-{}", ConfigName::PREFIX, pool.name(), items.hash());
    outcome.rendered = Some(Rendered {
        name: name.into(),
        config,
        sources: sources.iter().map(|s| s.config.name().to_owned()).collect(),
        shadowed: all_of_them.shadowed(decoder),
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
mod properties;
#[cfg(test)]
mod tests;
