//! What a rendered config means for a node: files, units, keys, decoded. Everything that compares, compares these.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a node has under a config. Two configs with equal items are the same config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Items {
    /// By absolute clean path.
    pub files: BTreeMap<String, FileItem>,
    /// By unit name.
    pub units: BTreeMap<String, UnitItem>,
    /// Keys of user `boot`, one line each, in order of merge without repeats; none when no source names a key:
    /// then the file is not managed.
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
    /// Masked, unmasked, or as it is.
    pub mask: Option<bool>,
}

impl Content {
    /// Most bytes of one file, decoded.
    pub const FILE_LIMIT: u64 = 64 << 20;
    /// Most bytes of all files of one config, decoded.
    pub const CONFIG_LIMIT: u64 = 1 << 30;

    /// From `contents.source` and `contents.compression` of a file; `None` is an empty file.
    pub fn new(_source: Option<&str>, _compression: Option<&str>) -> Result<Self, super::ignition::contents::Error> {
        todo!()
    }

    /// The decoded bytes.
    pub fn decode(&self) -> Result<Vec<u8>, super::ignition::contents::Error> {
        todo!()
    }

    /// Size in bytes, decoded.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// SHA-256 of the decoded bytes.
    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
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
        write!(f, "Content({} bytes)", self.size)
    }
}

impl Items {
    /// Reads a rendered config (`spec.config`). The errors are one line each, with the field path.
    pub fn from_config(_config: &Value) -> Result<Self, Vec<String>> {
        todo!()
    }

    /// 32 hex digits over a canonical form: decoded bytes' digests, sorted keys and items, defaults filled in.
    pub fn hash(&self) -> String {
        todo!()
    }
}
