//! What a rendered config means for a node: files, units, keys, decoded. Everything that compares, compares these.
//!
//! The rendered config is written from here ([`Items::to_config`]) and read back here ([`Items::from_config`]), and its name
//! is taken from here ([`Items::hash`]): the three cannot disagree about what counts.

use super::ignition::contents;
use super::merge;
use crate::api::ignition_config as plain;
use crate::api::{IGNITION_VERSION, IgnitionConfig, SSH_USER};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
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

/// Size and digest of decoded contents. Kept beside contents, it saves decoding them; written as `SIZE SHA256`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Measure {
    size: u64,
    sha256: [u8; 32],
}

impl From<Measure> for String {
    fn from(measure: Measure) -> Self {
        format!("{} {}", measure.size, hex(&measure.sha256))
    }
}

impl TryFrom<String> for Measure {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const WRONG: &str = "no size and digest";
        let (size, digits) = text.split_once(' ').ok_or(WRONG)?;
        let mut sha256 = [0; 32];
        if digits.len() != 2 * sha256.len() || !digits.is_ascii() {
            return Err(WRONG);
        }
        for (at, byte) in sha256.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| WRONG)?;
        }
        Ok(Self { size: size.parse().map_err(|_| WRONG)?, sha256 })
    }
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
    /// Bytes that are decoded at once where they are only counted and digested.
    pub(super) const PART: usize = 64 << 10;

    /// From `contents.source` and `contents.compression` of a file; `None` is an empty file.
    pub fn new(source: Option<&str>, compression: Option<&str>) -> Result<Self, contents::Error> {
        Ok(Self::read(source, None, compression, Self::PART)?.0)
    }

    /// As [`Content::new`], with the first `head` bytes: for checks that look into them, so that they are decoded once.
    pub(super) fn read(
        source: Option<&str>,
        shared: Option<&Arc<str>>,
        compression: Option<&str>,
        head: usize,
    ) -> Result<(Self, Vec<u8>), contents::Error> {
        let mut reader = contents::open(source, compression, Self::FILE_LIMIT)?;
        let mut first = Vec::with_capacity(reader.expected().min(head));
        reader.by_ref().take(head as u64).read_to_end(&mut first).map_err(contents::Error::of)?;
        let mut digest = Sha256::new_with_prefix(&first);
        let mut size = first.len() as u64;
        if first.len() == head {
            let mut part = vec![0; Self::PART];
            loop {
                match reader.read(&mut part).map_err(contents::Error::of)? {
                    0 => break,
                    count => {
                        digest.update(&part[..count]);
                        size += count as u64;
                    }
                }
            }
        }
        let content = Self {
            source: shared.map_or_else(|| source.unwrap_or_default().into(), Arc::clone),
            gzip: compression == Some("gzip"),
            size,
            sha256: digest.finalize().into(),
        };
        Ok((content, first))
    }

    /// Of a source that was decoded before, with what was found then.
    pub(super) fn known(source: Option<&str>, compression: Option<&str>, found: Measure) -> Self {
        let gzip = compression == Some("gzip");
        Self { source: source.unwrap_or_default().into(), gzip, size: found.size, sha256: found.sha256 }
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

    /// The decoded bytes, all at once.
    pub fn decode(&self) -> Result<Vec<u8>, contents::Error> {
        contents::decode(self.source(), self.gzip.then_some("gzip"), Self::FILE_LIMIT)
    }

    /// The decoded bytes, to be read in parts.
    pub fn open(&self) -> Result<contents::Reader<'_>, contents::Error> {
        contents::open(self.source(), self.gzip.then_some("gzip"), Self::FILE_LIMIT)
    }

    fn source(&self) -> Option<&str> {
        Some(&*self.source).filter(|s| !s.is_empty())
    }

    /// What is found by decoding it.
    pub fn measure(&self) -> Measure {
        Measure { size: self.size, sha256: self.sha256 }
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

    /// What it is equal by: digest and size of the decoded bytes.
    pub(super) fn digest(&self) -> ([u8; 32], u64) {
        (self.sha256, self.size)
    }

    /// As `contents` of an Ignition file. An empty file is written out, since `overwrite` needs a source.
    fn to_plain(&self) -> plain::Contents {
        let source = if self.size == 0 { "data:,".into() } else { plain::Text(Arc::clone(&self.source)) };
        let compression = (self.size > 0 && self.gzip).then(|| "gzip".into());
        plain::Contents { compression, source: Some(source), verification: None }
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
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
    fn to_plain(&self) -> Option<plain::Owner> {
        match self {
            Self::Id(0) => None,
            Self::Id(id) => Some(plain::Owner { id: Some((*id).into()), name: None }),
            Self::Name(name) => Some(plain::Owner { id: None, name: Some(name.as_str().into()) }),
        }
    }
}

impl UnitItem {
    /// Whether nothing of the unit is ours.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn to_plain(&self, name: &str) -> plain::Unit {
        let dropins = self.dropins.iter().map(|(name, contents)| plain::Dropin {
            contents: Some(contents.as_str().into()),
            name: Some(name.as_str().into()),
        });
        plain::Unit {
            contents: self.contents.as_deref().map(Into::into),
            dropins: (!self.dropins.is_empty()).then(|| dropins.collect()),
            enabled: self.enabled,
            mask: self.mask,
            name: Some(name.into()),
        }
    }
}

impl FileItem {
    fn to_plain(&self, path: &str) -> plain::File {
        plain::File {
            contents: Some(self.content.to_plain()),
            group: self.group.to_plain(),
            mode: Some(self.mode.into()),
            overwrite: Some(true),
            path: Some(path.into()),
            user: self.user.to_plain(),
        }
    }
}

impl Items {
    /// Reads a rendered config (`spec.config`). The errors are one line each, with the field path.
    ///
    /// All rules for sources hold here, too: the daemon's last guard against a config that was edited by hand.
    pub fn from_config(config: impl Into<IgnitionConfig>) -> Result<Self, Vec<String>> {
        let (items, errors) = merge::single(&config.into());
        if errors.is_empty() { Ok(items) } else { Err(errors) }
    }

    /// The Ignition config of these items: files, units, drop-ins and keys sorted, mode and `overwrite` explicit, nothing
    /// empty in it. [`Items::from_config`] reads it back. Contents keep the encoding of their source.
    pub fn to_config(&self) -> IgnitionConfig {
        let files = self.files.iter().map(|(path, file)| file.to_plain(path));
        let units = self.units.iter().map(|(name, unit)| unit.to_plain(name));
        let users = self.keys.iter().map(|keys| plain::User {
            name: Some(SSH_USER.into()),
            keys: Some(keys.iter().map(|key| key.as_str().into()).collect()),
            user: None,
        });
        let config = plain::Plain {
            ignition: Some(plain::Ignition { version: Some(IGNITION_VERSION.into()) }),
            passwd: self.keys.is_some().then(|| plain::Passwd { users: Some(users.collect()) }),
            storage: (!self.files.is_empty()).then(|| plain::Storage { files: Some(files.collect()) }),
            systemd: (!self.units.is_empty()).then(|| plain::Systemd { units: Some(units.collect()) }),
        };
        config.into()
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

    /// What is found by decoding the contents of each file, in the order in which [`Items::to_config`] lists them.
    pub fn measures(&self) -> Vec<Measure> {
        self.files.values().map(|file| file.content.measure()).collect()
    }

    /// All decoded contents together, in bytes.
    pub fn decoded_size(&self) -> u64 {
        self.files.values().map(|f| f.content.size).sum()
    }
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
