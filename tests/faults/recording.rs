//! `mcx apply`, or a daemon, on a disk that keeps a log, and what the log says at each of its events: which run it was, and
//! what had been promised by then.

use super::daemon::{CONFIGS, Joined};
use super::image::{Cached, Event, Image, Loss};
use super::mounts::{Bench, Kind, Recorded};
use crate::node_lives::before;
use crate::node_root::{Entry, Node, Tree, is_state, source, whole_of};
use crate::sysfault::{self, Call, Fault, Set};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, io};

/// What stands in the log beside writes and flushes.
#[derive(Clone)]
pub(crate) enum Mark {
    /// A call of mcx, or of what it has started, that changes something; all before it have returned.
    Call(Call),
    /// A run has ended well.
    Ended,
}

/// What a node shall become.
pub(crate) enum Wish {
    /// What `mcx apply` is given, or nothing.
    Apply(Option<tempfile::NamedTempFile>),
    /// One of the configs of a cluster, by a daemon.
    Daemon(&'static str),
}

impl Wish {
    pub(crate) fn config(config: &Value) -> Self {
        let mut input = tempfile::NamedTempFile::new().unwrap();
        input.write_all(source("99-worker-power", config).as_bytes()).unwrap();
        Self::Apply(Some(input))
    }

    pub(crate) fn withdraw() -> Self {
        Self::Apply(None)
    }

    /// That mcx gives everything back.
    pub(crate) fn withdrawal(&self) -> Self {
        match self {
            Self::Apply(_) => Self::withdraw(),
            Self::Daemon(_) => Self::Daemon(CONFIGS[0]),
        }
    }

    pub(crate) fn is_daemon(&self) -> bool {
        matches!(self, Self::Daemon(_))
    }

    /// Fulfils it without any fault; what went wrong.
    pub(crate) fn fulfil(&self, root: &Path) -> Result<(), String> {
        let input = match self {
            Self::Apply(input) => input.as_ref(),
            Self::Daemon(config) => return Joined::new(config).run(root),
        };
        let arguments = applying(input, root);
        let output = Command::new(&arguments[0]).args(&arguments[1..]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let last = arguments.last().unwrap().display();
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("mcx apply … {last}: {}: {out}{err}", output.status))
        }
    }
}

fn applying(input: Option<&tempfile::NamedTempFile>, root: &Path) -> Vec<PathBuf> {
    let mut arguments: Vec<PathBuf> = vec![env!("CARGO_BIN_EXE_mcx").into(), "apply".into(), "--root".into()];
    arguments.push(root.into());
    match input {
        Some(input) => arguments.extend(["--pool".into(), "worker".into(), "-f".into(), input.path().into()]),
        None => arguments.push("--withdraw".into()),
    }
    arguments
}

/// Where the node's root is in the file system: that one has things of its own.
pub(crate) fn node_at(mount: &Path) -> PathBuf {
    mount.join("node")
}

/// A file system with a node that mcx has never seen.
pub(crate) struct Bare {
    pub(crate) kind: Kind,
    pub(crate) image: Image,
    pub(crate) tree: Tree,
}

impl Bare {
    pub(crate) fn new(kind: Kind) -> Self {
        Self::with(kind, |_| {})
    }

    /// With something more in its root.
    pub(crate) fn with(kind: Kind, more: impl FnOnce(&Path)) -> Self {
        let node = Node::new().expect("root and systemctl");
        before(&node);
        more(node.root());
        let bench = Bench::new(kind);
        let image = changed(&bench, &bench.image(), |mount| {
            let copied = Command::new("cp").arg("-a").args([node.root(), &node_at(mount)]).status().unwrap();
            assert!(copied.success());
        });
        Self { kind, image, tree: node.tree() }
    }

    /// The same after these wishes were fulfilled.
    pub(crate) fn after(&self, wishes: &[Wish]) -> Image {
        changed(&Bench::new(self.kind), &self.image, |mount| {
            for wish in wishes {
                wish.fulfil(&node_at(mount)).unwrap();
            }
        })
    }
}

/// A disk after `change`, and after an orderly end.
fn changed(bench: &Bench, image: &Image, change: impl FnOnce(&Path)) -> Image {
    bench.with(image, change).unwrap();
    bench.image()
}

/// What is at a node: the tree, and what mcx says of it.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) tree: Tree,
    /// Mcx's own files.
    pub(crate) state: Tree,
    /// Name of the config that the node has; empty for none.
    pub(crate) current: String,
    /// Stage of the open update.
    pub(crate) stage: Option<String>,
    /// The journal says that its guard is on the node.
    pub(crate) is_guarded: bool,
    /// Of all that is there, mcx's own files too: what the next run does depends on nothing else.
    pub(crate) digest: u64,
}

impl Life {
    /// Reads it; a state file that is damaged is an error.
    pub(crate) fn of(root: &Path) -> Result<Self, String> {
        Self::in_tree(whole_of(root))
    }

    /// Reads what is in a tree, or in a part of one.
    pub(crate) fn in_tree(mut tree: Tree) -> Result<Self, String> {
        let mut hasher = DefaultHasher::new();
        tree.hash(&mut hasher);
        let own: Tree = tree.extract_if(.., |path, _| is_state(path)).collect();
        let mut records = BTreeMap::new();
        for (path, entry) in own.iter().filter(|(path, _)| Path::new(path).extension().is_some_and(|end| end == "json"))
        {
            // A line that says what it is, and one that is it.
            let text = String::from_utf8_lossy(&entry.4);
            let body = text.lines().nth(1).unwrap_or_default();
            let value: Value =
                serde_json::from_str(body).map_err(|why| format!("{path} is damaged: {why}: {text:?}"))?;
            records.insert(path.as_str(), value);
        }
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let current =
            records.get("/var/lib/mcx/current.json").map(|current| word(&current["name"])).unwrap_or_default();
        let journal = records.get("/var/lib/mcx/journal.json");
        let is_guarded = journal.is_some_and(|journal| journal["guard"]["left"] == true);
        let stage = journal.map(|journal| word(&journal["stage"]));
        Ok(Self { tree, state: own, current, stage, is_guarded, digest: hasher.finish() })
    }

    /// The files of the guard, which is there.
    pub(crate) fn guard(&self) -> Vec<(String, Entry)> {
        GUARD.map(|path| (path.to_owned(), self.at(path).expect(path).clone())).into()
    }

    /// What is at a path, be it mcx's own.
    pub(crate) fn at(&self, path: &str) -> Option<&Entry> {
        self.tree.get(path).or_else(|| self.state.get(path))
    }
}

/// What else happens on the file system meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Neighbour {
    Quiet,
    /// Somebody flushes the whole file system all the time: what nobody asked to flush goes to the disk early.
    Flushing,
}

/// Runs of mcx, one after the other, and all that the disk was asked for meanwhile.
pub(crate) struct Recording {
    pub(crate) kind: Kind,
    pub(crate) start: Image,
    pub(crate) runs: Vec<Wish>,
    /// Before the first run and after each.
    pub(crate) lives: Vec<Life>,
    /// What paths may be as at the start, too: it is what a power cut has left.
    pub(crate) earlier: Vec<Tree>,
    pub(crate) log: Vec<Event<Mark>>,
    /// The calls of each run.
    pub(crate) calls: Vec<Vec<Call>>,
    /// The files of the guard, in the order in which they come, when the update has one.
    pub(crate) guard: Vec<(String, Entry)>,
    /// The node with them.
    pub(crate) guarded: Option<Tree>,
}

/// The files of the guard, in the order in which they come.
const GUARD: [&str; 3] = [
    "/var/lib/mcx/bin/mcx",
    "/etc/systemd/system/mcx-guard.service",
    "/etc/systemd/system/sysinit.target.wants/mcx-guard.service",
];

impl Recording {
    /// `lie`: the call of that number of that run is not made and returns 0.
    pub(crate) fn new(
        kind: Kind,
        start: Image,
        earlier: Vec<Tree>,
        runs: Vec<Wish>,
        neighbour: Neighbour,
        lie: Option<(usize, usize)>,
    ) -> Self {
        let recorded = Recorded::mount(kind, start.clone());
        let root = node_at(&recorded.root());
        let mut lives = vec![Life::of(&root).unwrap()];
        let mut calls = Vec::new();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if neighbour == Neighbour::Flushing {
                scope.spawn(|| {
                    let any = fs::File::open(recorded.root()).unwrap();
                    while !is_over.load(Ordering::Relaxed) {
                        nix::unistd::syncfs(any.as_fd()).unwrap();
                        std::thread::sleep(Duration::from_millis(3));
                    }
                });
            }
            for (number, wish) in runs.iter().enumerate() {
                let fault = lie.filter(|(run, _)| *run == number).map_or(Fault::None, |(_, call)| Fault::Lie(call));
                calls.push(run(&recorded, &root, wish, fault));
                lives.push(Life::of(&root).unwrap());
            }
            is_over.store(true, Ordering::Relaxed);
        });
        Self { kind, start, runs, lives, earlier, log: recorded.ended(), calls, guard: Vec::new(), guarded: None }
    }

    /// Looks at the disk after the last file of the guard has come.
    pub(crate) fn guarded(mut self) -> Self {
        let comes = |call: &Call| call.name.starts_with("rename") && call.path == GUARD[2];
        let after = self.calls[0].iter().position(comes).expect("the update has a guard") + 2;
        let point = Point { at: self.event_of(0, after), loss: Loss::All, seed: 0 };
        let image = self.states(vec![point]).next().unwrap().image;
        let life = Bench::new(self.kind).with(&image, |at| Life::of(&node_at(at))).unwrap().unwrap();
        self.guard = life.guard();
        self.guarded = Some(life.tree);
        self
    }

    /// The event that marks a call of a run.
    pub(crate) fn event_of(&self, run: usize, call: usize) -> usize {
        let before: usize = self.calls[..run].iter().map(|calls| calls.len() + 1).sum();
        let marks = self.log.iter().enumerate().filter(|(_, event)| matches!(event, Event::Mark(_)));
        marks.map(|(at, _)| at).nth(before + call).unwrap()
    }

    /// What a power cut can leave, for each of these points, which are in order.
    pub(crate) fn states(&self, points: Vec<Point>) -> States<'_> {
        States {
            recording: self,
            points: points.into_iter(),
            happened: 0,
            disk: Cached::new(self.start.clone(), self.kind.superblock()),
            run: 0,
            promised: Promised::default(),
        }
    }
}

/// One run to its end, marked in the log.
fn run(recorded: &Recorded<Mark>, root: &Path, wish: &Wish, fault: Fault) -> Vec<Call> {
    let tool = sysfault::tool().expect("a C compiler on x86-64");
    let (reader, writer) = io::pipe().unwrap();
    let mut command = sysfault::command(tool, root, Set::Change, fault, Path::new("/dev/stdin"));
    let joined = match wish {
        Wish::Apply(input) => {
            command.args(applying(input.as_ref(), root));
            None
        }
        Wish::Daemon(config) => {
            let joined = Joined::new(config);
            command.arg(std::env::current_exe().unwrap());
            command = joined.command(command, root);
            Some(joined)
        }
    };
    command.stdin(writer).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // Its copy of the pipe's end goes with it.
    drop(command);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let mut calls = Vec::new();
    std::thread::scope(|scope| {
        if let Some(joined) = &joined {
            // It has told that it is done, and would run for ever.
            scope.spawn(move || {
                let done = joined.until_done();
                recorded.disk.mark(Mark::Ended);
                kill(pid, Signal::SIGTERM).unwrap();
                done.unwrap();
            });
        }
        for line in BufReader::new(reader).lines() {
            let line = line.unwrap();
            let call = sysfault::call(&line, root).unwrap_or_else(|| unreachable!("{line}"));
            recorded.disk.mark(Mark::Call(call.clone()));
            calls.push(call);
        }
    });
    let output = child.wait_with_output().unwrap();
    if joined.is_none() {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{fault:?}: {out}{err}");
        recorded.disk.mark(Mark::Ended);
    }
    calls
}

/// A power cut: after which event, and what it takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) at: usize,
    pub(crate) loss: Loss,
    pub(crate) seed: u64,
}

/// What a power cut leaves.
pub(crate) struct State {
    pub(crate) point: Point,
    pub(crate) image: Image,
    /// The run that was cut off; as many as there are when all had ended.
    pub(crate) run: usize,
    pub(crate) promised: Promised,
}

/// See [`Recording::states`].
pub(crate) struct States<'a> {
    recording: &'a Recording,
    points: std::vec::IntoIter<Point>,
    happened: usize,
    disk: Cached,
    run: usize,
    promised: Promised,
}

impl Iterator for States<'_> {
    type Item = State;

    fn next(&mut self) -> Option<State> {
        let point = self.points.next()?;
        for event in &self.recording.log[self.happened..point.at] {
            self.disk.happens(event);
            match event {
                Event::Mark(Mark::Call(call)) => self.promised.is_called(call),
                Event::Mark(Mark::Ended) => {
                    self.run += 1;
                    self.promised = Promised::default();
                }
                _ => {}
            }
        }
        self.happened = point.at;
        let image = self.disk.cut(point.loss, point.seed);
        Some(State { point, image, run: self.run, promised: self.promised.clone() })
    }
}

/// What the system calls of a run have promised: a name that was changed stays so once its folder was flushed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promised {
    calling: Option<Call>,
    /// By folder: names that were changed since it was flushed.
    open: BTreeMap<String, BTreeSet<String>>,
    /// How often each path was changed, as far as it is durable.
    durable: BTreeMap<String, usize>,
    changes: BTreeMap<String, usize>,
    /// Whether each path is there after its last change.
    is_there: BTreeMap<String, bool>,
}

impl Promised {
    pub(crate) fn after(calls: &[Call]) -> Self {
        let mut promised = Self::default();
        for call in calls {
            promised.is_called(call);
        }
        promised.returned();
        promised
    }

    fn is_called(&mut self, call: &Call) {
        self.returned();
        self.calling = Some(call.clone());
    }

    fn returned(&mut self) {
        let Some(Call { name, path, .. }) = self.calling.take() else { return };
        match name.as_str() {
            "rename" | "renameat" | "renameat2" | "unlink" | "unlinkat" | "rmdir" | "symlink" | "symlinkat"
            | "mkdir" | "mkdirat" => {
                *self.changes.entry(path.clone()).or_default() += 1;
                self.is_there.insert(path.clone(), !name.starts_with("unlink") && name != "rmdir");
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                self.open.entry(if folder.is_empty() { "/" } else { folder }.to_owned()).or_default().insert(path);
            }
            "fsync" | "fdatasync" => {
                for changed in self.open.remove(&path).unwrap_or_default() {
                    let changes = self.changes[&changed];
                    self.durable.insert(changed, changes);
                }
            }
            _ => {}
        }
    }

    /// How often the name was changed, durably.
    pub(crate) fn durable(&self, path: &str) -> usize {
        self.durable.get(path).copied().unwrap_or(0)
    }

    /// Paths of which the last change until now is durable, and whether they are there since.
    pub(crate) fn standing(&self) -> impl Iterator<Item = (&String, bool)> {
        let is_calling = |path: &String| self.calling.as_ref().is_some_and(|call| call.path == *path);
        let durable = self.durable.iter().filter(|(path, changes)| self.changes.get(*path) == Some(changes));
        durable.filter(move |(path, _)| !is_calling(path)).map(|(path, _)| (path, self.is_there[path]))
    }

    /// Paths whose last change, of those that `all` has, is durable.
    pub(crate) fn finished<'a>(&'a self, all: &'a Self) -> impl Iterator<Item = &'a String> {
        all.changes.iter().filter(|(path, changes)| self.durable.get(*path) == Some(*changes)).map(|(path, _)| path)
    }
}
