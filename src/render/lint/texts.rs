//! Texts in files and units: placeholders and line ends.

use super::{View, in_config, placeholder};
use crate::render::Checked;
use crate::render::finding::Finding;
use crate::render::ignition::{contents, ssh_key};
use crate::render::layer::Contents;
use crate::render::rule::{self, Rule};
use crate::render::validate::{Decoded, Decoder, quoted};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// Largest text that is looked into, in bytes, decoded: people write small ones.
const TEXT_LIMIT: u64 = 256 << 10;

/// Endings of files of code and prose, where brackets are syntax or stand for what a reader gives later.
const CODE_AND_PROSE: [&str; 24] = [
    "py", "c", "h", "cc", "cpp", "hpp", "go", "rs", "js", "ts", "java", "pl", "pm", "rb", "lua", "sh", "bash", "awk",
    "md", "rst", "adoc", "html", "xml", "svg",
];

/// An item that has a text, in the order in which items are printed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Named<'a> {
    /// `UNIT/NAME`.
    Dropin(String),
    File(&'a str),
    Unit(&'a str),
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropin(name) => write!(f, "drop-in {name}"),
            Self::File(path) => write!(f, "file {path}"),
            Self::Unit(name) => write!(f, "unit {name}"),
        }
    }
}

impl Named<'_> {
    fn ending(&self) -> &str {
        let name = match self {
            Self::Dropin(name) => name,
            Self::File(name) | Self::Unit(name) => *name,
        };
        name.rsplit_once('.').map_or("", |(_, ending)| ending)
    }
}

/// A text and where it stands.
struct Text<'a> {
    source: &'a Checked<'a>,
    at: Where,
    body: Cow<'a, str>,
}

pub(super) fn check<'a>(view: &View<'a>, decoder: &Decoder<'a>, found: &mut Vec<Finding>) {
    for source in &view.sources {
        paths_and_keys(source, found);
    }
    // Of two texts that differ only in their line ends one is not plain.
    let mut suspects: HashSet<&str> = HashSet::new();
    for file in view.sources.iter().flat_map(|source| &source.layer.files) {
        let is_plain = |read: &Result<Decoded, _>| read.as_ref().map_or(true, |read| read.plain);
        if !decoder.known(file.contents).is_some_and(is_plain) {
            suspects.insert(file.path);
        }
    }
    let is_suspect = |item: &Named| match item {
        Named::File(path) => suspects.contains(path),
        Named::Dropin(_) | Named::Unit(_) => true,
    };
    // By item: what two sources say of one can be compared.
    let mut items: BTreeMap<Named, Vec<(usize, Where)>> = BTreeMap::new();
    for (number, source) in view.sources.iter().enumerate() {
        for (item, at) in texts_of(source).filter(|(item, _)| is_suspect(item)) {
            items.entry(item).or_default().push((number, at));
        }
    }
    for (item, places) in &items {
        let texts: Vec<Text> = places.iter().filter_map(|(number, at)| at.read(&view.sources[*number])).collect();
        for text in &texts {
            one(item, text, found);
        }
        line_ends(item, &texts, found);
    }
}

/// A text of a source that is not read yet.
#[derive(Clone, Copy)]
enum Where {
    File(usize),
    Unit(usize),
    Dropin(usize, usize),
}

fn texts_of<'s>(source: &'s Checked) -> impl Iterator<Item = (Named<'s>, Where)> + 's {
    let files = source.layer.files.iter().enumerate();
    let files = files.map(|(i, file)| (Named::File(file.path), Where::File(i)));
    let units = source.layer.units.iter().enumerate().flat_map(|(i, unit)| {
        let dropins = unit.dropins.iter().enumerate();
        let dropins =
            dropins.map(move |(j, (name, _))| (Named::Dropin(format!("{}/{name}", unit.name)), Where::Dropin(i, j)));
        dropins.chain([(Named::Unit(unit.name), Where::Unit(i))])
    });
    files.chain(units)
}

impl Where {
    /// The text; none when there is none, it is no text, or it is too large to be written by hand.
    fn read<'a>(self, source: &'a Checked) -> Option<Text<'a>> {
        let body = match self {
            Self::File(i) => decoded(source.layer.files.get(i)?.contents)?.into(),
            Self::Unit(i) => source.layer.units.get(i)?.contents?.into(),
            Self::Dropin(i, j) => {
                let (_, text) = source.layer.units.get(i)?.dropins.get(j)?;
                (*text)?.into()
            }
        };
        Some(Text { source, at: self, body })
    }

    /// The field that holds it.
    fn path(self) -> String {
        in_config(match self {
            Self::File(i) => format!("storage.files[{i}].contents.source"),
            Self::Unit(i) => format!("systemd.units[{i}].contents"),
            Self::Dropin(i, j) => format!("systemd.units[{i}].dropins[{j}].contents"),
        })
    }
}

impl Text<'_> {
    fn finding(&self, rule: &'static Rule, message: String) -> Finding {
        rule.finding(&self.source.object, self.at.path(), message)
    }
}

fn decoded(contents: Contents) -> Option<String> {
    let compression = contents.compression.filter(|c| !c.is_empty());
    let bytes = contents::decode(Some(contents.source?), compression, TEXT_LIMIT).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// What is to say of one text.
fn one(item: &Named, text: &Text, found: &mut Vec<Finding>) {
    let placeholder = placeholder::in_text(&text.body).filter(|_| !CODE_AND_PROSE.contains(&item.ending()));
    if let Some((line, placeholder)) = placeholder {
        let message = format!("line {line} of {item} still has the placeholder {}", quoted(placeholder));
        found.push(text.finding(&rule::PLACEHOLDER, message));
    }
    let returns = if text.body.contains('\r') { text.body.matches("\r\n").count() } else { 0 };
    if returns > 0 {
        let all = text.body.matches('\n').count();
        let message = format!("{returns} of the {all} lines of {item} end in CR LF");
        found.push(text.finding(&rule::CRLF, message));
    }
}

/// Texts of one item that are equal but for their line ends.
fn line_ends(item: &Named, texts: &[Text], found: &mut Vec<Finding>) {
    let mut first: BTreeMap<Cow<str>, &Text> = BTreeMap::new();
    for text in texts.iter().filter(|_| texts.len() > 1) {
        let body: &str = &text.body;
        let plain = match body.contains('\r').then(|| body.replace("\r\n", "\n")) {
            Some(plain) => Cow::Owned(plain.trim_end_matches('\n').to_owned()),
            None => Cow::Borrowed(body.trim_end_matches('\n')),
        };
        // An empty file and one with an empty line are both written on purpose.
        if plain.is_empty() {
            continue;
        }
        let before = *first.entry(plain).or_insert(text);
        if before.body != text.body {
            let message = format!("{item} differs from that of {} only in its line ends", before.source.object);
            found.push(text.finding(&rule::LINE_ENDS_ONLY, message));
        }
    }
}

fn paths_and_keys(source: &Checked, found: &mut Vec<Finding>) {
    let mut say = |path: String, placeholder: &str| {
        let message = format!("still has the placeholder {}", quoted(placeholder));
        found.push(rule::PLACEHOLDER.finding(&source.object, in_config(path), message));
    };
    for (i, file) in source.layer.files.iter().enumerate() {
        if let Some(placeholder) = placeholder::in_line(file.path) {
            say(format!("storage.files[{i}].path"), placeholder);
        }
    }
    for (i, user) in source.layer.users.iter().enumerate() {
        for (j, key) in user.keys.iter().enumerate() {
            // Of a key that is none that alone is said.
            if let Some(placeholder) = placeholder::in_line(key).filter(|_| ssh_key::check(key).is_ok()) {
                say(format!("passwd.users[{i}].sshAuthorizedKeys[{j}]"), placeholder);
            }
        }
    }
}
