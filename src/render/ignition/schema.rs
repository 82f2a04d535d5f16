//! The shape of an Ignition 3.4.0 config as one table: fields, kinds, and how the items of each list are told apart.
//!
//! Reading, the search for repeated items and merge all walk this table, so that a field is described once. What a value
//! must look like beyond its type is `validate`'s.

use serde_json::{Map, Value};
use std::borrow::Cow;

/// An object type.
#[derive(Debug)]
pub(super) struct Struct {
    /// In the order in which lists that share a name space are examined.
    pub(super) fields: &'static [Field],
}

/// One field of an object type.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// Type of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Text,
    Whole,
    Flag,
}

/// What a field holds.
#[derive(Debug)]
pub(super) enum Kind {
    /// A scalar that cannot be unset: absent and the zero value are one. In a merge of two objects the child's value stands.
    Plain(Scalar),
    /// A scalar that may be unset; `""`, 0 and false are set. In a merge an unset one keeps the parent's.
    Optional(Scalar),
    /// An object, never unset: absent and empty are one.
    Object(&'static Struct),
    /// A list of objects.
    Objects(&'static Struct, Items),
    /// A list of strings.
    Strings(Items),
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Items {
    /// They are not: repeats are fine, and merge puts the child's behind the parent's.
    Free,
    /// By key, within this list.
    Keyed(Key),
    /// By key, over all lists of the same object that say so.
    Shared(Key),
    /// HTTP headers, by name; one without a value removes the parent's in a merge.
    Headers,
}

/// Key of an item.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    /// The string in this field; unset is the empty string.
    Field(&'static str),
    /// A partition: its number, else its label.
    Partition,
    /// The string itself.
    Itself,
}

impl Struct {
    /// The field of this name.
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Items {
    /// The key rule, unless items are not told apart.
    pub(super) fn key(self) -> Option<Key> {
        match self {
            Self::Free => None,
            Self::Keyed(key) | Self::Shared(key) => Some(key),
            Self::Headers => Some(Key::Field("name")),
        }
    }

    /// Whether the name space is shared with other lists of the object.
    pub(super) fn shared(self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

impl Key {
    /// The key of `item`, which is in normal form.
    pub(super) fn of(self, item: &Value) -> Cow<'_, str> {
        match self {
            Self::Itself => Cow::Borrowed(item.as_str().unwrap_or_default()),
            Self::Field(name) => Cow::Borrowed(item.get(name).and_then(Value::as_str).unwrap_or_default()),
            Self::Partition => match item.get("number").and_then(Value::as_i64) {
                Some(number) if number != 0 => Cow::Owned(format!("number:{number}")),
                _ => match item.get("label").and_then(Value::as_str) {
                    Some(label) => Cow::Owned(format!("label:{label}")),
                    None => Cow::Borrowed(""),
                },
            },
        }
    }
}

/// The items of a list field in a config in normal form: none when the field is absent.
pub(super) fn list<'a>(object: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The names of all fields of the object at `pointer`; none when there is no such object in Ignition 3.4.0.
pub(super) fn fields_at(pointer: &str) -> Option<impl Iterator<Item = &'static str>> {
    let mut at = &CONFIG;
    let mut steps = pointer.split('/').skip(1);
    while let Some(step) = steps.next() {
        at = match &at.field(step)?.kind {
            Kind::Object(inner) => inner,
            Kind::Objects(inner, _) => {
                steps.next()?;
                inner
            }
            Kind::Plain(_) | Kind::Optional(_) | Kind::Strings(_) => return None,
        };
    }
    Some(at.fields.iter().map(|field| field.name))
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind }
}
const fn text(name: &'static str) -> Field {
    field(name, Kind::Optional(Scalar::Text))
}
const fn whole(name: &'static str) -> Field {
    field(name, Kind::Optional(Scalar::Whole))
}
const fn flag(name: &'static str) -> Field {
    field(name, Kind::Optional(Scalar::Flag))
}
const fn plain(name: &'static str) -> Field {
    field(name, Kind::Plain(Scalar::Text))
}
const fn object(name: &'static str, inner: &'static Struct) -> Field {
    field(name, Kind::Object(inner))
}
const fn objects(name: &'static str, inner: &'static Struct, key: &'static str) -> Field {
    field(name, Kind::Objects(inner, Items::Keyed(Key::Field(key))))
}
/// Directories, files and links: one path belongs to one of them.
const fn nodes(name: &'static str, inner: &'static Struct) -> Field {
    field(name, Kind::Objects(inner, Items::Shared(Key::Field("path"))))
}
const fn set(name: &'static str) -> Field {
    field(name, Kind::Strings(Items::Keyed(Key::Itself)))
}
const fn sequence(name: &'static str) -> Field {
    field(name, Kind::Strings(Items::Free))
}

/// The whole config.
pub(super) static CONFIG: Struct = Struct {
    fields: &[
        object("ignition", &IGNITION),
        object("kernelArguments", &KERNEL_ARGUMENTS),
        object("passwd", &PASSWD),
        object("storage", &STORAGE),
        object("systemd", &SYSTEMD),
    ],
};

static IGNITION: Struct = Struct {
    fields: &[
        object("config", &CONFIG_REFERENCES),
        object("proxy", &PROXY),
        object("security", &SECURITY),
        object("timeouts", &TIMEOUTS),
        plain("version"),
    ],
};
static CONFIG_REFERENCES: Struct =
    Struct { fields: &[objects("merge", &RESOURCE, "source"), object("replace", &RESOURCE)] };
static PROXY: Struct = Struct { fields: &[text("httpProxy"), text("httpsProxy"), set("noProxy")] };
static SECURITY: Struct = Struct { fields: &[object("tls", &TLS)] };
static TLS: Struct = Struct { fields: &[objects("certificateAuthorities", &RESOURCE, "source")] };
static TIMEOUTS: Struct = Struct { fields: &[whole("httpResponseHeaders"), whole("httpTotal")] };

/// Something to fetch: also the contents of a file.
pub(super) static RESOURCE: Struct = Struct {
    fields: &[
        text("compression"),
        field("httpHeaders", Kind::Objects(&HEADER, Items::Headers)),
        text("source"),
        object("verification", &VERIFICATION),
    ],
};
static HEADER: Struct = Struct { fields: &[plain("name"), text("value")] };
static VERIFICATION: Struct = Struct { fields: &[text("hash")] };

static KERNEL_ARGUMENTS: Struct = Struct {
    fields: &[
        field("shouldExist", Kind::Strings(Items::Shared(Key::Itself))),
        field("shouldNotExist", Kind::Strings(Items::Shared(Key::Itself))),
    ],
};

static PASSWD: Struct = Struct { fields: &[objects("groups", &GROUP, "name"), objects("users", &USER, "name")] };
static GROUP: Struct =
    Struct { fields: &[whole("gid"), plain("name"), text("passwordHash"), flag("shouldExist"), flag("system")] };
static USER: Struct = Struct {
    fields: &[
        text("gecos"),
        set("groups"),
        text("homeDir"),
        plain("name"),
        flag("noCreateHome"),
        flag("noLogInit"),
        flag("noUserGroup"),
        text("passwordHash"),
        text("primaryGroup"),
        text("shell"),
        flag("shouldExist"),
        set("sshAuthorizedKeys"),
        flag("system"),
        whole("uid"),
    ],
};

static STORAGE: Struct = Struct {
    fields: &[
        nodes("directories", &DIRECTORY),
        objects("disks", &DISK, "device"),
        nodes("files", &FILE),
        objects("filesystems", &FILESYSTEM, "device"),
        nodes("links", &LINK),
        objects("luks", &LUKS, "name"),
        objects("raid", &RAID, "name"),
    ],
};
static OWNER: Struct = Struct { fields: &[whole("id"), text("name")] };
static DIRECTORY: Struct = Struct {
    fields: &[object("group", &OWNER), whole("mode"), flag("overwrite"), plain("path"), object("user", &OWNER)],
};
static FILE: Struct = Struct {
    fields: &[
        field("append", Kind::Objects(&RESOURCE, Items::Free)),
        object("contents", &RESOURCE),
        object("group", &OWNER),
        whole("mode"),
        flag("overwrite"),
        plain("path"),
        object("user", &OWNER),
    ],
};
static LINK: Struct = Struct {
    fields: &[
        object("group", &OWNER),
        flag("hard"),
        flag("overwrite"),
        plain("path"),
        text("target"),
        object("user", &OWNER),
    ],
};
static DISK: Struct = Struct {
    fields: &[
        plain("device"),
        field("partitions", Kind::Objects(&PARTITION, Items::Keyed(Key::Partition))),
        flag("wipeTable"),
    ],
};
static PARTITION: Struct = Struct {
    fields: &[
        text("guid"),
        text("label"),
        field("number", Kind::Plain(Scalar::Whole)),
        flag("resize"),
        flag("shouldExist"),
        whole("sizeMiB"),
        whole("startMiB"),
        text("typeGuid"),
        flag("wipePartitionEntry"),
    ],
};
static FILESYSTEM: Struct = Struct {
    fields: &[
        plain("device"),
        text("format"),
        text("label"),
        sequence("mountOptions"),
        sequence("options"),
        text("path"),
        text("uuid"),
        flag("wipeFilesystem"),
    ],
};
static LUKS: Struct = Struct {
    fields: &[
        object("clevis", &CLEVIS),
        text("device"),
        flag("discard"),
        object("keyFile", &RESOURCE),
        text("label"),
        plain("name"),
        set("openOptions"),
        sequence("options"),
        text("uuid"),
        flag("wipeVolume"),
    ],
};
static CLEVIS: Struct = Struct {
    fields: &[object("custom", &CLEVIS_CUSTOM), objects("tang", &TANG, "url"), whole("threshold"), flag("tpm2")],
};
static CLEVIS_CUSTOM: Struct = Struct { fields: &[text("config"), flag("needsNetwork"), text("pin")] };
static TANG: Struct = Struct { fields: &[text("advertisement"), text("thumbprint"), plain("url")] };
static RAID: Struct =
    Struct { fields: &[set("devices"), text("level"), plain("name"), sequence("options"), whole("spares")] };

static SYSTEMD: Struct = Struct { fields: &[objects("units", &UNIT, "name")] };
static UNIT: Struct = Struct {
    fields: &[text("contents"), objects("dropins", &DROPIN, "name"), flag("enabled"), flag("mask"), plain("name")],
};
static DROPIN: Struct = Struct { fields: &[text("contents"), plain("name")] };
