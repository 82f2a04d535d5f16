//! What is refused and what is warned of (decision 0004): one source at a time, pools, and the merged whole.
//!
//! The specification's own rules are `ignition`'s, which is asked as well; here is what mcx refuses beyond it, and what it
//! can say better. Every finding has its rule in [`super::rule`].

mod contents;
mod files;
mod keys;
mod secret;
mod units;
mod whole;

pub(super) use contents::{Decoded, Decoder};
pub use units::unit_name_problem;
pub(super) use whole::whole;

use super::finding::{Finding, Severity};
use super::layer::Layer;
use super::merge::{Merged, Source};
use super::rule::Rule;
use super::{ignition, path, rule, select, shape};
use crate::api::ignition_config::Plain;
use crate::api::{IGNITION_VERSION, IgnitionConfig, MachineConfig, MachineConfigPool};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Collects the findings of one object. Fields are formatted only for a finding: most values are fine.
pub(super) struct Report<'r> {
    /// `MachineConfig/NAME`; empty for a config without an object.
    pub(super) object: &'r str,
    /// Field path of the config in the object.
    pub(super) at: &'static str,
    pub(super) found: &'r mut Vec<Finding>,
}

impl Report<'_> {
    /// A finding at a field below the config, with the rule's own help.
    fn add(&mut self, rule: &'static Rule, field: impl fmt::Display, message: impl Into<String>) {
        self.help(rule, field, message, rule.fix);
    }

    /// A finding with help of its own. Of a field that has the wrong type that alone is said.
    fn help(
        &mut self,
        rule: &'static Rule,
        field: impl fmt::Display,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let path = below(self.at, &field.to_string());
        let untyped = |f: &Finding| f.rule == rule::FIELD_TYPE.id && f.path == path && f.object == self.object;
        if !self.found.iter().any(untyped) {
            let mut finding = rule.finding(self.object, path, message);
            finding.help = help.into();
            self.found.push(finding);
        }
    }
}

/// `field` below `base`; each of both may be empty.
pub(super) fn below(base: &str, field: &str) -> String {
    match (base.is_empty(), field.is_empty()) {
        (true, _) => field.to_owned(),
        (_, true) => base.to_owned(),
        _ => format!("{base}.{field}"),
    }
}

/// A text from the object in a one-line message, in backticks.
pub(crate) fn quoted(text: &str) -> String {
    // Enough to find it by; names are no secrets, and nothing longer than a path belongs into a message.
    let cut = crate::api::annotation::cut(text, 300);
    format!("`{}`", cut.escape_debug())
}

/// Checks a `MachineConfig` as a source, with its name; the config in it is what comes back, read.
pub(super) fn source<'a>(
    config: &'a MachineConfig,
    object: &str,
    decoder: &mut Decoder<'a>,
    found: &mut Vec<Finding>,
) -> Layer<'a> {
    if !config.name().starts_with(|c: char| c.is_ascii_digit()) {
        found.push(rule::SOURCE_NUMBER.finding(object, "metadata.name", "does not begin with a number"));
    }
    if config.spec.kernel_arguments.as_ref().is_some_and(|k| !k.is_empty()) {
        found.push(rule::KERNEL_ARGUMENTS.finding(object, "spec.kernelArguments", "is not supported yet"));
    }
    match &config.spec.config {
        Some(config) => self::config(config, decoder, &mut Report { object, at: "spec.config", found }),
        None => Layer::default(),
    }
}

/// Checks a config on its own. Nothing comes back of one of another version: it cannot be read.
pub(super) fn config<'a>(config: &'a IgnitionConfig, decoder: &mut Decoder<'a>, report: &mut Report) -> Layer<'a> {
    match (config.plain(), config.other()) {
        (Some(plain), _) if plain.version() == Some(IGNITION_VERSION) => self::plain(plain, decoder, report),
        (_, Some(value)) => self::other(value, decoder, report),
        _ => {
            self::other(&config.to_value(), &mut Decoder::default(), report);
            Layer::default()
        }
    }
}

/// Checks a config of the right version that has only known keys and right types.
fn plain<'a>(plain: &'a Plain, decoder: &mut Decoder<'a>, report: &mut Report) -> Layer<'a> {
    let before = report.found.len();
    let layer = Layer::of_plain(plain);
    self::layer(&layer, decoder, report);
    // Of what is fine here, the specification has no more to say: a property test holds both together.
    if report.found.len() > before || layer.files.iter().any(files::is_for_specification) {
        specification(&plain.to_value(), report);
    }
    layer
}

/// Checks a config of any shape.
fn other<'a>(value: &'a Value, decoder: &mut Decoder<'a>, report: &mut Report) -> Layer<'a> {
    // absent, null and {} are alike, and so is an object of nothing.
    if matches!(value, Value::Null) || value.as_object().is_some_and(serde_json::Map::is_empty) {
        return Layer::default();
    }
    if !version(value, report) {
        return Layer::default();
    }
    let typed = shape::walk(value, &shape::CONFIG, report.object, report.at, report.found);
    let layer = Layer::of_value(value);
    self::layer(&layer, decoder, report);
    // A value of the wrong type is as if it were absent until here: all slips are shown at once.
    if typed {
        specification(value, report);
    }
    layer
}

/// Checks what a config says.
fn layer<'a>(layer: &Layer<'a>, decoder: &mut Decoder<'a>, report: &mut Report) {
    files::check(&layer.files, decoder, report);
    units::check(&layer.units, report);
    keys::check(&layer.users, report);
    let mut alone = Merged::default();
    alone.lay(Source { object: report.object.to_owned(), at: report.at }, layer);
    whole(&alone, false, decoder, report.found);
}

/// Whether the config is of the one version that is read. Of another version nothing else is looked at: its keys mean
/// other things.
fn version(value: &Value, report: &mut Report) -> bool {
    let help = |found: &str| match found.split('.').next() {
        Some("2") => "version 2 has other keys; convert the config to 3.4.0",
        Some("3") if found < IGNITION_VERSION => "write version: 3.4.0; it reads all that older 3.x configs say",
        Some("3") => "write version: 3.4.0, and nothing that is newer than it",
        _ => rule::IGNITION_VERSION.fix,
    };
    match (&value["ignition"], &value["ignition"]["version"]) {
        // Wrong types are found by the walk.
        (ignition, _) if !ignition.is_object() && !ignition.is_null() => true,
        _ if !value.is_object() => true,
        (_, Value::String(found)) if found == IGNITION_VERSION => true,
        (_, Value::String(found)) => {
            let message = format!("found {}, expected {IGNITION_VERSION}", quoted(found));
            report.help(&rule::IGNITION_VERSION, "ignition.version", message, help(found));
            false
        }
        (_, Value::Null) => {
            report.add(&rule::IGNITION_VERSION, "ignition.version", format!("is missing, expected {IGNITION_VERSION}"));
            false
        }
        (_, other) => {
            let message = format!("found {other}, expected the string {IGNITION_VERSION}");
            report.add(&rule::IGNITION_VERSION, "ignition.version", message.replace('\n', " "));
            false
        }
    }
}

/// Asks the specification. What is known already, at that place or around it, is not said again.
fn specification(value: &Value, report: &mut Report) {
    let plain = as_specified(value);
    let (_, said) = ignition::parse_value(&plain);
    let entries = said.errors.iter().map(|e| (&rule::IGNITION, e));
    for (rule, entry) in entries.chain(said.warnings.iter().map(|e| (&rule::IGNITION_HINT, e))) {
        // Whether enabling does anything is seen in the merged whole, drop-ins included.
        if rule.severity == Severity::Warning && is_unit_text(&entry.pointer) {
            continue;
        }
        let at = path::from_pointer(report.at, &entry.pointer);
        let known = report.found.iter().any(|f| {
            let as_bad = f.severity == Severity::Error || rule.severity == Severity::Warning;
            f.object == report.object && as_bad && (within(&f.path, &at) || within(&at, &f.path))
        });
        if !known {
            report.found.push(rule.finding(report.object, at, entry.message.clone()));
        }
    }
}

/// `/systemd/units/0/contents`.
fn is_unit_text(pointer: &str) -> bool {
    pointer.starts_with("/systemd/units/") && pointer.ends_with("/contents")
}

/// Whether the field `path` is `parent` or lies in it.
fn within(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The config without nulls, which the specification takes for absent, and with the guide's `user` as `name`.
fn as_specified(value: &Value) -> Cow<'_, Value> {
    let users = value["passwd"]["users"].as_array().map(Vec::as_slice).unwrap_or_default();
    let aliased = users.iter().any(|u| u.get("user").is_some());
    if !aliased && !holds_null(value) {
        return Cow::Borrowed(value);
    }
    let mut plain = value.clone();
    drop_nulls(&mut plain);
    for user in plain["passwd"]["users"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(name) = user.remove("user") {
            user.entry("name").or_insert(name);
        }
    }
    // Indexing a value for writing leaves nulls behind.
    drop_nulls(&mut plain);
    Cow::Owned(plain)
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.iter().any(holds_null),
        Value::Object(fields) => fields.values().any(holds_null),
        _ => false,
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        Value::Object(fields) => {
            fields.retain(|_, v| !v.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

/// Where each name was first; a later one of the same name is a finding. `field` is the path of an element's name.
pub(super) fn duplicates<'a>(
    names: impl Iterator<Item = (usize, &'a str)>,
    what: &str,
    field: impl Fn(usize) -> String,
    report: &mut Report,
) {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, name) in names {
        let before = *first.entry(name).or_insert(index);
        if before != index {
            let message = format!("{what} {} is there already, at {}", quoted(name), below(report.at, &field(before)));
            report.add(&rule::DUPLICATE_ITEM, field(index), message);
        }
    }
}

/// What is wrong with a pool, apart from its sources.
pub fn pool(pool: &MachineConfigPool) -> Vec<Finding> {
    let object = pool_object(pool);
    let mut found = Vec::new();
    if pool.name().is_empty() || !select::is_label_text(pool.name()) {
        let message = format!("{} cannot be the value of a label", quoted(pool.name()));
        found.push(rule::POOL_NAME.finding(&object, "metadata.name", message));
    }
    let selectors =
        [("machineConfigSelector", &pool.spec.machine_config_selector), ("nodeSelector", &pool.spec.node_selector)];
    let mut readable = true;
    for (field, selector) in selectors {
        if let Some(Err(error)) = selector.as_ref().map(select::check) {
            readable = false;
            let text = error.to_string();
            let message = text.split_once(": ").map_or(text.as_str(), |(_, message)| message);
            found.push(rule::POOL_SELECTOR.finding(&object, format!("spec.{field}.{}", error.field()), message));
        }
    }
    if !select::is_custom(pool) {
        return found;
    }
    if let Some(role) = select::asks_for_masters(pool) {
        let message = format!("asks for {role}; control-plane nodes are in pool master, whatever else selects them");
        found.push(rule::POOL_MASTER.finding(&object, "spec.nodeSelector", message));
    }
    if readable && select::inherits_worker(pool) == Ok(false) {
        let mut finding = rule::POOL_WORKER.finding(
            &object,
            "spec.machineConfigSelector",
            "does not select the sources of worker, which every custom pool builds on",
        );
        finding.help = finding.help.replace("POOL", pool.name());
        found.push(finding);
    }
    found
}

/// `MachineConfigPool/NAME`.
pub(super) fn pool_object(pool: &MachineConfigPool) -> String {
    format!("MachineConfigPool/{}", pool.name())
}
