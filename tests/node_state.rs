//! What mcx keeps on the node: private, locked, and never taken for absent when damaged.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use mcx::node::disk::Disk;
use mcx::node::journal::Failed;
use node_root::{Node, config, empty, file, named};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

fn modes(node: &Node, dir: &str, found: &mut Vec<(String, u32)>) {
    for entry in fs::read_dir(node.at(dir)).unwrap() {
        let name = format!("{dir}/{}", entry.unwrap().file_name().into_string().unwrap());
        let meta = fs::metadata(node.at(&name)).unwrap();
        found.push((name.clone(), meta.mode() & 0o7777));
        if meta.is_dir() {
            modes(node, &name, found);
        }
    }
}

#[test]
fn all_of_it_is_root_s_alone() {
    let Some(node) = Node::new() else { return };
    fs::create_dir(node.at("/var/lib/mcx")).unwrap();
    fs::set_permissions(node.at("/var/lib/mcx"), fs::Permissions::from_mode(0o755)).unwrap();
    node.write("/etc/secret", "was secret\n", 0o600);
    let to = config(&[file("/etc/secret", "secret\n", 0o600)], &[], Some(&[1]));
    let mut journal = Node::open(&node.disk(), &empty(), &to);
    node.until(&mut journal, false, usize::MAX);
    node.disk()
        .set_failed(Some(&Failed { config: "x".into(), reason: "y".into(), disruptive: true, unanswered: 0 }))
        .unwrap();
    assert_eq!(fs::metadata(node.at("/var/lib/mcx")).unwrap().mode() & 0o7777, 0o700);
    let mut found = Vec::new();
    modes(&node, "/var/lib/mcx", &mut found);
    for name in ["current", "previous", "journal", "failed"] {
        assert!(found.contains(&(format!("/var/lib/mcx/{name}.json"), 0o600)), "{found:?}");
    }
    for (path, mode) in found {
        assert_eq!(mode, if path.ends_with("originals") { 0o700 } else { 0o600 }, "{path}");
    }
}

#[test]
fn it_is_read_back_as_it_was_written() {
    let Some(node) = Node::new() else { return };
    let disk = node.disk();
    assert_eq!(disk.stored().unwrap(), mcx::node::journal::Stored::default());
    let failed = Failed {
        config: "rendered-worker-x".into(),
        reason: "chronyd.service failed".into(),
        disruptive: false,
        unanswered: 0,
    };
    let to = config(&[file("/etc/x", "x", 0o644)], &[], None);
    disk.adopt(&named(&to)).unwrap();
    disk.set_failed(Some(&failed)).unwrap();
    let journal = Node::open(&disk, &to, &empty());
    let stored = disk.stored().unwrap();
    assert_eq!((stored.current, stored.journal, stored.failed), (Some(named(&to)), Some(journal), Some(failed)));
    disk.set_failed(None).unwrap();
    disk.close().unwrap();
    let stored = disk.stored().unwrap();
    assert_eq!((stored.journal, stored.failed), (None, None));
}

#[test]
fn r101_a_damaged_file_is_an_error_with_a_way_out_and_nothing_is_touched() {
    let Some(node) = Node::new() else { return };
    let to = config(&[file("/etc/x", "x", 0o644)], &[], None);
    let mut journal = Node::open(&node.disk(), &empty(), &to);
    node.until(&mut journal, false, 5);
    node.disk().adopt(&named(&to)).unwrap();
    node.disk()
        .set_failed(Some(&Failed { config: "x".into(), reason: "y".into(), disruptive: true, unanswered: 0 }))
        .unwrap();
    for name in ["current", "journal", "failed"] {
        let path = format!("/var/lib/mcx/{name}.json");
        let whole = fs::read(node.at(&path)).unwrap();
        let mut damaged = vec![vec![], vec![0; whole.len()], b"{}".to_vec(), b"{}\n{}\n".to_vec()];
        damaged.extend((0..whole.len()).step_by(7).map(|end| whole[..end].to_vec()));
        for bytes in damaged {
            fs::write(node.at(&path), &bytes).unwrap();
            let error = node.disk().stored().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{path} is damaged (")) && error.contains("move it away"), "{error}");
        }
        let newer = String::from_utf8(whole.clone()).unwrap().replacen("\"version\":1", "\"version\":9", 1);
        fs::write(node.at(&path), newer).unwrap();
        let error = node.disk().stored().unwrap_err().to_string();
        assert!(error.contains(&path) && error.contains("newer mcx (form 9"), "{error}");
        fs::write(node.at(&path), &whole).unwrap();
        node.disk().stored().unwrap();
    }
}

#[test]
fn a_damaged_original_stops_the_withdrawal_before_anything_is_touched() {
    let Some(node) = Node::new() else { return };
    node.write("/etc/x", "original\n", 0o600);
    let to = config(&[file("/etc/x", "x", 0o644), file("/etc/y", "y", 0o644)], &[], None);
    node.update(&empty(), &to);
    let before = node.tree();
    for entry in fs::read_dir(node.at("/var/lib/mcx/originals")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("b-") {
            fs::write(path, "damaged!\n").unwrap();
        }
    }
    let disk = node.disk();
    let mut journal = Node::open(&disk, &to, &empty());
    let error = node.runtime.block_on(disk.forward(&mut journal)).unwrap_err().to_string();
    assert!(error.contains("/etc/x") && error.contains("is damaged"), "{error}");
    assert_eq!(node.tree(), before);
}

#[test]
fn a_second_daemon_waits_and_then_refuses() {
    let Some(node) = Node::new() else { return };
    let first = node.disk();
    let second = node.runtime.block_on(Disk::open(node.host(), Duration::from_millis(300)));
    let error = second.err().expect("two daemons on one root").to_string();
    assert_eq!(error, "another mcx, a daemon or `mcx apply`, holds /var/lib/mcx/lock; only one may work on a node");
    // One that waits gets it as soon as the first is gone.
    let host = node.host();
    let waiting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Disk::open(host, Duration::from_secs(20))).is_ok()
    });
    drop(first);
    assert!(waiting.join().unwrap());
}

/// A newer daemon finishes an older one's transaction: the files of each released form are kept, and never edited.
#[test]
fn the_first_form_is_read_and_its_transaction_finished() {
    let Some(node) = Node::new() else { return };
    let disk = node.disk();
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/node-state/v1");
    for name in ["current.json", "journal.json", "failed.json"] {
        fs::copy(data.join(name), node.at("/var/lib/mcx").join(name)).unwrap();
    }
    let stored = disk.stored().unwrap();
    assert_eq!(stored.current, Some(named(&empty())));
    assert!(stored.failed.unwrap().disruptive);
    let mut journal = stored.journal.unwrap();
    assert!(journal.forced && journal.actions.len() == 2 && journal.actions[0].begun == 1);
    node.runtime.block_on(disk.forward(&mut journal)).unwrap();
    assert_eq!(node.read("/etc/x"), "x");
    assert_eq!(disk.stored().unwrap().current, Some(journal.to));
}
