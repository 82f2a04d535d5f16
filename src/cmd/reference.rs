//! `mcx reference`: the reference pages, made from the code: commands, rules, names.

use super::Cli;
use crate::api::{annotation, condition, event, metric};
use crate::render::finding::Severity;
use crate::render::rule;
use anyhow::Context as _;
use clap::CommandFactory as _;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `mcx reference`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mcx reference docs/reference")]
pub struct Args {
    /// Folder to write the pages into; made when absent
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Writes the pages.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let failed = || format!("cannot write reference pages into {}", args.folder.display());
    std::fs::create_dir_all(&args.folder).with_context(failed)?;
    for (name, text) in [("commands.md", commands()), ("rules.md", rules()), ("names.md", names())] {
        std::fs::write(args.folder.join(name), text).with_context(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One section a command, and one for each command below it: its help, as printed at a width of 100.
fn commands() -> String {
    let mut page = "# Commands\n\nMade by `mcx reference`; do not edit.\n".to_owned();
    let mut root = Cli::command().term_width(100);
    root.build();
    for command in root.get_subcommands_mut() {
        sections(&mut page, command, "mcx");
    }
    page
}

fn sections(page: &mut String, command: &mut clap::Command, above: &str) {
    // `help` is clap's own, added to commands that have others below them.
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{above} {}", command.get_name());
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```\n{}\n```\n", help.join("\n").trim_end());
    for below in command.get_subcommands_mut() {
        sections(page, below, &name);
    }
}

fn rules() -> String {
    let mut page =
        "# Rules\n\nMade by `mcx reference`; do not edit. An error refuses the source; a warning does not. `mcx validate` finds what\n\
         breaks them; `mcx explain --rule RULE` prints the part below that is about one of them.\n\n\
                    | rule | | meaning | what to do |\n|---|---|---|---|\n"
            .to_owned();
    for rule in rule::RULES {
        let severity = match rule.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = writeln!(page, "| `{}` | {severity} | {} | {} |", rule.id, rule.meaning, rule.fix);
    }
    for rule in rule::RULES {
        let _ = write!(page, "\n## {}", rule.page());
    }
    page
}

fn names() -> String {
    let mut page = "# Names\n\nMade by `mcx reference`; do not edit.\n".to_owned();
    table(&mut page, "Annotations", annotation::TABLE, "");
    table(&mut page, "Conditions", condition::TABLE, "");
    page.push_str("\n## Reasons of a pool's conditions\n\n| reason | meaning | check | fix |\n|---|---|---|---|\n");
    for reason in condition::Reason::ALL {
        let advice = reason.advice();
        let _ = writeln!(page, "| `{}` | {} | {} | {} |", reason.as_str(), advice.meaning, advice.check, advice.fix);
    }
    table(&mut page, "Events", event::TABLE, "");
    table(&mut page, "Metrics", &metric::TABLE[1..], &format!("{}_", metric::PREFIX));
    page
}

fn table(page: &mut String, title: &str, rows: &[(&str, &str)], prefix: &str) {
    let _ = write!(page, "\n## {title}\n\n| name | meaning |\n|---|---|\n");
    for (name, meaning) in rows {
        let _ = writeln!(page, "| `{prefix}{name}` | {} |", meaning.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_of_a_table_is_torn_by_a_bar_or_a_line_end() {
        for page in [rules(), names()] {
            for line in page.lines().filter(|l| l.starts_with("| ")) {
                assert!(line.ends_with(" |"), "{line}");
                let cells = line.matches('|').count();
                assert!((3..=5).contains(&cells), "{cells} bars: {line}");
            }
        }
    }

    #[test]
    fn every_shown_command_has_a_section_with_examples() {
        let page = commands();
        let whole = Cli::command();
        let shown: Vec<_> = whole.get_subcommands().filter(|c| !c.is_hide_set()).collect();
        let below =
            shown.iter().flat_map(|c| c.get_subcommands().map(|b| format!("{} {}", c.get_name(), b.get_name())));
        for name in shown.iter().map(|c| c.get_name().to_owned()).chain(below) {
            let title = format!("## mcx {name}\n");
            let section = page.split(&title).nth(1).unwrap_or_else(|| panic!("no section {title}"));
            let section = section.split("\n## mcx").next().unwrap();
            assert!(section.contains("Examples:"), "{title} has no examples");
        }
    }
}
