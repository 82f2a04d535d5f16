//! Odd and hostile things on the node: a user who owns a folder on the way leads no write elsewhere, and what is
//! legitimate, such as `/home -> /var/home`, works. What he does all the while is in `node_races`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use node_root::{BOOT, Node, config, empty, file};
use serde_json::Value;
use std::fs;

fn keys() -> Value {
    config(&[], &[], Some(&[1]))
}

#[test]
fn a_link_that_root_made_is_followed_inside_the_root() {
    let Some(node) = Node::lasting() else { return };
    let real = node.at("/var/home");
    fs::rename(node.at("/home"), &real).unwrap();
    // An absolute target means the node's root, not ours.
    node.link("/var/home", "/home");
    node.link("../../../../../../../var/lib/deep", "/etc/up");
    fs::create_dir_all(node.at("/var/lib/deep")).unwrap();
    let to = config(&[file("/etc/up/x/y.conf", "y\n", 0o644)], &[], Some(&[1]));
    assert_eq!(node.check(&empty(), &to, false), (vec![], vec![]));
    node.update(&empty(), &to);
    assert!(node.read("/var/home/boot/.ssh/authorized_keys").starts_with("ssh-ed25519 "));
    assert_eq!(node.read("/var/lib/deep/x/y.conf"), "y\n");
    node.update(&to, &empty());
    assert!(!node.at("/var/home/boot/.ssh").exists() && !node.at("/var/lib/deep/x").exists());
}

#[test]
fn links_in_a_folder_of_the_user_s_are_refused_before_anything_is_touched() {
    let Some(node) = Node::lasting() else { return };
    fs::create_dir(node.at("/etc/secret")).unwrap();
    node.link("/etc/secret", "/home/boot/.ssh");
    node.own("/home/boot/.ssh", BOOT, BOOT);
    let before = node.tree();
    let (_, obstacles) = node.check(&empty(), &keys(), false);
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    assert!(obstacles[0].starts_with("/home/boot/.ssh/authorized_keys is behind a symlink"), "{obstacles:?}");
    // And if it is put there after the check.
    let disk = node.disk();
    let mut journal = Node::open(&disk, &empty(), &keys());
    node.runtime.block_on(disk.forward(&mut journal)).unwrap_err();
    assert_eq!(node.tree(), before);
}

#[test]
fn a_link_in_the_key_file_s_place_is_replaced_and_given_back() {
    let Some(node) = Node::lasting() else { return };
    node.write("/etc/shadow", "root:*\n", 0o600);
    fs::create_dir(node.at("/home/boot/.ssh")).unwrap();
    node.own("/home/boot/.ssh", BOOT, BOOT);
    node.link("/etc/shadow", "/home/boot/.ssh/authorized_keys");
    node.own("/home/boot/.ssh/authorized_keys", BOOT, BOOT);
    let before = node.tree();
    node.update(&empty(), &keys());
    assert_eq!(node.read("/etc/shadow"), "root:*\n");
    assert!(fs::symlink_metadata(node.at("/home/boot/.ssh/authorized_keys")).unwrap().is_file());
    node.update(&keys(), &empty());
    assert_eq!(node.tree(), before);
}

#[test]
fn a_hard_link_s_other_name_is_not_written() {
    let Some(node) = Node::lasting() else { return };
    node.write("/etc/unmanaged", "theirs\n", 0o600);
    fs::hard_link(node.at("/etc/unmanaged"), node.at("/etc/managed")).unwrap();
    node.update(&empty(), &config(&[file("/etc/managed", "ours\n", 0o644)], &[], None));
    assert_eq!(node.read("/etc/unmanaged"), "theirs\n");
    let tree = node.tree();
    assert_eq!(tree["/etc/unmanaged"].1, 0o600);
}

/// A folder of the user's under the very name that mcx would use keeps his keys away, and nothing else.
#[test]
fn what_a_user_puts_in_the_way_of_his_keys_holds_up_no_other_update() {
    let Some(node) = Node::lasting() else { return };
    // The name is known from what is staged there.
    let probe = node.copy();
    let mut journal = Node::open(&probe.disk(), &empty(), &keys());
    let steps = probe.until(&mut journal, false, usize::MAX);
    let at = steps.iter().position(|step| step.to_string() == "begin to switch").unwrap();
    let probe = node.copy();
    let mut journal = Node::open(&probe.disk(), &empty(), &keys());
    probe.until(&mut journal, false, at);
    let staged = probe.tree().into_keys().find(|path| path.starts_with("/home/boot/.ssh/.mcx-")).unwrap();

    node.write(&format!("{staged}/his/own"), "x\n", 0o644);
    for path in ["/home/boot/.ssh", &staged] {
        node.own(path, BOOT, BOOT);
    }
    let before = node.tree();
    let disk = node.disk();
    let mut journal = Node::open(&disk, &empty(), &keys());
    let error = node.runtime.block_on(disk.forward(&mut journal)).unwrap_err();
    assert_eq!(error.to_string(), "cannot write /home/boot/.ssh/authorized_keys");
    node.runtime.block_on(disk.back(&mut journal)).unwrap();
    disk.close().unwrap();
    drop(disk);
    assert_eq!(node.tree(), before);
    let other = config(&[file("/etc/x", "x\n", 0o644)], &[], None);
    node.update(&empty(), &other);
    node.update(&other, &empty());
    assert_eq!(node.tree(), before);
}
