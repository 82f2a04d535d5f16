//! Drift: every way in which a managed item can be wrong is found and named, and nothing else is.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use node_root::{Node, config, empty, file, owned_file};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

fn managed() -> Value {
    config(
        &[
            file("/etc/chrony.conf", "server a\nserver b\n", 0o644),
            owned_file("/etc/owned.conf", "x\n", 0o640, json!({"id": 0}), json!({"name": "chrony"})),
            file("/etc/binary", "\u{0}\u{1}", 0o600),
        ],
        &[
            json!({"name": "app.service", "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n", "enabled": true,
                   "dropins": [{"name": "10-x.conf", "contents": "[Service]\nNice=1\n"}]}),
            json!({"name": "chronyd.service", "enabled": false, "mask": true}),
            json!({"name": "vendor.service", "enabled": true}),
            json!({"name": "static.service", "enabled": true, "mask": false}),
        ],
        Some(&[1]),
    )
}

type Change = fn(&Node);

#[allow(clippy::too_many_lines, reason = "one table")]
#[test]
fn every_kind_of_drift_is_named_and_put_right_by_hand_it_is_gone() {
    let Some(node) = Node::new() else { return };
    node.update(&empty(), &managed());
    let cases: Vec<(Change, &[&str])> = vec![
        (|_| (), &[]),
        (
            |node| node.write("/etc/chrony.conf", "server a\nserver c\n", 0o644),
            &["/etc/chrony.conf has other contents (first difference in line 2)"],
        ),
        (
            |node| node.write("/etc/chrony.conf", "server a\nserver b", 0o644),
            &["/etc/chrony.conf has other contents (only in blanks or line ends at its end)"],
        ),
        (|node| node.write("/etc/binary", "\u{0}\u{2}", 0o600), &["/etc/binary has other contents"]),
        (
            |node| node.write("/etc/chrony.conf", "server a\nserver b\n", 0o600),
            &["/etc/chrony.conf has mode 0600, expected 0644"],
        ),
        (
            |node| node.write("/etc/chrony.conf", "server a\nserver b\n", 0o4644),
            &["/etc/chrony.conf has mode 4644, expected 0644"],
        ),
        (|node| node.own("/etc/owned.conf", 1000, 107), &["/etc/owned.conf has owner boot (1000), expected root (0)"]),
        (|node| node.own("/etc/owned.conf", 0, 0), &["/etc/owned.conf has group root (0), expected chrony (107)"]),
        (
            |node| {
                node.write("/etc/owned.conf", "y\n", 0o666);
                node.own("/etc/owned.conf", 77, 0);
            },
            &[
                "/etc/owned.conf has group root (0), expected chrony (107)",
                "/etc/owned.conf has mode 0666, expected 0640",
                "/etc/owned.conf has other contents (first difference in line 1)",
                "/etc/owned.conf has owner 77, expected root (0)",
            ],
        ),
        (|node| fs::remove_file(node.at("/etc/chrony.conf")).unwrap(), &["/etc/chrony.conf is missing"]),
        (
            // A link to the right bytes is drift all the same (R-094, G-03).
            |node| {
                fs::rename(node.at("/etc/chrony.conf"), node.at("/etc/elsewhere")).unwrap();
                symlink("elsewhere", node.at("/etc/chrony.conf")).unwrap();
            },
            &["/etc/chrony.conf is a symlink, expected a file"],
        ),
        (
            |node| {
                fs::remove_file(node.at("/etc/chrony.conf")).unwrap();
                fs::create_dir(node.at("/etc/chrony.conf")).unwrap();
            },
            &["/etc/chrony.conf is a directory, expected a file"],
        ),
        (
            // Reading it would wait for ever.
            |node| {
                fs::remove_file(node.at("/etc/chrony.conf")).unwrap();
                nix::unistd::mkfifo(&node.at("/etc/chrony.conf"), nix::sys::stat::Mode::from_bits_truncate(0o644))
                    .unwrap();
            },
            &["/etc/chrony.conf is a named pipe, expected a file"],
        ),
        (
            |node| node.write("/etc/systemd/system/app.service", "[Unit]\n", 0o644),
            &["app.service has other contents (first difference in line 1)"],
        ),
        (
            |node| node.write("/etc/systemd/system/app.service.d/10-x.conf", "[Service]\nNice=2\n", 0o644),
            &["app.service.d/10-x.conf has other contents (first difference in line 2)"],
        ),
        (
            |node| fs::remove_file(node.at("/etc/systemd/system/app.service.d/10-x.conf")).unwrap(),
            &["app.service.d/10-x.conf is missing"],
        ),
        // Beside a managed drop-in an unmanaged one is nobody's business.
        (|node| node.write("/etc/systemd/system/app.service.d/20-mine.conf", "[Service]\nNice=3\n", 0o600), &[]),
        (|node| node.write("/etc/unmanaged.conf", "x", 0o777), &[]),
        (|node| drop(node.systemctl(&["disable", "app.service"])), &["app.service is disabled, expected enabled"]),
        (
            |node| drop(node.systemctl(&["disable", "vendor.service"])),
            &["vendor.service is disabled, expected enabled"],
        ),
        (|node| drop(node.systemctl(&["mask", "vendor.service"])), &["vendor.service is masked, expected enabled"]),
        // G-02: a mask is seen without contents, and by the link on the disk.
        (
            |node| fs::remove_file(node.at("/etc/systemd/system/chronyd.service")).unwrap(),
            &["chronyd.service is not masked, expected masked"],
        ),
        (
            |node| {
                fs::remove_file(node.at("/etc/systemd/system/chronyd.service")).unwrap();
                node.systemctl(&["enable", "chronyd.service"]);
            },
            &["chronyd.service is enabled, expected disabled", "chronyd.service is not masked, expected masked"],
        ),
        (
            |node| node.link("/dev/null", "/etc/systemd/system/static.service"),
            &["static.service is masked, expected enabled", "static.service is masked, expected not masked"],
        ),
        (|node| node.link("/dev/null", "/etc/systemd/system/app2.service"), &[]),
        (
            |node| node.write("/home/boot/.ssh/authorized_keys", "", 0o600),
            &["keys of boot has other contents (first difference in line 1)"],
        ),
        (
            |node| node.own("/home/boot/.ssh/authorized_keys", 0, 1000),
            &["keys of boot has owner root (0), expected boot (1000)"],
        ),
        (
            |node| node.write("/etc/passwd", "root:x:0:0::/:\n", 0o644),
            &[
                "keys of boot have no place: user boot does not exist on this node; create it, the update goes on by itself",
            ],
        ),
    ];
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        let drifted = node.copy();
        change(&drifted);
        assert_eq!(drifted.deviations(&drifted.disk(), &managed()), expected, "case {number}");
    }
    assert_eq!(node.deviations(&node.disk(), &managed()), Vec::<String>::new());
}

#[test]
fn many_files_are_compared_as_few_are() {
    let Some(node) = Node::new() else { return };
    let files: Vec<Value> = (0..300).map(|n| file(&format!("/etc/many/{n}"), &format!("{n}\n"), 0o644)).collect();
    let all = config(&files, &[], None);
    node.update(&empty(), &all);
    for n in [0, 77, 299] {
        fs::set_permissions(node.at(&format!("/etc/many/{n}")), fs::Permissions::from_mode(0o640)).unwrap();
    }
    assert_eq!(
        node.deviations(&node.disk(), &all),
        [0, 299, 77].map(|n| format!("/etc/many/{n} has mode 0640, expected 0644"))
    );
}

#[test]
fn a_systemctl_that_cannot_run_is_an_error_and_not_a_missing_unit() {
    let Some(node) = Node::new() else { return };
    let wants = config(&[], &[json!({"name": "vendor.service", "enabled": true})], None);
    node.update(&empty(), &wants);
    // As if a service manager ran in this root, which has no systemctl.
    fs::create_dir_all(node.at("/run/systemd/system")).unwrap();
    let disk = node.disk();
    let error = node.runtime.block_on(disk.compare(&node_root::items(&wants))).unwrap_err().to_string();
    assert!(error.starts_with("`systemctl is-enabled vendor.service` failed: exit status 127: "), "{error}");
}
