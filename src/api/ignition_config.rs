//! The Ignition config in a `MachineConfig`, as it stands there.
//!
//! Nearly all configs have known keys and right types only, and are kept as what they say: small, and read without a walk
//! through a tree of values. All others, wrong or with sections that are not applied, are kept as they are, so that a finding
//! can name what is wrong. Both are written as they were read. What is allowed is `render`'s to say.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A config of any shape. Cheap to copy.
#[derive(Clone, Debug, PartialEq)]
pub struct IgnitionConfig(Arc<Form>);

/// How a config is kept: as [`Plain`] whenever it can be.
#[derive(Debug, PartialEq)]
enum Form {
    Plain(Plain),
    Other(Value),
}

impl IgnitionConfig {
    /// What it says, when it has only keys and types of [`Plain`].
    pub fn plain(&self) -> Option<&Plain> {
        match &*self.0 {
            Form::Plain(plain) => Some(plain),
            Form::Other(_) => None,
        }
    }

    /// The value, when it is not [`Plain`].
    pub fn other(&self) -> Option<&Value> {
        match &*self.0 {
            Form::Plain(_) => None,
            Form::Other(value) => Some(value),
        }
    }

    /// `ignition.version`, when it is a text.
    pub fn version(&self) -> Option<&str> {
        match &*self.0 {
            Form::Plain(plain) => plain.version(),
            Form::Other(value) => value.get("ignition")?.get("version")?.as_str(),
        }
    }

    /// As JSON.
    pub fn to_value(&self) -> Value {
        match &*self.0 {
            Form::Plain(plain) => plain.to_value(),
            Form::Other(value) => value.clone(),
        }
    }
}

/// `{}`, which changes nothing.
impl Default for IgnitionConfig {
    fn default() -> Self {
        Plain::default().into()
    }
}

impl From<Plain> for IgnitionConfig {
    fn from(mut plain: Plain) -> Self {
        // The longest list, which has room for twice its length after reading.
        if let Some(files) = plain.storage.as_mut().and_then(|storage| storage.files.as_mut()) {
            files.shrink_to_fit();
        }
        Self(Arc::new(Form::Plain(plain)))
    }
}

impl From<Value> for IgnitionConfig {
    fn from(value: Value) -> Self {
        match Plain::deserialize(&value) {
            Ok(plain) => plain.into(),
            Err(_) => Self(Arc::new(Form::Other(value))),
        }
    }
}

impl From<&Value> for IgnitionConfig {
    fn from(value: &Value) -> Self {
        match Plain::deserialize(value) {
            Ok(plain) => plain.into(),
            Err(_) => Self(Arc::new(Form::Other(value.clone()))),
        }
    }
}

impl From<&IgnitionConfig> for IgnitionConfig {
    fn from(config: &IgnitionConfig) -> Self {
        config.clone()
    }
}

impl Serialize for IgnitionConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &*self.0 {
            Form::Plain(plain) => plain.serialize(serializer),
            Form::Other(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for IgnitionConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

/// Structs whose fields are all optional, in the order of their names, which is the order in which JSON values are written.
/// Read from an object that has only these fields, each once and none of them null; written without the absent ones.
macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $key:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: Option<$type>,)*
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $(if let Some(value) = &self.$field {
                    map.serialize_entry($key, value)?;
                })*
                map.end()
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> Visitor<'de> for Fields {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut object = $name::default();
                        while let Some(key) = map.next_key_seed(OneOf(&[$($key),*]))? {
                            let again = match key {
                                $($key => object.$field.replace(map.next_value()?).is_some(),)*
                                _ => true,
                            };
                            if again {
                                return Err(A::Error::custom("a key twice"));
                            }
                        }
                        Ok(object)
                    }
                }
                deserializer.deserialize_map(Fields)
            }
        }
    )*};
}

objects! {
    /// A config that has only what mcx applies. What is absent is none; `[]` and `{}` are not absent.
    Plain {
        /// `ignition`.
        ignition: Ignition = "ignition",
        /// `passwd`.
        passwd: Passwd = "passwd",
        /// `storage`.
        storage: Storage = "storage",
        /// `systemd`.
        systemd: Systemd = "systemd",
    }
    /// `ignition`.
    Ignition {
        /// Of the specification.
        version: Text = "version",
    }
    /// `passwd`.
    Passwd {
        /// In their order.
        users: Vec<User> = "users",
    }
    /// A user with SSH keys.
    User {
        /// Its name.
        name: Text = "name",
        /// One line each.
        keys: Vec<Text> = "sshAuthorizedKeys",
        /// The guide's spelling of `name`.
        user: Text = "user",
    }
    /// `storage`.
    Storage {
        /// In their order.
        files: Vec<File> = "files",
    }
    /// A file.
    File {
        /// Its bytes.
        contents: Contents = "contents",
        /// Its group.
        group: Owner = "group",
        /// Permission bits.
        mode: i64 = "mode",
        /// Whether what is there is replaced.
        overwrite: bool = "overwrite",
        /// Absolute path.
        path: Text = "path",
        /// Its owner.
        user: Owner = "user",
    }
    /// The bytes of a file.
    Contents {
        /// Of what `source` decodes to.
        compression: Text = "compression",
        /// A `data:` URL.
        source: Text = "source",
        /// What the bytes must be.
        verification: Verification = "verification",
    }
    /// A digest to check.
    Verification {
        /// `sha256-` or `sha512-`, and hex digits.
        hash: Text = "hash",
    }
    /// A user or group.
    Owner {
        /// By number.
        id: i64 = "id",
        /// By name.
        name: Text = "name",
    }
    /// `systemd`.
    Systemd {
        /// In their order.
        units: Vec<Unit> = "units",
    }
    /// A unit.
    Unit {
        /// Text of its file.
        contents: Text = "contents",
        /// In their order.
        dropins: Vec<Dropin> = "dropins",
        /// Enabled or disabled.
        enabled: bool = "enabled",
        /// Masked or not.
        mask: bool = "mask",
        /// `NAME.service` and the like.
        name: Text = "name",
    }
    /// A drop-in of a unit.
    Dropin {
        /// Text of its file.
        contents: Text = "contents",
        /// `NAME.conf`.
        name: Text = "name",
    }
}

impl Plain {
    /// `ignition.version`.
    pub fn version(&self) -> Option<&str> {
        self.ignition.as_ref()?.version.as_ref().map(|text| &*text.0)
    }

    /// As JSON.
    pub fn to_value(&self) -> Value {
        // Texts, numbers, flags and lists of them: nothing in it can fail.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// A text, shared with what is made from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub Arc<str>);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shared;
        impl Visitor<'_> for Shared {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            // Not by way of a String, which would be copied again.
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.into()))
            }
        }
        deserializer.deserialize_str(Shared)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// Reads a key that is one of these.
struct OneOf(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for OneOf {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for OneOf {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a known key")
    }

    fn visit_str<E: serde::de::Error>(self, found: &str) -> Result<&'static str, E> {
        self.0.iter().copied().find(|key| *key == found).ok_or_else(|| E::custom("an unknown key"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn everything() -> Value {
        json!({
            "ignition": {"version": "3.4.0"},
            "passwd": {"users": [{"name": "boot", "sshAuthorizedKeys": ["a", "b"]}, {"user": "boot"}]},
            "storage": {"files": [
                {"path": "/etc/a", "mode": 420, "overwrite": true, "user": {"id": 1}, "group": {"name": "g"},
                    "contents": {"source": "data:,a\"\n", "compression": "", "verification": {"hash": "sha256-0"}}},
                {"mode": -1, "contents": {}}
            ]},
            "systemd": {"units": [{"name": "a.service", "contents": "[Unit]\n", "enabled": false, "mask": true,
                "dropins": [{"name": "x.conf", "contents": ""}, {}]}, {}]},
        })
    }

    #[test]
    fn what_is_applied_is_kept_plain_and_written_as_it_was_read() {
        for value in [
            everything(),
            json!({}),
            json!({"ignition": {}}),
            json!({"storage": {"files": []}, "systemd": {}, "passwd": {"users": [{"sshAuthorizedKeys": []}]}}),
            json!({"storage": {"files": [{"mode": i64::MIN, "user": {"id": i64::MAX}}]}}),
        ] {
            let config = IgnitionConfig::from(&value);
            assert!(config.plain().is_some(), "{value}");
            assert_eq!(config.to_value(), value);
            assert_eq!(serde_json::to_string(&config).unwrap(), value.to_string(), "in the same order");
            let read: IgnitionConfig = serde_json::from_str(&value.to_string()).unwrap();
            assert_eq!(read, config);
            assert_eq!(serde_json::from_str::<Plain>(&value.to_string()).ok().as_ref(), config.plain());
        }
    }

    #[test]
    fn everything_else_is_kept_as_it_is() {
        for value in [
            json!(null),
            json!([]),
            json!("x"),
            json!({"Ignition": {}}),
            json!({"ignition": null}),
            json!({"ignition": []}),
            json!({"ignition": {"version": 3}}),
            json!({"ignition": {"version": null}}),
            json!({"storage": {"files": [null]}}),
            json!({"storage": {"files": {}}}),
            json!({"storage": {"links": []}}),
            json!({"storage": {"files": [{"contents": ["gzip", "data:,x"]}]}}),
            json!({"storage": {"files": [{"mode": "420"}]}}),
            json!({"storage": {"files": [{"mode": 420.0}]}}),
            json!({"storage": {"files": [{"mode": u64::MAX}]}}),
            json!({"storage": {"files": [{"overwrite": 1}]}}),
            json!({"systemd": {"units": [{"dropins": [{"enabled": true}]}]}}),
        ] {
            let config = IgnitionConfig::from(&value);
            assert_eq!(config.other(), Some(&value));
            assert_eq!(config.to_value(), value);
            assert_eq!(serde_json::to_string(&config).unwrap(), value.to_string());
        }
        assert!(serde_json::from_str::<Plain>("{\"storage\": {}, \"storage\": {}}").is_err(), "the last one counts");
        assert!(serde_json::from_str::<Plain>("{\"storage\": {\"files\": [{\"mode\": -0}]}}").is_err(), "a fraction");
    }
}
