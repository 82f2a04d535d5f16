//! Whether what a power cut left is what mcx promises, and whether the next run puts all right.

use super::mounts::Bench;
use super::recording::{Life, Promised, Recording, State, States, Wish, node_at};
use crate::node_lives::{is_staged, torn};
use crate::node_root::{Entry, Tree, shown};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A way to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A path is neither old nor new, or not what the records say, or a record is damaged.
    Torn,
    /// What was promised is not there.
    Lost,
    /// The next runs do not end where they should.
    Stuck,
    /// The file system is not clean.
    Unclean,
}

impl Kind {
    const EACH: [Self; 4] = [Self::Torn, Self::Lost, Self::Stuck, Self::Unclean];
}

/// What is wrong, and a word where.
#[derive(Debug, Clone)]
pub(crate) struct Wrong(pub(crate) Kind, pub(crate) String);

/// What was wrong after a power cut.
pub(crate) struct Violation {
    kinds: BTreeSet<Kind>,
    pub(crate) text: String,
}

impl Violation {
    /// All that was wrong after one power cut.
    pub(crate) fn new(cut: &str, wrong: &[Wrong]) -> Self {
        let found: Vec<String> = wrong.iter().map(|Wrong(kind, text)| format!("{kind:?}: {text}")).collect();
        let kinds = wrong.iter().map(|Wrong(kind, _)| *kind).collect();
        Self { kinds, text: format!("{cut}: {}", found.join("\n  ")) }
    }
}

/// What a sweep has seen.
#[derive(Default)]
pub(crate) struct Tally {
    /// Power cuts.
    pub(crate) states: usize,
    /// Different disks that they left: each was mounted, judged, and given to the checker of its file system.
    pub(crate) disks: usize,
    /// Different contents that these showed: each was brought to its end.
    pub(crate) contents: usize,
    /// Of the power cuts, those after which something was wrong.
    pub(crate) violations: Vec<Violation>,
}

impl Tally {
    pub(crate) fn add(&mut self, from: &str, other: Self) {
        self.states += other.states;
        self.disks += other.disks;
        self.contents += other.contents;
        let told = |violation: Violation| Violation { text: format!("{from}: {}", violation.text), ..violation };
        self.violations.extend(other.violations.into_iter().map(told));
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, disks, contents, violations } = self;
        write!(f, "{states} cuts ({disks} different disks of {contents} different contents)")?;
        for kind in Kind::EACH {
            let count = violations.iter().filter(|violation| violation.kinds.contains(&kind)).count();
            write!(f, ", {count} {}", format!("{kind:?}").to_lowercase())?;
        }
        Ok(())
    }
}

/// What is found on one disk.
struct Outcome {
    life: Result<Life, String>,
    /// Whatever was promised.
    wrong: Vec<Wrong>,
}

/// Of how many contents one is given back at once, too.
const AT_ONCE: u64 = 4;
/// After how many power cuts it says how far it is.
const TOLD: usize = 1000;
/// Threads for each processor: now and then one waits for a program that it has started.
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
            let outcome = found.unwrap_or_else(|| Arc::new(examine(&bench, recording, bare, &state, contents)));
            known.lock().unwrap().insert(key, Arc::clone(&outcome));
            let mut wrong = outcome.wrong.clone();
            match &outcome.life {
                Ok(life) => wrong.extend(broken(recording, &promises, &state, life)),
                Err(error) => wrong.push(Wrong(Kind::Torn, error.clone())),
            }
            let mut tally = tally.lock().unwrap();
            tally.states += 1;
            tally.disks += usize::from(is_new);
            if tally.states % TOLD == 0 {
                eprintln!("{:?}: until now {tally}", recording.kind);
            }
            if !wrong.is_empty() {
                let journal = outcome.life.as_ref().ok().and_then(|life| life.stage.clone());
                let cut = format!("{:?} {:?} in run {}, journal {journal:?}", recording.kind, state.point, state.run);
                let violation = Violation::new(&cut, &wrong);
                // A sweep is long: it says at once what it finds.
                if !stop_at_first && tally.violations.len() < 5 {
                    eprintln!("{}", violation.text);
                }
                tally.violations.push(violation);
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

fn examine(bench: &Bench, recording: &Recording, bare: &Tree, state: &State, known: &Known) -> Outcome {
    let run = state.run.min(recording.runs.len() - 1);
    let (wish, target) = (&recording.runs[run], &recording.lives[run + 1].tree);
    let mut wrong = Vec::new();
    let mut is_new = false;
    let life = bench.with(&state.image, |at| {
        let root = node_at(at);
        let life = Life::of(&root)?;
        let before = known.lock().unwrap().get(&(life.digest, state.run)).cloned();
        is_new = before.is_none();
        let stuck = before.unwrap_or_else(|| bring_to_an_end(&root, wish, target, bare));
        known.lock().unwrap().insert((life.digest, state.run), stuck.clone());
        wrong.extend(stuck);
        Ok::<_, String>(life)
    });
    if is_new
        && let Ok(Ok(life)) = &life
        && life.digest.is_multiple_of(AT_ONCE)
    {
        let given_back =
            bench.with(&state.image, |at| fulfilled("withdrawn at once", &node_at(at), &wish.withdrawal(), bare));
        wrong.extend(given_back.unwrap_or_else(|error| vec![error]));
    }
    let mut wrong: Vec<Wrong> = wrong.into_iter().map(|text| Wrong(Kind::Stuck, text)).collect();
    let clean = life.as_ref().map(drop).map_err(Clone::clone).and_then(|()| bench.check());
    wrong.extend(clean.err().map(|error| Wrong(Kind::Unclean, error)));
    Outcome { life: life.and_then(|life| life), wrong }
}

/// By contents and run: what the next runs did wrong.
pub(crate) type Known = Mutex<HashMap<(u64, usize), Vec<String>>>;

/// Runs mcx again: to the end of the update, then to that of its withdrawal.
fn bring_to_an_end(root: &Path, wish: &Wish, target: &Tree, bare: &Tree) -> Vec<String> {
    let mut wrong = fulfilled("again", root, wish, target);
    if wrong.is_empty() {
        wrong = fulfilled("withdrawn", root, &wish.withdrawal(), bare);
    }
    if wrong.is_empty() && !wish.is_daemon() && root.join("var/lib/mcx").exists() {
        wrong.push("withdrawn: there is still state of mcx".to_owned());
    }
    wrong
}

/// What is not as it should be once a wish is fulfilled.
fn fulfilled(way: &str, root: &Path, wish: &Wish, target: &Tree) -> Vec<String> {
    match wish.fulfil(root).and_then(|()| Life::of(root)) {
        Ok(found) => differ(&found.tree, target).map(|path| format!("{way}: {path}")).collect(),
        Err(error) => vec![format!("{way}: {error}")],
    }
}

/// The paths at which two trees are not the same, and how.
pub(crate) fn differ<'a>(found: &'a Tree, expected: &'a Tree) -> impl Iterator<Item = String> + 'a {
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
fn broken(recording: &Recording, promises: &[Promised], state: &State, life: &Life) -> Vec<Wrong> {
    let run = state.run.min(recording.runs.len() - 1);
    let (before, after) = (&recording.lives[run], &recording.lives[run + 1]);
    if state.run > run {
        let mut lost: Vec<String> = differ(&life.tree, &after.tree).collect();
        if after.state.is_empty() {
            lost.extend(life.state.keys().cloned());
        }
        let told = |path| Wrong(Kind::Lost, format!("after it was said to be done: {path}"));
        return lost.into_iter().map(told).collect();
    }
    let is_fresh = state.run > 0 || recording.earlier.is_empty();
    let mut lives = vec![&before.tree, &after.tree];
    lives.extend(&recording.guarded);
    if !is_fresh {
        lives.extend(&recording.earlier);
    }
    let torn = torn(&life.tree, &lives).into_iter();
    let mut wrong: Vec<Wrong> = torn.map(|path| Wrong(Kind::Torn, format!("neither old nor new: {path}"))).collect();
    for path in state.promised.finished(&promises[state.run]) {
        let [was, becomes, found] = [before, after, life].map(|life| life.at(path));
        // Folders of links are made and removed by `systemctl`, as it likes.
        if was != becomes && found != becomes {
            wrong.push(Wrong(Kind::Lost, format!("it was flushed: {path}: found {:.100}", shown(found))));
        }
    }
    for (path, is_there) in state.promised.standing().filter(|(path, _)| !is_passing(path)) {
        let found = life.at(path);
        // A folder that is not empty is not removed.
        let is_folder = found.is_some_and(|entry| entry.0 == 'd');
        if found.is_some() != is_there && !is_folder {
            let expected = if is_there { "something" } else { "nothing" };
            wrong.push(Wrong(
                Kind::Lost,
                format!("it was flushed: {path}: found {:.100}, not {expected}", shown(found)),
            ));
        }
    }
    if is_fresh && before.current != after.current {
        wrong.extend(contradicts(recording, state, life));
    }
    wrong.extend(unguarded(&recording.guard, life));
    wrong
}

/// Whether a name is one that is there only until something else is renamed from it: mcx's and that of `systemctl`.
fn is_passing(path: &str) -> bool {
    is_staged(path) || path.contains("/.#")
}

/// What is missing of the guard: all of it comes before the journal says so, and each file after what it needs.
pub(crate) fn unguarded(guard: &[(String, Entry)], life: &Life) -> Option<Wrong> {
    let is_there = |(path, entry): &(String, Entry)| life.at(path) == Some(entry);
    let count = guard.iter().take_while(|file| is_there(file)).count();
    let (missing, _) = guard.get(count)?;
    if life.is_guarded {
        return Some(Wrong(Kind::Lost, format!("the journal says that the guard is there: {missing} is not")));
    }
    let (early, _) = guard[count..].iter().find(|file| is_there(file))?;
    Some(Wrong(Kind::Torn, format!("of the guard {early} is there, and {missing} is not")))
}

/// Where paths and records say different things, or records are older than was promised.
fn contradicts(recording: &Recording, state: &State, life: &Life) -> Vec<Wrong> {
    let lives = [&recording.lives[state.run], &recording.lives[state.run + 1]];
    let is_daemon = recording.runs[state.run].is_daemon();
    // Three stages, and its removal; that may be tried again. A daemon notes more than its stages.
    let journals = if is_daemon { 0 } else { state.promised.durable("/var/lib/mcx/journal.json").min(4) };
    match against_records(lives, &recording.guard, is_daemon, life) {
        Ok((written, mut wrong)) => {
            if written < journals {
                let text = format!("the journal was written {journals} times, durably, and is as after {written}");
                wrong.push(Wrong(Kind::Lost, text));
            }
            wrong
        }
        Err(wrong) => vec![wrong],
    }
}

/// Where paths and records say different things, in an update from the first of two lives to the other one; and how often the
/// journal was written until now.
pub(crate) fn against_records(
    [before, after]: [&Life; 2],
    guard: &[(String, Entry)],
    is_daemon: bool,
    life: &Life,
) -> Result<(usize, Vec<Wrong>), Wrong> {
    let torn = |text: String| Wrong(Kind::Torn, text);
    let (written, whole) = match life.stage.as_deref() {
        Some("Opened") => (1, Some(before)),
        Some("Switching") => (2, None),
        Some("Written") => (3, Some(after)),
        Some("Acted" | "Rebooting") if is_daemon => (3, Some(after)),
        Some(other) => return Err(torn(format!("the journal is {other}: nothing has failed"))),
        None if life.current == before.current => (0, Some(before)),
        None if life.current == after.current => (4, Some(after)),
        None => return Err(torn(format!("current.json names {}", life.current))),
    };
    let mut wrong = Vec::new();
    if written == 3 && life.current != after.current {
        wrong.push(torn(format!("the journal says that the files are there, current.json names {}", life.current)));
    }
    if let Some(whole) = whole {
        let paths: BTreeSet<&String> = life.tree.keys().chain(whole.tree.keys()).collect();
        let is_folder = |path: &str| [&life.tree, &whole.tree].iter().any(|t| t.get(path).is_some_and(|e| e.0 == 'd'));
        // Folders come early and go late, as the guard does.
        let is_guard = |path: &String| guard.iter().any(|(of_guard, _)| of_guard == path);
        let is_early = |path: &String| is_staged(path) || is_folder(path) || is_guard(path);
        let others = paths.into_iter().filter(|path| life.tree.get(*path) != whole.tree.get(*path) && !is_early(path));
        wrong
            .extend(others.map(|path| torn(format!("against the journal: {path}: found {}", short(&life.tree, path)))));
    }
    Ok((written, wrong))
}
