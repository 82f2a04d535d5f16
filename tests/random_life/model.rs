//! What a node must be after each step: an own, small account of what was promised, over maps of paths. It asks nothing
//! of the product: words of systemd, drift, what is in the way, and what stands where are told from the map alone.

use crate::node_root::{BOOT, Entry, Tree, key};
use crate::step::{
    BODIES, ConfigIs, DROPIN, FileIs, Hand, KEYS, PolicyIs, Step, TEXTS, UNITS, UnitHand, UnitIs, dropin,
};
use std::collections::{BTreeMap, BTreeSet};

const ETC: &str = "/etc/systemd/system";
const VENDOR: &str = "/usr/lib/systemd/system";
/// `/run/systemd/system` leads here: as a folder it would say that a service manager runs.
pub(crate) const RUNTIME: &str = "/run/systemd/there";
/// The target of a link of which only the name counts.
pub(crate) const ANY: &[u8] = b"*";

/// What shall stand at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Want {
    Is(Entry),
    NoMask,
}

/// A finding: the item, and what of it.
pub(crate) type Finding = (String, &'static str);

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

fn file(text: &str, mode: u32, uid: u32, gid: u32) -> Entry {
    ('f', mode, uid, gid, text.as_bytes().to_vec())
}

fn mask() -> Entry {
    ('l', 0o777, 0, 0, b"/dev/null".to_vec())
}

fn is_mask(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|(kind, _, _, _, bytes)| match kind {
        'l' => bytes.ends_with(b"/dev/null"),
        'f' => bytes.is_empty(),
        _ => false,
    })
}

/// The links that enabling makes, by the text of a unit.
fn install(unit: &str, text: &str) -> Vec<String> {
    let of = |line: &str, key: &str| line.strip_prefix(key).map(str::to_owned);
    text.lines()
        .filter_map(|line| {
            of(line, "WantedBy=")
                .map(|by| format!("{ETC}/{by}.wants/{unit}"))
                .or_else(|| of(line, "RequiredBy=").map(|by| format!("{ETC}/{by}.requires/{unit}")))
                .or_else(|| of(line, "Alias=").map(|alias| format!("{ETC}/{alias}")))
        })
        .collect()
}

fn template(unit: &str) -> Option<String> {
    let (prefix, _) = unit.split_once('@')?;
    Some(format!("{prefix}@.service"))
}

fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// The folders above a path, from the top.
fn ancestors(path: &str) -> Vec<&str> {
    path.match_indices('/').filter(|(at, _)| *at > 0).map(|(at, _)| &path[..at]).collect()
}

/// Whether a path is a link that may enable a unit, or a folder of such.
pub(crate) fn is_link_dir(path: &str) -> bool {
    parent(path) == ETC && [".wants", ".requires"].iter().any(|end| path.ends_with(end))
}

fn body_of(config: Option<&ConfigIs>, unit: &str) -> Option<usize> {
    config?.units.get(unit)?.body
}

fn enabled_of(config: Option<&ConfigIs>, unit: &str) -> Option<bool> {
    config?.units.get(unit)?.enabled
}

fn masks(config: Option<&ConfigIs>, unit: &str) -> bool {
    config.and_then(|config| config.units.get(unit)).is_some_and(|unit| unit.mask == Some(true))
}

/// By path: the item as people know it, and what shall be there.
fn wants(config: Option<&ConfigIs>) -> BTreeMap<String, (String, Want)> {
    let mut wants = BTreeMap::new();
    let Some(config) = config else { return wants };
    for (path, FileIs { text, mode, owned }) in &config.files {
        let (uid, gid) = if *owned { (BOOT, 107) } else { (0, 0) };
        wants.insert(path.clone(), (path.clone(), Want::Is(file(TEXTS[*text], *mode, uid, gid))));
    }
    for (unit, UnitIs { body, mask: masked, dropin: nice, .. }) in &config.units {
        let want = match (masked, body) {
            (Some(true), _) => Some(Want::Is(mask())),
            (_, Some(body)) => Some(Want::Is(file(BODIES[*body], 0o644, 0, 0))),
            (Some(false), None) => Some(Want::NoMask),
            (None, None) => None,
        };
        if let Some(want) = want {
            wants.insert(format!("{ETC}/{unit}"), (unit.clone(), want));
        }
        if let Some(nice) = nice {
            let want = Want::Is(file(&dropin(*nice), 0o644, 0, 0));
            wants.insert(format!("{ETC}/{unit}.d/{DROPIN}"), (format!("{unit}.d/{DROPIN}"), want));
        }
    }
    if let Some(keys) = &config.keys {
        let text: String = keys.iter().map(|seed| key(*seed) + "\n").collect();
        wants.insert(KEYS.to_owned(), ("keys of boot".to_owned(), Want::Is(file(&text, 0o600, BOOT, BOOT))));
    }
    wants
}

impl Model {
    pub(crate) fn new(disk: Tree) -> Self {
        Self {
            disk,
            desired: None,
            current: None,
            before: BTreeMap::new(),
            links_before: BTreeMap::new(),
            made: BTreeSet::new(),
            policy: PolicyIs { files: false, was: false, units: false, keys: false },
            force: false,
        }
    }

    /// What a unit's file is, as systemd finds it; a mask is found too.
    fn found(disk: &Tree, unit: &str) -> Option<(String, Entry)> {
        std::iter::once(unit.to_owned())
            .chain(template(unit))
            .flat_map(|name| [ETC, RUNTIME, VENDOR].map(|dir| format!("{dir}/{name}")))
            .find_map(|path| disk.get(&path).filter(|entry| matches!(entry.0, 'f' | 'l')).cloned().map(|e| (path, e)))
    }

    /// A mask until the next boot, of a unit that shall have none.
    fn runtime_mask(&self, unit: &str, is: &UnitIs) -> Option<Finding> {
        let masked = is.mask == Some(false) && is_mask(self.disk.get(&format!("{RUNTIME}/{unit}")));
        masked.then(|| (unit.to_owned(), "mask until the next boot"))
    }

    /// The links that enable a unit.
    fn links(&self, unit: &str) -> Tree {
        let is_of = |path: &str, entry: &Entry| {
            entry.0 == 'l'
                && ((is_link_dir(parent(path)) && base(path) == unit)
                    || (parent(path) == ETC && unit == "chronyd.service" && base(path) == "ntp.service"))
        };
        self.disk.iter().filter(|(path, entry)| is_of(path, entry)).map(|(p, e)| (p.clone(), e.clone())).collect()
    }

    /// What `systemctl is-enabled` says.
    fn word(&self, unit: &str) -> &'static str {
        let Some((path, found)) = Self::found(&self.disk, unit) else { return "not-found" };
        if is_mask(Some(&found)) {
            return if path.starts_with(RUNTIME) { "masked-runtime" } else { "masked" };
        }
        if !self.links(unit).is_empty() {
            return "enabled";
        }
        let text = String::from_utf8_lossy(&found.4).into_owned();
        if install(unit, &text).is_empty() { "static" } else { "disabled" }
    }

    fn enablement(&self, config: &ConfigIs, unit: &str, enabled: bool) -> Option<Finding> {
        let word = self.word(unit);
        let is_wrong = match (enabled, word) {
            (true, "disabled" | "masked" | "masked-runtime" | "not-found") | (false, "enabled") => true,
            // One link is enough for the word. Those of a body that mcx brought are known; of others one must start it.
            (true, "enabled") => {
                if let Some(body) = body_of(Some(config), unit) {
                    install(unit, BODIES[body]).iter().any(|path| !self.disk.contains_key(path))
                } else {
                    let (_, found) = Self::found(&self.disk, unit).unwrap_or_default();
                    let starts = |path: &String| is_link_dir(parent(path));
                    install(unit, &String::from_utf8_lossy(&found.4)).iter().any(starts)
                        && !self.links(unit).keys().any(starts)
                }
            }
            _ => false,
        };
        is_wrong.then(|| (unit.to_owned(), "enablement"))
    }

    fn differs(&self, path: &str, item: &str, want: &Want) -> BTreeSet<Finding> {
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
    fn drift_before(&self, to: &ConfigIs) -> BTreeSet<Finding> {
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
    fn in_the_way(&self, to: &ConfigIs, forced: bool) -> BTreeSet<String> {
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
            match Self::found(&then.disk, unit) {
                Some((_, found)) if !is_mask(Some(&found)) => {}
                _ => drop(found.insert(unit.clone())),
            }
        }
        found
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

    fn set_links(&mut self, unit: &str, links: Tree) {
        for path in self.links(unit).keys() {
            self.disk.remove(path);
        }
        self.disk.extend(links);
    }

    fn remove_made(&mut self, path: &str) {
        for dir in ancestors(path).into_iter().rev() {
            let is_empty = !self.disk.keys().any(|other| other.starts_with(&format!("{dir}/")));
            if !self.made.contains(dir) || !is_empty {
                break;
            }
            self.disk.remove(dir);
        }
    }

    fn put(&mut self, path: &str, entry: Entry) {
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
    fn after(&self, to: &ConfigIs, forced: bool) -> Self {
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
                then.disk.remove(&format!("{RUNTIME}/{unit}"));
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
    fn links_after(&self, then: &Self, unit: &str, to: &ConfigIs, forced: bool) -> (bool, Comes) {
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
                    || [RUNTIME, VENDOR].iter().any(|dir| self.disk.contains_key(&format!("{dir}/{unit}")))
                    || template(unit).is_some_and(|name| Self::found(&self.disk, &name).is_some());
                (goes && !remains, Comes::Nothing)
            }
        }
    }

    fn link(&mut self, unit: &str, (all_go, comes): (bool, Comes)) {
        if all_go {
            self.set_links(unit, Tree::new());
        }
        match comes {
            Comes::Nothing => {}
            Comes::These(links) => self.set_links(unit, links),
            Comes::Install => {
                let Some((_, found)) = Self::found(&self.disk, unit) else { return };
                let text = String::from_utf8_lossy(&found.4).into_owned();
                for path in install(unit, &text) {
                    self.disk.insert(path, ('l', 0o777, 0, 0, ANY.to_vec()));
                }
            }
        }
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
        self.disk.retain(|path, _| !path.starts_with(&format!("{RUNTIME}/")));
    }

    /// What a step does to the disk, and to what is wanted. None: the step does nothing here.
    pub(crate) fn step(&mut self, step: &Step) -> Option<()> {
        match step {
            Step::Config(config) | Step::Killed(config, _) => self.desired = Some(config.clone()),
            Step::Withdraw(items) => self.desired = Some(self.without(items)),
            Step::Hand(path, hand) => self.hand(path, *hand)?,
            Step::UnitHand(unit, hand) => self.unit_hand(unit, *hand)?,
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

    fn by_hand(&mut self, path: &str, entry: Option<Entry>) -> Option<()> {
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

    fn hand(&mut self, path: &str, hand: Hand) -> Option<()> {
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

    fn unit_hand(&mut self, unit: &str, hand: UnitHand) -> Option<()> {
        let own = format!("{ETC}/{unit}");
        let runtime = format!("{RUNTIME}/{unit}");
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
    fn put_right(&mut self) {
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
            if self.disk.contains_key(&format!("{RUNTIME}/{unit}")) {
                self.disk.remove(&format!("{RUNTIME}/{unit}"));
            }
            // Masked by a hand where no path is managed.
            if is_mask(self.disk.get(&format!("{ETC}/{unit}"))) {
                self.disk.remove(&format!("{ETC}/{unit}"));
            }
            if Self::found(&self.disk, unit).is_none() {
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
                self.disk.remove(&format!("{RUNTIME}/{unit}"));
            }
        }
    }
}

/// What comes in place of the links that went.
enum Comes {
    Nothing,
    /// What `[Install]` says.
    Install,
    These(Tree),
}
