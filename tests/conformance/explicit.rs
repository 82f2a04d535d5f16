//! What a config of the supported parts means, read here and not by mcx: the second opinion that mcx is compared with.
//!
//! The explicit form of a file has its mode and owners, of a unit only what is said of it; items and keys are sorted, texts
//! that are empty are none. Two configs of one explicit form are one config.

use mcx::render::ignition::contents;
use serde_json::{Map, Value, json};
use sha2::Digest as _;
use std::collections::{BTreeMap, BTreeSet};

/// A config by its items.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Explicit {
    /// Each as it would stand in a rendered config.
    pub(crate) files: BTreeMap<String, Value>,
    pub(crate) units: BTreeMap<String, Value>,
    pub(crate) keys: BTreeSet<String>,
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// A text that is there and not empty.
fn some_text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

impl Explicit {
    pub(crate) fn of(config: &Value) -> Self {
        let path = |file: &Value| file["path"].as_str().unwrap_or_default().to_owned();
        let name = |unit: &Value| unit["name"].as_str().unwrap_or_default().to_owned();
        let users = list(config, "/passwd/users").filter(|user| user["name"] == "boot");
        Self {
            files: list(config, "/storage/files").map(|f| (path(f), file(f))).collect(),
            units: list(config, "/systemd/units").filter_map(|u| Some((name(u), unit(u)?))).collect(),
            keys: users
                .flat_map(|u| list(u, "/sshAuthorizedKeys"))
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        }
    }

    /// The rendered config of these items.
    pub(crate) fn to_config(&self) -> Value {
        let mut config = json!({"ignition": {"version": "3.4.0"}});
        if !self.keys.is_empty() {
            config["passwd"] = json!({"users": [{"name": "boot", "sshAuthorizedKeys": self.keys}]});
        }
        if !self.files.is_empty() {
            config["storage"] = json!({"files": self.files.values().collect::<Vec<_>>()});
        }
        if !self.units.is_empty() {
            config["systemd"] = json!({"units": self.units.values().collect::<Vec<_>>()});
        }
        config
    }

    /// The same with each file's contents as the digest of their bytes.
    pub(crate) fn decoded(&self) -> Self {
        let mut decoded = self.clone();
        for file in decoded.files.values_mut() {
            let contents = &file["contents"];
            let bytes = contents::decode(contents["source"].as_str(), contents["compression"].as_str(), 1 << 26);
            let digest = bytes.map(|bytes| format!("{:x?}", sha2::Sha256::digest(&bytes)));
            file["contents"] = digest.unwrap_or_else(|error| format!("not decodable: {error}")).into();
        }
        decoded
    }
}

fn file(given: &Value) -> Value {
    let source = given["contents"]["source"].as_str();
    let mut contents = json!({"source": source.unwrap_or("data:,")});
    if let Some(compression) = some_text(&given["contents"]["compression"]).filter(|_| source.is_some()) {
        contents["compression"] = compression.into();
    }
    let mut file = json!({
        "contents": contents,
        "mode": given["mode"].as_i64().unwrap_or(0o644),
        "overwrite": true,
        "path": given["path"],
    });
    for who in ["user", "group"] {
        if let Some(owner) = owner(&given[who]) {
            file[who] = owner;
        }
    }
    file
}

/// Owner root by number is what holds without one.
fn owner(given: &Value) -> Option<Value> {
    let mut owner = Map::new();
    if let Some(id) = given["id"].as_i64().filter(|id| *id != 0) {
        owner.insert("id".to_owned(), id.into());
    }
    if let Some(name) = some_text(&given["name"]) {
        owner.insert("name".to_owned(), name.into());
    }
    (!owner.is_empty()).then_some(Value::Object(owner))
}

fn unit(given: &Value) -> Option<Value> {
    let mut unit = Map::new();
    if let Some(text) = some_text(&given["contents"]) {
        unit.insert("contents".to_owned(), text.into());
    }
    let dropins = list(given, "/dropins").filter_map(|d| Some((d["name"].as_str()?, some_text(&d["contents"])?)));
    let dropins: BTreeMap<&str, &str> = dropins.collect();
    if !dropins.is_empty() {
        let dropins = dropins.into_iter().map(|(name, text)| json!({"name": name, "contents": text}));
        unit.insert("dropins".to_owned(), dropins.collect());
    }
    for flag in ["enabled", "mask"] {
        if let Some(value) = given[flag].as_bool() {
            unit.insert(flag.to_owned(), value.into());
        }
    }
    if unit.is_empty() {
        return None;
    }
    unit.insert("name".to_owned(), given["name"].clone());
    Some(Value::Object(unit))
}
