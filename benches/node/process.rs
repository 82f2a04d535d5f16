//! A daemon as a process of its own, with an API server in this one.

use crate::node_api::{self, NodeApi};
use anyhow::{Context as _, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for what is measured.
const PATIENCE: Duration = Duration::from_mins(3);
/// How often it is looked.
const EACH: Duration = Duration::from_millis(1);

/// An API server, and a node's folder.
pub(crate) struct Node {
    pub(crate) api: NodeApi,
    pub(crate) root: PathBuf,
    dir: tempfile::TempDir,
    /// Holds the server: its tasks end with it.
    _runtime: tokio::runtime::Runtime,
}

impl Node {
    pub(crate) fn new(parent: &Path) -> anyhow::Result<Self> {
        let api = NodeApi::new();
        api.state().policy = Some(node_api::policy_of_no_cost());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let address = runtime.block_on(api.serve());
        let dir = tempfile::tempdir_in(parent)?;
        let root = dir.path().join("root");
        folder(&root)?;
        fs::write(dir.path().join("kubeconfig"), node_api::kubeconfig(address, ""))?;
        Ok(Self { api, root, dir, _runtime: runtime })
    }

    pub(crate) fn start(&self) -> anyhow::Result<Daemon> {
        let log = fs::File::options().create(true).append(true).open(self.dir.path().join("log"))?;
        let child = Command::new(crate::binary())
            .args(["daemon", "--node-name", "n1", "--listen", "127.0.0.1:0", "--root"])
            .arg(&self.root)
            .arg("--kubeconfig")
            .arg(self.dir.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Daemon(child))
    }

    pub(crate) fn wants(&self, config: &str) {
        self.api.annotate("desiredConfig", config);
    }

    /// The time until it is so.
    pub(crate) fn until(&self, what: &str, is: impl Fn(&Self) -> bool) -> anyhow::Result<Duration> {
        let start = Instant::now();
        while !is(self) {
            let log = || fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            let last = || log().lines().rev().take(5).collect::<Vec<_>>().join("\n");
            ensure!(
                start.elapsed() < PATIENCE,
                "{what}: not within {PATIENCE:?}; the last lines of the log:\n{}",
                last()
            );
            std::thread::sleep(EACH);
        }
        Ok(start.elapsed())
    }

    pub(crate) fn is_done(&self, config: &str) -> bool {
        self.api.annotation("state") == "Done" && self.api.annotation("currentConfig") == config
    }

    pub(crate) fn is(&self, state: &str) -> bool {
        self.api.annotation("state") == state
    }

    /// Whether the journal says that the update is that far.
    pub(crate) fn is_at(&self, stage: &str) -> bool {
        let journal = fs::read(self.root.join("var/lib/mcx/journal.json")).unwrap_or_default();
        let word = format!("\"stage\":\"{stage}\"");
        journal.windows(word.len()).any(|found| found == word.as_bytes())
    }
}

/// What a node has before mcx.
pub(crate) fn folder(root: &Path) -> anyhow::Result<()> {
    for dir in ["etc/systemd/system", "var/lib", "run", "proc/sys/kernel/random"] {
        fs::create_dir_all(root.join(dir))?;
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    Ok(fs::write(root.join("proc/sys/kernel/random/boot_id"), "11111111-2222-3333-4444-555555555555\n")?)
}

/// A daemon that does not outlive the measurement.
pub(crate) struct Daemon(Child);

/// What a process has used until now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    /// Times that a thread of it was given a processor.
    pub(crate) wakes: u64,
    /// On processors.
    pub(crate) time: Duration,
}

impl Daemon {
    fn proc(&self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.0.id());
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}: the daemon has ended"))
    }

    /// `VmRSS` or `VmHWM`, in MiB.
    pub(crate) fn memory(&self, which: &str) -> anyhow::Result<f64> {
        let status = self.proc("status")?;
        Ok(number(&status, which)? as f64 / 1024.0)
    }

    pub(crate) fn used(&self) -> anyhow::Result<Used> {
        let mut wakes = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            // A thread may end between the two looks.
            let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
            wakes += number(&status, "voluntary_ctxt_switches")?;
        }
        let stat = self.proc("stat")?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or_default();
        Ok(Used { wakes, time: Duration::from_millis((ticks(11) + ticks(12)) * 10) })
    }

    /// As a power cut ends it.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn number(status: &str, key: &str) -> anyhow::Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).with_context(|| format!("no {key} in a status of /proc"))
}
