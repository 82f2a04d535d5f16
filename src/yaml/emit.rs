//! Writing YAML that no reader can take for something else.
//!
//! A string stands bare only if it cannot be a number, date or word such as `yes` to any reader of YAML 1.1 or 1.2;
//! several lines are a `|` block when that says exactly the same; everything else is quoted.
//!
//! Two layouts share this: a [`Value`] as kubectl prints it, and a [`Form`] as people write it. A mode of a `Form` is the
//! one thing on which readers differ (`0644` is 644 in YAML 1.2): whatever reads a `MachineConfig` reads it as kubectl does.

use serde_json::{Number, Value};
use std::fmt::Write as _;

/// Above this a key is written in the long form, since readers look only 1024 characters ahead for the colon.
const MAX_PLAIN_KEY: usize = 128;

/// A document that a person will read and keep: fields in the order given, lists further in than their key, modes in octal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// A string.
    Text(String),
    /// A string in parts: each part on a line of its own, and no line break between them.
    Parts(Vec<String>),
    /// Permission bits, as `0644`: kubectl reads them so.
    Octal(u32),
    /// A number.
    Number(u32),
    /// True or false.
    Flag(bool),
    /// A mapping.
    Fields(Vec<(&'static str, Form)>),
    /// A mapping whose keys are data.
    Pairs(Vec<(String, Form)>),
    /// A list.
    Items(Vec<Form>),
}

/// Writes a value, with a line break at the end. Layout as kubectl prints it.
pub(super) fn emit(value: &Value) -> String {
    Writer { out: String::new(), by_hand: false }.document(Node::Value(value))
}

/// Writes a form, with a line break at the end. Layout as people write it.
pub(super) fn emit_form(form: &Form) -> String {
    Writer { out: String::new(), by_hand: true }.document(Node::Form(form))
}

/// What is written.
#[derive(Clone, Copy)]
enum Node<'a> {
    Value(&'a Value),
    Form(&'a Form),
}

/// What a node holds. Empty collections are scalars: `[]` and `{}`.
enum Shape<'a> {
    Fields(Vec<(&'a str, Node<'a>)>),
    Items(Vec<Node<'a>>),
    Scalar,
}

impl<'a> Node<'a> {
    fn shape(self) -> Shape<'a> {
        match self {
            Self::Value(Value::Object(fields)) if !fields.is_empty() => {
                Shape::Fields(fields.iter().map(|(key, value)| (key.as_str(), Self::Value(value))).collect())
            }
            Self::Value(Value::Array(items)) if !items.is_empty() => {
                Shape::Items(items.iter().map(Self::Value).collect())
            }
            Self::Form(Form::Fields(fields)) if !fields.is_empty() => {
                Shape::Fields(fields.iter().map(|(key, form)| (*key, Self::Form(form))).collect())
            }
            Self::Form(Form::Pairs(fields)) if !fields.is_empty() => {
                Shape::Fields(fields.iter().map(|(key, form)| (key.as_str(), Self::Form(form))).collect())
            }
            Self::Form(Form::Items(items)) if !items.is_empty() => Shape::Items(items.iter().map(Self::Form).collect()),
            _ => Shape::Scalar,
        }
    }
}

struct Writer {
    out: String,
    by_hand: bool,
}

impl Writer {
    fn document(mut self, node: Node<'_>) -> String {
        match node.shape() {
            Shape::Fields(fields) => self.mapping(&fields, 0, false),
            Shape::Items(items) => self.sequence(&items, 0, false),
            Shape::Scalar => {
                self.scalar(node, 0);
                self.out.push('\n');
            }
        }
        self.out
    }

    /// `first_indented`: something stands on the first line already, as far in as the mapping.
    fn mapping(&mut self, fields: &[(&str, Node<'_>)], indent: usize, first_indented: bool) {
        for (i, (key, value)) in fields.iter().enumerate() {
            if i > 0 || !first_indented {
                pad(&mut self.out, indent);
            }
            let mut name = String::new();
            text(&mut name, key);
            if name.len() > MAX_PLAIN_KEY {
                self.out.push_str("? ");
                self.out.push_str(&name);
                self.out.push('\n');
                pad(&mut self.out, indent);
            } else {
                self.out.push_str(&name);
            }
            self.out.push(':');
            self.below(*value, indent);
        }
    }

    fn sequence(&mut self, items: &[Node<'_>], indent: usize, first_indented: bool) {
        for (i, item) in items.iter().enumerate() {
            if i > 0 || !first_indented {
                pad(&mut self.out, indent);
            }
            self.out.push_str("- ");
            match item.shape() {
                Shape::Fields(fields) => self.mapping(&fields, indent + 2, true),
                Shape::Items(items) => self.sequence(&items, indent + 2, true),
                Shape::Scalar => {
                    self.scalar(*item, indent);
                    self.out.push('\n');
                }
            }
        }
    }

    /// The value of a key, behind its colon.
    fn below(&mut self, node: Node<'_>, indent: usize) {
        match node.shape() {
            Shape::Fields(fields) => {
                self.out.push('\n');
                self.mapping(&fields, indent + 2, false);
            }
            Shape::Items(items) => {
                self.out.push('\n');
                self.sequence(&items, if self.by_hand { indent + 2 } else { indent }, false);
            }
            Shape::Scalar => {
                self.out.push(' ');
                self.scalar(node, indent);
                self.out.push('\n');
            }
        }
    }

    /// A scalar or empty collection, without the last line break.
    fn scalar(&mut self, node: Node<'_>, indent: usize) {
        let out = &mut self.out;
        match node {
            Node::Value(Value::Null) => out.push_str("null"),
            Node::Value(Value::Bool(flag)) | Node::Form(Form::Flag(flag)) => {
                out.push_str(if *flag { "true" } else { "false" });
            }
            Node::Value(Value::Number(value)) => number(out, value),
            Node::Value(Value::String(value)) | Node::Form(Form::Text(value)) if fits_block(value) => {
                block(out, value, indent + 2);
            }
            Node::Value(Value::Array(_)) | Node::Form(Form::Items(_)) => out.push_str("[]"),
            Node::Value(Value::Object(_)) | Node::Form(Form::Fields(_) | Form::Pairs(_)) => out.push_str("{}"),
            Node::Form(Form::Text(value)) if is_version(value) || is_numbered_name(value) => out.push_str(value),
            Node::Form(Form::Text(value)) if is_quotable(value) => {
                out.push('\'');
                out.push_str(value);
                out.push('\'');
            }
            Node::Value(Value::String(value)) | Node::Form(Form::Text(value)) => text(out, value),
            Node::Form(Form::Parts(parts)) => joined(out, parts, indent + 2),
            // Writing to a string cannot fail.
            Node::Form(Form::Octal(bits)) => drop(write!(out, "0{bits:03o}")),
            Node::Form(Form::Number(value)) => drop(write!(out, "{value}")),
        }
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

/// Three numbers with points between them: a string to every reader, and nobody puts it in quotes.
fn is_version(value: &str) -> bool {
    value.split('.').count() == 3 && value.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// `99-worker-chrony`: a dash before a letter is in no number and in no date.
fn is_numbered_name(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_digit())
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        && value.split('-').skip(1).any(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Whether single quotes, in which nothing is escaped, do for a text that cannot stand bare.
fn is_quotable(value: &str) -> bool {
    !is_plain(value) && value.chars().all(|c| is_printable(c) && c != '\'')
}

/// Parts in double quotes, with an escaped line break, which is none, between them.
fn joined(out: &mut String, parts: &[String], indent: usize) {
    let mut quoted = String::new();
    for (i, part) in parts.iter().enumerate() {
        let mut this = String::new();
        quote(&mut this, part);
        let inner = &this[1..this.len() - 1];
        if i > 0 {
            quoted.push_str("\\\n");
            pad(&mut quoted, indent);
            // Spaces at the beginning of a line are no part of it.
            if let Some(rest) = inner.strip_prefix(' ') {
                quoted.push_str("\\x20");
                quoted.push_str(rest);
                continue;
            }
        }
        quoted.push_str(inner);
    }
    out.push('"');
    out.push_str(&quoted);
    out.push('"');
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
        // The first line with text sets the indentation.
        && !value.trim_start_matches('\n').is_empty()
        && !value.trim_start_matches('\n').starts_with([' ', '\t'])
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
