//! The guard of the host as a process, on a node's root: a lost node is undone, a healthy one is left alone, whatever
//! kills it and whoever else is there. No service manager runs in the root, so no action does; the rig runs them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use mcx::change::Action;
use mcx::node::journal::{Guard, Journal, Lost, NotedAction, Stage};
use node_root::{Node, Tree, assert_same, config, file};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// Longer than anything here takes, on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);
/// As long as the guard needs for some looks.
const A_WHILE: Duration = Duration::from_secs(3);

/// Answers every request with 200, as a kubelet that is healthy and an API server do.
fn serving() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    address
}

fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn old() -> Value {
    config(&[file("/etc/hello.conf", "old\n", 0o644)], &[], None)
}

fn new() -> Value {
    config(&[file("/etc/hello.conf", "new\n", 0o644), file("/etc/more.conf", "new\n", 0o644)], &[], None)
}

/// An update whose files are there and whose guard was left in an earlier boot. The tree is that of before.
fn updated(node: &Node, stage: Stage, action: Action, guard: Guard) -> Tree {
    node.update(&config(&[], &[], None), &old());
    let before = node.tree();
    let disk = node.disk();
    let mut journal = Node::open(&disk, &old(), &new());
    journal.actions = vec![NotedAction { action, begun: 1, done: stage == Stage::Acted }];
    journal.guard = Some(Guard { boot_id: "an earlier one".into(), left: true, ..guard });
    disk.write_journal(&journal).unwrap();
    node.runtime.block_on(disk.forward(&mut journal)).unwrap();
    journal.stage = stage;
    disk.write_journal(&journal).unwrap();
    leave(node);
    before
}

/// What a daemon leaves of the guard.
fn leave(node: &Node) {
    node.write("/var/lib/mcx/bin/mcx", "binary", 0o700);
    node.write("/etc/systemd/system/mcx-guard.service", "[Service]\n", 0o644);
    node.link("../mcx-guard.service", "/etc/systemd/system/sysinit.target.wants/mcx-guard.service");
}

fn is_left(node: &Node) -> bool {
    ["/var/lib/mcx/bin", "/etc/systemd/system/mcx-guard.service", "/etc/systemd/system/sysinit.target.wants"]
        .iter()
        .any(|path| node.at(path).symlink_metadata().is_ok())
}

fn guard(kubelet: SocketAddr, api: SocketAddr) -> Guard {
    Guard { kubelet: Some(kubelet.to_string()), servers: vec![format!("http://{api}")], ..Guard::default() }
}

fn restart() -> Action {
    Action::Restart("x.service".into())
}

/// The process; it ends with the value.
struct Process(Child);

impl Process {
    fn start(node: &Node) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcx"));
        command.args(["guard", "--root"]).arg(node.root()).stdin(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Waits for its end, and says whether it was a good one.
    fn end(mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the guard does not end")
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn journal(node: &Node) -> Option<Journal> {
    node.disk().stored().unwrap().journal
}

/// The old files are back, what failed is remembered, and nothing of the update or the guard is left.
fn assert_undone(node: &Node, before: &Tree, lost: Lost) {
    assert_same(&node.tree(), before, "after the undo");
    assert!(!is_left(node));
    let stored = node.disk().stored().unwrap();
    assert_eq!(stored.journal, None);
    assert_eq!(stored.current.unwrap().name, node_root::named(&old()).name);
    let failed = stored.failed.unwrap();
    assert_eq!(failed.config, node_root::named(&new()).name);
    assert!(failed.disruptive, "not tried again like any other");
    assert_eq!(failed.unanswered, u32::from(lost == Lost::Api));
    let word = if lost == Lost::Api { mcx::api::protocol::NO_API } else { mcx::api::protocol::NO_KUBELET };
    assert!(failed.reason.contains(word), "{}", failed.reason);
}

#[test]
fn a_lost_node_is_undone_and_what_was_missing_is_remembered() {
    for (well, lost) in [((false, true), Lost::Kubelet), ((true, false), Lost::Api), ((false, false), Lost::Kubelet)] {
        let Some(node) = Node::new() else { return };
        let at = |well: bool| if well { serving() } else { nobody() };
        let before = updated(&node, Stage::Acted, restart(), guard(at(well.0), at(well.1)));
        assert!(Process::start(&node).end(), "{well:?}");
        assert_undone(&node, &before, lost);
    }
}

#[test]
fn a_healthy_node_without_a_daemon_keeps_its_update_and_the_guard_goes() {
    let Some(node) = Node::new() else { return };
    updated(&node, Stage::Acted, restart(), guard(serving(), serving()));
    let files = node.tree();
    assert!(Process::start(&node).end());
    assert!(!is_left(&node));
    let journal = journal(&node).expect("closing it is the daemon's business");
    assert!(journal.guard.unwrap().proven && journal.failure.is_none());
    let mut expected = files;
    expected.retain(|path, _| !path.contains("mcx-guard") && !path.ends_with("sysinit.target.wants"));
    assert_same(&node.tree(), &expected, "nothing else has changed");
}

#[test]
fn it_waits_for_all_of_the_patience() {
    let Some(node) = Node::new() else { return };
    let patient = Guard { patience: 3600, ..guard(nobody(), nobody()) };
    updated(&node, Stage::Acted, restart(), patient);
    let files = node.tree();
    let mut process = Process::start(&node);
    std::thread::sleep(A_WHILE);
    assert!(process.runs());
    assert_same(&node.tree(), &files, "nothing has changed");
}

#[test]
fn while_somebody_else_holds_the_state_it_does_nothing_and_after_that_it_does() {
    let Some(node) = Node::new() else { return };
    let before = updated(&node, Stage::Acted, restart(), guard(nobody(), nobody()));
    let files = node.tree();
    let disk = node.disk();
    let mut process = Process::start(&node);
    std::thread::sleep(A_WHILE);
    assert!(process.runs());
    assert_same(&node.tree(), &files, "the daemon's business");
    drop(disk);
    assert!(process.end());
    assert_undone(&node, &before, Lost::Kubelet);
}

#[test]
fn an_update_that_was_closed_meanwhile_is_not_touched() {
    let Some(node) = Node::new() else { return };
    updated(&node, Stage::Acted, restart(), guard(nobody(), nobody()));
    let disk = node.disk();
    let mut process = Process::start(&node);
    std::thread::sleep(A_WHILE);
    assert!(process.runs());
    disk.close().unwrap();
    drop(disk);
    assert!(process.end());
    assert_eq!(node.read("/etc/hello.conf"), "new\n");
    assert!(!is_left(&node));
}

#[test]
fn without_an_open_update_what_is_left_of_it_goes() {
    let Some(node) = Node::new() else { return };
    node.update(&config(&[], &[], None), &old());
    let files = node.tree();
    leave(&node);
    std::fs::remove_file(node.at("/etc/systemd/system/mcx-guard.service")).unwrap();
    assert!(Process::start(&node).end());
    assert!(!is_left(&node));
    assert_same(&node.tree(), &files, "all else stays");
}

#[test]
fn what_it_does_not_understand_it_does_not_touch() {
    let Some(node) = Node::new() else { return };
    updated(&node, Stage::Acted, restart(), guard(nobody(), nobody()));
    let files = node.tree();
    let whole = node.read("/var/lib/mcx/journal.json");
    let half = &whole[..whole.len() / 2];
    for text in [half, "", "null"] {
        node.write("/var/lib/mcx/journal.json", text, 0o600);
        let mut process = Process::start(&node);
        std::thread::sleep(Duration::from_secs(1));
        assert!(process.runs());
        assert_same(&node.tree(), &files, "a damaged journal");
        assert_eq!(node.read("/var/lib/mcx/journal.json"), text);
    }
}

#[test]
fn one_that_does_not_see_a_well_node_when_it_is_left_never_judges() {
    let Some(node) = Node::new() else { return };
    let being_left = |guard: Guard| {
        let disk = node.disk();
        let mut journal = Node::open(&disk, &config(&[], &[], None), &new());
        journal.actions = vec![NotedAction { action: Action::Reboot, begun: 0, done: false }];
        journal.guard = Some(guard);
        disk.write_journal(&journal).unwrap();
    };
    being_left(guard(serving(), nobody()));
    assert!(!Process::start(&node).end());
    being_left(guard(serving(), serving()));
    let mut process = Process::start(&node);
    std::thread::sleep(A_WHILE);
    assert!(process.runs(), "it stays until the update is closed");
}

#[test]
fn killed_at_any_moment_of_its_undo_it_is_finished_by_the_next() {
    for round in 0..16 {
        let Some(node) = Node::new() else { return };
        let before = updated(&node, Stage::Acted, restart(), guard(nobody(), nobody()));
        let process = Process::start(&node);
        std::thread::sleep(Duration::from_millis(10 + 12 * round));
        drop(process);
        assert!(Process::start(&node).end(), "round {round}");
        assert_undone(&node, &before, Lost::Kubelet);
    }
}

#[test]
fn after_a_reboot_the_undo_asks_for_one_and_is_written_down_in_the_next_boot() {
    let Some(node) = Node::new() else { return };
    let before = updated(&node, Stage::Rebooting, Action::Reboot, guard(nobody(), nobody()));
    {
        let disk = node.disk();
        let open = disk.stored().unwrap().journal.unwrap();
        disk.write_journal(&Journal { boot_id: Some("an earlier one".into()), ..open }).unwrap();
    }
    let mut process = Process::start(&node);
    let start = Instant::now();
    let asked = || {
        let text = node.read("/var/lib/mcx/journal.json");
        text.contains("\"stage\":\"Undone\"") && text.contains("\"begun\":1")
    };
    while !asked() {
        assert!(process.runs() && start.elapsed() < LIMIT, "{}", node.read("/var/lib/mcx/journal.json"));
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(process);
    assert!(is_left(&node), "it is needed after the boot");
    let boot_id = node.read(BOOT);
    node.write(BOOT, "a later one", 0o444);
    assert!(Process::start(&node).end());
    node.write(BOOT, &boot_id, 0o444);
    assert_undone(&node, &before, Lost::Kubelet);
}
