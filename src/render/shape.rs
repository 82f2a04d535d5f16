//! Which keys and types the objects have: one table, and the walk that finds unknown keys and wrong types by it.
//!
//! It exists beside typed reading because a person needs the place and the nearest known key, and all slips at once.
//! Null is absent everywhere but in a list.

use super::finding::Finding;
use super::rule;
use super::{nearest, path, rule::Rule};
use serde_json::Value;

/// What a value may be.
#[derive(Debug)]
pub(super) enum Shape {
    Text,
    Integer,
    Flag,
    /// A number or a text.
    IntOrText,
    /// An object of any texts, as labels are.
    Texts,
    /// Anything: read by somebody else.
    Any,
    List(&'static Shape),
    Object(&'static [(&'static str, Shape)]),
    /// Known to Ignition and not applied by mcx; only nothing may stand there. With the help to give.
    Unsupported(&'static Rule, &'static str),
}

use Shape::{Any, Flag, IntOrText, Integer, List, Object, Text, Texts, Unsupported};

const LINKS: &str = "a link needs a tmpfiles.d entry (L+) or a unit";
const FOLDERS: &str = "directories are made for the files in them; for an empty one write a tmpfiles.d entry";
const DISKS: &str = "disks are set up when the machine is installed";
const KEYS_ONLY: &str = "remove it; of a user only sshAuthorizedKeys is applied";

static FILE: Shape = Object(&[
    ("path", Text),
    ("mode", Integer),
    ("overwrite", Flag),
    ("user", Object(&[("id", Integer), ("name", Text)])),
    ("group", Object(&[("id", Integer), ("name", Text)])),
    (
        "contents",
        Object(&[
            ("source", Text),
            ("compression", Text),
            ("verification", Object(&[("hash", Text)])),
            (
                "httpHeaders",
                Unsupported(&rule::UNSUPPORTED, "nothing is fetched; put the content into source as a data: URL"),
            ),
        ]),
    ),
    (
        "append",
        Unsupported(&rule::UNSUPPORTED, "write the whole file in contents, or a file of its own into a .d directory"),
    ),
]);

static UNIT: Shape = Object(&[
    ("name", Text),
    ("enabled", Flag),
    ("mask", Flag),
    ("contents", Text),
    ("dropins", List(&Object(&[("name", Text), ("contents", Text)]))),
]);

static USER: Shape = Object(&[
    ("name", Text),
    // The guide's spelling of `name`.
    ("user", Text),
    ("sshAuthorizedKeys", List(&Text)),
    ("gecos", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("groups", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("homeDir", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("noCreateHome", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("noLogInit", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("noUserGroup", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("passwordHash", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("primaryGroup", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("shell", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("shouldExist", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("system", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
    ("uid", Unsupported(&rule::USER_FIELD, KEYS_ONLY)),
]);

/// An Ignition 3.4.0 config, as far as mcx reads it.
pub(super) static CONFIG: Shape = Object(&[
    (
        "ignition",
        Object(&[
            ("version", Text),
            (
                "config",
                Unsupported(&rule::UNSUPPORTED, "nothing is fetched; write what it would merge as a source of its own"),
            ),
            ("proxy", Unsupported(&rule::UNSUPPORTED, "nothing is fetched, so there is no proxy to use; remove it")),
            (
                "security",
                Unsupported(&rule::UNSUPPORTED, "nothing is fetched, so there is no authority to trust; remove it"),
            ),
            ("timeouts", Unsupported(&rule::UNSUPPORTED, "nothing is fetched, so nothing times out; remove it")),
        ]),
    ),
    ("kernelArguments", Unsupported(&rule::UNSUPPORTED, "set them when the machine is installed; remove them here")),
    (
        "passwd",
        Object(&[
            (
                "groups",
                Unsupported(&rule::UNSUPPORTED, "mcx creates no groups; make them when the machine is installed"),
            ),
            ("users", List(&USER)),
        ]),
    ),
    (
        "storage",
        Object(&[
            ("files", List(&FILE)),
            ("directories", Unsupported(&rule::UNSUPPORTED, FOLDERS)),
            ("links", Unsupported(&rule::UNSUPPORTED, LINKS)),
            ("disks", Unsupported(&rule::UNSUPPORTED, DISKS)),
            ("raid", Unsupported(&rule::UNSUPPORTED, DISKS)),
            ("filesystems", Unsupported(&rule::UNSUPPORTED, DISKS)),
            ("luks", Unsupported(&rule::UNSUPPORTED, DISKS)),
        ]),
    ),
    ("systemd", Object(&[("units", List(&UNIT))])),
]);

/// An object around its `spec`; `metadata` and `status` are read elsewhere or not at all.
macro_rules! object {
    ($spec:expr) => {
        Object(&[("apiVersion", Text), ("kind", Text), ("metadata", Any), ("spec", $spec), ("status", Any)])
    };
}

/// A `MachineConfig`; its config is checked by itself.
pub(super) static MACHINE_CONFIG: Shape = object!(Object(&[("config", Any), ("kernelArguments", List(&Text))]));

/// A `MachineConfigPool`.
pub(super) static POOL: Shape = object!(Object(&[
    ("configuration", Any),
    ("machineConfigSelector", Object(&[("matchLabels", Texts), ("matchExpressions", List(&REQUIREMENT))])),
    ("nodeSelector", Object(&[("matchLabels", Texts), ("matchExpressions", List(&REQUIREMENT))])),
    ("maxUnavailable", IntOrText),
    ("paused", Flag),
]));

static REQUIREMENT: Shape = Object(&[("key", Text), ("operator", Text), ("values", List(&Text))]);

/// A `MachineConfiguration`.
pub(super) static MACHINE_CONFIGURATION: Shape = object!(Object(&[
    ("defaultNodeDisruptionPolicySpecAction", Object(&[("files", List(&ACTION)), ("units", List(&ACTION))])),
    (
        "nodeDisruptionPolicy",
        Object(&[
            ("files", List(&Object(&[("path", Text), ("actions", List(&ACTION))]))),
            ("units", List(&Object(&[("name", Text), ("actions", List(&ACTION))]))),
            ("sshkey", Object(&[("actions", List(&ACTION))])),
        ]),
    ),
]));

static ACTION: Shape = Object(&[
    ("type", Text),
    ("reload", Object(&[("serviceName", Text)])),
    ("restart", Object(&[("serviceName", Text)])),
]);

/// The parts of `metadata` that mcx reads.
pub(super) static METADATA: Shape = Object(&[("name", Text), ("labels", Texts), ("annotations", Texts)]);

/// Walks `value`, which stands at `at` of `object`, by `shape`. True when every type is right.
pub(super) fn walk(value: &Value, shape: &Shape, object: &str, at: &str, found: &mut Vec<Finding>) -> bool {
    Walk { object, found }.value(value, shape, Trail::Base(at))
}

/// The way to a value, put together only for a finding: most values are fine.
#[derive(Clone, Copy)]
enum Trail<'t> {
    Base(&'t str),
    Key(&'t Trail<'t>, &'t str),
    Index(&'t Trail<'t>, usize),
}

impl Trail<'_> {
    fn path(&self) -> String {
        match self {
            Self::Base(base) => (*base).to_owned(),
            Self::Key(up, name) => path::key(&up.path(), name),
            Self::Index(up, index) => path::index(&up.path(), *index),
        }
    }
}

struct Walk<'w> {
    object: &'w str,
    found: &'w mut Vec<Finding>,
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, shape: &Shape, at: Trail) -> bool {
        match (shape, value) {
            (_, Value::Null) | (Any, _) | (Text | IntOrText, Value::String(_)) | (Flag, Value::Bool(_)) => true,
            (Integer | IntOrText, Value::Number(n)) if n.is_i64() || n.is_u64() => true,
            (Texts, Value::Object(fields)) => {
                fields.iter().fold(true, |fine, (name, value)| self.value(value, &Text, Trail::Key(&at, name)) && fine)
            }
            (List(element), Value::Array(list)) => list.iter().enumerate().fold(true, |fine, (i, value)| {
                let at = Trail::Index(&at, i);
                if value.is_null() {
                    let message = "found null, expected an element of the list";
                    self.found.push(rule::FIELD_TYPE.finding(self.object, at.path(), message));
                    return false;
                }
                self.value(value, element, at) && fine
            }),
            (Object(known), Value::Object(fields)) => fields.iter().fold(true, |fine, (name, value)| {
                let at = Trail::Key(&at, name);
                let Some((_, shape)) = known.iter().find(|(k, _)| k == name) else {
                    self.found.push(unknown_key(name, known, self.object, &at.path()));
                    return fine;
                };
                self.value(value, shape, at) && fine
            }),
            (Unsupported(rule, help), _) => {
                if !is_empty(value) {
                    let mut finding = rule.finding(self.object, at.path(), "is not supported");
                    (*help).clone_into(&mut finding.help);
                    self.found.push(finding);
                }
                true
            }
            (Text, _) => self.wrong(value, shape, at, "a string"),
            (Integer, _) => self.wrong(value, shape, at, "a whole number"),
            (IntOrText, _) => self.wrong(value, shape, at, "a whole number or a percentage"),
            (Flag, _) => self.wrong(value, shape, at, "true or false"),
            (List(_), _) => self.wrong(value, shape, at, "a list"),
            (Object(_) | Texts, _) => self.wrong(value, shape, at, "an object"),
        }
    }

    fn wrong(&mut self, value: &Value, shape: &Shape, at: Trail, expected: &str) -> bool {
        let at = at.path();
        let help = type_help(value, shape, &at);
        let message = format!("found {}, expected {expected}", kind_of(value));
        let mut finding = rule::FIELD_TYPE.finding(self.object, at, message);
        finding.help = help;
        self.found.push(finding);
        false
    }
}

fn unknown_key(name: &str, known: &[(&str, Shape)], object: &str, at: &str) -> Finding {
    let mut finding = rule::UNKNOWN_KEY.finding(object, at, "unknown key");
    finding.help = match nearest::nearest(name, known.iter().map(|(k, _)| *k)) {
        Some(key) => nearest::meant(&format!("`{key}`")),
        None => format!("remove it; known here: {}", known.iter().map(|(k, _)| *k).collect::<Vec<_>>().join(", ")),
    };
    finding
}

/// Nothing in it: null, an empty list, or an object of nothing. Such a section is no use of it.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(n) if n.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn type_help(value: &Value, shape: &Shape, at: &str) -> String {
    match (shape, value) {
        (Integer, Value::String(_)) if at.rsplit('.').next() == Some("mode") => {
            "write the permission bits as a number without quotes, such as 0o644".to_owned()
        }
        (Integer, Value::String(_)) => "write the number without quotes".to_owned(),
        (Text, Value::Number(_)) if at.ends_with("ignition.version") => "write version: 3.4.0".to_owned(),
        (Text, Value::Number(_) | Value::Bool(_)) => "put the value in quotes".to_owned(),
        (List(_), Value::Object(_)) => "begin each element with -".to_owned(),
        _ => rule::FIELD_TYPE.fix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        walk(value, &CONFIG, "", "c", &mut found);
        found.iter().map(|f| format!("{} {} {}; {}", f.rule, f.path, f.message, f.help)).collect()
    }

    #[test]
    fn every_slip_is_found_at_once_with_its_place() {
        let slips = found(&json!({
            "storage": {"files": [
                {"path": "/etc/a", "mode": "0644", "content": {}},
                {"path": 1, "contents": {"source": true}},
                null
            ], "file": []},
            "systemd": {"units": {"name": "a"}}
        }));
        assert_eq!(
            slips,
            [
                "unknown-key c.storage.file unknown key; did you mean `files`?",
                "unknown-key c.storage.files[0].content unknown key; did you mean `contents`?",
                "field-type c.storage.files[0].mode found a string, expected a whole number; write the permission bits as a number without quotes, such as 0o644",
                "field-type c.storage.files[1].contents.source found true or false, expected a string; put the value in quotes",
                "field-type c.storage.files[1].path found a number, expected a string; put the value in quotes",
                "field-type c.storage.files[2] found null, expected an element of the list; correct the type",
                "field-type c.systemd.units found an object, expected a list; begin each element with -",
            ]
        );
    }

    #[test]
    fn an_empty_section_is_no_use_of_it() {
        for value in [
            json!({"storage": {"disks": [], "links": null, "luks": {}}, "passwd": {"groups": []}}),
            json!({"kernelArguments": {"shouldExist": [], "shouldNotExist": null}, "passwd": {}, "systemd": null}),
            json!({"ignition": {"config": {"merge": [], "replace": {"source": null}}, "security": {"tls": {}}}}),
        ] {
            assert_eq!(found(&value), Vec::<String>::new(), "{value}");
        }
        assert_eq!(found(&json!({"storage": {"links": [{}]}})).len(), 1, "an element is a use");
    }
}
