//! Ignition 3.4.0: reading, validation, merge, data URLs, unit files. Exact for the whole specification; what mcx refuses
//! beyond it is a layer above (`render::validate`).

pub mod contents;

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
pub fn parse(_text: &[u8]) -> (Option<Config>, Report) {
    todo!()
}

/// Reads and validates a JSON value.
pub fn parse_value(_value: &Value) -> (Option<Config>, Report) {
    todo!()
}

/// Reads without validating (types are still checked): for merges of configs that are not valid.
pub fn read_value(_value: &Value) -> Result<Config, Entry> {
    todo!()
}

/// Validates what was read.
pub fn validate(_config: &Config) -> Report {
    todo!()
}

/// Lays `child` over `parent` by the specification's rules.
pub fn merge(_parent: &Config, _child: &Config) -> Config {
    todo!()
}
