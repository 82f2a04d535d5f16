//! Ignition 3.4.0: reading, validation, merge, data URLs, unit files. Exact for the whole specification; what mcx refuses
//! beyond it is a layer above (`render::validate`).

pub mod contents;
mod data_url;
mod merge;
mod read;
mod schema;
pub mod ssh_key;
mod trail;
pub mod unit;
mod url;
mod validate;

pub use merge::{ContentsRule, Layers};

use super::nearest;
use serde_json::Value;

/// A config that was read, in the normal form of this module: JSON without nulls, unknown keys and empty sections.
#[derive(Debug, Clone, PartialEq)]
pub struct Config(pub Value);

/// Something that the specification says of a config.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// JSON pointer; empty for the whole document.
    pub pointer: String,
    /// What is wrong. One line; never content.
    pub message: String,
}

/// What reading and validation found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The config is refused.
    pub errors: Vec<Entry>,
    /// It is accepted.
    pub warnings: Vec<Entry>,
}

/// Reads and validates a JSON text.
pub fn parse(text: &[u8]) -> (Option<Config>, Report) {
    match read::json(text) {
        Ok(value) => parse_value(&value),
        Err(problem) => (None, Report { errors: vec![problem], warnings: Vec::new() }),
    }
}

/// Reads and validates a JSON value. There is a config exactly when the report has no error.
pub fn parse_value(value: &Value) -> (Option<Config>, Report) {
    let mut report = Report::default();
    let Some(config) = read::read(value, &mut report) else {
        return (None, report);
    };
    let said = validate::validate(&config);
    report.errors.extend(said.errors);
    report.warnings.extend(said.warnings);
    (report.errors.is_empty().then_some(config), report)
}

/// Reads without validating (types are still checked): for merges of configs that are not valid. The first type error.
pub fn read_value(value: &Value) -> Result<Config, Entry> {
    let mut report = Report::default();
    match read::read_any_version(value, &mut report) {
        Some(config) => Ok(config),
        None => Err(report
            .errors
            .into_iter()
            .next()
            .unwrap_or_else(|| Entry { pointer: String::new(), message: "the config cannot be read".to_owned() })),
    }
}

/// Validates what was read.
pub fn validate(config: &Config) -> Report {
    validate::validate(config)
}

/// Lays `child` over `parent` by the specification's rules. For many configs, [`Layers`] does it in linear time.
pub fn merge(parent: &Config, child: &Config) -> Config {
    let mut layers = Layers::new(parent.clone(), ContentsRule::ByField);
    layers.lay(child.clone());
    layers.finish()
}

/// The known key that an unknown one at this pointer was probably meant to be: of the same object, and alike.
pub fn nearest_key(pointer: &str) -> Option<&'static str> {
    let (object, key) = pointer.rsplit_once('/')?;
    let key = key.replace("~1", "/").replace("~0", "~");
    nearest::nearest(&key, schema::fields_at(object)?)
}

#[cfg(test)]
mod tests;
