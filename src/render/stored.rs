//! Reads back the form that [`Items::to_config`] writes, by its shape alone.
//!
//! A node keeps the config that it has in this form. Rules may become stricter from one version of mcx to the next; what a
//! node has was accepted once, and a daemon that no longer read it could neither compare nor withdraw it. So no rule of
//! [`super::validate`] is asked here: those guard what comes from the API ([`Items::from_config`]).

use super::ignition::contents;
use super::items::{Content, FileItem, Items, Measure, Owner, UnitItem};
use serde::Deserialize;
use serde_json::Value;

/// Mode of a file that says none.
const MODE: u32 = 0o644;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    passwd: Passwd,
    storage: Storage,
    systemd: Systemd,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Passwd {
    users: Vec<User>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct User {
    ssh_authorized_keys: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Storage {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    mode: Option<u32>,
    #[serde(default)]
    contents: Contents,
    #[serde(default)]
    user: Account,
    #[serde(default)]
    group: Account,
}

#[derive(Default, Deserialize)]
struct Contents {
    source: Option<String>,
    compression: Option<String>,
}

#[derive(Default, Deserialize)]
struct Account {
    id: Option<u32>,
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Systemd {
    units: Vec<Unit>,
}

#[derive(Deserialize)]
struct Unit {
    name: String,
    contents: Option<String>,
    #[serde(default)]
    dropins: Vec<Dropin>,
    enabled: Option<bool>,
    mask: Option<bool>,
}

#[derive(Deserialize)]
struct Dropin {
    name: String,
    contents: Option<String>,
}

/// Why a stored config cannot be read: it is not one that mcx wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another shape. Without the value, which may be secret.
    #[error("its shape is not that of a config")]
    Shape,
    /// The content of a file.
    #[error("the content of {path}: {error}")]
    Contents {
        /// The file.
        path: String,
        /// Why.
        error: contents::Error,
    },
}

impl Items {
    /// Reads what [`Items::to_config`] wrote, whatever today's rules say of it. Contents are decoded unless `known` has what
    /// that found before, for each file that `config` lists.
    pub fn from_stored(config: &Value, known: &[Measure]) -> Result<Self, Error> {
        let config = Config::deserialize(config).map_err(|_| Error::Shape)?;
        let mut items = Self::default();
        let files = config.storage.files;
        let known = Some(known).filter(|known| known.len() == files.len());
        for (index, file) in files.into_iter().enumerate() {
            let (path, item) = file.read(known.map(|known| known[index]))?;
            items.files.insert(path, item);
        }
        items.units = config.systemd.units.into_iter().map(Unit::read).filter(|(_, unit)| !unit.is_empty()).collect();
        let mut keys: Vec<String> = config.passwd.users.into_iter().flat_map(|u| u.ssh_authorized_keys).collect();
        keys.sort();
        keys.dedup();
        items.keys = (!keys.is_empty()).then_some(keys);
        Ok(items)
    }
}

impl File {
    fn read(self, known: Option<Measure>) -> Result<(String, FileItem), Error> {
        let (source, compression) = (self.contents.source.as_deref(), self.contents.compression.as_deref());
        let content = match known {
            Some(found) => Ok(Content::known(source, compression, found)),
            None => Content::new(source, compression),
        };
        let content = content.map_err(|error| Error::Contents { path: self.path.clone(), error })?;
        let (user, group) = (self.user.read(), self.group.read());
        Ok((self.path, FileItem { content, mode: self.mode.unwrap_or(MODE), user, group }))
    }
}

impl Account {
    fn read(self) -> Owner {
        match self.name {
            Some(name) => Owner::Name(name),
            None => Owner::Id(self.id.unwrap_or_default()),
        }
    }
}

impl Unit {
    fn read(self) -> (String, UnitItem) {
        let full = |text: Option<String>| text.filter(|t| !t.is_empty());
        let dropins = self.dropins.into_iter().filter_map(|d| Some((d.name, full(d.contents)?))).collect();
        let item = UnitItem { contents: full(self.contents), dropins, enabled: self.enabled, mask: self.mask };
        (self.name, item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_node_has_is_read_whatever_todays_rules_say() {
        // A volatile path, a unit of no known kind, a key that is none: refused in a source, and all there on the node.
        let config = json!({
            "ignition": {"version": "3.4.0"},
            "passwd": {"users": [{"name": "boot", "sshAuthorizedKeys": ["no key"]}]},
            "storage": {"files": [{"path": "/run/x", "mode": 0o10_000, "contents": {"source": "data:,a"}}]},
            "systemd": {"units": [{"name": "a.thing", "enabled": true, "mask": true}]},
        });
        assert!(Items::from_config(&config).is_err());
        let items = Items::from_stored(&config, &[]).unwrap();
        assert_eq!(items.files["/run/x"].content.decode().unwrap(), b"a");
        assert_eq!((items.units.len(), items.keys.map(|k| k.len())), (1, Some(1)));
        assert_eq!(Items::from_stored(&json!({}), &[]), Ok(Items::default()));
    }

    #[test]
    fn what_mcx_did_not_write_is_told_without_its_contents() {
        assert_eq!(Items::from_stored(&json!({"storage": {"files": {"secret": 1}}}), &[]), Err(Error::Shape));
        let broken =
            json!({"storage": {"files": [{"path": "/etc/x", "contents": {"source": "data:;base64,secret!"}}]}});
        let error = Items::from_stored(&broken, &[]).unwrap_err().to_string();
        assert!(error.contains("/etc/x") && !error.contains("secret"), "{error}");
    }
}
