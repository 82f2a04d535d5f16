//! What stood at a path before mcx first wrote it, and how a unit was enabled: kept until the path is given back.
//!
//! Recorded on first touch and never guessed later. A managed path without a record is one whose original
//! is unknown: the state was lost, or the config was adopted from a disk that had it already.

use super::disk::STATE_DIR;
use super::form;
use super::host::{Error, Kind, Meta, Place, Root, Seen};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

const KIND: &str = "original";
const KIND_ENABLEMENT: &str = "enablement";
const LINKS: &str = "links.json";
const KIND_MADE: &str = "made";
/// Names the directories that mcx made.
pub(super) const MADE: &str = "made.json";
/// Records are small; a larger file is none.
const RECORD_LIMIT: u64 = 4 << 20;
const PRIVATE: Meta = Meta { mode: 0o600, uid: 0, gid: 0 };

/// What stood at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Original {
    path: String,
    #[serde(flatten)]
    pub(super) was: Was,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "was", rename_all = "camelCase")]
pub(super) enum Was {
    Nothing,
    File {
        mode: u32,
        uid: u32,
        gid: u32,
        size: u64,
        sha256: String,
        blob: String,
    },
    /// The target in hex: it need not be text.
    Link {
        target: String,
        uid: u32,
        gid: u32,
    },
    Fifo {
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Dir {
        mode: u32,
        uid: u32,
        gid: u32,
    },
}

/// How a unit was enabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Enablement {
    unit: String,
    /// What `systemctl is-enabled` said.
    pub(super) word: String,
    /// The links of it and of its `Also=` siblings below `/etc/systemd/system`, with their targets.
    pub(super) links: BTreeMap<String, String>,
    /// Which units these are.
    pub(super) units: BTreeSet<String>,
    /// The `.wants` and `.requires` folders that were there for these links, or empty.
    pub(super) dirs: BTreeSet<String>,
}

impl Enablement {
    pub(super) fn new(
        unit: &str,
        word: String,
        links: BTreeMap<String, String>,
        units: BTreeSet<String>,
        dirs: BTreeSet<String>,
    ) -> Self {
        Self { unit: unit.to_owned(), word, links, units, dirs }
    }
}

impl Original {
    /// Whether it was, or is as good as, a mask of a unit.
    pub(super) fn is_mask(&self) -> bool {
        match &self.was {
            Was::Link { target, .. } => form::unhex(target).is_some_and(|target| target.ends_with(b"/dev/null")),
            Was::File { size, .. } => *size == 0,
            _ => false,
        }
    }

    /// Whether this is what stands there now.
    pub(super) fn stands(&self, root: &Root) -> Result<bool, Error> {
        let seen = root.seen(&self.path).map_err(Error::file("look at", &self.path))?;
        let meta = |mode: &u32, uid: &u32, gid: &u32| (seen.mode, seen.uid, seen.gid) == (*mode, *uid, *gid);
        Ok(match (&self.was, &seen.kind) {
            (Was::Nothing, Kind::Absent) => true,
            (Was::Link { target, uid, gid }, Kind::Link(found)) => {
                form::hex(found) == *target && (seen.uid, seen.gid) == (*uid, *gid)
            }
            (Was::Fifo { mode, uid, gid }, Kind::Fifo) | (Was::Dir { mode, uid, gid }, Kind::Dir) => {
                meta(mode, uid, gid)
            }
            (Was::File { mode, uid, gid, size, sha256, .. }, Kind::File) => {
                meta(mode, uid, gid)
                    && seen.size == *size
                    && super::compare::digest(root, &self.path, *size)?
                        .is_some_and(|digest| form::hex(&digest) == *sha256)
            }
            _ => false,
        })
    }
}

/// The records below `/var/lib/mcx/originals`.
pub(super) struct Originals<'a> {
    root: &'a Root,
    /// Records are durable only after [`Originals::flush`].
    is_late: bool,
}

impl<'a> Originals<'a> {
    pub(super) fn of(root: &'a Root) -> Self {
        Self { root, is_late: false }
    }

    /// For many records: their folder is flushed once, by [`Originals::flush`], and not with each.
    pub(super) fn late(root: &'a Root) -> Self {
        Self { root, is_late: true }
    }

    /// Makes all records durable that were written late.
    pub(super) fn flush(&self) -> Result<(), Error> {
        let dir = format!("{STATE_DIR}/originals");
        self.root.sync_dir(&dir).map_err(Error::file("flush", &dir))
    }

    /// The record of a path.
    pub(super) fn get(&self, path: &str) -> Result<Option<Original>, Error> {
        self.read(&format!("p-{}.json", key(path)), KIND)
    }

    /// The record of a unit's enablement.
    pub(super) fn enablement(&self, unit: &str) -> Result<Option<Enablement>, Error> {
        self.read(&format!("u-{}.json", key(unit)), KIND_ENABLEMENT)
    }

    /// The records of the enablement of all units that are asked for.
    pub(super) fn enablements(&self, of: &dyn Fn(&str) -> bool) -> Result<Vec<Enablement>, Error> {
        let dir = format!("{STATE_DIR}/originals");
        let mut found = Vec::new();
        for name in self.root.names(&dir).map_err(Error::file("read", &dir))? {
            let Some(name) = name.to_str().filter(|name| name.starts_with("u-")) else { continue };
            found.extend(self.read(name, KIND_ENABLEMENT)?.filter(|record: &Enablement| of(&record.unit)));
        }
        Ok(found)
    }

    /// Records what stands at `path` now, in place of an earlier record.
    pub(super) fn record(&self, path: &str, seen: &Seen) -> Result<(), Error> {
        let (mode, uid, gid) = (seen.mode, seen.uid, seen.gid);
        let was = match &seen.kind {
            Kind::Absent => Was::Nothing,
            Kind::File => self.keep(path)?,
            Kind::Link(target) => Was::Link { target: form::hex(target), uid, gid },
            Kind::Fifo => Was::Fifo { mode, uid, gid },
            Kind::Dir => Was::Dir { mode, uid, gid },
            Kind::Socket | Kind::Device => {
                return Err(Error::Other(format!(
                    "{path} is a socket or device; mcx does not replace it, move it away"
                )));
            }
        };
        self.write(&format!("p-{}.json", key(path)), KIND, &Original { path: path.to_owned(), was })
    }

    /// Records how a unit is enabled.
    pub(super) fn record_enablement(&self, enablement: &Enablement) -> Result<(), Error> {
        self.write(&format!("u-{}.json", key(&enablement.unit)), KIND_ENABLEMENT, enablement)
    }

    /// Copies a file; the two names of a path's copies take turns, so that the one that the present record names is
    /// never written over.
    fn keep(&self, path: &str) -> Result<Was, Error> {
        let names = [format!("b-{}-0", key(path)), format!("b-{}-1", key(path))];
        let used = match self.get(path) {
            Ok(Some(Original { was: Was::File { blob, .. }, .. })) => blob,
            // A record that cannot be read is about to be replaced by one that can.
            _ => String::new(),
        };
        let [first, second] = names;
        let blob = if used == first { second } else { first };
        let (file, seen) = self.root.file(path).map_err(Error::file("read", path))?;
        let at = format!("{STATE_DIR}/originals/{blob}");
        let fails = || Error::file("write", &at);
        let place = self.place(&blob)?;
        place.unstage().map_err(fails())?;
        let mut source = Source::new(file.take(seen.size));
        let staged = place.stage_file(&mut source, PRIVATE);
        if staged.is_err() {
            // The cause is what counts. What fills the disk must not stay: the way back needs space, too.
            let _ = place.unstage();
        }
        let digest =
            staged.map_err(if source.has_failed { Error::file("read", path) } else { Error::file("write", &at) })?;
        place.switch().and_then(|()| place.sync()).map_err(fails())?;
        // Its size is that of the copy: the file may have been cut short meanwhile.
        let (mode, uid, gid, size) = (seen.mode, seen.uid, seen.gid, source.read);
        Ok(Was::File { mode, uid, gid, size, sha256: form::hex(&digest), blob })
    }

    /// Stages an original beside its path; nothing for "nothing".
    pub(super) fn stage(&self, original: &Original, place: &Place) -> Result<(), Error> {
        let fails = || Error::file("give back", &original.path);
        match &original.was {
            Was::Nothing => Ok(()),
            Was::Link { target, uid, gid } => {
                let target = form::unhex(target).unwrap_or_default();
                place.stage_link(&target, *uid, *gid).map_err(fails())
            }
            Was::Fifo { mode, uid, gid } => {
                place.stage_fifo(Meta { mode: *mode, uid: *uid, gid: *gid }).map_err(fails())
            }
            Was::Dir { mode, uid, gid } => place.stage_dir(Meta { mode: *mode, uid: *uid, gid: *gid }).map_err(fails()),
            Was::File { mode, uid, gid, sha256, blob, .. } => {
                let at = format!("{STATE_DIR}/originals/{blob}");
                let (mut file, _) = self.root.file(&at).map_err(Error::file("read", &at))?;
                let meta = Meta { mode: *mode, uid: *uid, gid: *gid };
                let digest = place.stage_file(&mut file, meta).map_err(fails())?;
                if form::hex(&digest) == *sha256 {
                    return Ok(());
                }
                Err(Error::Other(format!(
                    "{at} is damaged (its checksum differs): the original of {} is lost; put the wanted file there by \
                     hand and move the p-*.json of the same digits away",
                    original.path
                )))
            }
        }
    }

    /// The links of before the open update.
    pub(super) fn links(&self) -> Result<Option<Enablement>, Error> {
        self.read(LINKS, KIND_ENABLEMENT)
    }

    /// Sets or drops them.
    pub(super) fn set_links(&self, links: Option<&Enablement>) -> Result<(), Error> {
        if let Some(links) = links {
            return self.write(LINKS, KIND_ENABLEMENT, links);
        }
        let at = format!("{STATE_DIR}/originals/{LINKS}");
        self.place(LINKS)?.remove().map_err(Error::file("remove", &at))
    }

    /// Directories that mcx made.
    pub(super) fn made(&self) -> Result<BTreeSet<String>, Error> {
        Ok(self.read(MADE, KIND_MADE)?.unwrap_or_default())
    }

    /// Sets them.
    pub(super) fn set_made(&self, made: &BTreeSet<String>) -> Result<(), Error> {
        self.write(MADE, KIND_MADE, made)
    }

    /// Drops what nothing needs any more: all but the records of these paths and units.
    pub(super) fn prune(
        &self,
        keep_path: &dyn Fn(&str) -> bool,
        keep_unit: &dyn Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let dir = format!("{STATE_DIR}/originals");
        let names = self.root.names(&dir).map_err(Error::file("read", &dir))?;
        let mut blobs = BTreeSet::new();
        let (mut records, mut copies) = (Vec::new(), Vec::new());
        for name in names.iter().filter_map(|name| name.to_str()) {
            let keep = if name.starts_with("p-") {
                let record: Option<Original> = self.read(name, KIND)?;
                let kept = record.filter(|record| keep_path(&record.path));
                if let Some(Original { was: Was::File { blob, .. }, .. }) = &kept {
                    blobs.insert(blob.clone());
                }
                kept.is_some()
            } else if name.starts_with("u-") {
                let record: Option<Enablement> = self.read(name, KIND_ENABLEMENT)?;
                record.is_some_and(|record| keep_unit(&record.unit))
            } else if name.starts_with("b-") {
                copies.push(name);
                continue;
            } else {
                continue;
            };
            if !keep {
                records.push(name);
            }
        }
        copies.retain(|name| !blobs.contains(*name));
        if records.is_empty() && copies.is_empty() {
            return Ok(());
        }
        // Records first: a record must never name a copy that is gone.
        for name in records.into_iter().chain(copies) {
            let at = format!("{dir}/{name}");
            self.place(name)?.remove().map_err(Error::file("remove", &at))?;
        }
        self.flush()
    }

    fn place(&self, name: &str) -> Result<Place, Error> {
        let at = format!("{STATE_DIR}/originals/{name}");
        self.root.place(&at).map_err(Error::file("open", &at))
    }

    fn read<T: serde::de::DeserializeOwned>(&self, name: &str, kind: &str) -> Result<Option<T>, Error> {
        let at = format!("{STATE_DIR}/originals/{name}");
        let way_out = "what stood at its path before mcx is lost with it: move it away, then its path is left empty when withdrawn";
        super::disk::read_state(self.root, &at, kind, RECORD_LIMIT, way_out)
    }

    fn write<T: Serialize>(&self, name: &str, kind: &str, value: &T) -> Result<(), Error> {
        let at = format!("{STATE_DIR}/originals/{name}");
        let bytes = super::disk::state_bytes(&at, kind, value)?;
        let written = self.root.replace(&at, &bytes, PRIVATE);
        written.and_then(|place| if self.is_late { Ok(()) } else { place.sync() }).map_err(Error::file("write", &at))
    }
}

/// What is copied, so that an error is told of the side that it is on.
pub(super) struct Source<R> {
    of: R,
    /// Bytes until now.
    read: u64,
    pub(super) has_failed: bool,
}

impl<R> Source<R> {
    pub(super) fn new(of: R) -> Self {
        Self { of, read: 0, has_failed: false }
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, part: &mut [u8]) -> std::io::Result<usize> {
        let read = self.of.read(part);
        self.read += read.as_ref().map_or(0, |count| *count as u64);
        self.has_failed = read.as_ref().is_err_and(|error| error.kind() != std::io::ErrorKind::Interrupted);
        read
    }
}

/// File names of a fixed length for paths of any.
fn key(of: &str) -> String {
    form::hex(&Sha256::digest(of.as_bytes())[..16])
}
