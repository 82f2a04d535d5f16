//! Laying configs over each other, by the structure alone: none needs to be valid, and the result is not validated.
//!
//! The order of items is the parent's, then the child's new ones. An item that moves to another list of its group (a file that
//! becomes a link) moves to the end of that list and takes nothing along. Each list keeps an index of its keys, so that laying
//! many configs over one another takes time in proportion to their sizes, not to their number times the result.

use super::Config;
use super::schema::{CONFIG, Items, Key, Kind, RESOURCE, Struct};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

type Object = Map<String, Value>;

/// How the contents of a file are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentsRule {
    /// Field by field, as the specification says: a later plain source keeps an earlier `compression: gzip`.
    ByField,
    /// A later source replaces the earlier contents as a whole, since its other fields describe it.
    Whole,
}

/// A stack of configs, each laid over those before it.
#[derive(Debug)]
pub struct Layers(Node);

impl Layers {
    /// A stack that begins with `base`.
    pub fn new(base: Config, rule: ContentsRule) -> Self {
        Self(Node::new(object(base.0), &CONFIG, rule))
    }

    /// Lays `child` over what is there.
    pub fn lay(&mut self, child: Config) {
        self.0.lay(object(child.0));
    }

    /// The result.
    pub fn finish(self) -> Config {
        Config(Value::Object(self.0.finish()))
    }
}

/// One object of the result so far.
#[derive(Debug)]
struct Node {
    shape: &'static Struct,
    rule: ContentsRule,
    scalars: Object,
    objects: BTreeMap<&'static str, Node>,
    lists: BTreeMap<&'static str, Keyed>,
}

/// A list with an index of its keys. Slots of removed items stay, empty.
#[derive(Debug, Default)]
struct Keyed {
    slots: Vec<Option<Value>>,
    /// Several slots for one key only if an input repeats it, which is not valid.
    at: BTreeMap<String, Vec<usize>>,
}

/// Where a child has the item of a key: list, and the last index there.
type Places = BTreeMap<String, (&'static str, usize)>;

impl Node {
    fn new(base: Object, shape: &'static Struct, rule: ContentsRule) -> Self {
        let mut node = Self { shape, rule, scalars: Object::new(), objects: BTreeMap::new(), lists: BTreeMap::new() };
        node.lay(base);
        node
    }

    fn lay(&mut self, mut child: Object) {
        let shared = shared_places(&child, self.shape);
        for field in self.shape.fields {
            let theirs = child.remove(field.name);
            match &field.kind {
                Kind::Plain(_) => {
                    self.scalars.remove(field.name);
                    if let Some(value) = theirs {
                        self.scalars.insert(field.name.to_owned(), value);
                    }
                }
                Kind::Optional(_) => {
                    if let Some(value) = theirs {
                        self.scalars.insert(field.name.to_owned(), value);
                    }
                }
                Kind::Object(inner) => {
                    // An object without anything set counts as absent; in normal form it is.
                    let Some(Value::Object(theirs)) = theirs else { continue };
                    let whole = self.rule == ContentsRule::Whole
                        && field.name == "contents"
                        && std::ptr::eq(*inner, &raw const RESOURCE)
                        && theirs.contains_key("source");
                    match self.objects.get_mut(field.name) {
                        Some(ours) if !whole => ours.lay(theirs),
                        _ => {
                            self.objects.insert(field.name, Self::new(theirs, inner, self.rule));
                        }
                    }
                }
                Kind::Objects(_, items) | Kind::Strings(items) => {
                    let inner = if let Kind::Objects(inner, _) = &field.kind { Some(*inner) } else { None };
                    let theirs = match theirs {
                        Some(Value::Array(theirs)) => theirs,
                        _ => Vec::new(),
                    };
                    let ours = self.lists.entry(field.name).or_default();
                    ours.lay(theirs, field.name, *items, &shared, |ours, theirs| match (inner, ours, theirs) {
                        // A header without a value is there to take the parent's away.
                        (_, _, Value::Object(theirs))
                            if matches!(items, Items::Headers) && !theirs.contains_key("value") =>
                        {
                            None
                        }
                        (Some(inner), Value::Object(ours), Value::Object(theirs)) => {
                            let mut both = Self::new(ours, inner, self.rule);
                            both.lay(theirs);
                            Some(Value::Object(both.finish()))
                        }
                        (_, _, theirs) => Some(theirs),
                    });
                }
            }
        }
    }

    fn finish(self) -> Object {
        let mut to = self.scalars;
        for (name, node) in self.objects {
            let inner = node.finish();
            if !inner.is_empty() {
                to.insert(name.to_owned(), Value::Object(inner));
            }
        }
        for (name, list) in self.lists {
            let items: Vec<Value> = list.slots.into_iter().flatten().collect();
            if !items.is_empty() {
                to.insert(name.to_owned(), Value::Array(items));
            }
        }
        to
    }
}

impl Keyed {
    fn lay(
        &mut self,
        theirs: Vec<Value>,
        name: &'static str,
        items: Items,
        shared: &Places,
        pair: impl Fn(Value, Value) -> Option<Value>,
    ) {
        let Some(key) = items.key() else {
            self.slots.extend(theirs.into_iter().map(Some));
            return;
        };
        let own;
        let places = if items.shared() {
            shared
        } else {
            own = places(&theirs, key, name);
            &own
        };
        let keys: Vec<String> = theirs.iter().map(|item| key.of(item).into_owned()).collect();
        // Before anything is taken away: what meets an item of ours is not also appended.
        let known: Vec<bool> = keys.iter().map(|key| self.at.contains_key(key)).collect();
        for (id, (list, index)) in places {
            let Some(slots) = self.at.get(id) else { continue };
            for &slot in slots {
                let ours = self.slots[slot].take();
                // In another list of the group it has become something else.
                if *list == name
                    && let Some(ours) = ours
                {
                    self.slots[slot] = pair(ours, theirs[*index].clone());
                }
            }
            if slots.iter().all(|&slot| self.slots[slot].is_none()) {
                self.at.remove(id);
            }
        }
        for ((item, id), known) in theirs.into_iter().zip(keys).zip(known) {
            if !known {
                self.at.entry(id).or_default().push(self.slots.len());
                self.slots.push(Some(item));
            }
        }
    }
}

fn places(items: &[Value], key: Key, name: &'static str) -> Places {
    items.iter().enumerate().map(|(index, item)| (key.of(item).into_owned(), (name, index))).collect()
}

/// Of all lists that share a name space. If an invalid child has one key in two of them, the last list decides.
fn shared_places(child: &Object, shape: &Struct) -> Places {
    let mut all = Places::new();
    for field in shape.fields {
        if let Kind::Objects(_, items) | Kind::Strings(items) = &field.kind
            && let (true, Some(key)) = (items.shared(), items.key())
        {
            all.extend(places(super::schema::list(child, field.name), key, field.name));
        }
    }
    all
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
