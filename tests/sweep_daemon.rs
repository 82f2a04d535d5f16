//! Kill sweep of the daemon itself: `mcx daemon` updates a folder for an API server in memory, is killed before each system
//! call that changes a file, and the next one goes on by itself. A sample by default, every call with `MCX_SOAK=1`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_api.rs"]
mod node_api;
#[path = "support/node_lives.rs"]
mod node_lives;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/sweep.rs"]
mod sweep;
#[path = "support/sysfault.rs"]
mod sysfault;

use nix::errno::Errno;
use node_api::NodeApi;
use node_lives::{before, new, old, torn};
use node_root::{Node, Tree, assert_same, config};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use sweep::{Counts, sample, sweep};
use sysfault::{Call, Fault, KILLED, Set};

/// An API server, and a way to start daemons that talk to it.
struct Cluster {
    api: NodeApi,
    /// Holds the server: its tasks end with it.
    _runtime: tokio::runtime::Runtime,
    dir: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Self {
        let api = NodeApi::new();
        api.config("rendered-w-0", &config(&[], &[], None));
        api.config("rendered-w-1", &old());
        api.config("rendered-w-2", &new());
        api.state().policy = Some(node_api::policy_of_no_cost());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = runtime.block_on(api.serve());
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kubeconfig"), node_api::kubeconfig(address, "")).unwrap();
        Self { api, _runtime: runtime, dir }
    }

    fn start(&self, tool: &Path, node: &Node, fault: Fault) -> Running {
        let log = fs::File::create(self.dir.path().join("daemon.log")).unwrap();
        let child = sysfault::command(tool, node.root(), Set::Change, fault, &self.dir.path().join("calls"))
            .arg(env!("CARGO_BIN_EXE_mcx"))
            .args(["daemon", "--node-name", "n1", "--listen", "127.0.0.1:0", "--watch-time", "10ms", "--root"])
            .arg(node.root())
            .arg("--kubeconfig")
            .arg(self.dir.path().join("kubeconfig"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Running(child)
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.path().join("daemon.log")).unwrap_or_default();
        log.lines().rev().take(5).collect::<Vec<_>>().join("\n")
    }

    fn is_at(&self, config: &str) -> bool {
        self.api.annotation("state") == "Done" && self.api.annotation("currentConfig") == config
    }

    /// A daemon to which nothing happens brings the node to a config and is stopped.
    fn run(&self, tool: &Path, node: &Node, config: &str) {
        self.api.annotate("desiredConfig", config);
        // What an earlier daemon has said does not count.
        self.api.annotate("state", "");
        let mut running = self.start(tool, node, Fault::None);
        assert!(self.reaches(&mut running, config, config), "{}", self.log());
        assert_eq!(running.stop(), 0, "{}", self.log());
    }

    /// Waits until the node has a config; false when the daemon has ended before.
    fn reaches(&self, running: &mut Running, config: &str, when: &str) -> bool {
        let start = Instant::now();
        loop {
            if self.is_at(config) {
                return true;
            }
            if running.0.try_wait().unwrap().is_some() {
                return false;
            }
            // Far more than it takes: a daemon that never gets there is what this is about.
            let late = start.elapsed() > Duration::from_secs(100);
            assert!(!late, "{when}: stuck before {config}: {:?}\n{}", self.api.state().node, self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A daemon below the tool, which does not outlive the test.
struct Running(Child);

impl Running {
    fn stop(mut self) -> i32 {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        // It may have ended by itself.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        self.0.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node before a change of its desired config, and what the change does when nothing goes wrong.
struct Scenario {
    name: &'static str,
    tool: &'static Path,
    template: Node,
    /// The Node object of that moment.
    joined: Option<Value>,
    bare: Tree,
    from: Tree,
    next: &'static str,
    to: Tree,
    calls: Vec<(usize, Call)>,
}

impl Scenario {
    /// An update, and the withdrawal of what it has brought.
    fn all() -> Vec<Self> {
        let all = [("update", "rendered-w-1", "rendered-w-2"), ("withdrawal", "rendered-w-2", "rendered-w-0")];
        all.into_iter().filter_map(|(name, first, next)| Self::new(name, first, next)).collect()
    }

    fn new(name: &'static str, first: &str, next: &'static str) -> Option<Self> {
        let (tool, template) = (sysfault::tool()?, Node::lasting()?);
        before(&template);
        let bare = template.tree();
        let cluster = Cluster::new();
        cluster.run(tool, &template, first);
        let (from, joined) = (template.tree(), cluster.api.state().node.clone());
        let whole = template.copy();
        cluster.run(tool, &whole, next);
        let log = fs::read_to_string(cluster.dir.path().join("calls")).unwrap();
        let calls: Vec<(usize, Call)> = sysfault::calls(&log, whole.root()).into_iter().enumerate().collect();
        assert!(calls.len() > 100, "{name} has lost its calls: {}", calls.len());
        Some(Self { name, tool, template, joined, bare, from, next, to: whole.tree(), calls })
    }

    /// The node, and a cluster that wants the change.
    fn begin(&self) -> (Node, Cluster) {
        let cluster = Cluster::new();
        cluster.api.state().node.clone_from(&self.joined);
        cluster.api.annotate("desiredConfig", self.next);
        (self.template.copy(), cluster)
    }

    fn assert_whole(&self, node: &Node, when: &str) {
        let torn = torn(&node.tree(), &[&self.bare, &self.from, &self.to]);
        assert!(torn.is_empty(), "{when}: torn: {torn:?}");
    }

    /// A daemon to which nothing happens ends it, and gives all back.
    fn go_on(&self, node: &Node, cluster: &Cluster, when: &str) {
        cluster.run(self.tool, node, self.next);
        assert_same(&node.tree(), &self.to, when);
        cluster.run(self.tool, node, "rendered-w-0");
        assert_same(&node.tree(), &self.bare, &format!("{when}, then withdrawn"));
    }
}

#[test]
fn a_daemon_that_is_killed_anywhere_is_gone_on_from_by_the_next() {
    for scenario in Scenario::all() {
        let counts = Counts::default();
        let few = sample(&scenario.calls, 67);
        let failed = sweep(&format!("daemon kill sweep, {}", scenario.name), &few, &counts, |(index, call)| {
            let when = format!("{}, killed before call {} ({} {})", scenario.name, index + 1, call.name, call.path);
            let (node, cluster) = scenario.begin();
            let mut running = cluster.start(scenario.tool, &node, Fault::Kill(index + 1));
            if cluster.reaches(&mut running, scenario.next, &when) {
                counts.add("done before the kill");
                running.stop();
            } else {
                assert_eq!(running.0.wait().unwrap().code(), Some(KILLED), "{when}: {}", cluster.log());
                scenario.assert_whole(&node, &when);
                counts.add("killed");
            }
            scenario.go_on(&node, &cluster, &when);
            counts.add("converged and given back");
        });
        assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    }
}

/// The disk refuses from some call on, for good: the node says so, with a path, and goes on when it does not any more.
#[test]
fn a_disk_that_refuses_is_a_reason_with_a_path_until_it_does_not() {
    const ERRORS: [Errno; 6] = [Errno::ENOSPC, Errno::EIO, Errno::EROFS, Errno::EDQUOT, Errno::EACCES, Errno::EMFILE];
    for scenario in Scenario::all() {
        let counts = Counts::default();
        let few = sample(&scenario.calls, 167);
        let failed = sweep(&format!("daemon error sweep, {}", scenario.name), &few, &counts, |(index, call)| {
            let error = ERRORS[index % ERRORS.len()];
            let when = format!("{}, {error} from call {} on ({} {})", scenario.name, index + 1, call.name, call.path);
            let (node, cluster) = scenario.begin();
            let mut running = cluster.start(scenario.tool, &node, Fault::ErrorsFrom(index + 1, error));
            let start = Instant::now();
            loop {
                let reason = cluster.api.annotation("reason");
                if cluster.api.annotation("state") == "Degraded" && !reason.is_empty() {
                    assert!(reason.contains('/') && !reason.contains('\n'), "{when}: {reason}");
                    counts.add("Degraded with a path");
                    break;
                }
                if cluster.is_at(scenario.next) {
                    counts.add("Done all the same");
                    break;
                }
                if running.0.try_wait().unwrap().is_some() {
                    let last = cluster.log();
                    assert!(
                        last.contains("cannot ") && last.contains('/'),
                        "{when}: ended without saying where: {last}"
                    );
                    counts.add("could not start");
                    break;
                }
                assert!(start.elapsed() < Duration::from_secs(100), "{when}: says nothing\n{}", cluster.log());
                std::thread::sleep(Duration::from_millis(10));
            }
            running.stop();
            scenario.assert_whole(&node, &when);
            scenario.go_on(&node, &cluster, &when);
            counts.add("fine without it");
        });
        assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    }
}
