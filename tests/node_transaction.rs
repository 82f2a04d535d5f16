//! An update is a transaction: killed before any of its steps it ends at the old or at the new config, and withdrawing
//! everything gives back exactly what was there.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_lives.rs"]
mod node_lives;
#[path = "support/node_root.rs"]
mod node_root;

use mcx::node::journal::Stage;
use node_lives::{assert_each_whole, at_old, before, lives, new, old};
use node_root::{Node, assert_same, config, empty, file, named};
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn a_kill_before_any_step_ends_at_the_old_or_at_the_new_config() {
    let Some(lives) = lives() else { return };
    let template = at_old().unwrap();
    let count = {
        let node = template.copy();
        let mut journal = Node::open(&node.disk(), &old(), &new());
        node.until(&mut journal, false, usize::MAX).len()
    };
    assert!(count > 40, "the scenario has lost its steps: {count}");
    for stop in 0..count {
        for on in [true, false] {
            let node = template.copy();
            let mut journal = Node::open(&node.disk(), &old(), &new());
            let steps = node.until(&mut journal, false, stop);
            let when = format!(
                "killed before step {stop} ({:?} was the last), going {}",
                steps.last(),
                if on { "on" } else { "back" }
            );
            assert_each_whole(&node.tree(), &lives, &when);
            // The next start knows nothing but the disk.
            let disk = node.disk();
            let mut journal = disk.stored().unwrap().journal.unwrap();
            if journal.stage == Stage::Opened {
                assert!(!steps.iter().any(|step| step.to_string().starts_with("switch")), "{when}");
            }
            let result = if on {
                node.runtime.block_on(disk.forward(&mut journal))
            } else {
                node.runtime.block_on(disk.back(&mut journal))
            };
            result.unwrap_or_else(|error| panic!("{when}: {error}"));
            let (tree, at) = if on { (&lives.new, new()) } else { (&lives.old, old()) };
            assert_same(&node.tree(), tree, &when);
            assert_eq!(disk.stored().unwrap().current, Some(named(&at)), "{when}");
            disk.close().unwrap();
            assert_eq!(node.deviations(&disk, &at), Vec::<String>::new(), "{when}");
            drop(disk);
            // Originals are intact.
            node.update(&at, &empty());
            assert_same(&node.tree(), &lives.bare, &format!("{when}, then withdrawn"));
        }
    }
}

#[test]
fn a_kill_before_any_step_of_undoing_still_undoes() {
    let Some(lives) = lives() else { return };
    let template = at_old().unwrap();
    let mut written = Node::open(&template.disk(), &old(), &new());
    template.runtime.block_on(template.disk().forward(&mut written)).unwrap();
    let undo = |stop: usize| {
        let node = template.copy();
        let mut journal = written.clone();
        let steps = node.until(&mut journal, true, stop);
        (node, steps.len())
    };
    let (_, count) = undo(usize::MAX);
    assert!(count > 20, "the scenario has lost its steps: {count}");
    for stop in 0..count {
        let (node, _) = undo(stop);
        let when = format!("killed before undoing step {stop}");
        assert_each_whole(&node.tree(), &lives, &when);
        let disk = node.disk();
        let mut journal = disk.stored().unwrap().journal.unwrap();
        node.runtime.block_on(disk.back(&mut journal)).unwrap();
        assert_same(&node.tree(), &lives.old, &when);
        disk.close().unwrap();
        drop(disk);
        node.update(&old(), &empty());
        assert_same(&node.tree(), &lives.bare, &format!("{when}, then withdrawn"));
    }
}

#[test]
fn a_kill_in_the_withdrawal_of_everything_gives_everything_back() {
    let Some(lives) = lives() else { return };
    let template = at_old().unwrap();
    let withdraw = |stop: usize| {
        let node = template.copy();
        let mut journal = Node::open(&node.disk(), &old(), &empty());
        let steps = node.until(&mut journal, false, stop).len();
        (node, steps)
    };
    let (_, count) = withdraw(usize::MAX);
    for stop in 0..count {
        let (node, _) = withdraw(stop);
        let when = format!("killed before step {stop} of the withdrawal");
        assert_each_whole(&node.tree(), &lives, &when);
        let disk = node.disk();
        let mut journal = disk.stored().unwrap().journal.unwrap();
        node.runtime.block_on(disk.forward(&mut journal)).unwrap();
        disk.close().unwrap();
        assert_same(&node.tree(), &lives.bare, &when);
    }
}

#[test]
fn r096_withdrawal_gives_back_the_original_after_any_order_of_configs() {
    let a = config(&[file("/etc/a.conf", "one\n", 0o644)], &[], None);
    let ab = config(&[file("/etc/a.conf", "one\n", 0o644), file("/etc/b.conf", "two\n", 0o600)], &[], None);
    let b = config(&[file("/etc/a.conf", "three\n", 0o600), file("/etc/b.conf", "two\n", 0o600)], &[], None);
    let only_b = config(&[file("/etc/b.conf", "two\n", 0o600)], &[], None);
    for way in [
        vec![&a, &ab, &b],
        vec![&a, &b, &only_b],
        vec![&ab, &a],
        vec![&b, &only_b, &a],
        vec![&only_b, &ab, &only_b, &a, &b],
    ] {
        let Some(node) = Node::new() else { return };
        before(&node);
        let bare = node.tree();
        let mut at = empty();
        for next in way {
            node.update(&at, next);
            at = next.clone();
        }
        node.update(&at, &empty());
        assert_same(&node.tree(), &bare, "after the last withdrawal");
        let left: BTreeSet<String> = std::fs::read_dir(node.at("/var/lib/mcx/originals"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with("made"))
            .collect();
        assert!(left.is_empty(), "records are left: {left:?}");
    }
}

#[test]
fn after_lost_state_ours_is_removed_and_what_somebody_else_wrote_stays() {
    let Some(node) = Node::new() else { return };
    let held = config(
        &[file("/etc/x.conf", "ours\n", 0o644), file("/etc/y.conf", "ours\n", 0o644)],
        &[json!({"name": "vendor.service", "enabled": true})],
        None,
    );
    node.update(&empty(), &held);
    std::fs::remove_dir_all(node.at("/var/lib/mcx")).unwrap();
    let disk = node.disk();
    disk.adopt(&named(&held)).unwrap();
    let unknown = disk.without_original(&node_root::items(&held)).unwrap();
    assert_eq!(unknown, ["/etc/x.conf", "/etc/y.conf", "enablement of vendor.service"]);
    node.write("/etc/y.conf", "theirs\n", 0o644);
    let mut journal = Node::open(&disk, &held, &empty());
    node.runtime.block_on(disk.forward(&mut journal)).unwrap();
    disk.close().unwrap();
    assert!(!node.at("/etc/x.conf").exists());
    assert_eq!(node.read("/etc/y.conf"), "theirs\n");
}

#[test]
fn r107_r151_an_update_that_changes_nothing_writes_nothing_and_calls_nothing() {
    let Some(node) = at_old() else { return };
    let times = |node: &Node| -> Vec<(String, std::time::SystemTime)> {
        node.tree()
            .keys()
            .map(|path| (path.clone(), std::fs::symlink_metadata(node.at(path)).unwrap().modified().unwrap()))
            .collect()
    };
    let before = times(&node);
    let mut journal = Node::open(&node.disk(), &old(), &old());
    let steps: Vec<String> = node.until(&mut journal, false, usize::MAX).iter().map(ToString::to_string).collect();
    assert_eq!(times(&node), before);
    assert!(!steps.iter().any(|step| step.contains("enable") || step.contains("stage ")), "{steps:?}");
}

#[test]
fn an_edit_during_the_update_is_not_overwritten_and_the_update_is_undone() {
    let Some(node) = at_old() else { return };
    let at_old = node.tree();
    let disk = node.disk();
    let mut journal = Node::open(&disk, &old(), &new());
    let mut count = 0;
    let mut edit = |step: &mcx::node::plan::Step| {
        count += 1;
        if step.to_string() == "stage /etc/a.conf" {
            node.write("/etc/a.conf", "edited\n", 0o644);
        }
    };
    let error = node.runtime.block_on(disk.forward_observed(&mut journal, &mut edit)).unwrap_err();
    assert!(error.to_string().contains("/etc/a.conf was changed by somebody else"), "{error}");
    assert_eq!(journal.stage, Stage::Opened);
    assert_eq!(node.read("/etc/a.conf"), "edited\n");
    node.write("/etc/a.conf", "a of old\n", 0o644);
    assert_same(&node.tree(), &at_old, "after the error");
}

#[test]
fn an_error_in_the_middle_can_be_undone_and_leaves_a_foreign_edit_alone() {
    let Some(node) = at_old() else { return };
    let at_old = node.tree();
    let disk = node.disk();
    let mut journal = Node::open(&disk, &old(), &new());
    let mut edit = |step: &mcx::node::plan::Step| {
        if step.to_string() == "switch /etc/a.conf" {
            node.write("/etc/a.conf", "edited\n", 0o644);
        }
    };
    node.runtime.block_on(disk.forward_observed(&mut journal, &mut edit)).unwrap_err();
    assert_eq!(journal.stage, Stage::Switching);
    node.runtime.block_on(disk.back(&mut journal)).unwrap();
    disk.close().unwrap();
    assert_eq!(node.read("/etc/a.conf"), "edited\n", "somebody's edit was overwritten");
    node.write("/etc/a.conf", "a of old\n", 0o644);
    assert_same(&node.tree(), &at_old, "after undoing");
}

#[test]
fn r124_the_force_file_s_update_writes_everything_that_differs() {
    let Some(node) = at_old() else { return };
    let right = node.tree();
    node.write("/etc/a.conf", "drifted\n", 0o666);
    std::fs::remove_file(node.at("/etc/new/dir/c.conf")).unwrap();
    std::fs::remove_file(node.at("/etc/gone.conf")).unwrap();
    std::fs::create_dir(node.at("/etc/gone.conf")).unwrap();
    node.write("/etc/systemd/system/app.service.d/10-x.conf", "", 0o644);
    node.write("/home/boot/.ssh/authorized_keys", "", 0o600);
    node.systemctl(&["disable", "app.service"]);
    std::fs::remove_file(node.at("/etc/systemd/system/chronyd.service")).unwrap();
    node.systemctl(&["enable", "chronyd.service"]);
    let disk = node.disk();
    assert_eq!(node.deviations(&disk, &old()).len(), 9);
    let mut journal = Node::open_as(&disk, &old(), &old(), true);
    node.runtime.block_on(disk.forward(&mut journal)).unwrap();
    disk.close().unwrap();
    assert_same(&node.tree(), &right, "after the forced update");
}
