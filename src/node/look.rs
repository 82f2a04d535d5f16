//! A node's disk as a person looks at it, beside a config: the daemon's own comparison, and the lines that differ. Takes no
//! lock and writes nothing, so that it works beside a running daemon; what is shown is then that of a moment.
//!
//! Contents of managed paths are read and shown; nothing else of the disk is.

use super::compare;
use super::disk;
use super::host::{Accounts, Error, Host, Kind, Root};
use super::journal::{NamedConfig, Stored};
use super::layout::{Layout, Want};
use super::transaction::blocking;
use crate::api::ConfigName;
use crate::change::Difference;
use crate::change::text::{self, Blob, Diff, ItemDiff, Side, TextDiff};
use crate::render::item::Item;
use crate::render::items::{Content, Items};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything of mcx on this disk.
pub fn stored(host: &Host) -> Result<Stored, Error> {
    disk::stored(host.root())
}

/// The configs that this disk keeps, the current one first: that, and those of an update that is under way.
pub fn configs(host: &Host, stored: &Stored) -> Result<Vec<NamedConfig>, Error> {
    let journal = stored.journal.iter().flat_map(|open| [&open.from, &open.to]);
    let mut all: Vec<NamedConfig> = stored.current.iter().chain(journal).cloned().collect();
    all.extend(disk::read_named(host.root(), "previous", "move it away")?);
    let mut known: Vec<ConfigName> = Vec::new();
    all.retain(|config| {
        let is_new = !config.name.is_empty() && !known.contains(&config.name);
        known.push(config.name.clone());
        is_new
    });
    Ok(all)
}

/// What this config means for a node.
pub fn items(config: &NamedConfig) -> Result<Items, Error> {
    disk::items(config)
}

/// What of the disk (old) differs from `items` (new). It names exactly what [`disk::Disk::compare`] finds, which is what the
/// daemon calls drift: each finding in words, and the lines where contents differ.
pub async fn diff(host: &Arc<Host>, items: &Items) -> Result<Diff, Error> {
    let found = disk::compare(host, items).await?;
    let accounts = host.accounts()?;
    let (at, items) = (Arc::clone(host), items.clone());
    blocking(move || {
        let mut differing: BTreeMap<Item, Vec<String>> = BTreeMap::new();
        for deviation in found {
            let (item, part) = item(&deviation.item);
            let said = part.map_or_else(|| deviation.what.clone(), |part| format!("{part} {}", deviation.what));
            differing.entry(item).or_default().push(said);
        }
        Look::new(at.root(), &items, &accounts).diff(differing)
    })
    .await
}

/// The item that is named, as in a diff of two configs: a drop-in is a part of its unit.
fn item(name: &str) -> (Item, Option<String>) {
    match Item::read(name).into_iter().next() {
        Some(Item::DropIn { unit, name }) => (Item::Unit(unit), Some(name)),
        Some(item) => (item, None),
        // It takes every text for something.
        None => (Item::Keys, None),
    }
}

struct Look<'a> {
    root: &'a Root,
    /// The managed paths of each item.
    places: BTreeMap<Item, Vec<(String, Want)>>,
}

impl<'a> Look<'a> {
    fn new(root: &'a Root, items: &Items, accounts: &Accounts) -> Self {
        let mut places: BTreeMap<Item, Vec<(String, Want)>> = BTreeMap::new();
        for (path, managed) in Layout::of(items, accounts).places {
            places.entry(item(&managed.item).0).or_default().push((path, managed.want));
        }
        Self { root, places }
    }

    fn diff(&self, differing: BTreeMap<Item, Vec<String>>) -> Result<Diff, Error> {
        let mut diff = Diff::default();
        for (item, deviations) in differing {
            let places = self.places.get(&item).map(Vec::as_slice).unwrap_or_default();
            let mut texts = Vec::new();
            let mut is_there = places.is_empty();
            for (path, want) in places {
                is_there |= self.root.seen(path).map_or(true, |seen| seen.kind != Kind::Absent);
                texts.extend(self.text(path, want)?);
            }
            let difference = if is_there { Difference::Changed } else { Difference::Added };
            diff.items.push(ItemDiff { item: item.to_string(), difference, fields: Vec::new(), deviations, texts });
        }
        Ok(diff)
    }

    /// How the contents at a path differ. None where they do not, and where something else than a file stands or belongs.
    fn text(&self, path: &str, want: &Want) -> Result<Option<TextDiff>, Error> {
        let Want::File(want) = want else { return Ok(None) };
        // Something that the comparison has named already is in the way.
        let Ok(seen) = self.root.seen(path) else { return Ok(None) };
        let new = (Blob::new(want.bytes.size(), &want.bytes.sha256()), Some(Cow::Owned(want.bytes.read(path)?)));
        let old = match seen.kind {
            Kind::Absent => None,
            Kind::File => Some(self.file(path, seen.size)?),
            _ => return Ok(None),
        };
        let is_same = old.as_ref().is_some_and(|(blob, _)| *blob == new.0);
        Ok((!is_same).then(|| text::text(path, old.as_ref(), Some(&new))))
    }

    /// The bytes of a file; of one larger than any that mcx writes, only what it is.
    fn file(&self, path: &str, size: u64) -> Result<Side<'static>, Error> {
        if size > Content::FILE_LIMIT {
            let digest = compare::digest(self.root, path, size)?.unwrap_or_default();
            return Ok((Blob::new(size, &digest), None));
        }
        let bytes = self.root.read(path, Content::FILE_LIMIT).map_err(Error::file("read", path))?;
        Ok((Blob::of(&bytes), Some(Cow::Owned(bytes))))
    }
}
