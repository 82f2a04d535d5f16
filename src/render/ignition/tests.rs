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
