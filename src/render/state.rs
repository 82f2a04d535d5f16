//! What an input says that the nodes of each pool have: rendered from its sources, or read from rendered configs if it has
//! no others. For commands that look at configs, not at findings: only errors come back.

use super::finding::{Finding, Severity};
use super::items::Items;
use super::load::Loaded;
use super::{nearest, render};
use crate::api::{ConfigName, MachineConfig, label};
use std::collections::BTreeMap;

/// What the nodes of each pool have.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// By name of the pool; pools without a source are not in here.
    pub pools: BTreeMap<String, Items>,
    /// Names of all pools that the input knows, sorted.
    pub known: Vec<String>,
    /// It was read from rendered configs.
    pub is_rendered: bool,
}

/// Why an input does not say what nodes have.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something is wrong with its objects.
    #[error("the input is refused")]
    Refused(Vec<Finding>),
    /// Which one is meant?
    #[error("the input holds {} rendered configs of pool {pool} and no sources: {}; give one of them", .names.len(), .names.join(", "))]
    Several {
        /// The pool.
        pool: String,
        /// The configs.
        names: Vec<String>,
    },
    /// A rendered config that was edited or cut.
    #[error("MachineConfig/{name}: {why}")]
    Unreadable {
        /// The config.
        name: String,
        /// The first thing that is wrong with it.
        why: String,
    },
    /// None of our objects is in it.
    #[error("the input holds no MachineConfig")]
    Empty,
}

impl State {
    /// Of all pools, or of one of them. Sources of other pools are not looked at then.
    pub fn of(loaded: &Loaded, only: Option<&str>) -> Result<Self, Error> {
        let mut errors: Vec<Finding> =
            loaded.findings.iter().filter(|f| f.severity == Severity::Error).cloned().collect();
        if !errors.is_empty() {
            return Err(Error::Refused(errors));
        }
        if loaded.configs.is_empty() {
            return Err(Error::Empty);
        }
        if loaded.configs.iter().all(MachineConfig::is_rendered) {
            return Self::rendered(&loaded.configs, only);
        }
        let pools = loaded.known_pools();
        let known = pools.iter().map(|pool| pool.name().to_owned()).collect();
        let mut state = Self { known, ..Self::default() };
        for pool in pools.iter().filter(|pool| only.is_none_or(|only| only == pool.name())) {
            let outcome = render(pool, &loaded.configs);
            if outcome.no_sources {
                continue;
            }
            errors.extend(outcome.findings.into_iter().filter(|f| f.severity == Severity::Error));
            if let Some(rendered) = outcome.rendered {
                state.pools.insert(pool.name().to_owned(), rendered.items);
            }
        }
        if errors.is_empty() {
            return Ok(state);
        }
        loaded.locate(&mut errors);
        errors.sort_by(|a, b| {
            let key = |f: &Finding| (f.file.clone(), f.line, f.column, f.object.clone(), f.path.clone());
            key(a).cmp(&key(b))
        });
        // Two pools may have the same to say of one source.
        errors.dedup();
        Err(Error::Refused(errors))
    }

    /// Whether the input knows a pool of this name, with sources for it or without.
    pub fn knows(&self, pool: &str) -> bool {
        self.known.iter().any(|known| known == pool)
    }

    /// What to say of a pool that the input does not know.
    pub fn unknown(&self, pool: &str) -> String {
        nearest::unknown("pool", pool, self.known.iter().map(String::as_str))
    }

    fn rendered(configs: &[MachineConfig], only: Option<&str>) -> Result<Self, Error> {
        let mut by_pool: BTreeMap<String, Vec<&MachineConfig>> = BTreeMap::new();
        for config in configs {
            let labelled = config.metadata.labels.as_ref().and_then(|l| l.get(label::RENDERED).cloned());
            let pool = labelled.or_else(|| ConfigName::from(config.name()).pool().map(str::to_owned));
            by_pool.entry(pool.unwrap_or_default()).or_default().push(config);
        }
        let mut state = Self { known: by_pool.keys().cloned().collect(), is_rendered: true, ..Self::default() };
        for (pool, configs) in by_pool {
            if only.is_some_and(|only| only != pool) {
                continue;
            }
            let [config] = configs.as_slice() else {
                let names = configs.iter().map(|c| c.name().to_owned()).collect();
                return Err(Error::Several { pool, names });
            };
            state.pools.insert(pool, items(config)?);
        }
        Ok(state)
    }
}

/// What a rendered config means, whoever made it.
pub fn items(config: &MachineConfig) -> Result<Items, Error> {
    Items::from_config(config.spec.config.clone().unwrap_or_default()).map_err(|errors| Error::Unreadable {
        name: config.name().to_owned(),
        why: errors.into_iter().next().unwrap_or_default(),
    })
}

/// The pairs to compare, `(pool, old, new)`: each pool that one of both has, beside nothing where the other has none. Two
/// rendered configs are compared whatever their pools.
pub fn pairs(old: State, mut new: State) -> Vec<(String, Items, Items)> {
    if old.is_rendered && new.is_rendered && old.pools.len() == 1 && new.pools.len() == 1 {
        let both = old.pools.into_iter().zip(new.pools);
        return both.map(|((_, old), (pool, new))| (pool, old, new)).collect();
    }
    let mut pairs: Vec<(String, Items, Items)> = Vec::new();
    for (pool, items) in old.pools {
        let other = new.pools.remove(&pool).unwrap_or_default();
        pairs.push((pool, items, other));
    }
    pairs.extend(new.pools.into_iter().map(|(pool, items)| (pool, Items::default(), items)));
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::load::{self, Input};
    use super::*;
    use serde_json::{Value, json};

    fn source(name: &str, role: &str, path: &str) -> Value {
        json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {"machineconfiguration.alauda.io/role": role}},
            "spec": {"config": {"ignition": {"version": "3.4.0"},
                "storage": {"files": [{"path": path, "contents": {"source": "data:,x"}}]}}}})
    }

    fn rendered(pool: &str, digit: char, path: &str) -> Value {
        let mut config = source(&format!("rendered-{pool}-{}", digit.to_string().repeat(32)), "", path);
        config["metadata"]["labels"] = json!({"machineconfiguration.alauda.io/rendered": pool});
        config
    }

    fn state(objects: &[Value], only: Option<&str>) -> Result<State, Error> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        State::of(&load::load(vec![Input { name: "x".to_owned(), bytes: list.into_bytes() }]), only)
    }

    fn paths(items: &Items) -> Vec<&str> {
        items.files.keys().map(String::as_str).collect()
    }

    #[test]
    fn sources_say_it_for_each_pool_that_selects_some() {
        let objects = [source("50-a", "worker", "/etc/a"), source("50-b", "master", "/etc/b")];
        let both = state(&objects, None).unwrap();
        assert_eq!(both.pools.keys().collect::<Vec<_>>(), ["master", "worker"]);
        assert_eq!(paths(&both.pools["worker"]), ["/etc/a"]);
        let one = state(&objects, Some("master")).unwrap();
        assert_eq!(one.pools.keys().collect::<Vec<_>>(), ["master"]);
        assert_eq!(one.known, ["master", "worker"]);
    }

    #[test]
    fn errors_of_other_pools_are_no_reason_when_one_is_asked_for() {
        let objects = [source("50-a", "worker", "/etc/a"), source("50-b", "master", "etc/b")];
        let Err(Error::Refused(errors)) = state(&objects, None) else { panic!("refused") };
        assert_eq!(errors.len(), 1);
        assert_eq!((errors[0].object.as_str(), errors[0].file.as_deref()), ("MachineConfig/50-b", Some("x")));
        assert!(state(&objects, Some("worker")).is_ok());
    }

    #[test]
    fn rendered_configs_say_it_only_beside_no_sources() {
        let config = rendered("worker", 'a', "/etc/r");
        let alone = state(std::slice::from_ref(&config), None).unwrap();
        assert!(alone.is_rendered);
        assert_eq!(paths(&alone.pools["worker"]), ["/etc/r"]);
        let beside = state(&[config.clone(), source("50-a", "worker", "/etc/a")], None).unwrap();
        assert_eq!(paths(&beside.pools["worker"]), ["/etc/a"], "a rendered config is never a source");
        let several = state(&[config, rendered("worker", 'b', "/etc/s")], None).unwrap_err().to_string();
        assert!(several.contains("2 rendered configs of pool worker"), "{several}");
        assert!(matches!(state(&[], None), Err(Error::Empty)));
    }

    #[test]
    fn pools_are_paired_by_name_and_two_rendered_configs_with_each_other() {
        let old = state(&[source("50-a", "worker", "/etc/a")], None).unwrap();
        let new = state(&[source("50-b", "master", "/etc/b")], None).unwrap();
        let named = |(pool, old, new): &(String, Items, Items)| (pool.clone(), old.files.len(), new.files.len());
        let found: Vec<_> = pairs(old, new).iter().map(named).collect();
        assert_eq!(found, [("master".to_owned(), 0, 1), ("worker".to_owned(), 1, 0)]);
        let old = state(&[rendered("worker", 'a', "/etc/a")], None).unwrap();
        let new = state(&[rendered("infra", 'b', "/etc/b")], None).unwrap();
        let found: Vec<_> = pairs(old, new).iter().map(named).collect();
        assert_eq!(found, [("infra".to_owned(), 1, 1)]);
    }
}
