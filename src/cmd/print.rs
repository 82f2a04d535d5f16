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

/// Writes findings to standard error, one a line, errors in red and warnings in yellow on a terminal.
pub fn findings(findings: &[Finding]) -> io::Result<()> {
    let mut text = String::new();
    for finding in findings {
        let style = match finding.severity {
            Severity::Error => anstyle::AnsiColor::Red.on_default(),
            Severity::Warning => anstyle::AnsiColor::Yellow.on_default(),
        };
        let line = finding.to_string().replace('\n', " ");
        // Writing to a String does not fail.
        let _ = writeln!(text, "{style}{line}{style:#}");
    }
    let mut stderr = anstream::stderr().lock();
    match stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
