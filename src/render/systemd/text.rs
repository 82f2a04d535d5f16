//! The text of a unit or drop-in, taken apart into lines as systemd does it. Which sections and keys exist is `directive`'s.
//!
//! A line ends at LF, CR, both, or NUL. A comment is a line whose first visible character is `#` or `;`, also between the
//! parts of a continued line. A line whose last backslash is not itself escaped goes on in the next line that is no
//! comment; the backslash becomes a space. One byte order mark at the beginning of a line is passed over.

use std::fmt;

/// Longest line, and longest continued line, that systemd reads, in bytes: from here on it gives up.
pub const LINE_LIMIT: usize = 1 << 20;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A text, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitText {
    /// Sections, assignments and what is neither, in order; comments and blank lines are left out.
    pub lines: Vec<Line>,
    /// Where systemd gives up: a unit file is then not loaded, of a drop-in the rest is lost.
    pub stop: Option<Stop>,
}

/// A line, with those it goes on in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Number of its first line in the text, from 1.
    pub number: usize,
    /// What stands there.
    pub kind: LineKind,
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineKind {
    /// `[Name]`: the text between the brackets, as it stands there.
    Section(String),
    /// `Key=Value`, both without white space around them. The key may be empty.
    Assignment {
        /// Text before the first equals sign.
        key: String,
        /// Text behind it. Of a continued line with the white space between its parts.
        value: String,
    },
    /// Text without an equals sign.
    Other(String),
}

/// Where systemd gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// Line of the text, from 1.
    pub line: usize,
    /// Why.
    pub why: StopReason,
}

/// Why systemd gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// `[Unit`, or `[Unit] x`.
    #[error("a section name does not end in a closing bracket")]
    SectionEnd,
    /// `["Unit"]`.
    #[error("a section name holds a quote, a backslash or a control character")]
    SectionName,
    /// See [`LINE_LIMIT`].
    #[error("a line is longer than {LINE_LIMIT} bytes")]
    TooLong,
}

impl UnitText {
    /// Takes a text apart. Every text can be.
    pub fn read(text: &str) -> Self {
        let mut unit = Self::default();
        let mut mark_seen = false;
        let mut open: Option<(usize, String)> = None;
        for (number, line) in physical_lines(text).enumerate().map(|(i, line)| (i + 1, line)) {
            if line.len() >= LINE_LIMIT {
                return unit.stopped(number, StopReason::TooLong);
            }
            if line.trim_start_matches(is_white).starts_with(['#', ';']) {
                continue;
            }
            let part = match line.strip_prefix(BYTE_ORDER_MARK) {
                Some(rest) if !mark_seen => {
                    mark_seen = true;
                    rest
                }
                _ => line,
            };
            let (first, mut whole) = open.take().unwrap_or((number, String::new()));
            if whole.len() + part.len() > LINE_LIMIT {
                return unit.stopped(number, StopReason::TooLong);
            }
            whole.push_str(part);
            if goes_on(&whole) {
                whole.pop();
                whole.push(' ');
                open = Some((first, whole));
            } else if let Err(why) = unit.line(first, &whole) {
                return unit.stopped(first, why);
            }
        }
        if let Some((first, whole)) = open
            && let Err(why) = unit.line(first, &whole)
        {
            return unit.stopped(first, why);
        }
        unit
    }

    fn stopped(mut self, line: usize, why: StopReason) -> Self {
        self.stop = Some(Stop { line, why });
        self
    }

    fn line(&mut self, number: usize, whole: &str) -> Result<(), StopReason> {
        let text = whole.trim_matches(is_white);
        let kind = if text.is_empty() {
            return Ok(());
        } else if let Some(rest) = text.strip_prefix('[') {
            let name = rest.strip_suffix(']').ok_or(StopReason::SectionEnd)?;
            if name.contains(|c: char| c < ' ' || matches!(c, '"' | '\'' | '\\' | '\u{7f}')) {
                return Err(StopReason::SectionName);
            }
            LineKind::Section(name.to_owned())
        } else if let Some((key, value)) = text.split_once('=') {
            LineKind::Assignment {
                key: key.trim_matches(is_white).to_owned(),
                value: value.trim_matches(is_white).to_owned(),
            }
        } else {
            LineKind::Other(text.to_owned())
        };
        self.lines.push(Line { number, kind });
        Ok(())
    }

    /// The assignments of one section, wherever it is opened: key and value, in order.
    pub fn section<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let mut inside = false;
        self.lines.iter().filter_map(move |line| match &line.kind {
            LineKind::Section(found) => {
                inside = found == name;
                None
            }
            LineKind::Assignment { key, value } if inside && !key.is_empty() => Some((key.as_str(), value.as_str())),
            _ => None,
        })
    }
}

/// A text that reads the same, without comments, blank lines and continuations.
impl fmt::Display for UnitText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let text = match &line.kind {
                LineKind::Section(name) => format!("[{name}]"),
                LineKind::Assignment { key, value } => format!("{key}={value}"),
                LineKind::Other(text) => text.clone(),
            };
            // Only behind the one mark that is passed over can a line begin like a comment; any other mark was not at the
            // very beginning of its line.
            match text.chars().next() {
                Some('#' | ';') => write!(f, "{BYTE_ORDER_MARK}")?,
                Some(BYTE_ORDER_MARK) => f.write_str(" ")?,
                _ => {}
            }
            // A space behind the last backslash keeps the line from going on.
            let end = if goes_on(&text) { " \n" } else { "\n" };
            write!(f, "{text}{end}")?;
        }
        Ok(())
    }
}

/// systemd's white space.
fn is_white(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Whether the last character is a backslash that no other backslash escapes.
fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// Lines without their ends. Different line ends in a row are one end: CR LF, but also LF CR.
fn physical_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(['\n', '\r', '\0']).unwrap_or(rest.len());
        let (line, mut behind) = rest.split_at(end);
        let mut seen = Vec::new();
        while let Some(c) = behind.chars().next().filter(|c| matches!(c, '\n' | '\r' | '\0')) {
            if seen.contains(&c) || seen.last() == Some(&'\0') {
                break;
            }
            seen.push(c);
            behind = &behind[1..];
        }
        rest = behind;
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One string a line: `1 [Unit]`, `2 A=b`, `3 text`; the stop at the end.
    fn lines(text: &str) -> Vec<String> {
        let unit = UnitText::read(text);
        let mut shown: Vec<String> = unit
            .lines
            .iter()
            .map(|line| match &line.kind {
                LineKind::Section(name) => format!("{} [{name}]", line.number),
                LineKind::Assignment { key, value } => format!("{} {key}={value}", line.number),
                LineKind::Other(text) => format!("{} {text}", line.number),
            })
            .collect();
        shown.extend(unit.stop.map(|stop| format!("{} stop: {}", stop.line, stop.why)));
        shown
    }

    #[test]
    fn sections_assignments_and_comments_are_told_apart() {
        assert_eq!(
            lines("# c\n[Unit]\n  A = b c  \n\n ; no=1\n[X-y z]\nX=\n=1\nfoo\nX=1=2"),
            ["2 [Unit]", "3 A=b c", "6 [X-y z]", "7 X=", "8 =1", "9 foo", "10 X=1=2"]
        );
    }

    #[test]
    fn a_backslash_continues_a_line_over_comments_and_not_over_blanks() {
        assert_eq!(lines("[S]\nA=b \\\n# c=d\n  ; e\n  f\\\ng\nH=i"), ["1 [S]", "2 A=b    f g", "7 H=i"]);
        assert_eq!(lines("A=b\\\n\nC=d"), ["1 A=b", "3 C=d"]);
        assert_eq!(lines("A=b\\"), ["1 A=b"]);
        // Escaped, or not the last character: no continuation.
        assert_eq!(lines("A=b\\\\\nC=d"), ["1 A=b\\\\", "2 C=d"]);
        assert_eq!(lines("A=b\\ \nC=d"), ["1 A=b\\", "2 C=d"]);
        // A section and a key go on, too, and a comment does not.
        assert_eq!(lines("[Un\\\nit]\nA\\\n=b\n# c \\\nD=e"), ["1 [Un it]", "3 A=b", "6 D=e"]);
    }

    #[test]
    fn every_kind_of_line_end_ends_a_line() {
        assert_eq!(lines("[S]\r\nA=b\rC=d\n\rE=f\n\nG=h\0I=j"), ["1 [S]", "2 A=b", "3 C=d", "4 E=f", "6 G=h", "7 I=j"]);
    }

    #[test]
    fn one_byte_order_mark_is_passed_over() {
        assert_eq!(lines("\u{feff}[Unit]\nA=b"), ["1 [Unit]", "2 A=b"]);
        assert_eq!(lines("[Unit]\n\u{feff}A=b\n\u{feff}C=d"), ["1 [Unit]", "2 A=b", "3 \u{feff}C=d"]);
        assert_eq!(lines("\u{feff}# c\nA=b"), ["1 # c", "2 A=b"], "and hides a comment");
        let text = " \u{feff}\n\u{feff};x\n";
        assert_eq!(UnitText::read(text).to_string(), text, "one behind a space is text");
    }

    #[test]
    fn systemd_gives_up_at_a_broken_section_and_at_a_line_without_end() {
        for (text, stop) in [
            ("[Unit]\nA=b\n[Unit\nC=d", "3 stop: a section name does not end in a closing bracket"),
            ("[", "1 stop: a section name does not end in a closing bracket"),
            ("[Unit] x", "1 stop: a section name does not end in a closing bracket"),
            ("[Unit] # x", "1 stop: a section name does not end in a closing bracket"),
            ("['Unit']", "1 stop: a section name holds a quote, a backslash or a control character"),
            ("[a\tb]", "1 stop: a section name holds a quote, a backslash or a control character"),
        ] {
            assert_eq!(lines(text).last().unwrap(), stop, "{text:?}");
        }
        let long = |n: usize| format!("A=b\nC={}\nD=e", "x".repeat(n - 2));
        assert_eq!(lines(&long(LINE_LIMIT - 1)).len(), 3);
        assert_eq!(UnitText::read(&long(LINE_LIMIT)).stop, Some(Stop { line: 2, why: StopReason::TooLong }));
        let parts = format!("A={}\\\n{}", "x".repeat(LINE_LIMIT / 2), "y".repeat(LINE_LIMIT / 2));
        assert_eq!(UnitText::read(&parts).stop, Some(Stop { line: 2, why: StopReason::TooLong }));
    }

    #[test]
    fn a_section_is_found_wherever_it_is_opened() {
        let unit = UnitText::read("A=0\n[S]\nA=1\n=2\n[T]\nA=3\n[S]\nA=4\n");
        assert_eq!(unit.section("S").collect::<Vec<_>>(), [("A", "1"), ("A", "4")]);
    }

    proptest! {
        #[test]
        fn a_text_that_was_written_anew_reads_the_same(
            text in prop_oneof![
                ".{0,80}",
                "[\\[\\]=#; \n\r\0\\\\aAü\u{feff}]{0,80}",
                "(\\[(Unit|Service|a b)\\]|[AB] ?= ?[bc\\\\]{0,4}|[#;]x|\u{feff}|foo|\\\\| |\n|\r){0,40}",
            ],
        ) {
            let read = UnitText::read(&text);
            let again = UnitText::read(&read.to_string());
            let kinds = |unit: &UnitText| unit.lines.iter().map(|l| l.kind.clone()).collect::<Vec<_>>();
            prop_assert_eq!(kinds(&read), kinds(&again));
            prop_assert_eq!(again.stop, None, "what is written anew is whole");
            prop_assert_eq!(read.to_string(), again.to_string());
            let last = read.lines.last().map_or(0, |l| l.number);
            prop_assert!(read.lines.is_sorted_by_key(|l| l.number) && last <= text.chars().count().max(1));
        }
    }
}
