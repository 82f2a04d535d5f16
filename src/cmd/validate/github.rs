//! A finding as an annotation that GitHub shows beside the line in a pull request.

use crate::render::finding::{Finding, Severity};
use std::fmt::Write as _;

/// The workflow command of a finding, with its line end.
///
/// Without a file that the repository has, standard input say, the message names the place.
pub(super) fn annotation(finding: &Finding) -> String {
    let mut command = match finding.severity {
        Severity::Error => "::error ",
        Severity::Warning => "::warning ",
    }
    .to_owned();
    let mut message = String::new();
    match (finding.file.as_deref(), finding.line, finding.column) {
        (Some("-"), Some(line), Some(column)) => message = format!("standard input, line {line}, column {column}: "),
        (Some("-") | None, ..) => {}
        (Some(file), line, column) => {
            // Paths are matched with those of the repository as they stand.
            let file = file.trim_start_matches("./");
            let _ = write!(command, "file={},", property(file));
            if let (Some(line), Some(column)) = (line, column) {
                let _ = write!(command, "line={line},col={column},");
            }
        }
    }
    for part in [&finding.object, &finding.path].into_iter().filter(|part| !part.is_empty()) {
        let _ = write!(message, "{part}: ");
    }
    message.push_str(&finding.message);
    if !finding.help.is_empty() {
        let _ = write!(message, "; {}", finding.help);
    }
    let _ = writeln!(command, "title={}::{}", property(finding.rule), data(&message));
    command
}

/// Text of a message: what would end it is escaped.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Text of a property: what would end the property, too.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::rule;

    fn finding(file: Option<&str>, place: Option<(usize, usize)>) -> Finding {
        Finding {
            file: file.map(str::to_owned),
            line: place.map(|p| p.0),
            column: place.map(|p| p.1),
            help: "50%: no\nmore".to_owned(),
            ..rule::UNKNOWN_KEY.finding("MachineConfig/99-x", "spec.a", "unknown, key")
        }
    }

    #[test]
    fn what_would_end_a_part_of_the_command_is_escaped() {
        assert_eq!(
            annotation(&finding(Some("./a,b:c%.yaml"), Some((3, 7)))),
            "::error file=a%2Cb%3Ac%25.yaml,line=3,col=7,title=unknown-key::\
             MachineConfig/99-x: spec.a: unknown, key; 50%25: no%0Amore\n"
        );
        assert_eq!(data("\r\n::error::x"), "%0D%0A::error::x");
    }

    #[test]
    fn a_finding_without_a_file_of_the_repository_has_no_place() {
        let text = "MachineConfig/99-x: spec.a: unknown, key; 50%25: no%0Amore\n";
        assert_eq!(annotation(&finding(None, None)), format!("::error title=unknown-key::{text}"));
        assert_eq!(
            annotation(&finding(Some("-"), Some((3, 7)))),
            format!("::error title=unknown-key::standard input, line 3, column 7: {text}")
        );
        assert_eq!(annotation(&finding(Some("a"), None)), format!("::error file=a,title=unknown-key::{text}"));
    }
}
