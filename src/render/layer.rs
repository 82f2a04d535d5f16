//! A config as typed values that borrow from its JSON: what one source says, and no more.
//!
//! Reads only what `shape::walk` has found to have the right types; anything else is as if it were absent.

use serde_json::Value;

/// What one source says.
#[derive(Debug, Default)]
pub(super) struct Layer<'a> {
    pub(super) files: Vec<FileLayer<'a>>,
    pub(super) units: Vec<UnitLayer<'a>>,
    pub(super) users: Vec<UserLayer<'a>>,
}

/// A file of a source. What is none is not said, and an earlier source's holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileLayer<'a> {
    pub(super) path: &'a str,
    pub(super) contents: Contents<'a>,
    pub(super) mode: Option<i128>,
    pub(super) overwrite: Option<bool>,
    pub(super) user: OwnerLayer<'a>,
    pub(super) group: OwnerLayer<'a>,
}

/// `contents` of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Contents<'a> {
    pub(super) source: Option<&'a str>,
    pub(super) compression: Option<&'a str>,
    pub(super) hash: Option<&'a str>,
}

/// `user` or `group` of a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnerLayer<'a> {
    pub(super) id: Option<i128>,
    pub(super) name: Option<&'a str>,
}

/// A unit of a source.
#[derive(Debug, Clone)]
pub(super) struct UnitLayer<'a> {
    pub(super) name: &'a str,
    pub(super) contents: Option<&'a str>,
    pub(super) enabled: Option<bool>,
    pub(super) mask: Option<bool>,
    pub(super) dropins: Vec<(&'a str, Option<&'a str>)>,
}

/// A user of a source: `name`, or the guide's `user`.
#[derive(Debug, Clone)]
pub(super) struct UserLayer<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) alias: Option<&'a str>,
    pub(super) keys: Vec<&'a str>,
}

fn elements<'a>(value: &'a Value, section: &str, list: &str) -> impl Iterator<Item = &'a Value> {
    value[section][list].as_array().into_iter().flatten()
}

fn integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

impl<'a> Layer<'a> {
    pub(super) fn new(config: &'a Value) -> Self {
        Self {
            files: elements(config, "storage", "files").map(FileLayer::new).collect(),
            units: elements(config, "systemd", "units").map(UnitLayer::new).collect(),
            users: elements(config, "passwd", "users").map(UserLayer::new).collect(),
        }
    }
}

impl<'a> FileLayer<'a> {
    fn new(file: &'a Value) -> Self {
        let contents = &file["contents"];
        let owner = |key: &str| OwnerLayer { id: integer(&file[key]["id"]), name: file[key]["name"].as_str() };
        Self {
            path: file["path"].as_str().unwrap_or_default(),
            contents: Contents {
                source: contents["source"].as_str(),
                compression: contents["compression"].as_str(),
                hash: contents["verification"]["hash"].as_str(),
            },
            mode: integer(&file["mode"]),
            overwrite: file["overwrite"].as_bool(),
            user: owner("user"),
            group: owner("group"),
        }
    }
}

impl<'a> UnitLayer<'a> {
    fn new(unit: &'a Value) -> Self {
        let dropins = unit["dropins"].as_array().into_iter().flatten();
        Self {
            name: unit["name"].as_str().unwrap_or_default(),
            contents: unit["contents"].as_str(),
            enabled: unit["enabled"].as_bool(),
            mask: unit["mask"].as_bool(),
            dropins: dropins.map(|d| (d["name"].as_str().unwrap_or_default(), d["contents"].as_str())).collect(),
        }
    }
}

impl<'a> UserLayer<'a> {
    fn new(user: &'a Value) -> Self {
        Self {
            name: user["name"].as_str(),
            alias: user["user"].as_str(),
            keys: user["sshAuthorizedKeys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
        }
    }

    /// The name, however it is spelled.
    pub(super) fn called(&self) -> &'a str {
        self.name.or(self.alias).unwrap_or_default()
    }
}
