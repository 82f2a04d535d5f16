//! What differs between two configs, and what that costs a node under the policy. Pure.
//!
//! Preview, controller and daemon call these same functions, so that what a preview says is what a node does. Carrying the
//! actions out is the node's; which policy is in effect is [`policy`]'s; what is probably not meant is [`lint`]'s.

mod combine;
pub mod cost;
pub mod lint;
pub mod policy;
pub mod text;

pub use combine::actions;

use crate::render::item::Item;
use crate::render::items::{Items, UnitItem};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How one item differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Difference {
    /// Only in the new config.
    Added,
    /// In both, with another meaning.
    Changed,
    /// Only in the old config.
    Removed,
}

/// What differs between two configs, by meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// By path.
    pub files: BTreeMap<String, Difference>,
    /// By unit name; drop-ins, enablement and mask are part of their unit.
    pub units: BTreeMap<String, Difference>,
    /// Of those units of which nothing but drop-ins differs: which ones, by unit and name.
    pub dropins: BTreeMap<String, BTreeMap<String, Difference>>,
    /// Keys of `boot`, compared as a set.
    pub keys: Option<Difference>,
}

/// What the node does beyond writing files. `None` of the policy is the absence of all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Action {
    /// `systemctl daemon-reload`.
    DaemonReload,
    /// `systemctl reload UNIT`.
    Reload(String),
    /// `systemctl restart UNIT`.
    Restart(String),
    /// Drain only: pods leave, nothing else happens.
    Drain,
    /// Drain, then reboot. Always alone.
    Reboot,
}

/// Why an action is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The action that the policy's entry names, `None` included, before combining; as printed: `Restart chronyd.service`.
    pub action: String,
    /// `file /etc/x`, `unit a.service`, `keys of boot`.
    pub item: String,
    /// The policy's entry, `/etc/chrony.conf`, `a.service` or `sshkey`; `default`; or `unit file` for the daemon-reload
    /// that no policy asks for.
    pub entry: String,
}

/// What a change set costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actions {
    /// In order, each once. Empty: nothing but writing.
    pub list: Vec<Action>,
    /// Why, for people.
    pub causes: Vec<Cause>,
}

impl ChangeSet {
    /// What is different in `new`.
    pub fn between(old: &Items, new: &Items) -> Self {
        let set = |items: &Items| items.keys.iter().flatten().cloned().collect::<BTreeSet<_>>();
        let keys = match (&old.keys, &new.keys) {
            (None, None) => None,
            (None, Some(_)) => Some(Difference::Added),
            (Some(_), None) => Some(Difference::Removed),
            (Some(_), Some(_)) => (set(old) != set(new)).then_some(Difference::Changed),
        };
        let units = differences(&old.units, &new.units);
        let dropins = units
            .keys()
            .filter_map(|name| Some((name.clone(), only_dropins(old.units.get(name), new.units.get(name))?)));
        Self { files: differences(&old.files, &new.files), dropins: dropins.collect(), units, keys }
    }

    /// What differs: files, then units, then keys. Where nothing but drop-ins of a unit differs, these.
    pub fn items(&self) -> impl Iterator<Item = (Item, Difference)> {
        let files = self.files.iter().map(|(path, difference)| (Item::File(path.clone()), *difference));
        let units = self.units.iter().flat_map(move |(unit, difference)| match self.dropins.get(unit) {
            None => vec![(Item::Unit(unit.clone()), *difference)],
            Some(dropins) => {
                let named = |(name, difference): (&String, &Difference)| {
                    (Item::DropIn { unit: unit.clone(), name: name.clone() }, *difference)
                };
                dropins.iter().map(named).collect()
            }
        });
        files.chain(units).chain(self.keys.map(|difference| (Item::Keys, difference)))
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.units.is_empty() && self.keys.is_none()
    }
}

fn file_item(path: &str) -> String {
    Item::File(path.to_owned()).to_string()
}

fn unit_item(name: &str) -> String {
    Item::Unit(name.to_owned()).to_string()
}

fn keys_item() -> String {
    Item::Keys.to_string()
}

/// The drop-ins that differ, if nothing else of the unit does. A unit that is in one of the two only by its drop-ins is
/// not added or removed itself: it may be the operating system's.
fn only_dropins(old: Option<&UnitItem>, new: Option<&UnitItem>) -> Option<BTreeMap<String, Difference>> {
    let nothing = UnitItem::default();
    let (old, new) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    let rest = |unit: &UnitItem| UnitItem { dropins: BTreeMap::new(), ..unit.clone() };
    let found = differences(&old.dropins, &new.dropins);
    (!found.is_empty() && rest(old) == rest(new)).then_some(found)
}

fn differences<T: PartialEq>(old: &BTreeMap<String, T>, new: &BTreeMap<String, T>) -> BTreeMap<String, Difference> {
    let removed = old.keys().filter(|k| !new.contains_key(*k)).map(|k| (k.clone(), Difference::Removed));
    let rest = new.iter().filter_map(|(k, item)| match old.get(k) {
        None => Some((k.clone(), Difference::Added)),
        Some(was) => (was != item).then(|| (k.clone(), Difference::Changed)),
    });
    removed.chain(rest).collect()
}

impl fmt::Display for ChangeSet {
    /// One line: `2 files added, 1 unit changed, keys changed`, or `nothing`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let items: Vec<(Item, Difference)> = self.items().collect();
        let noun_of = |item: &Item| match item {
            Item::File(_) => "file",
            Item::Unit(_) => "unit",
            Item::DropIn { .. } => "drop-in",
            Item::Keys => "keys",
        };
        for noun in ["file", "unit", "drop-in"] {
            for kind in [Difference::Added, Difference::Changed, Difference::Removed] {
                match items.iter().filter(|(item, difference)| noun_of(item) == noun && *difference == kind).count() {
                    0 => {}
                    1 => parts.push(format!("1 {noun} {kind}")),
                    n => parts.push(format!("{n} {noun}s {kind}")),
                }
            }
        }
        if let Some(kind) = self.keys {
            parts.push(format!("keys {kind}"));
        }
        if parts.is_empty() { f.write_str("nothing") } else { f.write_str(&parts.join(", ")) }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DaemonReload => f.write_str("DaemonReload"),
            Self::Reload(unit) => write!(f, "Reload {unit}"),
            Self::Restart(unit) => write!(f, "Restart {unit}"),
            Self::Drain => f.write_str("Drain"),
            Self::Reboot => f.write_str("Reboot"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.item, self.action, self.entry)
    }
}

impl fmt::Display for Actions {
    /// One line: `DaemonReload, Restart chronyd.service`, or `None`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.list.is_empty() {
            return f.write_str("None");
        }
        let texts: Vec<String> = self.list.iter().map(Action::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

impl Actions {
    /// Whether the node must be drained first.
    pub fn needs_drain(&self) -> bool {
        self.list.iter().any(|a| matches!(a, Action::Drain | Action::Reboot))
    }

    /// Whether the node reboots.
    pub fn reboots(&self) -> bool {
        self.list.contains(&Action::Reboot)
    }

    /// Whether anything happens to running services.
    pub fn is_disruptive(&self) -> bool {
        self.list.iter().any(|a| !matches!(a, Action::DaemonReload))
    }
}

#[cfg(test)]
mod tests;
