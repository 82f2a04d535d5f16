//! What differs between two configs as a person reads it: contents decoded, as a unified diff, with mode, owner,
//! enablement and keys. Pure.
//!
//! Which items differ is [`ChangeSet`]'s to say, so that a diff is empty exactly when nothing changes. What a change costs
//! is not in here. `lines` finds the hunks of two texts, `show` prints.
//!
//! Contents are in it: it is for those who ask for them, and nothing of it belongs into a log or a status.

mod lines;
mod show;

pub use lines::{Hunk, Line, Sign};
pub use show::Part;

use super::{ChangeSet, Difference};
use crate::render::item::{Item, UNIT_DIRECTORY};
use crate::render::items::{Content, FileItem, Items, Owner, UnitItem, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What differs, item by item: files by path, then units by name, then keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// Only items that differ.
    pub items: Vec<ItemDiff>,
}

/// How one item differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemDiff {
    /// `file /etc/x`, `unit a.service`, `keys of boot`.
    pub item: String,
    /// Whether both sides have it.
    pub difference: Difference,
    /// What differs beside texts. Of an item that only one side has: all that is said of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldDiff>,
    /// In words, where the old side is a disk: what a node would report of the item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<String>,
    /// Contents that differ: of a file, or of a unit and its drop-ins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<TextDiff>,
}

/// A field with another value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDiff {
    /// `mode`, `user`, `group`, `enabled`, `mask`.
    pub field: String,
    /// As printed; none when the old side does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// As printed; none when the new side does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// Contents that differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextDiff {
    /// Path on the node; `keys of boot` for keys of a config, whose path only a node knows.
    pub path: String,
    /// None when the old side has no such file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Blob>,
    /// None when the new side has no such file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Blob>,
    /// One of both holds a NUL or is not UTF-8, or is too large to be read as text: there are no hunks then.
    pub binary: bool,
    /// Lines that only the new side has.
    pub added: usize,
    /// Lines that only the old side has.
    pub removed: usize,
    /// The lines, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hunks: Vec<Hunk>,
}

/// What is known of contents without reading them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// In bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

impl Blob {
    /// Of known size and digest.
    pub fn new(size: u64, sha256: &[u8; 32]) -> Self {
        Self { size, sha256: hex(sha256) }
    }

    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::new(bytes.len() as u64, &Sha256::digest(bytes).into())
    }
}

/// One side of contents: what is known of them, and the bytes unless they are not to be read as text.
pub type Side<'a> = (Blob, Option<Cow<'a, [u8]>>);

/// What differs between two configs.
pub fn diff(old: &Items, new: &Items) -> Diff {
    let change = ChangeSet::between(old, new);
    let files = change.files.keys().map(|path| file(path, old.files.get(path), new.files.get(path)));
    let units = change.units.keys().flat_map(|name| {
        let (was, is) = (old.units.get(name), new.units.get(name));
        match change.dropins.get(name) {
            None => vec![unit(name, was, is)],
            Some(dropins) => dropins.keys().map(|dropin| self::dropin(name, dropin, was, is)).collect(),
        }
    });
    let keys = change.keys.map(|_| keys(old.keys.as_deref(), new.keys.as_deref()));
    Diff { items: files.chain(units).chain(keys).collect() }
}

/// How one file differs; each side that has none is none.
pub fn file(path: &str, old: Option<&FileItem>, new: Option<&FileItem>) -> ItemDiff {
    let owner = |owner: &Owner| match owner {
        Owner::Id(id) => id.to_string(),
        Owner::Name(name) => name.clone(),
    };
    let fields = [
        field("mode", old.map(|f| &f.mode), new.map(|f| &f.mode), |mode| format!("{mode:04o}")),
        field("user", old.map(|f| &f.user), new.map(|f| &f.user), owner),
        field("group", old.map(|f| &f.group), new.map(|f| &f.group), owner),
    ];
    let (was, is) = (old.map(|f| &f.content), new.map(|f| &f.content));
    let texts = (was != is).then(|| text(path, was.map(side).as_ref(), is.map(side).as_ref()));
    ItemDiff {
        item: Item::File(path.to_owned()).to_string(),
        difference: difference(old.is_some(), new.is_some()),
        fields: fields.into_iter().flatten().collect(),
        deviations: Vec::new(),
        texts: texts.into_iter().collect(),
    }
}

/// How one unit differs, with its drop-ins.
pub fn unit(name: &str, old: Option<&UnitItem>, new: Option<&UnitItem>) -> ItemDiff {
    let nothing = UnitItem::default();
    let (was, is) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    let fields = [
        field("enabled", was.enabled.as_ref(), is.enabled.as_ref(), ToString::to_string),
        field("mask", was.mask.as_ref(), is.mask.as_ref(), ToString::to_string),
    ];
    let mut texts = Vec::new();
    let mut compare = |path: String, old: Option<&String>, new: Option<&String>| {
        if old != new {
            texts.push(text(&path, old.map(|t| of(t)).as_ref(), new.map(|t| of(t)).as_ref()));
        }
    };
    compare(format!("{UNIT_DIRECTORY}/{name}"), was.contents.as_ref(), is.contents.as_ref());
    let dropins: BTreeSet<&String> = was.dropins.keys().chain(is.dropins.keys()).collect();
    for dropin in dropins {
        compare(format!("{UNIT_DIRECTORY}/{name}.d/{dropin}"), was.dropins.get(dropin), is.dropins.get(dropin));
    }
    ItemDiff {
        item: Item::Unit(name.to_owned()).to_string(),
        difference: difference(old.is_some(), new.is_some()),
        fields: fields.into_iter().flatten().collect(),
        deviations: Vec::new(),
        texts,
    }
}

/// How one drop-in of a unit differs.
fn dropin(unit: &str, name: &str, old: Option<&UnitItem>, new: Option<&UnitItem>) -> ItemDiff {
    let text_of = |unit: Option<&'_ UnitItem>| unit.and_then(|unit| unit.dropins.get(name)).cloned();
    let (was, is) = (text_of(old), text_of(new));
    let path = format!("{UNIT_DIRECTORY}/{unit}.d/{name}");
    ItemDiff {
        item: Item::DropIn { unit: unit.to_owned(), name: name.to_owned() }.to_string(),
        difference: difference(was.is_some(), is.is_some()),
        fields: Vec::new(),
        deviations: Vec::new(),
        texts: vec![text(&path, was.as_deref().map(of).as_ref(), is.as_deref().map(of).as_ref())],
    }
}

/// How the keys of `boot` differ, compared as a set, one a line. They are public keys: shown whole.
pub fn keys(old: Option<&[String]>, new: Option<&[String]>) -> ItemDiff {
    let item = Item::Keys.to_string();
    let lines = |keys: &[String]| -> String {
        let sorted: BTreeSet<String> = keys.iter().cloned().collect();
        Items::keys_text(&sorted.into_iter().collect::<Vec<_>>())
    };
    let (was, is) = (old.map(lines), new.map(lines));
    ItemDiff {
        texts: vec![text(&item, was.as_deref().map(of).as_ref(), is.as_deref().map(of).as_ref())],
        item,
        difference: difference(old.is_some(), new.is_some()),
        fields: Vec::new(),
        deviations: Vec::new(),
    }
}

/// How contents at a path differ.
pub fn text(path: &str, old: Option<&Side>, new: Option<&Side>) -> TextDiff {
    let mut found = TextDiff {
        path: path.to_owned(),
        old: old.map(|(blob, _)| blob.clone()),
        new: new.map(|(blob, _)| blob.clone()),
        binary: false,
        added: 0,
        removed: 0,
        hunks: Vec::new(),
    };
    match (readable(old), readable(new)) {
        (Some(old), Some(new)) => found.hunks = lines::hunks(old, new),
        _ => found.binary = true,
    }
    let count = |sign: Sign| found.hunks.iter().flat_map(|h| &h.lines).filter(|l| l.sign == sign).count();
    (found.added, found.removed) = (count(Sign::Added), count(Sign::Removed));
    found
}

/// The text of a side; the empty one where there is no file; none for what is no text.
fn readable<'a>(side: Option<&'a Side>) -> Option<&'a str> {
    let Some((_, bytes)) = side else { return Some("") };
    bytes.as_deref().filter(|bytes| !bytes.contains(&0)).and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// A side that is a text.
fn of(text: &str) -> Side<'_> {
    (Blob::of(text.as_bytes()), Some(Cow::Borrowed(text.as_bytes())))
}

fn side(content: &Content) -> Side<'static> {
    // It was decoded once to know its digest, so it decodes again.
    (Blob::new(content.size(), content.sha256()), content.decode().ok().map(Cow::Owned))
}

fn field<T: PartialEq>(
    name: &str,
    old: Option<&T>,
    new: Option<&T>,
    print: impl Fn(&T) -> String,
) -> Option<FieldDiff> {
    (old != new).then(|| FieldDiff { field: name.to_owned(), old: old.map(&print), new: new.map(&print) })
}

/// An item that neither side has does not differ, and is not asked for.
fn difference(old: bool, new: bool) -> Difference {
    match (old, new) {
        (false, _) => Difference::Added,
        (true, true) => Difference::Changed,
        (true, false) => Difference::Removed,
    }
}

#[cfg(test)]
mod tests;
