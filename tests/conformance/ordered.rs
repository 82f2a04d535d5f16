//! JSON with all its keys, in the order of the text: a map would lose what readers disagree about.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// A JSON value as it is written.
#[derive(Debug, Clone)]
pub(crate) enum Ordered {
    Leaf(Value),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

static NOTHING: Ordered = Ordered::Leaf(Value::Null);

impl Ordered {
    /// Of a text; none if it is no JSON, or nested deeper than anybody reads.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Of an object, the last value of this key; else null.
    pub(crate) fn get(&self, name: &str) -> &Self {
        match self {
            Self::Object(fields) => {
                fields.iter().rev().find(|(key, _)| key == name).map_or(&NOTHING, |(_, value)| value)
            }
            _ => &NOTHING,
        }
    }

    pub(crate) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// As most readers have it: of a repeated key the last one counts.
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Leaf(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::value).collect(),
            Self::Object(fields) => {
                Value::Object(fields.iter().map(|(key, value)| (key.clone(), value.value())).collect::<Map<_, _>>())
            }
        }
    }

    /// Whether some object has a key twice.
    pub(crate) fn repeats(&self) -> bool {
        match self {
            Self::Leaf(_) => false,
            Self::List(items) => items.iter().any(Self::repeats),
            Self::Object(fields) => {
                let twice = |i: usize, key: &str| fields[..i].iter().any(|(other, _)| other == key);
                fields.iter().enumerate().any(|(i, (key, value))| twice(i, key) || value.repeats())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Ordered, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Ordered::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Ordered, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = access.next_entry()? {
            fields.push(field);
        }
        Ok(Ordered::Object(fields))
    }
}
