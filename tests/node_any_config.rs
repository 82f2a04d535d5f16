//! Whatever configs come in whatever order, killed or not: what is applied compares clean, and what is withdrawn is as it
//! was before mcx.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use mcx::node::journal::Stage;
use node_root::{Node, assert_same, config, empty, file, named, owned_file};
use proptest::prelude::*;
use serde_json::{Value, json};

const PATHS: [&str; 7] = [
    "/etc/was/file",
    "/etc/was/link",
    "/etc/was/pipe",
    "/etc/was-not/a/b",
    "/etc/was-not/c",
    "/opt/deep/er/x",
    "/etc/systemd/system.conf.d/x.conf",
];
const UNITS: [&str; 6] =
    ["chronyd.service", "vendor.service", "local.service", "app.service", "inst@a.service", "static.service"];
const BODIES: [&str; 5] = [
    "[Service]\nExecStart=/bin/true\n",
    "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
    "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=other.target\nRequiredBy=third.target\n",
    "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nAlso=vendor.service\n",
    "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nAlso=chronyd.service loose.service\n",
];

/// One thing that happens to the node.
#[derive(Debug, Clone)]
enum Life {
    Update(Value),
    /// Killed before a step, then carried on by the next daemon.
    KilledThenOn(Value, usize),
    /// The same, then undone.
    KilledThenBack(Value, usize),
}

fn bare() -> Option<Node> {
    let node = Node::new()?;
    node.write("/etc/was/file", "was\n", 0o4751);
    node.own("/etc/was/file", 1000, 107);
    node.link("/etc/hosts", "/etc/was/link");
    nix::unistd::mkfifo(&node.at("/etc/was/pipe"), nix::sys::stat::Mode::from_bits_truncate(0o620)).unwrap();
    node.write("/home/boot/.ssh/authorized_keys", "mine\n", 0o600);
    node.vendor("loose.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n");
    node.write("/etc/systemd/system/local.service", BODIES[1], 0o640);
    node.systemctl(&["enable", "local.service"]);
    node.systemctl(&["mask", "vendor.service"]);
    Some(node)
}

fn any_file() -> impl Strategy<Value = Value> {
    let modes = prop::sample::select(vec![0o644, 0o600, 0o4755]);
    (0..PATHS.len(), 0..3, modes, any::<bool>()).prop_map(|(path, text, mode, owned)| {
        let text = ["", "one\n", "two"][usize::try_from(text).unwrap()];
        if owned {
            owned_file(PATHS[path], text, mode, json!({"name": "boot"}), json!({"id": 107}))
        } else {
            file(PATHS[path], text, mode)
        }
    })
}

fn any_unit() -> impl Strategy<Value = Value> {
    let flag = || prop::option::of(any::<bool>());
    let body = prop::option::of(prop::sample::select(BODIES.to_vec()));
    (0..UNITS.len(), body, flag(), flag(), flag()).prop_map(|(name, body, enabled, mask, dropin)| {
        let mut unit = json!({"name": UNITS[name]});
        if let Some(body) = body {
            unit["contents"] = json!(body);
        }
        // Enabled and masked at once is refused.
        if let Some(enabled) = enabled.filter(|enabled| !(*enabled && mask == Some(true))) {
            unit["enabled"] = json!(enabled);
        }
        if let Some(mask) = mask {
            unit["mask"] = json!(mask);
        }
        if let Some(nice) = dropin {
            unit["dropins"] =
                json!([{"name": "10-x.conf", "contents": format!("[Service]\nNice={}\n", u8::from(nice))}]);
        }
        unit
    })
}

fn any_config() -> impl Strategy<Value = Value> {
    let files = prop::collection::vec(any_file(), 0..5);
    let units = prop::collection::vec(any_unit(), 0..4);
    let keys = prop::option::of(prop::collection::vec(1..4_u8, 0..3));
    (files, units, keys).prop_map(|(mut files, mut units, keys)| {
        files.sort_by_key(|file| file["path"].to_string());
        files.dedup_by_key(|file| file["path"].to_string());
        units.sort_by_key(|unit| unit["name"].to_string());
        units.dedup_by_key(|unit| unit["name"].to_string());
        let keys = keys.map(|mut keys| {
            keys.sort_unstable();
            keys.dedup();
            keys
        });
        config(&files, &units, keys.as_deref())
    })
}

fn any_life() -> impl Strategy<Value = Life> {
    (any_config(), 0..60_usize, 0..3).prop_map(|(config, step, kind)| match kind {
        0 => Life::Update(config),
        1 => Life::KilledThenOn(config, step),
        _ => Life::KilledThenBack(config, step),
    })
}

fn live(node: &Node, at: Value, life: &Life) -> Value {
    let to = match life {
        Life::Update(to) | Life::KilledThenOn(to, _) | Life::KilledThenBack(to, _) => to.clone(),
    };
    let (drift, obstacles) = node.check(&at, &to, false);
    assert_eq!(drift, Vec::<String>::new(), "drift without anybody's doing");
    // What lies in memory is volatile for the check, and meant to be.
    if obstacles.iter().any(|text| !text.contains("would be gone at the next boot")) {
        return at;
    }
    match life {
        Life::Update(_) => {
            node.update(&at, &to);
            to
        }
        Life::KilledThenOn(_, step) | Life::KilledThenBack(_, step) => {
            let before = node.tree();
            let mut journal = Node::open(&node.disk(), &at, &to);
            node.until(&mut journal, false, *step);
            let disk = node.disk();
            let mut journal = disk.stored().unwrap().journal.unwrap();
            let on = matches!(life, Life::KilledThenOn(..));
            if on {
                node.runtime.block_on(disk.forward(&mut journal)).unwrap();
                assert_eq!(journal.stage, Stage::Written);
            } else {
                node.runtime.block_on(disk.back(&mut journal)).unwrap();
                assert_eq!(journal.stage, Stage::Undone);
            }
            disk.close().unwrap();
            let now = if on { to } else { at };
            assert_eq!(node.deviations(&disk, &now), Vec::<String>::new(), "after {life:?}");
            if !on {
                assert_same(&node.tree(), &before, "undone");
            }
            now
        }
    }
}

/// Few by default, since each starts dozens of `systemctl`; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_applied_compares_clean_and_what_is_withdrawn_is_as_before(lives in prop::collection::vec(any_life(), 1..5)) {
        let Some(node) = bare() else { return Ok(()) };
        let before = node.tree();
        let mut at = empty();
        for life in &lives {
            at = live(&node, at, life);
        }
        if at != empty() {
            node.update(&at, &empty());
        }
        let stored = node.disk().stored().unwrap().current;
        prop_assert!(stored.is_none() || stored == Some(named(&empty())));
        assert_same(&node.tree(), &before, "withdrawn");
    }
}
