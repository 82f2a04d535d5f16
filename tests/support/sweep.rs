//! What the sweeps have in common: a folder at one config, a command that brings it to another, and a run of it for each
//! point at which something can go wrong. A sample of the points by default, all with `MCX_SOAK=1`.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::node_lives::{before, new, old};
use crate::node_root::{Node, Tree, assert_same, source};
use crate::sysfault::{self, Ended, Fault, Set};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every which point is wanted: `MCX_SOAK=1` means all, `MCX_SOAK=5` every fifth; none without it.
pub(crate) fn soak() -> Option<usize> {
    let wanted = std::env::var("MCX_SOAK").ok()?;
    Some(wanted.parse().unwrap_or(1).max(1))
}

/// What `mcx apply` is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Old,
    New,
    /// As `New`, with a unit that cannot be enabled: it fails when all files have been switched, and is undone.
    Failing,
    /// The same without the attempt.
    NotFailing,
    Withdraw,
}

/// A folder at one config, and the wish that is swept over.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) wish: Wish,
    pub(crate) tool: &'static Path,
    /// The folder before.
    pub(crate) template: Node,
    /// What `template` is.
    pub(crate) from: Tree,
    /// What it becomes.
    pub(crate) to: Tree,
    /// What it was before mcx.
    pub(crate) bare: Tree,
    /// What it is for a moment; else the same as `to`.
    pub(crate) on_the_way: Tree,
    inputs: tempfile::TempDir,
}

impl Scenario {
    /// First update, update, withdrawal, and an update that fails and is undone. None where it cannot be run.
    pub(crate) fn all() -> Vec<Self> {
        let wishes = [
            ("first update", None, Wish::Old),
            ("update", Some(Wish::Old), Wish::New),
            ("withdrawal", Some(Wish::New), Wish::Withdraw),
            ("failing update", Some(Wish::Old), Wish::Failing),
        ];
        wishes.into_iter().filter_map(|(name, first, wish)| Self::new(name, first, wish)).collect()
    }

    fn new(name: &'static str, first: Option<Wish>, wish: Wish) -> Option<Self> {
        let (tool, template) = (sysfault::tool()?, Node::new()?);
        before(&template);
        let bare = template.tree();
        let inputs = tempfile::tempdir().unwrap();
        for (name, config) in
            [("old", old()), ("new", new()), ("failing", failing(true)), ("not-failing", failing(false))]
        {
            fs::write(inputs.path().join(name), source("99-worker-sweep", &config)).unwrap();
        }
        let empty = Tree::new();
        let mut this = Self {
            name,
            wish,
            tool,
            template,
            from: empty.clone(),
            to: empty.clone(),
            bare,
            on_the_way: empty,
            inputs,
        };
        if let Some(first) = first {
            this.succeed(&this.template, first, "at first");
        }
        this.from = this.template.tree();
        let node = this.template.copy();
        if wish == Wish::Failing {
            let ended = this.run(&node, Set::Change, Fault::None, wish);
            assert_eq!(ended.code, 2, "{}{}", ended.out, ended.err);
            this.to = node.tree();
            assert_same(&this.to, &this.from, "undone");
            this.succeed(&node, Wish::NotFailing, "without what fails");
        } else {
            this.succeed(&node, wish, "without a fault");
            this.to = node.tree();
        }
        this.on_the_way = node.tree();
        Some(this)
    }

    pub(crate) fn argv(&self, node: &Node, wish: Wish) -> Vec<PathBuf> {
        let mut argv: Vec<PathBuf> = vec![env!("CARGO_BIN_EXE_mcx").into(), "apply".into(), "--root".into()];
        argv.push(node.root().into());
        let input = match wish {
            Wish::Old => "old",
            Wish::New => "new",
            Wish::Failing => "failing",
            Wish::NotFailing => "not-failing",
            Wish::Withdraw => {
                argv.push("--withdraw".into());
                return argv;
            }
        };
        argv.extend(["--pool".into(), "worker".into(), "-f".into(), self.inputs.path().join(input)]);
        argv
    }

    pub(crate) fn run(&self, node: &Node, set: Set, fault: Fault, wish: Wish) -> Ended {
        sysfault::run(self.tool, node.root(), set, fault, &self.argv(node, wish))
    }

    /// What the wish does when nothing goes wrong, on a copy.
    pub(crate) fn calls(&self, set: Set) -> Vec<sysfault::Call> {
        self.run(&self.template.copy(), set, Fault::None, self.wish).calls
    }

    /// Fulfils a wish on a folder without any fault.
    pub(crate) fn succeed(&self, node: &Node, wish: Wish, when: &str) {
        let argv = self.argv(node, wish);
        let output = std::process::Command::new(&argv[0]).args(&argv[1..]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(if wish == Wish::Failing { 2 } else { 0 }), "{when}: {out}{err}");
    }

    /// Gives all back, which must be what was there before mcx, and nothing of mcx.
    pub(crate) fn withdraw(&self, node: &Node, when: &str) {
        self.succeed(node, Wish::Withdraw, &format!("{when}, then withdrawn"));
        assert_same(&node.tree(), &self.bare, &format!("{when}, then withdrawn"));
        assert!(!node.at("/var/lib/mcx").exists(), "{when}, then withdrawn: there is still state");
    }
}

fn failing(tries: bool) -> Value {
    let mut config = new();
    // The alias is somebody's file: there was a unit of that name before mcx.
    let mut unit = json!({"name": "taken.service",
        "contents": "[Service]\nExecStart=/bin/true\n[Install]\nAlias=local.service\n"});
    if tries {
        unit["enabled"] = json!(true);
    }
    config["systemd"]["units"].as_array_mut().unwrap().push(unit);
    config
}

/// What a sweep has seen, by word.
#[derive(Default)]
pub(crate) struct Counts(Mutex<BTreeMap<String, usize>>);

impl Counts {
    pub(crate) fn add(&self, what: &str) {
        *self.0.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }

    pub(crate) fn of(&self, what: &str) -> usize {
        self.0.lock().unwrap().get(what).copied().unwrap_or_default()
    }
}

/// Runs each case on as many threads as there are cores; a case that fails is a panic that says where. Prints the counts
/// and gives back what has failed.
#[allow(clippy::print_stdout, reason = "the figures are what a soak is run for")]
pub(crate) fn sweep<C: Sync>(name: &str, cases: &[C], counts: &Counts, run: impl Fn(&C) + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(case))) {
                        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        failed.lock().unwrap().push(text);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let seen: Vec<String> = counts.0.lock().unwrap().iter().map(|(what, count)| format!("{count} {what}")).collect();
    println!("{name}: {} cases, {} failed; {}", cases.len(), failed.len(), seen.join(", "));
    failed
}

/// Every `step`-th of them, or all.
pub(crate) fn sample<T: Clone>(all: &[T], step: usize) -> Vec<T> {
    all.iter().step_by(soak().unwrap_or(step)).cloned().collect()
}
