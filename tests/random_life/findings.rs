//! What differs from a config, and what is in the way of another one.

use super::Model;
use super::units::{install, is_link_dir};
use super::wants::{Want, ancestors, body_of, enabled_of, is_mask, parent, wants};
use crate::step::{BODIES, ConfigIs, UnitIs};
use std::collections::BTreeSet;

/// A finding: the item, and what of it.
pub(crate) type Finding = (String, &'static str);

impl Model {
    /// A mask until the next boot, of a unit that shall have none.
    pub(super) fn runtime_mask(&self, unit: &str, is: &UnitIs) -> Option<Finding> {
        let masked = is.mask == Some(false) && is_mask(self.disk.get(&self.runtime(unit)));
        masked.then(|| (unit.to_owned(), "mask until the next boot"))
    }

    pub(super) fn enablement(&self, config: &ConfigIs, unit: &str, enabled: bool) -> Option<Finding> {
        let word = self.word(unit);
        let is_wrong = match (enabled, word) {
            (true, "disabled" | "masked" | "masked-runtime" | "not-found") | (false, "enabled") => true,
            // One link is enough for the word. Those of a body that mcx brought are known; of others one must start it.
            (true, "enabled") => {
                if let Some(body) = body_of(Some(config), unit) {
                    install(unit, BODIES[body]).iter().any(|path| !self.disk.contains_key(path))
                } else {
                    let (_, found) = self.found(unit).unwrap_or_default();
                    let starts = |path: &String| is_link_dir(parent(path));
                    install(unit, &String::from_utf8_lossy(&found.4)).iter().any(starts)
                        && !self.links(unit).keys().any(starts)
                }
            }
            _ => false,
        };
        is_wrong.then(|| (unit.to_owned(), "enablement"))
    }

    pub(super) fn differs(&self, path: &str, item: &str, want: &Want) -> BTreeSet<Finding> {
        let found = self.disk.get(path);
        let Want::Is(want) = want else {
            return is_mask(found).then(|| (item.to_owned(), "mask")).into_iter().collect();
        };
        let mut whats = Vec::new();
        match found {
            _ if want.0 == 'l' => {
                if found.is_none_or(|found| found.0 != 'l' || found.4 != want.4) {
                    whats.push("mask");
                }
            }
            None => whats.push("missing"),
            Some(found) if found.0 != 'f' => whats.push("type"),
            Some(found) => {
                let parts = [
                    (found.4 != want.4, "contents"),
                    (found.1 != want.1, "mode"),
                    (found.2 != want.2, "owner"),
                    (found.3 != want.3, "group"),
                ];
                whats.extend(parts.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what));
            }
        }
        whats.into_iter().map(|what| (item.to_owned(), what)).collect()
    }

    /// All that differs from the current config.
    pub(crate) fn drift(&self) -> BTreeSet<Finding> {
        let Some(current) = &self.current else { return BTreeSet::new() };
        let mut found = BTreeSet::new();
        for (path, (item, want)) in wants(Some(current)) {
            found.extend(self.differs(&path, &item, &want));
        }
        for (unit, is) in &current.units {
            found.extend(is.enabled.and_then(|enabled| self.enablement(current, unit, enabled)));
            found.extend(self.runtime_mask(unit, is));
        }
        found
    }

    /// What of the drift stands in the way of `to`: that which is neither as now nor as then.
    pub(super) fn drift_before(&self, to: &ConfigIs) -> BTreeSet<Finding> {
        let Some(current) = &self.current else { return BTreeSet::new() };
        let next = wants(Some(to));
        let mut found = BTreeSet::new();
        for (path, (item, want)) in wants(Some(current)) {
            let is_then = match next.get(&path) {
                Some((item, want)) => self.differs(&path, item, want).is_empty(),
                None => self.disk.get(&path) == self.before[&path].as_ref(),
            };
            if !is_then {
                found.extend(self.differs(&path, &item, &want));
            }
        }
        for (unit, is) in &current.units {
            found.extend(self.runtime_mask(unit, is));
            let Some(enabled) = is.enabled else { continue };
            let is_then = match enabled_of(Some(to), unit) {
                Some(next) => self.enablement(to, unit, next).is_none(),
                None => self.links_before[unit].1 == self.word(unit),
            };
            if !is_then {
                found.extend(self.enablement(current, unit, enabled));
            }
        }
        found
    }

    /// What stands in the way of `to` for another reason.
    pub(super) fn in_the_way(&self, to: &ConfigIs, forced: bool) -> BTreeSet<String> {
        let (old, new) = (wants(self.current.as_ref()), wants(Some(to)));
        let mut found = BTreeSet::new();
        for (path, (item, want)) in &new {
            let is_written = forced || old.get(path).map(|(_, want)| want) != Some(want);
            let is_there = self.differs(path, item, want).is_empty();
            if !is_written || is_there || *want == Want::NoMask {
                continue;
            }
            let blocked = ancestors(path).into_iter().find(|dir| self.disk.get(*dir).is_some_and(|e| e.0 != 'd'));
            let is_dir = self.disk.get(path).is_some_and(|entry| entry.0 == 'd');
            let is_full = self.disk.keys().any(|other| other.starts_with(&format!("{path}/")));
            if blocked.is_some() || (is_dir && (is_full || !forced) && (forced || !old.contains_key(path))) {
                found.insert(path.clone());
            }
        }
        let then = self.after(to, forced);
        for (unit, is) in to.units.iter().filter(|(_, is)| is.enabled == Some(true)) {
            let before = self.current.as_ref().and_then(|config| config.units.get(unit));
            if !forced && before == Some(is) && self.word(unit) != "not-found" {
                continue;
            }
            match then.found(unit) {
                Some((_, found)) if !is_mask(Some(&found)) => {}
                _ => drop(found.insert(unit.clone())),
            }
        }
        found
    }
}
