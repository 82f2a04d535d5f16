//! What inotify does not tell: the daemon finds it all the same, by watching parents and by its sweep. Each test prints how
//! long that takes. And what changes all the time keeps it from nothing.

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "test code outside of #[test] functions")]

#[path = "support/node_api.rs"]
mod node_api;
#[path = "support/node_root.rs"]
mod node_root;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use node_api::NodeApi;
use node_root::{Node, config, empty, file, items};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Far more than it takes.
const PATIENCE: Duration = Duration::from_mins(2);

/// A mount that goes with the test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// A daemon as a process of its own, on a node that has joined.
struct Daemon {
    api: NodeApi,
    child: Child,
    _runtime: tokio::runtime::Runtime,
    dir: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// `before` is what a shell does in the daemon's place first; `shell` starts it.
    fn start(node: &Node, to: &Value, sweep: &str, shell: &[&str], before: &str) -> Self {
        let api = NodeApi::new();
        api.config("rendered-w-1", to);
        api.state().policy = Some(node_api::policy_of_no_cost());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(api.serve());
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kubeconfig"), node_api::kubeconfig(server, "")).unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new(shell[0])
            .args(&shell[1..])
            .args(["sh", "-c", &format!("{before}exec \"$@\""), "sh", env!("CARGO_BIN_EXE_mcx"), "daemon"])
            .args(["--node-name", "n1", "--listen", "127.0.0.1:0", "--watch-time", "10ms", "--sweep", sweep, "--root"])
            .arg(node.root())
            .arg("--kubeconfig")
            .arg(dir.path().join("kubeconfig"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Self { api, child, _runtime: runtime, dir };
        daemon.until("the first Done", || daemon.api.annotation("state") == "Done");
        daemon.api.annotate("desiredConfig", "rendered-w-1");
        daemon.until("the update", || {
            daemon.api.annotation("currentConfig") == "rendered-w-1" && daemon.api.annotation("state") == "Done"
        });
        daemon
    }

    fn plain(node: &Node, to: &Value, sweep: &str) -> Self {
        Self::start(node, to, sweep, &["env"], "")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    fn until(&self, what: &str, is: impl Fn() -> bool) -> Duration {
        let begun = Instant::now();
        while !is() {
            self.api.serve_drains();
            assert!(begun.elapsed() < PATIENCE, "{what} never came: {:?}\n{}", self.api.state().node, self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    /// How long it takes until the node says so.
    fn drift(&self, path: &str) -> Duration {
        self.until("drift", || {
            let reason = self.api.annotation("reason");
            reason.starts_with("Drift:") && reason.contains(path)
        })
    }

    fn healed(&self) -> Duration {
        self.until("healed", || self.api.annotation("state") == "Done" && self.api.annotation("reason").is_empty())
    }

    /// How often the daemon has written to its Node; an Event of what was before may come late.
    fn patches(&self) -> usize {
        self.api.state().said.iter().filter(|text| text.starts_with('[')).count()
    }

    /// Processor time, of all threads.
    fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }
}

fn managed(path: &str) -> Value {
    config(&[file(path, "ours\n", 0o644)], &[], None)
}

#[test]
fn l07_a_file_that_is_replaced_and_a_folder_that_is_swapped_are_found_at_once() {
    let Some(node) = Node::lasting() else { return };
    // A sweep that never comes: what is found is found by events.
    let daemon = Daemon::plain(&node, &managed("/opt/a/b/x.conf"), "1h");
    let (file, dir) = (node.at("/opt/a/b/x.conf"), node.at("/opt/a"));
    for turn in 0..2 {
        fs::write(node.at("/opt/a/b/new"), "theirs\n").unwrap();
        fs::rename(node.at("/opt/a/b/new"), &file).unwrap();
        println!("renamed over, turn {turn}: {:?}", daemon.drift("/opt/a/b/x.conf"));
        fs::write(&file, "ours\n").unwrap();
        daemon.healed();
        // The parent's parent goes, and another of its name comes.
        fs::rename(&dir, node.at("/opt/old")).unwrap();
        println!("folder swapped, turn {turn}: {:?}", daemon.drift("/opt/a/b/x.conf"));
        node.write("/opt/a/b/x.conf", "ours\n", 0o644);
        daemon.healed();
        fs::write(&file, "theirs\n").unwrap();
        println!("written in the new folder, turn {turn}: {:?}", daemon.drift("/opt/a/b/x.conf"));
        fs::write(&file, "ours\n").unwrap();
        daemon.healed();
        fs::remove_dir_all(node.at("/opt/old")).unwrap();
    }
}

/// The queue of events is full when the one that counts comes.
#[test]
fn events_that_were_lost_count_as_one() {
    let Some(node) = Node::lasting() else { return };
    let to = managed("/etc/x.conf");
    node.update(&empty(), &to);
    let (disk, items) = (node.disk(), items(&to));
    node.runtime.block_on(async {
        while tokio::time::timeout(Duration::from_millis(700), disk.changed(&items)).await.is_ok() {}
        // Two names in turn, since an event that equals the last one is not queued.
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let names = ["/etc/noise-1", "/etc/noise-2"].map(|name| node.at(name));
        for name in &names {
            fs::write(name, "").unwrap();
        }
        for _ in 0..limit.trim().parse::<usize>().unwrap() {
            for name in &names {
                fs::set_permissions(name, fs::Permissions::from_mode(0o600)).unwrap();
            }
        }
        let begun = Instant::now();
        tokio::time::timeout(PATIENCE, disk.changed(&items)).await.expect("the overflow was not told").unwrap();
        println!("overflow: {:?}", begun.elapsed());
        // It is watched anew, and from then on as ever.
        while tokio::time::timeout(Duration::from_secs(2), disk.changed(&items)).await.is_ok() {}
        node.write("/etc/x.conf", "theirs\n", 0o644);
        let begun = Instant::now();
        tokio::time::timeout(PATIENCE, disk.changed(&items)).await.expect("blind after an overflow").unwrap();
        println!("after an overflow: {:?}", begun.elapsed());
    });
}

#[test]
fn a_mount_on_top_is_found_by_the_sweep_and_watched_from_then_on() {
    let Some(node) = Node::lasting() else { return };
    let daemon = Daemon::plain(&node, &managed("/opt/a/x.conf"), "2s");
    let at = node.at("/opt/a");
    mount(Some("tmpfs"), &at, Some("tmpfs"), MsFlags::empty(), Some("size=1m")).unwrap();
    let mounted = Mounted(at);
    println!("mounted on top, sweep 2 s: {:?}", daemon.drift("/opt/a/x.conf"));
    node.write("/opt/a/x.conf", "ours\n", 0o644);
    println!("put right in the mount: {:?}", daemon.healed());
    fs::write(node.at("/opt/a/x.conf"), "theirs\n").unwrap();
    println!("written in the mount: {:?}", daemon.drift("/opt/a/x.conf"));
    drop(mounted);
    println!("unmounted: {:?}", daemon.healed());
}

/// Of a way through a link, folders behind the link are not watched from above.
#[test]
fn a_folder_that_is_swapped_behind_a_link_is_found_by_the_sweep() {
    let Some(node) = Node::lasting() else { return };
    fs::create_dir_all(node.at("/var/deep/opt")).unwrap();
    node.link("/var/deep/opt", "/opt");
    let daemon = Daemon::plain(&node, &managed("/opt/x.conf"), "2s");
    fs::rename(node.at("/var/deep"), node.at("/var/old")).unwrap();
    println!("swapped behind a link, sweep 2 s: {:?}", daemon.drift("/opt/x.conf"));
    node.write("/var/deep/opt/x.conf", "ours\n", 0o644);
    daemon.healed();
    fs::write(node.at("/var/deep/opt/x.conf"), "theirs\n").unwrap();
    println!("written behind a link: {:?}", daemon.drift("/opt/x.conf"));
}

/// Its own limit of watches, in a user namespace: that of the machine is everybody's.
#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn without_watches_the_disk_is_swept_every_ten_seconds() {
    let Some(node) = Node::lasting() else { return };
    let shell = ["unshare", "--user", "--map-root-user"];
    let limit = "echo 3 > /proc/sys/user/max_inotify_watches && ";
    let tried = Command::new(shell[0]).args(&shell[1..]).args(["sh", "-c", &format!("{limit}true")]).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no user namespace with a limit of inotify watches can be made here");
        return;
    }
    // The sweep that is asked for never comes.
    let daemon = Daemon::start(&node, &managed("/opt/a/x.conf"), "1h", &shell, limit);
    daemon.until("the word", || daemon.log().contains("cannot watch the disk: it is swept more often"));
    fs::write(node.at("/opt/a/x.conf"), "theirs\n").unwrap();
    println!("no watches left, sweep 10 s: {:?}", daemon.drift("/opt/a/x.conf"));
    fs::write(node.at("/opt/a/x.conf"), "ours\n").unwrap();
    println!("put right: {:?}", daemon.healed());
    assert_eq!(daemon.log().matches("cannot watch the disk").count(), 1, "said once:\n{}", daemon.log());
}

/// Ends the other thread, however this one ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Something that happens over and over for a time, and what the daemon did meanwhile.
fn busy(daemon: &Daemon, what: &str, disturb: impl Fn() + Sync) -> (usize, usize, Duration) {
    let time = Duration::from_secs(if std::env::var_os("MCX_SOAK").is_some() { 60 } else { 4 });
    let stop = AtomicBool::new(false);
    let (said, cpu) = (daemon.patches(), daemon.cpu());
    let mut count = 0;
    std::thread::scope(|scope| {
        let disturbing = scope.spawn(|| {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                disturb();
                count += 1;
            }
            count
        });
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        count = disturbing.join().unwrap();
    });
    let (said, cpu) = (daemon.patches() - said, daemon.cpu().saturating_sub(cpu));
    println!("{what}: {count} changes in {time:?}, {said} writes to the Node, {cpu:?} of a processor");
    (count, said, cpu / u32::try_from(time.as_secs()).unwrap())
}

#[test]
fn a_file_that_is_written_all_the_time_is_one_reason_and_little_work() {
    let Some(node) = Node::lasting() else { return };
    let many: Vec<Value> = (0..500).map(|n| file(&format!("/etc/many/{n}"), &"x\n".repeat(200), 0o644)).collect();
    let mut files = many;
    files.push(file("/opt/a/x.conf", "ours\n", 0o644));
    let daemon = Daemon::plain(&node, &config(&files, &[], None), "1h");
    let path = node.at("/opt/a/x.conf");
    fs::write(&path, "theirs\n").unwrap();
    daemon.drift("/opt/a/x.conf");
    let reason = daemon.api.annotation("reason");
    let write = |path: &Path| {
        fs::write(path, "theirs, all the time\n").unwrap();
        std::thread::sleep(Duration::from_millis(1));
    };
    let (count, said, cpu) = busy(&daemon, "written all the time", || write(&path));
    assert!(count > 100 && said == 0, "{said} requests");
    assert!(cpu < Duration::from_millis(500), "{cpu:?} of each second");
    assert_eq!(daemon.api.annotation("reason"), reason);
    fs::write(&path, "ours\n").unwrap();
    println!("put right: {:?}", daemon.healed());
}

/// So fast that events are lost over and over.
#[test]
fn a_flood_of_events_keeps_the_daemon_from_nothing() {
    let Some(node) = Node::lasting() else { return };
    let daemon = Daemon::plain(&node, &managed("/opt/a/x.conf"), "1h");
    let names = ["/opt/a/noise-1", "/opt/a/noise-2"].map(|name| node.at(name));
    for name in &names {
        fs::write(name, "").unwrap();
    }
    let (_, said, cpu) = busy(&daemon, "a flood of events", || {
        for name in &names {
            fs::set_permissions(name, fs::Permissions::from_mode(0o600)).unwrap();
        }
    });
    assert_eq!(said, 0);
    println!("a flood of events: {cpu:?} of each second");
    fs::write(node.at("/opt/a/x.conf"), "theirs\n").unwrap();
    println!("after a flood: {:?}", daemon.drift("/opt/a/x.conf"));
}

/// As a service that writes its own configuration each time that it finds another one: two that fight for a file.
#[test]
fn a_file_that_something_writes_back_each_time_fails_the_update_in_ever_longer_turns() {
    let Some(node) = Node::lasting() else { return };
    node.write("/etc/app.conf", "the service's own\n", 0o644);
    let first = config(&[file("/etc/other.conf", "x\n", 0o644)], &[], None);
    let daemon = Daemon::plain(&node, &first, "1h");
    let to = config(&[file("/etc/other.conf", "x\n", 0o644), file("/etc/app.conf", "ours\n", 0o644)], &[], None);
    daemon.api.config("rendered-w-2", &to);
    let path = node.at("/etc/app.conf");
    let (stop, wins) = (AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if fs::read_to_string(&path).is_ok_and(|text| text == "ours\n") {
                    fs::write(&path, "the service's own\n").unwrap();
                    wins.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let _stop = Stop(&stop);
        daemon.api.annotate("desiredConfig", "rendered-w-2");
        daemon.until("the failure", || daemon.api.annotation("state") == "Degraded");
        let (reason, said) = (daemon.api.annotation("reason"), daemon.api.state().said.len());
        assert!(reason.contains("/etc/app.conf") && reason.contains("Something on the node changes"), "{reason}");
        let time = if std::env::var_os("MCX_SOAK").is_some() { 180 } else { 8 };
        std::thread::sleep(Duration::from_secs(time));
        let (said, wins) = (daemon.api.state().said.len() - said, wins.load(Ordering::Relaxed));
        println!("fought for: {time} s after the failure {said} requests, {wins} tries in all; {reason}");
        // Tried after 10 s, 20 s, 40 s and so on: each a claim, a phase or two, an event and the reason again.
        assert!(wins <= 2 + usize::try_from(time / 20).unwrap() && said <= 8 * wins, "{said} requests, {wins} tries");
        assert_eq!(daemon.api.annotation("reason"), reason, "the reason is the same");
    });
    // Withdrawn, it is the service's again.
    daemon.api.annotate("desiredConfig", "rendered-w-1");
    daemon.healed();
    assert_eq!(node.read("/etc/app.conf"), "the service's own\n");
}
