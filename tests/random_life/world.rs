//! The real thing: a folder that is a node, its daemon, and an API server in memory. It does what a step says, waits for what
//! the model says that comes of it, and compares everything.

use crate::disk::{self, FORCE};
use crate::model::{Model, Outcome, Says};
use crate::node_api::{self, NodeApi};
use crate::node_root::{Node, Tree, assert_same, config};
use crate::said::Said;
use crate::step::{ConfigIs, PolicyIs, Step};
use crate::sysfault::{self, Fault, Set};
use mcx::api::NodeName;
use mcx::node::cluster::Cluster;
use mcx::node::daemon::{self, Metrics, Options};
use mcx::node::disk::Disk;
use mcx::node::host::Host;
use mcx::node::look;
use nix::sys::stat::Mode;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// `/run/systemd/system` leads here: as a folder it would say that a service manager runs.
const RUNTIME: &str = "/run/systemd/there";
const POOL: &str = "worker";
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
        let model = Model::new(bare.clone(), RUNTIME);
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
        this.settle(&Outcome { says: Says::Done, boots: false }, false);
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
            Step::Config(_) | Step::Withdraw(_) | Step::Killed(..) | Step::Cut(..) => self.want(),
            Step::Hand(..) | Step::UnitHand(..) | Step::PutRight => {
                let changed = disk::change(&before, &by_hand, &|path| self.node.at(path));
                self.by_hand.extend(changed);
            }
            Step::Force => self.node.write(FORCE, "", 0o644),
            Step::Boot => self.boot(),
            Step::Restart => {
                self.stop();
                self.start();
            }
            Step::Policy(policy) => self.policy(*policy),
        }
        if let Step::Killed(_, call) | Step::Cut(_, call) = step {
            self.killed(*call, &outcome);
            self.has_more_records = true;
        } else if self.model.current != current {
            self.has_more_records = false;
        }
        let is_cut = matches!(step, Step::Cut(..));
        if is_cut {
            self.boot();
        } else if self.daemon.is_none() {
            self.start();
        }
        self.settle(&outcome, is_cut);
        self.compare(&outcome);
        true
    }

    fn want(&mut self) {
        let desired = self.model.desired.clone().unwrap();
        // It is killed with its wish unheard, or hears it.
        let name = desired.name(POOL);
        self.api.config(&name, &desired.value());
        self.api.annotate("desiredConfig", &name);
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
        let said = Said {
            state: annotation("state"),
            reason: annotation("reason"),
            phase: annotation("phase"),
            current: annotation("currentConfig"),
            asked: annotation("desiredDrain"),
        };
        said.is_as(&self.model, outcome, POOL)
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

    /// Waits for what comes of a step. A boot that came with it may have been that of the update.
    fn settle(&mut self, outcome: &Outcome, has_booted: bool) {
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
            if says.is_ok() && (booted == outcome.boots || has_booted) {
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
        disk::assert_as(&self.model, &self.node.tree());
        let host = self.node.host();
        let stored = look::stored(&host).unwrap();
        assert!(stored.journal.is_none(), "a journal is open");
        assert!(stored.failed.is_none(), "something failed: {:?}", stored.failed);
        let current = stored.current.map(|current| current.name.to_string()).unwrap_or_default();
        assert_eq!(
            current,
            self.model.current.as_ref().map(|current| current.name(POOL)).unwrap_or_default(),
            "current.json"
        );
        disk::assert_originals(&self.model, &self.node.at("/var/lib/mcx/originals"), self.has_more_records);
        let now = self.model.current.as_ref().map_or_else(|| config(&[], &[], None), ConfigIs::value);
        let diff = self.node.runtime.block_on(look::diff(&host, &crate::node_root::items(&now))).unwrap();
        let found: usize = diff.items.iter().map(|item| item.deviations.len()).sum();
        assert_eq!(found, self.model.drift().len(), "{:?} beside {:?}, {outcome:?}", diff.items, self.model.drift());
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
