//! The one place that prints: a closed pipe is no error, one lock per text.

use crate::render::finding::{Finding, Severity};
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Writes to standard output. A reader that went away is fine.
pub fn out(text: &str) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes one line to standard error.
pub fn error(text: &str) {
    // Nobody is left to tell when standard error is gone.
    let _ = writeln!(anstream::stderr().lock(), "mcx: {}", text.replace('\n', " "));
}

/// Writes a line for people to standard error, beside what programs read.
pub fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// How an error looks on a terminal.
pub const ERROR: anstyle::Style = anstyle::AnsiColor::Red.on_default();
/// How a warning looks on a terminal.
pub const WARNING: anstyle::Style = anstyle::AnsiColor::Yellow.on_default();

/// Columns of the terminal that reads standard output; 100 when it is none.
pub fn width() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(100, |(width, _)| usize::from(width.0))
}

/// A finding in one line, errors in red and warnings in yellow on a terminal.
pub fn finding(finding: &Finding) -> String {
    let style = match finding.severity {
        Severity::Error => ERROR,
        Severity::Warning => WARNING,
    };
    let mut line = style.to_string();
    for c in finding.to_string().chars() {
        match c {
            '\n' => line.push(' '),
            // Names of files and objects are whatever somebody chose.
            c if c.is_control() => line.extend(c.escape_debug()),
            c => line.push(c),
        }
    }
    // Writing to a String does not fail.
    let _ = writeln!(line, "{style:#}");
    line
}

/// Writes findings to standard error, one a line.
pub fn findings(findings: &[Finding]) -> io::Result<()> {
    let text: String = findings.iter().map(finding).collect();
    let mut stderr = anstream::stderr().lock();
    match stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
