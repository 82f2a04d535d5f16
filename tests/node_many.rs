//! Many files, which several threads write at once: killed or failed at any system call, each path is wholly old or new, the
//! next run ends the update, and a withdrawal gives back what was there.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/sysfault.rs"]
mod sysfault;

use nix::errno::Errno;
use node_root::{Node, Tree, assert_same, config, file, source};
use serde_json::Value;
use std::path::PathBuf;
use sysfault::{Ended, Fault, KILLED, Set};

/// More than are written one after the other.
const FILES: usize = 200;
/// Of how many calls one goes wrong.
const STEP: usize = 997;

fn files(edition: usize) -> Value {
    let one = |n: usize| file(&format!("/etc/many/{:02}/{n:03}.conf", n % 20), &format!("{n} of {edition}\n"), 0o640);
    config(&(0..FILES).map(one).collect::<Vec<_>>(), &[], None)
}

/// A node with the first edition, on which the second is applied.
struct Scenario {
    inputs: tempfile::TempDir,
    template: Node,
    bare: Tree,
    old: Tree,
    new: Tree,
}

impl Scenario {
    fn new() -> Option<Self> {
        let template = Node::new()?;
        // Something to give back, and folders that are not there.
        for n in (0..FILES).step_by(3) {
            template.write(&format!("/etc/many/{:02}/{n:03}.conf", n % 20), "before mcx\n", 0o600);
        }
        let bare = template.tree();
        let inputs = tempfile::tempdir().unwrap();
        for edition in 0..2 {
            std::fs::write(inputs.path().join(edition.to_string()), source("50-many", &files(edition))).unwrap();
        }
        let mut this = Self { inputs, template, bare, old: Tree::new(), new: Tree::new() };
        this.succeed(&this.template, 0);
        this.old = this.template.tree();
        let node = this.template.copy();
        this.succeed(&node, 1);
        this.new = node.tree();
        Some(this)
    }

    fn argv(&self, node: &Node, edition: usize) -> Vec<PathBuf> {
        let mut argv: Vec<PathBuf> =
            [env!("CARGO_BIN_EXE_mcx"), "apply", "--pool", "worker", "-f"].map(PathBuf::from).to_vec();
        argv.extend([self.inputs.path().join(edition.to_string()), "--root".into(), node.root().into()]);
        argv
    }

    fn succeed(&self, node: &Node, edition: usize) {
        let argv = self.argv(node, edition);
        let output = std::process::Command::new(&argv[0]).args(&argv[1..]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn withdraw(&self, node: &Node, when: &str) {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_mcx"))
            .args(["apply", "--withdraw", "--root"])
            .arg(node.root())
            .output()
            .unwrap();
        assert!(output.status.success(), "{when}: {}", String::from_utf8_lossy(&output.stderr));
        assert_same(&node.tree(), &self.bare, &format!("{when}, then withdrawn"));
    }

    /// Each of a sample of calls goes wrong, on a node of its own that has `from` before; `then` judges.
    fn each(&self, from: &Node, fault: impl Fn(usize) -> Fault, then: impl Fn(&Node, &Ended, &str)) {
        let Some(tool) = sysfault::tool() else { return };
        let run = |node: &Node, fault| sysfault::run(tool, node.root(), Set::Change, fault, &self.argv(node, 1));
        let calls = run(&from.copy(), Fault::None).calls.len();
        assert!(calls > 5 * FILES, "only {calls} calls: they are not seen");
        for n in (1..=calls).step_by(STEP) {
            let node = from.copy();
            let ended = run(&node, fault(n));
            let when = format!("{:?} of {calls} calls", fault(n));
            let tree = node.tree();
            for (path, entry) in
                tree.iter().filter(|(path, _)| path.starts_with("/etc/many/") && !path.contains(".mcx-"))
            {
                let is_whole = [&self.bare, &self.old, &self.new].iter().any(|life| life.get(path) == Some(entry));
                assert!(is_whole, "{when}: {path} is neither old nor new: {}", node_root::shown(Some(entry)));
            }
            then(&node, &ended, &when);
            self.succeed(&node, 1);
            assert_same(&node.tree(), &self.new, &format!("{when}, then again"));
            self.withdraw(&node, &when);
        }
    }
}

#[test]
fn an_update_of_many_files_that_is_killed_is_ended_by_the_next_run() {
    let Some(scenario) = Scenario::new() else { return };
    scenario.each(&scenario.template, Fault::Kill, |_, ended, when| {
        assert_eq!(ended.code, KILLED, "{when}: {}", ended.err);
    });
}

#[test]
fn a_first_update_of_many_files_that_is_killed_is_ended_by_the_next_run() {
    let Some(scenario) = Scenario::new() else { return };
    let bare = scenario.template.copy();
    scenario.withdraw(&bare, "at first");
    scenario.each(&bare, Fault::Kill, |_, ended, when| assert_eq!(ended.code, KILLED, "{when}: {}", ended.err));
}

#[test]
fn an_update_of_many_files_that_fails_is_undone_or_finished() {
    let Some(scenario) = Scenario::new() else { return };
    scenario.each(
        &scenario.template,
        |n| Fault::Error(n, Errno::ENOSPC),
        |node, ended, when| {
            if ended.code == 0 {
                assert_same(&node.tree(), &scenario.new, &format!("{when}: called a success"));
            } else if ended.out.contains("is as it was") {
                assert_same(&node.tree(), &scenario.old, &format!("{when}: {}", ended.err));
            }
        },
    );
}
