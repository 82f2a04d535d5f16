//! The story of an item: which sources speak of it, in order, which of them wins field by field, and what comes of it.
//!
//! Told from the merge itself, so that it cannot disagree with what is rendered. Contents are named by size and digest,
//! never shown.

use super::item::Item;
use super::items::{Content, Items, Owner};
use super::layer::Contents;
use super::merge::{Fate, Field, Merged, Place};
use super::validate::Decoder;
use crate::api::{MachineConfig, MachineConfigPool};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fmt;

/// How much of a digest people are shown.
const SHORT_DIGEST: usize = 12;

/// The story of one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Story {
    /// The item.
    pub item: Item,
    /// Its fields: of a file `contents`, `mode`, `user` and `group`; of a unit `contents`, `enabled` and `mask`; of a drop-in
    /// `contents`; of keys one `key` each.
    pub fields: Vec<FieldStory>,
    /// Sources that name the item and say nothing of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
}

/// The story of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldStory {
    /// Its name.
    pub field: &'static str,
    /// What holds, as printed: `0644`, `disabled`, `124 bytes, sha256 …`.
    pub value: String,
    /// All that sources say of it, in order; empty when none does: then `value` is what mcx takes without.
    pub said: Vec<Said>,
}

/// What one source says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// Name of the source.
    pub source: String,
    /// What became of it.
    pub fate: Fate,
    /// As printed.
    pub value: String,
}

/// The stories of all items that the sources of `pool` speak of: files, units each with its drop-ins, keys. Empty when the
/// sources cannot be rendered; what is wrong then is [`super::render`]'s to say.
pub fn stories(pool: &MachineConfigPool, all: &[MachineConfig]) -> Vec<Story> {
    let (laid, merged) = super::merged(pool, all);
    match laid.result {
        Some((items, _)) => merged.stories(&items, &mut Decoder::default()),
        None => Vec::new(),
    }
}

/// Contents as they are named here.
fn named(size: u64, sha256: &[u8]) -> String {
    format!("{size} bytes, sha256 {}", super::items::hex(sha256))
}

fn text(text: &str) -> String {
    if text.is_empty() { "none".to_owned() } else { named(text.len() as u64, &Sha256::digest(text.as_bytes())) }
}

fn content(content: &Content) -> String {
    named(content.size(), content.sha256())
}

fn enabled(enabled: bool) -> String {
    if enabled { "enabled" } else { "disabled" }.to_owned()
}

fn masked(masked: bool) -> String {
    if masked { "masked" } else { "not masked" }.to_owned()
}

/// What a unit has of which no source speaks.
const UNTOUCHED: &str = "as the node has it";

impl<'a> Merged<'a> {
    fn stories(&self, items: &Items, decoder: &mut Decoder<'a>) -> Vec<Story> {
        let mut stories = Vec::new();
        for (path, file) in &self.files {
            let Some(result) = items.files.get(*path) else { continue };
            let mut known = |c: &Contents<'a>| decoder.decode(*c).as_ref().ok().map(|d| d.content.clone());
            // The same contents in another encoding are the same.
            let contents: Vec<(&Contents<'a>, Place, Fate)> = file.contents.said(|a, b| known(a) == known(b)).collect();
            let contents = contents.into_iter().map(|(value, place, fate)| {
                self.said(known(value).as_ref().map_or_else(|| "unreadable".to_owned(), content), place, fate)
            });
            let contents = contents.collect();
            let owner = |id: &Field<u32>, name: &Field<&str>| match name.now {
                Some((text, _)) if !text.is_empty() => self.told(name, |name| (*name).to_owned()),
                _ => self.told(id, ToString::to_string),
            };
            let both = file
                .owners
                .as_ref()
                .map(|owners| (owner(&owners.user_id, &owners.user_name), owner(&owners.group_id, &owners.group_name)));
            let (user, group) = both.unwrap_or_default();
            let printed = |owner: &Owner| match owner {
                Owner::Id(id) => id.to_string(),
                Owner::Name(name) => name.clone(),
            };
            let fields = vec![
                FieldStory { field: "contents", value: content(&result.content), said: contents },
                FieldStory {
                    field: "mode",
                    value: format!("{:04o}", result.mode),
                    said: self.told(&file.mode, |mode| format!("{mode:04o}")),
                },
                FieldStory { field: "user", value: printed(&result.user), said: user },
                FieldStory { field: "group", value: printed(&result.group), said: group },
            ];
            stories.push(self.story(Item::File((*path).to_owned()), fields, &file.named()));
        }
        for (name, unit) in &self.units {
            let result = items.units.get(*name);
            let body = result.and_then(|u| u.contents.as_deref());
            let fields = vec![
                FieldStory {
                    field: "contents",
                    value: body.map_or_else(|| "none".to_owned(), text),
                    said: self.told(&unit.contents, |t| text(t)),
                },
                FieldStory {
                    field: "enabled",
                    value: result.and_then(|u| u.enabled).map_or_else(|| UNTOUCHED.to_owned(), enabled),
                    said: self.told(&unit.enabled, |e| enabled(*e)),
                },
                FieldStory {
                    field: "mask",
                    value: result.and_then(|u| u.mask).map_or_else(|| UNTOUCHED.to_owned(), masked),
                    said: self.told(&unit.mask, |m| masked(*m)),
                },
            ];
            // A source that brings a drop-in has said something of the unit.
            let dropins =
                unit.dropins.values().flat_map(|field| field.said(|_, _| true)).map(|(_, place, _)| place.source);
            let spoke: BTreeSet<usize> = dropins.collect();
            let named: Vec<usize> = unit.named.iter().copied().filter(|source| !spoke.contains(source)).collect();
            stories.push(self.story(Item::Unit((*name).to_owned()), fields, &named));
            for (dropin, field) in &unit.dropins {
                let body = result.and_then(|u| u.dropins.get(*dropin));
                let fields = vec![FieldStory {
                    field: "contents",
                    value: body.map_or_else(|| "none".to_owned(), |t| text(t)),
                    said: self.told(field, |t| text(t)),
                }];
                let item = Item::DropIn { unit: (*name).to_owned(), name: (*dropin).to_owned() };
                stories.push(self.story(item, fields, &[]));
            }
        }
        if !self.keys.is_empty() {
            let fields = self.keys.iter().map(|(key, places)| FieldStory {
                field: "key",
                value: (*key).to_owned(),
                // Nothing replaces a key: the first source that brings it is enough.
                said: places
                    .iter()
                    .enumerate()
                    .map(|(i, place)| {
                        self.said((*key).to_owned(), *place, if i == 0 { Fate::Wins } else { Fate::Same })
                    })
                    .collect(),
            });
            let fields = fields.collect();
            stories.push(self.story(Item::Keys, fields, &[]));
        }
        stories
    }

    fn told<T: PartialEq>(&self, field: &Field<T>, print: impl Fn(&T) -> String) -> Vec<Said> {
        field.said(|a, b| a == b).map(|(value, place, fate)| self.said(print(value), place, fate)).collect()
    }

    fn said(&self, value: String, place: Place, fate: Fate) -> Said {
        Said { source: self.source_name(place.source), fate, value }
    }

    fn story(&self, item: Item, fields: Vec<FieldStory>, named: &[usize]) -> Story {
        let spoke: BTreeSet<&str> = fields.iter().flat_map(|f| &f.said).map(|s| s.source.as_str()).collect();
        let mut silent: Vec<String> = named.iter().map(|source| self.source_name(*source)).collect();
        silent.retain(|source| !spoke.contains(source.as_str()));
        Story { item, fields, silent }
    }
}

impl fmt::Display for Story {
    /// A line for the item, one for each field and its value, and where several sources speak of a field one for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.item)?;
        for field in &self.fields {
            let value = shortened(&field.value);
            match field.said.as_slice() {
                [] => writeln!(f, "  {}: {value}, no source says", field.field)?,
                [only] => writeln!(f, "  {}: {value}, from {}", field.field, only.source)?,
                several => {
                    writeln!(f, "  {}: {value}", field.field)?;
                    for said in several {
                        match said.fate {
                            Fate::Wins => writeln!(f, "    {} wins", said.source)?,
                            Fate::Same => writeln!(f, "    {} says the same", said.source)?,
                            Fate::Hidden => writeln!(f, "    {} is hidden: {}", said.source, shortened(&said.value))?,
                        }
                    }
                }
            }
        }
        for source in &self.silent {
            writeln!(f, "  {source} names it and says nothing of it")?;
        }
        Ok(())
    }
}

/// A value with its digest cut, and whatever could confuse a terminal escaped.
fn shortened(value: &str) -> String {
    let short = match value.split_once("sha256 ") {
        Some((before, digest)) if digest.len() == 64 => {
            format!("{before}sha256 {}…", digest.get(..SHORT_DIGEST).unwrap_or(digest))
        }
        _ => value.to_owned(),
    };
    short.chars().flat_map(|c| if c.is_control() { c.escape_debug().collect() } else { vec![c] }).collect()
}
