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

use node_api::NodeApi;
use node_lives::{before, new, old, torn};
use node_root::{Node, Tree, assert_same, config};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use sweep::{Counts, sample, sweep};
use sysfault::{Call, Fault, KILLED, Set};

/// No item costs anything: what is swept is the disk.
fn policy() -> serde_json::Value {
    let none = json!([{"type": "None"}]);
    json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfiguration",
        "metadata": {"name": "cluster", "generation": 2}, "spec": {},
        "status": {"observedGeneration": 2, "nodeDisruptionPolicyStatus": {
            "clusterPolicies": {"sshkey": {"actions": none}}, "defaultActions": {"files": none, "units": none}}}})
}

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
        api.state().policy = Some(policy());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = runtime.block_on(api.serve());
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
             clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}], users: [{{name: a, user: {{}}}}]}}"
        );
        fs::write(dir.path().join("kubeconfig"), kubeconfig).unwrap();
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

    /// Waits until the node has a config; false when the daemon has ended before.
    fn reaches(&self, running: &mut Running, config: &str, when: &str) -> bool {
        let start = Instant::now();
        loop {
            if self.api.annotation("state") == "Done" && self.api.annotation("currentConfig") == config {
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

fn calls(cluster: &Cluster, node: &Node) -> Vec<Call> {
    sysfault::calls(&fs::read_to_string(cluster.dir.path().join("calls")).unwrap(), node.root())
}

#[test]
fn a_daemon_that_is_killed_anywhere_is_gone_on_from_by_the_next() {
    let (Some(tool), Some(template)) = (sysfault::tool(), Node::lasting()) else { return };
    before(&template);
    let bare = template.tree();
    let cluster = Cluster::new();
    cluster.api.annotate("desiredConfig", "rendered-w-1");
    let mut running = cluster.start(tool, &template, Fault::None);
    assert!(cluster.reaches(&mut running, "rendered-w-1", "at first"), "{}", cluster.log());
    assert_eq!(running.stop(), 0);
    let from = template.tree();
    let joined = cluster.api.state().node.clone();

    // The update, and the withdrawal of what it has brought.
    for (name, first, next) in [("update", None, "rendered-w-2"), ("withdrawal", Some("rendered-w-2"), "rendered-w-0")] {
        let (from, joined): (Tree, _) = match first {
            None => (from.clone(), joined.clone()),
            Some(first) => {
                cluster.api.annotate("desiredConfig", first);
                let mut running = cluster.start(tool, &template, Fault::None);
                assert!(cluster.reaches(&mut running, first, "before the withdrawal"), "{}", cluster.log());
                running.stop();
                (template.tree(), cluster.api.state().node.clone())
            }
        };
        let whole = template.copy();
        cluster.api.annotate("desiredConfig", next);
        let mut running = cluster.start(tool, &whole, Fault::None);
        assert!(cluster.reaches(&mut running, next, name), "{}", cluster.log());
        running.stop();
        let to = whole.tree();
        let cases: Vec<(usize, Call)> = calls(&cluster, &whole).into_iter().enumerate().collect();
        assert!(cases.len() > 100, "{name} has lost its calls: {}", cases.len());
        // The template's own Node is where the next scenario begins.
        cluster.api.state().node.clone_from(&joined);
        let counts = Counts::default();
        let few = sample(&cases, 67);
        let failed = sweep(&format!("daemon kill sweep, {name}"), &few, &counts, |(index, call)| {
            let when = format!("{name}, killed before call {} ({} {})", index + 1, call.name, call.path);
            let (node, cluster) = (template.copy(), Cluster::new());
            cluster.api.state().node.clone_from(&joined);
            cluster.api.annotate("desiredConfig", next);
            let mut running = cluster.start(tool, &node, Fault::Kill(index + 1));
            if cluster.reaches(&mut running, next, &when) {
                counts.add("done before the kill");
                running.stop();
            } else {
                assert_eq!(running.0.wait().unwrap().code(), Some(KILLED), "{when}: {}", cluster.log());
                let torn = torn(&node.tree(), &[&bare, &from, &to]);
                assert!(torn.is_empty(), "{when}: torn: {torn:?}");
                counts.add("killed");
            }
            let mut running = cluster.start(tool, &node, Fault::None);
            assert!(cluster.reaches(&mut running, next, &when), "{when}: {}", cluster.log());
            assert_same(&node.tree(), &to, &when);
            counts.add("converged");
            cluster.api.annotate("desiredConfig", "rendered-w-0");
            assert!(cluster.reaches(&mut running, "rendered-w-0", &when), "{when}: {}", cluster.log());
            assert_eq!(running.stop(), 0, "{when}: {}", cluster.log());
            assert_same(&node.tree(), &bare, &format!("{when}, then withdrawn"));
            counts.add("given back");
        });
        assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    }
}
