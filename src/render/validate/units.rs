//! Units of one source: names and bodies. What `enabled` and `mask` mean together is seen in the merged whole.

use super::{Report, duplicates, quoted};
use crate::render::layer::UnitLayer;
use crate::render::rule;
use std::fmt::Arguments;

/// Longest name of a unit, in bytes: systemd's limit.
const UNIT_NAME_MAX: usize = 255;

/// What a unit's name may end in.
const SUFFIXES: [&str; 12] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];

/// What is wrong with a unit's name, as systemd reads names.
pub fn unit_name_problem(name: &str) -> Option<String> {
    let shown = quoted(name);
    if name.len() > UNIT_NAME_MAX {
        return Some(format!("a unit name has at most {UNIT_NAME_MAX} bytes, this one {}", name.len()));
    }
    let Some((stem, suffix)) = name.rsplit_once('.') else {
        return Some(format!(
            "{shown} has no suffix; write `{}.service` or what kind of unit it is",
            name.escape_debug()
        ));
    };
    if !SUFFIXES.contains(&suffix) {
        return Some(format!("{shown} does not end in a kind of unit; one of .{}", SUFFIXES.join(", .")));
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
        body(unit.contents, format_args!("{field}.contents"), report);
        for (j, (name, contents)) in unit.dropins.iter().enumerate() {
            dropin_name(name, format_args!("{field}.dropins[{j}].name"), report);
            body(*contents, format_args!("{field}.dropins[{j}].contents"), report);
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

fn body(text: Option<&str>, field: Arguments, report: &mut Report) {
    if text.is_some_and(|t| t.contains('\0')) {
        report.add(&rule::UNIT_BODY, field, "holds a NUL character");
    }
}
