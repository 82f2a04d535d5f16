//! Odd and hostile things on the node: a user who owns a folder on the way leads no write elsewhere, and what is
//! legitimate, such as `/home -> /var/home`, works.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use node_root::{BOOT, Node, Tree, config, empty, file, items, named};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn keys() -> Value {
    config(&[], &[], Some(&[1]))
}

fn below(tree: Tree, top: &str) -> Tree {
    tree.into_iter().filter(|(path, _)| path.starts_with(top)).collect()
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

/// A process of the user's swaps `.ssh` between a folder and a link to `/etc/secret` as fast as it can, while the daemon
/// writes and withdraws the keys. Whatever happens to the keys, nothing may ever appear in, or change below, `/etc`.
#[test]
fn a_race_for_ssh_leads_no_write_elsewhere() {
    let Some(node) = Node::new() else { return };
    node.write("/etc/secret/authorized_keys", "secret\n", 0o600);
    node.write("/etc/secret/x", "x\n", 0o600);
    let before = below(node.tree(), "/etc");
    let (home, secret) = (node.at("/home/boot"), node.at("/etc/secret"));
    let stop = AtomicBool::new(false);
    let mut written = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (ssh, aside) = (home.join(".ssh"), home.join("aside"));
            while !stop.load(Ordering::Relaxed) {
                // All of it as the user would: whatever fails, the next turn tries again.
                let _ = fs::rename(&ssh, &aside);
                let _ = symlink(&secret, &ssh);
                let _ = lchown(&ssh, Some(BOOT), Some(BOOT));
                let _ = fs::remove_file(&ssh);
                let _ = fs::rename(&aside, &ssh);
                let _ = fs::remove_dir_all(&aside);
            }
        });
        let disk = node.disk();
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            for (from, to) in [(empty(), keys()), (keys(), empty())] {
                let mut journal = Node::open(&disk, &from, &to);
                if node.runtime.block_on(disk.forward(&mut journal)).is_ok() {
                    written += 1;
                }
                let _ = node.runtime.block_on(disk.compare(&items(&keys())));
                let _ = node.runtime.block_on(disk.back(&mut journal));
                let _ = disk.close();
                disk.adopt(&named(&empty())).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(written > 0, "the race was never lost by the user: nothing was tried");
    assert_eq!(below(node.tree(), "/etc"), before);
}
