//! Whatever is done to a managed tree: each change of what is managed is found and named, and nothing else ever is.
//!
//! A sample by default; 10,000 changes of managed things, and as many of others, with `MCX_SOAK=1`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "node_any_drift/changes.rs"]
mod changes;
#[path = "support/node_root.rs"]
mod node_root;

use changes::{Change, Dice, managed_changes, other_changes};
use node_root::{Node, config, empty, file, owned_file};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

fn managed() -> Value {
    config(
        &[
            file("/etc/chrony.conf", "server a\nserver b\n", 0o644),
            owned_file("/etc/owned.conf", "x\n", 0o640, json!({"id": 1000}), json!({"name": "chrony"})),
            file("/etc/binary", "\u{0}\u{1}", 0o600),
            file("/etc/deep/er/x", "deep\n", 0o644),
            file("/opt/tool/bin", "#!/bin/sh\n", 0o755),
        ],
        &[
            json!({"name": "app.service", "enabled": true,
                "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nRequiredBy=other.target\nAlias=app-alias.service\n",
                "dropins": [{"name": "10-x.conf", "contents": "[Service]\nNice=1\n"}]}),
            json!({"name": "chronyd.service", "enabled": true}),
            json!({"name": "masked.service", "mask": true}),
            json!({"name": "vendor.service", "enabled": false}),
            json!({"name": "static.service", "mask": false}),
            json!({"name": "inst@a.service", "enabled": true}),
        ],
        Some(&[1, 2]),
    )
}

fn template() -> Option<Node> {
    let node = Node::new()?;
    node.vendor("masked.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n");
    node.vendor("other.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n");
    // As a folder it would say that a service manager runs here.
    std::fs::create_dir_all(node.at("/run/systemd/there")).unwrap();
    node.link("there", "/run/systemd/system");
    node.update(&empty(), &managed());
    Some(node)
}

/// Each of `expected` is one finding: its item, and a part of what is said.
fn assert_named(found: &[String], expected: &BTreeSet<(String, String)>) {
    let is_of = |line: &str, (item, what): &(String, String)| {
        line.strip_prefix(item.as_str()).is_some_and(|rest| rest.starts_with(' ') && rest.contains(what.as_str()))
    };
    let unnamed: Vec<_> = expected.iter().filter(|expected| !found.iter().any(|line| is_of(line, expected))).collect();
    let beside: Vec<_> = found.iter().filter(|line| !expected.iter().any(|expected| is_of(line, expected))).collect();
    assert!(unnamed.is_empty(), "not named: {unnamed:?}; found {found:?}");
    assert!(beside.is_empty(), "named and not done: {beside:?}; expected {expected:?}");
}

/// One to three of each kind, no two of one subject.
fn pick(dice: &mut Dice, all: &[Change], count: usize, subjects: &mut BTreeSet<&'static str>) -> Vec<usize> {
    (0..count).map(|_| dice.below(all.len())).filter(|at| subjects.insert(all[*at].subject)).collect()
}

struct Case {
    managed: usize,
    others: usize,
}

fn run(template: &Node, number: u64) -> Result<Case, String> {
    let mut dice = Dice::new(number);
    let (managed_changes, others) = (managed_changes(), other_changes());
    let count = 1 + dice.below(3);
    let mut subjects = BTreeSet::new();
    let theirs = pick(&mut dice, &others, count, &mut subjects);
    let mine = pick(&mut dice, &managed_changes, count, &mut subjects);
    let names: Vec<&str> =
        theirs.iter().map(|at| others[*at].name).chain(mine.iter().map(|at| managed_changes[*at].name)).collect();
    catch_unwind(AssertUnwindSafe(|| {
        let node = template.copy();
        for at in &theirs {
            (others[*at].make)(&node, &mut dice);
        }
        let found = node.deviations(&node.disk(), &managed());
        assert_eq!(found, Vec::<String>::new(), "named, and nothing managed was changed");
        let mut expected = BTreeSet::new();
        for at in &mine {
            expected.extend((managed_changes[*at].make)(&node, &mut dice));
        }
        assert_named(&node.deviations(&node.disk(), &managed()), &expected);
    }))
    .map(|()| Case { managed: mine.len(), others: theirs.len() })
    .map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        format!("case {number} ({}): {text}", names.join("; "))
    })
}

#[test]
#[allow(clippy::print_stdout, reason = "the figures are what a soak is run for")]
fn each_change_of_what_is_managed_is_named_and_no_other_ever_is() {
    if Node::new().is_none() {
        return;
    }
    let wanted = if std::env::var("MCX_SOAK").is_ok() { 10_000 } else { 300 };
    let first: u64 = std::env::var("MCX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let (managed, others) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let template = template().unwrap();
                while managed.load(Ordering::Relaxed).min(others.load(Ordering::Relaxed)) < wanted {
                    match run(&template, next.fetch_add(1, Ordering::Relaxed)) {
                        Ok(case) => {
                            let before = managed.fetch_add(case.managed, Ordering::Relaxed);
                            if before / 500 != (before + case.managed) / 500 {
                                println!("random drift: {} changes so far", before + case.managed);
                            }
                            others.fetch_add(case.others, Ordering::Relaxed);
                        }
                        Err(why) => failed.lock().unwrap().push(why),
                    }
                    if failed.lock().unwrap().len() > 20 {
                        return;
                    }
                }
            });
        }
    });
    println!(
        "random drift: {} changes of managed things named, {} others not, in {} cases",
        managed.into_inner(),
        others.into_inner(),
        next.into_inner() - first
    );
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// The random ones take what comes; this takes each.
#[test]
fn every_kind_of_change_is_named_alone() {
    let Some(template) = template() else { return };
    let mut failed = Vec::new();
    for (is_managed, changes) in [(true, managed_changes()), (false, other_changes())] {
        for (number, change) in changes.iter().enumerate() {
            let node = template.copy();
            let ran = catch_unwind(AssertUnwindSafe(|| {
                let expected = (change.make)(&node, &mut Dice::new(number as u64));
                assert_eq!(!expected.is_empty(), is_managed, "what is expected");
                assert_named(&node.deviations(&node.disk(), &managed()), &expected);
            }));
            if let Err(panic) = ran {
                failed.push(format!(
                    "{}: {}",
                    change.name,
                    panic.downcast_ref::<String>().cloned().unwrap_or_default()
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
