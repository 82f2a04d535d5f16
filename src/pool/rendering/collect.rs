//! Which rendered configs may be deleted: those that nothing refers to, beyond the newest few of each pool.

use crate::api::{ConfigName, MachineConfig, MachineConfigPool, label};
use crate::pool::view::NodeView;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// A rendered config younger than this is kept: what refers to it may not be written or seen yet.
pub const YOUNG: SignedDuration = SignedDuration::from_mins(5);

/// A rendered config, as far as this rule looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: ConfigName,
    /// The pool it was made for.
    pub pool: String,
    /// When it was created; none is taken as young.
    pub created: Option<Timestamp>,
}

impl Candidate {
    /// None when `config` is no rendered config.
    pub fn new(config: &MachineConfig) -> Option<Self> {
        let labels = config.metadata.labels.as_ref();
        config.is_rendered().then(|| Self {
            name: config.name().into(),
            pool: labels.and_then(|l| l.get(label::RENDERED)).cloned().unwrap_or_default(),
            created: config.metadata.creation_timestamp.as_ref().map(|t| t.0),
        })
    }
}

/// Everything that pools and nodes refer to: targets, what pools had last, desired and current of nodes.
pub fn referenced<'a>(
    pools: impl IntoIterator<Item = &'a MachineConfigPool>,
    nodes: impl IntoIterator<Item = &'a NodeView>,
) -> BTreeSet<ConfigName> {
    let of_pools = pools.into_iter().flat_map(|pool| {
        let had = pool.status.as_ref().and_then(|s| s.configuration.as_ref()).and_then(|c| c.name.as_deref());
        [pool.target(), had].into_iter().flatten().map(ConfigName::from)
    });
    let of_nodes = nodes.into_iter().flat_map(|node| [node.desired.clone(), node.current.clone()]).flatten();
    of_pools.chain(of_nodes).collect()
}

/// The names of those that may go, oldest first. `pools`: those that exist; of another nothing is kept for its own sake.
pub fn collectable(
    candidates: &[Candidate],
    referenced: &BTreeSet<ConfigName>,
    pools: &BTreeSet<String>,
    keep: usize,
    now: Timestamp,
) -> Vec<ConfigName> {
    let mut by_pool: BTreeMap<&str, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        by_pool.entry(&candidate.pool).or_default().push(candidate);
    }
    let mut going = Vec::new();
    for (pool, mut all) in by_pool {
        // Newest first; of equal age by name, so that every replica decides alike.
        all.sort_by(|a, b| (b.created, &b.name).cmp(&(a.created, &a.name)));
        let keep = if pools.contains(pool) { keep } else { 0 };
        going.extend(all.into_iter().skip(keep).filter(|c| {
            let old = c.created.is_some_and(|created| now.duration_since(created) >= YOUNG);
            old && !referenced.contains(&c.name)
        }));
    }
    going.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    going.into_iter().map(|c| c.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_700_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn candidate(pool: &str, n: usize, age: i64) -> Candidate {
        Candidate { name: format!("rendered-{pool}-{n}").into(), pool: pool.to_owned(), created: Some(at(NOW - age)) }
    }

    fn pools(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn unused_ones_go_oldest_first_beyond_the_newest() {
        let all: Vec<Candidate> =
            (0..5).map(|n| candidate("worker", n, 1000 * (i64::try_from(n).unwrap() + 1))).collect();
        let used = BTreeSet::from(["rendered-worker-3".into()]);
        let gone = collectable(&all, &used, &pools(&["worker"]), 2, at(NOW));
        assert_eq!(gone, ["rendered-worker-4", "rendered-worker-2"]);
    }

    #[test]
    fn of_a_pool_that_is_gone_only_what_is_used_or_young_stays() {
        let all = [candidate("old", 1, 10_000), candidate("old", 2, 10_000), candidate("old", 3, 10)];
        let used = BTreeSet::from(["rendered-old-2".into()]);
        assert_eq!(collectable(&all, &used, &pools(&["worker"]), 5, at(NOW)), ["rendered-old-1"]);
    }

    #[test]
    fn a_name_counts_as_used_wherever_it_stands() {
        let pool: MachineConfigPool = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "worker"},
            "spec": {"configuration": {"name": "rendered-worker-1"}},
            "status": {"configuration": {"name": "rendered-worker-2"}}
        }))
        .unwrap();
        let node = NodeView {
            desired: Some("rendered-worker-3".into()),
            current: Some("rendered-worker-4".into()),
            ..NodeView::default()
        };
        let names: Vec<String> = referenced([&pool], [&node]).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["rendered-worker-1", "rendered-worker-2", "rendered-worker-3", "rendered-worker-4"]);
    }

    proptest! {
        #[test]
        fn r_014_nothing_that_is_used_young_or_among_the_newest_is_ever_collected(
            ages in prop::collection::vec((0_usize..3, 0_i64..2000), 0..40),
            used in prop::collection::btree_set(0_usize..40, 0..15),
            keep in 0_usize..6,
        ) {
            let names = ["master", "worker", "gone"];
            let all: Vec<Candidate> =
                ages.iter().enumerate().map(|(n, (pool, age))| candidate(names[*pool], n, *age)).collect();
            let used: BTreeSet<ConfigName> =
                all.iter().enumerate().filter(|(n, _)| used.contains(n)).map(|(_, c)| c.name.clone()).collect();
            let gone: BTreeSet<ConfigName> =
                collectable(&all, &used, &pools(&["master", "worker"]), keep, at(NOW)).into_iter().collect();
            for candidate in &all {
                let young = candidate.created > Some(at(NOW - YOUNG.as_secs()));
                let newer = all
                    .iter()
                    .filter(|o| o.pool == candidate.pool && (o.created, &o.name) > (candidate.created, &candidate.name))
                    .count();
                let spare = candidate.pool == "gone" || newer >= keep;
                let may_go = spare && !young && !used.contains(&candidate.name);
                prop_assert_eq!(gone.contains(&candidate.name), may_go, "{:?} with {} newer", candidate, newer);
            }
        }
    }
}
