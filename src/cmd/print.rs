//! The one place that prints: a closed pipe is no error, one lock per text.

use crate::change::text::{Diff, Part};
use crate::render::finding::{Finding, Severity};
use crate::render::story::Story;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

/// Writes to standard output. A reader that went away is fine.
pub fn out(text: &str) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes bytes to standard output exactly as they are, escape sequences too. A reader that went away is fine.
pub fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Whether a person reads standard output on a terminal that takes colours, and wants them.
pub fn is_coloured() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// A unified diff as it is printed: on a terminal in colours, and with control characters of contents made visible, since
/// they would be obeyed there; else byte for byte, as `patch` reads it.
pub fn diff(diff: &Diff) -> String {
    let (is_coloured, is_terminal) = (is_coloured(), io::stdout().is_terminal());
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = diff.lines(|part, line| {
        let style = match part {
            Part::Heading | Part::Name => anstyle::Style::new().bold(),
            Part::Deviation => anstyle::AnsiColor::Yellow.on_default(),
            Part::Hunk => anstyle::AnsiColor::Cyan.on_default(),
            Part::Removed => anstyle::AnsiColor::Red.on_default(),
            Part::Added => anstyle::AnsiColor::Green.on_default(),
            Part::Context | Part::Mark => anstyle::Style::new(),
        };
        let style = if is_coloured { style } else { anstyle::Style::new() };
        let line = if is_terminal { visible(line) } else { Cow::Borrowed(line) };
        writeln!(text, "{style}{line}{style:#}")
    });
    text
}

/// A heading above a part of an output, bold on a terminal.
pub fn heading(text: &str) -> String {
    let style = if is_coloured() { anstyle::Style::new().bold() } else { anstyle::Style::new() };
    format!("{style}{text}{style:#}\n")
}

/// A story, with its item as heading.
pub fn story(story: &Story) -> String {
    let text = story.to_string();
    let (item, rest) = text.split_once('\n').unwrap_or((&text, ""));
    format!("{}{rest}", heading(item))
}

/// A line with its control characters but tabs as `cat -v` shows them, `^[`.
fn visible(line: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c.is_control() && c != '\t';
    if !line.contains(is_odd) {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len() + 8);
    for c in line.chars() {
        match c {
            '\u{7f}' => text.push_str("^?"),
            c if is_odd(c) && c.is_ascii() => {
                text.push('^');
                text.push(char::from((c as u8) ^ 0x40));
            }
            c if is_odd(c) => text.extend(c.escape_unicode()),
            c => text.push(c),
        }
    }
    Cow::Owned(text)
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

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_a_terminal_would_obey_is_made_visible() {
        assert_eq!(visible("+a\tb"), "+a\tb");
        assert_eq!(visible("+\u{1b}[2Jx\r"), "+^[[2Jx^M");
        assert_eq!(visible("\u{7f}\u{9b}é"), "^?\\u{9b}é");
    }
}
