//! What holds of every set of sources.

use super::tests::{KEY_A, KEY_B, config, rendered, shadowed, source, worker};
use super::*;
use base64::Engine as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::io::Write as _;

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
            let known = Items::from_stored(&rendered.config.to_value(), &rendered.items.measures()).unwrap();
            prop_assert_eq!(known.hash(), rendered.items.hash());
            prop_assert_eq!(Items::from_stored(&rendered.config.to_value(), &[]).unwrap(), rendered.items);
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

    /// What is told of an item is what is rendered, and what is hidden is what lint calls shadowed.
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
        let mut shadowed: Vec<_> = shadowed(&sources).into_iter().map(|s| (s.item, s.winner, s.loser)).collect();
        hidden.sort();
        shadowed.sort();
        prop_assert_eq!(hidden, shadowed);
    }

    #[test]
    fn the_rendered_config_reads_back_and_does_not_depend_on_order(
        (sources, shuffled) in any_sources().prop_flat_map(|s| (Just(s.clone()), Just(s).prop_shuffle()))
    ) {
        let there = rendered(&sources);
        prop_assert_eq!(&Items::from_config(&there.config).unwrap(), &there.items);
        prop_assert_eq!(Items::from_stored(&there.config.to_value(), &[]).unwrap(), there.items);
        let back = rendered(&shuffled);
        prop_assert_eq!(text(&back.config), text(&there.config));
        prop_assert_eq!(back.name, there.name);
    }

    /// how contents are encoded is no part of what a node has.
    #[test]
    fn the_name_does_not_depend_on_encodings(mut sources in any_sources(), forms in prop::collection::vec(0..4_usize, 1..6)) {
        let name = rendered(&sources).name;
        encode_anew(&mut sources, &forms);
        prop_assert_eq!(rendered(&sources).name, name);
    }

    #[test]
    fn the_name_changes_exactly_when_what_a_node_would_have_does(a in any_sources(), b in any_sources()) {
        let (one, other) = (rendered(&a), rendered(&b));
        prop_assert_eq!(one.name == other.name, on_a_node(&one.items) == on_a_node(&other.items));
        // Near ones as well: all but the last source.
        let fewer = a.split_last().map(|(_, fewer)| fewer).filter(|fewer| !fewer.is_empty());
        if let Some(fewer) = fewer.map(rendered) {
            prop_assert_eq!(one.name == fewer.name, on_a_node(&one.items) == on_a_node(&fewer.items));
        }
    }

    /// What is rendered of the first sources stands for them: the rest may be laid over it.
    #[test]
    fn laying_over_a_rendered_config_is_laying_over_its_sources(sources in any_sources(), at in 1..5_usize) {
        let (first, rest) = sources.split_at(at.min(sources.len()));
        let mut both = vec![source("00-first", rendered(first).config.to_value())];
        both.extend_from_slice(rest);
        prop_assert_eq!(rendered(&both).name, rendered(&sources).name);
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

/// Writes each source of contents in another of the forms that mean the same bytes.
fn encode_anew(sources: &mut [MachineConfig], forms: &[usize]) {
    let mut configs: Vec<Value> = sources.iter().map(|s| s.spec.config.as_ref().unwrap().to_value()).collect();
    let mut contents: Vec<&mut Value> = Vec::new();
    for config in &mut configs {
        let files = config["storage"]["files"].as_array_mut().unwrap();
        contents.extend(files.iter_mut().map(|file| &mut file["contents"]));
    }
    // A `compression` of its own would be laid over what another source compresses.
    let alone = contents.iter().any(|c| c["source"].is_null() && c["compression"].is_string());
    for (contents, form) in contents.into_iter().zip(forms.iter().cycle()) {
        let Some(url) = contents["source"].as_str() else { continue };
        let bytes = ignition::contents::decode(Some(url), None, 1000).unwrap();
        let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        *contents = match form {
            0 => json!({"source": format!("data:text/plain;charset=utf-8;base64,{}", base64(&bytes))}),
            1 => {
                let text = bytes.iter().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"));
                json!({"source": format!("data:,{text}"), "compression": ""})
            }
            2 if !alone => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&bytes).unwrap();
                json!({"source": format!("data:;base64,{}", base64(&encoder.finish().unwrap())), "compression": "gzip"})
            }
            _ => continue,
        };
    }
    for (source, config) in sources.iter_mut().zip(configs) {
        source.spec.config = Some(config.into());
    }
}

/// All that a node would have, as text: bytes, modes, owners, units, keys.
fn on_a_node(items: &Items) -> Vec<String> {
    let files = items.files.iter().map(|(path, file)| {
        format!("{path} {:?} {:o} {:?} {:?}", file.content.decode().unwrap(), file.mode, file.user, file.group)
    });
    let units = items.units.iter().map(|(name, unit)| {
        format!("{name} {:?} {:?} {:?} {:?}", unit.contents, unit.dropins, unit.enabled, unit.mask)
    });
    files.chain(units).chain(items.keys.iter().flatten().cloned()).collect()
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
