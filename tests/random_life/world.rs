//! The real thing: a folder that is a node, its daemon, and an API server in memory. It does what a step says, waits for what
//! the model says that comes of it, and compares everything.

use crate::model::{ANY, Finding, Model, Outcome, RUNTIME, Says, is_link_dir};
use crate::node_api::{self, NodeApi};
use crate::node_root::{Entry, Node, Tree, assert_same, config};
use crate::step::{ConfigIs, PolicyIs, Step};
use crate::sysfault::{self, Fault, Set};
use mcx::api::NodeName;
use mcx::node::cluster::Cluster;
use mcx::node::daemon::{self, Metrics, Options};
use mcx::node::disk::Disk;
use mcx::node::host::Host;
use mcx::node::look;
use nix::sys::stat::Mode;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const FORCE: &str = "/run/machine-config-daemon-force";
const VENDOR: &str = "/usr/lib/systemd/system";
/// Far more than anything takes: what never comes is what this is about.
const LIMIT: Duration = Duration::from_mins(2);

/// A daemon in this process.
struct Daemon {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

pub(crate) struct World {
    node: Node,
    api: NodeApi,
    tool: &'static Path,
    daemon: Option<Daemon>,
    /// The kubeconfig of daemons that are processes, and what they print.
    dir: tempfile::TempDir,
    boots: u32,
    policies: u32,
    bare: Tree,
    pub(crate) model: Model,
    /// Paths that a hand has changed.
    by_hand: BTreeSet<String>,
    pub(crate) kills: usize,
    /// A daemon that was killed when its journal was gone has left records that the next update drops.
    has_more_records: bool,
    runtime: tokio::runtime::Runtime,
}

fn bare() -> Option<Node> {
    let node = Node::lasting()?;
    node.write("/etc/was/file", "was\n", 0o4751);
    node.own("/etc/was/file", 1000, 107);
    fs::set_permissions(node.at("/etc/was/file"), fs::Permissions::from_mode(0o4751)).unwrap();
    node.link("/etc/hosts", "/etc/was/link");
    nix::unistd::mkfifo(&node.at("/etc/was/pipe"), Mode::from_bits_truncate(0o600)).unwrap();
    node.write("/etc/hosts", "hosts\n", 0o644);
    node.write("/home/boot/.ssh/authorized_keys", "mine\n", 0o640);
    node.own("/home/boot/.ssh", 1000, 1000);
    node.write("/etc/systemd/system/local.service", crate::step::BODIES[1], 0o640);
    node.systemctl(&["enable", "local.service"]);
    node.systemctl(&["mask", "vendor.service"]);
    // As a folder it would say that a service manager runs here.
    fs::create_dir_all(node.at(RUNTIME)).unwrap();
    node.link("there", "/run/systemd/system");
    Some(node)
}

impl World {
    /// A node that has joined. None where it cannot be run.
    pub(crate) fn new() -> Option<Self> {
        let (tool, node) = (sysfault::tool()?, bare()?);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let api = NodeApi::new();
        let address = runtime.block_on(api.serve());
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kubeconfig"), node_api::kubeconfig(address, "")).unwrap();
        let bare = node.tree();
        let model = Model::new(bare.clone());
        let mut this = Self {
            node,
            api,
            tool,
            daemon: None,
            dir,
            boots: 1,
            policies: 1,
            bare,
            model,
            by_hand: BTreeSet::new(),
            kills: 0,
            has_more_records: false,
            runtime,
        };
        this.policy(PolicyIs { files: false, was: false, units: false, keys: false });
        this.start();
        this.settle(&Outcome { says: Says::Done, boots: false });
        Some(this)
    }

    fn start(&mut self) {
        let within = self.runtime.enter();
        let (root, client) = (self.node.root().to_owned(), self.api.client());
        drop(within);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = self.runtime.spawn(async move {
            let host = Host::open(&root).unwrap().with_program(PathBuf::from(env!("CARGO_BIN_EXE_mcx")));
            let disk = Disk::open(Arc::new(host), Duration::from_secs(10)).await.unwrap();
            let cluster = Cluster::new(client, NodeName::from("n1"));
            let options = Options { watch_time: Duration::from_millis(10), ..Options::default() };
            let ready = Arc::new(AtomicBool::new(false));
            daemon::run(disk, cluster, options, Metrics::default(), ready, stopped).await.unwrap();
        });
        self.daemon = Some(Daemon { stop, task });
    }

    fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop.cancel();
            self.runtime.block_on(daemon.task).unwrap();
        }
    }

    fn policy(&mut self, is: PolicyIs) {
        let actions = |boots: bool| json!([{"type": if boots { "Reboot" } else { "None" }}]);
        self.policies += 1;
        let generation = self.policies;
        let policy = json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfiguration",
            "metadata": {"name": "cluster", "generation": generation}, "spec": {},
            "status": {"observedGeneration": generation, "nodeDisruptionPolicyStatus": {
                "clusterPolicies": {"files": [{"path": "/etc/was", "actions": actions(is.was)}], "sshkey": {"actions": actions(is.keys)}},
                "defaultActions": {"files": actions(is.files), "units": actions(is.units)}}}});
        self.api.state().policy = Some(policy);
    }

    /// Memory is empty and the boot id another.
    fn boot(&mut self) {
        self.stop();
        self.boots += 1;
        self.node.write("/proc/sys/kernel/random/boot_id", &format!("boot-{}\n", self.boots), 0o444);
        fs::remove_dir_all(self.node.at(RUNTIME)).unwrap();
        fs::create_dir_all(self.node.at(RUNTIME)).unwrap();
        let _ = fs::remove_file(self.node.at(FORCE));
        self.start();
    }

    /// Does a step and compares. Whether there was anything to do.
    pub(crate) fn step(&mut self, step: &Step) -> bool {
        let (before, current) = (self.model.disk.clone(), self.model.current.clone());
        if self.model.step(step).is_none() {
            return false;
        }
        let by_hand = self.model.disk.clone();
        // What a hand makes of one path in two steps must not be seen in between by a daemon that waits for room.
        let is_hand = matches!(step, Step::Hand(..) | Step::UnitHand(..) | Step::PutRight);
        let in_secret = is_hand && self.model.is_pending();
        let outcome = self.model.settle();
        if in_secret {
            self.stop();
        }
        match step {
            Step::Config(_) | Step::Withdraw(_) | Step::Killed(..) => self.want(),
            Step::Hand(..) | Step::UnitHand(..) | Step::PutRight => self.hand(&before, &by_hand),
            Step::Force => self.node.write(FORCE, "", 0o644),
            Step::Boot => self.boot(),
            Step::Restart => {
                self.stop();
                self.start();
            }
            Step::Policy(policy) => self.policy(*policy),
        }
        if let Step::Killed(_, call) = step {
            self.killed(*call, &outcome);
            self.has_more_records = true;
        } else if self.model.current != current {
            self.has_more_records = false;
        }
        if self.daemon.is_none() {
            self.start();
        }
        self.settle(&outcome);
        self.compare(&outcome);
        true
    }

    fn want(&mut self) {
        let desired = self.model.desired.clone().unwrap();
        // It is killed with its wish unheard, or hears it.
        let name = desired.name();
        self.api.config(&name, &desired.value());
        self.api.annotate("desiredConfig", &name);
    }

    /// Brings the disk from one tree to another.
    fn hand(&mut self, from: &Tree, to: &Tree) {
        let paths: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for path in paths.into_iter().filter(|path| from.get(*path) != to.get(*path)) {
            self.by_hand.insert(path.clone());
            self.put(path, to.get(path));
        }
    }

    fn put(&self, path: &str, entry: Option<&Entry>) {
        let at = self.node.at(path);
        let Some((kind, mode, uid, gid, bytes)) = entry else {
            let is_dir = fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_dir());
            return if is_dir { fs::remove_dir(&at).unwrap() } else { fs::remove_file(&at).unwrap() };
        };
        let fresh = at.with_file_name(".by-hand");
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        match kind {
            'f' => fs::write(&fresh, bytes).unwrap(),
            'd' => fs::create_dir(&fresh).unwrap(),
            'o' => nix::unistd::mkfifo(&fresh, Mode::from_bits_truncate(*mode)).unwrap(),
            _ => symlink(self.target(path, bytes), &fresh).unwrap(),
        }
        lchown(&fresh, Some(*uid), Some(*gid)).unwrap();
        if *kind != 'l' {
            fs::set_permissions(&fresh, fs::Permissions::from_mode(*mode)).unwrap();
        }
        match fs::symlink_metadata(&at) {
            Ok(meta) if meta.is_dir() => fs::remove_dir(&at).unwrap(),
            Ok(_) if *kind == 'd' => fs::remove_file(&at).unwrap(),
            _ => {}
        }
        fs::rename(&fresh, &at).unwrap();
    }

    /// A link of which only the name counts leads to the unit's file.
    fn target(&self, path: &str, bytes: &[u8]) -> PathBuf {
        if bytes != ANY {
            return PathBuf::from(std::str::from_utf8(bytes).unwrap());
        }
        let name = path.rsplit_once('/').unwrap().1;
        let name = if name == "ntp.service" { "chronyd.service" } else { name };
        let own = format!("/etc/systemd/system/{name}");
        let is_own = fs::symlink_metadata(self.node.at(&own)).is_ok();
        if is_own { own.into() } else { format!("{VENDOR}/{}", name.replace("@a.", "@.")).into() }
    }

    /// A daemon of its own process takes over, and is killed before its call of this number that changes a file.
    fn killed(&mut self, call: usize, outcome: &Outcome) {
        self.stop();
        let log = fs::File::create(self.dir.path().join("daemon.log")).unwrap();
        let calls = self.dir.path().join("calls");
        let child = sysfault::command(self.tool, self.node.root(), Set::Change, Fault::Kill(call), &calls)
            .arg(env!("CARGO_BIN_EXE_mcx"))
            .args(["daemon", "--node-name", "n1", "--listen", "127.0.0.1:0", "--watch-time", "10ms", "--root"])
            .arg(self.node.root())
            .arg("--kubeconfig")
            .arg(self.dir.path().join("kubeconfig"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut process = Process(child);
        let start = Instant::now();
        let mut told = start;
        loop {
            if let Some(ended) = process.0.try_wait().unwrap() {
                assert_eq!(ended.code(), Some(sysfault::KILLED), "{}", self.log());
                self.kills += 1;
                return;
            }
            self.wait(&mut told);
            let boots = self.api.annotation("phase").starts_with("Rebooting");
            if boots || self.says(outcome).is_ok() || start.elapsed() > LIMIT {
                return process.stop();
            }
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("daemon.log")).unwrap_or_default()
    }

    /// Whether the node says what it shall; else what it says instead.
    fn says(&self, outcome: &Outcome) -> Result<(), String> {
        let annotation = |key: &str| self.api.annotation(key);
        let (state, reason, phase) = (annotation("state"), annotation("reason"), annotation("phase"));
        let current = self.model.current.as_ref().map(ConfigIs::name).unwrap_or_default();
        let asked = annotation("desiredDrain");
        let rests = phase.is_empty() && (asked.is_empty() || asked.starts_with("uncordon"));
        let is = match &outcome.says {
            Says::Done => state == "Done" && reason.is_empty() && annotation("currentConfig") == current,
            Says::Drift(found) => state == "Degraded" && drift(&reason).as_ref() == Some(found),
            Says::InTheWay(items) => {
                let to = self.model.desired.as_ref().map(ConfigIs::name).unwrap_or_default();
                state == "Degraded" && in_the_way(&reason, &to).as_ref() == Some(items)
            }
        };
        if is && rests {
            return Ok(());
        }
        let said = format!("{state} at {}, phase {phase:?}, asks {asked:?}: {reason}", annotation("currentConfig"));
        Err(format!("the node says {said}\nand not {:?} at {current}", outcome.says))
    }

    /// Waits a little. This API server does not keep what happens between a list and the watch that follows it: it is told
    /// again now and then.
    fn wait(&self, told: &mut Instant) {
        if told.elapsed() > Duration::from_millis(700) {
            *told = Instant::now();
            self.api.change(|_| {});
        }
        self.api.serve_drains();
        std::thread::sleep(Duration::from_millis(3));
    }

    /// Waits for what comes of a step.
    fn settle(&mut self, outcome: &Outcome) {
        let start = Instant::now();
        let mut told = start;
        let mut booted = false;
        loop {
            self.wait(&mut told);
            if self.api.annotation("phase").starts_with("Rebooting") && !booted {
                assert!(outcome.boots, "a reboot that nothing asks for: {:?}", self.api.state().story);
                assert!(self.api.is_cordoned(), "rebooted undrained");
                booted = true;
                self.boot();
            }
            let says = self.says(outcome);
            if says.is_ok() && booted == outcome.boots {
                return;
            }
            assert!(
                start.elapsed() < LIMIT,
                "{}; booted: {booted}, and shall: {}",
                says.err().unwrap_or_default(),
                outcome.boots
            );
        }
    }

    /// Disk, state and originals are as the model has them.
    fn compare(&self, outcome: &Outcome) {
        assert_same(&shape(&self.node.tree(), &self.model.disk), &shape(&self.model.disk, &self.model.disk), "disk");
        let host = self.node.host();
        let stored = look::stored(&host).unwrap();
        assert!(stored.journal.is_none(), "a journal is open");
        assert!(stored.failed.is_none(), "something failed: {:?}", stored.failed);
        let current = stored.current.map(|current| current.name.to_string()).unwrap_or_default();
        assert_eq!(current, self.model.current.as_ref().map(ConfigIs::name).unwrap_or_default(), "current.json");
        self.compare_originals();
        let now = self.model.current.as_ref().map_or_else(|| config(&[], &[], None), ConfigIs::value);
        let diff = self.node.runtime.block_on(look::diff(&host, &crate::node_root::items(&now))).unwrap();
        let found: usize = diff.items.iter().map(|item| item.deviations.len()).sum();
        assert_eq!(found, self.model.drift().len(), "{:?} beside {:?}, {outcome:?}", diff.items, self.model.drift());
    }

    fn compare_originals(&self) {
        let dir = self.node.at("/var/lib/mcx/originals");
        let (mut paths, mut units) = (BTreeMap::new(), BTreeMap::new());
        for entry in fs::read_dir(&dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.starts_with("p-") && !name.starts_with("u-") {
                continue;
            }
            let text = fs::read_to_string(dir.join(&name)).unwrap();
            let record: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
            if name.starts_with("p-") {
                paths.insert(record["path"].as_str().unwrap().to_owned(), original(&dir, &record));
            } else {
                let links: BTreeSet<String> = record["links"].as_object().unwrap().keys().cloned().collect();
                units.insert(record["unit"].as_str().unwrap().to_owned(), links);
            }
        }
        if self.has_more_records {
            paths.retain(|path, _| self.model.before.contains_key(path));
            units.retain(|unit, _| self.model.links_before.contains_key(unit));
        }
        assert_eq!(paths, self.model.before, "originals of paths");
        let expected: BTreeMap<String, BTreeSet<String>> = self
            .model
            .links_before
            .iter()
            .map(|(unit, (links, _))| (unit.clone(), links.keys().cloned().collect()))
            .collect();
        assert_eq!(units, expected, "originals of enablement");
    }

    /// The end: everything is put right and withdrawn, and what no hand has changed is as it was before mcx.
    pub(crate) fn end(mut self) -> usize {
        self.step(&Step::PutRight);
        self.step(&Step::Withdraw(vec![]));
        let pick = |tree: &Tree| -> Tree {
            let is_foreign = |path: &String| {
                self.by_hand.contains(path) || path.starts_with("/proc") || path.starts_with("/run") || {
                    let below = format!("{path}/");
                    self.by_hand.iter().any(|hand| hand.starts_with(&below))
                }
            };
            tree.iter().filter(|(path, _)| !is_foreign(path)).map(|(p, e)| (p.clone(), e.clone())).collect()
        };
        if self.model.drift().is_empty() && !self.model.is_pending() {
            assert_same(&pick(&self.node.tree()), &pick(&self.bare), "withdrawn");
        }
        self.stop();
        self.kills
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop.cancel();
        }
    }
}

/// A daemon that does not outlive the test.
struct Process(Child);

impl Process {
    fn stop(mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        // It may have ended by itself.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What of a tree is compared: folders of links come and go with them, and of some links only the name counts.
fn shape(tree: &Tree, model: &Tree) -> Tree {
    let is_other = |path: &str| path.starts_with("/proc") || path == FORCE;
    let kept = tree.iter().filter(|(path, entry)| !(is_other(path) || (entry.0 == 'd' && is_link_dir(path))));
    kept.map(|(path, entry)| {
        let any = entry.0 == 'l' && model.get(path).is_some_and(|other| other.4 == ANY);
        let entry = if any { ('l', 0o777, 0, 0, ANY.to_vec()) } else { entry.clone() };
        (path.clone(), entry)
    })
    .collect()
}

/// A record of what stood at a path.
fn original(dir: &Path, record: &Value) -> Option<Entry> {
    let number = |key: &str| u32::try_from(record[key].as_u64().unwrap_or_default()).unwrap();
    let (mode, uid, gid) = (number("mode"), number("uid"), number("gid"));
    match record["was"].as_str().unwrap() {
        "nothing" => None,
        "file" => Some(('f', mode, uid, gid, fs::read(dir.join(record["blob"].as_str().unwrap())).unwrap())),
        "link" => {
            let hex = record["target"].as_str().unwrap();
            let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
            Some(('l', 0o777, uid, gid, bytes.collect()))
        }
        "fifo" => Some(('o', mode, uid, gid, vec![])),
        "dir" => Some(('d', mode, uid, gid, vec![])),
        other => panic!("an original that was {other}"),
    }
}

/// The findings of a reason that tells of drift.
fn drift(reason: &str) -> Option<BTreeSet<Finding>> {
    let (head, rest) = reason.strip_prefix("Drift: ")?.split_once(": ")?;
    let (list, _) = rest.split_once(". Put it right by hand, or create ")?;
    let found: BTreeSet<Finding> = list.split("; ").map(finding).collect();
    let count: usize = head.split(' ').next()?.parse().ok()?;
    assert_eq!(count, list.split("; ").count(), "{reason}");
    Some(found)
}

/// One of them: its item, and what of it.
pub(crate) fn finding(text: &str) -> Finding {
    let (item, what) = text
        .strip_prefix("keys of boot ")
        .map(|what| ("keys of boot", what))
        .or_else(|| text.split_once(' '))
        .unwrap_or((text, ""));
    let starts = [
        ("has other contents", "contents"),
        ("has mode", "mode"),
        ("has owner", "owner"),
        ("has group", "group"),
        ("is missing", "missing"),
        ("is not masked, expected masked", "mask"),
        ("is masked, expected not masked", "mask"),
        ("is masked until the next boot, expected not masked", "mask until the next boot"),
        ("is masked, expected enabled", "enablement"),
        ("is masked", "type"),
        ("is a ", "type"),
        ("is disabled, expected enabled", "enablement"),
        ("does not exist, expected enabled", "enablement"),
        ("is enabled", "enablement"),
        ("lacks the link", "enablement"),
    ];
    let kind = starts.iter().find(|(start, _)| what.starts_with(start));
    (item.to_owned(), kind.map_or("something else", |(_, kind)| kind))
}

/// The items and paths that are in the way of a config.
fn in_the_way(reason: &str, to: &str) -> Option<BTreeSet<String>> {
    let list = reason.strip_prefix(&format!("cannot update to {to}: "))?;
    let (list, _) = list.split_once(". It goes on by itself once that is put right")?;
    // What is said of an item may hold a semicolon itself.
    let item = |text: &str| {
        let first = text.split(' ').next().unwrap_or_default();
        (first.starts_with('/') || first.ends_with(".service")).then(|| first.to_owned())
    };
    Some(list.split("; ").filter_map(item).collect())
}
