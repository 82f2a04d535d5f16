//! The node's disk as the rest of the daemon uses it: state, comparison, transaction, watch.

use super::compare::{self, Deviation};
use super::form::{self, Damage};
use super::host::{Error, Host, Kind, Meta, Root, is_absent};
use super::journal::{self, Failed, Journal, NamedConfig, Stage, Stored};
use super::layout::Layout;
use super::originals::{MADE, Originals};
use super::plan::{Observer, Way};
use super::transaction::{Transaction, ancestors, blocking};
use super::watch::Watch;
use super::{check, units};
use crate::api::NodeName;
use crate::render::items::Items;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use super::check::Check;

/// Where mcx keeps its state.
pub const STATE_DIR: &str = "/var/lib/mcx";
/// Two configs of at most 1.5 MiB and a little more; a larger file is none of ours.
const STATE_LIMIT: u64 = 32 << 20;
/// How often a lock that another daemon holds is tried for.
const LOCK_EVERY: Duration = Duration::from_millis(200);

/// The disk of one node. At most one per root: it holds a lock.
pub struct Disk {
    host: Arc<Host>,
    watch: tokio::sync::Mutex<Watch>,
    /// Let go with the process, however it ends.
    lock: Lock,
}

/// The lock of a root. What stands in it says whose the root is, also while nobody holds it.
pub(super) const LOCK: &str = "/var/lib/mcx/lock";
/// Longest text of it that is read, in bytes.
const LOCK_LIMIT: u16 = 4 << 10;

/// A lock that is held. It is let go by word and not only by closing the file: a process that is just being started has
/// that file open too, until it becomes another program.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Where this fails the end of the process does it.
        let _ = self.0.unlock();
    }
}

/// How a comparison looks at an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything that the config manages.
    All,
}

impl Disk {
    /// Takes the lock in `/var/lib/mcx` (0700, made when absent); waits for another mcx up to `patience`, then fails.
    pub async fn open(host: Arc<Host>, patience: Duration) -> Result<Self, Error> {
        let root = host.root();
        let private = Meta { mode: 0o700, uid: 0, gid: 0 };
        let mut made = BTreeSet::new();
        for dir in ancestors(STATE_DIR) {
            if root.seen(dir).map_err(Error::file("look at", dir))?.kind == Kind::Absent {
                made.insert(dir.to_owned());
            }
            root.make_dir(dir, Meta { mode: 0o755, ..private }).map_err(Error::file("make", dir))?;
        }
        for dir in [STATE_DIR.to_owned(), format!("{STATE_DIR}/originals")] {
            root.make_dir(&dir, private).map_err(Error::file("make", &dir))?;
            root.set_dir_meta(&dir, private).map_err(Error::file("set the mode of", &dir))?;
        }
        let until = Instant::now() + patience;
        let lock = loop {
            let file = root.lock_file(LOCK).map_err(Error::file("open", LOCK))?;
            match file.try_lock() {
                // Whoever held it has removed it meanwhile, with all other state: the next one has a file of its own.
                Ok(()) if file.metadata().is_ok_and(|about| about.nlink() == 0) => {}
                Ok(()) => break Lock(file),
                Err(TryLockError::WouldBlock) if Instant::now() < until => tokio::time::sleep(LOCK_EVERY).await,
                Err(TryLockError::WouldBlock) => return Err(Error::Held(LOCK.to_owned())),
                Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(Error::file("lock", LOCK)(error)),
            }
        };
        if !made.is_empty() {
            let originals = Originals::of(root);
            made.extend(originals.made()?);
            originals.set_made(&made)?;
        }
        Ok(Self { host, watch: tokio::sync::Mutex::default(), lock })
    }

    /// Whether all of the state was removed under its holder: what is locked is not what lies there.
    pub fn is_lost(&self) -> bool {
        self.lock.0.metadata().is_ok_and(|about| about.nlink() == 0)
    }

    /// The same root after its state was lost, for the same keeper.
    pub async fn renewed(&self) -> Result<Self, Error> {
        let renewed = Self::open(Arc::clone(&self.host), Duration::ZERO).await?;
        let mut keeper = vec![0; usize::from(LOCK_LIMIT)];
        let length = self.lock.0.read_at(&mut keeper, 0).map_err(Error::file("read", LOCK))?;
        let kept = renewed.lock.0.write_all_at(&keeper[..length], 0).and_then(|()| renewed.lock.0.sync_all());
        kept.map_err(Error::file("write", LOCK))?;
        Ok(renewed)
    }

    /// Says that this root is the daemon's of this node from now on, whether it runs or not.
    pub fn keep_for(&self, node: &NodeName) -> Result<(), Error> {
        let text = format!("kept by the daemon of node {node}\n");
        if read_keeper(self.host.root())?.as_deref() == Some(text.trim_end()) {
            return Ok(());
        }
        let file = &self.lock.0;
        let written =
            file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0)).and_then(|()| file.sync_all());
        written.map_err(Error::file("write", LOCK))
    }

    /// Removes all state, which must be that of the empty config: nothing on the disk is mcx's any more.
    pub fn forget(self) -> Result<(), Error> {
        let root = self.host.root();
        let remove =
            |path: &str| root.place(path).and_then(|place| place.remove()).map_err(Error::file("remove", path));
        let remove_dir = |path: &str| root.remove_empty_dir(path).map_err(Error::file("remove", path));
        let made = Originals::of(root).made()?;
        for name in ["journal", "previous", "failed", "current"] {
            remove_state(root, name)?;
        }
        let originals = format!("{STATE_DIR}/originals");
        let mut names = root.names(&originals).map_err(Error::file("read", &originals))?;
        // Which folders were made is known until all else is gone: a run that is cut off here is finished by the next.
        names.sort_by_key(|name| name == MADE);
        for name in names {
            remove(&format!("{originals}/{}", name.to_string_lossy()))?;
        }
        remove_dir(&originals)?;
        // Last: until here nobody else looks at any of it.
        remove(LOCK)?;
        remove_dir(STATE_DIR)?;
        for dir in ancestors(STATE_DIR).into_iter().rev().filter(|dir| made.contains(*dir)) {
            remove_dir(dir)?;
        }
        Ok(())
    }

    /// The host.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Reads the state. A file that is there but unreadable is an error that names it and the way out; it is never
    /// taken for absent.
    pub fn stored(&self) -> Result<Stored, Error> {
        stored(self.host.root())
    }

    /// What of the disk differs from `items`: existence, type, bytes, mode, owner, unit body, drop-ins, enablement,
    /// mask, keys. All of it.
    pub async fn compare(&self, items: &Items) -> Result<Vec<Deviation>, Error> {
        compare(&self.host, items).await
    }

    /// Whether an update from `from` to `to` can be carried out: each item of `from` equals `from` or `to` on disk
    /// (else it is drift, unless `forced`); what only `to` names may be anything that a file can replace; targets are
    /// writable and on a lasting file system, there is space, users exist, nothing is in the way. Changes nothing.
    pub async fn check(&self, from: &Items, to: &Items, forced: bool) -> Result<Check, Error> {
        let accounts = self.host.accounts()?;
        let (from, to) = (Layout::of(from, &accounts), Layout::of(to, &accounts));
        check::check(&self.host, from, to, accounts, check::Site::Node { forced }).await
    }

    /// Managed paths and units whose original is unknown, so that withdrawing them removes ours and gives nothing back:
    /// the state was lost, or the config was adopted. For the reason that a node reports.
    pub fn without_original(&self, items: &Items) -> Result<Vec<String>, Error> {
        let layout = Layout::of(items, &self.host.accounts()?);
        let originals = Originals::of(self.host.root());
        let mut unknown = Vec::new();
        for (path, managed) in &layout.places {
            if originals.get(path)?.is_none() {
                unknown.push(managed.item.clone());
            }
        }
        for unit in layout.enablement.keys() {
            if originals.enablement(unit)?.is_none() {
                unknown.push(format!("enablement of {unit}"));
            }
        }
        Ok(unknown)
    }

    /// Writes `journal.json`, durably.
    pub fn write_journal(&self, journal: &Journal) -> Result<(), Error> {
        write_journal(self.host.root(), journal)
    }

    /// Carries an opened or switching journal forward up to [`Stage::Written`]: stage, switch, units,
    /// keys, removals and given-back originals, `current.json`. Idempotent: a crashed one is continued by the same call.
    /// On an error before the first switch everything is as before.
    pub async fn forward(&self, journal: &mut Journal) -> Result<(), Error> {
        self.forward_observed(journal, &mut |_| {}).await
    }

    /// The same; `observer` sees each step before it is carried out.
    pub async fn forward_observed(&self, journal: &mut Journal, observer: &mut Observer<'_>) -> Result<(), Error> {
        match journal.stage {
            Stage::Opened | Stage::Switching => {}
            Stage::Written | Stage::Rebooting | Stage::Acted => return Ok(()),
            Stage::Undoing | Stage::Undone => {
                return Err(Error::Other("the update is being undone: it cannot be carried forward".into()));
            }
        }
        let (from, to) = self.layouts(journal)?;
        if let Some(unplaced) = to.unplaced.first() {
            return Err(Error::Other(unplaced.to_string()));
        }
        let transaction = Transaction::new(Arc::clone(&self.host), from, to, Way::Forward, journal.forced);
        transaction.run(journal, observer).await
    }

    /// Brings the old files back, up to [`Stage::Undone`] (before the first switch: only staged files
    /// are removed). Idempotent.
    pub async fn back(&self, journal: &mut Journal) -> Result<(), Error> {
        self.back_observed(journal, &mut |_| {}).await
    }

    /// The same; `observer` sees each step before it is carried out.
    pub async fn back_observed(&self, journal: &mut Journal, observer: &mut Observer<'_>) -> Result<(), Error> {
        if journal.stage == Stage::Undone {
            return Ok(());
        }
        let (from, to) = self.layouts(journal)?;
        if journal.stage == Stage::Opened {
            let transaction = Transaction::new(Arc::clone(&self.host), from, to, Way::Forward, journal.forced);
            return transaction.abandon(journal, observer).await;
        }
        // Undoing is never forced: what somebody wrote meanwhile stays, and is found as drift.
        let transaction = Transaction::new(Arc::clone(&self.host), to, from, Way::Back, false);
        transaction.run(journal, observer).await
    }

    fn layouts(&self, journal: &Journal) -> Result<(Layout, Layout), Error> {
        let accounts = self.host.accounts()?;
        Ok((Layout::of(&items(&journal.from)?, &accounts), Layout::of(&items(&journal.to)?, &accounts)))
    }

    /// Closes the transaction: `previous.json`, `journal.json` and originals that nothing needs any more go.
    pub fn close(&self) -> Result<(), Error> {
        let root = self.host.root();
        // The journal last but for the originals: a crash before that closes again, one after it loses nothing that the
        // next close does not find.
        for name in ["previous", "journal"] {
            remove_state(root, name)?;
        }
        let current: Option<NamedConfig> = read_named(root, "current", "move it away")?;
        let layout = match &current {
            Some(current) => Layout::of(&items(current)?, &self.host.accounts()?),
            None => Layout::default(),
        };
        // Keys of a user who is gone for now are still managed.
        let keep_all_keys = !layout.unplaced.is_empty();
        let originals = Originals::of(root);
        originals.prune(
            &|path| layout.places.contains_key(path) || (keep_all_keys && path.ends_with("/.ssh/authorized_keys")),
            &|unit| layout.enablement.contains_key(unit),
        )?;
        originals.set_links(None)?;
        let made = originals.made()?;
        let mut kept = made.clone();
        for dir in &made {
            // The folders of our own state go last of all.
            let paths = layout.places.keys().map(String::as_str).chain([STATE_DIR]);
            let is_needed = paths.into_iter().any(|path| path.starts_with(&format!("{dir}/")));
            if !is_needed || root.seen(dir).map_err(Error::file("look at", dir))?.kind != Kind::Dir {
                kept.remove(dir);
            }
        }
        if kept == made { Ok(()) } else { originals.set_made(&kept) }
    }

    /// Writes `current.json` without a transaction: adoption of what is on the disk already.
    pub fn adopt(&self, config: &NamedConfig) -> Result<(), Error> {
        write_named(self.host.root(), "current", config)
    }

    /// Writes or removes `failed.json`.
    pub fn set_failed(&self, failed: Option<&Failed>) -> Result<(), Error> {
        match failed {
            Some(failed) => write_state(self.host.root(), &state_path("failed"), "failed", failed),
            None => remove_state(self.host.root(), "failed"),
        }
    }

    /// Ends once anything that `items` manages, or the force file, may have changed (inotify on parents, debounced).
    /// Misses are found by the caller's sweep. It ends at once when it begins to watch something: what happened before
    /// that was not seen. An error (no watches left) comes back at once each time: wait for the sweep then.
    pub async fn changed(&self, items: &Items) -> Result<(), Error> {
        let layout = Layout::of(items, &self.host.accounts()?);
        self.watch.lock().await.changed(self.host.root(), &layout).await
    }
}

/// The state, read without the lock: of a root that another mcx works on it is that of a moment.
pub(super) fn stored(root: &Root) -> Result<Stored, Error> {
    let current = read_named(
        root,
        "current",
        "move it away: the daemon then adopts what the Node's annotations say, and what stood there before mcx stays known",
    )?;
    let journal = open_journal(root)?;
    let failed = read_state(
        root,
        &state_path("failed"),
        "failed",
        STATE_LIMIT,
        "move it away: the config that failed is then tried once more",
    )?;
    Ok(Stored { current, journal, failed })
}

/// The open transaction, read without the lock.
pub(super) fn open_journal(root: &Root) -> Result<Option<Journal>, Error> {
    let journal: Option<Journal> = read_state(
        root,
        &state_path("journal"),
        "journal",
        STATE_LIMIT,
        "move it away: an update that was under way then shows as drift, and the force file finishes it",
    )?;
    if let Some(journal) = &journal
        && journal.version > journal::VERSION
    {
        let damage = Damage::Newer(journal.version);
        return Err(Error::Other(format!("{} {damage}", state_path("journal"))));
    }
    Ok(journal)
}

/// What tells one journal file from another, since each is a new file: number, time and size.
pub(super) type Stamp = (u64, i64, i64, u64);

/// That of the journal; none when there is none.
pub(super) fn journal_stamp(root: &Root) -> Result<Option<Stamp>, Error> {
    let path = state_path("journal");
    match root.file(&path).and_then(|(file, _)| file.metadata()) {
        Ok(about) => Ok(Some((about.ino(), about.mtime(), about.mtime_nsec(), about.size()))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Error::file("look at", &path)(error)),
    }
}

/// Whose the root is, when it is a daemon's; none when it is nobody's.
pub(super) fn read_keeper(root: &Root) -> Result<Option<String>, Error> {
    match root.read(LOCK, LOCK_LIMIT.into()) {
        Ok(text) => Ok(Some(String::from_utf8_lossy(&text).trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Error::file("read", LOCK)(error)),
    }
}

/// What a config means. It was accepted before it was written here.
pub(super) fn items(config: &NamedConfig) -> Result<Items, Error> {
    Items::from_stored(&config.config, &config.contents)
        .map_err(|why| Error::Other(format!("config {} cannot be read: {why}", config.name)))
}

/// The comparison of [`Disk::compare`], which needs no lock.
pub(super) async fn compare(host: &Arc<Host>, items: &Items) -> Result<Vec<Deviation>, Error> {
    let accounts = host.accounts()?;
    let layout = Arc::new(Layout::of(items, &accounts));
    let (at, of) = (Arc::clone(host), Arc::clone(&layout));
    let mut found = blocking(move || compare::places(at.root(), &of, &accounts)).await?;
    let units: Vec<&str> = layout.enablement.keys().map(String::as_str).collect();
    let words = units::words(host, &units).await?;
    found.extend(compare::enablements(host.root(), &layout, &words)?);
    found.sort();
    Ok(found)
}

fn state_path(name: &str) -> String {
    format!("{STATE_DIR}/{name}.json")
}

pub(super) fn read_named(root: &Root, name: &str, way_out: &str) -> Result<Option<NamedConfig>, Error> {
    read_state(root, &state_path(name), name, STATE_LIMIT, way_out)
}

pub(super) fn write_named(root: &Root, name: &str, config: &NamedConfig) -> Result<(), Error> {
    write_state(root, &state_path(name), name, config)
}

pub(super) fn write_journal(root: &Root, journal: &Journal) -> Result<(), Error> {
    write_state(root, &state_path("journal"), "journal", journal)
}

pub(super) fn read_state<T: DeserializeOwned>(
    root: &Root,
    path: &str,
    kind: &str,
    limit: u64,
    way_out: &str,
) -> Result<Option<T>, Error> {
    let bytes = match root.read(path, limit) {
        Ok(bytes) => bytes,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(Error::file("read", path)(error)),
    };
    form::decode(kind, &bytes).map(Some).map_err(|damage| match damage {
        Damage::Newer(_) => Error::Other(format!("{path} {damage}")),
        Damage::Damaged(_) => Error::Other(format!("{path} {damage}; {way_out}")),
    })
}

/// What [`write_state`] writes.
pub(super) fn state_bytes<T: Serialize>(path: &str, kind: &str, value: &T) -> Result<Vec<u8>, Error> {
    form::encode(kind, value).map_err(|error| Error::file("write", path)(error.into()))
}

fn write_state<T: Serialize>(root: &Root, path: &str, kind: &str, value: &T) -> Result<(), Error> {
    let bytes = state_bytes(path, kind, value)?;
    root.write_durably(path, &bytes, Meta { mode: 0o600, uid: 0, gid: 0 }).map_err(Error::file("write", path))
}

fn remove_state(root: &Root, name: &str) -> Result<(), Error> {
    let path = state_path(name);
    let place = root.place(&path).map_err(Error::file("open", &path))?;
    let remove = || {
        // What a crash left half written is found by its name: with the file it goes too.
        place.unstage()?;
        if place.seen()?.kind == Kind::Absent {
            return Ok(());
        }
        place.remove().and_then(|()| place.sync())
    };
    remove().map_err(Error::file("remove", &path))
}
