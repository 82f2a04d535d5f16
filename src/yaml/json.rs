//! JSON at the beginning of a stream, which kubectl reads as JSON: one object after the other, as long as they go.

use super::compose::Budget;
use super::scalar::fold;
use super::{Error, Place, place_at};
use serde_json::Value;
use std::ops::Range;

/// What was read as JSON.
#[derive(Debug, Default)]
pub(super) struct Leading {
    pub(super) documents: Vec<(Range<usize>, Value)>,
    /// Where it ends; the rest is YAML.
    pub(super) end: usize,
    /// Why it ended, when the rest looks like JSON too.
    pub(super) error: Option<Error>,
}

/// Reads the JSON objects that `text` begins with.
pub(super) fn leading(text: &str, budget: &mut Budget) -> Result<Leading, Error> {
    let mut found = Leading::default();
    if !text.trim_start().starts_with('{') {
        return Ok(found);
    }
    // Before the reader allocates: text that expands without bound is refused here, whatever it is.
    budget.spend(memory(text), place_at(text, text.len() - text.trim_start().len()))?;
    let mut reader = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    while let Some(value) = reader.next() {
        match value {
            Ok(mut value) => {
                let end = reader.byte_offset();
                fold_floats(&mut value);
                found.documents.push((found.end..end, value));
                found.end = end;
            }
            Err(error) => {
                let place = Place { line: error.line().max(1), column: error.column().max(1) };
                let what = match error.classify() {
                    serde_json::error::Category::Eof => "the JSON ends too early",
                    _ => "this is not JSON",
                };
                let error = place.error(what);
                // After more than one object it cannot be a YAML stream.
                if found.documents.len() > 1 {
                    return Err(error);
                }
                let rest = text[found.end..].trim_start();
                let inner = rest.strip_prefix('{').unwrap_or_default().trim_start();
                found.error = inner.starts_with(['"', '}']).then_some(error);
                break;
            }
        }
    }
    for (range, _) in &mut found.documents {
        let before = &text[range.clone()];
        range.start += before.len() - before.trim_start().len();
    }
    // The rest of the last object's line is blank, or part of what follows.
    let rest = &text[found.end..];
    let blank = rest.len() - rest.trim_start().len();
    found.end += rest[..blank].find('\n').map_or(blank, |newline| newline + 1);
    Ok(found)
}

/// Nesting of a part that cannot make the whole nest too deep for the reader: it takes 127 levels.
const PART_NESTING: usize = 100;

/// The value of a part, as it is in the value of the whole.
pub(super) fn part(mut value: Value) -> Option<Value> {
    if nesting(&value) > PART_NESTING {
        return None;
    }
    fold_floats(&mut value);
    Some(value)
}

fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(nesting).max().unwrap_or_default(),
        _ => 0,
    }
}

/// No less than [`memory`], in a fraction of its time: brackets and commas in strings are counted, too.
pub(super) fn memory_at_most(text: &str) -> usize {
    let count = |mark: char| text.matches(mark).count();
    text.len() + count('{') * Budget::MAPPING + (count('[') + count(',')) * Budget::NODE
}

/// Memory that the values in a JSON text may take, in bytes.
fn memory(text: &str) -> usize {
    let (mut bytes, mut in_string, mut escaped) = (text.len(), false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => bytes += Budget::MAPPING,
            b'[' | b',' if !in_string => bytes += Budget::NODE,
            _ => {}
        }
    }
    bytes
}

fn fold_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(folded) = number.as_f64().and_then(fold) {
                *number = folded;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(fold_floats),
        Value::Object(fields) => fields.values_mut().for_each(fold_floats),
        _ => {}
    }
}
