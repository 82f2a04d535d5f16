//! Writing YAML that no reader can take for something else.
//!
//! A string stands bare only if it cannot be a number, date or word such as `yes` to any reader of YAML 1.1 or 1.2; several
//! lines are a `|` block when that says exactly the same; everything else is quoted. Layout as kubectl prints it.

use serde_json::{Number, Value};
use std::fmt::Write as _;

/// Above this a key is written in the long form, since readers look only 1024 characters ahead for the colon.
const MAX_PLAIN_KEY: usize = 128;

/// Writes a value, with a line break at the end.
pub(super) fn emit(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => mapping(&mut out, value, 0, false),
        Value::Array(items) if !items.is_empty() => sequence(&mut out, items, 0, false),
        scalar => {
            inline(&mut out, scalar, 0);
            out.push('\n');
        }
    }
    out
}

/// `first_indented`: something stands on the first line already, as far in as the mapping.
fn mapping(out: &mut String, value: &Value, indent: usize, first_indented: bool) {
    let Value::Object(fields) = value else { return };
    for (i, (key, value)) in fields.iter().enumerate() {
        if i > 0 || !first_indented {
            pad(out, indent);
        }
        let mut name = String::new();
        text(&mut name, key);
        if name.len() > MAX_PLAIN_KEY {
            out.push_str("? ");
            out.push_str(&name);
            out.push('\n');
            pad(out, indent);
        } else {
            out.push_str(&name);
        }
        out.push(':');
        below(out, value, indent);
    }
}

fn sequence(out: &mut String, items: &[Value], indent: usize, first_indented: bool) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 || !first_indented {
            pad(out, indent);
        }
        out.push('-');
        match item {
            Value::Object(fields) if !fields.is_empty() => {
                out.push(' ');
                mapping(out, item, indent + 2, true);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push(' ');
                sequence(out, items, indent + 2, true);
            }
            scalar => {
                out.push(' ');
                inline(out, scalar, indent);
                out.push('\n');
            }
        }
    }
}

/// The value of a key, behind its colon.
fn below(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            mapping(out, value, indent + 2, false);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            sequence(out, items, indent, false);
        }
        scalar => {
            out.push(' ');
            inline(out, scalar, indent);
            out.push('\n');
        }
    }
}

/// A scalar or empty collection, without the last line break.
fn inline(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(value) => number(out, value),
        Value::String(value) if fits_block(value) => block(out, value, indent + 2),
        Value::String(value) => text(out, value),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn number(out: &mut String, number: &Number) {
    let written = number.to_string();
    // YAML 1.1 wants a point in a float, and a sign in its exponent.
    match written.split_once('e') {
        Some((mantissa, exponent)) => {
            out.push_str(mantissa);
            if !mantissa.contains('.') {
                out.push_str(".0");
            }
            out.push('e');
            if !exponent.starts_with(['-', '+']) {
                out.push('+');
            }
            out.push_str(exponent);
        }
        None => out.push_str(&written),
    }
}

/// A string on one line.
fn text(out: &mut String, value: &str) {
    if is_plain(value) {
        out.push_str(value);
    } else {
        quote(out, value);
    }
}

/// Whether every reader takes the bare text for this string: it begins like a word or path and is no word with a meaning.
fn is_plain(value: &str) -> bool {
    const WORDS: [&str; 11] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"];
    let ordinary = |b: u8| b.is_ascii_alphanumeric() || b"-_./+=@:,%()$~ ".contains(&b);
    value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_')
        && value.bytes().all(ordinary)
        && !value.contains(": ")
        && !value.ends_with([':', ' '])
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(value))
}

fn quote(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            // Writing to a string cannot fail.
            c if u32::from(c) <= 0xff => drop(write!(out, "\\x{:02x}", u32::from(c))),
            c if u32::from(c) <= 0xffff => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => drop(write!(out, "\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
}

/// Characters that may stand in YAML as they are, line breaks and tabs aside.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Whether a `|` block says exactly this.
fn fits_block(value: &str) -> bool {
    value.contains('\n')
        // The first line would set the indentation.
        && !value.starts_with([' ', '\t', '\n'])
        && value.chars().all(|c| is_printable(c) || matches!(c, '\n' | '\t'))
}

fn block(out: &mut String, value: &str, indent: usize) {
    let body = value.trim_end_matches('\n');
    out.push_str(match value.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    // The line break behind the last line is the caller's.
    let lines = value.strip_suffix('\n').unwrap_or(value);
    for line in lines.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}
