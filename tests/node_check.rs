//! What makes an update impossible is found before anything is touched, and named with what to do.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use node_root::{Node, config, empty, file, items, owned_file};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A mount that goes with the test, whatever its end.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: PathBuf) -> Self {
        mount(Some("none"), &at, Some("tmpfs"), MsFlags::empty(), Some("size=1m")).unwrap();
        Self(at)
    }

    fn bind(from: &Path, at: PathBuf) -> Self {
        mount(Some(from), &at, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        Self(at)
    }

    fn read_only(self) -> Self {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(None::<&str>, &self.0, None::<&str>, flags, None::<&str>).unwrap();
        self
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn one(path: &str) -> Value {
    config(&[file(path, "x\n", 0o644)], &[], None)
}

fn unit(unit: Value) -> Value {
    config(&[], &[unit], None)
}

/// The obstacles of an update to `to`; the node must be as before, and the same update without the obstacle's cause is
/// possible (that is what `check` of a fresh node in other tests says).
fn obstacles(node: &Node, to: &Value) -> Vec<String> {
    let before = node.tree();
    let (drift, obstacles) = node.check(&empty(), to, false);
    assert_eq!(drift, Vec::<String>::new());
    assert_eq!(node.tree(), before, "check changed something");
    obstacles
}

#[test]
fn nothing_is_in_the_way_of_a_plain_update() {
    let Some(node) = Node::lasting() else { return };
    let to = config(
        &[file("/etc/a/b/c.conf", "x\n", 0o644), file("/etc/passwd.d", "x\n", 0o644)],
        &[json!({"name": "vendor.service", "enabled": true}), json!({"name": "gone.service", "enabled": false})],
        Some(&[1]),
    );
    node.link("nowhere", "/etc/passwd.d");
    assert_eq!(obstacles(&node, &to), Vec::<String>::new());
}

#[test]
fn r109_types_in_the_way_are_named() {
    let Some(node) = Node::lasting() else { return };
    node.write("/etc/full/x", "x", 0o644);
    fs::create_dir(node.at("/etc/empty")).unwrap();
    node.write("/etc/file", "x", 0o644);
    node.link("nowhere", "/etc/dangling");
    let _socket = std::os::unix::net::UnixListener::bind(node.at("/etc/socket")).unwrap();
    for (path, expected) in [
        ("/etc/full", "/etc/full is a directory that is not empty, where a file belongs; move it away"),
        ("/etc/empty", "/etc/empty is an empty directory, where a file belongs; move it away"),
        ("/etc/socket", "/etc/socket is a socket, where a file belongs; move it away"),
        ("/etc/file/x", "/etc/file/x cannot be made: /etc/file is not a directory; move it away"),
        ("/etc/file/y/x", "/etc/file/y/x cannot be made: /etc/file is not a directory; move it away"),
        (
            "/etc/dangling/x",
            "/etc/dangling/x cannot be made: /etc/dangling is a symlink that leads to no directory; move it away",
        ),
    ] {
        assert_eq!(obstacles(&node, &one(path)), [expected], "{path}");
    }
    // The force file may remove an empty directory, and no other.
    assert_eq!(node.check(&empty(), &one("/etc/empty"), true).1, Vec::<String>::new());
    assert_eq!(node.check(&empty(), &one("/etc/full"), true).1.len(), 1);
}

#[test]
fn r113_mounts_in_the_way_are_named() {
    let Some(node) = Node::lasting() else { return };
    for dir in ["/etc/ro", "/etc/tmp", "/etc/src"] {
        fs::create_dir(node.at(dir)).unwrap();
    }
    node.write("/etc/bound", "x", 0o644);
    node.write("/etc/src/file", "y", 0o644);
    let read_only = Mounted::bind(&node.at("/etc/src"), node.at("/etc/ro")).read_only();
    let tmpfs = Mounted::tmpfs(node.at("/etc/tmp"));
    let bound = Mounted::bind(&node.at("/etc/src/file"), node.at("/etc/bound"));
    for (path, mount, what) in [
        ("/etc/ro/x", &read_only, "is read-only; remount it writable"),
        ("/etc/tmp/a/x", &tmpfs, "is tmpfs; choose a path on a lasting file system"),
        ("/etc/bound", &bound, ""),
    ] {
        let found = obstacles(&node, &one(path));
        assert_eq!(found.len(), 1, "{path}: {found:?}");
        let point = mount.0.display().to_string();
        assert!(found[0].contains(path) && found[0].contains(&point) && found[0].contains(what), "{found:?}");
    }
}

#[test]
fn a_full_disk_is_named_before_the_drain() {
    let Some(node) = Node::lasting() else { return };
    fs::create_dir(node.at("/etc/small")).unwrap();
    let _tmpfs = Mounted::tmpfs(node.at("/etc/small"));
    let to = config(&[file("/etc/small/x", &"x".repeat(2 << 20), 0o644)], &[], None);
    let found = obstacles(&node, &to);
    assert!(
        found.iter().any(|text| text.starts_with("no space for /etc/small/x and others: 2052 KiB are needed")),
        "{found:?}"
    );
}

#[test]
fn r098_r146_users_that_do_not_exist_are_named() {
    let Some(node) = Node::lasting() else { return };
    let to = config(
        &[owned_file("/etc/x", "x", 0o644, json!({"name": "nobody-here"}), json!({"name": "chrony"}))],
        &[],
        Some(&[1]),
    );
    node.write("/etc/passwd", "root:x:0:0::/root:\n", 0o644);
    assert_eq!(
        obstacles(&node, &to),
        [
            "/etc/x belongs to user nobody-here, which does not exist on this node; create it, the update goes on by itself",
            "keys of boot have no place: user boot does not exist on this node; create it, the update goes on by itself",
        ]
    );
}

#[test]
fn r148_r156_units_that_cannot_be_enabled_are_named() {
    let Some(node) = Node::lasting() else { return };
    node.link("/dev/null", "/etc/systemd/system/vendor.service");
    node.write("/etc/systemd/system/blank.service", "", 0o644);
    node.vendor(
        "def@.service",
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nDefaultInstance=x\n",
    );
    let body = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    for (to, expected) in [
        (
            json!({"name": "none.service", "enabled": true}),
            "none.service cannot be enabled: it does not exist on this node; install it, or give it contents",
        ),
        (
            json!({"name": "none@x.service", "enabled": true}),
            "none@x.service cannot be enabled: it does not exist on this node; install it, or give it contents",
        ),
        (
            json!({"name": "vendor.service", "enabled": true}),
            "vendor.service cannot be enabled: it is masked on this node; unmask it, or set `mask: false`",
        ),
        (
            json!({"name": "blank.service", "enabled": true}),
            "blank.service cannot be enabled: it is masked on this node; unmask it, or set `mask: false`",
        ),
        (
            json!({"name": "inst@.service", "enabled": true}),
            "inst@.service cannot be enabled: it is a template without DefaultInstance; enable its instances by name",
        ),
    ] {
        assert_eq!(obstacles(&node, &unit(to.clone())), [expected], "{to}");
    }
    for fine in [
        json!({"name": "none.service", "enabled": false}),
        json!({"name": "none.service", "enabled": true, "contents": body}),
        json!({"name": "vendor.service", "enabled": true, "mask": false}),
        json!({"name": "vendor.service", "enabled": true, "contents": body}),
        json!({"name": "inst@x.service", "enabled": true}),
        json!({"name": "def@.service", "enabled": true}),
        json!({"name": "static.service", "enabled": true}),
        json!({"name": "none.service", "mask": true}),
    ] {
        let to = unit(fine.clone());
        assert_eq!(obstacles(&node, &to), Vec::<String>::new(), "{fine}");
        // And what is called possible is.
        node.copy().update(&empty(), &to);
    }
}

#[test]
fn a_unit_file_that_goes_with_the_update_is_not_counted_as_there() {
    let Some(node) = Node::lasting() else { return };
    let body = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let from = unit(json!({"name": "app.service", "enabled": true, "contents": body}));
    let to = unit(json!({"name": "app.service", "enabled": true}));
    node.update(&empty(), &from);
    let (_, obstacles) = node.check(&from, &to, false);
    assert_eq!(
        obstacles,
        ["app.service cannot be enabled: it does not exist on this node; install it, or give it contents"]
    );
}

#[test]
fn drift_is_what_is_neither_old_nor_new() {
    let Some(node) = Node::lasting() else { return };
    let from = config(
        &[file("/etc/a", "1\n", 0o644), file("/etc/b", "1\n", 0o644), file("/etc/c", "1\n", 0o644)],
        &[json!({"name": "vendor.service", "enabled": true})],
        None,
    );
    let to = config(
        &[file("/etc/a", "2\n", 0o644), file("/etc/b", "1\n", 0o644)],
        &[json!({"name": "vendor.service", "enabled": false})],
        None,
    );
    node.update(&empty(), &from);
    assert_eq!(node.check(&from, &to, false), (vec![], vec![]));
    // Somebody was quicker: new already.
    node.write("/etc/a", "2\n", 0o644);
    fs::remove_file(node.at("/etc/c")).unwrap();
    node.systemctl(&["disable", "vendor.service"]);
    assert_eq!(node.check(&from, &to, false), (vec![], vec![]));
    node.write("/etc/a", "3\n", 0o644);
    node.write("/etc/b", "2\n", 0o644);
    node.write("/etc/c", "2\n", 0o644);
    let (drift, obstacles) = node.check(&from, &to, false);
    assert_eq!(obstacles, Vec::<String>::new());
    assert_eq!(drift.len(), 3, "{drift:?}");
    assert_eq!(node.check(&from, &to, true), (vec![], vec![]));
}

#[test]
fn r251_keys_that_the_ssh_server_will_refuse_are_warned_about() {
    let Some(node) = Node::lasting() else { return };
    let to = config(&[], &[], Some(&[1]));
    let warnings = || {
        let disk = node.disk();
        node.runtime.block_on(disk.check(&items(&empty()), &items(&to), false)).unwrap().warnings
    };
    assert_eq!(warnings(), Vec::<String>::new());
    std::process::Command::new("chmod").arg("775").arg(node.at("/home/boot")).status().unwrap();
    let found = warnings();
    assert!(found.len() == 1 && found[0].contains("/home/boot is writable by others"), "{found:?}");
}
