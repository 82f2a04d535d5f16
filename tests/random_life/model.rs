//! What a node must be after each step: an own, small account of what was promised, over maps of paths. It asks nothing
//! of the product: words of systemd, drift, what is in the way, and what stands where are told from the map alone.

mod findings;
mod hands;
mod units;
mod update;
mod wants;

pub(crate) use findings::Finding;
pub(crate) use units::{ANY, is_link_dir};

use crate::node_root::{Entry, Tree};
use crate::step::{ConfigIs, PolicyIs, Step};
use std::collections::{BTreeMap, BTreeSet};

/// What the node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Says {
    Done,
    Drift(BTreeSet<Finding>),
    /// What is in the way, by item or path.
    InTheWay(BTreeSet<String>),
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    /// All that is on the disk but the state of mcx.
    pub(crate) disk: Tree,
    /// The folder of units that are gone after a boot.
    until_boot: &'static str,
    pub(crate) desired: Option<ConfigIs>,
    pub(crate) current: Option<ConfigIs>,
    /// What stood at each managed path before.
    pub(crate) before: BTreeMap<String, Option<Entry>>,
    /// The links, and the word, of each unit whose enablement is managed.
    pub(crate) links_before: BTreeMap<String, (Tree, &'static str)>,
    /// Folders that mcx made.
    made: BTreeSet<String>,
    policy: PolicyIs,
    force: bool,
}

/// What comes of a step when all has settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) says: Says,
    /// Whether it took a reboot.
    pub(crate) boots: bool,
}

impl Model {
    /// A node with this disk, whose units of `until_boot` are gone after a boot.
    pub(crate) fn new(disk: Tree, until_boot: &'static str) -> Self {
        Self {
            disk,
            until_boot,
            desired: None,
            current: None,
            before: BTreeMap::new(),
            links_before: BTreeMap::new(),
            made: BTreeSet::new(),
            policy: PolicyIs { files: false, was: false, units: false, keys: false },
            force: false,
        }
    }

    /// Whether the update costs a reboot under the policy.
    fn costs_a_boot(&self, to: &ConfigIs) -> bool {
        let none = ConfigIs::default();
        let old = self.current.as_ref().unwrap_or(&none);
        let file = |path: &String| if path.starts_with("/etc/was/") { self.policy.was } else { self.policy.files };
        let files: BTreeSet<&String> = old.files.keys().chain(to.files.keys()).collect();
        let units: BTreeSet<&String> = old.units.keys().chain(to.units.keys()).collect();
        files.into_iter().any(|path| old.files.get(path) != to.files.get(path) && file(path))
            || units.into_iter().any(|unit| old.units.get(unit) != to.units.get(unit) && self.policy.units)
            || (old.keys != to.keys && self.policy.keys)
    }

    /// What the node does by itself until nothing more happens.
    pub(crate) fn settle(&mut self) -> Outcome {
        let desired = self.desired.clone().or_else(|| self.current.clone());
        let Some(to) = desired else { return Outcome { says: Says::Done, boots: false } };
        if self.current.as_ref() == Some(&to) && !self.force {
            let drift = self.drift();
            let says = if drift.is_empty() { Says::Done } else { Says::Drift(drift) };
            return Outcome { says, boots: false };
        }
        let drift = if self.force { BTreeSet::new() } else { self.drift_before(&to) };
        if !drift.is_empty() {
            return Outcome { says: Says::Drift(drift), boots: false };
        }
        let obstacles = self.in_the_way(&to, self.force);
        if !obstacles.is_empty() {
            return Outcome { says: Says::InTheWay(obstacles), boots: false };
        }
        let boots = self.force || self.costs_a_boot(&to);
        *self = Self { force: false, ..self.after(&to, self.force) };
        if boots {
            self.boot();
        }
        let drift = self.drift();
        Outcome { says: if drift.is_empty() { Says::Done } else { Says::Drift(drift) }, boots }
    }

    /// What was in memory is gone.
    fn boot(&mut self) {
        let gone = self.runtime("");
        self.disk.retain(|path, _| !path.starts_with(&gone));
    }

    /// What a step does to the disk, and to what is wanted. None: the step does nothing here.
    pub(crate) fn step(&mut self, step: &Step) -> Option<()> {
        match step {
            Step::Config(config) | Step::Killed(config, _) => self.desired = Some(config.clone()),
            Step::Cut(config, _) => {
                // What goes with the memory is seen before or after: there must be nothing of it.
                let gone = self.runtime("");
                if self.disk.keys().any(|path| path.starts_with(&gone)) {
                    return None;
                }
                self.desired = Some(config.clone());
            }
            Step::Withdraw(items) => {
                let less = Some(self.without(items));
                if self.desired == less {
                    return None;
                }
                self.desired = less;
            }
            Step::Hand(path, hand) => self.hand(path, *hand)?,
            Step::UnitHand(unit, hand) => self.unit_hand(unit, *hand)?,
            Step::PutRight if self.drift().is_empty() => return None,
            Step::PutRight => self.put_right(),
            Step::Force => {
                let to = self.desired.clone().or_else(|| self.current.clone())?;
                if !self.in_the_way(&to, true).is_empty() {
                    return None;
                }
                self.force = true;
            }
            Step::Boot => self.boot(),
            Step::Restart => {}
            Step::Policy(policy) if self.policy == *policy => return None,
            Step::Policy(policy) => self.policy = *policy,
        }
        Some(())
    }

    /// Whether the node would change something by itself once a hand has made room.
    pub(crate) fn is_pending(&self) -> bool {
        self.desired.is_some() && self.desired != self.current
    }

    /// The config that is wanted now, without some of its items.
    fn without(&self, items: &[usize]) -> ConfigIs {
        let mut config = self.desired.clone().unwrap_or_default();
        if items.is_empty() {
            return ConfigIs::default();
        }
        for item in items {
            let count = config.files.len() + config.units.len() + 1;
            let at = item % count;
            if let Some(path) = config.files.keys().nth(at).cloned() {
                config.files.remove(&path);
            } else if let Some(unit) = config.units.keys().nth(at - config.files.len()).cloned() {
                config.units.remove(&unit);
            } else {
                config.keys = None;
            }
        }
        config
    }
}
