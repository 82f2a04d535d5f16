//! The text of a systemd unit, taken apart into sections and options as the reference implementation does it, leniencies
//! included: plain text before the first section is skipped, names and values are not judged.

/// A unit or drop-in file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unit {
    /// In order of the text; a name may occur again.
    pub sections: Vec<Section>,
}

/// `[Name]` and what follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The text between the brackets.
    pub name: String,
    /// Line of the name, from 1.
    pub line: usize,
    /// In order of the text.
    pub options: Vec<UnitOption>,
}

/// `Name=Value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitOption {
    /// The text before the equals sign, without surrounding white space. May be empty.
    pub name: String,
    /// The text behind it, without surrounding white space; continued lines are joined by a space.
    pub value: String,
    /// Line of the name, from 1.
    pub line: usize,
}

/// Why a text is no unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed unit (line {line}): {problem}")]
pub struct Error {
    /// Line of the text, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What can be wrong with the text of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// `[Unit` and no `]` after it.
    #[error("a section name has no closing bracket")]
    SectionEnd,
    /// `[Unit] x`.
    #[error("there is text behind a section name")]
    BehindSection,
    /// A line without an equals sign.
    #[error("an option has no equals sign")]
    NoEquals,
    /// systemd would cut it off.
    #[error("a line is longer than {MAX_LINE} bytes")]
    LineTooLong,
}

/// The longest line that systemd reads, in bytes, with its end.
const MAX_LINE: usize = 2048;
/// The reference looks for too long lines only within what its reader has buffered, in bytes.
const BUFFER: usize = 4096;

/// Takes the text apart.
pub fn parse(text: &str) -> Result<Unit, Error> {
    let mut lexer = Lexer { text, at: 0, buffered: 0, line: 1, line_end: None };
    let mut unit = Unit::default();
    let mut step = Step::BeforeSections;
    loop {
        lexer.check_line_length()?;
        step = match step {
            Step::BeforeSections => match lexer.next() {
                None => return Ok(unit),
                Some('[') => Step::SectionName,
                Some('#' | ';') => Step::Comment { in_section: false },
                Some(_) => Step::BeforeSections,
            },
            Step::SectionName => {
                let line = lexer.line;
                let name = lexer.take_section_name()?;
                Step::BehindSection { name, line }
            }
            Step::BehindSection { name, line } => {
                let at_line = lexer.line;
                if !lexer.take_line().0.trim().is_empty() {
                    return Err(Error { line: at_line, problem: Problem::BehindSection });
                }
                unit.sections.push(Section { name, line, options: Vec::new() });
                Step::InSection
            }
            Step::InSection => match lexer.peek() {
                None => return Ok(unit),
                Some(c) if c.is_whitespace() => {
                    lexer.next();
                    Step::InSection
                }
                Some('[') => {
                    lexer.next();
                    Step::SectionName
                }
                Some('#' | ';') => {
                    lexer.next();
                    Step::Comment { in_section: true }
                }
                Some(_) => Step::OptionName,
            },
            Step::Comment { in_section } => {
                // One space behind the backslash is forgiven, in comments only.
                loop {
                    let (line, _) = lexer.take_line();
                    if !line.strip_suffix(' ').unwrap_or(line).ends_with('\\') {
                        break;
                    }
                }
                if in_section { Step::InSection } else { Step::BeforeSections }
            }
            Step::OptionName => {
                let line = lexer.line;
                let name = lexer.take_option_name()?;
                Step::OptionValue(UnitOption { name, value: String::new(), line })
            }
            Step::OptionValue(mut option) => {
                let (line, last) = lexer.take_line();
                let continued = !line.trim().is_empty() && line.ends_with('\\');
                let part = line.strip_suffix('\\').filter(|_| continued).unwrap_or(line).trim();
                if !option.value.is_empty() && !part.is_empty() {
                    option.value.push(' ');
                }
                option.value.push_str(part);
                if continued && !last {
                    Step::OptionValue(option)
                } else {
                    if let Some(section) = unit.sections.last_mut() {
                        section.options.push(option);
                    }
                    Step::InSection
                }
            }
        };
    }
}

enum Step {
    BeforeSections,
    SectionName,
    BehindSection { name: String, line: usize },
    InSection,
    Comment { in_section: bool },
    OptionName,
    OptionValue(UnitOption),
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// How far the reference's buffered reader would have read. It decides which too long lines are noticed.
    buffered: usize,
    line: usize,
    /// Where the next line end stands, if that was looked up and is not behind us.
    line_end: Option<usize>,
}

impl<'a> Lexer<'a> {
    fn check_line_length(&mut self) -> Result<(), Error> {
        if self.buffered.saturating_sub(self.at) < MAX_LINE {
            return Ok(());
        }
        let end = match self.line_end {
            Some(end) if end >= self.at => end,
            _ => {
                let rest = &self.text.as_bytes()[self.at..];
                let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r')).map_or(self.text.len(), |i| self.at + i);
                self.line_end = Some(end);
                end
            }
        };
        if end - self.at >= MAX_LINE {
            return Err(self.error(Problem::LineTooLong));
        }
        Ok(())
    }

    fn error(&self, problem: Problem) -> Error {
        Error { line: self.line, problem }
    }

    fn peek(&mut self) -> Option<char> {
        let c = self.text[self.at..].chars().next();
        // A character that is not whole in the buffer makes the reader fill it.
        if self.at + c.map_or(1, char::len_utf8) > self.buffered {
            self.buffered = self.text.len().min(self.at + BUFFER);
        }
        c
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    /// Up to and over `end`, an offset: moves the reader's buffer along.
    fn take_to(&mut self, end: usize) -> &'a str {
        let start = self.at;
        while self.buffered < end {
            if self.buffered.saturating_sub(self.at) >= BUFFER {
                self.at = self.buffered;
            }
            self.buffered = self.text.len().min(self.at + BUFFER);
        }
        self.at = end;
        let taken = &self.text[start..end];
        self.line += taken.matches('\n').count();
        taken
    }

    /// The rest of the line without its end, and whether it is the last.
    fn take_line(&mut self) -> (&'a str, bool) {
        if let Some(length) = self.text[self.at..].find('\n') {
            let line = self.take_to(self.at + length + 1);
            (line.strip_suffix('\n').unwrap_or(line), false)
        } else {
            let line = self.take_to(self.text.len());
            (line.strip_suffix('\r').unwrap_or(line), true)
        }
    }

    fn take_section_name(&mut self) -> Result<String, Error> {
        let Some(length) = self.text[self.at..].find(']') else {
            return Err(self.error(Problem::SectionEnd));
        };
        let name = self.take_to(self.at + length + 1);
        Ok(name.strip_suffix(']').unwrap_or(name).to_owned())
    }

    fn take_option_name(&mut self) -> Result<String, Error> {
        let start = self.at;
        loop {
            match self.next() {
                Some('=') => return Ok(self.text[start..self.at - 1].trim().to_owned()),
                Some('\n') => {
                    return Err(Error { line: self.line - 1, problem: Problem::NoEquals });
                }
                Some('\r') | None => return Err(self.error(Problem::NoEquals)),
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(text: &str) -> Vec<(String, String, String)> {
        let unit = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let all = |section: Section| section.options.into_iter().map(move |o| (section.name.clone(), o.name, o.value));
        unit.sections.into_iter().flat_map(all).collect()
    }

    fn option(section: &str, name: &str, value: &str) -> (String, String, String) {
        (section.to_owned(), name.to_owned(), value.to_owned())
    }

    #[test]
    fn sections_and_options_are_found_with_their_lines() {
        let unit = parse("# comment [x]\n[Unit]\nA = b c \n\n[Service]\n; no\nX=\nX=1=2").unwrap();
        let found: Vec<_> = unit.sections.iter().map(|s| (s.name.as_str(), s.line, s.options.len())).collect();
        assert_eq!(found, [("Unit", 2, 1), ("Service", 5, 2)]);
        assert_eq!(unit.sections[0].options[0], UnitOption { name: "A".into(), value: "b c".into(), line: 3 });
        assert_eq!(unit.sections[1].options[1], UnitOption { name: "X".into(), value: "1=2".into(), line: 8 });
    }

    #[test]
    fn continued_lines_are_one_value() {
        assert_eq!(options("[S]\nA=b \\\n  c\\\nd\nE=f"), [option("S", "A", "b c d"), option("S", "E", "f")]);
        // A blank line ends it, and so does the end of the text.
        assert_eq!(options("[S]\nA=b\\\n\nE=f"), [option("S", "A", "b"), option("S", "E", "f")]);
        assert_eq!(options("[S]\nA=b\\"), [option("S", "A", "b")]);
        // White space behind the backslash is no continuation of a value, but one space is of a comment.
        assert_eq!(options("[S]\nA=b\\ \nE=f"), [option("S", "A", "b\\"), option("S", "E", "f")]);
        assert_eq!(options("[S]\n# c \\ \nnot an option\nE=f"), [option("S", "E", "f")]);
    }

    #[test]
    fn text_before_the_first_section_is_skipped() {
        assert_eq!(options("plain text\nfoo=bar\n"), []);
        assert_eq!(options("foo [S]\nA=b"), [option("S", "A", "b")]);
        assert_eq!(options("foo # [S]\nA=b"), []);
    }

    #[test]
    fn malformed_units_are_refused_with_their_line() {
        for (text, line, problem) in [
            ("[Unit", 1, Problem::SectionEnd),
            ("\n\n[Unit\nA=b\n", 3, Problem::SectionEnd),
            ("[Unit] x\n", 1, Problem::BehindSection),
            ("[Unit]\nA=b\nfoo\nB=c", 3, Problem::NoEquals),
            ("[Unit]\nfoo", 2, Problem::NoEquals),
            ("[Unit]\nfo\ro=b", 2, Problem::NoEquals),
        ] {
            assert_eq!(parse(text), Err(Error { line, problem }), "{text:?}");
        }
        let long = format!("[Unit]\nA={}\n", "x".repeat(3000));
        assert_eq!(parse(&long), Err(Error { line: 2, problem: Problem::LineTooLong }));
        let just_fits = format!("[Unit]\nA={}\n", "x".repeat(MAX_LINE - 3));
        assert_eq!(options(&just_fits).len(), 1);
    }

    #[test]
    fn many_lines_take_linear_time() {
        // Each step looks for the end of its line: not again and again over the same text.
        let text = format!("{}\n", "x".repeat(2000)).repeat(1000);
        let begun = std::time::Instant::now();
        assert_eq!(options(&text), []);
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_lexer_panic(text in ".{0,80}", odd in "[\\[\\]=#; \n\r\\\\aü]{0,80}", n in 0_usize..5000) {
            let _ = parse(&text);
            let _ = parse(&odd);
            let _ = parse(&format!("[S]\n{}{odd}", "ü".repeat(n)));
        }
    }
}
