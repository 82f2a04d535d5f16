//! `mcx validate`: all that is wrong or odd in an input, at once and with its places.

mod excerpt;
mod github;

use super::{input, print};
use crate::render::finding::{Finding, Severity};
use crate::render::load::{self, Loaded};
use crate::review::{self, Review};
use clap::ValueEnum;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Flags of `mcx validate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        mcx validate -f examples/\n  \
        mcx validate --strict -R -f clusters/ -o github\n  \
        kubectl get mc,mcp,machineconfiguration -o yaml | mcx validate -f - -o json\n\n\
        The input is judged as if it were applied to a cluster that has nothing else but what mcx ships: pools master and \
        worker, and an empty source for each. Sources that no pool selects are checked, too; rendered ones and objects of other \
        kinds are left out. What a rule means: mcx explain --rule RULE\n\n\
        With -o json the output is one object, {\"findings\": [...], \"errors\": N, \"warnings\": N}. A finding has severity, \
        rule, object, path, message and help; and file, line and column where it has a place, which are left out where not.\n\n\
        Of a line that is shown, the data of data: URLs and password hashes are left out.\n\n\
        Exit codes: 0 no errors (with --strict: no warnings either), 1 findings, or nothing in the input to \
        validate, 2 could not do it.")]
pub struct Args {
    /// What is read
    #[command(flatten)]
    pub input: input::Args,
    /// How to print findings
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Let warnings count as errors do for the exit code
    #[arg(long)]
    pub strict: bool,
}

/// Formats of the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Each with the line it is about and a caret
    Text,
    /// One JSON object
    Json,
    /// Annotations for the log of a GitHub workflow
    Github,
}

/// Reviews and prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = load::load(args.input.read()?);
    let review = review::review(&loaded);
    match args.output {
        Output::Text => print::out(&text(&review.findings, &loaded))?,
        Output::Json => print::out(&format!("{}\n", serde_json::to_string_pretty(&review)?))?,
        Output::Github => print::out(&review.findings.iter().map(github::annotation).collect::<String>())?,
    }
    // A wrong path in a CI job must not look like success. What could not be read has been said already.
    if loaded.objects() == 0 && review.errors == 0 {
        let names: Vec<String> = args.input.filename.iter().map(|path| path.display().to_string()).collect();
        print::error(&format!("nothing to validate in {}: {}", names.join(", "), input::NOTHING));
        return Ok(ExitCode::FAILURE);
    }
    // Programs need no summary.
    if args.output == Output::Text {
        print::note(&summary(&review, loaded.objects()));
    }
    let fine = review.errors == 0 && (review.warnings == 0 || !args.strict);
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each finding in one line, and below it the line it is about.
fn text(findings: &[Finding], loaded: &Loaded) -> String {
    let width = print::width();
    let mut text = String::new();
    for finding in findings {
        text.push_str(&print::finding(finding));
        let (Some(file), Some(number), Some(column)) = (&finding.file, finding.line, finding.column) else { continue };
        let Some(line) = loaded.line(file, number) else { continue };
        let gutter = number.to_string().len();
        let shown = excerpt::excerpt(line, column, width.saturating_sub(gutter + 4));
        let style = match finding.severity {
            Severity::Error => print::ERROR,
            Severity::Warning => print::WARNING,
        };
        // Writing to a String does not fail.
        let _ = writeln!(text, " {number} | {}", shown.text);
        let _ = writeln!(text, " {:gutter$} | {:indent$}{style}^{style:#}", "", "", indent = shown.before);
    }
    text
}

/// What came of it, in one line for people.
fn summary(review: &Review, objects: usize) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match (review.errors, review.warnings, objects) {
        (0, 0, _) => format!("no findings in {}", count(objects, "object")),
        (errors, 0, _) => count(errors, "error"),
        (0, warnings, _) => count(warnings, "warning"),
        (errors, warnings, _) => format!("{}, {}", count(errors, "error"), count(warnings, "warning")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts() {
        let review = |errors, warnings| Review { findings: Vec::new(), errors, warnings };
        for (errors, warnings, objects, expected) in [
            (1, 0, 1, "1 error"),
            (2, 1, 1, "2 errors, 1 warning"),
            (0, 3, 1, "3 warnings"),
            (0, 0, 1, "no findings in 1 object"),
            (0, 0, 4, "no findings in 4 objects"),
        ] {
            assert_eq!(summary(&review(errors, warnings), objects), expected);
        }
    }
}
