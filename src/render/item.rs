//! Items by the names that people use: reading a name, printing it, where it stands on a node, and its bytes.
//!
//! What an item holds is [`super::items`]'; which sources speak of it is [`super::story`]'s.

use super::items::Items;
use super::nearest;
use crate::api::SSH_USER;
use serde::{Serialize, Serializer};
use std::fmt;

/// Where systemd reads units of the administrator, and mcx writes them.
pub const UNIT_DIRECTORY: &str = "/etc/systemd/system";

/// One managed thing. Printed as `file /etc/x`, `unit a.service`, `drop-in a.service/10-x.conf`, `keys of boot`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A file, by path.
    File(String),
    /// A unit, by name: its own file, enablement and mask.
    Unit(String),
    /// A drop-in of a unit.
    DropIn {
        /// The unit.
        unit: String,
        /// File name, `NAME.conf`.
        name: String,
    },
    /// The SSH keys of `boot`.
    Keys,
}

/// Why an item has no bytes on a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoContents {
    /// The config does not have it.
    #[error("is not in the config")]
    Absent,
    /// Only its enablement or drop-ins are ours.
    #[error("has no contents in the config: its own file is not managed")]
    NoBody,
    /// A link to `/dev/null` stands in its place.
    #[error("is masked: on a node {UNIT_DIRECTORY}/{0} is a link to /dev/null")]
    Masked(String),
    /// The encoded contents cannot be read.
    #[error("cannot be decoded: {0}")]
    Encoded(#[from] super::ignition::contents::Error),
}

impl Item {
    /// What a person may mean, the likeliest first: a path, a unit, `UNIT/DROPIN`, `UNIT.d/DROPIN`, `boot`. A path where
    /// units stand is a file's if the config has such a file, else the unit's or drop-in's.
    pub fn read(text: &str) -> Vec<Self> {
        let dropin = |unit: &str, name: &str| Self::DropIn { unit: unit.to_owned(), name: name.to_owned() };
        let as_unit = |name: &str| match name.split_once('/') {
            Some((unit, name)) => dropin(unit.strip_suffix(".d").unwrap_or(unit), name),
            None => Self::Unit(name.to_owned()),
        };
        if text.starts_with('/') {
            let below = text.strip_prefix(UNIT_DIRECTORY).and_then(|rest| rest.strip_prefix('/'));
            return std::iter::once(Self::File(text.to_owned())).chain(below.map(as_unit)).collect();
        }
        if [SSH_USER.to_owned(), Self::Keys.to_string()].contains(&text.to_owned()) {
            return vec![Self::Keys];
        }
        vec![as_unit(text)]
    }

    /// The one of `known` that is meant by `text`.
    pub fn find<'a>(text: &str, known: &'a [Self]) -> Option<&'a Self> {
        Self::read(text).iter().find_map(|meant| known.iter().find(|item| *item == meant))
    }

    /// The known item whose name is nearest to `text`, as it would be written in its place; none if none is near.
    pub fn nearest(text: &str, known: &[Self]) -> Option<String> {
        let names: Vec<String> = known.iter().map(Self::name).collect();
        let paths: Vec<String> = known.iter().filter_map(Self::path).collect();
        let near = nearest::nearest(text, names.iter().chain(&paths).map(String::as_str)).map(str::to_owned);
        // The last part alone is often all that one remembers, or a unit's name without its kind.
        let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        let stem = |item: &&Self| matches!(item, Self::Unit(name) if name.rsplit_once('.').is_some_and(|(stem, _)| stem == text));
        near.or_else(|| known.iter().find(stem).map(Self::name))
            .or_else(|| names.iter().find(|name| last(name) == last(text)).cloned())
    }

    /// Whether it is `whole`, or a drop-in of that unit.
    pub fn is_part_of(&self, whole: &Self) -> bool {
        self == whole || matches!((self, whole), (Self::DropIn { unit, .. }, Self::Unit(name)) if unit == name)
    }

    /// As a person writes it: the path, `a.service`, `a.service/10-x.conf`, `boot`.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.clone(),
            Self::Unit(name) => name.clone(),
            Self::DropIn { unit, name } => format!("{unit}/{name}"),
            Self::Keys => SSH_USER.to_owned(),
        }
    }

    /// Where it stands on a node; of keys only the node knows.
    pub fn path(&self) -> Option<String> {
        match self {
            Self::File(path) => Some(path.clone()),
            Self::Unit(name) => Some(format!("{UNIT_DIRECTORY}/{name}")),
            Self::DropIn { unit, name } => Some(format!("{UNIT_DIRECTORY}/{unit}.d/{name}")),
            Self::Keys => None,
        }
    }

    /// All items of a config: files, units each with its drop-ins, keys.
    pub fn all(items: &Items) -> Vec<Self> {
        let mut all: Vec<Self> = items.files.keys().cloned().map(Self::File).collect();
        for (unit, item) in &items.units {
            all.push(Self::Unit(unit.clone()));
            all.extend(item.dropins.keys().map(|name| Self::DropIn { unit: unit.clone(), name: name.clone() }));
        }
        all.extend(items.keys.as_ref().map(|_| Self::Keys));
        all
    }

    /// Its bytes, as they are on a node under this config.
    pub fn contents(&self, items: &Items) -> Result<Vec<u8>, NoContents> {
        match self {
            Self::File(path) => Ok(items.files.get(path).ok_or(NoContents::Absent)?.content.decode()?),
            Self::Unit(name) => {
                let unit = items.units.get(name).ok_or(NoContents::Absent)?;
                match &unit.contents {
                    _ if unit.mask == Some(true) => Err(NoContents::Masked(name.clone())),
                    Some(text) => Ok(text.clone().into_bytes()),
                    None => Err(NoContents::NoBody),
                }
            }
            Self::DropIn { unit, name } => {
                let text = items.units.get(unit).and_then(|u| u.dropins.get(name)).ok_or(NoContents::Absent)?;
                Ok(text.clone().into_bytes())
            }
            Self::Keys => Ok(Items::keys_text(items.keys.as_ref().ok_or(NoContents::Absent)?).into_bytes()),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::File(_) => "file",
            Self::Unit(_) => "unit",
            Self::DropIn { .. } => "drop-in",
            Self::Keys => "keys of",
        };
        write!(f, "{kind} {}", self.name())
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::items::{Content, FileItem, Owner, UnitItem};
    use super::*;
    use std::collections::BTreeMap;

    fn items() -> Items {
        let file = |bytes: &[u8]| FileItem {
            content: Content::of(bytes),
            mode: 0o644,
            user: Owner::Id(0),
            group: Owner::Id(0),
        };
        let unit = UnitItem {
            contents: Some("[Unit]\n".to_owned()),
            dropins: BTreeMap::from([("10-x.conf".to_owned(), "[Service]\n".to_owned())]),
            ..UnitItem::default()
        };
        let masked = UnitItem { mask: Some(true), ..unit.clone() };
        let enabled = UnitItem { enabled: Some(true), ..UnitItem::default() };
        Items {
            files: BTreeMap::from([
                ("/etc/x".to_owned(), file(b"\xff\0")),
                ("/etc/systemd/system/b.target.wants/note".to_owned(), file(b"n")),
            ]),
            units: BTreeMap::from([
                ("a.service".to_owned(), unit),
                ("e.service".to_owned(), enabled),
                ("m.service".to_owned(), masked),
            ]),
            keys: Some(vec!["ssh-ed25519 A".to_owned(), "ssh-ed25519 B".to_owned()]),
        }
    }

    #[test]
    fn an_item_is_found_by_each_of_its_names() {
        let items = items();
        let known = Item::all(&items);
        for (text, bytes) in [
            ("/etc/x", Ok(&b"\xff\0"[..])),
            ("a.service", Ok(b"[Unit]\n")),
            ("/etc/systemd/system/a.service", Ok(b"[Unit]\n")),
            ("a.service/10-x.conf", Ok(b"[Service]\n")),
            ("a.service.d/10-x.conf", Ok(b"[Service]\n")),
            ("/etc/systemd/system/a.service.d/10-x.conf", Ok(b"[Service]\n")),
            ("/etc/systemd/system/b.target.wants/note", Ok(b"n")),
            ("boot", Ok(b"ssh-ed25519 A\nssh-ed25519 B\n")),
            ("keys of boot", Ok(b"ssh-ed25519 A\nssh-ed25519 B\n")),
            ("e.service", Err("has no contents")),
            ("m.service", Err("is masked")),
        ] {
            let found = Item::find(text, &known).unwrap_or_else(|| panic!("{text} is not found"));
            match (found.contents(&items), bytes) {
                (Ok(found), Ok(bytes)) => assert_eq!(found, bytes, "{text}"),
                (Err(error), Err(said)) => assert!(error.to_string().contains(said), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        for text in ["/etc/y", "b.service", "a.service/20-x.conf", "/etc/systemd/system", "", "root", "/"] {
            assert_eq!(Item::find(text, &known), None, "{text}");
        }
    }

    #[test]
    fn a_slip_is_told_the_nearest_name() {
        let known = Item::all(&items());
        for (text, near) in [
            ("a.servce", Some("a.service")),
            ("/etc/X", Some("/etc/x")),
            ("a.service/10-y.conf", Some("a.service/10-x.conf")),
            ("10-x.conf", Some("a.service/10-x.conf")),
            ("x", Some("/etc/x")),
            ("bood", Some("boot")),
            ("e", Some("e.service")),
            ("/usr/lib/nothing", None),
        ] {
            assert_eq!(Item::nearest(text, &known).as_deref(), near, "{text}");
        }
    }
}
