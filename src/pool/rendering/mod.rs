//! From the sources of each pool to its target: when to render, what came of it, and (in `publish`) writing it.
//!
//! Every replica observes, so that a new leader knows at once how each pool stands and what every config in use looked
//! like. Only the leader writes.
//!
//! What is compared is what a rendering is made from: selectors, and UID and generation of each selected source. So
//! writes of ours, or of another pool's sources, start nothing.

pub mod collect;
mod publish;
pub mod settle;

use super::caches::{Objects, Unreadable};
use super::world::{Rendering, World};
use crate::api::machine_config_pool::ConfigurationReference;
use crate::api::{ConfigName, MachineConfig, MachineConfigPool, PoolName, label};
use crate::render::finding::{Finding, Severity};
use crate::render::{self, Outcome, Rendered, select};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use settle::Settle;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A write that fails for less than this long is not shown as a condition: conditions do not blink.
const WRITE_GRACE: Duration = Duration::from_secs(10);

/// Renders; replaced in tests.
type Render = fn(&MachineConfigPool, &[MachineConfig]) -> Outcome;

/// All pools' renderings.
#[derive(Debug)]
pub struct Renderer {
    quiet: Duration,
    limit: Duration,
    render: Render,
    pools: BTreeMap<PoolName, PoolRendering>,
    /// Rendered configs in use as they were first seen, to be put back when edited or deleted.
    kept: BTreeMap<ConfigName, Arc<MachineConfig>>,
    /// resourceVersions of rendered configs that were found right.
    verified: BTreeMap<ConfigName, String>,
    /// resourceVersions of rendered configs in use that are not what their name says and were seen in no other form.
    distrusted: BTreeMap<ConfigName, String>,
    /// Sources that no pool selects and that were told about, by name and UID.
    told: BTreeSet<(String, String)>,
    /// When unused rendered configs were last looked for.
    collected: Option<Instant>,
}

/// One pool's.
#[derive(Debug)]
struct PoolRendering {
    inputs: Inputs,
    /// A burst of edits that is not over.
    settle: Option<Settle>,
    /// Of the inputs at the end of the last burst.
    outcome: Outcome,
    /// Findings on objects that could not even be read.
    unreadable: Vec<Finding>,
    /// What this leader last wrote to `spec.configuration`, or found right there.
    target: Option<ConfigurationReference>,
    write_error: Option<String>,
    failing_since: Option<Instant>,
    /// The errors that an Event told about.
    told: Vec<String>,
}

/// What a rendering is made from.
#[derive(Debug, Clone, PartialEq)]
struct Inputs {
    pool: Option<String>,
    selector: Option<LabelSelector>,
    nodes: Option<LabelSelector>,
    sources: Vec<(String, Option<String>, Option<i64>)>,
    unreadable: Vec<(String, String)>,
}

impl Renderer {
    /// `quiet` and `limit`: see [`settle`].
    pub fn new(quiet: Duration, limit: Duration) -> Self {
        Self {
            quiet,
            limit,
            render: render::render,
            pools: BTreeMap::new(),
            kept: BTreeMap::new(),
            verified: BTreeMap::new(),
            distrusted: BTreeMap::new(),
            told: BTreeSet::new(),
            collected: None,
        }
    }

    /// A new leader trusts what is in the API more than what it wrote in an earlier term.
    pub fn begin_term(&mut self) {
        for pool in self.pools.values_mut() {
            pool.target = None;
            pool.write_error = None;
            pool.failing_since = None;
        }
    }

    /// Takes note of what has changed, renders what has settled, and adds to `world` how each pool stands.
    pub fn observe(&mut self, world: &mut World, objects: &Objects, now: Instant) -> Observed {
        let mut observed = Observed::default();
        self.pools.retain(|name, _| world.pools.contains_key(name));
        for (name, pool) in &world.pools {
            let inputs = Inputs::new(pool, objects);
            match self.pools.get_mut(name) {
                Some(known) if known.inputs != inputs => {
                    known.inputs = inputs;
                    known.settle.get_or_insert_with(|| Settle::begin(now)).again(now);
                }
                Some(_) => {}
                None => {
                    // Just started: render at once, so that nothing is said that is not so; write when it has settled.
                    let mut new = PoolRendering::new(inputs);
                    new.render(self.render, pool, objects);
                    observed.count(&new);
                    if !new.is_published(pool) {
                        new.settle = Some(Settle::begin(now));
                    }
                    self.pools.insert(name.clone(), new);
                    continue;
                }
            }
            if let Some(known) = self.pools.get_mut(name)
                && known.settle.is_some_and(|s| s.due(self.quiet, self.limit) <= now)
            {
                known.render(self.render, pool, objects);
                known.settle = None;
                observed.count(known);
            }
        }
        self.keep(world, objects);
        self.show(world, now);
        observed
    }

    /// When the next burst is over.
    pub fn next_due(&self) -> Option<Instant> {
        self.pools.values().filter_map(|p| Some(p.settle?.due(self.quiet, self.limit))).min()
    }

    /// Sources that no pool selects. None is named while a pool's selector cannot be read.
    pub fn unselected(world: &World, objects: &Objects) -> Vec<Arc<MachineConfig>> {
        let sources = objects.configs.values().flatten().filter(|c| !c.is_rendered());
        let selected = |source: &MachineConfig| {
            let labels = source.metadata.labels.clone().unwrap_or_default();
            world.pools.values().any(|pool| selects(pool, &labels))
        };
        sources.filter(|source| !selected(source)).cloned().collect()
    }

    /// Adds how each pool stands, and the target that this leader has written: a pool's cache may be late, and an
    /// edited target must not be handed out before it is put back.
    fn show(&self, world: &mut World, now: Instant) {
        for (name, rendering) in &self.pools {
            let Some(pool) = world.pools.get_mut(name) else { continue };
            if let Some(target) = &rendering.target
                && !same_configuration(pool, target)
            {
                Arc::make_mut(pool).spec.configuration = Some(target.clone());
            }
            world.rendering.insert(name.clone(), rendering.state(pool, now));
        }
    }

    /// Remembers rendered configs in use as they were first seen.
    fn keep(&mut self, world: &World, objects: &Objects) {
        let nodes = world.nodes.values().map(AsRef::as_ref);
        let mut needed = collect::referenced(world.pools.values().map(AsRef::as_ref), nodes);
        needed.extend(self.pools.values().filter_map(|p| p.target.as_ref()?.name.as_deref()).map(ConfigName::from));
        self.kept.retain(|name, _| needed.contains(name));
        self.verified.retain(|name, _| world.rendered.contains(name));
        self.distrusted.retain(|name, _| needed.contains(name));
        for name in needed.into_iter().filter(|name| !self.kept.contains_key(name)).collect::<Vec<_>>() {
            let Some(Ok(config)) = objects.configs.get(name.as_str()) else { continue };
            let version = config.metadata.resource_version.clone().unwrap_or_default();
            if self.distrusted.get(&name) == Some(&version) {
                continue;
            }
            if config.is_rendered() && publish::says_what_its_name_says(config) {
                self.kept.insert(name, Arc::clone(config));
            } else {
                tracing::warn!(config = %name, "a rendered config in use is not what its name says, and no copy of it is known");
                self.distrusted.insert(name, version);
            }
        }
    }
}

/// What [`Renderer::observe`] did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// Renderings that gave a config.
    pub rendered: u32,
    /// Renderings that did not.
    pub refused: u32,
}

impl Observed {
    fn count(&mut self, pool: &PoolRendering) {
        if pool.rendered().is_some() {
            self.rendered += 1;
        } else {
            self.refused += 1;
        }
    }
}

impl PoolRendering {
    fn new(inputs: Inputs) -> Self {
        Self {
            inputs,
            settle: None,
            outcome: Outcome { rendered: None, findings: Vec::new(), no_sources: false },
            unreadable: Vec::new(),
            target: None,
            write_error: None,
            failing_since: None,
            told: Vec::new(),
        }
    }

    fn render(&mut self, render: Render, pool: &MachineConfigPool, objects: &Objects) {
        let sources: Vec<MachineConfig> = selected(pool, objects).map(|s| MachineConfig::clone(s)).collect();
        self.outcome = render(pool, &sources);
        self.unreadable = unreadable(pool, objects).map(|(name, why)| finding(name, why)).collect();
    }

    /// The config that the pool should have; none while something is refused.
    fn rendered(&self) -> Option<&Rendered> {
        self.outcome.rendered.as_ref().filter(|_| self.unreadable.is_empty())
    }

    /// Whether the pool's target is what the sources merge into, or will not follow them for now.
    fn is_published(&self, pool: &MachineConfigPool) -> bool {
        self.rendered().is_none_or(|r| pool.target() == Some(r.name.as_str()))
    }

    fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.unreadable.iter().chain(&self.outcome.findings).filter(|f| f.severity == Severity::Error)
    }

    fn state(&self, pool: &MachineConfigPool, now: Instant) -> Rendering {
        let grace_over = self.failing_since.is_some_and(|since| now.duration_since(since) >= WRITE_GRACE);
        Rendering {
            pending: self.settle.is_some() || !self.is_published(pool),
            errors: self.errors().cloned().collect(),
            no_sources: self.outcome.no_sources && self.unreadable.is_empty(),
            write_error: self.write_error.clone().filter(|_| grace_over),
        }
    }
}

impl Inputs {
    fn new(pool: &MachineConfigPool, objects: &Objects) -> Self {
        Self {
            pool: pool.metadata.uid.clone(),
            selector: pool.spec.machine_config_selector.clone(),
            nodes: pool.spec.node_selector.clone(),
            sources: selected(pool, objects)
                .map(|s| (s.name().to_owned(), s.metadata.uid.clone(), s.metadata.generation))
                .collect(),
            unreadable: unreadable(pool, objects).map(|(name, why)| (name.clone(), why.error.clone())).collect(),
        }
    }
}

/// The sources of a pool, in the order of their names. With a selector that cannot be read: all, for the renderer to say so.
fn selected<'a>(pool: &MachineConfigPool, objects: &'a Objects) -> impl Iterator<Item = &'a Arc<MachineConfig>> {
    let none = BTreeMap::new();
    objects
        .configs
        .values()
        .flatten()
        .filter(move |source| !source.is_rendered() && selects(pool, source.metadata.labels.as_ref().unwrap_or(&none)))
}

/// Objects that the pool selects, or so it seems, and that cannot be read. One with our label is a rendered config.
fn unreadable<'a>(
    pool: &MachineConfigPool,
    objects: &'a Objects,
) -> impl Iterator<Item = (&'a String, &'a Unreadable)> {
    let broken = objects.configs.iter().filter_map(|(name, config)| Some((name, config.as_ref().err()?)));
    broken.filter(|(_, why)| !why.labels.contains_key(label::RENDERED) && selects(pool, &why.labels))
}

fn selects(pool: &MachineConfigPool, labels: &BTreeMap<String, String>) -> bool {
    select::matches(pool.spec.machine_config_selector.as_ref(), labels).unwrap_or(true)
}

fn finding(name: &str, why: &Unreadable) -> Finding {
    Finding {
        severity: Severity::Error,
        rule: "unreadable-object",
        object: format!("MachineConfig/{name}"),
        path: String::new(),
        file: None,
        line: None,
        column: None,
        message: format!("cannot be read: {}", why.error),
        help: "correct the object, or delete it".to_owned(),
    }
}

/// Whether `spec.configuration` names this config and these sources.
fn same_configuration(pool: &MachineConfigPool, wanted: &ConfigurationReference) -> bool {
    pool.spec.configuration.as_ref() == Some(wanted)
}

#[cfg(test)]
mod tests;
