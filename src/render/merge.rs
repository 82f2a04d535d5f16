//! Laying sources over each other, in order: Ignition's merge for what mcx applies (decision 0003).
//!
//! Equal to folding [`super::ignition::merge`] over the sources, with the one difference that contents are replaced as a
//! whole; a property test holds both together. It exists beside that function because it keeps for each value the
//! source it came from, and because it is linear in the input: folding copies the growing result once per source.

use super::finding::Severity;
use super::items::{FileItem, Items, Owner, UnitItem};
use super::layer::{Contents, Layer, OwnerLayer};
use super::validate::{self, Decoder, Report};
use crate::api::{IgnitionConfig, SSH_USER};
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Arguments;

/// An item of one source that a later source replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowed {
    /// `file /etc/x`, `unit a.service`, `drop-in a.service/10-x.conf`; of a part of an item, `mode of file /etc/x`,
    /// `user of file /etc/x`, `group of file /etc/x`, `enabled of unit a.service`, `mask of unit a.service`.
    pub item: String,
    /// Source that holds in the end.
    pub winner: String,
    /// Source whose item is hidden. Only one that says something else is: equal values hide nothing.
    pub loser: String,
    /// Field path of the hidden item in the loser.
    pub path: String,
}

/// A source in the merge.
#[derive(Debug)]
pub(super) struct Source {
    /// `MachineConfig/NAME`, as findings name it.
    pub(super) object: String,
    /// Field path of its config.
    pub(super) at: &'static str,
}

/// Where a value was written: a source, and an element of its list of files, units or users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) source: usize,
    pub(super) index: usize,
}

/// A value that later sources replace, with those that were replaced.
#[derive(Debug)]
pub(super) struct Field<T> {
    pub(super) now: Option<(T, Place)>,
    hidden: Vec<(T, Place)>,
}

impl<T> Default for Field<T> {
    fn default() -> Self {
        Self { now: None, hidden: Vec::new() }
    }
}

/// What became of a value in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It holds.
    Wins,
    /// It says what holds, and a later source says it, too.
    Same,
    /// A later source replaced it with something else.
    Hidden,
}

impl<T> Field<T> {
    /// All that sources say, in their order, with what became of it.
    pub(super) fn said(&self, mut same: impl FnMut(&T, &T) -> bool) -> impl Iterator<Item = (&T, Place, Fate)> {
        let hidden = self.now.as_ref().map(|(value, _)| value).into_iter().flat_map(move |value| {
            let fates: Vec<(&T, Place, Fate)> = self
                .hidden
                .iter()
                .map(|(hidden, place)| (hidden, *place, if same(hidden, value) { Fate::Same } else { Fate::Hidden }))
                .collect();
            fates
        });
        hidden.chain(self.now.iter().map(|(value, place)| (value, *place, Fate::Wins)))
    }
}

impl<T: Copy> Field<T> {
    fn set(&mut self, value: Option<T>, place: Place) {
        if let Some(value) = value {
            self.hidden.extend(self.now.replace((value, place)));
        }
    }
}

/// A file, merged.
#[derive(Debug)]
pub(super) struct MergedFile<'a> {
    pub(super) contents: Field<Contents<'a>>,
    pub(super) mode: Field<u32>,
    /// Apart, since hardly any file has some: there may be many thousands.
    pub(super) owners: Option<Box<Owners<'a>>>,
    /// The last source that names it.
    pub(super) last: Place,
    /// All other sources that name it, by number, in order.
    before: Vec<usize>,
}

/// What sources say of a file's user and group.
#[derive(Debug, Default)]
pub(super) struct Owners<'a> {
    pub(super) user_id: Field<u32>,
    pub(super) user_name: Field<&'a str>,
    pub(super) group_id: Field<u32>,
    pub(super) group_name: Field<&'a str>,
}

impl MergedFile<'_> {
    /// All sources that name it, by number, in order.
    pub(super) fn named(&self) -> Vec<usize> {
        self.before.iter().copied().chain([self.last.source]).collect()
    }
}

/// A unit, merged.
#[derive(Debug)]
pub(super) struct MergedUnit<'a> {
    pub(super) contents: Field<&'a str>,
    pub(super) dropins: BTreeMap<&'a str, Field<&'a str>>,
    pub(super) enabled: Field<bool>,
    pub(super) mask: Field<bool>,
    /// The last source that names it.
    pub(super) last: Place,
    /// All sources that name it, by number, in order.
    pub(super) named: Vec<usize>,
}

impl<'a> MergedUnit<'a> {
    /// The unit's text; an empty one is none (L-14: an empty unit file masks the unit).
    pub(super) fn body(&self) -> Option<&'a str> {
        self.contents.now.map(|(text, _)| text).filter(|t| !t.is_empty())
    }

    /// Drop-ins that have a text. An empty one takes an earlier source's away.
    pub(super) fn dropin_bodies(&self) -> impl Iterator<Item = (&'a str, &'a str)> + '_ {
        self.dropins.iter().filter_map(|(name, field)| Some((*name, field.now?.0))).filter(|(_, text)| !text.is_empty())
    }
}

/// All sources of a pool, merged; every value knows where it was written.
#[derive(Debug, Default)]
pub(super) struct Merged<'a> {
    pub(super) sources: Vec<Source>,
    pub(super) files: BTreeMap<&'a str, MergedFile<'a>>,
    pub(super) units: BTreeMap<&'a str, MergedUnit<'a>>,
    /// Keys of `boot`, with the sources that bring each, in order; never without one.
    pub(super) keys: BTreeMap<&'a str, Vec<Place>>,
}

impl<'a> Merged<'a> {
    /// Lays the next source over what is there.
    pub(super) fn lay(&mut self, source: Source, layer: &Layer<'a>) {
        let number = self.sources.len();
        self.sources.push(source);
        for (index, file) in layer.files.iter().enumerate() {
            let place = Place { source: number, index };
            let new = || MergedFile {
                contents: Field::default(),
                mode: Field::default(),
                owners: None,
                last: place,
                before: Vec::new(),
            };
            let merged = match self.files.entry(file.path) {
                Entry::Vacant(entry) => entry.insert(new()),
                Entry::Occupied(entry) => {
                    let merged = entry.into_mut();
                    merged.before.push(merged.last.source);
                    merged.last = place;
                    merged
                }
            };
            merged.contents.set(laid_over(merged.contents.now.map(|(c, _)| c), file.contents), place);
            // Out of range only beside a finding that stops the rendering.
            merged.mode.set(file.mode.map(|m| u32::try_from(m).unwrap_or_default()), place);
            let id = |owner: OwnerLayer| owner.id.map(|id| u32::try_from(id).unwrap_or_default());
            if file.user != OwnerLayer::default() || file.group != OwnerLayer::default() {
                let owners = merged.owners.get_or_insert_default();
                owners.user_id.set(id(file.user), place);
                owners.user_name.set(file.user.name, place);
                owners.group_id.set(id(file.group), place);
                owners.group_name.set(file.group.name, place);
            }
        }
        for (index, unit) in layer.units.iter().enumerate() {
            let place = Place { source: number, index };
            let merged = self.units.entry(unit.name).or_insert_with(|| MergedUnit {
                contents: Field::default(),
                dropins: BTreeMap::new(),
                enabled: Field::default(),
                mask: Field::default(),
                last: place,
                named: Vec::new(),
            });
            merged.last = place;
            merged.named.push(number);
            merged.contents.set(unit.contents, place);
            merged.enabled.set(unit.enabled, place);
            merged.mask.set(unit.mask, place);
            for (name, contents) in &unit.dropins {
                merged.dropins.entry(name).or_default().set(*contents, place);
            }
        }
        for (index, user) in layer.users.iter().enumerate().filter(|(_, u)| u.called() == SSH_USER) {
            for key in &user.keys {
                self.keys.entry(key).or_default().push(Place { source: number, index });
            }
        }
    }

    /// What a node would have. Contents that cannot be decoded are left out: `validate::whole` has said so.
    pub(super) fn items(&self, decoder: &mut Decoder<'a>) -> Items {
        let mut items = Items::default();
        for (path, file) in &self.files {
            let contents = file.contents.now.map(|(c, _)| c).unwrap_or_default();
            let Ok(read) = decoder.decode(contents) else { continue };
            let owner = |id: &Field<u32>, name: &Field<&str>| match (id.now, name.now) {
                (_, Some((name, _))) if !name.is_empty() => Owner::Name(name.to_owned()),
                (id, _) => Owner::Id(id.map_or(0, |(id, _)| id)),
            };
            let root = (Owner::Id(0), Owner::Id(0));
            let (user, group) = file.owners.as_ref().map_or(root, |owners| {
                (owner(&owners.user_id, &owners.user_name), owner(&owners.group_id, &owners.group_name))
            });
            let item = FileItem {
                content: read.content.clone(),
                mode: file.mode.now.map_or(DEFAULT_MODE, |(mode, _)| mode),
                user,
                group,
            };
            items.files.insert((*path).to_owned(), item);
        }
        items.units = self.unit_items();
        if !self.keys.is_empty() {
            items.keys = Some(self.keys.keys().map(|k| (*k).to_owned()).collect());
        }
        items
    }

    /// The units that a node would have.
    pub(super) fn unit_items(&self) -> BTreeMap<String, UnitItem> {
        let items = self.units.iter().map(|(name, unit)| {
            let item = UnitItem {
                contents: unit.body().map(str::to_owned),
                dropins: unit.dropin_bodies().map(|(name, text)| (name.to_owned(), text.to_owned())).collect(),
                enabled: unit.enabled.now.map(|(value, _)| value),
                mask: unit.mask.now.map(|(value, _)| value),
            };
            ((*name).to_owned(), item)
        });
        // A unit of which nothing is said is nothing to a node.
        items.filter(|(_, item)| !item.is_empty()).collect()
    }

    /// Items of one source that a later one replaced with something else, in the order of items, then of sources.
    pub(super) fn shadowed(&self, decoder: &mut Decoder<'a>) -> Vec<Shadowed> {
        let mut found = Vec::new();
        for (path, file) in &self.files {
            let mut digest = |c: &Contents<'a>| decoder.decode(*c).as_ref().ok().map(|d| d.content.digest());
            let mut hidden = Hidden { merged: self, list: "storage.files", found: &mut found };
            let same = |a: &Contents<'a>, b: &Contents<'a>| digest(a) == digest(b);
            hidden.of(format_args!("file {path}"), "contents", &file.contents, same);
            hidden.of(format_args!("mode of file {path}"), "mode", &file.mode, |a, b| a == b);
            let Some(owners) = &file.owners else { continue };
            hidden.of(format_args!("user of file {path}"), "user.id", &owners.user_id, |a, b| a == b);
            hidden.of(format_args!("user of file {path}"), "user.name", &owners.user_name, |a, b| a == b);
            hidden.of(format_args!("group of file {path}"), "group.id", &owners.group_id, |a, b| a == b);
            hidden.of(format_args!("group of file {path}"), "group.name", &owners.group_name, |a, b| a == b);
        }
        for (name, unit) in &self.units {
            let mut hidden = Hidden { merged: self, list: "systemd.units", found: &mut found };
            hidden.of(format_args!("unit {name}"), "contents", &unit.contents, |a, b| a == b);
            for (dropin, field) in &unit.dropins {
                hidden.of(format_args!("drop-in {name}/{dropin}"), "dropins", field, |a, b| a == b);
            }
            hidden.of(format_args!("enabled of unit {name}"), "enabled", &unit.enabled, |a, b| a == b);
            hidden.of(format_args!("mask of unit {name}"), "mask", &unit.mask, |a, b| a == b);
        }
        found
    }

    pub(super) fn source_name(&self, source: usize) -> String {
        let object = &self.sources[source].object;
        object.split_once('/').map_or(object.as_str(), |(_, name)| name).to_owned()
    }

    /// What weighs in the rendered config: bytes as they are encoded, item, and the source that brings it.
    pub(super) fn weights(&self, items: &Items) -> Vec<(u64, String, String)> {
        let files = items.files.iter().map(|(path, file)| {
            let place = self.files.get(path.as_str()).map(|f| f.contents.now.map_or(f.last, |(_, place)| place));
            (file.content.encoded_size() + path.len() as u64, format!("file {path}"), place)
        });
        let units = items.units.iter().map(|(name, unit)| {
            let texts = unit.contents.iter().chain(unit.dropins.values());
            let place = self.units.get(name.as_str()).map(|u| u.contents.now.map_or(u.last, |(_, place)| place));
            (texts.map(|t| t.len() as u64).sum::<u64>() + name.len() as u64, format!("unit {name}"), place)
        });
        let keys = items.keys.iter().map(|keys| {
            (
                keys.iter().map(|k| k.len() as u64).sum(),
                format!("keys of {SSH_USER}"),
                self.keys.values().flatten().next().copied(),
            )
        });
        let all = files.chain(units).chain(keys);
        all.map(|(size, item, place)| (size, item, place.map_or(String::new(), |p| self.source_name(p.source))))
            .collect()
    }
}

/// Collects what is hidden in the items of one list.
struct Hidden<'m, 'a> {
    merged: &'m Merged<'a>,
    list: &'static str,
    found: &'m mut Vec<Shadowed>,
}

impl Hidden<'_, '_> {
    fn of<T>(&mut self, item: Arguments, part: &str, field: &Field<T>, same: impl FnMut(&T, &T) -> bool) {
        if field.hidden.is_empty() {
            return;
        }
        let Some((_, winner)) = &field.now else { return };
        for (_, loser, _) in field.said(same).filter(|(_, _, fate)| *fate == Fate::Hidden) {
            let at = format!("{}[{}].{part}", self.list, loser.index);
            self.found.push(Shadowed {
                item: item.to_string(),
                winner: self.merged.source_name(winner.source),
                loser: self.merged.source_name(loser.source),
                path: validate::below(self.merged.sources[loser.source].at, &at),
            });
        }
    }
}

/// Mode of a file for which no source gives one: made explicit in the rendered config.
const DEFAULT_MODE: u32 = 0o644;

/// Contents of a later source over those of the earlier ones: a source is replaced together with what describes it.
fn laid_over<'a>(below: Option<Contents<'a>>, above: Contents<'a>) -> Option<Contents<'a>> {
    match (below, above) {
        (_, above) if above.source.is_some() => Some(above),
        (_, Contents { compression: None, hash: None, .. }) => None,
        (below, above) => {
            let below = below.unwrap_or_default();
            Some(Contents {
                source: below.source,
                shared: below.shared,
                compression: above.compression.or(below.compression),
                hash: above.hash.or(below.hash),
            })
        }
    }
}

/// One config on its own: its items, or its errors, one line each.
pub(super) fn single(config: &IgnitionConfig) -> (Items, Vec<String>) {
    // A secret is a warning.
    let mut decoder = Decoder::blind();
    let mut found = Vec::new();
    let layer = validate::config(config, &mut decoder, &mut Report { object: "", at: "", found: &mut found });
    let mut merged = Merged::default();
    merged.lay(Source { object: String::new(), at: "" }, &layer);
    let items = merged.items(&mut decoder);
    let errors = found.iter().filter(|f| f.severity == Severity::Error);
    (items, errors.map(|f| format!("{}: {}", f.path, f.message)).collect())
}
