//! From the events of one document to a JSON value, and to the places of its fields.
//!
//! Values and places come from the same walk, so that a place can never belong to another field than the value. The places
//! are asked for only when something is wrong, hence a second walk then, and none of their cost otherwise.

use super::scalar::{self, Scalar, Tag};
use super::{Error, Place, Repeated};
use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Collections that may be open at once, of each style. Values nest no deeper then, and may be walked recursively.
const MAX_NESTING: usize = 200;

/// What one document came to.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) value: Value,
    pub(super) repeated: Vec<Repeated>,
    /// JSON pointer to place; empty unless asked for.
    pub(super) places: BTreeMap<String, Place>,
}

/// Memory that may still be used, in bytes, over all documents of a stream.
#[derive(Debug)]
pub(super) struct Budget(pub(super) usize);

impl Budget {
    /// A scalar or list, without its text.
    pub(super) const NODE: usize = 64;
    /// A mapping: room for eleven entries is set aside with the first.
    pub(super) const MAPPING: usize = 640;

    pub(super) fn spend(&mut self, bytes: usize, at: Place) -> Result<(), Error> {
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(at.error("the text holds more values than mcx accepts; split it into several files")),
        }
    }
}

/// Reads the first document of `text`, which begins at `origin` in its stream. There must be no second one.
pub(super) fn compose(text: &str, origin: Place, places: bool, budget: &mut Budget) -> Result<Composed, Error> {
    let mut options = granit_parser::options! {
        // A directive needs a `---` behind it, where kubectl has already cut the stream.
        disallow_directives: true,
        flow_nesting_limit: MAX_NESTING,
        block_nesting_limit: MAX_NESTING,
    };
    options.set_emit_comments(false);
    let mut composer = Composer {
        events: Parser::new_from_str_with_options(text, options),
        origin,
        anchors: BTreeMap::new(),
        budget,
        nodes: 0,
        aliased: 0,
        pointer: String::new(),
        repeated: Vec::new(),
        places: places.then(BTreeMap::new),
    };
    let value = composer.document()?;
    Ok(Composed { value, repeated: composer.repeated, places: composer.places.unwrap_or_default() })
}

/// A value with what it takes to copy it.
#[derive(Debug, Clone)]
struct Node {
    value: Value,
    /// Nodes in it, keys and itself included.
    nodes: u64,
    /// Memory, in bytes.
    bytes: usize,
}

struct Composer<'t, 'b> {
    events: Parser<'t, StrInput<'t>>,
    origin: Place,
    anchors: BTreeMap<usize, Node>,
    budget: &'b mut Budget,
    /// Nodes so far, those that aliases stand for included; and how many of them stand behind aliases.
    nodes: u64,
    aliased: u64,
    pointer: String,
    repeated: Vec<Repeated>,
    places: Option<BTreeMap<String, Place>>,
}

impl<'t> Composer<'t, '_> {
    fn document(&mut self) -> Result<Value, Error> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd => return Ok(Value::Null),
                event => {
                    let value = self.node(event, &span)?.value;
                    self.end()?;
                    return Ok(value);
                }
            }
        }
    }

    /// Nothing may follow. (kubectl ignores what does, which nobody wants.)
    fn end(&mut self) -> Result<(), Error> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(()),
                _ => return Err(self.place(&span).error("documents must be separated by a line with ---")),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Error> {
        match self.events.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(self.syntax_error(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn syntax_error(&self, error: &ScanError) -> Error {
        let info = error.info();
        self.place_of(error.marker()).error(info.lines().next().unwrap_or("malformed YAML"))
    }

    fn place(&self, span: &Span) -> Place {
        self.place_of(&span.start)
    }

    /// A mark's lines count from 1 and its columns from 0; both from where the text begins.
    fn place_of(&self, mark: &Marker) -> Place {
        let line = mark.line().max(1);
        let before = if line == 1 { self.origin.column } else { 1 };
        Place { line: self.origin.line - 1 + line, column: before + mark.col() }
    }

    fn record(&mut self, place: Place) {
        if let Some(places) = &mut self.places {
            places.insert(self.pointer.clone(), place);
        }
    }

    /// The node that begins with `event`.
    fn node(&mut self, event: Event<'t>, span: &Span) -> Result<Node, Error> {
        let place = self.place(span);
        // The place of a field is that of its key, which was noted before.
        if let Some(places) = &mut self.places
            && !places.contains_key(&self.pointer)
        {
            places.insert(self.pointer.clone(), place);
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar::resolve(&text, tag_of(style, tag.as_deref()))
                    .and_then(Scalar::into_json)
                    .map_err(|error| place.error(&error.to_string()))?;
                self.nodes += 1;
                let bytes = Budget::NODE + text.len();
                self.budget.spend(bytes, place)?;
                (Node { value, nodes: 1, bytes }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.sequence(place)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping(place)?, anchor),
            Event::Alias(id) => return self.alias(id, place),
            _ => return Err(place.error("malformed YAML")),
        };
        if anchor != 0 {
            self.budget.spend(node.bytes, place)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn sequence(&mut self, place: Place) -> Result<Node, Error> {
        self.nodes += 1;
        self.budget.spend(Budget::NODE, place)?;
        let mut items = Vec::new();
        let (mut nodes, mut bytes) = (1, Budget::NODE);
        let above = self.pointer.len();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Node { value: Value::Array(items), nodes, bytes });
            }
            self.pointer.push('/');
            self.pointer.push_str(&items.len().to_string());
            let item = self.node(event, &span)?;
            self.pointer.truncate(above);
            nodes += item.nodes;
            bytes += item.bytes;
            items.push(item.value);
        }
    }

    fn mapping(&mut self, place: Place) -> Result<Node, Error> {
        self.nodes += 1;
        self.budget.spend(Budget::MAPPING, place)?;
        let mut fields = Map::new();
        // Fields that came by a merge and not yet by name: naming them is no repeat.
        let mut merged = BTreeSet::new();
        let (mut nodes, mut bytes) = (1, Budget::MAPPING);
        let above = self.pointer.len();
        loop {
            let (event, span) = self.next()?;
            let at_key = self.place(&span);
            if matches!(event, Event::MappingEnd) {
                return Ok(Node { value: Value::Object(fields), nodes, bytes });
            }
            if is_merge(&event) {
                let (event, span) = self.next()?;
                let sources = self.merge_sources(event, &span)?;
                nodes += 1 + sources.nodes;
                bytes += sources.bytes;
                for source in sources.value {
                    merged.extend(source.keys().cloned());
                    // In the order of the text, whatever was there before: so does kubectl's reader.
                    fields.extend(source);
                }
                continue;
            }
            let key = self.key(event, at_key)?;
            nodes += 1;
            bytes += key.len();
            self.budget.spend(key.len(), at_key)?;
            self.pointer.push('/');
            super::push_escaped(&mut self.pointer, &key);
            if self.places.is_some() {
                // The last of repeated keys counts, with all that is below it.
                self.forget_below();
                self.record(at_key);
            }
            let (event, span) = self.next()?;
            let value = self.node(event, &span)?;
            nodes += value.nodes;
            bytes += value.bytes;
            let by_merge = merged.remove(&key);
            if fields.insert(key, value.value).is_some() && !by_merge {
                self.repeated.push(Repeated { pointer: self.pointer.clone(), place: at_key });
            }
            self.pointer.truncate(above);
        }
    }

    /// Drops the places at and below the pointer.
    fn forget_below(&mut self) {
        let below = format!("{}/", self.pointer);
        if let Some(places) = &mut self.places
            && places.remove(&self.pointer).is_some()
        {
            let gone: Vec<String> = places
                .range(below.clone()..)
                .map(|(at, _)| at)
                .take_while(|at| at.starts_with(&below))
                .cloned()
                .collect();
            for at in gone {
                places.remove(&at);
            }
        }
    }

    fn key(&mut self, event: Event<'t>, place: Place) -> Result<String, Error> {
        let scalar = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.nodes += 1;
                let scalar = scalar::resolve(&text, tag_of(style, tag.as_deref()))
                    .map_err(|error| place.error(&error.to_string()))?;
                if anchor != 0
                    && let Ok(value) = scalar.clone().into_json()
                {
                    let bytes = Budget::NODE + text.len();
                    self.budget.spend(bytes, place)?;
                    self.anchors.insert(anchor, Node { value, nodes: 1, bytes });
                }
                scalar
            }
            Event::Alias(id) => match self.alias(id, place)?.value {
                Value::String(text) => Scalar::Text(text),
                Value::Bool(flag) => Scalar::Flag(flag),
                Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                    (Some(number), _) => Scalar::Whole(number),
                    (None, Some(number)) => Scalar::Fraction(number),
                    (None, None) => return Err(place.error(&scalar::Error::Key.to_string())),
                },
                _ => return Err(place.error(&scalar::Error::Key.to_string())),
            },
            _ => return Err(place.error(&scalar::Error::Key.to_string())),
        };
        scalar.into_key().map_err(|error| place.error(&error.to_string()))
    }

    fn alias(&mut self, id: usize, place: Place) -> Result<Node, Error> {
        let Some(named) = self.anchors.get(&id) else {
            return Err(place.error("an anchor contains itself"));
        };
        self.nodes += 1 + named.nodes;
        self.aliased += named.nodes;
        if self.aliased > 100 && self.nodes > 1000 && too_many_aliased(self.aliased, self.nodes) {
            return Err(place.error("aliases repeat the same values too often"));
        }
        // Before the copy, which may be large.
        self.budget.spend(named.bytes, place)?;
        Ok(Node { nodes: named.nodes + 1, ..named.clone() })
    }

    /// The mappings to merge, the weakest first.
    fn merge_sources(&mut self, event: Event<'t>, span: &Span) -> Result<Sources, Error> {
        let place = self.place(span);
        let wrong = || place.error("a merge (<<) needs a mapping or a list of mappings");
        let is_alias = matches!(event, Event::Alias(_));
        // What is merged has no place of its own here.
        let places = self.places.take();
        let node = self.node(event, span);
        self.places = places;
        let node = node?;
        let value = match node.value {
            Value::Object(source) => vec![source],
            // An alias must be one mapping.
            Value::Array(sources) if !is_alias => sources
                .into_iter()
                .rev()
                .map(|source| if let Value::Object(source) = source { Ok(source) } else { Err(wrong()) })
                .collect::<Result<_, _>>()?,
            _ => return Err(wrong()),
        };
        Ok(Sources { value, nodes: node.nodes, bytes: node.bytes })
    }
}

struct Sources {
    value: Vec<Map<String, Value>>,
    nodes: u64,
    bytes: usize,
}

/// Nearly all nodes may stand behind aliases in small texts, a tenth in huge ones: kubectl's bound.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn too_many_aliased(aliased: u64, nodes: u64) -> bool {
    const FEW: f64 = 400_000.0;
    const MANY: f64 = 4_000_000.0;
    let part = ((nodes as f64 - FEW) / (MANY - FEW)).clamp(0.0, 1.0);
    aliased as f64 / nodes as f64 > 0.99 - 0.89 * part
}

fn tag_of(style: ScalarStyle, tag: Option<&granit_parser::Tag>) -> Tag<'_> {
    match tag {
        None if style == ScalarStyle::Plain => Tag::Implicit,
        None => Tag::Quoted,
        Some(tag) => match tag.suffix_in_core() {
            Some(name) => Tag::Core(name),
            None => Tag::Foreign,
        },
    }
}

fn is_merge(event: &Event<'_>) -> bool {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, _, None) => text == "<<",
        Event::Scalar(text, _, _, Some(tag)) => text == "<<" && tag.suffix_in_core() == Some("merge"),
        _ => false,
    }
}

trait CoreTag {
    /// `name` of `!!name`.
    fn suffix_in_core(&self) -> Option<&str>;
}

impl CoreTag for granit_parser::Tag {
    fn suffix_in_core(&self) -> Option<&str> {
        (self.handle() == "tag:yaml.org,2002:" || self.handle() == "!!").then(|| self.suffix())
    }
}
