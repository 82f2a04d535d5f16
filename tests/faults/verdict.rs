//! Whether what a power cut left is what mcx promises, and whether the next run puts all right.

use super::image::Image;
use super::mounts::{Kind, memory};
use super::recording::{Life, Promised, Recording, State, States, Wish, node_at};
use crate::node_lives::{is_staged, torn};
use crate::node_root::{Tree, shown};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::{fmt, fs};

/// Of how many disks one is given to the checker of its file system.
const CHECKED: u64 = 16;

/// What a sweep has seen.
#[derive(Default)]
pub(crate) struct Tally {
    /// Power cuts.
    pub(crate) states: usize,
    /// Different disks that they left: each was mounted and judged.
    pub(crate) disks: usize,
    /// Different contents that these showed: each was brought to its end.
    pub(crate) contents: usize,
    /// Of these, given to the checker of the file system.
    pub(crate) checked: usize,
    /// Power cuts after which something was wrong.
    pub(crate) violations: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, from: &str, other: Self) {
        self.states += other.states;
        self.disks += other.disks;
        self.contents += other.contents;
        self.checked += other.checked;
        self.violations.extend(other.violations.into_iter().map(|violation| format!("{from}: {violation}")));
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, disks, contents, checked, violations } = self;
        write!(
            f,
            "{states} power cuts, {disks} different disks ({checked} checked) of {contents} different contents, {} violations",
            violations.len()
        )
    }
}

/// What is found on one disk.
struct Outcome {
    life: Result<Life, String>,
    /// What the next runs did wrong.
    wrong: Vec<String>,
    is_checked: bool,
}

/// After how many power cuts it says how far it is.
const TOLD: usize = 200;
/// Threads for each processor: most of the time each waits for a program that it has started.
const THREADS: usize = 2;

/// Judges all states.
///
/// `contents` are those that were brought to an end before, by recordings of the same runs.
pub(crate) fn judge(
    recording: &Recording,
    bare: &Tree,
    contents: &Known,
    states: States<'_>,
    stop_at_first: bool,
) -> Tally {
    let promises: Vec<Promised> = recording.calls.iter().map(|calls| Promised::after(calls)).collect();
    let states = Mutex::new(states);
    let known: Mutex<HashMap<(u64, usize), Arc<Outcome>>> = Mutex::default();
    let known_before = contents.lock().unwrap().len();
    let tally = Mutex::new(Tally::default());
    let is_over = AtomicBool::new(false);
    let work = || {
        let bench = Bench::new(recording.kind);
        while !is_over.load(Ordering::Relaxed) {
            let Some(state) = states.lock().unwrap().next() else { return };
            let key = (state.image.digest(), state.run);
            let found = known.lock().unwrap().get(&key).cloned();
            let is_new = found.is_none();
            let outcome = found.unwrap_or_else(|| Arc::new(bench.examine(recording, bare, &state, contents)));
            known.lock().unwrap().insert(key, Arc::clone(&outcome));
            let mut wrong = outcome.wrong.clone();
            match &outcome.life {
                Ok(life) => wrong.extend(broken(recording, &promises, &state, life)),
                Err(error) => wrong.push(error.clone()),
            }
            let mut tally = tally.lock().unwrap();
            tally.states += 1;
            tally.disks += usize::from(is_new);
            tally.checked += usize::from(is_new && outcome.is_checked);
            if tally.states % TOLD == 0 {
                eprintln!("{:?}: until now {tally}", recording.kind);
            }
            if !wrong.is_empty() {
                let journal = outcome.life.as_ref().ok().and_then(|life| life.stage.clone());
                let what = format!(
                    "{:?} {:?} in run {}, journal {journal:?}: {}",
                    recording.kind,
                    state.point,
                    state.run,
                    wrong.join("\n  ")
                );
                // A sweep is long: it says at once what it finds.
                if !stop_at_first && tally.violations.len() < 5 {
                    eprintln!("{what}");
                }
                tally.violations.push(what);
                is_over.fetch_or(stop_at_first, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS * std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let contents = contents.lock().unwrap().len() - known_before;
    Tally { contents, ..tally.into_inner().unwrap() }
}

/// Where one thread mounts disks.
pub(crate) struct Bench {
    kind: Kind,
    dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(kind: Kind) -> Self {
        let dir = tempfile::tempdir_in(memory()).unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self { kind, dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    /// Does something with what is on a disk, mounted.
    pub(crate) fn with<T>(&self, image: &Image, work: impl FnOnce(&Path) -> T) -> Result<T, String> {
        image.store(&self.file()).unwrap();
        let at = self.dir.path().join("root");
        let _mount = self.kind.mount(&self.file(), &at, ",loop")?;
        Ok(work(&node_at(&at)))
    }

    fn examine(&self, recording: &Recording, bare: &Tree, state: &State, known: &Known) -> Outcome {
        let run = state.run.min(recording.runs.len() - 1);
        let mut wrong = Vec::new();
        let life = self.with(&state.image, |root| {
            let life = Life::of(root);
            let digest = life.as_ref().map_or(state.image.digest(), |life| life.digest);
            let before = known.lock().unwrap().get(&(digest, state.run)).cloned();
            wrong = before.unwrap_or_else(|| {
                let wrong = bring_to_an_end(root, &recording.runs[run], &recording.lives[run + 1].tree, bare, digest);
                known.lock().unwrap().insert((digest, state.run), wrong.clone());
                wrong
            });
            life
        });
        let is_checked = state.image.digest().is_multiple_of(CHECKED);
        if is_checked && let Err(error) = self.kind.check(&self.file()) {
            wrong.push(error);
        }
        Outcome { life: life.and_then(|life| life), wrong, is_checked }
    }
}

/// By contents and run: what the next runs did wrong.
pub(crate) type Known = Mutex<HashMap<(u64, usize), Vec<String>>>;

/// Runs mcx again. Half of the contents are brought to the end of the update first, the other half are given back at once.
fn bring_to_an_end(root: &Path, wish: &Wish, target: &Tree, bare: &Tree, digest: u64) -> Vec<String> {
    let withdraw = Wish::withdraw();
    let ways: &[_] = if digest.is_multiple_of(2) {
        &[("again", wish, target), ("withdrawn", &withdraw, bare)]
    } else {
        &[("withdrawn at once", &withdraw, bare)]
    };
    let mut wrong = Vec::new();
    for (way, wish, target) in ways {
        if let Err(error) = wish.fulfil(root) {
            wrong.push(format!("{way}: {error}"));
            return wrong;
        }
        match Life::of(root) {
            Ok(found) => wrong.extend(differ(&found.tree, target).map(|path| format!("{way}: {path}"))),
            Err(error) => wrong.push(format!("{way}: {error}")),
        }
    }
    if root.join("var/lib/mcx").exists() {
        wrong.push("withdrawn: there is still state of mcx".to_owned());
    }
    wrong
}

fn differ<'a>(found: &'a Tree, expected: &'a Tree) -> impl Iterator<Item = String> + 'a {
    let paths: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    paths
        .into_iter()
        .filter(|path| found.get(*path) != expected.get(*path))
        .map(|path| format!("{path}: found {}, expected {}", short(found, path), short(expected, path)))
}

fn short(tree: &Tree, path: &str) -> String {
    shown(tree.get(path)).chars().take(100).collect()
}

/// What is wrong with what is found, before anything is done.
fn broken(recording: &Recording, promises: &[Promised], state: &State, life: &Life) -> Vec<String> {
    let run = state.run.min(recording.runs.len() - 1);
    let (before, after) = (&recording.lives[run], &recording.lives[run + 1]);
    if state.run > run {
        let lost = differ(&life.tree, &after.tree).map(|path| format!("lost after it was said to be done: {path}"));
        return lost.collect();
    }
    let is_fresh = state.run > 0 || recording.earlier.is_empty();
    let mut lives = vec![&before.tree, &after.tree];
    if !is_fresh {
        lives.extend(&recording.earlier);
    }
    let mut wrong: Vec<String> =
        torn(&life.tree, &lives).into_iter().map(|path| format!("neither old nor new: {path}")).collect();
    for path in state.promised.finished(&promises[state.run]) {
        // Folders of links are made and removed by `systemctl`, as it likes.
        if before.tree.get(path) != after.tree.get(path) && life.tree.get(path) != after.tree.get(path) {
            wrong.push(format!("flushed and lost: {path}: found {}", short(&life.tree, path)));
        }
    }
    if is_fresh && before.current != after.current {
        wrong.extend(contradicts(before, after, state, life));
    }
    wrong
}

/// Where paths and records say different things, or records are older than was promised.
fn contradicts(before: &Life, after: &Life, state: &State, life: &Life) -> Vec<String> {
    // Three stages, and its removal; that may be tried again.
    let journals = state.promised.durable("/var/lib/mcx/journal.json").min(4);
    let (written, whole) = match life.stage.as_deref() {
        Some("Opened") => (1, Some(before)),
        Some("Switching") => (2, None),
        Some("Written") => (3, Some(after)),
        Some(other) => return vec![format!("the journal is {other}: nothing has failed")],
        None if life.current == before.current => (0, Some(before)),
        None if life.current == after.current => (4, Some(after)),
        None => return vec![format!("current.json names {}", life.current)],
    };
    let mut wrong = Vec::new();
    if written < journals {
        wrong.push(format!("the journal was written {journals} times, durably, and is as after {written}"));
    }
    if let Some(whole) = whole {
        let paths: BTreeSet<&String> = life.tree.keys().chain(whole.tree.keys()).collect();
        let is_folder = |path: &str| [&life.tree, &whole.tree].iter().any(|t| t.get(path).is_some_and(|e| e.0 == 'd'));
        // Folders come early and go late.
        let others = paths
            .into_iter()
            .filter(|path| life.tree.get(*path) != whole.tree.get(*path) && !is_staged(path) && !is_folder(path));
        wrong.extend(others.map(|path| format!("against the journal: {path}: found {}", short(&life.tree, path))));
    }
    wrong
}
