//! Rules that need more than one part: reading, validation and merge together.

use super::*;
use serde_json::json;

fn config(value: &Value) -> Config {
    let (config, report) = parse_value(value);
    config.unwrap_or_else(|| panic!("{report:?}"))
}

#[test]
fn nulls_unknown_keys_and_empty_sections_are_gone_after_reading() {
    let read = config(&json!({
        "ignition": {"version": "3.4.0", "timeouts": {}, "config": {"merge": []}},
        "storage": {"files": [{"path": "/a", "mode": null, "contents": {}, "extra": 1}], "disks": null},
        "systemd": null,
        "extra": {"deep": true},
    }));
    assert_eq!(read.0, json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/a"}]}}));
}

#[test]
fn each_type_error_is_reported_at_its_field() {
    let (read, report) = parse_value(&json!({
        "ignition": {"version": "3.4.0"},
        "storage": {"files": [{"path": "/a", "mode": "0644"}, {"path": 1}], "links": {}},
        "systemd": {"units": [{"name": "a.service", "enabled": "yes"}]},
    }));
    assert_eq!(read, None);
    let found: Vec<_> = report.errors.iter().map(|entry| (entry.pointer.as_str(), entry.message.as_str())).collect();
    assert_eq!(
        found,
        [
            ("/storage/files/0/mode", "expected a whole number, found a string (remove the quotes)"),
            ("/storage/files/1/path", "expected a string, found a number"),
            ("/storage/links", "expected a list, found an object"),
            ("/systemd/units/0/enabled", "expected true or false, found a string (remove any quotes)"),
        ]
    );
}

#[test]
fn a_foreign_version_is_the_only_error() {
    for version in ["3.2.0", "3.5.0", "2.2.0", "3.4.0-experimental", "3.4", "v3.4.0", " 3.4.0", "3.4.0+b", ""] {
        let (read, report) =
            parse_value(&json!({"ignition": {"version": version}, "storage": {"files": [{"path": 1}]}}));
        assert_eq!(read, None);
        let [error] = report.errors.as_slice() else { panic!("{version}: {report:?}") };
        assert_eq!(error.pointer, "/ignition/version");
        assert!(error.message.contains("must be 3.4.0"), "{}", error.message);
    }
    for version in ["3.4.0", "03.4.0", "3.4.00", "3.4.0-", "3.4.0+"] {
        config(&json!({"ignition": {"version": version}}));
    }
}

#[test]
fn a_plain_source_over_gzip_keeps_the_flag_by_the_specification_only() {
    //
    let parent = config(&json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [
        {"path": "/a", "mode": 384, "contents": {"source": "data:,x", "compression": "gzip"}}]}}));
    let child = config(&json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [
        {"path": "/a", "contents": {"source": "data:,y"}}]}}));
    assert_eq!(
        merge(&parent, &child).0["storage"]["files"][0],
        json!({"path": "/a", "mode": 384, "contents": {"source": "data:,y", "compression": "gzip"}})
    );
    let mut layers = Layers::new(parent, ContentsRule::Whole);
    layers.lay(child);
    assert_eq!(
        layers.finish().0["storage"]["files"][0],
        json!({"path": "/a", "mode": 384, "contents": {"source": "data:,y"}})
    );
}

#[test]
fn the_nearest_key_is_of_the_same_object_and_alike() {
    assert_eq!(nearest_key("/storage/files/0/Mode"), Some("mode"));
    assert_eq!(nearest_key("/storage/files/0/content"), Some("contents"));
    assert_eq!(nearest_key("/systemd/unit"), Some("units"));
    assert_eq!(nearest_key("/systemd/units/3/enable"), Some("enabled"));
    assert_eq!(nearest_key("/storages"), Some("storage"));
    for nothing_alike in
        ["/storage/files/0/user/x", "/metadata", "", "/nowhere/x", "/storage/files/0/contentEncodingOfIt"]
    {
        assert_eq!(nearest_key(nothing_alike), None, "{nothing_alike}");
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    /// A value or its absence, from a few: so that layers meet.
    fn maybe(values: Vec<Value>) -> impl Strategy<Value = Option<Value>> + Clone {
        prop::option::of(prop::sample::select(values))
    }

    fn object(fields: Vec<(&'static str, Option<Value>)>) -> Value {
        Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }

    /// Items in any order, one for each of some names.
    fn items(
        key: &'static str,
        names: &'static [&'static str],
        item: impl Strategy<Value = Value> + Clone,
    ) -> impl Strategy<Value = Option<Value>> + Clone {
        prop::collection::vec((prop::sample::select(names), item), 0..4).prop_map(move |items| {
            let mut seen = std::collections::BTreeSet::new();
            let items: Vec<Value> = items
                .into_iter()
                .filter(|(name, _)| seen.insert(*name))
                .map(|(name, mut item)| {
                    item[key] = json!(name);
                    item
                })
                .collect();
            (!items.is_empty()).then_some(Value::Array(items))
        })
    }

    /// What mcx supports: files, units, users with keys. Nothing can change its kind among these.
    fn any_config() -> impl Strategy<Value = Config> {
        let file = (
            maybe(vec![json!(0), json!(420)]),
            maybe(vec![json!("data:,x"), json!("data:,y")]),
            maybe(vec![json!(""), json!("gzip")]),
            maybe(vec![json!({"id": 1}), json!({"id": 0})]),
        )
            .prop_map(|(mode, source, compression, user)| {
                let contents = object(vec![("source", source), ("compression", compression)]);
                object(vec![("mode", mode), ("contents", Some(contents)), ("user", user)])
            });
        let contents = maybe(vec![json!(""), json!("[S]\nA=b\n"), json!("[S]\n")]);
        let dropin = contents.clone().prop_map(|contents| object(vec![("contents", contents)]));
        let flags = || maybe(vec![json!(true), json!(false)]);
        let unit = (contents, flags(), flags(), items("name", &["a.conf", "b.conf"], dropin)).prop_map(
            |(contents, enabled, mask, dropins)| {
                object(vec![("contents", contents), ("enabled", enabled), ("mask", mask), ("dropins", dropins)])
            },
        );
        let keys = prop::sample::subsequence(vec!["k1", "k2", "k3"], 0..=3).prop_shuffle();
        let user = keys.prop_map(|keys| json!({"sshAuthorizedKeys": keys}));
        (
            items("path", &["/a", "/b", "/c"], file),
            items("name", &["a.service", "b.timer"], unit),
            items("name", &["boot", "core"], user),
        )
            .prop_map(|(files, units, users)| {
                config(&json!({
                    "ignition": {"version": "3.4.0"}, "storage": {"files": files}, "systemd": {"units": units},
                    "passwd": {"users": users},
                }))
            })
    }

    proptest! {
        #[test]
        fn merge_is_associative_where_nothing_changes_its_kind(a in any_config(), b in any_config(), c in any_config()) {
            let left = merge(&merge(&a, &b), &c);
            prop_assert_eq!(&left, &merge(&a, &merge(&b, &c)));
            let mut layers = Layers::new(a, ContentsRule::ByField);
            layers.lay(b);
            layers.lay(c);
            prop_assert_eq!(layers.finish(), left);
        }

        #[test]
        fn merge_with_whole_contents_is_associative_too(a in any_config(), b in any_config(), c in any_config()) {
            let over = |below: &Config, above: &Config| {
                let mut layers = Layers::new(below.clone(), ContentsRule::Whole);
                layers.lay(above.clone());
                layers.finish()
            };
            prop_assert_eq!(over(&over(&a, &b), &c), over(&a, &over(&b, &c)));
        }

        #[test]
        fn merging_a_config_with_itself_or_nothing_changes_nothing(a in any_config()) {
            let nothing = config(&json!({"ignition": {"version": "3.4.0"}}));
            prop_assert_eq!(&merge(&a, &a), &a);
            prop_assert_eq!(&merge(&a, &nothing), &a);
            prop_assert_eq!(&merge(&nothing, &a), &a);
        }

        #[test]
        fn reading_again_changes_nothing(a in any_config()) {
            prop_assert_eq!(&read_value(&a.0).unwrap(), &a);
        }

        #[test]
        fn no_text_makes_parsing_panic(text in prop::collection::vec(any::<u8>(), 0..60), odd in "[{}\\[\\]\",:a0-9.e-]{0,60}") {
            let _ = parse(&text);
            let _ = parse(odd.as_bytes());
            if let Ok(value) = serde_json::from_str(&odd) {
                let _ = parse_value(&value);
            }
        }
    }
}

#[test]
fn deep_json_is_an_error_and_no_overflow() {
    for text in ["[".repeat(100_000), "{\"a\":".repeat(100_000)] {
        let (config, report) = parse(text.as_bytes());
        assert!(config.is_none() && report.errors[0].message.contains("nested deeper"), "{report:?}");
    }
}

#[test]
fn laying_many_configs_takes_linear_time() {
    let layer = |n: usize| {
        let files: Vec<Value> = (0..20).map(|i| json!({"path": format!("/f{n}-{i}"), "mode": 420})).collect();
        config(&json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}}))
    };
    let configs: Vec<Config> = (0..500).map(layer).collect();
    let begun = std::time::Instant::now();
    let mut layers = Layers::new(configs[0].clone(), ContentsRule::ByField);
    for config in &configs[1..] {
        layers.lay(config.clone());
    }
    assert_eq!(layers.finish().0["storage"]["files"].as_array().unwrap().len(), 10_000);
    // Merging each into the result of those before takes minutes in a debug build.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
