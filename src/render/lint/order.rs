//! The order of sources is the byte order of their names: where that surprises, and which items it hides.

use super::{PoolView, View};
use crate::api::{MachineConfig, label};
use crate::render::finding::Finding;
use crate::render::merge::Shadowed;
use crate::render::validate::{Decoder, quoted};
use crate::render::{rule, select};
use std::collections::{BTreeMap, BTreeSet};

/// Names whose numbers say another order than their bytes: `100-` sorts before `99-`, and `5-` behind `10-`.
///
/// Blamed is the name whose number has another width than most in its pool.
pub(super) fn numbers(view: &View, found: &mut Vec<Finding>) {
    for pool in view.pools() {
        // Those of mcx itself are nobody's slip, and no measure.
        let selected = view.sources.iter().filter(|s| select::selects(pool.pool, s.config) == Ok(true));
        let names: Vec<&str> = selected.map(|s| s.config.name()).collect();
        let numbered: Vec<(&str, &str, u64)> = names.iter().filter_map(|n| Some((*n, digits(n), number(n)?))).collect();
        let mut widths: BTreeMap<usize, usize> = BTreeMap::new();
        for (_, digits, _) in &numbered {
            *widths.entry(digits.len()).or_default() += 1;
        }
        // Of equally many the shorter ones.
        let Some(usual) = widths.iter().rev().max_by_key(|(_, count)| **count).map(|(width, _)| *width) else {
            continue;
        };
        let (others, odd): (Vec<_>, Vec<_>) = numbered.into_iter().partition(|(_, digits, _)| digits.len() == usual);
        for (name, _, number) in odd {
            let turned = |(other, _, its): &&(&str, &str, u64)| (name < *other) != (number < *its) && number != *its;
            let Some((other, ..)) = others.iter().find(turned) else { continue };
            let message = if name < *other {
                format!("{} is laid before {}, which wins over it", quoted(name), quoted(other))
            } else {
                format!("{} is laid behind {} and wins over it", quoted(name), quoted(other))
            };
            let mut finding = rule::SOURCE_ORDER.finding(&format!("MachineConfig/{name}"), "metadata.name", message);
            finding.help = format!("names are compared byte by byte: write all numbers with {usual} digits");
            // Another pool may have it beside another name: it is one slip.
            if !found.iter().any(|f| f.rule == finding.rule && f.object == finding.object) {
                found.push(finding);
            }
        }
    }
}

/// Items that a later source hides, and sources of a custom pool that lose to those of `worker` by their name.
pub(super) fn shadowed<'a>(view: &View<'a>, decoder: &mut Decoder<'a>, found: &mut Vec<Finding>) {
    let mut pools_of: BTreeMap<(String, String, String, String), Vec<&str>> = BTreeMap::new();
    let mut lost = BTreeSet::new();
    let of_worker = sources_of_worker(view);
    for pool in view.pools() {
        for Shadowed { item, winner, loser, path } in pool.merged.shadowed(decoder) {
            if is_turned(view, pool, &loser, &winner) {
                lost.insert((loser.clone(), winner.clone(), pool.pool.name()));
            }
            if is_custom(pool) && of_worker.contains(&loser) && !of_worker.contains(&winner) {
                // To lay one over the other is what a custom pool is for.
                continue;
            }
            pools_of.entry((loser, path, item, winner)).or_default().push(pool.pool.name());
        }
    }
    for (loser, winner, pool) in lost {
        let message = format!(
            "{} is for pool {pool} and is laid before {} of worker, which wins over it there",
            quoted(&loser),
            quoted(&winner)
        );
        let mut finding = rule::SOURCE_ORDER.finding(&format!("MachineConfig/{loser}"), "metadata.name", message);
        "names are compared byte by byte: give it a higher number than worker's source".clone_into(&mut finding.help);
        found.push(finding);
    }
    for ((loser, path, item, winner), pools) in pools_of {
        let many = if pools.len() > 1 { "pools" } else { "pool" };
        let message = format!("{item} is hidden by MachineConfig/{winner} in {many} {}", pools.join(", "));
        found.push(rule::ITEM_SHADOWED.finding(&format!("MachineConfig/{loser}"), path, message));
    }
}

/// Whether `loser` is a custom pool's own source, `winner` one of worker, and nothing but the names after one and the same
/// number puts them in this order.
fn is_turned(view: &View, pool: &PoolView, loser: &str, winner: &str) -> bool {
    let role = |name: &str| {
        let at = view.sources.binary_search_by(|s| s.config.name().cmp(name)).ok()?;
        source_role(view.sources.get(at)?.config)
    };
    is_custom(pool)
        && role(loser) == Some(pool.pool.name())
        && role(winner) == Some(label::WORKER)
        && number(loser).is_some()
        && digits(loser) == digits(winner)
}

fn is_custom(pool: &PoolView) -> bool {
    ![label::MASTER, label::WORKER].contains(&pool.pool.name())
}

/// Names of the sources that worker takes, and a custom pool with it.
fn sources_of_worker(view: &View) -> BTreeSet<String> {
    let worker = view.pools().iter().find(|pool| pool.pool.name() == label::WORKER);
    worker.map(|pool| (0..pool.merged.sources.len()).map(|n| pool.merged.source_name(n)).collect()).unwrap_or_default()
}

fn source_role(config: &MachineConfig) -> Option<&str> {
    config.metadata.labels.as_ref()?.get(label::ROLE).map(String::as_str)
}

/// The digits at the beginning of a name.
fn digits(name: &str) -> &str {
    &name[..name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len())]
}

/// Their number; none without digits, or with more than any number has.
fn number(name: &str) -> Option<u64> {
    digits(name).parse().ok()
}
