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
use std::borrow::Cow;
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
    let (laid, merged) = merged(pool, all);
    laid.written(pool).measured(pool, &merged).finished()
}

/// As [`render`], without looking at the size of the result: for measurements, and for pools beyond what an API server stores.
pub fn compose(pool: &MachineConfigPool, all: &[MachineConfig]) -> Outcome {
    let (laid, merged) = merged(pool, all);
    // There may be many thousands of values: their room is for the config.
    drop(merged);
    laid.written(pool).finished()
}

/// All pools and sources of an input, each source checked and decoded once, whatever is asked of it later.
#[derive(Debug)]
pub struct Survey<'a> {
    /// Of every source on its own, whether a pool selects it or not, and what [`render`] says of every pool. Findings of a
    /// source are there again for each pool that selects it.
    pub findings: Vec<Finding>,
    /// For lints.
    pub view: lint::View<'a>,
    decoder: Decoder<'a>,
}

/// Looks at all of `pools`, with all sources of a person, `given`, and those of mcx itself, `shipped`; rendered ones are left out.
pub fn survey<'a>(
    pools: &'a [MachineConfigPool],
    given: &'a [MachineConfig],
    shipped: &'a [MachineConfig],
) -> Survey<'a> {
    let mut decoder = Decoder::default();
    let mut check = |configs: &'a [MachineConfig]| -> Vec<Checked<'a>> {
        configs.iter().filter(|c| !c.is_rendered()).map(|config| Checked::new(config, &mut decoder)).collect()
    };
    let (mut sources, shipped) = (check(given), check(shipped));
    let given = sources.len();
    sources.extend(shipped);
    let mut findings: Vec<Finding> = sources.iter().flat_map(|s| s.findings.iter().cloned()).collect();
    let pools = pools.iter().map(|pool| {
        let selected = select::selected(pool, &sources, |source| source.config);
        let (laid, merged) = lay(pool, selected, &mut decoder, |source, _| Cow::Borrowed(source));
        findings.extend(laid.written(pool).measured(pool, &merged).finished().findings);
        lint::PoolView::new(pool, merged)
    });
    let pools = pools.collect();
    sources.truncate(given);
    Survey { view: lint::View::new(pools, sources), findings, decoder }
}

impl Survey<'_> {
    /// What is allowed in pools and sources and probably not meant, in a fixed order, nothing twice.
    pub fn lints(&mut self) -> Vec<Finding> {
        self.view.findings(&mut self.decoder)
    }
}

/// A source that was checked on its own.
#[derive(Debug, Clone)]
struct Checked<'a> {
    config: &'a MachineConfig,
    /// As findings name it.
    object: String,
    layer: Layer<'a>,
    findings: Vec<Finding>,
}

impl<'a> Checked<'a> {
    fn new(config: &'a MachineConfig, decoder: &mut Decoder<'a>) -> Self {
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

/// What a pool's sources come to.
#[derive(Default)]
struct Laid {
    /// What a node would have, and the names of the sources in order of merge; none beside a source that is refused.
    result: Option<(Items, Vec<String>)>,
    findings: Vec<Finding>,
    no_sources: bool,
}

impl Laid {
    /// With the config that says it.
    fn written(self, pool: &MachineConfigPool) -> Outcome {
        let rendered = self.result.map(|(items, sources)| {
            let name = format!("{}{}-{}", ConfigName::PREFIX, pool.name(), items.hash());
            Rendered { name: name.into(), config: items.to_config(), sources, items }
        });
        Outcome { rendered, findings: self.findings, no_sources: self.no_sources }
    }
}

/// The merged result, and the values it was made from, also when they are refused.
fn merged<'a>(pool: &MachineConfigPool, all: &'a [MachineConfig]) -> (Laid, Merged<'a>) {
    let mut decoder = Decoder::default();
    // Each is forgotten when it is laid: there may be many.
    lay(pool, select::sources(pool, all), &mut decoder, |config, decoder| Cow::Owned(Checked::new(config, decoder)))
}

/// The sources of a pool laid over each other, in the order in which they are given, each as `check` has it.
fn lay<'s, 'a, T>(
    pool: &MachineConfigPool,
    selected: Result<Vec<T>, select::SelectorError>,
    decoder: &mut Decoder<'a>,
    check: impl Fn(T, &mut Decoder<'a>) -> Cow<'s, Checked<'a>>,
) -> (Laid, Merged<'a>)
where
    'a: 's,
{
    let mut laid = Laid { findings: validate::pool(pool), ..Laid::default() };
    let found = &mut laid.findings;
    // A selector that cannot be read is among the findings of the pool.
    let Ok(selected) = selected else { return (laid, Merged::default()) };
    let pool_object = validate::pool_object(pool);
    if selected.is_empty() {
        found.push(rule::NO_SOURCES.finding(&pool_object, "spec.machineConfigSelector", "selects no source"));
        laid.no_sources = true;
        return (laid, Merged::default());
    }
    let mut all_of_them = Merged::default();
    let (mut names, mut refused) = (Vec::new(), BTreeSet::new());
    for source in selected {
        let source = check(source, decoder);
        found.extend_from_slice(&source.findings);
        all_of_them.lay(Source { object: source.object.clone(), at: "spec.config" }, &source.layer);
        names.push(source.config.name().to_owned());
        if source.is_refused() {
            refused.insert(source.object.clone());
        }
    }
    let mut together = Vec::new();
    validate::whole(&all_of_them, true, decoder, &mut together);
    if !refused.is_empty() {
        // What a refused source says is known only in part: nothing is guessed from what seems to be missing, and what was
        // found in it alone is not said again.
        let certain = |f: &Finding| !OF_ABSENCE.contains(&f.rule) && !refused.contains(f.object.as_str());
        together.retain(|f| (f.severity == Severity::Error || certain(f)) && !found.contains(f));
        found.append(&mut together);
        return (laid, all_of_them);
    }
    found.append(&mut together);
    laid.result = Some((all_of_them.items(decoder), names));
    (laid, all_of_them)
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
