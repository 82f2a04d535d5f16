//! From texts to typed objects, each with the place it came from, so that a finding can name line and column.
//!
//! Reading files and folders is the command's (`cmd::input`); YAML is `yaml`'s; what is in a config is `validate`'s.

use super::finding::{Finding, Severity};
use super::validate::quoted;
use super::{nearest, path, rule, select, shape};
use crate::api::{API_VERSION, GROUP, IgnitionConfig, MachineConfig, MachineConfigPool, MachineConfiguration, shipped};
use crate::yaml::{self, Document, Place};
use outline::{Element, Outline};
use serde::Deserializer;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Largest text that is read, in bytes. Two rendered configs of the largest size fit many times; beyond it the places of all
/// fields would cost more memory than a CI job has.
pub const INPUT_LIMIT: usize = 32 << 20;

/// Deepest nesting of `List`s.
const LIST_DEPTH: usize = 8;

/// A text and its name.
#[derive(Debug, Clone)]
pub struct Input {
    /// Path as it was given; `-` for standard input.
    pub name: String,
    /// The bytes. One more than [`INPUT_LIMIT`] is enough to see that there are too many.
    pub bytes: Vec<u8>,
}

/// What was found in texts.
#[derive(Debug, Default)]
pub struct Loaded {
    /// In the order of reading; rendered ones included.
    pub configs: Vec<MachineConfig>,
    /// In the order of reading.
    pub pools: Vec<MachineConfigPool>,
    /// In the order of reading, whatever their names; only `cluster` is in effect.
    pub policies: Vec<MachineConfiguration>,
    /// What is wrong with the texts and objects, apart from what is in the configs.
    pub findings: Vec<Finding>,
    origins: BTreeMap<String, Origin>,
    foreign: Vec<Foreign>,
    texts: BTreeMap<String, Text>,
}

/// Kinds of others that some readers look at ([`Loaded::foreign`]), with their `apiVersion`.
const FOREIGN: [(&str, &str); 4] =
    [("v1", "Node"), ("v1", "Pod"), ("apps/v1", "DaemonSet"), ("policy/v1", "PodDisruptionBudget")];

/// An object of a kind that is not ours, as it stands there.
#[derive(Debug)]
struct Foreign {
    kind: &'static str,
    value: Value,
    origin: Origin,
}

/// A text that was read, to show lines of it.
#[derive(Debug)]
struct Text {
    text: Arc<str>,
    /// Where each line begins, in bytes; found when first asked for.
    starts: OnceLock<Vec<usize>>,
}

/// Where an object stands.
#[derive(Debug, Clone)]
struct Origin {
    file: String,
    document: Arc<Document>,
    /// JSON pointer of the object in the document: empty, or an element of a `List`.
    pointer: String,
}

impl Origin {
    /// Gives a finding its place.
    fn locate(&self, finding: &mut Finding) {
        finding.file = Some(self.file.clone());
        let pointer = format!("{}{}", self.pointer, path::to_pointer(&finding.path));
        if let Some(place) = self.document.locate(&pointer) {
            (finding.line, finding.column) = (Some(place.line), Some(place.column));
        }
    }

    /// Of an element of the `List` that stands here.
    fn element(&self, index: usize) -> Self {
        Self { pointer: format!("{}/items/{index}", self.pointer), ..self.clone() }
    }

    /// `FILE:LINE`, to name it in a finding about another object.
    fn named(&self) -> String {
        match self.document.locate(&self.pointer) {
            Some(place) => format!("{}:{}", self.file, place.line),
            None => self.file.clone(),
        }
    }
}

/// Reads all objects of our three kinds in `inputs`. Other kinds are skipped, or kept for [`Loaded::foreign`].
pub fn load(inputs: Vec<Input>) -> Loaded {
    let mut loaded = Loaded::default();
    for input in inputs {
        loaded.text(input);
    }
    loaded
}

impl Loaded {
    /// Gives findings about objects that were read here their file, line and column, where they lack one.
    pub fn locate(&self, findings: &mut [Finding]) {
        for finding in findings.iter_mut().filter(|f| f.file.is_none()) {
            if let Some(origin) = self.origins.get(&finding.object) {
                origin.locate(finding);
            }
        }
    }

    /// Pools that were read, and those of the shipped ones that were not, by name: what a cluster with this input has.
    pub fn known_pools(&self) -> Vec<MachineConfigPool> {
        let mut pools = self.pools.clone();
        for shipped in shipped::pools() {
            if !pools.iter().any(|p| p.name() == shipped.name()) {
                pools.push(shipped);
            }
        }
        pools.sort_by(|a, b| a.name().cmp(b.name()));
        pools
    }

    /// Sources that were read, and those of the shipped ones that were not: what a cluster with this input has.
    pub fn known_sources(&self) -> Vec<MachineConfig> {
        self.configs.iter().cloned().chain(self.absent_sources()).collect()
    }

    /// The objects of a kind of Kubernetes' own (Node, Pod, `DaemonSet`, `PodDisruptionBudget`), in the order of reading. One
    /// that cannot be read is a finding in `found`: only whoever asks for the kind is told.
    pub fn foreign<T: DeserializeOwned>(&self, kind: &str, found: &mut Vec<Finding>) -> Vec<T> {
        let mut read = Vec::new();
        for foreign in self.foreign.iter().filter(|f| f.kind == kind) {
            let name = foreign.value["metadata"]["name"].as_str().unwrap_or_default();
            let mut wrong = Vec::new();
            read.extend(typed_as(&foreign.value, &format!("{kind}/{name}"), &mut wrong));
            for finding in &mut wrong {
                foreign.origin.locate(finding);
            }
            found.extend(wrong);
        }
        read
    }

    /// The shipped sources that were not read: a cluster with this input has them, too.
    pub fn absent_sources(&self) -> Vec<MachineConfig> {
        let absent = |shipped: &MachineConfig| !self.configs.iter().any(|c| c.name() == shipped.name());
        shipped::sources().into_iter().filter(absent).collect()
    }

    /// How many objects of our three kinds were read, right or wrong.
    pub fn objects(&self) -> usize {
        self.origins.len()
    }

    /// A line of an input, counted from 1, without its end.
    pub fn line(&self, file: &str, line: usize) -> Option<&str> {
        let Text { text, starts } = self.texts.get(file)?;
        let starts =
            starts.get_or_init(|| std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect());
        let start = *starts.get(line.checked_sub(1)?)?;
        text[start..].lines().next().or(Some(""))
    }

    /// Whether an error was found.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Error)
    }

    fn text(&mut self, Input { name, bytes }: Input) {
        let whole = |mut finding: Finding, place: Option<(usize, usize)>| {
            finding.file = Some(name.clone());
            (finding.line, finding.column) = (place.map(|p| p.0), place.map(|p| p.1));
            finding
        };
        if bytes.len() > INPUT_LIMIT {
            let message = format!("is larger than {} MiB", INPUT_LIMIT >> 20);
            return self.findings.push(whole(rule::INPUT_SIZE.finding("", "", message), None));
        }
        let text: Arc<str> = match String::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(error) => {
                let bytes = error.as_bytes();
                self.keep(&name, String::from_utf8_lossy(bytes).into());
                let before = &bytes[..error.utf8_error().valid_up_to()];
                let line = before.split(|b| *b == b'\n').count();
                let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
                let column = 1 + String::from_utf8_lossy(&before[line_start..]).chars().count();
                let finding = rule::INPUT_ENCODING.finding("", "", "is not UTF-8 text");
                return self.findings.push(whole(finding, Some((line, column))));
            }
        };
        self.keep(&name, Arc::clone(&text));
        if !self.outline(&name, &text) {
            self.documents(&name, &text);
        }
    }

    /// Reads all documents of a text.
    fn documents(&mut self, name: &str, text: &Arc<str>) {
        match yaml::documents_of(text) {
            Ok(documents) => {
                for mut document in documents {
                    // Places come from the text: the value itself is needed once.
                    let value = std::mem::take(&mut document.value);
                    let document = Arc::new(document);
                    let origin = Origin { file: name.to_owned(), document, pointer: String::new() };
                    self.value(value, &origin, 0);
                }
            }
            Err(error) => {
                let mut finding = rule::YAML.finding("", "", error.message.replace('\n', " "));
                finding.file = Some(name.to_owned());
                (finding.line, finding.column) = (Some(error.line), Some(error.column));
                self.findings.push(finding);
            }
        }
    }

    /// Reads a text by its [`outline`], if that can be done.
    fn outline(&mut self, name: &str, text: &Arc<str>) -> bool {
        let Some(document) = yaml::json_object(text) else { return false };
        let Some(outline) = outline::read(text, is_list) else { return false };
        let origin = Origin { file: name.to_owned(), document: Arc::new(document), pointer: String::new() };
        match outline {
            Outline::One(source) => self.source(source, &origin),
            Outline::List(elements) => {
                for (i, element) in elements.into_iter().enumerate() {
                    let origin = origin.element(i);
                    match element {
                        Element::Source(source) => self.source(source, &origin),
                        Element::Other(value) => self.value(value, &origin, 1),
                    }
                }
            }
        }
        true
    }

    fn source(&mut self, source: outline::Source, origin: &Origin) {
        let object = named("MachineConfig", &source.object);
        self.object(source.object, "MachineConfig", &object, origin, Some(source.config));
    }

    fn keep(&mut self, name: &str, text: Arc<str>) {
        self.texts.insert(name.to_owned(), Text { text, starts: OnceLock::new() });
    }

    /// One document or element of a `List`.
    fn value(&mut self, mut value: Value, origin: &Origin, depth: usize) {
        if value.is_null() {
            return;
        }
        let (kind, version) =
            (value["kind"].as_str().map(str::to_owned), value["apiVersion"].as_str().map(str::to_owned));
        let (Some(kind), true) = (kind, value.is_object()) else {
            let message = match &value {
                Value::Object(_) => "has no kind",
                Value::Array(_) => "is a list",
                _ => "is a single value",
            };
            return self.find(rule::NOT_AN_OBJECT.finding("", "", format!("the document {message}")), origin);
        };
        let version = version.unwrap_or_default();
        let is_list = is_list(&kind, &version);
        let items = value.get_mut("items").filter(|_| is_list && depth < LIST_DEPTH).map(Value::take);
        if let Some(Value::Array(items)) = items {
            for (i, item) in items.into_iter().enumerate() {
                self.value(item, &origin.element(i), depth + 1);
            }
            return;
        }
        let known = ["MachineConfig", "MachineConfigPool", "MachineConfiguration"];
        if !known.contains(&kind.as_str()) {
            // What is lost above it may be one of ours.
            let found = repeated_keys(&named(&kind, &value), origin);
            self.findings.extend(found.into_iter().filter(|f| f.rule == rule::SEPARATOR.id));
            if is_ours(&version) && !is_list {
                let mut finding = rule::KIND.finding("", "kind", format!("{} is not a kind of {GROUP}", quoted(&kind)));
                finding.help = nearest::hint(&kind, known).unwrap_or(finding.help);
                self.find(finding, origin);
            } else if let Some((_, kind)) = FOREIGN.into_iter().find(|of| *of == (version.as_str(), kind.as_str())) {
                self.foreign.push(Foreign { kind, value, origin: origin.clone() });
            }
            return;
        }
        let object = named(&kind, &value);
        if version != API_VERSION {
            let message = match version.as_str() {
                "" => format!("is missing, expected {API_VERSION}"),
                _ => format!("found {}, expected {API_VERSION}", quoted(&version)),
            };
            return self.find(rule::API_VERSION.finding(&object, "apiVersion", message), origin);
        }
        self.object(value, &kind, &object, origin, None);
    }

    /// An object of one of our kinds and of the right version; with its config, if that was read already.
    fn object(&mut self, mut value: Value, kind: &str, object: &str, origin: &Origin, config: Option<IgnitionConfig>) {
        let mut found = Vec::new();
        let metadata = &value["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let shape = match kind {
            "MachineConfig" => &shape::MACHINE_CONFIG,
            "MachineConfigPool" => &shape::POOL,
            _ => &shape::MACHINE_CONFIGURATION,
        };
        // Only what mcx reads of it: the rest is the API server's.
        let read: serde_json::Map<String, Value> = ["name", "labels", "annotations"]
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), metadata.get(key)?.clone())))
            .collect();
        let mut typed = true;
        if metadata.is_object() || metadata.is_null() {
            typed &= shape::walk(&Value::Object(read), &shape::METADATA, object, "metadata", &mut found);
        } else {
            typed &= shape::walk(metadata, &shape::METADATA, object, "metadata", &mut found);
        }
        typed &= shape::walk(&value, shape, object, "", &mut found);
        if typed && !select::is_dns_name(name) {
            let message = match name {
                "" => "is missing".to_owned(),
                _ => format!("{} is no name of an object", quoted(name)),
            };
            found.push(rule::OBJECT_NAME.finding(object, "metadata.name", message));
        }
        if metadata.get("namespace").is_some_and(|n| !n.is_null()) {
            found.push(rule::NAMESPACE.finding(object, "metadata.namespace", "is ignored: the object is cluster-wide"));
        }
        found.extend(repeated_keys(object, origin));
        if let Some(first) = self.origins.get(object) {
            let message = format!("is there already, in {}", first.named());
            let mut finding = rule::DUPLICATE_OBJECT.finding(object, "metadata.name", message);
            if kind == "MachineConfiguration" {
                finding.help =
                    String::from("there is one policy in a cluster: put the entries of both into one object");
            }
            found.push(finding);
            typed = false;
        } else {
            self.origins.insert(object.to_owned(), origin.clone());
        }
        if typed {
            match kind {
                "MachineConfig" => {
                    // Taken out before: it is the better part of the object, and of any type.
                    let config = config.or_else(|| {
                        let value = value.get_mut("spec")?.get_mut("config").map(Value::take)?;
                        (!value.is_null()).then(|| value.into())
                    });
                    let read = typed_as::<MachineConfig>(value, object, &mut found).map(|mut read| {
                        read.spec.config = config;
                        read
                    });
                    self.configs.extend(read);
                }
                "MachineConfigPool" => self.pools.extend(typed_as(value, object, &mut found)),
                _ => self.policies.extend(typed_as(value, object, &mut found)),
            }
        }
        for finding in found {
            self.find(finding, origin);
        }
    }

    fn find(&mut self, mut finding: Finding, origin: &Origin) {
        if finding.file.is_none() {
            origin.locate(&mut finding);
        }
        self.findings.push(finding);
    }
}

/// Keys that are there twice. A repeated kind is not the author's second thought but a second object: what is of the first is
/// lost, and that alone is said.
fn repeated_keys(object: &str, origin: &Origin) -> Vec<Finding> {
    // In a `List`, the repeated keys of the other elements are theirs.
    let within = |pointer: &str| Some(pointer.strip_prefix(&origin.pointer)?.strip_prefix('/')?.to_owned());
    let repeated = origin.document.repeated().iter();
    let keys: Vec<(String, Place)> = repeated.filter_map(|key| Some((within(&key.pointer)?, key.place))).collect();
    let is_second = keys.iter().any(|(key, _)| key == "kind");
    let mut found = Vec::new();
    for (key, place) in keys {
        let mut finding = match key.as_str() {
            "kind" => rule::SEPARATOR.finding(object, "kind", "is there already: a second object begins here"),
            _ if is_second && !key.contains('/') => continue,
            _ => {
                let path = path::from_pointer("", &format!("/{key}"));
                rule::DUPLICATE_KEY.finding(object, path, "is there already; the last one counts")
            }
        };
        finding.file = Some(origin.file.clone());
        (finding.line, finding.column) = (Some(place.line), Some(place.column));
        found.push(finding);
    }
    found
}

/// `KIND/NAME`, as findings name an object.
fn named(kind: &str, object: &Value) -> String {
    format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap_or_default())
}

fn is_ours(version: &str) -> bool {
    version.strip_prefix(GROUP).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_list(kind: &str, version: &str) -> bool {
    kind == "List" && version == "v1" || kind.ends_with("List") && is_ours(version)
}

/// The object as its type. The walk has found what people get wrong; what is left is a finding all the same.
fn typed_as<'v, T: DeserializeOwned>(
    value: impl Deserializer<'v, Error = serde_json::Error>,
    object: &str,
    found: &mut Vec<Finding>,
) -> Option<T> {
    match serde_path_to_error::deserialize(value) {
        Ok(read) => Some(read),
        Err(error) => {
            let at = error.path().to_string();
            let at = if at == "." { String::new() } else { at };
            found.push(rule::FIELD_TYPE.finding(object, at, error.into_inner().to_string().replace('\n', " ")));
            None
        }
    }
}

mod outline;
#[cfg(test)]
mod tests;
