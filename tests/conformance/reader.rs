//! The oddities of the reference's JSON reader, as rules: what it makes of a text in which keys are repeated or differ from a
//! field's name in letter case only, and what is left without such keys.
//!
//! It reads each key in the order of the text into the field of that name, whatever the case: a later scalar replaces an
//! earlier one, objects are read into each other, and so are the items of lists at the same index. Null leaves an object as
//! it is. A key in other case is warned of as well.

use crate::ordered::Ordered;
use mcx::render::ignition;
use serde_json::{Map, Value};

/// What the reference's reader has after the text, with the names of fields written right.
pub(crate) fn as_reference(text: &Ordered) -> Value {
    let mut value = Value::Null;
    read_into(&mut value, text, "");
    value
}

/// The text without keys that are a field's name in other case; of repeated keys the last one counts.
pub(crate) fn exact(text: &Ordered) -> Value {
    without_folded(text, "")
}

/// Pointers of the keys that are a field's name in other case, as they are spelled.
pub(crate) fn folded_keys(text: &Ordered) -> Vec<String> {
    let mut found = Vec::new();
    find_folded(text, "", "", &mut found);
    found
}

/// A value of a config as the reference holds it in memory: without unknown keys, null, and objects of nothing; an empty list
/// is not the same as none.
pub(crate) fn in_memory(value: &Value, at: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let known = fields.iter().filter_map(|(key, value)| {
                let name = field(at, key)?;
                Some((name.to_owned(), in_memory(value, &format!("{at}/{name}"))))
            });
            let is_nothing = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
            Value::Object(known.filter(|(_, value)| !is_nothing(value)).collect())
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(i, item)| in_memory(item, &format!("{at}/{i}"))).collect()
        }
        other => other.clone(),
    }
}

/// The field of the object at `at` that this key names for the reference; none if it is unknown there.
fn field(at: &str, key: &str) -> Option<&'static str> {
    // U+017F and U+212A fold to s and k.
    let plain = key.replace('\u{17f}', "s").replace('\u{212a}', "k").to_ascii_lowercase();
    let escaped = plain.replace('~', "~0").replace('/', "~1");
    ignition::nearest_key(&format!("{at}/{escaped}")).filter(|name| name.eq_ignore_ascii_case(&plain))
}

fn read_into(target: &mut Value, text: &Ordered, at: &str) {
    match text {
        Ordered::Leaf(Value::Null) if target.is_object() => {}
        Ordered::Leaf(value) => *target = value.clone(),
        Ordered::List(items) => {
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            let Value::Array(list) = target else { return };
            list.resize(items.len(), Value::Null);
            for (i, (slot, item)) in list.iter_mut().zip(items).enumerate() {
                read_into(slot, item, &format!("{at}/{i}"));
            }
        }
        Ordered::Object(fields) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            let Value::Object(object) = target else { return };
            for (key, value) in fields {
                match field(at, key) {
                    Some(name) => {
                        read_into(object.entry(name).or_insert(Value::Null), value, &format!("{at}/{name}"));
                    }
                    None => {
                        object.insert(key.clone(), value.value());
                    }
                }
            }
        }
    }
}

fn without_folded(text: &Ordered, at: &str) -> Value {
    match text {
        Ordered::Leaf(value) => value.clone(),
        Ordered::List(items) => {
            items.iter().enumerate().map(|(i, item)| without_folded(item, &format!("{at}/{i}"))).collect()
        }
        Ordered::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| field(at, key).is_none_or(|name| name == key));
            Value::Object(
                kept.map(|(key, value)| (key.clone(), without_folded(value, &format!("{at}/{key}")))).collect(),
            )
        }
    }
}

fn find_folded(text: &Ordered, at: &str, spelled: &str, found: &mut Vec<String>) {
    match text {
        Ordered::Leaf(_) => {}
        Ordered::List(items) => {
            for (i, item) in items.iter().enumerate() {
                find_folded(item, &format!("{at}/{i}"), &format!("{spelled}/{i}"), found);
            }
        }
        Ordered::Object(fields) => {
            for (key, value) in fields {
                let here = format!("{spelled}/{}", key.replace('~', "~0").replace('/', "~1"));
                let Some(name) = field(at, key) else { continue };
                if name != key && !found.contains(&here) {
                    found.push(here.clone());
                }
                find_folded(value, &format!("{at}/{name}"), &here, found);
            }
        }
    }
}
