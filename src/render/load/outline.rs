//! A text that is one JSON object, of our sources: read straight into types, without a tree of values in between.
//!
//! A shortcut and no more: what is not exactly so, down to each key, is left to the reader of all texts. A property test holds
//! both together.

use crate::api::ignition_config::Plain;
use crate::api::{API_VERSION, IgnitionConfig};
use crate::yaml;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a text holds.
#[derive(Debug)]
pub(super) enum Outline {
    /// A single source.
    One(Source),
    /// The elements of a list, in their order.
    List(Vec<Element>),
}

/// An element of a list.
#[derive(Debug)]
pub(super) enum Element {
    /// A source with a config that has only known keys and right types.
    Source(Source),
    /// Anything else.
    Other(Value),
}

/// A `MachineConfig` of the one version.
#[derive(Debug)]
pub(super) struct Source {
    /// The object without its config.
    pub(super) object: Value,
    pub(super) config: IgnitionConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SourceText {
    api_version: String,
    kind: String,
    metadata: Value,
    spec: BTreeMap<SpecKey, Plain>,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
enum SpecKey {
    Config,
}

/// Reads `text`, which begins with an object. `is_list` tells by kind and version whether an object is a list.
pub(super) fn read(text: &str, is_list: impl Fn(&str, &str) -> bool) -> Option<Outline> {
    let mut cut = Cut { text, at: 0 };
    let (mut kind, mut version, mut items) = (None, None, None);
    cut.take(b'{')?;
    loop {
        let key: String = serde_json::from_str(cut.part()?).ok()?;
        cut.take(b':')?;
        let again = match key.as_str() {
            "kind" => kind.replace(serde_json::from_str::<String>(cut.part()?).ok()?).is_some(),
            "apiVersion" => version.replace(serde_json::from_str::<String>(cut.part()?).ok()?).is_some(),
            "metadata" => yaml::json_part(serde_json::from_str(cut.part()?).ok()?).is_none(),
            "items" => items.replace(cut.elements()?).is_some(),
            _ => return source(text).map(Outline::One),
        };
        if again {
            return None;
        }
        match cut.next()? {
            b',' => {}
            b'}' if cut.next().is_none() => break,
            _ => return None,
        }
    }
    if !is_list(&kind?, &version?) {
        return None;
    }
    let elements = items?.into_iter().map(|item| match source(item) {
        Some(source) => Some(Element::Source(source)),
        None => yaml::json_part(serde_json::from_str(item).ok()?).map(Element::Other),
    });
    elements.collect::<Option<_>>().map(Outline::List)
}

fn source(text: &str) -> Option<Source> {
    // Of a list serde would take the elements for the fields. Of another kind, much would be read for nothing.
    if !text.trim_start().starts_with('{') || !text.contains("\"MachineConfig\"") {
        return None;
    }
    let SourceText { api_version, kind, metadata, mut spec } = serde_json::from_str(text).ok()?;
    let config = spec.remove(&SpecKey::Config)?;
    if kind != "MachineConfig" || api_version != API_VERSION {
        return None;
    }
    let object = Map::from_iter([
        ("apiVersion".to_owned(), api_version.into()),
        ("kind".to_owned(), kind.into()),
        ("metadata".to_owned(), yaml::json_part(metadata)?),
        ("spec".to_owned(), Map::new().into()),
    ]);
    Some(Source { object: object.into(), config: config.into() })
}

/// Cuts a JSON text into its parts.
struct Cut<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cut<'t> {
    /// The next byte that is no white space, if there is one.
    fn next(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blank = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += blank;
        let byte = *rest.get(blank)?;
        self.at += 1;
        Some(byte)
    }

    /// That byte, which must be this one.
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// The text of the next value.
    fn part(&mut self) -> Option<&'t str> {
        let rest = &self.text[self.at..];
        let mut parts = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        parts.next()?.ok()?;
        let length = parts.byte_offset();
        self.at += length;
        Some(&rest[..length])
    }

    /// The texts of the elements of the list that comes next.
    fn elements(&mut self) -> Option<Vec<&'t str>> {
        self.take(b'[')?;
        let mut elements = Vec::new();
        if self.next()? == b']' {
            return Some(elements);
        }
        self.at -= 1;
        loop {
            elements.push(self.part()?);
            match self.next()? {
                b',' => {}
                b']' => return Some(elements),
                _ => return None,
            }
        }
    }
}
