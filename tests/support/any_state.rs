//! Random states of a cluster: a policy and a set of sources for the workers. One number gives one state.
//!
//! What is here can be carried out on a node of the rig: units that are changed have bodies or are there already, and
//! policies name services that can do what is asked of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Services that the test sets up by hand on every node: they can be reloaded, and always have a unit file.
pub(crate) const LOCAL: [&str; 2] = ["agree-a.service", "agree-b.service"];
/// Services that sources bring; they can be reloaded, too.
pub(crate) const BROUGHT: [&str; 2] = ["agree-x.service", "agree-y.service"];
/// A vendor's service, which cannot be reloaded; sources mask it.
pub(crate) const VENDOR: &str = "chronyd.service";

/// The body of a service that runs, and can be reloaded.
pub(crate) fn body(description: &str) -> String {
    format!(
        "[Unit]\nDescription={description}\n[Service]\nType=exec\nExecStart=/bin/sleep infinity\nExecReload=/bin/true\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

/// What is applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnyState {
    /// `spec` of `cluster`.
    pub(crate) policy: Value,
    /// The Ignition bodies by name of source.
    pub(crate) sources: BTreeMap<String, Value>,
}

impl AnyState {
    /// The state of this number.
    pub(crate) fn of(number: u64) -> Self {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        state().new_tree(&mut runner).expect("a state").current()
    }
}

fn state() -> impl Strategy<Value = AnyState> {
    let names = prop::sample::subsequence(vec!["10-base", "50-a", "50-b", "90-c", "100-d"], 1..=3);
    (policy(), names, prop::collection::vec(source(), 3)).prop_map(|(policy, names, bodies)| AnyState {
        policy,
        sources: names.into_iter().map(str::to_owned).zip(bodies).collect(),
    })
}

/// Actions that need a unit are few beside the others, those that take a node away are rare.
fn actions() -> impl Strategy<Value = Value> {
    let service = prop::sample::select([&LOCAL[..], &BROUGHT[..]].concat());
    let action = prop_oneof![
        12 => Just(json!({"type": "DaemonReload"})),
        24 => service.clone().prop_map(|name| json!({"type": "Reload", "reload": {"serviceName": name}})),
        24 => service.prop_map(|name| json!({"type": "Restart", "restart": {"serviceName": name}})),
        8 => Just(json!({"type": "Restart", "restart": {"serviceName": VENDOR}})),
        1 => Just(json!({"type": "Drain"})),
    ];
    let several = prop::collection::vec(action, 1..4).prop_map(|mut list| {
        let mut seen = Vec::new();
        list.retain(|action| {
            !seen.contains(action) && {
                seen.push(action.clone());
                true
            }
        });
        Value::from(list)
    });
    prop_oneof![
        110 => Just(json!([{"type": "None"}])),
        88 => several,
        1 => Just(json!([{"type": "Reboot"}])),
    ]
}

fn policy() -> impl Strategy<Value = Value> {
    let paths = vec!["/", "/etc/agree", "/etc/agree/a", "/etc/agree/c", "/opt/agree", "/etc/systemd/system"];
    let units = [&LOCAL[..], &BROUGHT[..], &[VENDOR]].concat();
    let lists = |n: usize| prop::collection::vec(actions(), n);
    let files = (prop::sample::subsequence(paths, 0..=4).prop_shuffle(), lists(4));
    let units = (prop::sample::subsequence(units, 0..=4).prop_shuffle(), lists(4));
    // Without a default units cost a reboot.
    let default = prop::option::weighted(0.99, (actions(), actions()));
    (files, units, prop::option::of(actions()), default).prop_map(|((paths, files), (names, units), keys, default)| {
        let entries = |key: &str, names: Vec<&str>, lists: Vec<Value>| -> Vec<Value> {
            names.iter().zip(lists).map(|(name, actions)| json!({key: name, "actions": actions})).collect()
        };
        let mut policy = json!({"files": entries("path", paths, files), "units": entries("name", names, units)});
        if let Some(keys) = keys {
            policy["sshkey"] = json!({"actions": keys});
        }
        let mut spec = json!({"nodeDisruptionPolicy": policy});
        if let Some((files, units)) = default {
            spec["defaultNodeDisruptionPolicySpecAction"] = json!({"files": files, "units": units});
        }
        spec
    })
}

fn source() -> impl Strategy<Value = Value> {
    let keys = prop::collection::btree_set(1..5_u8, 0..3);
    // Any unit costs a daemon-reload at least: half of the sources have none.
    let units = prop_oneof![3 => Just(0_usize), 2 => Just(1), 1 => Just(2)];
    let units = units.prop_flat_map(|count| prop::collection::vec(unit(), count));
    (prop::collection::vec(file(), 0..4), units, prop::option::weighted(0.3, keys)).prop_map(|(files, units, keys)| {
        let mut body = Map::new();
        if !files.is_empty() {
            body.insert("storage".to_owned(), json!({"files": once_each("path", files)}));
        }
        if !units.is_empty() {
            body.insert("systemd".to_owned(), json!({"units": once_each("name", units)}));
        }
        if let Some(keys) = keys {
            let keys: Vec<String> = keys.into_iter().map(key).collect();
            body.insert("passwd".to_owned(), json!({"users": [{"name": "boot", "sshAuthorizedKeys": keys}]}));
        }
        Value::Object(body)
    })
}

/// The same item twice in one source is refused.
fn once_each(key: &str, items: Vec<Value>) -> Vec<Value> {
    let all: BTreeMap<String, Value> = items.into_iter().map(|item| (item[key].to_string(), item)).collect();
    all.into_values().collect()
}

/// The same few bytes in different clothes: what is encoded anew is no change.
fn file() -> impl Strategy<Value = Value> {
    let paths = vec![
        "/etc/agree/a",
        "/etc/agree/b",
        "/etc/agree/c/d",
        "/etc/agree/c/e",
        "/etc/agree-not/a",
        "/opt/agree/f",
        "/etc/systemd/system/agree-b.service.d/90-file.conf",
    ];
    let mode = prop::sample::select(vec![0o644, 0o600]);
    (prop::sample::select(paths), 0..3_u8, any::<bool>(), mode).prop_map(|(path, text, base64, mode)| {
        let text = format!("# {text}\n");
        let source = if base64 {
            format!("data:;base64,{}", STANDARD.encode(text))
        } else {
            format!("data:,{}", percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC))
        };
        json!({"path": path, "mode": mode, "contents": {"source": source}})
    })
}

fn unit() -> impl Strategy<Value = Value> {
    let dropins = || {
        prop::option::of(0..3_u8).prop_map(|nice| {
            let text = |nice: u8| format!("[Service]\nNice={nice}\n");
            nice.map(|nice| json!([{"name": "10-nice.conf", "contents": text(nice)}]))
        })
    };
    let enabled = || prop::option::of(any::<bool>());
    let put = |mut unit: Value, enabled: Option<bool>, dropins: Option<Value>| {
        if let Some(enabled) = enabled {
            unit["enabled"] = json!(enabled);
        }
        if let Some(dropins) = dropins {
            unit["dropins"] = dropins;
        }
        unit
    };
    let local = (prop::sample::select(LOCAL.to_vec()), enabled(), dropins())
        .prop_map(move |(name, enabled, dropins)| put(json!({"name": name}), enabled, dropins));
    let brought = (prop::sample::select(BROUGHT.to_vec()), 0..3_u8, enabled(), dropins()).prop_map(
        move |(name, text, enabled, dropins)| {
            put(json!({"name": name, "contents": body(&format!("number {text}"))}), enabled, dropins)
        },
    );
    let vendor = (prop::option::of(any::<bool>()), dropins()).prop_map(move |(mask, dropins)| {
        let mut unit = put(json!({"name": VENDOR}), None, dropins);
        if let Some(mask) = mask {
            unit["mask"] = json!(mask);
        }
        unit
    });
    prop_oneof![2 => local, 4 => brought, 1 => vendor]
}

/// A well-formed public key that nobody has the private one of.
fn key(number: u8) -> String {
    let mut blob = Vec::new();
    for field in [&b"ssh-ed25519"[..], &[number; 32]] {
        blob.extend(u32::try_from(field.len()).expect("a short field").to_be_bytes());
        blob.extend(field);
    }
    format!("ssh-ed25519 {} agree-{number}", STANDARD.encode(blob))
}
