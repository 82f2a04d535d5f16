//! What holds of every set of sources.

use super::tests::{config, rendered, source, worker};
use super::*;
use base64::Engine as _;
use proptest::prelude::*;
use serde_json::json;
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
            prop_assert_eq!(Items::from_stored(&rendered.config).unwrap(), rendered.items);
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
            ignition::read_value(&validate_as_specified(s.spec.config.as_ref().unwrap())).unwrap()
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
    fn the_rendered_config_reads_back_and_does_not_depend_on_order(
        (sources, shuffled) in any_sources().prop_flat_map(|s| (Just(s.clone()), Just(s).prop_shuffle()))
    ) {
        let there = rendered(&sources);
        prop_assert_eq!(&Items::from_config(&there.config).unwrap(), &there.items);
        prop_assert_eq!(Items::from_stored(&there.config).unwrap(), there.items);
        let back = rendered(&shuffled);
        prop_assert_eq!(back.config.to_string(), there.config.to_string());
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
        let mut both = vec![source("00-first", rendered(first).config)];
        both.extend_from_slice(rest);
        prop_assert_eq!(rendered(&both).name, rendered(&sources).name);
    }

    #[test]
    fn rendering_the_rendered_config_again_changes_nothing(sources in any_sources()) {
        let once = rendered(&sources);
        let twice = rendered(&[source("00-x", once.config.clone())]);
        prop_assert_eq!(&once.config, &twice.config);
        prop_assert_eq!(once.name, twice.name);
    }
}

/// Writes each source of contents in another of the forms that mean the same bytes.
fn encode_anew(sources: &mut [MachineConfig], forms: &[usize]) {
    let mut contents: Vec<&mut Value> = Vec::new();
    for source in sources {
        let files = source.spec.config.as_mut().unwrap()["storage"]["files"].as_array_mut().unwrap();
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
