//! `mcx daemon` on a disk of ours, in a cluster of its own: an update that restarts a service, which is guarded.
//!
//! The daemon is the product's, in a process of this test program, so that what it leaves on the node as its guard's binary
//! is some bytes and not all of it. No systemd runs in the root: a program there answers what it would.

use crate::node_api::{self, NodeApi};
use crate::node_root::{config, file};
use mcx::api::NodeName;
use mcx::node::cluster::Cluster;
use mcx::node::daemon::{self, Metrics, Options};
use mcx::node::disk::Disk;
use mcx::node::host::Host;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{env, fs};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// The configs: none, an old one, a new one.
pub(crate) const CONFIGS: [&str; 3] = ["rendered-w-0", "rendered-w-1", "rendered-w-2"];
/// Far longer than an update takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);
/// What the processes of this program find their node by.
const ROOT: &str = "MCX_RECORDED_ROOT";
const SERVER: &str = "MCX_RECORDED_SERVER";
const KUBELET: &str = "MCX_RECORDED_KUBELET";

fn configs() -> [Value; 3] {
    let a = |text: &str| file("/etc/a.conf", text, 0o644);
    let new = [a("a of new\n"), file("/etc/b.conf", "b\n", 0o644), file("/etc/new/dir/c.conf", "c\n", 0o600)];
    [config(&[], &[], None), config(&[a("a of old\n")], &[], None), config(&new, &[], None)]
}

/// A node that has just come to its cluster, whatever is on its disk.
pub(crate) struct Joined {
    api: NodeApi,
    server: SocketAddr,
    desired: String,
}

impl Joined {
    pub(crate) fn new(desired: &str) -> Self {
        let api = NodeApi::new();
        for (name, config) in CONFIGS.iter().zip(configs()) {
            api.config(name, &config);
        }
        let restart = json!([{"type": "Restart", "restart": {"serviceName": "chronyd.service"}}]);
        api.state().policy = Some(node_api::policy(&restart));
        api.annotate("desiredConfig", desired);
        let server = runtime().block_on(api.serve());
        Self { api, server, desired: desired.to_owned() }
    }

    /// The daemon of a root; to be started below another program, or as it is.
    pub(crate) fn command(&self, mut command: Command, root: &Path) -> Command {
        command.args(["--ignored", "--exact", "--quiet", "a_daemon_for_the_other_tests"]);
        command.env(ROOT, root).env(SERVER, self.server.to_string()).env(KUBELET, kubelet().to_string());
        command
    }

    pub(crate) fn is_done(&self) -> bool {
        self.api.annotation("state") == "Done" && self.api.annotation("currentConfig") == self.desired
    }

    /// Waits until the update is done; what the daemon said when it is not.
    pub(crate) fn until_done(&self) -> Result<(), String> {
        let since = Instant::now();
        while !self.is_done() {
            if since.elapsed() > PATIENCE {
                let [state, phase, reason] = ["state", "phase", "reason"].map(|key| self.api.annotation(key));
                return Err(format!("{} is not reached: {state} {phase} {reason}", self.desired));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Runs a daemon until the update is done.
    pub(crate) fn run(&self, root: &Path) -> Result<(), String> {
        let command = Command::new(env::current_exe().unwrap());
        let quiet =
            self.command(command, root).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let _running = Running(quiet.unwrap());
        self.until_done()
    }
}

/// A process that is killed when nobody needs it any more.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The daemon's process; in any other one nothing happens.
pub(crate) fn serve() {
    let Some(root) = env::var_os(ROOT) else { return };
    let [server, kubelet] = [SERVER, KUBELET].map(|name| env::var(name).unwrap());
    let name = NodeName::from("n1");
    runtime().block_on(async {
        let host = Host::open(Path::new(&root)).unwrap().with_program(program());
        let disk = Disk::open(Arc::new(host), PATIENCE).await.unwrap();
        disk.keep_for(&name).unwrap();
        let way = kube::Config::new(format!("http://{server}").parse().unwrap());
        let cluster = Cluster::connect(way, name).unwrap();
        let kubelet = kubelet.parse().unwrap();
        let options = Options { watch_time: Duration::from_millis(10), kubelet, ..Options::default() };
        let (ready, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        daemon::run(disk, cluster, options, Metrics::default(), ready, stop).await.unwrap();
    });
}

pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap())
}

/// Where every question is answered with 200, as by a kubelet that is well.
pub(crate) fn kubelet() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            }
        });
        address
    })
}

/// A few bytes that do what mcx does.
fn program() -> PathBuf {
    let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_mcx"));
    made("mcx-by-name", |at| {
        fs::write(at, text).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    })
}

/// Gives a root what a node has on which systemd runs: the folder that says so, and a `systemctl` to which all is well.
pub(crate) fn with_systemd(root: &Path) {
    const SYSTEMCTL: &str = "#include <stdio.h>\n#include <string.h>\nint main(int n, char **words) {\n\
        if (n > 1 && !strcmp(words[1], \"show\"))\n\
        puts(\"LoadState=loaded\\nActiveState=active\\nSubState=running\\nResult=success\\nNRestarts=0\");\n\
        return 0;\n}\n";
    let systemctl = made("systemctl-that-is-well", |at| {
        let compiler = env::var("CC").unwrap_or("cc".into());
        let mut child = Command::new(compiler)
            .args(["-x", "c", "-static", "-O1", "-s", "-o"])
            .args([at, Path::new("-")])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(SYSTEMCTL.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    });
    fs::create_dir_all(root.join("run/systemd/system")).unwrap();
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::copy(systemctl, root.join("usr/bin/systemctl")).unwrap();
}

/// A file of the tests' own, made whole: other processes may make it at the same time.
fn made(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let at = folder.join(name);
    let dir = tempfile::tempdir_in(folder).unwrap();
    make(&dir.path().join(name));
    fs::rename(dir.path().join(name), &at).unwrap();
    at
}
