//! Why mcx refuses a source, checked against the case, and what is left of the case without it.
//!
//! Each error must be explained: the case has, at the place that the finding names, the thing that the rule is about. Such an
//! item is then taken out of all sources and of the answer (a file directly in `/` is moved into a folder instead), until
//! nothing is refused any more. So a refusal hides no wrong result of the rest.

use crate::Verdict;
use crate::rules::{APPLICABLE, DECODED, NULL_ITEM, ONE_CONFIG};
use crate::translate::{self, Source};
use mcx::render::finding::{Finding, Severity};
use mcx::render::ignition::{self, contents};
use mcx::render::path::to_pointer;
use mcx::render::{Outcome, render};
use serde_json::{Map, Value};
use sha2::Digest as _;

/// Where the keys of `boot` go.
const KEYS_FILE: &str = "/home/boot/.ssh/authorized_keys";

/// Where files of `/` are moved to.
const INSTEAD_OF_ROOT: &str = "/etc/moved-from-root";

/// What is taken out.
enum Take {
    /// A section, or any field, by pointer into every config.
    Field(String),
    /// A field of one source, by its name.
    FieldOf(String, String),
    File(String),
    Unit(String),
    User(String),
    KernelArguments,
    FilesOfRoot,
}

/// Why an error is right.
enum Why {
    Refused(&'static str),
    Rule(&'static str),
}

/// Renders what mcx does not refuse of these sources, and takes the rest out of them and of the answer.
pub(crate) fn render_rest(
    sources: &mut [Source],
    answer: &mut Value,
    verdict: &mut Verdict,
) -> Result<Outcome, String> {
    let pool = translate::pool();
    loop {
        let configs: Vec<_> = sources.iter().map(Source::machine_config).collect();
        let outcome = render(&pool, &configs);
        let errors: Vec<&Finding> = outcome.findings.iter().filter(|f| f.severity == Severity::Error).collect();
        if errors.is_empty() {
            return Ok(outcome);
        }
        let mut out = Vec::new();
        for error in errors {
            let (why, take) = explain(error, sources).ok_or_else(|| format!("not explained by the case: {error}"))?;
            match why {
                Why::Refused(part) => verdict.refused.insert(part),
                Why::Rule(rule) => verdict.rules.insert(rule),
            };
            out.push(take);
        }
        let before: Vec<Value> = sources.iter().map(|s| s.ignition().clone()).collect();
        let arguments = sources.iter().any(|s| s.config.spec.kernel_arguments.is_some());
        // Fields first: they are found by their place, which moves with each item that goes.
        out.sort_by_key(|take| !matches!(take, Take::Field(_) | Take::FieldOf(..)));
        for take in &out {
            take.out_of(sources, answer);
        }
        let after: Vec<Value> = sources.iter().map(|s| s.ignition().clone()).collect();
        if before == after && !arguments {
            return Err(format!("still refused: {}", outcome.findings[0]));
        }
    }
}

/// The class of an error and what to take out, if the case has what the error says.
fn explain(error: &Finding, sources: &[Source]) -> Option<(Why, Take)> {
    let source = sources.iter().find(|s| error.object == format!("MachineConfig/{}", s.name()))?;
    if error.rule == "kernel-arguments" {
        let given = source.config.spec.kernel_arguments.as_ref().is_some_and(|list| !list.is_empty());
        return given.then_some((Why::Refused("kernel arguments"), Take::KernelArguments));
    }
    let pointer = to_pointer(&error.path);
    let pointer = pointer.strip_prefix("/spec/config")?;
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    let there = source.ignition().pointer(pointer);
    let at = At { rule: error.rule, source, sources, pointer, parts: &parts, there };
    at.section().or_else(|| at.part_of_an_item()).or_else(|| at.odd_value()).or_else(|| at.together())
}

/// An error and its place in the case.
struct At<'a> {
    rule: &'static str,
    source: &'a Source,
    sources: &'a [Source],
    /// Into the source's config.
    pointer: &'a str,
    parts: &'a [&'a str],
    /// What stands there.
    there: Option<&'a Value>,
}

type Explained = Option<(Why, Take)>;

fn refused(part: &'static str, take: Take) -> (Why, Take) {
    (Why::Refused(part), take)
}

fn by_rule(rule: &'static str, take: Take) -> (Why, Take) {
    (Why::Rule(rule), take)
}

impl At<'_> {
    fn text(&self) -> Option<&str> {
        self.there?.as_str()
    }

    /// The file, unit or user that it is in.
    fn item(&self) -> Option<Take> {
        item_at(self.source.ignition(), self.parts)
    }

    /// A field of this source alone.
    fn field(&self) -> Take {
        Take::FieldOf(self.source.name().to_owned(), self.pointer.to_owned())
    }

    /// A section that is used and not applied.
    fn section(&self) -> Explained {
        (self.rule == "unsupported" && self.there.is_some_and(is_used)).then_some(())?;
        let part = match self.parts {
            ["storage", "files", _, "append"] => return Some(refused("append", self.item()?)),
            ["storage", "files", _, "contents", "httpHeaders"] => {
                return Some(refused("sources that are fetched", self.item()?));
            }
            ["ignition", section] => {
                let known = ["ignition.config", "ignition.proxy", "ignition.security", "ignition.timeouts"];
                known.into_iter().find(|known| known.strip_prefix("ignition.") == Some(section))?
            }
            ["kernelArguments"] => "kernel arguments",
            ["passwd", "groups"] => "groups",
            ["storage", section] => {
                let known = ["directories", "links", "disks", "raid", "filesystems", "luks"];
                known.into_iter().find(|known| known == section)?
            }
            _ => return None,
        };
        Some(refused(part, Take::Field(self.pointer.to_owned())))
    }

    /// A file, user or key that is not applied.
    fn part_of_an_item(&self) -> Explained {
        match (self.rule, self.parts) {
            ("user", ["passwd", "users", ..]) => {
                let Take::User(name) = self.item()? else { return None };
                (name != "boot").then_some(())?;
                Some(refused("other users", Take::User(name)))
            }
            ("user-field", ["passwd", "users", _, field]) if self.there.is_some_and(is_used) => {
                (*field != "name" && *field != "sshAuthorizedKeys").then_some(())?;
                Some(refused("other fields of a user", self.field()))
            }
            ("unknown-key", _) => {
                let (_, said) = ignition::parse_value(self.source.ignition());
                said.warnings.iter().find(|warning| warning.pointer == self.pointer)?;
                self.there?;
                Some(refused("unknown keys", self.field()))
            }
            ("contents-source", ["storage", "files", _, "contents", "source"]) => {
                (!self.text()?.starts_with("data:")).then_some(())?;
                Some(refused("sources that are no data: URL", self.item()?))
            }
            ("file-root", ["storage", "files", _, "path"]) => {
                moved(self.text()?)?;
                Some(refused("files directly in /", Take::FilesOfRoot))
            }
            ("file-volatile", ["storage", "files", _, "path"]) => {
                let path = self.text()?;
                let trees = ["/proc", "/sys", "/dev", "/run", "/var/run", "/tmp"];
                let below = |tree: &&str| path.strip_prefix(*tree).is_some_and(|r| r.is_empty() || r.starts_with('/'));
                trees.iter().find(|tree| below(tree))?;
                Some(refused("paths that are gone at the next boot", self.item()?))
            }
            ("file-state", ["storage", "files", _, "path"]) => {
                let path = self.text()?;
                (path.starts_with("/var/lib/mcx") || path == "/run/machine-config-daemon-force").then_some(())?;
                Some(refused("mcx's own state", self.item()?))
            }
            _ => None,
        }
    }

    /// A value that the specification lets pass and a node does not.
    fn odd_value(&self) -> Explained {
        if self.rule == "field-type" {
            self.there?.is_null().then_some(())?;
            return Some(by_rule(NULL_ITEM, self.item()?));
        }
        let id = || u32::try_from(self.there?.as_i64()?).ok();
        let odd = match (self.rule, self.parts) {
            ("file-owner", ["storage", "files", _, "user" | "group", "name"]) => {
                self.text()?.contains(|c: char| c.is_control() || c.is_whitespace() || c == ':' || c == '/')
            }
            ("file-owner", ["storage", "files", _, "user" | "group", "id"]) => id().is_none_or(|id| id == u32::MAX),
            ("file-path", ["storage", "files", _, "path"]) => {
                let path = self.text()?;
                path.contains(char::is_control) || path.len() > 4095 || path.split('/').any(|name| name.len() > 230)
            }
            ("key-line", ["passwd", "users", ..]) => {
                self.text()?.trim().is_empty() || self.text()?.contains(char::is_control)
            }
            ("unit-body", ["systemd", "units", ..]) => self.text()?.contains('\0'),
            ("unit-syntax", ["systemd", "units", ..]) => self
                .text()?
                .lines()
                .any(|line| line.trim().starts_with('[') && !line.trim().ends_with(']') || line.len() >= 1 << 20),
            ("unit-name" | "dropin-name", ["systemd", "units", ..]) => {
                let name = self.text()?;
                let usual = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
                !name.chars().all(usual) || name.starts_with(['.', '@']) || name.len() > 200
            }
            _ => false,
        };
        odd.then_some(())?;
        Some(by_rule(APPLICABLE, self.item()?))
    }

    /// What only shows when items, or the values of several sources for one item, are looked at together.
    fn together(&self) -> Explained {
        let item = self.item()?;
        match (self.rule, &item) {
            ("file-parent", _) => {
                let below = written_at(self.source.ignition(), self.parts);
                let is_above = |other: &String| {
                    below.iter().any(|path| path.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/')))
                };
                self.sources.iter().flat_map(|s| all_written(s.ignition())).find(is_above)?;
                Some(refused("a path that is the parent of another", item))
            }
            ("contents" | "contents-hash", Take::File(path)) => {
                is_broken(path, self.sources).then_some(())?;
                Some(by_rule(DECODED, item))
            }
            ("file-owner", Take::File(path)) => {
                let has = |who: &str, key: &str| {
                    files(self.sources, path).any(|f| f[who].get(key).is_some_and(|v| v.as_str() != Some("")))
                };
                ["user", "group"].into_iter().find(|who| has(who, "id") && has(who, "name"))?;
                Some(by_rule(ONE_CONFIG, item))
            }
            ("unit-file", Take::File(path)) => {
                self.sources.iter().flat_map(|s| written_by_units(s.ignition())).find(|other| other == path)?;
                Some(by_rule(ONE_CONFIG, item))
            }
            ("keys-file", Take::File(path)) if path == KEYS_FILE => Some(by_rule(ONE_CONFIG, item)),
            ("unit-masked", Take::Unit(name)) => {
                says(self.sources, name, &["enabled", "mask"]).then_some(())?;
                Some(by_rule(APPLICABLE, item))
            }
            ("unit-template", Take::Unit(name)) => {
                (name.contains("@.") && says(self.sources, name, &["enabled"])).then_some(())?;
                Some(by_rule(APPLICABLE, item))
            }
            _ => None,
        }
    }
}

/// Whether anything is set in it.
pub(crate) fn is_used(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(is_used),
        _ => true,
    }
}

/// The file, unit or user that a pointer leads into.
fn item_at(config: &Value, parts: &[&str]) -> Option<Take> {
    let name = |key: &str| {
        let item = config.pointer(&format!("/{}", parts.get(..3)?.join("/")))?;
        Some(item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned())
    };
    match parts {
        ["storage", "files", ..] => name("path").map(Take::File),
        ["systemd", "units", ..] => name("name").map(Take::Unit),
        ["passwd", "users", ..] => name("name").map(Take::User),
        _ => None,
    }
}

fn files<'a>(sources: &'a [Source], path: &str) -> impl Iterator<Item = &'a Value> {
    let all = sources.iter().flat_map(|s| elements(s.ignition(), "/storage/files"));
    all.filter(move |file| file["path"] == path)
}

pub(crate) fn elements<'a>(config: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    config.pointer(list).and_then(Value::as_array).into_iter().flatten()
}

/// Whether a unit has all of these flags set: in one source, or in the end.
fn says(sources: &[Source], name: &str, flags: &[&str]) -> bool {
    let by_name = in_our_order(sources);
    let units = || by_name.iter().flat_map(|s| elements(s.ignition(), "/systemd/units")).filter(|u| u["name"] == name);
    let in_the_end = |flag: &&str| units().filter_map(|unit| unit[*flag].as_bool()).last() == Some(true);
    units().any(|unit| flags.iter().all(|flag| unit[*flag] == true)) || flags.iter().all(in_the_end)
}

/// By the bytes of their names.
fn in_our_order(sources: &[Source]) -> Vec<Source> {
    let mut sorted = sources.to_vec();
    sorted.sort_by(|a, b| a.name().cmp(b.name()));
    sorted
}

/// Whether contents of this file cannot be decoded or do not have their hash: as one source gives them, or as they are in
/// the end.
fn is_broken(path: &str, sources: &[Source]) -> bool {
    let alone = files(sources, path).map(|file| file["contents"].clone()).filter(|given| given["source"].is_string());
    alone.chain([whole_contents(path, sources)]).any(|contents| {
        let text = |pointer: &str| contents.pointer(pointer).and_then(Value::as_str);
        match contents::decode(text("/source"), text("/compression").filter(|c| !c.is_empty()), 1 << 26) {
            Err(_) => true,
            Ok(bytes) => text("/verification/hash").is_some_and(|hash| !is_hash_of(hash, &bytes)),
        }
    })
}

/// The contents of the last source, by name, that gives any, as a whole; what a later one gives without a source is laid
/// over them.
pub(crate) fn whole_contents(path: &str, sources: &[Source]) -> Value {
    let by_name = in_our_order(sources);
    let mut contents = Map::new();
    for given in files(&by_name, path).filter_map(|file| file["contents"].as_object()) {
        let given = given.iter().filter(|(_, value)| is_used(value));
        if given.clone().any(|(field, _)| field == "source") {
            contents.clear();
        }
        contents.extend(given.map(|(field, value)| (field.clone(), value.clone())));
    }
    Value::Object(contents)
}

fn is_hash_of(hash: &str, bytes: &[u8]) -> bool {
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let digest = match hash.split_once('-') {
        Some(("sha256", _)) => hex(&sha2::Sha256::digest(bytes)),
        _ => hex(&sha2::Sha512::digest(bytes)),
    };
    hash.split_once('-').is_some_and(|(_, given)| given.eq_ignore_ascii_case(&digest))
}

/// Paths that the units of a config write.
fn written_by_units(config: &Value) -> Vec<String> {
    elements(config, "/systemd/units").flat_map(written_by_unit).collect()
}

fn written_by_unit(unit: &Value) -> Vec<String> {
    let name = unit["name"].as_str().unwrap_or_default();
    let dropins = elements(unit, "/dropins").filter_map(|d| d["name"].as_str());
    let dropins = dropins.map(|dropin| format!("/etc/systemd/system/{name}.d/{dropin}"));
    std::iter::once(format!("/etc/systemd/system/{name}")).chain(dropins).collect()
}

fn all_written(config: &Value) -> Vec<String> {
    let files = elements(config, "/storage/files").filter_map(|f| f["path"].as_str().map(str::to_owned));
    let keys = elements(config, "/passwd/users").map(|_| KEYS_FILE.to_owned());
    files.chain(written_by_units(config)).chain(keys).collect()
}

/// What the item that a pointer leads into writes.
fn written_at(config: &Value, parts: &[&str]) -> Vec<String> {
    let Some(item) = parts.get(..3).and_then(|parts| config.pointer(&format!("/{}", parts.join("/")))) else {
        return Vec::new();
    };
    match parts {
        ["storage", ..] => item["path"].as_str().map(str::to_owned).into_iter().collect(),
        _ => written_by_unit(item),
    }
}

impl Take {
    fn out_of(&self, sources: &mut [Source], answer: &mut Value) {
        match self {
            Self::KernelArguments => {
                for source in sources.iter_mut() {
                    source.config.spec.kernel_arguments = None;
                }
            }
            Self::FieldOf(name, pointer) => {
                // A field of a user is taken out of that user everywhere, an unknown key is in no answer.
                let user = sources.iter().find(|s| s.name() == name).and_then(|source| {
                    let (user, field) =
                        pointer.rsplit_once('/').filter(|(user, _)| user.starts_with("/passwd/users/"))?;
                    Some((source.ignition().pointer(user)?["name"].as_str()?.to_owned(), field.to_owned()))
                });
                if let Some(source) = sources.iter_mut().find(|s| s.name() == name) {
                    remove(source.ignition_mut(), pointer);
                }
                if let Some((user, field)) = user {
                    for config in configs(sources, answer) {
                        for item in elements_mut(config, "/passwd/users").filter(|item| item["name"] == user.as_str()) {
                            item.as_object_mut().and_then(|fields| fields.remove(&field));
                        }
                    }
                }
            }
            Self::Field(pointer) => {
                // A directory or link takes the place of a file at its path.
                let paths: Vec<String> = match pointer.as_str() {
                    "/storage/directories" | "/storage/links" => {
                        let nodes = sources.iter().flat_map(|s| elements(s.ignition(), pointer));
                        nodes.filter_map(|node| node["path"].as_str().map(str::to_owned)).collect()
                    }
                    _ => Vec::new(),
                };
                for config in configs(sources, answer) {
                    remove(config, pointer);
                    keep(config, "/storage/files", |f| !paths.iter().any(|path| f["path"] == path.as_str()));
                }
            }
            Self::File(path) => take_items(sources, answer, "/storage/files", "path", path),
            Self::Unit(name) => take_items(sources, answer, "/systemd/units", "name", name),
            Self::User(name) => take_items(sources, answer, "/passwd/users", "name", name),
            Self::FilesOfRoot => {
                for config in configs(sources, answer) {
                    move_out_of_root(config);
                }
            }
        }
    }
}

/// Moves the files of a config that lie directly in `/`.
fn move_out_of_root(config: &mut Value) {
    for file in elements_mut(config, "/storage/files") {
        if let Some(path) = file["path"].as_str().and_then(moved) {
            file["path"] = path.into();
        }
    }
}

/// Where a path directly in `/` is moved to.
pub(crate) fn moved(path: &str) -> Option<String> {
    (path.len() > 1 && path.starts_with('/') && path.matches('/').count() == 1)
        .then(|| format!("{INSTEAD_OF_ROOT}{path}"))
}

fn configs<'a>(sources: &'a mut [Source], answer: &'a mut Value) -> impl Iterator<Item = &'a mut Value> {
    let given = sources.iter_mut().filter(|s| s.ignition.is_some()).map(Source::ignition_mut);
    given.chain(std::iter::once(answer)).filter(|config| config.is_object())
}

fn elements_mut<'a>(config: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    config.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn take_items(sources: &mut [Source], answer: &mut Value, list: &str, key: &str, name: &str) {
    for config in configs(sources, answer) {
        keep(config, list, |item| item.get(key).and_then(Value::as_str).unwrap_or_default() != name);
    }
}

fn keep(config: &mut Value, list: &str, wanted: impl Fn(&Value) -> bool) {
    if let Some(items) = config.pointer_mut(list).and_then(Value::as_array_mut) {
        items.retain(wanted);
    }
}

fn remove(config: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    let key = key.replace("~1", "/").replace("~0", "~");
    let nothing = &mut Map::new();
    config.pointer_mut(parent).and_then(Value::as_object_mut).unwrap_or(nothing).remove(&key);
}
