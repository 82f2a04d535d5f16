//! YAML as kubectl reads it: the only module that knows YAML.
//!
//! A stream is cut into documents where kubectl cuts it, its scalars are resolved by kubectl's rules (YAML 1.1, with Go's
//! numbers), and the result is JSON; nothing else of YAML reaches the rest of mcx. A text that begins with `{` is JSON first, for
//! kubectl too. What is too large or expands without bound is refused before it costs memory.

mod compose;
mod emit;
mod json;
mod places;
mod scalar;

pub use emit::Form;

use compose::Budget;
use places::Places;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The longest text that is read, in bytes. An API server takes 3 MiB a request; this is room for hundreds of objects.
pub const MAX_TEXT: usize = 32 * 1024 * 1024;

/// What all values of a stream may take, in bytes. Short texts can stand for large values: `[{},{}]` takes 200 times its length.
const MAX_MEMORY: usize = 256 * 1024 * 1024;

/// Line breaks for YAML 1.1 and ordinary characters for 1.2.
const ODD_LINE_BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// One document of a stream, as JSON, with the places of its fields.
#[derive(Clone)]
pub struct Document {
    /// The document as JSON. Null documents are dropped by [`documents`].
    pub value: Value,
    /// Line of the stream at which the document begins, from 1.
    pub line: usize,
    repeated: Vec<Repeated>,
    /// The whole stream, shared by its documents.
    text: Arc<str>,
    range: Range<usize>,
    /// Where `range` begins.
    origin: Place,
    is_json: bool,
    /// Found when first asked for.
    places: OnceLock<Located>,
}

/// Places of fields.
#[derive(Clone)]
enum Located {
    /// By JSON pointer.
    Yaml(BTreeMap<String, Place>),
    Json(Places),
}

/// A key that occurs again in its mapping. The last one counts, as for kubectl, and is hardly what was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// JSON pointer of the field.
    pub pointer: String,
    /// Where the later key stands.
    pub place: Place,
}

/// A place in a text, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// Why a text is no YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct Error {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// What is wrong, one line.
    pub message: String,
}

impl Place {
    pub(crate) fn error(self, message: &str) -> Error {
        Error { line: self.line, column: self.column, message: message.to_owned() }
    }
}

/// All documents of a stream; `List`s are not opened here. One that is wrong makes the whole stream wrong.
pub fn documents(text: &str) -> Result<Vec<Document>, Error> {
    documents_of(&Arc::from(text))
}

/// As [`documents`], of a text that is kept.
pub fn documents_of(shared: &Arc<str>) -> Result<Vec<Document>, Error> {
    let text: &str = shared;
    if text.len() > MAX_TEXT {
        let limit = MAX_TEXT >> 20;
        return Err(START.error(&format!("the text is larger than {limit} MiB; split it into several files")));
    }
    let mut budget = Budget(MAX_MEMORY);
    let mut documents = Vec::new();
    let mut add = |value: Value, is_json, repeated, origin: Place, line, range: Range<usize>| {
        if !value.is_null() {
            let text = Arc::clone(shared);
            documents.push(Document { value, line, repeated, text, range, origin, is_json, places: OnceLock::new() });
        }
    };

    let json = json::leading(text, &mut budget)?;
    for (range, value) in json.documents {
        let origin = place_at(text, range.start);
        add(value, true, Vec::new(), origin, origin.line, range);
    }
    let mut counted = json.end;
    let mut origin = place_at(text, json.end);
    for chunk in (Chunks { text, at: json.end }) {
        let at = match &chunk {
            Ok(range) => range.start,
            Err(at) => *at,
        };
        let lines = text[counted..at].matches('\n').count();
        if lines > 0 {
            origin = Place { line: origin.line + lines, column: 1 };
        }
        counted = at;
        let range = chunk.map_err(|_| origin.error("only a comment may stand behind --- on its line"))?;
        let chunk = &text[range.clone()];
        if let Some(at) = chunk.find(ODD_LINE_BREAKS) {
            return Err(place_at(text, range.start + at).error(
                "an invisible line break (U+0085, U+2028 or U+2029), on which YAML readers disagree; \
                 write it as an escape in double quotes",
            ));
        }
        let composed = compose::compose(chunk, origin, false, &mut budget)
            // What was meant to be JSON is wrong as JSON.
            .map_err(|error| json.error.clone().unwrap_or(error))?;
        add(composed.value, false, composed.repeated, origin, origin.line + lines_before_content(chunk), range);
    }
    Ok(documents)
}

/// A stream that is one JSON object, for a caller that reads the value itself, which is null here; none of a text that may be
/// refused for its size, or that is anything else at its beginning.
pub fn json_object(shared: &Arc<str>) -> Option<Document> {
    let text = shared.trim_start();
    if !text.starts_with('{') || shared.len() > MAX_TEXT || json::memory_at_most(text) > MAX_MEMORY {
        return None;
    }
    let start = shared.len() - text.len();
    let origin = place_at(shared, start);
    Some(Document {
        value: Value::Null,
        line: origin.line,
        repeated: Vec::new(),
        text: Arc::clone(shared),
        range: start..shared.len(),
        origin,
        is_json: true,
        places: OnceLock::new(),
    })
}

/// A value of a part of a text of [`json_object`], as it is read there; none when the whole may be refused for it.
pub fn json_part(value: Value) -> Option<Value> {
    json::part(value)
}

/// Text that every YAML 1.1 and 1.2 reader reads back as `value`.
pub fn to_string(value: &Value) -> String {
    emit::emit(value)
}

/// The same for a document that a person will read and keep.
pub fn to_hand_written(form: &Form) -> String {
    emit::emit_form(form)
}

impl Document {
    /// Where the field at this JSON pointer stands: its key, or the list item; else the nearest one above that has a place.
    pub fn locate(&self, pointer: &str) -> Option<Place> {
        let places = self.places.get_or_init(|| {
            if self.is_json {
                return Located::Json(Places::of(&self.text, self.range.start, self.origin));
            }
            // The text was read before.
            compose::compose(&self.text[self.range.clone()], self.origin, true, &mut Budget(MAX_MEMORY))
                .map_or_else(|_| Located::Json(Places::default()), |composed| Located::Yaml(composed.places))
        });
        let whole = Place { line: self.line, column: 1 };
        let places = match places {
            Located::Yaml(places) => places,
            Located::Json(places) => return Some(places.locate(&self.text, pointer).unwrap_or(whole)),
        };
        let mut at = pointer;
        loop {
            match places.get(at) {
                // The document itself begins where its text does, which may be a line with ---.
                Some(place) if !at.is_empty() => return Some(*place),
                _ => {}
            }
            match at.rsplit_once('/') {
                Some((above, _)) => at = above,
                None => return Some(places.get("").copied().unwrap_or(whole)),
            }
        }
    }

    /// The whole stream that the document is in.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Keys that occur again in their mapping, in order. (Not looked for in JSON.)
    pub fn repeated(&self) -> &[Repeated] {
        &self.repeated
    }
}

/// Without the text, which is that of the whole stream.
impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document").field("line", &self.line).field("value", &self.value).finish_non_exhaustive()
    }
}

const START: Place = Place { line: 1, column: 1 };

/// The place of a byte offset that is on a character boundary.
fn place_at(text: &str, offset: usize) -> Place {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Place { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
}

/// Lines of a chunk before the first one with content.
fn lines_before_content(chunk: &str) -> usize {
    let empty = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#') || line.starts_with("---");
    chunk.lines().take_while(empty).count()
}

/// Adds a reference token to a JSON pointer.
fn push_escaped(pointer: &mut String, token: &str) {
    for c in token.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

/// Cuts a stream where kubectl does: at each line that begins with `---`, whatever the text around it means. An error is the
/// offset of such a line with more than a comment on it.
struct Chunks<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Chunks<'_> {
    type Item = Result<Range<usize>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let mut at = start;
        for line in self.text[start..].split_inclusive('\n') {
            if let Some(behind) = line.strip_prefix("---") {
                let behind = behind.trim();
                if !behind.is_empty() && !behind.starts_with('#') {
                    self.at = self.text.len();
                    return Some(Err(at));
                }
                if at > start {
                    self.at = at + line.len();
                    return Some(Ok(start..at));
                }
                // The first line of a document: part of it.
            }
            at += line.len();
        }
        self.at = at;
        (at > start).then_some(Ok(start..at))
    }
}

#[cfg(test)]
mod tests;
