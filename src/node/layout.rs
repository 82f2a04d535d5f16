//! What a config means for paths of a node: each managed thing as one path with what shall stand there, and the
//! enablement that units shall have. Pure: the node's accounts are a value.
//!
//! Transaction, comparison, check and watch all work on this one form, so that what is applied is what is compared.

use super::compare::Deviation;
use super::host::{Accounts, Meta};
use crate::render::items::{Content, Items, Owner, UnitItem};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Where unit files, drop-ins and masks of an administrator are.
pub(super) const UNIT_DIR: &str = "/etc/systemd/system";
/// The same until the next boot.
pub(super) const RUNTIME_UNIT_DIR: &str = "/run/systemd/system";
/// Where systemd looks before that: what is there hides ours of the same name.
pub(super) const FIRST_UNIT_DIRS: [&str; 4] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
];
/// The one user whose keys are managed.
const KEY_USER: &str = "boot";
/// What a user's keys are called in messages.
const KEYS: &str = "keys of boot";

/// What kind of item a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// A file of `storage.files`.
    File,
    /// A drop-in.
    DropIn,
    /// A unit's own file, or its mask.
    Unit,
    /// The key file.
    Keys,
}

/// A managed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Managed {
    /// As people know it: `/etc/chrony.conf`, `chronyd.service`, `keys of boot`.
    pub(super) item: String,
    pub(super) sort: Sort,
    pub(super) want: Want,
}

/// What shall stand at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Want {
    /// A regular file.
    File(FileWant),
    /// A link to `/dev/null`.
    Mask,
    /// Anything but a mask.
    NoMask,
}

/// A regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileWant {
    pub(super) bytes: Bytes,
    pub(super) mode: u32,
    pub(super) uid: Id,
    pub(super) gid: Id,
    /// Mode and owner of the parent directory, if we make it.
    pub(super) parent: Meta,
}

/// A user or group, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id {
    /// None when this node has no such user or group.
    pub(super) number: Option<u32>,
    pub(super) name: String,
}

/// Bytes of a file.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Bytes {
    Content(Content),
    Text(Arc<str>),
}

impl fmt::Debug for Bytes {
    /// Sizes only: contents may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.size())
    }
}

impl Bytes {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Content(content) => content.size(),
            Self::Text(text) => text.len() as u64,
        }
    }
}

/// What a config means for a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// By path.
    pub(super) places: BTreeMap<String, Managed>,
    /// Units that shall be enabled (true) or not. A masked unit can only be the latter.
    pub(super) enablement: BTreeMap<String, bool>,
    /// The units, for what their `[Install]` sections say.
    pub(super) units: BTreeMap<String, UnitItem>,
    /// What has no place on this node, and what to do about it.
    pub(super) unplaced: Vec<Deviation>,
}

/// Directories that we make: passable for all, whatever the umask.
const PLAIN_DIR: Meta = Meta { mode: 0o755, uid: 0, gid: 0 };

impl Layout {
    pub(super) fn of(items: &Items, accounts: &Accounts) -> Self {
        let mut layout = Self { units: items.units.clone(), ..Self::default() };
        for (path, file) in &items.files {
            let uid = id(&file.user, |name| accounts.user(name).map(|user| user.uid), |id| accounts.user_name(id));
            let gid = id(&file.group, |name| accounts.group(name), |id| accounts.group_name(id));
            for (id, what) in [(&uid, "user"), (&gid, "group")] {
                if id.number.is_none() {
                    let what = format!(
                        "belongs to {what} {}, which does not exist on this node; create it, the update goes on by itself",
                        id.name
                    );
                    layout.unplaced.push(Deviation { item: path.clone(), what });
                }
            }
            let bytes = Bytes::Content(file.content.clone());
            let want = Want::File(FileWant { bytes, mode: file.mode, uid, gid, parent: PLAIN_DIR });
            layout.places.insert(path.clone(), Managed { item: path.clone(), sort: Sort::File, want });
        }
        for (name, unit) in &items.units {
            layout.add_unit(name, unit);
        }
        if let Some(keys) = &items.keys {
            layout.add_keys(keys, accounts);
        }
        layout
    }

    fn add_unit(&mut self, name: &str, unit: &UnitItem) {
        let masked = unit.mask == Some(true);
        let want = match (&unit.contents, unit.mask) {
            (_, Some(true)) => Some(Want::Mask),
            (Some(text), _) => Some(text_file(text)),
            (None, Some(false)) => Some(Want::NoMask),
            (None, None) => None,
        };
        if let Some(want) = want {
            self.add(unit_path(name), Managed { item: name.to_owned(), sort: Sort::Unit, want });
        }
        for (dropin, text) in &unit.dropins {
            let managed = Managed { item: format!("{name}.d/{dropin}"), sort: Sort::DropIn, want: text_file(text) };
            self.add(format!("{UNIT_DIR}/{name}.d/{dropin}"), managed);
        }
        if let Some(enabled) = unit.enabled
            && !(enabled && masked)
        {
            self.enablement.insert(name.to_owned(), enabled);
        }
    }

    fn add_keys(&mut self, keys: &[String], accounts: &Accounts) {
        let unplaced = |what: &str| Deviation { item: KEYS.into(), what: what.into() };
        let Some(user) = accounts.user(KEY_USER) else {
            self.unplaced.push(unplaced(
                "have no place: user boot does not exist on this node; create it, the update goes on by itself",
            ));
            return;
        };
        if !user.home.starts_with('/') || user.home.split('/').any(|part| part == "..") {
            self.unplaced.push(unplaced("have no place: the home of user boot in /etc/passwd is not an absolute path"));
            return;
        }
        let home: String = user.home.split('/').filter(|part| !part.is_empty() && *part != ".").fold(
            String::new(),
            |mut path, part| {
                path.push('/');
                path.push_str(part);
                path
            },
        );
        let own = |number: u32| Id { number: Some(number), name: KEY_USER.into() };
        let want = Want::File(FileWant {
            bytes: Bytes::Text(Items::keys_text(keys).into()),
            mode: 0o600,
            uid: own(user.uid),
            gid: own(user.gid),
            parent: Meta { mode: 0o700, uid: user.uid, gid: user.gid },
        });
        self.add(format!("{home}/.ssh/authorized_keys"), Managed { item: KEYS.into(), sort: Sort::Keys, want });
    }

    /// Two items on one path cannot both be right.
    fn add(&mut self, path: String, managed: Managed) {
        if let Some(other) = self.places.get(&path) {
            let what = format!("and {} are the same path, {path}; remove one of them from the config", other.item);
            self.unplaced.push(Deviation { item: managed.item.clone(), what });
        }
        self.places.insert(path, managed);
    }

    /// Paths at which something would make what the config says of `path` untrue, whatever stands at `path` itself.
    pub(super) fn rivals(&self, path: &str) -> Vec<String> {
        match self.places.get(path) {
            Some(Managed { sort: Sort::Keys, .. }) => vec![format!("{path}2")],
            Some(Managed { want: Want::NoMask, .. }) | None => Vec::new(),
            Some(_) => {
                let name = path.strip_prefix(UNIT_DIR).filter(|rest| rest.starts_with('/'));
                name.into_iter().flat_map(|name| FIRST_UNIT_DIRS.map(|dir| format!("{dir}{name}"))).collect()
            }
        }
    }

    /// Whether the unit shall be masked.
    pub(super) fn masks(&self, unit: &str) -> bool {
        self.units.get(unit).is_some_and(|unit| unit.mask == Some(true))
    }
}

/// Where a unit's own file or mask is.
pub(super) fn unit_path(name: &str) -> String {
    format!("{UNIT_DIR}/{name}")
}

fn text_file(text: &str) -> Want {
    let root = || Id { number: Some(0), name: "root".into() };
    let bytes = Bytes::Text(text.into());
    Want::File(FileWant { bytes, mode: 0o644, uid: root(), gid: root(), parent: PLAIN_DIR })
}

fn id<'a>(owner: &Owner, number: impl Fn(&str) -> Option<u32>, name: impl Fn(u32) -> Option<&'a str>) -> Id {
    match owner {
        Owner::Id(id) => Id { number: Some(*id), name: name(*id).unwrap_or_default().to_owned() },
        Owner::Name(text) => Id { number: number(text), name: text.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        Accounts::parse("root:x:0:0::/root:\nboot:x:1000:1001::/home//boot/:/bin/sh\n", "root:x:0:\n")
    }

    fn unit(contents: Option<&str>, enabled: Option<bool>, mask: Option<bool>) -> UnitItem {
        UnitItem { contents: contents.map(Into::into), enabled, mask, ..UnitItem::default() }
    }

    #[test]
    fn a_masked_unit_is_a_link_whatever_else_is_said() {
        let cases = [
            (unit(None, None, Some(true)), Some("mask"), None),
            (unit(Some("[Unit]\n"), None, Some(true)), Some("mask"), None),
            (unit(Some("[Unit]\n"), Some(true), Some(true)), Some("mask"), None),
            (unit(None, Some(false), Some(true)), Some("mask"), Some(false)),
            (unit(Some("[Unit]\n"), Some(true), None), Some("file"), Some(true)),
            (unit(Some("[Unit]\n"), None, Some(false)), Some("file"), None),
            (unit(None, None, Some(false)), Some("no mask"), None),
            (unit(None, Some(true), None), None, Some(true)),
        ];
        for (unit, place, enablement) in cases {
            let items = Items { units: BTreeMap::from([("a.service".to_owned(), unit.clone())]), ..Items::default() };
            let layout = Layout::of(&items, &accounts());
            let found = layout.places.get("/etc/systemd/system/a.service").map(|managed| match managed.want {
                Want::File(_) => "file",
                Want::Mask => "mask",
                Want::NoMask => "no mask",
            });
            assert_eq!(found, place, "{unit:?}");
            assert_eq!(layout.enablement.get("a.service").copied(), enablement, "{unit:?}");
        }
    }

    #[test]
    fn keys_are_where_the_node_s_passwd_says_and_belong_to_the_user() {
        let items = Items { keys: Some(vec!["ssh-ed25519 A".into(), "ssh-ed25519 B".into()]), ..Items::default() };
        let layout = Layout::of(&items, &accounts());
        let Some(Want::File(file)) = layout.places.get("/home/boot/.ssh/authorized_keys").map(|m| &m.want) else {
            panic!("no key file in {:?}", layout.places.keys())
        };
        assert_eq!(file.bytes, Bytes::Text("ssh-ed25519 A\nssh-ed25519 B\n".into()));
        assert_eq!((file.mode, file.uid.number, file.gid.number), (0o600, Some(1000), Some(1001)));
        assert_eq!(file.parent, Meta { mode: 0o700, uid: 1000, gid: 1001 });
    }

    #[test]
    fn r146_keys_without_the_user_are_named_and_have_no_place() {
        let items = Items { keys: Some(vec![]), ..Items::default() };
        let layout = Layout::of(&items, &Accounts::default());
        assert!(layout.places.is_empty());
        assert_eq!(
            layout.unplaced[0].to_string(),
            "keys of boot have no place: user boot does not exist on this node; create it, the update goes on by itself"
        );
    }
}
