//! A machine on a folder: `mcx daemon` as a process that comes back when it ends, a boot id that a boot changes, and a
//! `systemctl` that notes what it is asked for and from which file what runs was started. A test plays the controller,
//! and the weather stands before the API server.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::node_api::{self, NodeApi};
use crate::node_root::{Node, config, file};
use crate::weather::Weather;
use kube::Client;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The file that all is about; its text is the name of the config.
pub(crate) const FILE: &str = "/etc/hello.conf";
const CALLS: &str = "/calls";
/// The text of [`FILE`] that what runs was started with.
const RUNNING: &str = "/running";
/// What systemd is asked by an update that restarts.
pub(crate) const RESTART: &str = "restart -- app.service";
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> /calls
case "$1" in
show) printf 'LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0\n' ;;
restart) [ "$3" != app.service ] || { line=; read -r line < /etc/hello.conf; echo "$line" > /running; } ;;
esac
"#;

/// What a change of [`FILE`] costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Restart,
    Reboot,
}

/// In effect when its generation is 2.
pub(crate) fn policy(cost: Cost) -> Value {
    let actions = match cost {
        Cost::Restart => json!([{"type": "Drain"}, {"type": "Restart", "restart": {"serviceName": "app.service"}}]),
        Cost::Reboot => json!([{"type": "Reboot"}]),
    };
    json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfiguration",
        "metadata": {"name": "cluster", "generation": 2}, "spec": {},
        "status": {"observedGeneration": 2, "nodeDisruptionPolicyStatus": {
            "clusterPolicies": {"files": [{"path": FILE, "actions": actions}]},
            "defaultActions": {"files": [{"type": "None"}], "units": [{"type": "Reboot"}]}}}})
}

pub(crate) fn rendered(n: u32) -> (String, Value) {
    let name = format!("rendered-w-{n}");
    let files = if n == 0 { vec![] } else { vec![file(FILE, &format!("{name}\n"), 0o644)] };
    (name, config(&files, &[], None))
}

/// mcx without its symbols, since a copy of it comes to each machine; with them where they cannot be taken away.
fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let made = BINARY.get_or_init(|| {
        let (full, dir) = (PathBuf::from(env!("CARGO_BIN_EXE_mcx")), env!("CARGO_TARGET_TMPDIR"));
        let small = Path::new(dir).join(format!("mcx-{}", std::process::id()));
        let stripped = Command::new("strip").arg("-o").args([&small, &full]).status();
        if stripped.is_ok_and(|status| status.success()) { small } else { full }
    });
    made.clone()
}

/// What happens to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The daemon is killed.
    Kill,
    /// The power fails, and the machine boots.
    PowerCut,
    /// The daemon is killed and `/var/lib/mcx` is gone.
    Lose,
    /// The same while the daemon runs.
    LoseUnder,
}

/// The cluster as a test plays it: the Node of one machine, and what the controller does with it.
pub(crate) trait Cluster {
    /// Without the prefix; empty when there is none.
    fn annotation(&self, key: &str) -> String;
    fn annotate(&self, key: &str, value: &str);
    fn is_cordoned(&self) -> bool;
    /// Cordons and grants, or uncordons, as it is asked for.
    fn serve_drains(&self);
    /// What is known of the Node, for messages.
    fn told(&self) -> String;
}

impl Cluster for NodeApi {
    fn annotation(&self, key: &str) -> String {
        Self::annotation(self, key)
    }

    fn annotate(&self, key: &str, value: &str) {
        Self::annotate(self, key, value);
    }

    fn is_cordoned(&self) -> bool {
        Self::is_cordoned(self)
    }

    fn serve_drains(&self) {
        Self::serve_drains(self);
    }

    fn told(&self) -> String {
        let state = self.state();
        format!("{:?}\n{:?}", state.story, state.node)
    }
}

pub(crate) struct Machine<C = NodeApi> {
    pub(crate) node: Node,
    pub(crate) api: C,
    /// Of its Node.
    name: String,
    pub(crate) weather: Weather,
    /// What the rule of the weather asks for.
    pub(crate) orders: Arc<Mutex<Vec<Order>>>,
    /// What the controller wants.
    pub(crate) target: String,
    /// A reboot that is asked for comes.
    pub(crate) reboots: bool,
    pub(crate) flags: Vec<&'static str>,
    cost: Cost,
    dir: tempfile::TempDir,
    child: Option<Child>,
    boots: usize,
    taken: usize,
    _runtime: tokio::runtime::Runtime,
}

/// The folder of one; none where it cannot be.
pub(crate) fn bare() -> Option<Node> {
    let node = Node::lasting()?;
    let needed = Command::new("ldd").arg("/bin/sh").output().unwrap();
    let needed = String::from_utf8(needed.stdout).unwrap();
    for path in needed.split_whitespace().filter(|word| word.starts_with('/')).chain(["/bin/sh"]) {
        fs::create_dir_all(node.at(path).parent().unwrap()).unwrap();
        fs::copy(path, node.at(path)).unwrap();
    }
    node.write("/usr/bin/systemctl", SYSTEMCTL, 0o755);
    node.vendor("app.service", "[Service]\nExecStart=/bin/true\n");
    fs::create_dir_all(node.at("/run/systemd/system")).unwrap();
    node.write(RUNNING, "\n", 0o644);
    Some(node)
}

impl Machine {
    /// One that has joined a cluster in memory and has no config; none where it cannot be.
    pub(crate) fn new(cost: Cost) -> Option<Self> {
        Some(Self::in_memory(bare()?, NodeApi::new(), cost))
    }

    fn in_memory(node: Node, api: NodeApi, cost: Cost) -> Self {
        for n in 0..4 {
            let (name, config) = rendered(n);
            api.config(&name, &config);
        }
        api.state().policy = Some(policy(cost));
        let server = api.clone();
        Self::on(node, api, async move || server.client(), "n1", cost)
    }

    /// Another machine that is at the same point of its life, without its daemon.
    pub(crate) fn copy(&self) -> Self {
        assert!(self.child.is_none(), "its daemon runs");
        let api = NodeApi::new();
        let node = self.api.state().node.clone();
        api.change(|fresh| *fresh = node.unwrap());
        let mut copy = Self::in_memory(self.node.copy(), api, self.cost);
        copy.target.clone_from(&self.target);
        copy.boots = self.boots;
        copy
    }
}

impl<C: Cluster> Machine<C> {
    /// One on this folder with a Node of this name on the server behind the weather.
    pub(crate) fn on(node: Node, api: C, server: impl AsyncFnOnce() -> Client, name: &str, cost: Cost) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (weather, address) = runtime.block_on(async { Weather::before(server().await).await });
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        fs::write(&token, "first\n").unwrap();
        let kubeconfig = node_api::kubeconfig(address, &format!("tokenFile: {}", token.display()));
        fs::write(dir.path().join("kubeconfig"), kubeconfig).unwrap();
        let root = node.root().to_owned();
        weather.witness(move |node| wrong(&root, node));
        Self {
            node,
            api,
            name: name.to_owned(),
            weather,
            orders: Arc::default(),
            target: String::new(),
            reboots: true,
            flags: vec!["--guard-timeout", "10s"],
            cost,
            dir,
            child: None,
            boots: 1,
            taken: 0,
            _runtime: runtime,
        }
    }

    pub(crate) fn start(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        // Nothing listens there: of the kubelet nothing is asked.
        let kubelet = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let child = Command::new(binary())
            .args(["daemon", "--node-name", &self.name, "--listen", "127.0.0.1:0", "--watch-time", "10ms"])
            .args(["--kubelet-healthz", &kubelet, "--kubeconfig"])
            .arg(self.dir.path().join("kubeconfig"))
            .arg("--root")
            .arg(self.node.root())
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// Ends the daemon as a kubelet does; how long that takes.
    pub(crate) fn stop(&mut self) -> Duration {
        let mut child = self.child.take().expect("it runs");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let asked = Instant::now();
        assert!(child.wait().unwrap().success(), "{}", self.log());
        asked.elapsed()
    }

    /// Resident memory of the daemon, in MiB.
    pub(crate) fn memory(&self) -> usize {
        let pid = self.child.as_ref().map_or(0, Child::id);
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() / 256
    }

    /// The machine comes up, and what runs is started with the files that are there.
    pub(crate) fn boot(&mut self) {
        self.kill();
        self.boots += 1;
        self.node.write("/proc/sys/kernel/random/boot_id", &format!("boot-{}\n", self.boots), 0o444);
        let text = fs::read_to_string(self.node.at(FILE)).unwrap_or("\n".into());
        self.node.write(RUNNING, &text, 0o644);
        self.start();
    }

    pub(crate) fn lose_state(&self) {
        // The daemon may be writing into it.
        while self.node.at("/var/lib/mcx").exists() {
            let _ = fs::remove_dir_all(self.node.at("/var/lib/mcx"));
        }
    }

    /// What everything around the daemon does in a moment.
    pub(crate) fn tick(&mut self) {
        let orders: Vec<Order> = std::mem::take(&mut *self.orders.lock().unwrap());
        for order in orders {
            match order {
                Order::Kill => {
                    self.kill();
                    self.start();
                }
                Order::PowerCut => self.boot(),
                Order::Lose => {
                    self.kill();
                    self.lose_state();
                    self.start();
                }
                Order::LoseUnder => self.lose_state(),
            }
        }
        if self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some()) {
            self.kill();
            std::thread::sleep(Duration::from_millis(200));
            self.start();
        }
        let asked = self.count("reboot");
        if self.reboots && asked > self.taken {
            self.taken = asked;
            self.boot();
        }
        self.api.serve_drains();
        let known = !self.api.annotation("state").is_empty();
        if known && !self.target.is_empty() && self.api.annotation("desiredConfig") != self.target {
            self.api.annotate("desiredConfig", &self.target);
        }
        std::thread::sleep(Duration::from_millis(10));
    }

    pub(crate) fn want(&mut self, n: u32) {
        self.target = rendered(n).0;
        self.api.annotate("desiredConfig", &self.target);
    }

    pub(crate) fn is_at(&self, n: u32) -> bool {
        let config = rendered(n).0;
        self.api.annotation("state") == "Done" && self.api.annotation("currentConfig") == config
    }

    /// Lets time pass until `is`. Far more than it takes: one that never gets there is what this is about.
    pub(crate) fn until(&mut self, what: &str, mut is: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !is(self) {
            self.tick();
            let is_late = start.elapsed() > Duration::from_secs(150);
            assert!(!is_late, "{what} never came: {}\n{:?}\n{}", self.api.told(), self.calls(), self.log());
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.tick();
        }
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.node.at(CALLS)).unwrap_or_default();
        calls.lines().filter(|call| !call.starts_with("show")).map(str::to_owned).collect()
    }

    /// How often systemd was asked for this.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|made| *made == call).count()
    }

    pub(crate) fn forget_calls(&self) {
        self.node.write(CALLS, "", 0o644);
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    pub(crate) fn set_token(&self, text: &str) {
        fs::write(self.dir.path().join("token"), text).unwrap();
    }

    /// What must hold of a machine that is done with all of it.
    pub(crate) fn assert_fine(&self, n: u32, when: &str) {
        let name = rendered(n).0;
        assert_eq!(self.weather.complaints(), Vec::<String>::new(), "{when}: said Done wrongly\n{}", self.log());
        assert_eq!(self.node.read(FILE), format!("{name}\n"), "{when}");
        assert_eq!(self.node.read(RUNNING), format!("{name}\n"), "{when}: what runs was not started with it");
        assert!(!self.api.is_cordoned(), "{when}");
        assert!(!self.node.at("/var/lib/mcx/journal.json").exists(), "{when}");
        assert!(!self.node.at("/var/lib/mcx/bin").exists(), "{when}: the guard is left");
        assert!(self.memory() < 100, "{when}: {} MiB", self.memory());
        let lines = self.log().lines().count();
        assert!(lines < 400, "{when}: {lines} lines of log");
    }
}

impl<C> Drop for Machine<C> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What is wrong with a Node that says Done, when it does.
fn wrong(root: &Path, node: &Value) -> Option<String> {
    let said = |key: &str| node["metadata"]["annotations"][format!("machineconfiguration.alauda.io/{key}")].as_str();
    if said("state") != Some("Done") {
        return None;
    }
    let current = said("currentConfig").unwrap_or_default();
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    let text = |path: &str| fs::read_to_string(at(path)).unwrap_or_default().trim().to_owned();
    let (file, running) = (text(FILE), text(RUNNING));
    let current = if current == rendered(0).0 { "" } else { current };
    let is_open = at("/var/lib/mcx/journal.json").exists();
    (file != current || running != current || is_open)
        .then(|| format!("Done at `{current}` with `{file}` on the disk, `{running}` running, open: {is_open}"))
}
