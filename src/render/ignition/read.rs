//! From JSON to the normal form: types checked, nulls, unknown keys and empty sections gone.
//!
//! Key names are taken as they are: a key in other letter case is an unknown key, and of a repeated key in JSON text the last
//! one counts, as for the API server. (The reference implementation folds case and merges repeats, which nobody writes on
//! purpose.) All type errors are reported, each at its field; the reference stops at the first and names only the document.

use super::schema::{CONFIG, Kind, Scalar, Struct};
use super::trail::Trail;
use super::{Config, Entry, Report};
use serde_json::{Map, Value};

/// The only version that is read.
pub(super) const VERSION: &str = "3.4.0";

/// Nesting that JSON text may have: enough for any real config, and safe for the stack of a thread.
const MAX_DEPTH: usize = 512;

/// Reads a value; type errors and a foreign version are errors in `report`, and then there is no config.
pub(super) fn read(value: &Value, report: &mut Report) -> Option<Config> {
    // The version decides how all the rest is to be read, so a foreign one is the only thing reported.
    if let Some(problem) = foreign_version(value) {
        report.errors.push(problem);
        return None;
    }
    read_any_version(value, report)
}

/// Reads a value as if it were of our version.
pub(super) fn read_any_version(value: &Value, report: &mut Report) -> Option<Config> {
    let before = report.errors.len();
    let object = match value {
        Value::Object(object) => read_object(object, &CONFIG, &Trail::Root, report),
        Value::Null => Map::new(),
        other => {
            report.errors.push(mismatch(&Trail::Root, "an object", other));
            return None;
        }
    };
    (report.errors.len() == before).then_some(Config(Value::Object(object)))
}

/// The JSON value of a text, or where it stops being JSON.
pub(super) fn json(text: &[u8]) -> Result<Value, Entry> {
    let whole = |message: String| Entry { pointer: String::new(), message };
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(whole("the config is empty, not JSON".to_owned()));
    }
    if deeper_than(text, MAX_DEPTH) {
        return Err(whole(format!("the JSON is nested deeper than {MAX_DEPTH} levels")));
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    reader.disable_recursion_limit();
    let value = serde::Deserialize::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error: serde_json::Error| {
        // The category only: the reader's own text may quote the input.
        let what = match error.classify() {
            serde_json::error::Category::Eof => "the JSON ends too early",
            _ => "this is not JSON",
        };
        whole(format!("{what} (line {}, column {})", error.line(), error.column()))
    })
}

/// Whether brackets outside strings nest deeper than `limit`; so that the reader may recurse.
fn deeper_than(text: &[u8], limit: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// An `ignition.version` that is a string but not ours. Anything else is left to the type check and to validation.
fn foreign_version(root: &Value) -> Option<Entry> {
    version_problem(root.get("ignition")?.get("version")?.as_str()?)
}

/// What is wrong with a version, if anything. `03.4.0` and `3.4.0-` are 3.4.0, as in the reference.
pub(super) fn version_problem(version: &str) -> Option<Entry> {
    let (rest, meta) = version.split_once('+').unwrap_or((version, ""));
    let (dotted, pre) = rest.split_once('-').unwrap_or((rest, ""));
    let number = |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u64>().ok()).flatten();
    let ours = meta.is_empty() && pre.is_empty() && dotted.splitn(3, '.').map(number).eq([Some(3), Some(4), Some(0)]);
    if ours {
        return None;
    }
    let found = if version.is_empty() {
        "it is missing".to_owned()
    } else if version.len() <= 32 && version.bytes().all(|b| b.is_ascii_graphic()) {
        format!("found {version}")
    } else {
        "found something else".to_owned()
    };
    Some(Entry { pointer: "/ignition/version".to_owned(), message: format!("the version must be {VERSION}, {found}") })
}

fn read_object(
    from: &Map<String, Value>,
    shape: &Struct,
    trail: &Trail<'_>,
    report: &mut Report,
) -> Map<String, Value> {
    let mut to = Map::new();
    for (name, value) in from {
        let here = Trail::Field(trail, name);
        let Some(field) = shape.field(name) else {
            report.warnings.push(Entry { pointer: here.pointer(), message: "unknown key, ignored".to_owned() });
            continue;
        };
        if let Some(value) = read_field(value, &field.kind, &here, report) {
            to.insert(name.clone(), value);
        }
    }
    to
}

/// The field's value in normal form; none when it is the same as absent, or wrong (which is then reported).
fn read_field(value: &Value, kind: &Kind, here: &Trail<'_>, report: &mut Report) -> Option<Value> {
    if value.is_null() {
        if matches!(kind, Kind::Object(_)) {
            report.warnings.push(null_object(here));
        }
        return None;
    }
    match kind {
        Kind::Plain(scalar) => read_scalar(value, *scalar, here, report)
            .filter(|value| value.as_str() != Some("") && value.as_i64() != Some(0)),
        Kind::Optional(scalar) => read_scalar(value, *scalar, here, report),
        Kind::Object(inner) => match value {
            Value::Object(object) => {
                let object = read_object(object, inner, here, report);
                (!object.is_empty()).then_some(Value::Object(object))
            }
            other => report_mismatch(here, "an object", other, report),
        },
        Kind::Objects(inner, _) => read_list(value, here, report, |item, here, report| match item {
            Value::Object(object) => Some(Value::Object(read_object(object, inner, here, report))),
            Value::Null => {
                report.warnings.push(null_object(here));
                Some(Value::Object(Map::new()))
            }
            other => report_mismatch(here, "an object", other, report),
        }),
        Kind::Strings(_) => read_list(value, here, report, |item, here, report| match item {
            Value::Null => Some(Value::String(String::new())),
            item => read_scalar(item, Scalar::Text, here, report),
        }),
    }
}

fn read_list(
    value: &Value,
    here: &Trail<'_>,
    report: &mut Report,
    read_item: impl Fn(&Value, &Trail<'_>, &mut Report) -> Option<Value>,
) -> Option<Value> {
    let Value::Array(items) = value else {
        return report_mismatch(here, "a list", value, report);
    };
    let items: Vec<Value> =
        items.iter().enumerate().filter_map(|(i, item)| read_item(item, &Trail::Item(here, i), report)).collect();
    (!items.is_empty()).then_some(Value::Array(items))
}

fn read_scalar(value: &Value, scalar: Scalar, here: &Trail<'_>, report: &mut Report) -> Option<Value> {
    match (scalar, value) {
        (Scalar::Text, Value::String(_)) | (Scalar::Flag, Value::Bool(_)) => Some(value.clone()),
        (Scalar::Whole, Value::Number(number)) => match number.as_i64() {
            Some(_) => Some(value.clone()),
            // `-0` is an integer literal, which serde_json can only keep as a float.
            None if number.as_f64() == Some(0.0) && number.to_string().starts_with('-') => Some(Value::from(0)),
            None => report_mismatch(here, "a whole number", value, report),
        },
        (Scalar::Text, _) => report_mismatch(here, "a string", value, report),
        (Scalar::Flag, _) => report_mismatch(here, "true or false", value, report),
        (Scalar::Whole, _) => report_mismatch(here, "a whole number", value, report),
    }
}

fn report_mismatch(here: &Trail<'_>, expected: &str, found: &Value, report: &mut Report) -> Option<Value> {
    report.errors.push(mismatch(here, expected, found));
    None
}

fn mismatch(here: &Trail<'_>, expected: &str, found: &Value) -> Entry {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number with a fraction or exponent",
        Value::Number(number) if number.as_i64().is_none() => "a number that is too large",
        Value::Number(_) => "a number",
        Value::String(text) if expected == "a whole number" && looks_like_number(text) => {
            "a string (remove the quotes)"
        }
        Value::String(_) if expected == "true or false" => "a string (remove any quotes)",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Entry { pointer: here.pointer(), message: format!("expected {expected}, found {found}") }
}

fn looks_like_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn null_object(here: &Trail<'_>) -> Entry {
    Entry { pointer: here.pointer(), message: "null where an object is expected, taken as an empty one".to_owned() }
}
