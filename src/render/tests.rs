use super::*;
use crate::api::shipped;
use base64::Engine as _;
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

pub(super) fn rendered(sources: &[MachineConfig]) -> Rendered {
    let outcome = render(&worker(), sources);
    outcome.rendered.unwrap_or_else(|| panic!("{:#?}", outcome.findings))
}

pub(super) fn shadowed(sources: &[MachineConfig]) -> Vec<merge::Shadowed> {
    merged(&worker(), sources).1.shadowed(&mut Decoder::default())
}

pub(super) const KEY_A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk a";
pub(super) const KEY_B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk b";

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
    let sources = [
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
    ];
    let shadowed: Vec<String> =
        shadowed(&sources).iter().map(|s| format!("{}: {} over {}", s.item, s.winner, s.loser)).collect();
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
    assert_eq!(rendered(&sources).items.files["/etc/a"].content, items::Content::of(b"1"));
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
    // Nor is a later one blamed for it.
    let outcome = render(
        &worker(),
        &[
            source("10-a", files(&json!([{"path": "/etc/a", "contents": {"source": "http://x"}}]))),
            source("20-b", files(&json!([{"path": "/etc/a", "contents": {"compression": "gzip"}}]))),
        ],
    );
    let errors = outcome.findings.iter().filter(|f| f.severity == Severity::Error);
    assert_eq!(errors.map(|f| f.object.as_str()).collect::<Vec<_>>(), ["MachineConfig/10-a"]);
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
    let found = survey(&pools, &all, &[]).findings;
    let alone: Vec<Outcome> = pools.iter().map(|pool| render(pool, &all)).collect();
    assert!(alone[0].rendered.is_some() && alone[1].rendered.is_none());
    let of_pools: Vec<Finding> = alone.into_iter().flat_map(|outcome| outcome.findings).collect();
    let (of_sources, rest) = found.split_at(found.len() - of_pools.len());
    assert_eq!(rest, of_pools);
    let of_sources: Vec<(&str, &str)> = of_sources.iter().map(|f| (f.object.as_str(), f.rule)).collect();
    assert_eq!(
        of_sources,
        [
            ("MachineConfig/20-b", "mode-decimal"),
            ("MachineConfig/30-c", "file-path"),
            ("MachineConfig/40-d", "file-root")
        ]
    );
}
