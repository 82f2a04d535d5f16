//! Behaviour: SSH keys of `boot`: the guide's object lets its owner log in; no other user is ever touched.

mod harness;

use harness::{Login, ROLLOUT, STEP, WORKERS, data, key_pair, rig, source};
use serde_json::json;
use std::time::Duration;

const KEYS: &str = "/home/boot/.ssh/authorized_keys";

fn keys(name: &str, user: &str, keys: &[&str]) -> serde_json::Value {
    source(name, "worker", &json!({"passwd": {"users": [{"name": user, "sshAuthorizedKeys": keys}]}}))
}

#[test]
#[ignore = "needs the rig: make test"]
fn the_guides_key_logs_in_and_two_sources_are_united() {
    let rig = rig();
    let (guide, guide_key) = key_pair("rsa", "guide");
    let (second, second_key) = key_pair("ed25519", "second");
    let (stranger, _) = key_pair("ed25519", "stranger");
    let node = rig.node("w1");
    assert!(matches!(node.login("boot", &guide.path().join("key")), Login::Refused(_)), "it must not work before");
    let boot_id = node.boot_id();

    let text = data("guide/ssh.yaml");
    let key = guide_key.strip_prefix("ssh-rsa ").expect("an RSA key");
    let target = rig.roll_out(&[text.replace("<ssh-public-key>", key)]);
    for name in WORKERS {
        let node = rig.node(name);
        assert_eq!(node.login("boot", &guide.path().join("key")), Login::As("boot".to_owned()), "{name}");
        assert!(matches!(node.login("boot", &stranger.path().join("key")), Login::Refused(_)), "{name}");
        assert_eq!(node.stat(KEYS), "600 boot:boot regular file", "{name}");
        assert_eq!(node.stat("/home/boot/.ssh"), "700 boot:boot directory", "{name}");
    }
    assert_eq!(node.boot_id(), boot_id, "keys cost nothing");

    // A second source for `boot`, with one new key and the first again: the union, each once.
    rig.roll_out(&[keys("98-more-keys", "boot", &[&second_key, &guide_key])]);
    for name in WORKERS {
        let node = rig.node(name);
        for pair in [&guide, &second] {
            assert_eq!(node.login("boot", &pair.path().join("key")), Login::As("boot".to_owned()), "{name}");
        }
        let lines = node.text(KEYS);
        assert_eq!(lines.lines().filter(|l| l.starts_with("ssh-")).count(), 2, "{name}: {lines}");
    }

    rig.delete_source("98-more-keys");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
    assert!(matches!(node.login("boot", &second.path().join("key")), Login::Refused(_)), "a key that was taken away");
    assert_eq!(node.login("boot", &guide.path().join("key")), Login::As("boot".to_owned()));
}

#[test]
#[ignore = "needs the rig: make test"]
fn another_user_is_refused_before_any_node_sees_it() {
    let rig = rig();
    let (_pair, key) = key_pair("ed25519", "core");
    let before = rig.target("worker");
    rig.apply_source(&keys("90-core", "core", &[&key]));
    let message = rig.eventually(STEP, "the pool says why it refuses", || {
        let (status, reason, message) = rig.condition("worker", "RenderDegraded");
        if status == "True" { Ok(message) } else { Err(format!("{status} {reason}")) }
    });
    for word in ["90-core", "passwd.users[0]", "core", "boot"] {
        assert!(message.contains(word), "the message does not name {word}: {message}");
    }
    assert!(!message.contains(key.split(' ').nth(1).unwrap()), "a key in a message: {message}");
    assert_eq!(rig.condition("worker", "Updated").0, "False");
    rig.always(Duration::from_secs(3), "no node sees it", || {
        let moved = WORKERS.iter().map(|n| rig.view(n)).find(|v| v.desired != before || v.state != "Done");
        moved.map_or(Ok(()), |v| Err(v.line()))
    });
    rig.delete_source("90-core");
    rig.all_done(STEP, "worker", &WORKERS, &before);
    assert_eq!(rig.condition("worker", "RenderDegraded").0, "False");
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_node_without_boot_refuses_with_nothing_half_applied_and_goes_on_once_the_user_exists() {
    let rig = rig();
    let node = rig.join("w4", Some("NOBOOT=1"));
    assert!(!node.succeeds("id boot"));
    node.done(STEP);
    let (pair, key) = key_pair("ed25519", "late");
    let before = rig.target("worker");
    let mut body = harness::file("/etc/mcx-test/with-keys", 0o644, "both or neither\n");
    body["passwd"] = json!({"users": [{"name": "boot", "sshAuthorizedKeys": [key]}]});
    rig.apply_source(&source("90-keys-and-file", "worker", &body));
    let target = rig.new_target("worker", &before);
    let reason = node.degraded(ROLLOUT);
    assert!(reason.contains("boot") && !reason.starts_with("Drift:"), "{reason}");
    assert!(!node.exists("/etc/mcx-test/with-keys"), "half applied");
    // The others have it: they are older and come first.
    for name in WORKERS {
        assert_eq!(rig.lacks(name, &target), None);
    }
    node.sh("useradd -m -s /bin/bash boot");
    rig.all_done(ROLLOUT, "worker", &["w1", "w2", "w3", "w4"], &target);
    assert_eq!(node.text("/etc/mcx-test/with-keys"), "both or neither\n");
    assert_eq!(node.login("boot", &pair.path().join("key")), Login::As("boot".to_owned()));
}
