//! A finding: something wrong or odd in what a person wrote, with its place and what to do.

use serde::Serialize;
use std::fmt;

/// Whether a finding stops a rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Refused.
    Error,
    /// Accepted, and probably not meant.
    Warning,
}

/// One finding. Printed as one line by `Display`: `error: MachineConfig/99-x spec.config.storage.files[0].mode: … (rule) at file:3:7; do this`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Error or warning.
    pub severity: Severity,
    /// Stable id of the rule, in kebab-case.
    pub rule: &'static str,
    /// `Kind/name` of the object.
    pub object: String,
    /// Field path in the object, as kubectl prints it: `spec.config.storage.files[0].mode`. Empty for the whole object.
    pub path: String,
    /// File it came from; `-` for standard input; none from the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in that file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in that line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What was found and what was expected. One line; never file content.
    pub message: String,
    /// What to do. One line; may be empty.
    pub help: String,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
            if let (Some(line), Some(column)) = (self.line, self.column) {
                write!(f, "{line}:{column}:")?;
            }
            f.write_str(" ")?;
        }
        write!(f, "{}: ", self.severity)?;
        if !self.object.is_empty() {
            write!(f, "{}: ", self.object)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        write!(f, " [{}]", self.rule)
    }
}
