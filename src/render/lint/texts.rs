//! Texts in files and units: placeholders and line ends.

use super::{SourceView, View, in_config, placeholder};
use crate::render::finding::Finding;
use crate::render::ignition::{contents, ssh_key};
use crate::render::layer::Contents;
use crate::render::rule;
use crate::render::validate::quoted;
use std::collections::BTreeMap;

/// Largest text that is looked into, in bytes, decoded: people write small ones.
const TEXT_LIMIT: u64 = 256 << 10;

/// Endings of files of code and prose, where brackets are syntax or stand for what a reader gives later.
const CODE_AND_PROSE: [&str; 24] = [
    "py", "c", "h", "cc", "cpp", "hpp", "go", "rs", "js", "ts", "java", "pl", "pm", "rb", "lua", "sh", "bash", "awk",
    "md", "rst", "adoc", "html", "xml", "svg",
];

/// A text and where it stands.
struct Text {
    object: String,
    path: String,
    body: String,
}

pub(super) fn check(view: &View, found: &mut Vec<Finding>) {
    for source in &view.sources {
        paths_and_keys(source, found);
    }
    // By item: what two sources say of one can be compared.
    let mut items: BTreeMap<String, Vec<(usize, Where)>> = BTreeMap::new();
    for (number, source) in view.sources.iter().enumerate() {
        for (item, at) in texts_of(source) {
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
enum Where {
    File(usize),
    Unit(usize),
    Dropin(usize, usize),
}

fn texts_of<'s>(source: &'s SourceView) -> impl Iterator<Item = (String, Where)> + 's {
    let files = source.layer.files.iter().enumerate();
    let files = files.map(|(i, file)| (format!("file {}", file.path), Where::File(i)));
    let units = source.layer.units.iter().enumerate().flat_map(|(i, unit)| {
        let dropins = unit.dropins.iter().enumerate();
        let dropins = dropins.map(move |(j, (name, _))| (format!("drop-in {}/{name}", unit.name), Where::Dropin(i, j)));
        dropins.chain([(format!("unit {}", unit.name), Where::Unit(i))])
    });
    files.chain(units)
}

impl Where {
    /// The text; none when there is none, it is no text, or it is too large to be written by hand.
    fn read(&self, source: &SourceView) -> Option<Text> {
        let (path, text) = match *self {
            Self::File(i) => {
                (format!("storage.files[{i}].contents.source"), decoded(source.layer.files.get(i)?.contents)?)
            }
            Self::Unit(i) => (format!("systemd.units[{i}].contents"), source.layer.units.get(i)?.contents?.to_owned()),
            Self::Dropin(i, j) => {
                let (_, text) = source.layer.units.get(i)?.dropins.get(j)?;
                (format!("systemd.units[{i}].dropins[{j}].contents"), (*text)?.to_owned())
            }
        };
        Some(Text { object: source.object.clone(), path: in_config(path), body: text })
    }
}

fn decoded(contents: Contents) -> Option<String> {
    let compression = contents.compression.filter(|c| !c.is_empty());
    let bytes = contents::decode(Some(contents.source?), compression, TEXT_LIMIT).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// What is to say of one text.
fn one(item: &str, text: &Text, found: &mut Vec<Finding>) {
    let ending = item.rsplit_once('.').map_or("", |(_, ending)| ending);
    let left = Some(&text.body).filter(|_| !CODE_AND_PROSE.contains(&ending));
    if let Some((line, placeholder)) = left.and_then(|body| placeholder::in_text(body)) {
        let message = format!("line {line} of {item} still has the placeholder {}", quoted(placeholder));
        found.push(rule::PLACEHOLDER.finding(&text.object, &text.path, message));
    }
    let (all, returns) = (text.body.matches('\n').count(), text.body.matches("\r\n").count());
    if returns > 0 {
        let message = format!("{returns} of the {all} lines of {item} end in CR LF");
        found.push(rule::CRLF.finding(&text.object, &text.path, message));
    }
}

/// Texts of one item that are equal but for their line ends.
fn line_ends(item: &str, texts: &[Text], found: &mut Vec<Finding>) {
    let mut first: BTreeMap<String, &Text> = BTreeMap::new();
    for text in texts.iter().filter(|_| texts.len() > 1) {
        let plain = text.body.replace("\r\n", "\n");
        let plain = plain.trim_end_matches('\n');
        // An empty file and one with an empty line are both written on purpose.
        if plain.is_empty() {
            continue;
        }
        let before = *first.entry(plain.to_owned()).or_insert(text);
        if before.body != text.body {
            let message = format!("{item} differs from that of {} only in its line ends", before.object);
            found.push(rule::LINE_ENDS_ONLY.finding(&text.object, &text.path, message));
        }
    }
}

fn paths_and_keys(source: &SourceView, found: &mut Vec<Finding>) {
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
