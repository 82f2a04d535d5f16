//! Actions when systemd itself does not do its part: no bus, a daemon-reload that fails, a `systemctl` that never answers. Its
//! place is taken by a script, since a real one cannot be asked to fail; what it does with real units is seen on the rig.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/programs.rs"]
mod programs;

use mcx::change::Action;
use mcx::node::actions::{self, Outcome};
use mcx::node::journal::{Journal, NotedAction, Stage};
use node_root::{Node, config, empty, file};
use programs::{Mounted, of_this_machine};
use std::time::{Duration, Instant};

/// A node on which a service manager seems to run, whose `systemctl` is a shell script; `$1` is the verb.
struct Booted {
    // In the order in which they must go.
    _mounts: Vec<Mounted>,
    node: Node,
}

impl Booted {
    fn new(script: &str) -> Option<Self> {
        let node = Node::lasting()?;
        let mut mounts = of_this_machine(&node);
        mounts.insert(0, programs::systemctl(&node, &format!("echo \"$@\" >>/calls\n{script}")));
        node.write("/etc/systemd/system/app.service", "[Service]\nExecStart=/bin/true\n", 0o644);
        std::fs::create_dir_all(node.at("/run/systemd/system")).unwrap();
        Some(Self { _mounts: mounts, node })
    }

    /// What came of a daemon-reload and a restart, in the first run and in that of a daemon that starts over.
    fn act(&self, stage: Stage) -> Outcome {
        self.act_on("app.service", stage)
    }

    fn act_on(&self, unit: &str, stage: Stage) -> Outcome {
        let disk = self.node.disk();
        let to = config(&[file("/etc/a", "a\n", 0o644)], &[], None);
        let noted = |action| NotedAction { action, begun: 0, done: false };
        let actions = vec![noted(Action::DaemonReload), noted(Action::Restart(unit.into()))];
        let journal = Journal { stage, actions, ..Node::open(&disk, &empty(), &to) };
        disk.write_journal(&journal).unwrap();
        self.node.runtime.block_on(actions::run(&disk, journal, Duration::from_millis(50)))
    }

    fn calls(&self) -> Vec<String> {
        self.node.read("/calls").lines().map(str::to_owned).collect()
    }
}

fn failed(outcome: Outcome) -> (Journal, String) {
    match outcome {
        Outcome::Failed(journal, text) => (journal, text),
        other => panic!("{other:?}"),
    }
}

const SHOWS: &str =
    "show) printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nResult=success\\nNRestarts=0\\n' ;;";

#[test]
fn a_daemon_reload_that_fails_ends_the_update_by_its_name_before_anything_is_restarted() {
    let script = format!(
        "case $1 in daemon-reload) echo 'Failed to reload daemon: Refusing to reload, not enough space available on /run/systemd.' >&2; exit 1 ;; {SHOWS} esac"
    );
    let Some(booted) = Booted::new(&script) else { return };
    let (journal, text) = failed(booted.act(Stage::Written));
    assert!(
        text.starts_with("`systemctl daemon-reload` failed: exit status 1: Failed to reload daemon: Refusing"),
        "{text}"
    );
    assert_eq!((journal.actions[0].begun, journal.actions[0].done, journal.actions[1].begun), (1, false, 0));
    assert!(!booted.calls().iter().any(|call| call.starts_with("restart")), "{:?}", booted.calls());
}

#[test]
fn without_a_bus_the_update_fails_and_its_undo_ends_with_a_note() {
    let script = "echo 'Failed to connect to bus: No such file or directory' >&2; exit 1";
    let Some(booted) = Booted::new(script) else { return };
    let (_, text) = failed(booted.act(Stage::Written));
    assert!(text.contains("Failed to connect to bus"), "{text}");
    // Nothing holds the undo up: what can be done is done, and what could not is said.
    let Outcome::Done(journal) = booted.act(Stage::Undone) else { panic!("the undo does not end") };
    assert!(journal.actions.iter().all(|action| action.done), "{journal:?}");
}

#[test]
fn a_unit_whose_name_begins_with_a_dash_is_no_option() {
    let Some(booted) = Booted::new(&format!("case $1 in {SHOWS} esac")) else { return };
    booted.node.write("/etc/systemd/system/-.mount", "[Mount]\nWhat=/dev/vda\nWhere=/\n", 0o644);
    let outcome = booted.act_on("-.mount", Stage::Written);
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    let calls = booted.calls();
    let naming: Vec<_> = calls.iter().filter(|call| call.ends_with(" -.mount")).collect();
    assert!(calls.contains(&"restart -- -.mount".to_owned()), "{calls:?}");
    assert!(naming.iter().all(|call| call.ends_with(" -- -.mount")), "{calls:?}");
}

#[test]
fn a_restart_that_fails_names_the_unit_and_where_to_look() {
    let script = format!(
        "case $1 in restart) echo 'Job for app.service failed because the control process exited with error code.' >&2; exit 1 ;; {SHOWS} esac"
    );
    let Some(booted) = Booted::new(&script) else { return };
    let (journal, text) = failed(booted.act(Stage::Written));
    assert!(
        text.contains("systemctl restart app.service") && text.ends_with("see `journalctl -u app.service`"),
        "{text}"
    );
    assert_eq!((journal.actions[0].done, journal.actions[1].begun), (true, 1));
    assert_eq!(booted.calls().iter().filter(|call| call.starts_with("restart")).count(), 1, "once is enough");
}

#[test]
fn a_unit_that_never_gets_ready_is_given_up_and_named() {
    let script = "case $1 in show) printf 'LoadState=loaded\\nActiveState=activating\\nSubState=start\\nResult=success\\nNRestarts=0\\n' ;; esac";
    let Some(booted) = Booted::new(script) else { return };
    let begun = Instant::now();
    let (_, text) = failed(booted.act(Stage::Written));
    assert!(text.contains("app.service is activating (start) after its action"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// Five minutes for an action, half of one for a question: so this is no part of the plain tests.
#[test]
fn a_systemctl_that_never_answers_is_killed_in_its_time() {
    if std::env::var_os("MCX_SOAK").is_none() {
        return;
    }
    for (verb, limit, said) in
        [("show", 30, "`systemctl show"), ("daemon-reload", 300, "`systemctl daemon-reload` failed")]
    {
        let script = format!("case $1 in {verb}) sleep 1000 & sleep 1000 ;; {SHOWS} esac");
        let Some(booted) = Booted::new(&script) else { return };
        let begun = Instant::now();
        let (_, text) = failed(booted.act(Stage::Written));
        assert!(text.contains(said) && text.contains(&format!("no end within {limit} s, killed")), "{text}");
        assert!(begun.elapsed() < Duration::from_secs(limit + 60), "{:?}", begun.elapsed());
    }
}
