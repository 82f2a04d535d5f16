//! Carries the steps of an update out, forward or back.
//!
//! Every step looks at the disk first and does nothing when it is done already, so that a run that was cut off anywhere
//! is finished by the same call. Before the first switch nothing but staged files and records exists; after it each path
//! is wholly old or wholly new, and the journal, which holds both configs, says which way to go on.
//!
//! | step | before | after |
//! |---|---|---|
//! | record | the path is as it was | `originals/` holds a copy, durably |
//! | stage | nothing of ours beside it | new bytes, mode and owner lie beside it, flushed |
//! | begin to switch | an interruption undoes | an interruption goes on |
//! | switch, give back | old | new |
//! | flush | a power cut may bring old entries back | it cannot |
//! | set current, end | `current.json` is the old config | it is the new one; actions may run |

use super::compare::{Found, digest_of, has_runtime_mask, is_mask, undecoded};
use super::host::{Error, Host, Kind, Meta, Place, is_blocked, split};
use super::journal::{Journal, Stage};
use super::layout::{FileWant, Layout, RUNTIME_UNIT_DIR, Sort, UNIT_DIR, Want, unit_path};
use super::originals::{Original, Originals, Source, Was};
use super::plan::{Observer, Step, Way, acts_at_once, plan};
use super::units;
use crate::spread::{MANY, spread};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Files that are written and flushed at once when there are many; a disk is not faster with more.
const FLUSHES: usize = 8;

/// One run over a plan.
pub(super) struct Transaction {
    host: Arc<Host>,
    old: Layout,
    new: Layout,
    way: Way,
    forced: bool,
    /// Held while folders are made.
    parents: Mutex<()>,
}

/// What a path is to become.
enum Goal<'a> {
    File(&'a FileWant),
    Mask,
    /// What was there before mcx.
    Given(Original),
    /// Nothing.
    Nothing,
    /// What was there is unknown: ours goes, anything else stays.
    Unknown,
}

/// How far a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// At its goal.
    Done,
    /// At where it comes from.
    Ready,
    /// At neither: somebody else wrote it.
    Foreign,
}

impl Transaction {
    pub(super) fn new(host: Arc<Host>, old: Layout, new: Layout, way: Way, forced: bool) -> Self {
        Self { host, old, new, way, forced, parents: Mutex::default() }
    }

    /// Carries all steps out. On an error before the first switch what was staged is removed again.
    pub(super) async fn run(self, journal: &mut Journal, observer: &mut Observer<'_>) -> Result<(), Error> {
        let steps = plan(&self.old, &self.new, self.way, self.forced);
        let this = Arc::new(self);
        let carried = this.carry_out_all(&steps, journal, observer).await;
        if carried.is_err() && this.way == Way::Forward && journal.stage == Stage::Opened {
            // The first error is the one to report; what cannot be removed now is found by its name later.
            if let Err(leftover) = blocking(move || this.unstage()).await {
                tracing::warn!(%leftover, "cannot remove what was staged");
            }
        }
        carried
    }

    async fn carry_out_all(
        self: &Arc<Self>,
        steps: &[Step],
        journal: &mut Journal,
        observer: &mut Observer<'_>,
    ) -> Result<(), Error> {
        let mut disturbed = BTreeSet::new();
        let mut rest = steps;
        while !rest.is_empty() {
            let (alike, after) = rest.split_at(alike(rest));
            if alike.len() < MANY {
                for step in alike {
                    observer(step);
                    self.carry_out(step, journal, &mut disturbed).await?;
                }
            } else {
                alike.iter().for_each(&mut *observer);
                self.carry_out_many(alike.to_vec(), journal.stage).await?;
            }
            if matches!(alike, [Step::Record { .. }, ..]) {
                let this = Arc::clone(self);
                blocking(move || this.originals().flush()).await?;
            }
            rest = after;
        }
        Ok(())
    }

    /// Carries out steps of one kind, each for a file of its own, several at once: a disk takes many flushes together nearly as
    /// fast as one, and files are read by all processors. Each does what it does when there are few.
    async fn carry_out_many(self: &Arc<Self>, steps: Vec<Step>, stage: Stage) -> Result<(), Error> {
        let this = Arc::clone(self);
        tracing::debug!(steps = steps.len(), first = steps.first().map(tracing::field::display), "steps");
        blocking(move || {
            let one = |step: &Step| match step {
                Step::Record { path } => this.record(path, stage > Stage::Opened, &Originals::late(this.host.root())),
                Step::Stage { path } => this.stage(path, stage),
                Step::Switch { path, .. } => this.switch(path),
                other => Err(Error::Other(format!("cannot {other} beside others"))),
            };
            spread(&steps, FLUSHES, one).map(drop)
        })
        .await
    }

    async fn carry_out(
        self: &Arc<Self>,
        step: &Step,
        journal: &mut Journal,
        disturbed: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        tracing::debug!(%step, "step");
        let this = Arc::clone(self);
        let host = &self.host;
        let root = host.root();
        match step.clone() {
            Step::KeepPrevious => super::disk::write_named(root, "previous", &journal.from),
            Step::Record { path } => {
                let may_be_ours = journal.stage > Stage::Opened;
                blocking(move || this.record(&path, may_be_ours, &Originals::late(this.host.root()))).await
            }
            Step::RecordEnablement { unit } => self.record_enablement(&unit, journal.stage).await,
            Step::RecordLinks { units } if journal.stage == Stage::Opened => {
                let links = units::snapshot(root, &units, &self.old, &self.new)?;
                self.originals().set_links(Some(&links))
            }
            // What was there before is noted already, and may be gone by now.
            Step::RecordLinks { .. } => Ok(()),
            Step::Stage { path } => {
                let stage = journal.stage;
                blocking(move || this.stage(&path, stage)).await
            }
            Step::BeginSwitching => {
                if journal.stage < Stage::Switching {
                    self.set_stage(journal, Stage::Switching)?;
                }
                Ok(())
            }
            Step::BeginUndoing => {
                if journal.stage == Stage::Undoing {
                    return Ok(());
                }
                self.set_stage(journal, Stage::Undoing)
            }
            Step::Disable { unit } => {
                disturbed.extend(units::with_siblings(root, &unit, &self.new)?);
                self.disable(&unit).await
            }
            Step::Switch { path, .. } | Step::GiveBack { path, .. } => blocking(move || this.switch(&path)).await,
            Step::UnmaskRuntime { unit } => self.unmask_runtime(&unit),
            Step::Enable { unit } => {
                disturbed.extend(units::with_siblings(root, &unit, &self.new)?);
                units::enable(host, &unit, &|name| self.knows(name)).await
            }
            Step::GiveBackEnablement { unit } => self.give_back_enablement(&unit).await,
            Step::GiveBackLinks => match self.originals().links()? {
                Some(links) => units::give_back(root, &links, &|_| false),
                None => Ok(()),
            },
            Step::Flush => {
                // Siblings of what was disabled, or enabled, went with it (L-15): what the config says of them counts.
                for unit in disturbed.iter() {
                    match self.new.enablement.get(unit) {
                        Some(true) => units::enable(host, unit, &|name| self.knows(name)).await?,
                        Some(false) => units::remove_links(root, unit)?,
                        None => {}
                    }
                }
                blocking(move || this.flush()).await
            }
            Step::SetCurrent => {
                let config = if self.way == Way::Forward { &journal.to } else { &journal.from };
                super::disk::write_named(root, "current", config)
            }
            Step::EndSwitching => self.set_stage(journal, Stage::Written),
            Step::EndUndoing => self.set_stage(journal, Stage::Undone),
        }
    }

    /// The journal in memory is never ahead of the one on disk.
    fn set_stage(&self, journal: &mut Journal, stage: Stage) -> Result<(), Error> {
        let next = Journal { stage, ..journal.clone() };
        super::disk::write_journal(self.host.root(), &next)?;
        journal.stage = stage;
        Ok(())
    }

    fn originals(&self) -> Originals<'_> {
        Originals::of(self.host.root())
    }

    /// Whether a unit belongs to one of the two configs.
    fn knows(&self, unit: &str) -> bool {
        self.old.units.contains_key(unit) || self.new.units.contains_key(unit)
    }

    fn goal(&self, path: &str) -> Result<Goal<'_>, Error> {
        Ok(match self.new.places.get(path).map(|managed| &managed.want) {
            Some(Want::File(file)) => Goal::File(file),
            Some(Want::Mask) => Goal::Mask,
            Some(Want::NoMask) => match self.originals().get(path)? {
                Some(original) if !original.is_mask() && original.was != Was::Nothing => Goal::Given(original),
                _ => Goal::Nothing,
            },
            None => self.originals().get(path)?.map_or(Goal::Unknown, Goal::Given),
        })
    }

    fn position(&self, path: &str, goal: &Goal<'_>) -> Result<Position, Error> {
        let root = self.host.root();
        let seen = match root.seen(path) {
            // A user has put a link in the way: nothing of ours is behind it.
            Err(error) if is_blocked(&error) => return Ok(Position::Foreign),
            seen => seen.map_err(Error::file("look at", path))?,
        };
        let old = self.old.places.get(path).map(|managed| &managed.want);
        let found = Found::new(root, path, seen.clone());
        let is_old = || old.map_or(Ok(false), |want| found.is(want));
        let done = match (goal, self.new.places.get(path).map(|managed| &managed.want)) {
            // Anything but a mask will do, unless it is ours.
            (_, Some(Want::NoMask)) => !is_mask(&seen) && (matches!(old, None | Some(Want::NoMask)) || !is_old()?),
            (Goal::File(_) | Goal::Mask, Some(want)) => found.is(want)?,
            // Where there was to be no mask, somebody has put a file of his own: his it stays.
            (_, None) if old == Some(&Want::NoMask) && seen.kind != Kind::Absent && !is_mask(&seen) => true,
            (Goal::Given(original), _) => original.stands(root)?,
            _ => seen.kind == Kind::Absent,
        };
        if done {
            return Ok(Position::Done);
        }
        let ready = match old {
            // Without a mask of ours the path is as free as one that was never managed, until somebody puts a file there.
            Some(Want::NoMask) if self.new.places.contains_key(path) => true,
            Some(Want::NoMask) => seen.kind == Kind::Absent,
            Some(want) => found.is(want)?,
            None if self.way == Way::Forward => true,
            // On the way back the path had been given back already, or had not been touched yet.
            None => {
                self.originals().get(path)?.map_or(Ok(seen.kind == Kind::Absent), |original| original.stands(root))?
            }
        };
        let forced = self.forced && !matches!(goal, Goal::Unknown);
        Ok(if ready || forced { Position::Ready } else { Position::Foreign })
    }

    /// Keeps what stands at a path that is not managed yet, in `originals`. `may_be_ours`: the switch may have happened.
    fn record(&self, path: &str, may_be_ours: bool, originals: &Originals<'_>) -> Result<(), Error> {
        let root = self.host.root();
        let seen = root.seen(path).map_err(Error::file("look at", path))?;
        let known = originals.get(path)?;
        let was_unmasked = self.old.places.contains_key(path);
        if known.is_some() && was_unmasked && seen.kind == Kind::Absent {
            return Ok(());
        }
        if let Some(known) = known {
            let switched = may_be_ours && self.position(path, &self.goal(path)?)? == Position::Done;
            if switched || known.stands(root)? {
                return Ok(());
            }
        }
        if seen.kind == Kind::Dir {
            self.refuse_dir(path)?;
        }
        originals.record(path, &seen)
    }

    /// A directory in a file's place goes only when the force file asks for it, and only if it is empty.
    fn refuse_dir(&self, path: &str) -> Result<(), Error> {
        let is_full = self.host.root().has_names(path).map_err(Error::file("read", path))?;
        if self.forced && !is_full {
            return Ok(());
        }
        let why = if is_full { "a directory that is not empty" } else { "an empty directory" };
        Err(Error::Other(format!("{path} is {why}, where a file belongs; move it away")))
    }

    async fn record_enablement(&self, unit: &str, stage: Stage) -> Result<(), Error> {
        let root = self.host.root();
        let known = self.originals().enablement(unit)?;
        let is_managed = self.old.enablement.contains_key(unit);
        let is_open = |name: &str| self.old.enablement.contains_key(name) || self.new.enablement.contains_key(name);
        let earlier = self.originals().enablements(&|name| name != unit && is_open(name))?;
        match known {
            // A new `Also=` brings siblings along that are as they were until now.
            Some(mut known) if is_managed || stage > Stage::Opened => {
                if units::add_siblings(root, unit, &mut known, &self.new, &earlier)? {
                    self.originals().record_enablement(&known)
                } else {
                    Ok(())
                }
            }
            // How it was before mcx is unknown, and stays so.
            None if is_managed => Ok(()),
            _ => {
                let word = units::words(&self.host, &[unit]).await?.remove(unit).unwrap_or_default();
                self.originals().record_enablement(&units::look(root, unit, &self.new, word, &earlier)?)
            }
        }
    }

    fn stage(&self, path: &str, stage: Stage) -> Result<(), Error> {
        let root = self.host.root();
        let goal = self.goal(path)?;
        // All was staged, flushed, when the first switch was begun: what an interruption has left is used. What stands at the
        // path is looked at when it is switched.
        if let Goal::File(file) = &goal
            && (self.way, stage) == (Way::Forward, Stage::Switching)
            && self.is_staged(path, file)?
        {
            return Ok(());
        }
        let position = self.position(path, &goal)?;
        root.unstage(path).map_err(Error::file("remove what was staged for", path))?;
        match position {
            Position::Done => return Ok(()),
            Position::Foreign => return self.foreign(path),
            Position::Ready => {}
        }
        match &goal {
            Goal::File(file) => {
                self.make_parents(path, file.parent)?;
                self.stage_goal(path, &goal)
            }
            Goal::Given(Original { was: Was::Nothing, .. }) | Goal::Nothing | Goal::Unknown => Ok(()),
            Goal::Mask | Goal::Given(_) => {
                self.make_parents(path, Meta { mode: 0o755, uid: 0, gid: 0 })?;
                self.stage_goal(path, &goal)
            }
        }
    }

    /// Whether what shall stand at a path lies beside it.
    fn is_staged(&self, path: &str, file: &FileWant) -> Result<bool, Error> {
        let fails = || Error::file("read what was staged for", path);
        let root = self.host.root();
        let Some(place) = root.place_if_there(path).map_err(fails())? else { return Ok(false) };
        let Some((bytes, seen)) = place.staged_file().map_err(fails())? else { return Ok(false) };
        let meta = (Some(seen.uid), Some(seen.gid), seen.mode) == (file.uid.number, file.gid.number, file.mode);
        let size = file.bytes.size();
        if !meta || seen.size != size {
            return Ok(false);
        }
        // No more than that is read: whoever owns the folder may let it grow without end.
        let mut bytes = bytes.take(size.saturating_add(1));
        let digest = digest_of(&mut bytes).map_err(fails())?;
        Ok(bytes.limit() == 1 && digest == file.bytes.sha256())
    }

    fn stage_goal(&self, path: &str, goal: &Goal<'_>) -> Result<(), Error> {
        let place = self.place(path)?;
        let staged = match goal {
            Goal::File(file) => stage_file(path, file, &place),
            Goal::Mask => place.stage_link(b"/dev/null", 0, 0).map_err(Error::file("stage a mask at", path)),
            Goal::Given(original) => self.originals().stage(original, &place),
            Goal::Nothing | Goal::Unknown => Ok(()),
        };
        if staged.is_err() {
            // The cause is what counts.
            let _ = place.unstage();
        }
        staged
    }

    fn place(&self, path: &str) -> Result<Place, Error> {
        self.host.root().place(path).map_err(Error::file("open the directory of", path))
    }

    /// Makes missing parents, noted as ours first. `last` is for the nearest one.
    fn make_parents(&self, path: &str, last: Meta) -> Result<(), Error> {
        let root = self.host.root();
        let (parent, _) = split(path);
        // One at a time: which folders are ours is one list.
        let _one = self.parents.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, nearest) = root.nearest_dir(parent).map_err(Error::file("open the directory of", path))?;
        if nearest == parent {
            return Ok(());
        }
        let missing: Vec<&str> = ancestors(path).into_iter().filter(|dir| dir.len() > nearest.len()).collect();
        let mut made = self.originals().made()?;
        made.extend(missing.iter().map(|dir| (*dir).to_owned()));
        self.originals().set_made(&made)?;
        for dir in missing {
            let meta = if dir == parent { last } else { Meta { mode: 0o755, uid: 0, gid: 0 } };
            root.make_dir(dir, meta).map_err(Error::file("make", dir))?;
        }
        Ok(())
    }

    /// Somebody else wrote this path. Forward that is drift; on the way back it is left alone, and found as drift later.
    fn foreign(&self, path: &str) -> Result<(), Error> {
        let is_unknown = !self.new.places.contains_key(path) && self.originals().get(path)?.is_none();
        if self.way == Way::Back || is_unknown {
            tracing::warn!(path, "somebody else has changed it: left as it is");
            return Ok(());
        }
        Err(Error::Other(format!(
            "{path} was changed by somebody else during the update; put it right or move it away"
        )))
    }

    /// Brings a path to its goal, from wherever it is.
    fn switch(&self, path: &str) -> Result<(), Error> {
        let root = self.host.root();
        let goal = self.goal(path)?;
        let position = self.position(path, &goal)?;
        if position != Position::Ready {
            root.unstage(path).map_err(Error::file("remove what was staged for", path))?;
            return if position == Position::Foreign { self.foreign(path) } else { self.remove_made_parents(path) };
        }
        let is_free = self.old.places.get(path).is_none_or(|managed| managed.want == Want::NoMask);
        if self.way == Way::Forward && is_free && self.new.places.contains_key(path) {
            // What stands there may have changed since it was recorded.
            self.record(path, false, &self.originals())?;
        }
        let place = self.place(path)?;
        if place.seen().map_err(Error::file("look at", path))?.kind == Kind::Dir {
            self.refuse_dir(path)?;
            place.remove_dir().map_err(Error::file("remove", path))?;
        }
        let is_nothing = match &goal {
            Goal::Nothing | Goal::Unknown => true,
            Goal::Given(original) => original.was == Was::Nothing,
            Goal::File(_) | Goal::Mask => false,
        };
        if is_nothing {
            place.remove().map_err(Error::file("remove", path))?;
            return self.remove_made_parents(path);
        }
        if !place.has_staged().map_err(Error::file("look at", path))? {
            self.stage_goal(path, &goal)?;
        }
        place.switch().map_err(Error::file("replace", path))
    }

    /// Folders that we made go with the last thing in them.
    fn remove_made_parents(&self, path: &str) -> Result<(), Error> {
        if self.new.places.contains_key(path) {
            return Ok(());
        }
        self.remove_made(path, &self.originals().made()?)
    }

    fn remove_made(&self, path: &str, made: &BTreeSet<String>) -> Result<(), Error> {
        let root = self.host.root();
        for dir in ancestors(path).into_iter().rev().filter(|dir| made.contains(*dir)) {
            root.unstage(dir).map_err(Error::file("remove what was staged for", dir))?;
            if !root.remove_empty_dir(dir).map_err(Error::file("remove", dir))? {
                break;
            }
        }
        Ok(())
    }

    /// A unit whose file merely goes is disabled only if no other file of that name remains; else how it is enabled is
    /// nobody's business here.
    async fn disable(&self, unit: &str) -> Result<(), Error> {
        let had_file = |layout: &Layout| layout.units.get(unit).is_some_and(|unit| unit.contents.is_some());
        let original = self.originals().get(&unit_path(unit))?;
        let is_given_back = original.is_some_and(|original| original.was != Was::Nothing);
        let goes = had_file(&self.old)
            && !had_file(&self.new)
            && !is_given_back
            && units::body(self.host.root(), unit, &[UNIT_DIR])? == units::Body::Missing;
        let is_managed = self.old.enablement.contains_key(unit) || self.new.enablement.contains_key(unit);
        if goes || is_managed { units::disable(&self.host, unit, goes).await } else { Ok(()) }
    }

    fn unmask_runtime(&self, unit: &str) -> Result<(), Error> {
        if has_runtime_mask(self.host.root(), unit)? {
            let path = format!("{RUNTIME_UNIT_DIR}/{unit}");
            self.place(&path)?.remove().map_err(Error::file("remove", &path))?;
        }
        Ok(())
    }

    async fn give_back_enablement(&self, unit: &str) -> Result<(), Error> {
        let managed = |name: &str| self.new.enablement.contains_key(name);
        match self.originals().enablement(unit)? {
            Some(record) => units::give_back(self.host.root(), &record, &managed),
            None if self.new.masks(unit) => Ok(()),
            None => units::preset(&self.host, unit).await,
        }
    }

    /// Flushes every directory that a step may have changed, also in an earlier run that was cut off.
    fn flush(&self) -> Result<(), Error> {
        let root = self.host.root();
        let paths = self.old.places.keys().chain(self.new.places.keys());
        let mut dirs: BTreeSet<String> = paths.map(|path| split(path).0.to_owned()).collect();
        if self.old.enablement != self.new.enablement || self.old.units != self.new.units || self.forced {
            dirs.extend(units::folders(root)?);
        }
        for dir in &dirs {
            match root.sync_dir(dir) {
                Err(error) if is_blocked(&error) => {}
                result => result.map_err(Error::file("flush", dir))?,
            }
        }
        Ok(())
    }

    /// Removes what is staged, and folders that were made for it.
    fn unstage(&self) -> Result<(), Error> {
        let root = self.host.root();
        for path in self.old.places.keys().chain(self.new.places.keys()) {
            root.unstage(path).map_err(Error::file("remove what was staged for", path))?;
        }
        let made = self.originals().made()?;
        for path in self.new.places.keys().filter(|path| !self.old.places.contains_key(*path)) {
            self.remove_made(path, &made)?;
        }
        Ok(())
    }

    /// Undoes a transaction in which nothing was switched: only what was staged goes.
    pub(super) async fn abandon(self, journal: &mut Journal, observer: &mut Observer<'_>) -> Result<(), Error> {
        observer(&Step::EndUndoing);
        let this = Arc::new(self);
        let mine = Arc::clone(&this);
        // Nobody looks for what was staged once the journal is closed: a power cut must not bring it back.
        blocking(move || mine.unstage().and_then(|()| mine.flush())).await?;
        this.set_stage(journal, Stage::Undone)
    }
}

fn stage_file(path: &str, file: &FileWant, place: &Place) -> Result<(), Error> {
    let (Some(uid), Some(gid)) = (file.uid.number, file.gid.number) else {
        return Err(Error::Other(format!("{path} belongs to a user or group that does not exist on this node")));
    };
    let mut bytes = Source::new(file.bytes.open(path)?);
    let meta = Meta { mode: file.mode, uid, gid };
    let digest = match place.stage_file(&mut bytes, meta) {
        Err(error) if bytes.has_failed => return Err(undecoded(path, &error)),
        staged => staged.map_err(Error::file("write", path))?,
    };
    // It was kept beside the contents, and everything is compared with it.
    if digest != file.bytes.sha256() {
        return Err(undecoded(
            path,
            &"they are not what the digest beside them in mcx's state says; use the force file",
        ));
    }
    Ok(())
}

/// How many of the steps at the beginning are carried out together: those of one kind that do not need each other.
fn alike(steps: &[Step]) -> usize {
    let leading = |is: fn(&Step) -> bool| steps.iter().take_while(|step| is(step)).count();
    let records = leading(|step| matches!(step, Step::Record { .. }));
    let stages = leading(|step| matches!(step, Step::Stage { .. }));
    // What acts at once needs that those before it are there.
    let switches = leading(|step| matches!(step, Step::Switch { path, sort: Sort::File } if !acts_at_once(path)));
    records.max(stages).max(switches).max(1)
}

/// File work waits for disks: it must not hold up the daemon's other tasks.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::Other(format!("work on the disk broke down: {error}"))),
    }
}

/// The directories above a path, from the top, the root itself apart.
pub(super) fn ancestors(path: &str) -> Vec<&str> {
    path.char_indices().filter(|(at, byte)| *byte == '/' && *at > 0).map(|(at, _)| &path[..at]).collect()
}
