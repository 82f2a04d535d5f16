use super::*;
use crate::api::{MachineConfig, MachineConfigPoolStatus, label, shipped};
use crate::render::survey;
use crate::render::tests::{config, files, keys, source, units, worker};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use serde_json::{Value, json};

fn lints(pools: &[MachineConfigPool], configs: &[MachineConfig]) -> Vec<Finding> {
    survey(pools, configs, &[]).lints()
}

/// `rule object path: message`, of the findings of one rule.
fn said(rule: &str, pools: &[MachineConfigPool], configs: &[MachineConfig]) -> Vec<String> {
    let found = lints(pools, configs);
    let shown = found.iter().filter(|f| f.rule == rule).map(|f| format!("{} {}: {}", f.object, f.path, f.message));
    shown.collect()
}

/// As [`said`], in pool `worker`.
fn of_worker(rule: &str, configs: &[MachineConfig]) -> Vec<String> {
    said(rule, &[worker()], configs)
}

fn custom(name: &str) -> MachineConfigPool {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "machineConfigSelector": {
                "matchExpressions": [{"key": label::ROLE, "operator": "In", "values": ["worker", name]}]
            },
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}}
        }
    }))
    .unwrap()
}

fn for_role(role: &str, mut source: MachineConfig) -> MachineConfig {
    source.metadata.labels = Some(BTreeMap::from([(label::ROLE.to_owned(), role.to_owned())]));
    source
}

fn file(name: &str, path: &str, text: &str) -> MachineConfig {
    let url = format!("data:;base64,{}", STANDARD.encode(text));
    source(name, files(&json!([{"path": path, "contents": {"source": url}}])))
}

fn unit(name: &str, unit: Value) -> MachineConfig {
    source(name, units(&Value::Array(vec![unit])))
}

#[test]
fn a_number_of_another_width_is_said_where_it_turns_the_order() {
    let empty = |name: &str| source(name, config(&json!({})));
    let sources = ["10-a", "98-b", "99-c", "100-d", "5-e", "x"].map(empty);
    assert_eq!(
        of_worker("source-order", &sources),
        [
            "MachineConfig/100-d metadata.name: `100-d` is laid before `98-b`, which wins over it",
            "MachineConfig/5-e metadata.name: `5-e` is laid behind `10-a` and wins over it",
        ]
    );
    for near in [&["50-a", "99-c", "x"][..], &["0-a", "100-b", "2-c"], &["098-a", "100-b"], &["10-a", "100-b"]] {
        let sources: Vec<MachineConfig> = near.iter().map(|n| empty(n)).collect();
        let expected = usize::from(near[0] == "0-a");
        assert_eq!(of_worker("source-order", &sources).len(), expected, "{near:?}");
    }
    let pools = [worker(), custom("infra")];
    assert_eq!(said("source-order", &pools, &sources).len(), 2, "once, whatever the number of pools");
}

#[test]
fn a_custom_pools_source_that_loses_to_workers_by_its_name_is_said() {
    //
    let own = |pool: &str, name: &str| for_role(pool, file(name, "/etc/x", "own"));
    let worker_file = file("99-worker", "/etc/x", "worker");
    let of =
        |pool: &str, own: MachineConfig| said("source-order", &[worker(), custom(pool)], &[own, worker_file.clone()]);
    assert_eq!(
        of("infra", own("infra", "99-infra")),
        [
            "MachineConfig/99-infra metadata.name: `99-infra` is for pool infra and is laid before `99-worker` of worker, \
          which wins over it there"
        ]
    );
    assert_eq!(of("zeta", own("zeta", "99-zeta")), [""; 0], "sorts behind");
    assert_eq!(of("infra", own("infra", "98-infra")), [""; 0], "another number is an order that was chosen");
    assert_eq!(of("infra", for_role("infra", file("99-infra", "/etc/y", "own"))), [""; 0], "loses nothing");
}

#[test]
fn each_hidden_item_is_named_with_its_winner_and_its_pools() {
    let sources = [
        source(
            "10-a",
            config(&json!({
                "storage": {"files": [{"path": "/etc/x", "mode": 0o600, "contents": {"source": "data:,a"}}]},
                "systemd": {"units": [
                    {"name": "a.service", "enabled": true, "dropins": [{"name": "x.conf", "contents": "[Unit]\n"}]}
                ]}
            })),
        ),
        source(
            "20-b",
            config(&json!({
                "storage": {"files": [{"path": "/etc/x", "mode": 0o600, "contents": {"source": "data:,b"}}]},
                "systemd": {"units": [
                    {"name": "a.service", "enabled": false, "dropins": [{"name": "x.conf", "contents": "[Service]\n"}]}
                ]}
            })),
        ),
    ];
    assert_eq!(
        said("item-shadowed", &[custom("infra"), worker()], &sources),
        [
            "MachineConfig/10-a spec.config.storage.files[0].contents: file /etc/x is hidden by MachineConfig/20-b in \
             pools infra, worker",
            "MachineConfig/10-a spec.config.systemd.units[0].dropins: drop-in a.service/x.conf is hidden by \
             MachineConfig/20-b in pools infra, worker",
            "MachineConfig/10-a spec.config.systemd.units[0].enabled: enabled of unit a.service is hidden by \
             MachineConfig/20-b in pools infra, worker",
        ]
    );
    // What a custom pool is for; where it is hidden in another pool, or by one of worker, it is said.
    let own = for_role("infra", file("20-infra", "/etc/x", "own"));
    let overriding = [file("10-worker", "/etc/x", "all"), own.clone()];
    assert_eq!(said("item-shadowed", &[worker(), custom("infra")], &overriding), [""; 0]);
    let beside = [for_role("infra", file("10-infra", "/etc/x", "all")), own.clone()];
    assert_eq!(said("item-shadowed", &[worker(), custom("infra")], &beside).len(), 1, "two of its own");
    let turned = [own, file("30-worker", "/etc/x", "all")];
    assert_eq!(said("item-shadowed", &[worker(), custom("infra")], &turned).len(), 1, "worker's wins");
    let both = [overriding[0].clone(), file("15-worker", "/etc/x", "some"), overriding[1].clone()];
    assert_eq!(
        said("item-shadowed", &[worker(), custom("infra")], &both),
        [
            "MachineConfig/10-worker spec.config.storage.files[0].contents: file /etc/x is hidden by MachineConfig/15-worker in pool worker"
        ]
    );
    let equal = [file("10-a", "/etc/x", "same"), file("20-b", "/etc/x", "same")];
    assert_eq!(of_worker("item-shadowed", &equal), [""; 0], "equal values hide nothing");
    let two = [file("10-a", "/etc/chrony.conf", "a"), file("20-b", "/etc/chrony/chrony.conf", "b")];
    assert_eq!(of_worker("item-shadowed", &two), [""; 0], "two paths are two items");
}

#[test]
fn placeholders_are_found_in_paths_keys_units_and_small_files() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk";
    let sources = [
        file("10-a", "/etc/x", "a\nserver <ntp-server> iburst\n"),
        file("20-b", "/etc/<name>.conf", "b"),
        source("30-c", keys(&json!([format!("{key} <your-name>"), format!("{key} me")]))),
        unit(
            "40-d",
            json!({"name": "d.service", "dropins": [{"name": "x.conf", "contents": "[Service]\nUser=<user>\n"}]}),
        ),
    ];
    assert_eq!(
        of_worker("placeholder", &sources),
        [
            "MachineConfig/20-b spec.config.storage.files[0].path: still has the placeholder `<name>`",
            "MachineConfig/30-c spec.config.passwd.users[0].sshAuthorizedKeys[0]: still has the placeholder `<your-name>`",
            "MachineConfig/40-d spec.config.systemd.units[0].dropins[0].contents: line 2 of drop-in d.service/x.conf \
             still has the placeholder `<user>`",
            "MachineConfig/10-a spec.config.storage.files[0].contents.source: line 2 of file /etc/x still has the \
             placeholder `<ntp-server>`",
        ]
    );
    let near = [
        file("10-a", "/etc/x.xml", "<config>\n  <server-name>x</server-name>\n</config>\n"),
        file("20-b", "/usr/local/bin/x", "#!/bin/sh\necho \"usage: x <name>\"\nsort <in >out\n"),
        file("25-c", "/usr/local/lib/x.py", "usage = \"x <name>\"\n"),
        file("30-c", "/etc/binary", "\u{0}<name>"),
        file("40-d", "/etc/large", &format!("<name>\n{}", "x".repeat(300 << 10))),
        source("50-e", keys(&json!(["ssh-rsa <ssh-public-key>"]))),
    ];
    assert_eq!(of_worker("placeholder", &near), [""; 0]);
}

#[test]
fn dos_line_ends_are_counted() {
    let sources = [
        file("10-a", "/etc/x", "a\r\nb\r\nc\n"),
        unit("20-b", json!({"name": "b.service", "contents": "[Unit]\r\nDescription=b\r\n"})),
    ];
    assert_eq!(
        of_worker("crlf", &sources),
        [
            "MachineConfig/10-a spec.config.storage.files[0].contents.source: 2 of the 3 lines of file /etc/x end in CR LF",
            "MachineConfig/20-b spec.config.systemd.units[0].contents: 2 of the 2 lines of unit b.service end in CR LF",
        ]
    );
    let near = [file("10-a", "/etc/x", "a\rb\nc\n"), file("20-b", "/etc/y", "\u{0}\r\n")];
    assert_eq!(of_worker("crlf", &near), [""; 0], "a CR within a line, and what is no text");
}

#[test]
fn texts_that_differ_only_in_their_line_ends_are_named_with_the_other_source() {
    for (a, b) in [("a\nb\n", "a\r\nb\r\n"), ("a\n", "a"), ("a\n", "a\n\n")] {
        let sources = [file("10-a", "/etc/x", a), file("20-b", "/etc/x", b)];
        assert_eq!(
            of_worker("line-ends-only", &sources),
            ["MachineConfig/20-b spec.config.storage.files[0].contents.source: file /etc/x differs from that of \
              MachineConfig/10-a only in its line ends"],
            "{a:?} {b:?}"
        );
    }
    let units = ["[Unit]\nA=b\n", "[Unit]\nA=b"].map(|text| json!({"name": "a.service", "contents": text}));
    let [a, b] = units;
    assert_eq!(of_worker("line-ends-only", &[unit("10-a", a), unit("20-b", b)]).len(), 1);
    for (a, b) in [("a\n", "a\n"), ("a\n", "b"), ("", "\n"), ("a b\n", "a  b\n")] {
        let sources = [file("10-a", "/etc/x", a), file("20-b", "/etc/x", b)];
        assert_eq!(of_worker("line-ends-only", &sources), [""; 0], "{a:?} {b:?}");
    }
    assert_eq!(of_worker("line-ends-only", &[file("10-a", "/etc/x", "a"), file("20-b", "/etc/y", "a\n")]), [""; 0]);
}

#[test]
fn a_drop_in_of_a_unit_that_nothing_defines_is_said_once() {
    let dropin = |name: &str, unit_name: &str| {
        unit(name, json!({"name": unit_name, "dropins": [{"name": "10-x.conf", "contents": "[Service]\nNice=1\n"}]}))
    };
    let sources = [dropin("10-a", "mine.service"), dropin("20-b", "mine.service")];
    assert_eq!(
        said("dropin-unit", &[worker(), custom("infra")], &sources),
        ["MachineConfig/20-b spec.config.systemd.units[0].name: no source of pool worker defines `mine.service`: its \
          drop-ins do nothing unless the operating system brings the unit"]
    );
    for known in [
        "chronyd.service",
        "sshd.service",
        "kubelet.service",
        "containerd.service",
        "crio.service",
        "systemd-journald.service",
        "getty@tty1.service",
        "docker.socket",
        "multi-user.target",
        "system.slice",
        "var-lib-x.mount",
        "mine-.service",
    ] {
        assert_eq!(of_worker("dropin-unit", &[dropin("10-a", known)]), [""; 0], "{known}");
    }
    let body = |name: &str| unit("20-b", json!({"name": name, "contents": "[Service]\nExecStart=/bin/true\n"}));
    assert_eq!(of_worker("dropin-unit", &[dropin("10-a", "mine.service"), body("mine.service")]), [""; 0]);
    assert_eq!(of_worker("dropin-unit", &[dropin("10-a", "mine@a.service"), body("mine@.service")]), [""; 0]);
    let as_file = file("20-b", "/etc/systemd/system/mine.service", "[Service]\n");
    assert_eq!(of_worker("dropin-unit", &[dropin("10-a", "mine.service"), as_file]), [""; 0]);
    let taken_away = unit("10-a", json!({"name": "mine.service", "dropins": [{"name": "x.conf", "contents": ""}]}));
    assert_eq!(of_worker("dropin-unit", &[taken_away]), [""; 0]);
}

#[test]
fn kubelet_drop_ins_are_numbered_10_to_49() {
    let dropin = |unit_name: &str, name: &str| {
        unit("10-a", json!({"name": unit_name, "dropins": [{"name": name, "contents": "[Service]\nNice=1\n"}]}))
    };
    for name in ["09-x.conf", "50-x.conf", "x.conf", "100-x.conf", "5-x.conf", "20.conf"] {
        assert_eq!(
            of_worker("kubelet-dropin", &[dropin("kubelet.service", name)]),
            [format!(
                "MachineConfig/10-a spec.config.systemd.units[0].dropins[0].name: `{name}` is not numbered 10 to 49"
            )]
        );
        let path = format!("/etc/systemd/system/kubelet.service.d/{name}");
        assert_eq!(of_worker("kubelet-dropin", &[file("10-a", &path, "[Service]\n")]).len(), 1, "{path}");
        assert_eq!(of_worker("kubelet-dropin", &[dropin("crio.service", name)]), [""; 0]);
    }
    for name in ["10-x.conf", "49-x.conf"] {
        assert_eq!(of_worker("kubelet-dropin", &[dropin("kubelet.service", name)]), [""; 0]);
    }
}

#[test]
fn a_source_that_kubectl_apply_cannot_store_is_said() {
    let of_size = |bytes: usize| {
        source(
            "10-a",
            files(&json!([{"path": "/etc/x", "contents": {"source": format!("data:,{}", "a".repeat(bytes))}}])),
        )
    };
    let rest =
        crate::render::size::as_go(&of_size(0)) + "kubectl.kubernetes.io/last-applied-configuration".len() as u64;
    let fits = (256 << 10) - usize::try_from(rest).unwrap();
    assert_eq!(of_worker("source-size", &[of_size(fits)]), [""; 0]);
    assert_eq!(
        of_worker("source-size", &[of_size(fits + 1)]),
        ["MachineConfig/10-a : has 262145 bytes as an annotation, more than the 262144 that fit"]
    );
    // Other annotations count, too.
    let mut annotated = of_size(fits);
    annotated.metadata.annotations = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    assert_eq!(of_worker("source-size", &[annotated]).len(), 1);
}

#[test]
fn a_limit_that_stops_a_whole_pool_is_said() {
    let pool = |value: IntOrString, nodes: Option<i32>| {
        let mut pool = worker();
        pool.spec.max_unavailable = Some(value);
        pool.status = Some(MachineConfigPoolStatus { machine_count: nodes, ..MachineConfigPoolStatus::default() });
        pool
    };
    let percent = |text: &str, nodes| pool(IntOrString::String(text.to_owned()), nodes);
    let number = |n: i32, nodes| pool(IntOrString::Int(n), nodes);
    for (pool, message) in [
        (percent("100%", None), "100% lets all nodes of the pool be unavailable at once"),
        (percent("250%", Some(3)), "250% lets all 3 nodes of the pool be unavailable at once"),
        (number(3, Some(3)), "3 lets all 3 nodes of the pool be unavailable at once"),
        (number(9, Some(3)), "9 lets all 3 nodes of the pool be unavailable at once"),
    ] {
        let found = said("max-unavailable-all", &[pool], &[]);
        assert_eq!(found, [format!("MachineConfigPool/worker spec.maxUnavailable: {message}")]);
    }
    let near = [
        percent("99%", None),
        percent("99%", Some(3)),
        number(3, None),
        number(2, Some(3)),
        number(1, Some(1)),
        worker(),
    ];
    for pool in near {
        assert_eq!(
            said("max-unavailable-all", std::slice::from_ref(&pool), &[]),
            [""; 0],
            "{:?}",
            pool.spec.max_unavailable
        );
        assert_eq!(said("max-unavailable", &[pool], &[]), [""; 0]);
    }
    for (pool, message) in [
        (percent("half", None), "`half` is neither a number nor a percentage"),
        (number(-1, Some(3)), "`-1` is negative"),
    ] {
        let found = said("max-unavailable", &[pool], &[]);
        assert_eq!(found, [format!("MachineConfigPool/worker spec.maxUnavailable: {message}")]);
    }
}

#[test]
fn the_shipped_objects_and_an_empty_input_have_nothing_to_say() {
    assert_eq!(lints(&shipped::pools(), &shipped::sources()), []);
    assert_eq!(lints(&[], &[]), []);
}

fn any_config() -> impl Strategy<Value = Value> {
    let text = || {
        prop_oneof![
            Just(Value::Null),
            Just(json!(7)),
            "\\PC{0,12}".prop_map(Value::from),
            "(\\[Unit\\]\n|A=b\n|\\\\|<a-b>|\r\n){0,6}".prop_map(Value::from),
            "data:,[a-z%<>]{0,8}".prop_map(Value::from),
        ]
    };
    let unit = (text(), text(), text(), any::<Option<bool>>()).prop_map(|(name, contents, dropin, flag)| {
        json!({"name": name, "contents": contents, "enabled": flag, "dropins": [{"name": dropin, "contents": contents}]})
    });
    let file = (text(), text()).prop_map(|(path, source)| json!({"path": path, "contents": {"source": source}}));
    (prop::collection::vec(unit, 0..3), prop::collection::vec(file, 0..3), prop::collection::vec(text(), 0..3))
        .prop_map(|(units, files, keys)| {
            config(&json!({
                "systemd": {"units": units},
                "storage": {"files": files},
                "passwd": {"users": [{"name": "boot", "sshAuthorizedKeys": keys}]}
            }))
        })
}

proptest! {
    #[test]
    fn nothing_that_is_written_makes_a_lint_panic_and_no_order_matters(
        configs in prop::collection::vec(("[0-9]{0,3}-?[a-z]{1,3}", any_config()), 0..4),
    ) {
        let mut configs: Vec<MachineConfig> = configs.into_iter().map(|(name, config)| source(&name, config)).collect();
        configs.sort_by(|a, b| a.name().cmp(b.name()));
        configs.dedup_by(|a, b| a.name() == b.name());
        let pools = [worker(), custom("infra")];
        let found = lints(&pools, &configs);
        prop_assert!(found.iter().all(|f| !f.message.contains('\n') && !f.help.contains('\n')));
        configs.reverse();
        prop_assert_eq!(found, lints(&pools, &configs));
    }
}

#[test]
fn a_unit_or_drop_in_that_is_brought_as_a_file_is_told_where_it_belongs() {
    let help = |path: &str, other: Option<MachineConfig>| {
        let sources: Vec<MachineConfig> =
            [file("50-a", path, "[Service]\nNice=1\n")].into_iter().chain(other).collect();
        let found = lints(&[worker()], &sources);
        found.into_iter().find(|f| f.rule == "unit-as-file").map(|f| {
            assert_eq!(
                (f.object.as_str(), f.path.as_str()),
                ("MachineConfig/50-a", "spec.config.storage.files[0].path")
            );
            f.help
        })
    };
    let unit_help = Some("write it under systemd.units, with name: a.service".to_owned());
    let dropin_help = Some("write it as dropins of a.service under systemd.units, with name: 10-x.conf".to_owned());
    for (path, expected) in [
        ("/etc/systemd/system/a.service", &unit_help),
        ("/usr/lib/systemd/system/a.service", &unit_help),
        ("/usr/local/lib/systemd/system/a.service", &unit_help),
        ("/etc/systemd/system/a.service.d/10-x.conf", &dropin_help),
        ("/etc/systemd/system/a.service.d/README", &None),
        ("/etc/systemd/system/a.target.wants/a.service", &None),
        ("/etc/systemd/system/README.md", &None),
        ("/etc/systemd/system.conf.d/10-x.conf", &None),
        // They are no units of the system: under systemd.units they would be other ones.
        ("/etc/systemd/user/a.service", &None),
    ] {
        assert_eq!(help(path, None), *expected, "{path}");
    }
    // The same path twice is an error of its own.
    let same = unit("60-b", json!({"name": "a.service", "contents": "[Service]\n"}));
    assert_eq!(help("/etc/systemd/system/a.service", Some(same.clone())), None);
    assert_eq!(help("/etc/systemd/system/a.service.d/10-x.conf", Some(same.clone())), dropin_help);
    assert_eq!(help("/usr/lib/systemd/system/a.service", Some(same)), unit_help);
}
