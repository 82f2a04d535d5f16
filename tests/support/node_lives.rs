//! Two configs with an item of every kind, and a node that had something of every kind in their places: what the sweeps
//! update from, to, and withdraw.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::node_root::{Entry, Node, Tree, config, empty, file, owned_file, shown};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const APP: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
const TWICE: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nRequiredBy=other.target\nAlias=twice-alias.service\n";
const APP_MOVED: &str = "[Service]\nExecStart=/bin/false\n[Install]\nWantedBy=other.target\nAlias=app-alias.service\n";

/// Things of every kind that were there before mcx.
pub(crate) fn before(node: &Node) {
    node.write("/etc/a.conf", "original a\n", 0o640);
    node.own("/etc/a.conf", 1000, 107);
    node.link("../nowhere/b", "/etc/b.conf");
    node.write("/etc/mode.conf", "only its mode and owner\n", 0o644);
    node.write("/etc/setuid", "#!/bin/true\n", 0o4755);
    nix::unistd::mkfifo(&node.at("/etc/pipe"), nix::sys::stat::Mode::from_bits_truncate(0o620)).unwrap();
    node.write("/home/boot/.ssh/authorized_keys", "ssh-ed25519 AAAA mine\n", 0o640);
    node.own("/home/boot/.ssh", 1000, 1000);
    node.own("/home/boot/.ssh/authorized_keys", 1000, 1000);
    node.write("/etc/systemd/system/local.service", "[Service]\nExecStart=/bin/true\n", 0o600);
    node.link("/dev/null", "/etc/systemd/system/vendor.service");
}

pub(crate) fn old() -> Value {
    config(
        &[
            file("/etc/a.conf", "a of old\n", 0o644),
            owned_file("/etc/new/dir/c.conf", "c\n", 0o600, json!({"id": 1000}), json!({"name": "chrony"})),
            file("/etc/gone.conf", "gone\n", 0o644),
            file("/etc/mode.conf", "only its mode and owner\n", 0o600),
            file("/etc/same.conf", "same\n", 0o644),
        ],
        &[
            json!({"name": "app.service", "contents": APP, "enabled": true, "dropins": [{"name": "10-x.conf", "contents": "[Service]\nNice=1\n"}]}),
            json!({"name": "chronyd.service", "enabled": false, "mask": true}),
            json!({"name": "local.service", "contents": "[Service]\nExecStart=/bin/false\n"}),
            json!({"name": "twice.service", "contents": TWICE, "enabled": true}),
        ],
        Some(&[1]),
    )
}

pub(crate) fn new() -> Value {
    config(
        &[
            file("/etc/a.conf", "a of new\n", 0o600),
            file("/etc/b.conf", "b\n", 0o644),
            file("/etc/setuid", "#!/bin/false\n", 0o4755),
            file("/etc/pipe", "a file\n", 0o644),
            file("/etc/cron.d/job", "# none\n", 0o644),
            owned_file(
                "/etc/mode.conf",
                "only its mode and owner\n",
                0o640,
                json!({"id": 1000}),
                json!({"name": "chrony"}),
            ),
            file("/etc/same.conf", "same\n", 0o644),
        ],
        &[
            json!({"name": "app.service", "contents": APP_MOVED, "enabled": true}),
            json!({"name": "vendor.service", "enabled": true, "mask": false}),
            json!({"name": "late.service", "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nAlso=vendor.service\n", "enabled": true}),
        ],
        Some(&[1, 2]),
    )
}

/// The trees of all lives of a node.
pub(crate) struct Lives {
    pub(crate) bare: Tree,
    pub(crate) old: Tree,
    pub(crate) new: Tree,
}

pub(crate) fn at_old() -> Option<Node> {
    let node = Node::new()?;
    before(&node);
    node.update(&empty(), &old());
    Some(node)
}

pub(crate) fn lives() -> Option<Lives> {
    let node = Node::new()?;
    before(&node);
    let bare = node.tree();
    node.update(&empty(), &old());
    let at_old = node.tree();
    node.update(&old(), &new());
    Some(Lives { bare, old: at_old, new: node.tree() })
}

/// What is of none of these lives: each path must be wholly as in one of them, absent where it is absent in one. Staged
/// files beside them are not yet anybody's, and the links by which `systemctl` enables a unit are made anew in between.
pub(crate) fn torn(found: &Tree, lives: &[&Tree]) -> Vec<String> {
    let paths: BTreeSet<&String> = lives.iter().flat_map(|life| life.keys()).chain(found.keys()).collect();
    let is_whole = |path: &String| {
        let entry = found.get(path);
        lives.iter().any(|life| life.get(path) == entry) || (entry.is_none() && enables(path, lives))
    };
    let torn = paths.into_iter().filter(|path| !is_whole(path) && !is_staged(path));
    torn.map(|path| format!("{path}: {}", shown(found.get(path)))).collect()
}

/// Whether a path is a name of mcx's beside a target.
pub(crate) fn is_staged(path: &str) -> bool {
    path.contains("/.mcx-")
}

/// Whether a path is a link that enables a unit, or a folder of such.
fn enables(path: &str, lives: &[&Tree]) -> bool {
    let is_link = |entry: &Entry| entry.0 == 'l' && entry.4 != b"/dev/null";
    let ends = [".wants", ".requires"];
    path.starts_with("/etc/systemd/system/")
        && (ends.iter().any(|end| path.ends_with(end)) || lives.iter().filter_map(|life| life.get(path)).all(is_link))
}

pub(crate) fn assert_each_whole(found: &Tree, lives: &Lives, when: &str) {
    let torn = torn(found, &[&lives.bare, &lives.old, &lives.new]);
    assert!(torn.is_empty(), "{when}: torn: {torn:?}");
}
