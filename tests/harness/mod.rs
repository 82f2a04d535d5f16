//! What tests against a running cluster share: the cluster itself, its nodes, waiting, and an observer from outside.
//!
//! The cluster is the one of `tests/rig/`, started by `tests/rig/e2e.sh` (`make test`), which names its folder in
//! `MCX_RIG`. Every test takes it by [`rig`], which first puts it back into its shipped state; a test that needs a cluster
//! of its own starts one with [`Rig::start`]. Objects are read and patched over the API as JSON, so that a test sees what
//! any client sees; what a person would type is run with `kubectl` itself.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every test binary uses its own part of the harness")]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "in a test, a broken surrounding is a failed test"
)]

mod hand_made;
mod node;
mod observer;
mod reset;
mod view;
mod workload;

pub use hand_made::HandMade;
pub use node::{Login, Node, key_pair};
pub use observer::{Judge, Observer, Seen};
pub use view::{NodeView, text};
pub use workload::Workload;

use http::Method;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Collections of the three resources.
pub const CONFIGS: &str = "/apis/machineconfiguration.alauda.io/v1alpha1/machineconfigs";
pub const POOLS: &str = "/apis/machineconfiguration.alauda.io/v1alpha1/machineconfigpools";
pub const POLICIES: &str = "/apis/machineconfiguration.alauda.io/v1alpha1/machineconfigurations";
pub const NODES: &str = "/api/v1/nodes";

/// Nodes of the shared cluster.
pub const MASTER: &str = "m1";
pub const WORKERS: [&str; 3] = ["w1", "w2", "w3"];

/// How long a rollout over three nodes may take: each with a drain and a reboot, on a busy machine.
pub const ROLLOUT: Duration = Duration::from_mins(4);
/// How long one step may take that needs no more than a few messages.
pub const STEP: Duration = Duration::from_secs(45);

/// A running cluster with mcx in it.
pub struct Rig {
    state: PathBuf,
    kubectl: PathBuf,
    runtime: tokio::runtime::Runtime,
    client: Client,
    /// This test started it, and it ends with the test.
    own: bool,
}

/// The shared cluster in its shipped state, for one test at a time.
pub fn rig() -> MutexGuard<'static, Rig> {
    static SHARED: OnceLock<Mutex<Rig>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let state = std::env::var_os("MCX_RIG").expect("MCX_RIG names no cluster: run `make test` or tests/rig/e2e.sh");
        Mutex::new(Rig::attach(state.into(), false))
    });
    // A failed test poisons the lock; the reset is what makes the cluster fit for the next.
    let rig = shared.lock().unwrap_or_else(PoisonError::into_inner);
    rig.reset();
    rig
}

/// A control plane with nothing in it: what is installed and registered there is the test's business.
pub fn control_plane() -> Rig {
    let state = std::env::var_os("MCX_RIG").expect("MCX_RIG names no cluster: run `make test` or tests/rig/e2e.sh");
    Rig::attach(state.into(), false)
}

/// Folder of the rig's scripts.
pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rig")
}

/// A file of `tests/data`, as text.
pub fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The `mcx` that was built with this test.
pub fn mcx_bin() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_mcx"))
}

/// A source for `role` with this Ignition body (`storage`, `systemd`, `passwd`) in JSON.
pub fn source(name: &str, role: &str, body: &Value) -> Value {
    let mut config = serde_json::json!({"ignition": {"version": "3.4.0"}});
    for (key, value) in body.as_object().expect("an object") {
        config[key] = value.clone();
    }
    serde_json::json!({
        "apiVersion": "machineconfiguration.alauda.io/v1alpha1",
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.alauda.io/role": role}},
        "spec": {"config": config},
    })
}

/// The Ignition body of one file.
pub fn file(path: &str, mode: i64, contents: &str) -> Value {
    let source =
        format!("data:,{}", percent_encoding::utf8_percent_encode(contents, percent_encoding::NON_ALPHANUMERIC));
    serde_json::json!({"storage": {"files": [{"path": path, "mode": mode, "contents": {"source": source}}]}})
}

impl Rig {
    fn attach(state: PathBuf, own: bool) -> Self {
        let kubectl = script_output(&state, "command -v kubectl");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(state.join("admin.kubeconfig")).expect("the cluster's kubeconfig");
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
            Client::try_from(config).unwrap()
        });
        Self { state, kubectl: kubectl.into(), runtime, client, own }
    }

    /// A cluster of the test's own, beside the shared one; `nodes` as `cluster.sh` takes them. It ends with the value.
    ///
    /// `number` from 1 on keeps the ports of several apart.
    pub fn start(number: u16, nodes: &[&str]) -> Self {
        let shared = PathBuf::from(std::env::var_os("MCX_RIG").expect("MCX_RIG names no cluster: run `make test`"));
        let port: u16 = script_output(&shared, "echo $RIG_PORT").parse().expect("a port");
        let mut state = shared.into_os_string();
        state.push(format!("-{number}"));
        let state = PathBuf::from(state);
        let status = Command::new(scripts().join("cluster.sh"))
            .args(nodes)
            .env("RIG", &state)
            .env("RIG_PORT", (port + 10 * number).to_string())
            .stdin(Stdio::null())
            .status()
            .expect("cluster.sh");
        if !status.success() {
            let _ = script(&state, "down.sh", &[]);
            panic!("cluster.sh {nodes:?} ended with {status}");
        }
        Self::attach(state, true)
    }

    /// Runs a script of the rig for this cluster.
    pub fn script(&self, name: &str, args: &[&str]) -> Output {
        script(&self.state, name, args)
    }

    /// A file in the cluster's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Node<'_> {
        Node::new(self, name)
    }

    /// Starts a node that joins as a worker; `setting` as `NAME=VALUE` for `node.sh start`.
    pub fn join(&self, name: &str, setting: Option<&str>) -> Node<'_> {
        let mut command = script_command(&self.state, "node.sh", &["start", name]);
        command.envs(setting.and_then(|s| s.split_once('=')));
        expect(&mut command, &format!("start {name}"));
        let node = self.node(name);
        node.wait();
        node
    }

    fn request(&self, method: Method, path: &str, kind: &str, body: Vec<u8>) -> Result<Value, kube::Error> {
        let request =
            http::Request::builder().method(method).uri(path).header("Content-Type", kind).body(body).unwrap();
        self.runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(20), self.client.request(request))
                .await
                .unwrap_or_else(|_| panic!("the API server did not answer on {path} for 20 s"))
        })
    }

    /// The object or list at `path`; none if there is none.
    pub fn get(&self, path: &str) -> Option<Value> {
        match self.request(Method::GET, path, "application/json", Vec::new()) {
            Ok(value) => Some(value),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    /// The items of the list at `path`.
    pub fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).unwrap_or_else(|| panic!("{path} is not served"));
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Merge-patches the object at `path`.
    pub fn patch(&self, path: &str, body: &Value) -> Value {
        let body = serde_json::to_vec(body).unwrap();
        self.request(Method::PATCH, path, "application/merge-patch+json", body)
            .unwrap_or_else(|error| panic!("PATCH {path}: {error}"))
    }

    /// Changes the object at `path` by the operations of a JSON patch.
    pub fn json_patch(&self, path: &str, operations: &Value) -> Value {
        let body = serde_json::to_vec(operations).unwrap();
        self.request(Method::PATCH, path, "application/json-patch+json", body)
            .unwrap_or_else(|error| panic!("PATCH {path}: {error}"))
    }

    /// Creates an object in the collection at `path`; the error is the API server's.
    pub fn create(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.request(Method::POST, path, "application/json", serde_json::to_vec(body).unwrap())
            .map_err(|e| e.to_string())
    }

    /// Deletes the object at `path`; fine if there is none.
    pub fn delete(&self, path: &str) {
        match self.request(Method::DELETE, path, "application/json", Vec::new()) {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("DELETE {path}: {error}"),
        }
    }

    /// Creates the source, or replaces it.
    pub fn apply_source(&self, source: &Value) {
        self.apply(&source.to_string());
    }

    /// Deletes a source.
    pub fn delete_source(&self, name: &str) {
        self.delete(&format!("{CONFIGS}/{name}"));
    }

    /// A pool as it is now.
    pub fn pool(&self, name: &str) -> Value {
        self.get(&format!("{POOLS}/{name}")).unwrap_or_else(|| panic!("there is no pool {name}"))
    }

    /// The pool's target: the name in `spec.configuration`.
    pub fn target(&self, pool: &str) -> String {
        text(&self.pool(pool), "/spec/configuration/name")
    }

    /// Status, reason and message of a pool's condition; empty before it is there.
    pub fn condition(&self, pool: &str, kind: &str) -> (String, String, String) {
        let pool = self.pool(pool);
        let all = pool.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        all.iter()
            .find(|c| c["type"] == kind)
            .map(|c| (text(c, "/status"), text(c, "/reason"), text(c, "/message")))
            .unwrap_or_default()
    }

    /// A node as it is now.
    pub fn view(&self, name: &str) -> NodeView {
        let node = self.get(&format!("{NODES}/{name}")).unwrap_or_else(|| panic!("there is no Node {name}"));
        NodeView::from_json(&node)
    }

    /// All nodes as they are now, by name.
    pub fn views(&self) -> Vec<NodeView> {
        self.list(NODES).iter().map(NodeView::from_json).collect()
    }

    /// The workers in the order in which mcx updates them: by age, then by name.
    pub fn workers_by_age(&self) -> Vec<String> {
        let mut views: Vec<_> = self.views().into_iter().filter(|v| v.is_worker).collect();
        views.sort_by_key(|v| (v.created.clone(), v.name.clone()));
        views.into_iter().map(|v| v.name).collect()
    }

    /// What a node that is Done at `target` and in service still lacks; none if nothing.
    pub fn lacks(&self, name: &str, target: &str) -> Option<String> {
        let v = self.view(name);
        let done = v.state == "Done" && v.current == target && v.desired == target && v.ready && !v.unschedulable;
        (!done).then(|| format!("{name} is not in service at {target}: {}", v.line()))
    }

    /// Waits until the pool has another target than `before`, and returns it.
    pub fn new_target(&self, pool: &str, before: &str) -> String {
        self.eventually(STEP, &format!("pool {pool} gets a new target"), || {
            let now = self.target(pool);
            if now.is_empty() || now == before { Err(format!("the target is {now:?}")) } else { Ok(now) }
        })
    }

    /// Waits until these nodes are Done at the pool's target `target`, in service, and the pool says Updated.
    pub fn all_done(&self, limit: Duration, pool: &str, nodes: &[&str], target: &str) {
        self.eventually(limit, &format!("{} are Done at {target}", nodes.join(", ")), || {
            if let Some(lack) = nodes.iter().find_map(|n| self.lacks(n, target)) {
                return Err(lack);
            }
            match self.condition(pool, "Updated") {
                (status, ..) if status == "True" => Ok(()),
                other => Err(format!("Updated of pool {pool} is {other:?}")),
            }
        });
    }

    /// Applies sources for the workers and waits until the shared cluster's three have them; returns the target.
    ///
    /// A source is text as kubectl takes it, or JSON.
    pub fn roll_out(&self, sources: &[impl ToString]) -> String {
        let before = self.target("worker");
        for source in sources {
            self.apply(&source.to_string());
        }
        let target = self.new_target("worker", &before);
        // One more source may have come after the settle time: what counts is the last.
        self.eventually(ROLLOUT, "every worker has the new config", || {
            let target = self.target("worker");
            match WORKERS.iter().find_map(|n| self.lacks(n, &target)) {
                Some(lack) => Err(lack),
                None => Ok(()),
            }
        });
        let last = self.target("worker");
        self.all_done(STEP, "worker", &WORKERS, &last);
        if last != target {
            eprintln!("rendered in two steps: {target}, then {last}");
        }
        last
    }

    /// Applies a policy (the body of `spec`) and waits until `status` of `cluster` has it.
    pub fn set_policy(&self, spec: &Value) {
        let path = format!("{POLICIES}/cluster");
        self.patch(&path, &serde_json::json!({"spec": spec}));
        self.policy_in_effect();
    }

    /// Waits until the policy's status speaks of its current spec.
    pub fn policy_in_effect(&self) {
        self.eventually(STEP, "the policy is in effect", || {
            let policy = self.get(&format!("{POLICIES}/cluster")).ok_or("there is no `cluster`")?;
            let (generation, observed) = (&policy["metadata"]["generation"], &policy["status"]["observedGeneration"]);
            if generation == observed { Ok(()) } else { Err(format!("generation {generation}, observed {observed}")) }
        });
    }

    /// Runs kubectl and returns what it prints; it must succeed.
    pub fn kubectl(&self, args: &[&str]) -> String {
        let output = self.try_kubectl(args, "");
        assert!(output.status.success(), "kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs a line in a shell in which `kubectl` is this cluster's, as a person would type it; what it prints.
    pub fn shell(&self, line: &str) -> String {
        script_output(&self.state, line)
    }

    /// Runs kubectl with `stdin`.
    pub fn try_kubectl(&self, args: &[&str], stdin: &str) -> Output {
        let mut child = Command::new(&self.kubectl)
            .args(args)
            .env("KUBECONFIG", self.state.join("admin.kubeconfig"))
            .env("no_proxy", "127.0.0.1,localhost")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl");
        // kubectl may end before it has read everything; its status says what happened.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// `kubectl apply` of this text.
    pub fn apply(&self, yaml: &str) -> String {
        let output = self.try_kubectl(&["apply", "-f", "-"], yaml);
        assert!(output.status.success(), "kubectl apply: {}\n{yaml}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Waits until `check` is Ok, and returns its value. After `limit` the test fails with the last error and a dump.
    pub fn eventually<T, E: Into<String>>(
        &self,
        limit: Duration,
        what: &str,
        mut check: impl FnMut() -> Result<T, E>,
    ) -> T {
        let start = Instant::now();
        loop {
            match check() {
                Ok(value) => return value,
                Err(error) if start.elapsed() >= limit => {
                    let error = error.into();
                    eprintln!("{}", self.dump());
                    panic!("after {} s it is still not so that {what}: {error}", limit.as_secs());
                }
                Err(_) => sleep(Duration::from_millis(100)),
            }
        }
    }

    /// The test fails if `check` fails at any time within `span`.
    pub fn always(&self, span: Duration, what: &str, mut check: impl FnMut() -> Result<(), String>) {
        let start = Instant::now();
        while start.elapsed() < span {
            if let Err(error) = check() {
                eprintln!("{}", self.dump());
                panic!("after {:.1} s it is no longer so that {what}: {error}", start.elapsed().as_secs_f32());
            }
            sleep(Duration::from_millis(100));
        }
    }

    /// Name of the pod that leads, by the Lease.
    pub fn leader(&self) -> Option<String> {
        let lease = self.get("/apis/coordination.k8s.io/v1/namespaces/mcx-system/leases/machine-config-controller")?;
        let holder = text(&lease, "/spec/holderIdentity");
        // The identity begins with the pod's name.
        self.list("/api/v1/namespaces/mcx-system/pods")
            .iter()
            .map(|p| text(p, "/metadata/name"))
            .find(|name| holder.starts_with(name.as_str()))
    }

    /// A pod of `mcx-system` by name.
    pub fn pod(&self, name: &str) -> Option<Value> {
        self.get(&format!("/api/v1/namespaces/mcx-system/pods/{name}"))
    }

    /// Sends a signal to the container of a pod of `mcx-system`, from its node's side, as a crash would.
    pub fn signal_pod(&self, pod: &Value, signal: &str) {
        self.try_signal_pod(pod, signal).unwrap_or_else(|why| panic!("{why}"));
    }

    /// As [`Self::signal_pod`]; the error says why there is nothing to signal.
    pub fn try_signal_pod(&self, pod: &Value, signal: &str) -> Result<(), String> {
        let id = text(pod, "/status/containerStatuses/0/containerID");
        let id = id.strip_prefix("containerd://").ok_or_else(|| format!("no running container: {}", pod["status"]))?;
        let node = text(pod, "/spec/nodeName");
        let output = self.node(&node).try_sh(&format!("ctr -n k8s.io tasks kill -s {signal} {id}"));
        let error = String::from_utf8_lossy(&output.stderr);
        output.status.success().then_some(()).ok_or_else(|| format!("cannot signal {id} on {node}: {error}"))
    }

    /// The daemon's pod on a node.
    pub fn daemon_on(&self, node: &str) -> Value {
        self.pods_on(node, "machine-config-daemon").pop().unwrap_or_else(|| panic!("no daemon on {node}"))
    }

    /// Pods of `mcx-system` on a node whose name begins with `prefix`: those of one controller.
    pub fn pods_on(&self, node: &str, prefix: &str) -> Vec<Value> {
        let mut pods = self.list("/api/v1/namespaces/mcx-system/pods");
        pods.retain(|p| p["spec"]["nodeName"] == node && text(p, "/metadata/name").starts_with(prefix));
        pods
    }

    /// The state of everything that matters, to print when a test fails.
    pub fn dump(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::from("=== the cluster at this moment\n");
        for view in self.views() {
            let _ = writeln!(out, "{}", view.line());
            for (key, value) in &view.annotations {
                let _ = writeln!(out, "    {key}: {value}");
            }
        }
        for pool in self.list(POOLS) {
            let _ = writeln!(out, "pool {}: {}", text(&pool, "/metadata/name"), pool["metadata"]["annotations"]);
            let _ = writeln!(out, "    spec {}", pool["spec"]);
            for condition in pool.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten() {
                let word = |key: &str| text(condition, &format!("/{key}"));
                let _ =
                    writeln!(out, "    {} {} {}: {}", word("type"), word("status"), word("reason"), word("message"));
            }
        }
        let run = |args: &[&str]| {
            let output = self.try_kubectl(args, "");
            let (good, bad) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            format!("--- kubectl {}\n{good}{bad}", args.join(" "))
        };
        out += &run(&["get", "mc,pods", "-A", "-o", "wide"]);
        let events = run(&["get", "events", "-A", "--sort-by=.lastTimestamp"]);
        let lines: Vec<&str> = events.lines().collect();
        out += &lines[lines.len().saturating_sub(25)..].join("\n");
        out += "\n";
        for pod in self.list("/api/v1/namespaces/mcx-system/pods") {
            let name = text(&pod, "/metadata/name");
            out += &run(&["-n", "mcx-system", "logs", "--tail", "40", "--all-containers", &name]);
        }
        out
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.own {
            let _ = self.script("down.sh", &[]);
        }
    }
}

fn script_command(state: &Path, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(scripts().join(name));
    // The port is read from the folder.
    command.args(args).env("RIG", state).env_remove("RIG_PORT").stdin(Stdio::null());
    command
}

fn script(state: &Path, name: &str, args: &[&str]) -> Output {
    script_command(state, name, args).output().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What `command` prints in a shell that has the rig's settings.
fn script_output(state: &Path, command: &str) -> String {
    let line = format!(". {}/env.sh; {command}", scripts().display());
    let mut shell = Command::new("bash");
    shell.args(["-c", &line]).env("RIG", state).env_remove("RIG_PORT");
    String::from_utf8(expect(&mut shell, command).stdout).expect("UTF-8").trim().to_owned()
}

/// Runs a command that must succeed.
fn expect(command: &mut Command, what: &str) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(output.status.success(), "{what}: {} {}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}
