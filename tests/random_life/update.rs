//! What an update leaves: the node when it has another config.

use super::Model;
use super::units::{Comes, VENDOR, install, template};
use super::wants::{ETC, Want, ancestors, body_of, enabled_of, is_mask, masks, parent, wants};
use crate::node_root::{BOOT, Entry};
use crate::step::{BODIES, ConfigIs, KEYS, UNITS};
use std::collections::BTreeMap;

impl Model {
    pub(super) fn remove_made(&mut self, path: &str) {
        for dir in ancestors(path).into_iter().rev() {
            let is_empty = !self.disk.keys().any(|other| other.starts_with(&format!("{dir}/")));
            if !self.made.contains(dir) || !is_empty {
                break;
            }
            self.disk.remove(dir);
        }
    }

    pub(super) fn put(&mut self, path: &str, entry: Entry) {
        for dir in ancestors(path) {
            if !self.disk.contains_key(dir) {
                let is_ssh = path == KEYS && dir == parent(KEYS);
                let meta = if is_ssh { (0o700, BOOT, BOOT) } else { (0o755, 0, 0) };
                self.disk.insert(dir.to_owned(), ('d', meta.0, meta.1, meta.2, vec![]));
                self.made.insert(dir.to_owned());
            }
        }
        self.disk.insert(path.to_owned(), entry);
    }

    /// The node when it has `to`.
    pub(super) fn after(&self, to: &ConfigIs, forced: bool) -> Self {
        let mut then = self.clone();
        let (old, new) = (wants(self.current.as_ref()), wants(Some(to)));
        let is_free = |path: &str| old.get(path).is_none_or(|(_, want)| *want == Want::NoMask);
        for path in new.keys().filter(|path| is_free(path)) {
            let found = self.disk.get(path).cloned();
            // Where a mask was removed there is nothing: what was before is known already.
            if found.is_some() || !old.contains_key(path) {
                then.before.insert(path.clone(), found);
            }
        }
        let mut links = BTreeMap::new();
        for (unit, _) in to.units.iter().filter(|(_, is)| is.enabled.is_some()) {
            if enabled_of(self.current.as_ref(), unit).is_none() {
                then.links_before.insert(unit.clone(), (self.links(unit), self.word(unit)));
            }
        }
        for unit in UNITS {
            links.insert(unit, self.links_after(&then, unit, to, forced));
        }
        for (path, (_, want)) in &new {
            match want {
                Want::Is(want) => then.put(path, want.clone()),
                Want::NoMask => {
                    let found = self.disk.get(path);
                    let ours = old.get(path).is_some_and(|(_, want)| matches!(want, Want::Is(is) if found == Some(is)));
                    if is_mask(found) || ours {
                        then.disk.remove(path);
                        let before = then.before[path].clone();
                        then.disk.extend(before.filter(|b| !is_mask(Some(b))).map(|before| (path.clone(), before)));
                    }
                }
            }
        }
        for (path, (_, want)) in old.iter().filter(|(path, _)| !new.contains_key(*path)) {
            let before = then.before.remove(path).flatten();
            // Where a mask was to be removed, and somebody has put something since, it stays.
            if *want == Want::NoMask && !forced && self.disk.contains_key(path) {
                continue;
            }
            then.disk.remove(path);
            match before {
                Some(before) => then.put(path, before),
                None => then.remove_made(path),
            }
        }
        for (unit, is) in &to.units {
            let was = self.current.as_ref().and_then(|old| old.units.get(unit)).and_then(|unit| unit.mask);
            if is.mask == Some(false) && (forced || was != Some(false)) {
                then.disk.remove(&self.runtime(unit));
            }
        }
        for (unit, how) in links {
            then.link(unit, how);
        }
        for unit in UNITS {
            if enabled_of(Some(to), unit).is_none() {
                then.links_before.remove(unit);
            }
        }
        then.made.retain(|dir| new.keys().any(|path| path.starts_with(&format!("{dir}/"))));
        then.current = Some(to.clone());
        then
    }

    /// What becomes of a unit's links: whether all go first, and what comes then.
    pub(super) fn links_after(&self, then: &Self, unit: &str, to: &ConfigIs, forced: bool) -> (bool, Comes) {
        let (old, new) = (self.current.as_ref(), Some(to));
        let (was, is) = (enabled_of(old, unit), enabled_of(new, unit));
        let (body, next) = (body_of(old, unit), body_of(new, unit));
        let goes = body.is_some() && next.is_none() && !masks(new, unit);
        let text = |body: Option<usize>| install(unit, body.map_or("", |body| BODIES[body]));
        let another = text(body) != text(next);
        match (was, is) {
            (_, Some(false)) => (was != is || forced || goes, Comes::Nothing),
            (_, Some(true)) => {
                let touched = forced || was != is || another || masks(old, unit) || goes;
                (another || goes, if touched { Comes::Install } else { Comes::Nothing })
            }
            (Some(_), None) => (true, Comes::These(then.links_before[unit].0.clone())),
            (None, None) => {
                let path = format!("{ETC}/{unit}");
                let remains = then.before.get(&path).is_some_and(Option::is_some)
                    || [self.until_boot, VENDOR].iter().any(|dir| self.disk.contains_key(&format!("{dir}/{unit}")))
                    || template(unit).is_some_and(|name| self.found(&name).is_some());
                (goes && !remains, Comes::Nothing)
            }
        }
    }
}
