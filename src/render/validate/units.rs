//! Units of one source: names and bodies. What `enabled` and `mask` mean together is seen in the merged whole.

use super::{Report, duplicates, quoted, secret};
use crate::api::{GUARD_UNIT, UNIT_TYPES};
use crate::render::ignition;
use crate::render::layer::UnitLayer;
use crate::render::nearest;
use crate::render::rule::{self, Rule};
use crate::render::systemd::directive;
use crate::render::systemd::oddity::{What, oddities};
use crate::render::systemd::text::UnitText;
use std::fmt::{Arguments, Write as _};

/// How many ignored lines of one text are named: a text that is no unit at all has many.
const NAMED: usize = 20;

/// Longest name of a unit, in bytes: systemd's limit.
const UNIT_NAME_MAX: usize = 255;

/// What is wrong with a unit's name, as systemd reads names.
pub fn unit_name_problem(name: &str) -> Option<String> {
    let shown = quoted(name);
    if name == GUARD_UNIT {
        return Some(format!("{shown} belongs to mcx, which undoes updates with it"));
    }
    if name.len() > UNIT_NAME_MAX {
        return Some(format!("a unit name has at most {UNIT_NAME_MAX} bytes, this one {}", name.len()));
    }
    let Some((stem, suffix)) = name.rsplit_once('.') else {
        return Some(format!(
            "{shown} has no suffix; write `{}.service` or what kind of unit it is",
            name.escape_debug()
        ));
    };
    if !UNIT_TYPES.contains(&suffix) {
        return Some(format!("{shown} does not end in a kind of unit; one of .{}", UNIT_TYPES.join(", .")));
    }
    if stem.is_empty() || stem.starts_with('@') {
        return Some(format!("{shown} has no name before its suffix"));
    }
    let odd = stem.chars().find(|c| !c.is_ascii_alphanumeric() && !":-_.\\@".contains(*c));
    odd.map(|c| format!("{shown} holds {c:?}; unit names are of letters, digits and :-_.\\@"))
}

pub(super) fn check(units: &[UnitLayer], report: &mut Report) {
    for (i, unit) in units.iter().enumerate() {
        let field = format!("systemd.units[{i}]");
        if unit.name.is_empty() {
            report.help(&rule::UNIT_NAME, format_args!("{field}.name"), "is missing", "name the unit");
        } else if let Some(problem) = unit_name_problem(unit.name) {
            report.help(&rule::UNIT_NAME, format_args!("{field}.name"), problem, "");
        }
        body(unit.name, unit.contents, format_args!("{field}.contents"), report);
        for (j, (name, contents)) in unit.dropins.iter().enumerate() {
            dropin_name(name, format_args!("{field}.dropins[{j}].name"), report);
            body(unit.name, *contents, format_args!("{field}.dropins[{j}].contents"), report);
        }
        let dropins = unit.dropins.iter().map(|(name, _)| *name).enumerate().filter(|(_, name)| !name.is_empty());
        duplicates(dropins, "drop-in", |j| format!("{field}.dropins[{j}].name"), report);
    }
    let names = units.iter().map(|u| u.name).enumerate().filter(|(_, name)| !name.is_empty());
    duplicates(names, "unit", |i| format!("systemd.units[{i}].name"), report);
}

fn dropin_name(name: &str, field: Arguments, report: &mut Report) {
    let shown = quoted(name);
    let message = if name.is_empty() {
        "is missing".to_owned()
    } else if name.contains('/') || name.chars().any(char::is_control) {
        format!("{shown} is not the name of a file")
    } else if name.len() > UNIT_NAME_MAX {
        format!("a drop-in's name has at most {UNIT_NAME_MAX} bytes, this one {}", name.len())
    } else if name.starts_with('.') {
        format!("{shown} begins with a dot: systemd does not read such files")
    } else if name.rsplit_once('.').is_none_or(|(_, ending)| ending != "conf") {
        format!("{shown} does not end in .conf")
    } else {
        return;
    };
    report.add(&rule::DROPIN_NAME, field, message);
}

/// The text of a unit or of its drop-in: refused when it is not loaded as it stands, or cannot be; else what systemd would
/// pass over in it.
fn body(unit: &str, text: Option<&str>, field: Arguments, report: &mut Report) {
    let Some(text) = text else { return };
    if text.contains('\0') {
        return report.add(&rule::UNIT_BODY, field, "holds a NUL character");
    }
    let read = UnitText::read(text);
    let refused = match (read.stop, ignition::unit::parse(text)) {
        (Some(stop), _) => Some((stop.line, stop.why.to_string())),
        // What systemd only ignores, the specification may refuse.
        (None, Err(error)) => Some((error.line, error.problem.to_string())),
        (None, Ok(_)) => None,
    };
    if let Some((line, problem)) = &refused {
        report.add(&rule::UNIT_SYNTAX, field, format!("line {line}: {problem}"));
    }
    // Every user of a node may read its unit files.
    if let Some(secret) = secret::find(text.as_bytes()) {
        let help = "put it into a file with mode: 0o600 and name that in EnvironmentFile= or LoadCredential=";
        report.help(
            &rule::SECRET_READABLE,
            field,
            format!("holds {secret}; unit files are readable by everybody"),
            help,
        );
    }
    let Some(sections) = directive::sections(unit) else { return };
    let mut odd = oddities(&read, sections);
    odd.retain(|o| refused.as_ref().is_none_or(|(line, _)| *line != o.line));
    let more = odd.len().saturating_sub(NAMED);
    for (i, oddity) in odd.iter().take(NAMED).enumerate() {
        let (rule, mut message, help) = told(&oddity.what, unit);
        message.insert_str(0, &format!("line {}: ", oddity.line));
        if more > 0 && i + 1 == NAMED {
            // Writing to a String does not fail.
            let _ = write!(message, ", as it does {more} more lines");
        }
        report.help(rule, field, message, help);
    }
}

/// What to say of a line that systemd ignores. Names of sections and keys are shown, other text is not.
fn told(what: &What, unit: &str) -> (&'static Rule, String, String) {
    let kind = unit.rsplit_once('.').map_or("unit", |(_, kind)| kind);
    match what {
        What::UnknownSection { name, meant } => {
            let message =
                format!("{} is no section of a {kind}; systemd ignores it with all lines in it", section(name));
            let help = match (meant, directive::kind_with(name)) {
                (Some(meant), _) => nearest::meant(&format!("[{meant}]")),
                (None, Some(other)) => format!("put it into a {other}, or write another section"),
                (None, None) => rule::UNIT_SECTION.fix.to_owned(),
            };
            (&rule::UNIT_SECTION, message, help)
        }
        What::Outside => {
            let message = "stands before any section; systemd ignores it".to_owned();
            (&rule::UNIT_OUTSIDE, message, rule::UNIT_OUTSIDE.fix.to_owned())
        }
        What::NoEquals => {
            (&rule::UNIT_LINE, "has no equals sign; systemd ignores it".to_owned(), rule::UNIT_LINE.fix.to_owned())
        }
        What::NoKey => {
            let message = "has nothing before its equals sign; systemd ignores it".to_owned();
            (&rule::UNIT_LINE, message, rule::UNIT_LINE.fix.to_owned())
        }
        What::Misplaced { key, section, homes } => {
            let message = format!("{key}= stands in [{section}], where systemd ignores it");
            let homes: Vec<String> = homes.iter().map(|home| format!("[{home}]")).collect();
            (&rule::UNIT_KEY, message, format!("move it to {}", homes.join(" or ")))
        }
    }
}

/// A section's name as it may stand in a message.
fn section(name: &str) -> String {
    let shown = quoted(name);
    format!("[{}]", shown.trim_matches('`'))
}
