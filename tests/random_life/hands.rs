//! What hands do to the disk, and how they put right what was named.

use super::Model;
use super::units::{Comes, VENDOR, template};
use super::wants::{ETC, Want, ancestors, file, is_mask, mask, wants};
use crate::node_root::{Entry, Tree};
use crate::step::{BODIES, DROPIN, Hand, TEXTS, UnitHand, dropin};

impl Model {
    pub(super) fn by_hand(&mut self, path: &str, entry: Option<Entry>) -> Option<()> {
        let blocked = ancestors(path).into_iter().any(|dir| self.disk.get(dir).is_some_and(|entry| entry.0 != 'd'));
        let is_full = self.disk.keys().any(|other| other.starts_with(&format!("{path}/")));
        if blocked || is_full || self.disk.get(path) == entry.as_ref() {
            return None;
        }
        self.disk.remove(path);
        if let Some(entry) = entry {
            // Folders that a hand makes are the hand's.
            let made = self.made.clone();
            let is_new = |dir: &&str| !self.disk.contains_key(*dir);
            let new: Vec<String> = ancestors(path).into_iter().filter(is_new).map(str::to_owned).collect();
            self.put(path, entry);
            self.made = made;
            for dir in new {
                self.disk.insert(dir, ('d', 0o755, 0, 0, vec![]));
            }
        }
        Some(())
    }

    pub(super) fn hand(&mut self, path: &str, hand: Hand) -> Option<()> {
        let found = self.disk.get(path).cloned();
        let file_there = found.clone().filter(|entry| entry.0 == 'f');
        let entry = match hand {
            Hand::Text(text) => {
                let (_, mode, uid, gid, _) = file_there.unwrap_or(file("", 0o644, 0, 0));
                Some(file(TEXTS[text], mode, uid, gid))
            }
            Hand::Replaced(text, mode) => Some(file(TEXTS[text], mode, 0, 0)),
            Hand::Mode(mode) => file_there.map(|found| (found.0, mode, found.2, found.3, found.4)).map(Some)?,
            Hand::Owner(uid, gid) => {
                // A change of owner clears setuid.
                file_there.map(|found| (found.0, found.1 & 0o777, uid, gid, found.4)).map(Some)?
            }
            Hand::Removed => None,
            Hand::Link => Some(('l', 0o777, 0, 0, b"/etc/hosts".to_vec())),
            Hand::Dir => Some(('d', 0o755, 0, 0, vec![])),
            Hand::Fifo => Some(('o', 0o600, 0, 0, vec![])),
        };
        self.by_hand(path, entry)
    }

    pub(super) fn unit_hand(&mut self, unit: &str, hand: UnitHand) -> Option<()> {
        let own = format!("{ETC}/{unit}");
        let runtime = self.runtime(unit);
        let drop_in = format!("{ETC}/{unit}.d/{DROPIN}");
        match hand {
            UnitHand::Body(body) => self.by_hand(&own, Some(file(BODIES[body], 0o644, 0, 0))),
            UnitHand::Mode(mode) => {
                let found = self.disk.get(&own).filter(|entry| entry.0 == 'f').cloned()?;
                self.by_hand(&own, Some((found.0, mode, found.2, found.3, found.4)))
            }
            UnitHand::Removed => self.by_hand(&own, None),
            UnitHand::Masked => self.by_hand(&own, Some(mask())),
            UnitHand::RuntimeMasked => self.by_hand(&runtime, Some(mask())),
            UnitHand::RuntimeUnmasked => self.by_hand(&runtime, None),
            UnitHand::Wanted(other) => {
                let dir = if other { "other.target.wants" } else { "multi-user.target.wants" };
                let target = format!("{VENDOR}/{}", template(unit).unwrap_or_else(|| unit.to_owned()));
                let path = format!("{ETC}/{dir}/{unit}");
                if self.disk.contains_key(&path) {
                    return None;
                }
                self.by_hand(&path, Some(('l', 0o777, 0, 0, target.into_bytes())))
            }
            UnitHand::Unwanted => {
                let links = self.links(unit);
                self.set_links(unit, Tree::new());
                (!links.is_empty()).then_some(())
            }
            UnitHand::DropIn(nice) => self.by_hand(&drop_in, Some(file(&dropin(nice), 0o644, 0, 0))),
            UnitHand::DropInRemoved => self.by_hand(&drop_in, None),
            UnitHand::DropInMasked => self.by_hand(&drop_in, Some(file("", 0o644, 0, 0))),
            UnitHand::Package(body) => {
                let name = template(unit).unwrap_or_else(|| unit.to_owned());
                let path = format!("{VENDOR}/{name}");
                self.disk.get(&path)?;
                self.by_hand(&path, Some(file(BODIES[body], 0o644, 0, 0)))
            }
        }
    }

    /// Each managed thing that was named becomes what the current config says.
    pub(super) fn put_right(&mut self) {
        let Some(current) = self.current.clone() else { return };
        let drift = self.drift();
        for (path, (item, want)) in wants(Some(&current)) {
            if self.differs(&path, &item, &want).is_empty() {
                continue;
            }
            self.disk.remove(&path);
            match want {
                Want::Is(want) => {
                    let made = self.made.clone();
                    self.put(&path, want);
                    self.made = made;
                }
                Want::NoMask => {}
            }
        }
        for (unit, is) in &current.units {
            if !drift.contains(&(unit.clone(), "enablement")) {
                continue;
            }
            self.disk.remove(&self.runtime(unit));
            // Masked by a hand where no path is managed.
            if is_mask(self.disk.get(&format!("{ETC}/{unit}"))) {
                self.disk.remove(&format!("{ETC}/{unit}"));
            }
            if self.found(unit).is_none() {
                self.disk.insert(format!("{ETC}/{unit}"), file(BODIES[1], 0o644, 0, 0));
            }
            match is.enabled {
                Some(true) => self.link(unit, (false, Comes::Install)),
                _ => self.set_links(unit, Tree::new()),
            }
        }
        // A runtime mask where there shall be none.
        for (unit, is) in &current.units {
            if is.mask == Some(false) {
                self.disk.remove(&self.runtime(unit));
            }
        }
    }
}
