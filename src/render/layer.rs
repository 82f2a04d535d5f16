//! A config as typed values that borrow from it: what one source says, and no more.
//!
//! Of JSON it reads only what `shape::walk` has found to have the right types; anything else is as if it were absent.

use crate::api::ignition_config::{self as plain, Plain, Text};
use serde_json::Value;
use std::sync::Arc;

/// What one source says.
#[derive(Debug, Default, Clone)]
pub(super) struct Layer<'a> {
    pub(super) files: Vec<FileLayer<'a>>,
    pub(super) units: Vec<UnitLayer<'a>>,
    pub(super) users: Vec<UserLayer<'a>>,
}

/// A file of a source. What is none is not said, and an earlier source's holds.
#[derive(Debug, Clone, Copy, Default)]
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
    /// The same, where it can be kept without a copy.
    pub(super) shared: Option<&'a Arc<str>>,
    pub(super) compression: Option<&'a str>,
    pub(super) hash: Option<&'a str>,
}

/// `user` or `group` of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

fn text(text: Option<&Text>) -> Option<&str> {
    text.map(|text| &*text.0)
}

impl<'a> Layer<'a> {
    pub(super) fn of_plain(config: &'a Plain) -> Self {
        let files = config.storage.as_ref().and_then(|s| s.files.as_deref()).unwrap_or_default();
        let units = config.systemd.as_ref().and_then(|s| s.units.as_deref()).unwrap_or_default();
        let users = config.passwd.as_ref().and_then(|p| p.users.as_deref()).unwrap_or_default();
        Self {
            files: files.iter().map(FileLayer::of_plain).collect(),
            units: units.iter().map(UnitLayer::of_plain).collect(),
            users: users.iter().map(UserLayer::of_plain).collect(),
        }
    }

    pub(super) fn of_value(config: &'a Value) -> Self {
        Self {
            files: elements(config, "storage", "files").map(FileLayer::of_value).collect(),
            units: elements(config, "systemd", "units").map(UnitLayer::of_value).collect(),
            users: elements(config, "passwd", "users").map(UserLayer::of_value).collect(),
        }
    }
}

impl<'a> FileLayer<'a> {
    fn of_plain(file: &'a plain::File) -> Self {
        let owner = |owner: &'a Option<plain::Owner>| {
            let owner = owner.as_ref();
            OwnerLayer { id: owner.and_then(|o| o.id).map(i128::from), name: owner.and_then(|o| text(o.name.as_ref())) }
        };
        let contents = file.contents.as_ref().map(|contents| {
            let verification = contents.verification.as_ref();
            Contents {
                source: text(contents.source.as_ref()),
                shared: contents.source.as_ref().map(|source| &source.0),
                compression: text(contents.compression.as_ref()),
                hash: verification.and_then(|v| text(v.hash.as_ref())),
            }
        });
        Self {
            path: text(file.path.as_ref()).unwrap_or_default(),
            contents: contents.unwrap_or_default(),
            mode: file.mode.map(i128::from),
            overwrite: file.overwrite,
            user: owner(&file.user),
            group: owner(&file.group),
        }
    }

    fn of_value(file: &'a Value) -> Self {
        let contents = &file["contents"];
        let owner = |key: &str| OwnerLayer { id: integer(&file[key]["id"]), name: file[key]["name"].as_str() };
        Self {
            path: file["path"].as_str().unwrap_or_default(),
            contents: Contents {
                source: contents["source"].as_str(),
                shared: None,
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
    fn of_plain(unit: &'a plain::Unit) -> Self {
        let dropins = unit.dropins.iter().flatten();
        Self {
            name: text(unit.name.as_ref()).unwrap_or_default(),
            contents: text(unit.contents.as_ref()),
            enabled: unit.enabled,
            mask: unit.mask,
            dropins: dropins.map(|d| (text(d.name.as_ref()).unwrap_or_default(), text(d.contents.as_ref()))).collect(),
        }
    }

    fn of_value(unit: &'a Value) -> Self {
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
    fn of_plain(user: &'a plain::User) -> Self {
        Self {
            name: text(user.name.as_ref()),
            alias: text(user.user.as_ref()),
            keys: user.keys.iter().flatten().map(|key| &*key.0).collect(),
        }
    }

    fn of_value(user: &'a Value) -> Self {
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
