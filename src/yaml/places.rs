//! Places of the fields of a JSON object, found in one pass and kept small: a source has thousands of fields, and a text with
//! many findings is looked at for each.
//!
//! They are those that `compose` finds, which reads JSON as the YAML that it nearly is.

use super::Place;
use serde_json::Value;
use std::borrow::Cow;

/// The fields of a text, each before those below it.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(Vec<Node>);

/// A value: the whole, that of a key, or an element.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Of its key, else of itself.
    line: u32,
    column: u32,
    /// Offset of its key, else of itself.
    at: u32,
    /// Offset of itself.
    value: u32,
    /// Number of the first node that is not in it.
    end: u32,
}

impl Places {
    /// Of the object in `text` at `start`, which is at `origin`; nothing of a text that is not JSON there.
    pub(super) fn of(text: &str, start: usize, origin: Place) -> Self {
        let mut scan = Scan { bytes: text.as_bytes(), at: start, counted: start, place: origin, nodes: Vec::new() };
        match scan.value(None) {
            Some(()) => Self(scan.nodes),
            None => Self::default(),
        }
    }

    /// Where the field at `pointer` stands, or the nearest one above it. `text` is that which the places are of.
    pub(super) fn locate(&self, text: &str, pointer: &str) -> Option<Place> {
        let mut at = 0;
        for token in pointer.split('/').skip(1) {
            match self.child(text, at, token) {
                Some(child) => at = child,
                None => break,
            }
        }
        let node = self.0.get(at)?;
        Some(Place { line: usize::try_from(node.line).ok()?, column: usize::try_from(node.column).ok()? })
    }

    /// The number of the node below that of number `parent`. Of a repeated key the last one counts.
    fn child(&self, text: &str, parent: usize, token: &str) -> Option<usize> {
        let node = self.0.get(parent)?;
        let offset = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
        let mut children = std::iter::successors(Some(parent + 1), |child| Some(offset(self.0.get(*child)?.end)))
            .take_while(|child| *child < offset(node.end));
        match text.as_bytes().get(offset(node.value))? {
            b'[' => children.nth(token.parse().ok()?),
            b'{' => {
                let token = if token.contains('~') {
                    Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
                } else {
                    Cow::Borrowed(token)
                };
                children.filter(|child| key_is(text, offset(self.0[*child].at), &token)).last()
            }
            _ => None,
        }
    }
}

/// Whether the quoted text at `at` is `token`.
fn key_is(text: &str, at: usize, token: &str) -> bool {
    let quoted = text.get(at..).unwrap_or_default();
    let length = quoted.bytes().skip(1).take_while(|b| !matches!(b, b'"' | b'\\')).count();
    let plain = quoted.get(1..=length).unwrap_or_default();
    match quoted.as_bytes().get(length + 1) {
        // An escape: the reader knows them all.
        Some(b'\\') => {
            let mut values = serde_json::Deserializer::from_str(quoted).into_iter::<Value>();
            values.next().is_some_and(|key| key.is_ok_and(|key| key == token))
        }
        _ => plain == token,
    }
}

struct Scan<'t> {
    bytes: &'t [u8],
    at: usize,
    /// Offset of `place`.
    counted: usize,
    place: Place,
    nodes: Vec<Node>,
}

impl Scan<'_> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.bytes.get(self.at)?, b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// The value that comes next, with all below it. `key` is the offset of its key.
    fn value(&mut self, key: Option<usize>) -> Option<()> {
        let first = self.peek()?;
        let value = self.at;
        let at = key.unwrap_or(value);
        self.count(at);
        let number = self.nodes.len();
        let narrow = |wide: usize| u32::try_from(wide).ok();
        self.nodes.push(Node {
            line: narrow(self.place.line)?,
            column: narrow(self.place.column)?,
            at: narrow(at)?,
            value: narrow(value)?,
            end: 0,
        });
        match first {
            b'{' => self.items(b'}', |scan| {
                scan.peek()?;
                let key = scan.at;
                scan.text()?;
                scan.take(b':')?;
                scan.value(Some(key))
            })?,
            b'[' => self.items(b']', |scan| scan.value(None))?,
            b'"' => self.text()?,
            _ => {
                let rest = self.bytes[self.at..].iter();
                self.at += rest.take_while(|b| !matches!(b, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')).count();
            }
        }
        self.nodes[number].end = narrow(self.nodes.len())?;
        Some(())
    }

    /// What stands between two brackets.
    fn items(&mut self, close: u8, item: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        if self.peek()? == close {
            return self.take(close);
        }
        loop {
            item(self)?;
            let found = self.peek()?;
            self.at += 1;
            match found {
                b',' => {}
                found => return (found == close).then_some(()),
            }
        }
    }

    /// A text in quotes.
    fn text(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            let rest = self.bytes.get(self.at..)?;
            let length = rest.iter().position(|b| matches!(b, b'"' | b'\\'))?;
            self.at += length + 1;
            if rest[length] == b'"' {
                return Some(());
            }
            self.at += 1;
        }
    }

    /// Moves the place to an offset: lines end in LF, and columns are characters.
    fn count(&mut self, to: usize) {
        for byte in &self.bytes[self.counted..to] {
            match byte {
                b'\n' => self.place = Place { line: self.place.line + 1, column: 1 },
                // Within a character.
                0x80..0xc0 => {}
                _ => self.place.column += 1,
            }
        }
        self.counted = to;
    }
}
