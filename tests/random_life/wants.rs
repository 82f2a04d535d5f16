//! What a config puts at paths: the things themselves, without a word of where they are compared or how they come there.

use crate::node_root::{BOOT, Entry, key};
use crate::step::{BODIES, ConfigIs, DROPIN, FileIs, KEYS, TEXTS, UnitIs, dropin};
use std::collections::BTreeMap;

pub(super) const ETC: &str = "/etc/systemd/system";

/// What shall stand at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Want {
    Is(Entry),
    NoMask,
}

pub(super) fn file(text: &str, mode: u32, uid: u32, gid: u32) -> Entry {
    ('f', mode, uid, gid, text.as_bytes().to_vec())
}

pub(super) fn mask() -> Entry {
    ('l', 0o777, 0, 0, b"/dev/null".to_vec())
}

pub(super) fn is_mask(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|(kind, _, _, _, bytes)| match kind {
        'l' => bytes.ends_with(b"/dev/null"),
        'f' => bytes.is_empty(),
        _ => false,
    })
}

pub(super) fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// The folders above a path, from the top.
pub(super) fn ancestors(path: &str) -> Vec<&str> {
    path.match_indices('/').filter(|(at, _)| *at > 0).map(|(at, _)| &path[..at]).collect()
}

pub(super) fn body_of(config: Option<&ConfigIs>, unit: &str) -> Option<usize> {
    config?.units.get(unit)?.body
}

pub(super) fn enabled_of(config: Option<&ConfigIs>, unit: &str) -> Option<bool> {
    config?.units.get(unit)?.enabled
}

pub(super) fn masks(config: Option<&ConfigIs>, unit: &str) -> bool {
    config.and_then(|config| config.units.get(unit)).is_some_and(|unit| unit.mask == Some(true))
}

/// By path: the item as people know it, and what shall be there.
pub(super) fn wants(config: Option<&ConfigIs>) -> BTreeMap<String, (String, Want)> {
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
