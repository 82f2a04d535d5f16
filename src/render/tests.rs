use super::*;
use crate::api::shipped;
use base64::Engine as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::Digest as _;
use std::io::Write as _;

/// A source of pool `worker`.
pub(super) fn source(name: &str, config: impl Into<Value>) -> MachineConfig {
    let config = config.into();
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {label::ROLE: "worker"}},
        "spec": {"config": config}
    }))
    .unwrap()
}

/// A config of these sections.
pub(super) fn config(sections: &Value) -> Value {
    let mut config = sections.clone();
    config["ignition"] = json!({"version": "3.4.0"});
    config
}

pub(super) fn files(files: &Value) -> Value {
    config(&json!({"storage": {"files": files}}))
}

pub(super) fn units(units: &Value) -> Value {
    config(&json!({"systemd": {"units": units}}))
}

pub(super) fn keys(keys: &Value) -> Value {
    config(&json!({"passwd": {"users": [{"name": "boot", "sshAuthorizedKeys": keys}]}}))
}

pub(super) fn worker() -> MachineConfigPool {
    shipped::pools().into_iter().find(|p| p.name() == "worker").unwrap()
}

fn rendered(sources: &[MachineConfig]) -> Rendered {
    let outcome = render(&worker(), sources);
    outcome.rendered.unwrap_or_else(|| panic!("{:#?}", outcome.findings))
}

const KEY_A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk a";
const KEY_B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk b";

#[test]
fn the_rendered_config_is_explicit_and_sorted() {
    let found = rendered(&[
        source(
            "50-b",
            config(&json!({
                "storage": {"files": [
                    {"path": "/etc/z", "contents": {"source": "data:,z"}, "user": {"name": "adm"}},
                    {"path": "/etc/a"}
                ], "disks": []},
                "systemd": {"units": [
                    {"name": "b.service", "enabled": false},
                    {"name": "a.service", "contents": "", "dropins": [
                        {"name": "2.conf", "contents": "[Unit]\n"}, {"name": "1.conf", "contents": "[Unit]\n"},
                        {"name": "0.conf", "contents": ""}
                    ]},
                    {"name": "nothing.service", "contents": ""}
                ]},
                "passwd": {"users": [{"name": "boot", "sshAuthorizedKeys": [KEY_B, KEY_A]}]}
            })),
        ),
        source("00-worker", json!({"ignition": {"version": "3.4.0"}})),
    ]);
    assert_eq!(
        found.config.to_value(),
        json!({
            "ignition": {"version": "3.4.0"},
            "passwd": {"users": [{"name": "boot", "sshAuthorizedKeys": [KEY_A, KEY_B]}]},
            "storage": {"files": [
                {"path": "/etc/a", "mode": 420, "overwrite": true, "contents": {"source": "data:,"}},
                {"path": "/etc/z", "mode": 420, "overwrite": true, "contents": {"source": "data:,z"}, "user": {"name": "adm"}}
            ]},
            "systemd": {"units": [
                {"name": "a.service", "dropins": [
                    {"name": "1.conf", "contents": "[Unit]\n"}, {"name": "2.conf", "contents": "[Unit]\n"}]},
                {"name": "b.service", "enabled": false}
            ]}
        })
    );
    assert_eq!(found.sources, ["00-worker", "50-b"]);
    assert_eq!(Items::from_config(&found.config), Ok(found.items));
}

#[test]
fn the_object_is_labelled_owned_and_never_a_source() {
    let mut pool = worker();
    let found = rendered(&[source("00-worker", json!({"ignition": {"version": "3.4.0"}}))]);
    let object = found.to_object(&pool);
    assert!(object.metadata.owner_references.is_none(), "offline there is no UID to own by");
    pool.metadata.uid = Some(String::new());
    assert!(found.to_object(&pool).metadata.owner_references.is_none());
    pool.metadata.uid = Some("u-1".to_owned());
    let object = found.to_object(&pool);
    let owner = &object.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.api_version.as_str()), ("MachineConfigPool", API_VERSION));
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
    assert_eq!(object.metadata.labels.as_ref().unwrap()[label::RENDERED], "worker");
    assert!(object.is_rendered());
    assert!(found.name.as_str().starts_with("rendered-worker-"));
    assert_eq!(found.name.as_str().len(), "rendered-worker-".len() + 32);
    // Never an input of its own pool, even if somebody labels it like a source.
    let mut again = object;
    again.metadata.labels.as_mut().unwrap().insert(label::ROLE.to_owned(), "worker".to_owned());
    let outcome = render(&pool, &[again]);
    assert!(outcome.no_sources && outcome.rendered.is_none());
}

#[test]
fn a_pool_that_selects_nothing_renders_nothing() {
    let outcome = render(&worker(), &[]);
    assert!(outcome.no_sources && outcome.rendered.is_none());
    assert_eq!(outcome.findings[0].rule, "no-sources");
}

#[test]
fn absent_null_and_empty_config_change_nothing() {
    //
    let base = source("10-a", files(&json!([{"path": "/etc/a", "contents": {"source": "data:,a"}}])));
    let alone = rendered(std::slice::from_ref(&base)).name;
    let absent: MachineConfig =
        serde_json::from_value(json!({"metadata": {"name": "20-b", "labels": {label::ROLE: "worker"}}})).unwrap();
    for other in [absent, source("20-b", Value::Null), source("20-b", json!({}))] {
        assert_eq!(rendered(&[base.clone(), other]).name, alone);
    }
    assert!(render(&worker(), &[source("20-b", json!({}))]).rendered.is_some(), "and alone they are the empty config");
}

#[test]
fn a_thousand_shuffles_give_one_object() {
    //
    let mut sources: Vec<MachineConfig> = (0..8)
        .map(|i| {
            let path = |n: u32| format!("/etc/{}", n % 7);
            source(
                &format!("{i:02}-x"),
                config(&json!({
                    "storage": {"files": [
                        {"path": path(i), "mode": 0o600 + i, "contents": {"source": format!("data:,{i}")}},
                        {"path": path(i + 3), "user": {"id": i}, "contents": {"source": format!("data:,other{i}")}}
                    ]},
                    "systemd": {"units": [{"name": format!("u{}.service", i % 3), "enabled": i % 2 == 0,
                        "dropins": [{"name": format!("{}.conf", i % 5), "contents": format!("[Unit]\nDescription={i}\n")}]}]},
                    "passwd": {"users": [{"name": "boot", "sshAuthorizedKeys": [format!("{KEY_A}{i}")]}]}
                })),
            )
        })
        .collect();
    let bytes = |sources: &[MachineConfig]| serde_json::to_vec(&rendered(sources).to_object(&worker())).unwrap();
    let first = bytes(&sources);
    // A small generator of our own: the order must not depend on the machine.
    let mut state: u64 = 1;
    for _ in 0..1000 {
        for i in (1..sources.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 33).unwrap() % (i + 1);
            sources.swap(i, at);
        }
        assert!(bytes(&sources) == first);
    }
}

#[test]
fn other_clothes_keep_the_name() {
    // R-023, G-12: re-encoded, reordered, renamed.
    let one = rendered(&[
        source(
            "10-a",
            files(&json!([
                {"path": "/etc/a", "mode": 420, "contents": {"source": "data:,a%20b"}},
                {"path": "/etc/b", "contents": {"source": "data:;base64,eA=="}, "overwrite": true}
            ])),
        ),
        source("20-b", keys(&json!([KEY_A, KEY_B]))),
    ]);
    let other = rendered(&[
        source(
            "70-b",
            files(&json!([
                {"path": "/etc/b", "mode": 420, "contents": {"source": "data:text/plain;charset=utf-8,x"}, "user": {"id": 0}},
                {"path": "/etc/a", "contents": {"source": "data:text/plain;base64,YSBi", "compression": ""}}
            ])),
        ),
        source("60-a", keys(&json!([KEY_B, KEY_A]))),
    ]);
    assert_eq!(one.name, other.name);
    assert_eq!(one.items, other.items);
    let changed = rendered(&[source("10-a", files(&json!([{"path": "/etc/a", "mode": 0o600}])))]);
    assert_ne!(one.name, changed.name);
}

#[test]
fn contents_are_replaced_as_a_whole() {
    // gzip of "zipped" below, plain above, and the other way round.
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(b"zipped").unwrap();
        let text = base64::engine::general_purpose::STANDARD.encode(encoder.finish().unwrap());
        json!({"source": format!("data:;base64,{text}"), "compression": "gzip",
            "verification": {"hash": format!("sha256-{}", items::hex(&sha2::Sha256::digest(b"zipped")))}})
    };
    let plain = json!({"source": "data:,plain"});
    for (first, second, bytes) in
        [(&gzip, &plain, &b"plain"[..]), (&plain, &gzip, b"zipped"), (&gzip, &gzip, b"zipped")]
    {
        let found = rendered(&[
            source("10-a", files(&json!([{"path": "/etc/a", "contents": first}]))),
            source("20-b", files(&json!([{"path": "/etc/a", "contents": second}]))),
            // A mode alone touches no contents.
            source("30-c", files(&json!([{"path": "/etc/a", "mode": 384}]))),
        ]);
        assert_eq!(found.items.files["/etc/a"].content.decode().unwrap(), bytes);
        assert_eq!(found.items.files["/etc/a"].mode, 0o600);
    }
}

#[test]
fn every_shadowed_item_is_named_with_winner_and_loser() {
    // infra sorts before worker, and 100 before 99.
    let found = rendered(&[
        source(
            "99-worker",
            config(&json!({
                "storage": {"files": [
                    {"path": "/etc/a", "mode": 384, "contents": {"source": "data:,1"}},
                    {"path": "/etc/same", "contents": {"source": "data:,s"}}]},
                "systemd": {"units": [{"name": "a.service", "contents": "[Unit]\n", "enabled": true,
                    "dropins": [{"name": "x.conf", "contents": "[Unit]\n"}]}]}
            })),
        ),
        source(
            "99-infra",
            config(&json!({
                "storage": {"files": [
                    {"path": "/etc/a", "mode": 420, "contents": {"source": "data:,2"}},
                    {"path": "/etc/same", "contents": {"source": "data:;base64,cw=="}}]},
                "systemd": {"units": [{"name": "a.service", "contents": "[Service]\n", "enabled": false,
                    "dropins": [{"name": "x.conf", "contents": "[Service]\n"}]}]}
            })),
        ),
        source("100-x", files(&json!([{"path": "/etc/a", "contents": {"source": "data:,3"}}]))),
    ]);
    let shadowed: Vec<String> =
        found.shadowed.iter().map(|s| format!("{}: {} over {}", s.item, s.winner, s.loser)).collect();
    assert_eq!(
        shadowed,
        [
            "file /etc/a: 99-worker over 100-x",
            "file /etc/a: 99-worker over 99-infra",
            "mode of file /etc/a: 99-worker over 99-infra",
            "unit a.service: 99-worker over 99-infra",
            "drop-in a.service/x.conf: 99-worker over 99-infra",
            "enabled of unit a.service: 99-worker over 99-infra",
        ]
    );
    assert_eq!(found.items.files["/etc/a"].content, items::Content::of(b"1"));
}

#[test]
fn an_empty_text_takes_a_unit_file_and_a_drop_in_away() {
    // L-14, R-154
    let found = rendered(&[
        source(
            "10-a",
            units(&json!([{"name": "a.service", "contents": "[Unit]\n", "enabled": true,
            "dropins": [{"name": "x.conf", "contents": "[Unit]\n"}, {"name": "y.conf", "contents": "[Unit]\n"}]}])),
        ),
        source(
            "20-b",
            units(&json!([{"name": "a.service", "contents": "",
            "dropins": [{"name": "x.conf", "contents": ""}]}])),
        ),
    ]);
    let unit = &found.items.units["a.service"];
    assert_eq!((unit.contents.as_deref(), unit.enabled), (None, Some(true)));
    assert_eq!(unit.dropins.keys().collect::<Vec<_>>(), ["y.conf"]);
}

#[test]
fn contents_and_mask_go_together() {
    let found =
        rendered(&[source("10-a", units(&json!([{"name": "a.service", "contents": "[Unit]\n", "mask": true}])))]);
    let unit = &found.items.units["a.service"];
    assert_eq!((unit.contents.as_deref(), unit.mask), (Some("[Unit]\n"), Some(true)));
}

#[test]
fn a_user_without_keys_manages_no_keys() {
    //
    let found = rendered(&[source("10-a", config(&json!({"passwd": {"users": [{"name": "boot"}]}})))]);
    assert_eq!(found.items.keys, None);
    assert!(found.config.to_value().get("passwd").is_none());
}

#[test]
fn what_only_shows_when_merged_names_both_sources() {
    let parent = source("10-a", files(&json!([{"path": "/etc/a"}, {"path": "/etc/u", "user": {"id": 1}}])));
    for (other, rule, path, text) in [
        (
            files(&json!([{"path": "/etc/x"}, {"path": "/etc/a/b"}])),
            "file-parent",
            "spec.config.storage.files[1].path",
            "MachineConfig/10-a",
        ),
        (
            files(&json!([{"path": "/etc/u", "user": {"name": "x"}}])),
            "file-owner",
            "spec.config.storage.files[0].user",
            "MachineConfig/10-a",
        ),
    ] {
        let outcome = render(&worker(), &[parent.clone(), source("20-b", other)]);
        assert!(outcome.rendered.is_none());
        let found = &outcome.findings[0];
        assert_eq!((found.rule, found.object.as_str(), found.path.as_str()), (rule, "MachineConfig/20-b", path));
        assert!(found.message.contains(text), "{found}");
    }
    // A later compression over contents that are not gzip.
    let outcome = render(
        &worker(),
        &[
            source("10-a", files(&json!([{"path": "/etc/a", "contents": {"source": "data:,x"}}]))),
            source("20-b", files(&json!([{"path": "/etc/a", "contents": {"compression": "gzip"}}]))),
        ],
    );
    let found = &outcome.findings[0];
    assert_eq!((found.rule, found.object.as_str()), ("contents", "MachineConfig/20-b"), "{found}");
    // A file of one source over a unit of another.
    let outcome = render(
        &worker(),
        &[
            source("10-a", units(&json!([{"name": "a.service", "contents": "[Unit]\n"}]))),
            source(
                "20-b",
                files(&json!([{"path": "/etc/systemd/system/a.service", "contents": {"source": "data:,x"}}])),
            ),
        ],
    );
    let found = &outcome.findings[0];
    assert_eq!((found.rule, found.object.as_str()), ("unit-file", "MachineConfig/20-b"), "{found}");
    assert!(found.message.contains("unit a.service of MachineConfig/10-a"), "{found}");
    // Enabled in one, masked in another.
    let outcome = render(
        &worker(),
        &[
            source("10-a", units(&json!([{"name": "a.service", "enabled": true}]))),
            source("20-b", units(&json!([{"name": "a.service", "mask": true}]))),
        ],
    );
    assert_eq!(outcome.findings[0].rule, "unit-masked");
}

#[test]
fn a_source_is_not_healed_by_a_later_one() {
    let outcome = render(
        &worker(),
        &[
            source("10-a", files(&json!([{"path": "/etc/a", "contents": {"source": "http://x"}}]))),
            source("20-b", files(&json!([{"path": "/etc/a", "contents": {"source": "data:,x"}}]))),
        ],
    );
    assert!(outcome.rendered.is_none());
    assert_eq!(outcome.findings.len(), 1, "{:#?}", outcome.findings);
    assert_eq!(outcome.findings[0].object, "MachineConfig/10-a");
}

#[test]
fn too_large_for_the_api_server_is_refused_by_name() {
    //
    let big = |name: &str, size: usize| {
        let text = "x".repeat(size);
        source(name, files(&json!([{"path": format!("/etc/{name}"), "contents": {"source": format!("data:,{text}")}}])))
    };
    let outcome = render(&worker(), &[big("10-a", 1_000_000), big("20-b", 650_000)]);
    assert!(outcome.rendered.is_none());
    let found = &outcome.findings[0];
    assert_eq!((found.rule, found.object.as_str()), ("rendered-size", "MachineConfigPool/worker"));
    let (a, b) = (found.message.find("file /etc/10-a of 10-a"), found.message.find("file /etc/20-b of 20-b"));
    assert!(a.is_some() && a < b, "{found}");
    assert!(compose(&worker(), &[big("10-a", 1_000_000), big("20-b", 650_000)]).rendered.is_some());
    let near = render(&worker(), &[big("10-a", 1_300_000)]);
    assert!(near.rendered.is_some());
    assert_eq!(near.findings[0].rule, "rendered-near-limit");
}

#[test]
fn pools_that_may_not_be_are_refused() {
    let pool = |name: &str, spec: Value| -> MachineConfigPool {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    };
    let inherits = json!({"matchExpressions": [{"key": label::ROLE, "operator": "In", "values": ["worker", "infra"]}]});
    let all = [source("10-a", json!({}))];
    for (pool, rule, path) in [
        (
            pool("infra", json!({"machineConfigSelector": {"matchLabels": {label::ROLE: "infra"}}})),
            "pool-worker",
            "spec.machineConfigSelector",
        ),
        (
            pool(
                "infra",
                json!({"machineConfigSelector": inherits, "nodeSelector": {"matchLabels": {label::NODE_ROLE_MASTER: ""}}}),
            ),
            "pool-master",
            "spec.nodeSelector",
        ),
        (
            pool("infra", json!({"machineConfigSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}})),
            "pool-selector",
            "spec.machineConfigSelector.matchExpressions[0].operator",
        ),
        (pool(&"x".repeat(64), json!({"machineConfigSelector": inherits})), "pool-name", "metadata.name"),
    ] {
        let outcome = render(&pool, &all);
        assert!(outcome.rendered.is_none());
        let found = &outcome.findings[0];
        assert_eq!((found.rule, found.path.as_str()), (rule, path), "{found}");
    }
    let longest = render(&pool(&"x".repeat(63), json!({"machineConfigSelector": inherits})), &all);
    assert!(longest.rendered.unwrap().name.as_str().len() <= 253, "R-239");
}

#[test]
fn a_rendered_config_edited_by_hand_is_refused_when_read() {
    // the daemon's last guard.
    for (config, text) in [
        (files(&json!([{"path": "/run/x"}])), "storage.files[0].path"),
        (config(&json!({"storage": {"links": [{"path": "/etc/x", "target": "/y"}]}})), "storage.links"),
        (json!({"ignition": {"version": "3.5.0"}}), "ignition.version"),
        (json!([]), "expected an object"),
        (json!({"storage": 1, "ignition": {"version": "3.4.0"}}), "storage"),
    ] {
        let errors = Items::from_config(&config).unwrap_err();
        assert!(errors.iter().any(|e| e.contains(text)) && errors.iter().all(|e| !e.contains('\n')), "{errors:?}");
    }
    assert_eq!(Items::from_config(&Value::Null), Ok(Items::default()));
}

/// Sources of the supported subset, valid or not when merged.
fn any_sources() -> impl Strategy<Value = Vec<MachineConfig>> {
    let url = prop_oneof![Just("data:,a"), Just("data:;base64,Yg=="), Just("data:,")];
    let contents = prop_oneof![
        Just(Value::Null),
        url.prop_map(|u| json!({"source": u})),
        Just(json!({"source": "data:,c", "compression": ""})),
        Just(json!({"compression": ""})),
    ];
    let mode = prop_oneof![Just(Value::Null), Just(json!(384)), Just(json!(420))];
    let owner = prop_oneof![Just(Value::Null), Just(json!({"id": 5})), Just(json!({}))];
    let file = (contents, mode, owner).prop_map(|(c, m, o)| json!({"contents": c, "mode": m, "user": o}));
    let files = prop::collection::btree_map("/etc/[abc]", file, 0..3);
    let text = prop_oneof![Just(Value::Null), Just(json!("")), Just(json!("[Unit]\n")), Just(json!("[Service]\n"))];
    let flag = prop_oneof![Just(Value::Null), Just(json!(true)), Just(json!(false))];
    let dropins = prop::collection::btree_map("[xy]\\.conf", text.clone(), 0..3);
    let unit = (text, flag, dropins).prop_map(|(c, e, d)| {
        let dropins: Vec<Value> = d.into_iter().map(|(name, text)| json!({"name": name, "contents": text})).collect();
        json!({"contents": c, "enabled": e, "dropins": dropins})
    });
    let units = prop::collection::btree_map("[ab]\\.service", unit, 0..3);
    let keys = prop::collection::btree_set("k[abc]", 0..3);
    let config = (files, units, keys).prop_map(|(files, units, keys)| {
        let list = |map: std::collections::BTreeMap<String, Value>, key: &str| -> Vec<Value> {
            map.into_iter()
                .map(|(name, mut item)| {
                    item[key] = name.into();
                    item
                })
                .collect()
        };
        config(&json!({
            "storage": {"files": list(files, "path")},
            "systemd": {"units": list(units, "name")},
            "passwd": {"users": [{"name": "boot", "sshAuthorizedKeys": keys}]}
        }))
    });
    prop::collection::vec(config, 1..5)
        .prop_map(|configs| configs.into_iter().enumerate().map(|(i, c)| source(&format!("{i:02}-x"), c)).collect())
}

/// Configs as a careless generator or an attacker writes them: known keys, any values.
fn any_config() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just("3.4.0"),
        Just("boot"),
        Just("/etc/a"),
        Just("/etc/a/b"),
        Just("/etc/../a"),
        Just("/"),
        Just(""),
        Just("a\nb"),
        Just("\u{0}"),
        Just("\u{2028}é"),
        Just("a.service"),
        Just("a@.service"),
        Just(".service"),
        Just("x.conf"),
        Just("data:,x"),
        Just("data:;base64,!"),
        Just("data:"),
        Just("http://x"),
        Just("gzip"),
        Just("[Unit"),
        Just("/etc/systemd/system/a.service"),
        Just("sha256-0"),
        Just("ssh-rsa AAAA"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(-1i64), Just(0), Just(420), Just(4096), Just(i64::MIN), Just(i64::MAX)].prop_map(Value::from),
        Just(json!(u64::MAX)),
        Just(json!(0.5)),
        text.prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("path"),
        Just("mode"),
        Just("contents"),
        Just("source"),
        Just("compression"),
        Just("verification"),
        Just("hash"),
        Just("user"),
        Just("group"),
        Just("id"),
        Just("name"),
        Just("overwrite"),
        Just("append"),
        Just("units"),
        Just("dropins"),
        Just("enabled"),
        Just("mask"),
        Just("sshAuthorizedKeys"),
        Just("users"),
        Just("groups"),
        Just("files"),
        Just("links"),
        Just("version"),
        Just("a.b[0]\"\n"),
    ];
    let tree = leaf.prop_recursive(5, 60, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|fields| fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Value>()),
        ]
    });
    (tree.clone(), tree.clone(), tree.clone(), prop::collection::vec(tree, 0..3), any::<bool>()).prop_map(
        |(storage, systemd, passwd, list, listed)| {
            if listed {
                let files = list.clone();
                config(&json!({"storage": {"files": files}, "systemd": {"units": list.clone()}, "passwd": {"users": list}}))
            } else {
                config(&json!({"storage": storage, "systemd": systemd, "passwd": passwd}))
            }
        },
    )
}

/// Configs with known keys and right types only, and values that are right or wrong.
fn any_plain_config() -> impl Strategy<Value = Value> {
    let source = prop_oneof![
        3 => Just("data:,x"),
        1 => Just("data:;base64,eA=="),
        1 => Just("data:;base64,eA=\n="),
        1 => Just("data:;base64,eA="),
        1 => Just("data:text/plain;a=\"#%zz\",x"),
        1 => Just("data:text/plain;a=\"#\",x"),
        1 => Just("data:text/plain;a=\"\u{7f}\",x"),
        1 => Just("data:,100%"),
        1 => Just(""),
        1 => Just("http://x"),
        1 => Just("data:;base64,H4sIAAAAAAACA0vkAgAfB7wUAgAAAA=="),
    ];
    let hash = prop_oneof![
        Just("sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
        Just("sha256-0"),
        Just("md5-0"),
        Just(""),
    ];
    let some = |chance: f64| prop::option::weighted(chance, Just(()));
    let compression = prop_oneof![Just(""), Just("gzip"), Just("xz")];
    let contents = (
        prop::option::weighted(0.9, source),
        prop::option::weighted(0.1, hash),
        prop::option::weighted(0.2, compression),
    )
        .prop_map(|(source, hash, compression)| {
            let verification = hash.map(|hash| json!({"hash": hash}));
            set([("source", source.into()), ("verification", verification.into()), ("compression", compression.into())])
        });
    let mode =
        prop_oneof![4 => Just(420), 1 => Just(0), 1 => Just(644), 1 => Just(0o4755), 1 => Just(-1), 1 => Just(99_999)];
    let owner =
        (prop::option::of(0_i64..3), prop::option::weighted(0.2, prop_oneof![Just(""), Just("adm"), Just("a b")]))
            .prop_map(|(id, name)| set([("id", id.into()), ("name", name.into())]));
    let path = prop_oneof![
        4 => "/etc/[a-d](/[ab])?", 1 => Just("/etc/systemd/system/a.service".to_owned()), 1 => Just("/x".to_owned()),
        1 => Just("etc/x".to_owned()), 1 => Just("/etc/x/".to_owned()), 1 => Just(String::new()),
    ];
    let file = (
        path,
        prop::option::of(contents),
        prop::option::of(mode),
        prop::option::weighted(0.2, owner),
        prop::option::of(any::<bool>()),
        some(0.9),
    )
        .prop_map(|(path, contents, mode, owner, overwrite, named)| {
            set([
                ("path", named.map(|()| path).into()),
                ("contents", contents.into()),
                ("mode", mode.into()),
                ("user", owner.into()),
                ("overwrite", overwrite.into()),
            ])
        });
    let text = || prop_oneof![3 => Just("[Unit]\n"), 1 => Just(""), 1 => Just("[Service]\nExecStart=/a\n[Install]\nWantedBy=a.target\n"), 1 => Just("x")];
    let dropin = (
        prop_oneof![4 => Just("10-a.conf"), 1 => Just("b.conf"), 1 => Just("a/b.conf"), 1 => Just("x")],
        prop::option::of(text()),
    )
        .prop_map(|(name, text)| set([("name", name.into()), ("contents", text.into())]));
    let name = prop_oneof![4 => Just("a.service"), 2 => Just("b.socket"), 1 => Just("c@.service"), 1 => Just("c@d.service"), 1 => Just("a/b.service"), 1 => Just("x")];
    let unit = (
        name,
        prop::option::of(text()),
        prop::option::of(any::<bool>()),
        prop::option::of(any::<bool>()),
        prop::option::of(prop::collection::vec(dropin, 0..3)),
    )
        .prop_map(|(name, text, enabled, mask, dropins)| {
            set([
                ("name", name.into()),
                ("contents", text.into()),
                ("enabled", enabled.into()),
                ("mask", mask.into()),
                ("dropins", dropins.into()),
            ])
        });
    let keys = prop::collection::vec(prop_oneof![2 => Just(KEY_A), 2 => Just(KEY_B), 1 => Just("x")], 0..3);
    let user = (
        prop::option::of(Just("boot")),
        prop::option::of(prop_oneof![3 => Just("boot"), 1 => Just("root")]),
        prop::option::of(keys),
    )
        .prop_map(|(name, user, keys)| {
            set([("name", name.into()), ("user", user.into()), ("sshAuthorizedKeys", keys.into())])
        });
    let lists =
        (prop::collection::vec(file, 0..3), prop::collection::vec(unit, 0..3), prop::collection::vec(user, 0..3));
    (lists, some(0.95)).prop_map(|((files, units, users), version)| {
        let mut config =
            config(&json!({"storage": {"files": files}, "systemd": {"units": units}, "passwd": {"users": users}}));
        if version.is_none() {
            config["ignition"] = json!({});
        }
        config
    })
}

/// An object of the fields that have a value.
fn set<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The form of a layer for people, without what says only where its contents are kept.
fn without_shared(layer: &str) -> String {
    let mut rest = layer;
    let mut plain = String::new();
    while let Some((before, behind)) = rest.split_once(", shared: ") {
        plain.push_str(before);
        rest = behind.split_once(", compression: ").map_or("", |(_, behind)| behind);
        plain.push_str(", compression: ");
    }
    plain + rest
}

proptest! {
    #[test]
    fn nothing_that_is_written_is_worse_than_a_finding(a in any_config(), b in any_config()) {
        let outcome = render(&worker(), &[source("10-a", a.clone()), source("20-b", b)]);
        for finding in &outcome.findings {
            prop_assert!(!finding.to_string().contains('\n'), "{}", finding);
            prop_assert_eq!(path::from_pointer("", &path::to_pointer(&finding.path)), finding.path.clone());
        }
        if let Some(rendered) = outcome.rendered {
            prop_assert_eq!(&Items::from_config(&rendered.config).unwrap(), &rendered.items);
            prop_assert_eq!(Items::from_stored(&rendered.config.to_value()).unwrap(), rendered.items);
        } else {
            prop_assert_eq!(outcome.findings[0].severity, Severity::Error);
        }
        let alone = Items::from_config(&a);
        prop_assert_eq!(alone.is_ok(), render(&worker(), &[source("10-a", a)]).rendered.is_some());
    }

    /// The merge that keeps provenance is the specification's.
    #[test]
    fn merging_is_folding_the_specifications_merge(sources in any_sources()) {
        let mut configs = sources.iter().map(|s| {
            ignition::read_value(&validate_as_specified(&s.spec.config.as_ref().unwrap().to_value())).unwrap()
        });
        let mut layers = ignition::Layers::new(configs.next().unwrap(), ignition::ContentsRule::Whole);
        for next in configs {
            layers.lay(next);
        }
        let folded = Items::from_config(&layers.finish().0).unwrap();
        prop_assert_eq!(rendered(&sources).items, folded);
    }

    /// What is told of an item is what is rendered, and what is hidden is what preview and lint call shadowed.
    #[test]
    fn stories_agree_with_the_result(sources in any_sources()) {
        let there = rendered(&sources);
        let stories = story::stories(&worker(), &sources);
        for item in item::Item::all(&there.items) {
            prop_assert!(stories.iter().any(|story| story.item == item), "{} has no story", item);
        }
        let mut hidden = Vec::new();
        for story in &stories {
            for field in &story.fields {
                let winners: Vec<_> = field.said.iter().filter(|s| s.fate == merge::Fate::Wins).collect();
                prop_assert_eq!(winners.len(), usize::from(!field.said.is_empty()));
                for said in &field.said {
                    prop_assert_eq!(said.value == field.value, said.fate != merge::Fate::Hidden, "{:?}", field);
                }
                let item = match field.field {
                    "contents" => story.item.to_string(),
                    name => format!("{name} of {}", story.item),
                };
                let losers = field.said.iter().filter(|s| s.fate == merge::Fate::Hidden);
                hidden.extend(losers.map(|s| (item.clone(), winners[0].source.clone(), s.source.clone())));
            }
        }
        let mut shadowed: Vec<_> = there.shadowed.into_iter().map(|s| (s.item, s.winner, s.loser)).collect();
        hidden.sort();
        shadowed.sort();
        prop_assert_eq!(hidden, shadowed);
    }

    #[test]
    fn the_rendered_config_reads_back_and_does_not_depend_on_order(sources in any_sources()) {
        let there = rendered(&sources);
        prop_assert_eq!(&Items::from_config(&there.config).unwrap(), &there.items);
        prop_assert_eq!(Items::from_stored(&there.config.to_value()).unwrap(), there.items);
        let mut reversed = sources;
        reversed.reverse();
        let back = rendered(&reversed);
        prop_assert_eq!(text(&back.config), text(&there.config));
        prop_assert_eq!(back.name, there.name);
    }

    /// The specification is not asked again about what is rendered, nor about sources in which nothing is found.
    #[test]
    fn the_specification_has_nothing_to_say_of_what_is_fine(
        configs in prop::collection::vec(prop_oneof![any_plain_config(), any_config()], 1..4),
    ) {
        for config in &configs {
            let mut found = Vec::new();
            let source = source("10-a", config.clone());
            let checked = Checked::new(&source, &mut Decoder::default());
            found.extend(&checked.findings);
            if found.is_empty() {
                let mut plain = config.clone();
                for user in plain["passwd"]["users"].as_array_mut().into_iter().flatten() {
                    if let Some(name) = user.as_object_mut().and_then(|user| user.remove("user")) {
                        user["name"] = name;
                    }
                }
                prop_assert_eq!(specified(&validate_as_specified(&plain)), Vec::<String>::new(), "{}", config);
            }
        }
        let sources: Vec<_> = configs.into_iter().enumerate().map(|(i, c)| source(&format!("{i:02}-x"), c)).collect();
        if let Some(rendered) = render(&worker(), &sources).rendered {
            let refused = ignition::parse_value(&rendered.config.to_value()).1.errors;
            prop_assert_eq!(refused, Vec::new());
        }
    }

    /// A config that is kept plain is checked without the walk through its JSON.
    #[test]
    fn a_plain_config_is_checked_as_its_json_is(config in prop_oneof![any_plain_config(), any_config()]) {
        let kept = IgnitionConfig::from(&config);
        prop_assert_eq!(kept.to_value(), config.clone());
        let said = |config: &IgnitionConfig| {
            let (mut found, mut decoder) = (Vec::new(), Decoder::default());
            let mut report = validate::Report { object: "o", at: "c", found: &mut found };
            let layer = validate::config(config, &mut decoder, &mut report);
            (format!("{layer:?}"), found)
        };
        // A null is as if it were absent, and keeps the config from being plain.
        let mut with_null = config.clone();
        with_null["kernelArguments"] = Value::Null;
        let other = IgnitionConfig::from(&with_null);
        prop_assert!(other.plain().is_none());
        let ((layer, found), (layer_of_json, found_in_json)) = (said(&kept), said(&other));
        prop_assert_eq!(found, found_in_json);
        prop_assert_eq!(without_shared(&layer), without_shared(&layer_of_json));
    }

    #[test]
    fn rendering_the_rendered_config_again_changes_nothing(sources in any_sources()) {
        let once = rendered(&sources);
        let twice = rendered(&[source("00-x", once.config.to_value())]);
        prop_assert_eq!(&once.config, &twice.config);
        prop_assert_eq!(once.name, twice.name);
    }
}

fn text(config: &IgnitionConfig) -> String {
    serde_json::to_string(config).unwrap()
}

/// What the specification refuses in a config, and what it warns of but for units, whose enabling is seen in the whole.
fn specified(config: &Value) -> Vec<String> {
    let (_, said) = ignition::parse_value(config);
    let warnings = said.warnings.into_iter().filter(|entry| !entry.pointer.starts_with("/systemd/units/"));
    said.errors.into_iter().chain(warnings).map(|entry| format!("{}: {}", entry.pointer, entry.message)).collect()
}

/// Without nulls, as the specification reads them.
fn validate_as_specified(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), validate_as_specified(v))).collect(),
        ),
        Value::Array(list) => list.iter().map(validate_as_specified).collect(),
        other => other.clone(),
    }
}

#[test]
fn a_survey_says_of_each_pool_what_its_rendering_says() {
    let infra: MachineConfigPool = serde_json::from_value(json!({
        "metadata": {"name": "infra"},
        "spec": {"machineConfigSelector": {"matchExpressions": [
            {"key": label::ROLE, "operator": "In", "values": ["worker", "infra"]}]}}
    }))
    .unwrap();
    let mut unreadable = worker();
    unreadable.metadata.name = Some("unreadable".to_owned());
    unreadable.spec.machine_config_selector =
        serde_json::from_value(json!({"matchExpressions": [{"key": "a", "operator": "Equals"}]})).unwrap();
    let of_role = |mut source: MachineConfig, role: &str| {
        source.metadata.labels.as_mut().unwrap().insert(label::ROLE.to_owned(), role.to_owned());
        source
    };
    let all = [
        source("20-b", files(&json!([{"path": "/etc/b", "mode": 644, "contents": {"source": "data:,b"}}]))),
        source("10-a", files(&json!([{"path": "/etc/a"}]))),
        of_role(source("30-c", files(&json!([{"path": "etc/c"}]))), "infra"),
        of_role(source("40-d", files(&json!([{"path": "/d"}]))), "nobody"),
    ];
    let pools = [worker(), infra, unreadable, shipped::pools().remove(0)];
    let found = survey(&pools, &all.iter().collect::<Vec<_>>());
    for (pool, outcome) in pools.iter().zip(&found.outcomes) {
        let alone = render(pool, &all);
        assert_eq!(outcome.findings, alone.findings, "{}", pool.name());
        assert_eq!(outcome.no_sources, alone.no_sources);
        assert_eq!(outcome.rendered.as_ref().map(|r| &r.name), alone.rendered.as_ref().map(|r| &r.name));
    }
    assert!(found.outcomes[0].rendered.is_some() && found.outcomes[1].rendered.is_none());
    let of_sources: Vec<(&str, &str)> = found.sources.iter().map(|f| (f.object.as_str(), f.rule)).collect();
    assert_eq!(
        of_sources,
        [
            ("MachineConfig/20-b", "mode-decimal"),
            ("MachineConfig/30-c", "file-path"),
            ("MachineConfig/40-d", "file-root")
        ]
    );
}
