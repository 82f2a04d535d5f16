//! What the specification says of a config beyond its types. Works on the normal form.
//!
//! Rules and places are the reference implementation's (Ignition 2.26, config version 3.4.0), errors and warnings alike, so
//! that mcx and a node's first boot never disagree about a config. What mcx refuses on top is `render::validate`'s.

mod disks;
mod nodes;
mod resource;
mod units;

use super::read::version_problem;
use super::schema::{CONFIG, Items, Kind, Struct, list};
use super::trail::Trail;
use super::{Config, Entry, Report, url};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

type Object = Map<String, Value>;

/// An object without anything, to stand in for absent ones.
static NOTHING: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Object::new);

/// Validates; a wrong version is the only error then.
pub(super) fn validate(config: &Config) -> Report {
    let mut report = Report::default();
    let root = config.0.as_object().unwrap_or(&NOTHING);
    let ignition = object(root, "ignition");
    if let Some(problem) = version_problem(plain(ignition, "version")) {
        report.errors.push(problem);
        return report;
    }
    repeats(root, &CONFIG, &Trail::Root, &mut report);
    let top = Trail::Root;
    check_ignition(ignition, &Trail::Field(&top, "ignition"), &mut report);
    let (storage, systemd) = (object(root, "storage"), object(root, "systemd"));
    let at_storage = Trail::Field(&top, "storage");
    nodes::check(storage, systemd, &at_storage, &mut report);
    disks::check(storage, &at_storage, &mut report);
    units::check(systemd, &Trail::Field(&top, "systemd"), &mut report);
    report
}

impl Report {
    fn error(&mut self, pointer: String, message: impl Into<String>) {
        self.errors.push(Entry { pointer, message: message.into() });
    }

    fn warning(&mut self, pointer: String, message: impl Into<String>) {
        self.warnings.push(Entry { pointer, message: message.into() });
    }
}

/// An object field; an empty object when absent.
fn object<'a>(from: &'a Object, name: &str) -> &'a Object {
    from.get(name).and_then(Value::as_object).unwrap_or(&NOTHING)
}

/// A plain string field: the empty string when absent.
fn plain<'a>(from: &'a Object, name: &str) -> &'a str {
    text(from, name).unwrap_or_default()
}

/// An optional string field.
fn text<'a>(from: &'a Object, name: &str) -> Option<&'a str> {
    from.get(name).and_then(Value::as_str)
}

/// An optional integer field.
fn whole(from: &Object, name: &str) -> Option<i64> {
    from.get(name).and_then(Value::as_i64)
}

/// An optional flag.
fn flag(from: &Object, name: &str) -> Option<bool> {
    from.get(name).and_then(Value::as_bool)
}

/// Objects of a list field, with their places.
fn each<'a>(from: &'a Object, name: &'a str) -> impl Iterator<Item = (usize, &'a Object)> {
    list(from, name).iter().map(|item| item.as_object().unwrap_or(&NOTHING)).enumerate()
}

/// Finds items that are given twice, in every list of `from` and below.
fn repeats(from: &Object, shape: &Struct, trail: &Trail<'_>, report: &mut Report) {
    let mut shared = BTreeMap::new();
    for field in shape.fields {
        let here = Trail::Field(trail, field.name);
        match &field.kind {
            Kind::Plain(_) | Kind::Optional(_) => {}
            Kind::Object(inner) => {
                if let Some(Value::Object(object)) = from.get(field.name) {
                    repeats(object, inner, &here, report);
                }
            }
            Kind::Objects(inner, items) => {
                repeated_items(from, field.name, *items, &mut shared, trail, report);
                for (i, item) in each(from, field.name) {
                    repeats(item, inner, &Trail::Item(&here, i), report);
                }
            }
            Kind::Strings(items) => repeated_items(from, field.name, *items, &mut shared, trail, report),
        }
    }
}

fn repeated_items<'a>(
    from: &'a Object,
    name: &'static str,
    items: Items,
    shared: &mut BTreeMap<Cow<'a, str>, &'static str>,
    trail: &Trail<'_>,
    report: &mut Report,
) {
    let Some(key) = items.key() else { return };
    let mut own = BTreeMap::new();
    let seen = if items.shared() { shared } else { &mut own };
    for (i, item) in list(from, name).iter().enumerate() {
        match seen.entry(key.of(item)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(name);
            }
            std::collections::btree_map::Entry::Occupied(first) => {
                let here = Trail::Field(trail, name);
                report.error(
                    Trail::Item(&here, i).pointer(),
                    format!("given twice: the same item is in {} before", first.get()),
                );
            }
        }
    }
}

fn check_ignition(ignition: &Object, here: &Trail<'_>, report: &mut Report) {
    let config = object(ignition, "config");
    let at_config = Trail::Field(here, "config");
    let at_merge = Trail::Field(&at_config, "merge");
    for (i, reference) in each(config, "merge") {
        resource::check_required(reference, &Trail::Item(&at_merge, i), report);
    }
    resource::check(object(config, "replace"), &Trail::Field(&at_config, "replace"), report);

    let (security, tls) = (Trail::Field(here, "security"), object(object(ignition, "security"), "tls"));
    let at_tls = Trail::Field(&security, "tls");
    let at_authorities = Trail::Field(&at_tls, "certificateAuthorities");
    for (i, authority) in each(tls, "certificateAuthorities") {
        resource::check_required(authority, &Trail::Item(&at_authorities, i), report);
    }

    let proxies = object(ignition, "proxy");
    for name in ["httpProxy", "httpsProxy"] {
        let Some(proxy) = text(proxies, name) else { continue };
        let pointer = here.below(&["proxy", name]);
        match url::scheme(proxy).as_deref() {
            Err(error) => report.error(pointer, error.to_string()),
            Ok("http") if name == "httpsProxy" => {
                report.warning(pointer, "an unencrypted proxy for encrypted requests");
            }
            Ok("http" | "https") => {}
            Ok(_) => report.error(pointer, "the URL scheme of a proxy must be http or https"),
        }
    }
}

/// The path rule: absolute, and as short as it can be written.
fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        Err("the path is missing")
    } else if !path.starts_with('/') {
        Err("the path must be absolute")
    } else if clean(path) != path {
        Err("the path must be written without a trailing slash, //, . and ..")
    } else {
        Ok(())
    }
}

/// The shortest way to write an absolute path, by its text alone.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Indexes of the keys that occurred before.
fn collisions<K: Ord>(keys: impl IntoIterator<Item = Option<K>>) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    keys.into_iter()
        .enumerate()
        .filter_map(|(i, key)| key.map(|key| (i, key)))
        .filter_map(|(i, key)| (!seen.insert(key)).then_some(i))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_must_be_absolute_and_clean() {
        for path in ["/", "/a", "/a b", "/a/b", "/\u{1}", "/a..b/...", "/ü"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for path in ["", "a", "./a", "/a/", "//a", "/a//b", "/./a", "/a/..", "/..", "//"] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }

    #[test]
    fn cleaning_never_leaves_the_root() {
        assert_eq!(clean("/../../a/./b//c/.."), "/a/b");
        assert_eq!(clean("/.."), "/");
    }
}
