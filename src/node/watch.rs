//! Tells that something managed may have changed: inotify on parents.
//!
//! A file's own watch dies when it is replaced (L-07), so folders are watched, and of each folder on the way to a
//! managed path the one name that leads on: a folder that is swapped, or made later, is seen too. Events are a hint; the
//! sweep is the truth. One instance is kept for the disk's life.

use super::host::{Error, FORCE_FILE, Root, STAGED_PREFIX, fd_path, is_absent, split};
use super::layout::{Layout, RUNTIME_UNIT_DIR, UNIT_DIR};
use super::transaction::ancestors;
use futures::StreamExt as _;
use inotify::{EventMask, EventStream, Inotify, WatchDescriptor, WatchMask};
use nix::sys::stat::fstat;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// Quiet for this long ends a burst.
const QUIET: Duration = Duration::from_millis(100);
/// A burst is reported after this long at the latest.
const BURST: Duration = Duration::from_millis(400);
/// Room for many events at once; a queue that overflows is an event of its own.
const BUFFER: usize = 16 << 10;

/// What of a folder is of interest: some names, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Names {
    Some(BTreeSet<String>),
    All,
}

/// By folder; and which folder is there now (device and inode), since another may take its place.
type Wanted = BTreeMap<String, (Names, (u64, u64))>;

/// The watch of a disk.
#[derive(Default)]
pub(super) struct Watch {
    armed: Option<Armed>,
    /// An event was taken from the queue and not reported yet: the caller may have stopped waiting in between.
    pending: bool,
    /// When the queue last overflowed, or a watched folder went.
    lost: Option<Instant>,
}

struct Armed {
    stream: EventStream<Vec<u8>>,
    /// What is watched.
    wanted: Wanted,
    /// Several paths may lead to one folder.
    names: HashMap<WatchDescriptor, Names>,
}

impl Watch {
    /// Ends when something may have changed.
    pub(super) async fn changed(&mut self, root: &Root, layout: &Layout) -> Result<(), Error> {
        if let Some(lost) = self.lost {
            // Who makes so many events that some are lost goes on with it: it is heard as often as any burst.
            tokio::time::sleep_until(lost + BURST).await;
            self.lost = None;
        }
        let wanted = wanted(root, layout)?;
        if self.armed.as_ref().is_none_or(|armed| armed.wanted != wanted) {
            self.armed = None;
            self.armed = Some(Armed::new(root, wanted)?);
            // What happened before the watch was there is unknown.
            self.pending = false;
            return Ok(());
        }
        let Some(armed) = &mut self.armed else { return Ok(()) };
        while !self.pending {
            match armed.next().await? {
                Seen::Nothing => {}
                Seen::Something => self.pending = true,
                Seen::Lost => {
                    self.lose();
                    return Ok(());
                }
            }
        }
        let end = Instant::now() + BURST;
        loop {
            let quiet = (Instant::now() + QUIET).min(end);
            match tokio::time::timeout_at(quiet, armed.next()).await {
                Err(_) => break,
                Ok(seen) => {
                    if seen? == Seen::Lost {
                        self.lose();
                        break;
                    }
                }
            }
            if Instant::now() >= end {
                break;
            }
        }
        self.pending = false;
        Ok(())
    }

    fn lose(&mut self) {
        self.armed = None;
        self.lost = Some(Instant::now());
    }
}

#[derive(PartialEq, Eq)]
enum Seen {
    Nothing,
    Something,
    /// A watched folder is gone, or events are: all has to be set up anew.
    Lost,
}

impl Armed {
    fn new(root: &Root, wanted: Wanted) -> Result<Self, Error> {
        let fails = || Error::file("watch", "the managed folders (fs.inotify.max_user_instances)");
        let stream = Inotify::init().and_then(|inotify| inotify.into_event_stream(vec![0; BUFFER])).map_err(fails())?;
        let mut watches = stream.watches();
        let mask = WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVE
            | WatchMask::MODIFY
            | WatchMask::CLOSE_WRITE
            | WatchMask::ATTRIB
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        let mut names: HashMap<WatchDescriptor, Names> = HashMap::new();
        for (path, (wants, _)) in &wanted {
            let dir = match root.dir(path) {
                Ok(dir) => dir,
                // Gone since it was looked for; its parent is watched.
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(Error::file("watch", path)(error)),
            };
            let watch = watches.add(fd_path(&dir), mask).map_err(Error::file("watch", path))?;
            names.entry(watch).and_modify(|known| known.add(wants)).or_insert_with(|| wants.clone());
        }
        Ok(Self { stream, wanted, names })
    }

    async fn next(&mut self) -> Result<Seen, Error> {
        let Some(event) = self.stream.next().await else { return Ok(Seen::Lost) };
        let event = event.map_err(Error::file("watch", "the managed folders"))?;
        if event.mask.intersects(
            EventMask::Q_OVERFLOW
                | EventMask::IGNORED
                | EventMask::DELETE_SELF
                | EventMask::MOVE_SELF
                | EventMask::UNMOUNT,
        ) {
            return Ok(Seen::Lost);
        }
        let name = event.name.as_deref().map(std::ffi::OsStr::to_string_lossy);
        let is_wanted = match (self.names.get(&event.wd), name) {
            (_, Some(name)) if name.starts_with(STAGED_PREFIX) => false,
            (Some(Names::Some(names)), Some(name)) => names.contains(name.as_ref()),
            // Of the folder itself: its mode or owner, which is not managed.
            (_, None) => false,
            _ => true,
        };
        Ok(if is_wanted { Seen::Something } else { Seen::Nothing })
    }
}

impl Names {
    fn add(&mut self, more: &Self) {
        match (&mut *self, more) {
            (Self::Some(known), Self::Some(more)) => known.extend(more.iter().cloned()),
            _ => *self = Self::All,
        }
    }
}

/// Folders that are there now, with the names in them that lead to something managed.
fn wanted(root: &Root, layout: &Layout) -> Result<Wanted, Error> {
    let mut names = all_names(layout);
    // A folder of links is of interest whole: any name in it may enable a managed unit.
    for name in root.names(UNIT_DIR).map_err(Error::file("read", UNIT_DIR))? {
        let name = name.to_string_lossy();
        if !layout.enablement.is_empty() && [".wants", ".requires", ".upholds"].iter().any(|end| name.ends_with(end)) {
            names
                .entry(UNIT_DIR.to_owned())
                .or_insert_with(|| Names::Some(BTreeSet::new()))
                .add(&Names::Some([name.to_string()].into()));
            names.insert(format!("{UNIT_DIR}/{name}"), Names::All);
        }
    }
    let mut wanted = Wanted::new();
    for (path, names) in names {
        let Ok(dir) = root.dir(&path) else { continue };
        let stat = fstat(&dir).map_err(|errno| Error::file("look at", &path)(errno.into()))?;
        wanted.insert(path, (names, (stat.st_dev, stat.st_ino)));
    }
    Ok(wanted)
}

/// The same without a look at the disk.
fn all_names(layout: &Layout) -> BTreeMap<String, Names> {
    let mut names: BTreeMap<String, Names> = BTreeMap::new();
    let mut add = |path: &str| {
        for step in ancestors(path).into_iter().chain([path]) {
            let (parent, name) = split(step);
            let more = Names::Some([name.to_owned()].into());
            names.entry(parent.to_owned()).and_modify(|known| known.add(&more)).or_insert(more);
        }
    };
    for path in layout.places.keys() {
        add(path);
        for rival in layout.rivals(path) {
            add(&rival);
        }
    }
    for (unit, _) in layout.units.iter().filter(|(_, unit)| unit.mask.is_some()) {
        add(&format!("{RUNTIME_UNIT_DIR}/{unit}"));
    }
    // A user that is created gives keys and files their place.
    for path in [FORCE_FILE, "/etc/passwd", "/etc/group"] {
        add(path);
    }
    if !layout.enablement.is_empty() {
        // The first link makes its folder, and aliases are links beside the unit.
        add(UNIT_DIR);
        names.insert(UNIT_DIR.to_owned(), Names::All);
    }
    names
}
