//! What a rendered config means for a node: files, units, keys, decoded. Everything that compares, compares these.
//!
//! The rendered config is written from here ([`Items::to_config`]) and read back here ([`Items::from_config`]), and its name
//! is taken from here ([`Items::hash`]): the three cannot disagree about what counts.

use super::ignition::contents;
use super::merge;
use crate::api::{IGNITION_VERSION, SSH_USER};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// What a node has under a config. Two configs with equal items are the same config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Items {
    /// By absolute clean path.
    pub files: BTreeMap<String, FileItem>,
    /// By unit name. A unit of which nothing is ours is not in here.
    pub units: BTreeMap<String, UnitItem>,
    /// Keys of user `boot`, one line each, sorted and without repeats, so that renaming a source does not move them; none
    /// when no source names a key: then the file is not managed. Never empty.
    pub keys: Option<Vec<String>>,
}

/// A managed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileItem {
    /// Its bytes.
    pub content: Content,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// Owner.
    pub user: Owner,
    /// Group.
    pub group: Owner,
}

/// A user or group, as the source names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// By number. 0 when the source says nothing.
    Id(u32),
    /// By name in the node's own `passwd` or `group`.
    Name(String),
}

/// Bytes of a file: kept as the source encodes them, compared by digest and size, decoded when needed.
#[derive(Clone)]
pub struct Content {
    /// The `data:` URL; empty for an empty file.
    source: Arc<str>,
    /// Whether the decoded data is gzip.
    gzip: bool,
    size: u64,
    sha256: [u8; 32],
}

/// A managed unit. Absent fields are not ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitItem {
    /// The unit's own file in `/etc/systemd/system`; an empty text in a source is none.
    pub contents: Option<String>,
    /// Drop-ins by file name, `NAME.conf`; those with empty text in a source are not in here.
    pub dropins: BTreeMap<String, String>,
    /// Enabled, disabled, or as it is.
    pub enabled: Option<bool>,
    /// Masked, unmasked, or as it is. Masked wins over `contents` on disk: they are kept aside until it is unmasked.
    pub mask: Option<bool>,
}

impl Content {
    /// Most bytes of one file, decoded.
    pub const FILE_LIMIT: u64 = 64 << 20;
    /// Most bytes of all files of one config, decoded.
    pub const CONFIG_LIMIT: u64 = 1 << 30;

    /// From `contents.source` and `contents.compression` of a file; `None` is an empty file.
    pub fn new(source: Option<&str>, compression: Option<&str>) -> Result<Self, contents::Error> {
        Ok(Self::read(source, compression)?.0)
    }

    /// As [`Content::new`], with the bytes: for checks that look into them, so that they are decoded once.
    pub(super) fn read(source: Option<&str>, compression: Option<&str>) -> Result<(Self, Vec<u8>), contents::Error> {
        let bytes = contents::decode(source, compression, Self::FILE_LIMIT)?;
        let content = Self {
            source: source.unwrap_or_default().into(),
            gzip: compression == Some("gzip"),
            size: bytes.len() as u64,
            sha256: Sha256::digest(&bytes).into(),
        };
        Ok((content, bytes))
    }

    /// Of these bytes, encoded in base64.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            source: format!("data:;base64,{}", STANDARD.encode(bytes)).into(),
            gzip: false,
            size: bytes.len() as u64,
            sha256: Sha256::digest(bytes).into(),
        }
    }

    /// The decoded bytes.
    pub fn decode(&self) -> Result<Vec<u8>, contents::Error> {
        let source = Some(&*self.source).filter(|s| !s.is_empty());
        contents::decode(source, self.gzip.then_some("gzip"), Self::FILE_LIMIT)
    }

    /// Size in bytes, decoded.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Size in bytes as the source encodes it: what it weighs in the rendered config.
    pub fn encoded_size(&self) -> u64 {
        self.source.len() as u64
    }

    /// SHA-256 of the decoded bytes.
    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }

    /// As `contents` of an Ignition file. An empty file is written out, since `overwrite` needs a source.
    fn to_value(&self) -> Value {
        if self.size == 0 {
            return json!({"source": "data:,"});
        }
        if self.gzip {
            return json!({"compression": "gzip", "source": &*self.source});
        }
        json!({"source": &*self.source})
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.sha256 == other.sha256 && self.size == other.size
    }
}

impl Eq for Content {}

impl std::fmt::Debug for Content {
    /// Size and digest only: contents may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content({} bytes, sha256 {})", self.size, hex(&self.sha256[..6]))
    }
}

impl Owner {
    fn to_value(&self) -> Option<Value> {
        match self {
            Self::Id(0) => None,
            Self::Id(id) => Some(json!({"id": id})),
            Self::Name(name) => Some(json!({"name": name})),
        }
    }
}

impl UnitItem {
    /// Whether nothing of the unit is ours.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn to_value(&self, name: &str) -> Value {
        let mut unit = Map::new();
        if let Some(contents) = &self.contents {
            unit.insert("contents".to_owned(), contents.as_str().into());
        }
        if !self.dropins.is_empty() {
            let dropins = self.dropins.iter().map(|(name, contents)| json!({"contents": contents, "name": name}));
            unit.insert("dropins".to_owned(), dropins.collect());
        }
        if let Some(enabled) = self.enabled {
            unit.insert("enabled".to_owned(), enabled.into());
        }
        if let Some(mask) = self.mask {
            unit.insert("mask".to_owned(), mask.into());
        }
        unit.insert("name".to_owned(), name.into());
        Value::Object(unit)
    }
}

impl FileItem {
    fn to_value(&self, path: &str) -> Value {
        let mut file = Map::new();
        file.insert("contents".to_owned(), self.content.to_value());
        if let Some(group) = self.group.to_value() {
            file.insert("group".to_owned(), group);
        }
        file.insert("mode".to_owned(), self.mode.into());
        file.insert("overwrite".to_owned(), true.into());
        file.insert("path".to_owned(), path.into());
        if let Some(user) = self.user.to_value() {
            file.insert("user".to_owned(), user);
        }
        Value::Object(file)
    }
}

impl Items {
    /// Reads a rendered config (`spec.config`). The errors are one line each, with the field path.
    ///
    /// All rules for sources hold here, too: the daemon's last guard against a config that was edited by hand.
    pub fn from_config(config: &Value) -> Result<Self, Vec<String>> {
        let (items, errors) = merge::single(config);
        if errors.is_empty() { Ok(items) } else { Err(errors) }
    }

    /// The Ignition config of these items: files, units, drop-ins and keys sorted, mode and `overwrite` explicit, nothing
    /// empty in it. [`Items::from_config`] reads it back. Contents keep the encoding of their source.
    pub fn to_config(&self) -> Value {
        let mut config = Map::new();
        config.insert("ignition".to_owned(), json!({"version": IGNITION_VERSION}));
        if let Some(keys) = &self.keys {
            config.insert("passwd".to_owned(), json!({"users": [{"name": SSH_USER, "sshAuthorizedKeys": keys}]}));
        }
        if !self.files.is_empty() {
            let files: Vec<Value> = self.files.iter().map(|(path, file)| file.to_value(path)).collect();
            config.insert("storage".to_owned(), list_of("files", files));
        }
        if !self.units.is_empty() {
            let units: Vec<Value> = self.units.iter().map(|(name, unit)| unit.to_value(name)).collect();
            config.insert("systemd".to_owned(), list_of("units", units));
        }
        Value::Object(config)
    }

    /// 32 hex digits over a canonical form: decoded bytes' digests, sorted keys and items, defaults filled in.
    ///
    /// Not over JSON: its key order and escaping are the serializer's affair (L-08). Every field is tagged and every text
    /// carries its length, so that no two different items give the same bytes.
    pub fn hash(&self) -> String {
        let mut form = Form(Sha256::new());
        form.text("mcx items v1");
        form.number(self.files.len() as u64);
        for (path, file) in &self.files {
            form.text(path);
            form.number(file.content.size);
            form.0.update(file.content.sha256);
            form.number(file.mode.into());
            form.owner(&file.user);
            form.owner(&file.group);
        }
        form.number(self.units.len() as u64);
        for (name, unit) in &self.units {
            form.text(name);
            form.optional(unit.contents.as_deref());
            form.number(unit.dropins.len() as u64);
            for (name, contents) in &unit.dropins {
                form.text(name);
                form.text(contents);
            }
            form.flag(unit.enabled);
            form.flag(unit.mask);
        }
        let keys = self.keys.as_deref().unwrap_or_default();
        form.number(keys.len() as u64);
        for key in keys {
            form.text(key);
        }
        hex(&form.0.finalize()[..crate::api::ConfigName::HASH_DIGITS / 2])
    }

    /// The text of `authorized_keys` with these keys.
    pub fn keys_text(keys: &[String]) -> String {
        keys.iter().flat_map(|key| [key.as_str(), "\n"]).collect()
    }

    /// All decoded contents together, in bytes.
    pub fn decoded_size(&self) -> u64 {
        self.files.values().map(|f| f.content.size).sum()
    }
}

/// `{name: items}`. Not by `json!`, which would copy all of them.
fn list_of(name: &str, items: Vec<Value>) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), Value::Array(items))]))
}

/// The canonical byte form that is hashed.
struct Form(Sha256);

impl Form {
    fn number(&mut self, number: u64) {
        self.0.update(number.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.number(u64::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }

    fn flag(&mut self, flag: Option<bool>) {
        self.number(flag.map_or(0, |f| 1 + u64::from(f)));
    }

    fn owner(&mut self, owner: &Owner) {
        match owner {
            Owner::Id(id) => {
                self.number(0);
                self.number((*id).into());
            }
            Owner::Name(name) => {
                self.number(1);
                self.text(name);
            }
        }
    }
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
