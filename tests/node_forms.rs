//! A newer daemon finishes the transaction that an older one has begun. What a node had in each stage is kept for every
//! form that was released, `tests/data/node-state/v*/stages.json`, and never edited; the test restores it and goes on.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use base64::Engine as _;
use mcx::change::Action;
use mcx::node::journal::{Journal, NotedAction, Stage};
use node_root::{Node, Tree, assert_same, config, empty, file, named};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

const APP: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";

fn at(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/node-state/v{version}/stages.json"))
}

/// Trees by name: `bare`, `old`, `new`, and one for each stage in which something is open.
type Trees = BTreeMap<String, Tree>;

/// What lies at a path: kind, mode, owner, group, and bytes in base64.
type Stored = (char, u32, u32, u32, String);

fn read(version: u32) -> Trees {
    let text = fs::read_to_string(at(version)).unwrap();
    let stored: BTreeMap<String, BTreeMap<String, Stored>> = serde_json::from_str(&text).unwrap();
    let decode = |text: String| base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let tree = |tree: BTreeMap<String, Stored>| {
        tree.into_iter()
            .map(|(path, (kind, mode, uid, gid, text))| (path, (kind, mode, uid, gid, decode(text))))
            .collect()
    };
    stored.into_iter().map(|(name, stored)| (name, tree(stored))).collect()
}

/// A node in the middle of an update, as the first form has it: in each stage it ends where that stage says, and all can
/// be withdrawn afterwards.
#[test]
fn an_update_of_the_first_form_is_finished_from_every_stage() {
    let trees = read(1);
    assert_eq!(trees.len(), 10, "{:?}", trees.keys());
    for (name, tree) in &trees {
        if ["bare", "old", "new"].contains(&name.as_str()) {
            continue;
        }
        for abandon in [false, true] {
            let Some(node) = Node::of(tree) else { return };
            let disk = node.disk();
            let mut journal = disk.stored().unwrap().journal.unwrap();
            assert_eq!(format!("{:?}", journal.stage), *name);
            assert_eq!(journal.actions[0], NotedAction { action: Action::Drain, begun: 1, done: true });
            assert_eq!(journal.node_uid, Some("uid-1".into()));
            let back = match journal.stage {
                Stage::Opened => abandon,
                Stage::Switching | Stage::Written | Stage::Rebooting | Stage::Acted => false,
                Stage::Undoing | Stage::Undone => true,
            };
            let (from, to) = (journal.from.clone(), journal.to.clone());
            node.runtime
                .block_on(async { if back { disk.back(&mut journal).await } else { disk.forward(&mut journal).await } })
                .unwrap();
            disk.close().unwrap();
            let (ended, tree) = if back { (from, &trees["old"]) } else { (to, &trees["new"]) };
            assert_same(&node.tree(), tree, name);
            assert_eq!(disk.stored().unwrap().current.as_ref(), Some(&ended), "{name}");
            let mut journal = Node::open(&disk, &ended.config, &empty());
            node.runtime.block_on(disk.forward(&mut journal)).unwrap();
            disk.close().unwrap();
            assert_same(&node.tree(), &trees["bare"], &format!("{name}, then withdrawn"));
        }
    }
}

fn old() -> Value {
    config(
        &[file("/etc/a.conf", "old\n", 0o644), file("/etc/gone.conf", "gone\n", 0o600)],
        &[json!({"name": "app.service", "contents": APP, "enabled": true})],
        Some(&[1]),
    )
}

fn new() -> Value {
    config(
        &[
            file("/etc/a.conf", "new\n", 0o600),
            file("/etc/b.conf", "b\n", 0o644),
            file("/etc/new/dir/c.conf", "c\n", 0o644),
        ],
        &[
            json!({"name": "app.service", "contents": APP, "enabled": false, "dropins": [{"name": "10-x.conf", "contents": "[Service]\nNice=1\n"}]}),
            json!({"name": "chronyd.service", "enabled": false, "mask": true}),
        ],
        Some(&[1, 2]),
    )
}

/// For the release that changes the form: `cargo test --test node_forms -- --ignored` writes what the new one needs.
#[test]
#[ignore = "writes the files of the present form, once, before it is released"]
fn write_the_stages_of_the_present_form() {
    let bare = Node::new().unwrap();
    bare.write("/etc/a.conf", "original\n", 0o640);
    bare.own("/etc/a.conf", 1000, 107);
    bare.link("../nowhere/b", "/etc/b.conf");
    let mut trees = Trees::from([("bare".into(), bare.tree())]);
    let node = bare.copy();
    node.update(&empty(), &old());
    trees.insert("old".into(), node.tree());
    let begin = |node: &Node| {
        let disk = node.disk();
        let mut journal = Node::open(&disk, &old(), &new());
        journal.actions = vec![
            NotedAction { action: Action::Drain, begun: 1, done: true },
            NotedAction { action: Action::Restart("chronyd.service".into()), begun: 0, done: false },
            NotedAction { action: Action::Reboot, begun: 0, done: false },
        ];
        journal.node_uid = Some("uid-1".into());
        disk.write_journal(&journal).unwrap();
        journal
    };
    let whole = node.copy();
    let mut journal = begin(&whole);
    let steps = whole.until(&mut journal, false, usize::MAX);
    trees.insert("new".into(), whole.tree());
    let mut keep = |node: &Node, journal: &Journal| {
        trees.insert(format!("{:?}", journal.stage), node.whole());
    };
    keep(&whole, &journal);
    let find = |name: &str| steps.iter().position(|step| step.to_string() == name).unwrap();
    for stop in [find("begin to switch"), find("flush directories") - 3] {
        let node = node.copy();
        let mut journal = begin(&node);
        node.until(&mut journal, false, stop);
        keep(&node, &node.disk().stored().unwrap().journal.unwrap());
    }
    for stage in [Stage::Rebooting, Stage::Acted] {
        journal.stage = stage;
        journal.boot_id = Some("11111111-2222-3333-4444-555555555555".into());
        journal.actions.iter_mut().for_each(|action| (action.begun, action.done) = (1, true));
        whole.disk().write_journal(&journal).unwrap();
        keep(&whole, &journal);
    }
    journal.failure = Some("update failed: chronyd.service failed".into());
    for stop in [12, usize::MAX] {
        whole.until(&mut journal, true, stop);
        let stored = whole.disk().stored().unwrap().journal.unwrap();
        keep(&whole, &stored);
    }
    let encode = |bytes: &Vec<u8>| base64::engine::general_purpose::STANDARD.encode(bytes);
    let stored: BTreeMap<&String, BTreeMap<&String, _>> = trees
        .iter()
        .map(|(name, tree)| {
            let tree =
                tree.iter().map(|(path, (kind, mode, uid, gid, bytes))| (path, (kind, mode, uid, gid, encode(bytes))));
            (name, tree.collect())
        })
        .collect();
    assert_eq!(named(&new()).name, journal.to.name);
    fs::write(at(mcx::node::journal::VERSION), serde_json::to_string_pretty(&stored).unwrap() + "\n").unwrap();
}
