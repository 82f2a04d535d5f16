//! systemd units and drop-ins.

use super::{Object, each, flag, plain};
use crate::api::UNIT_TYPES;
use crate::render::ignition::Report;
use crate::render::ignition::trail::Trail;
use crate::render::ignition::unit::{self, Unit};
use std::collections::BTreeSet;

pub(super) fn check(systemd: &Object, here: &Trail<'_>, report: &mut Report) {
    let at_units = Trail::Field(here, "units");
    let mut templates = BTreeSet::new();
    for (i, unit) in each(systemd, "units") {
        let at = Trail::Item(&at_units, i);
        let name = plain(unit, "name");
        if !extension(name).is_some_and(|extension| UNIT_TYPES.contains(&extension)) {
            report.error(
                at.below(&["name"]),
                "the name of a unit must end in .service, .socket, .timer or another type of unit",
            );
        }
        let parsed = lex(plain(unit, "contents"), &at, report);
        let useless = parsed.as_ref().is_some_and(|unit| !installable(unit));
        if useless && flag(unit, "enabled") == Some(true) {
            report.warning(
                at.below(&["contents"]),
                "the unit is enabled but has no [Install] section, so that enabling does nothing",
            );
        }
        if useless && name.ends_with("@.service") {
            templates.insert(name);
        }
        let at_dropins = Trail::Field(&at, "dropins");
        for (j, dropin) in each(unit, "dropins") {
            let at = Trail::Item(&at_dropins, j);
            if extension(plain(dropin, "name")) != Some("conf") {
                report.error(at.below(&["name"]), "the name of a drop-in must end in .conf");
            }
            lex(plain(dropin, "contents"), &at, report);
        }
    }
    for (i, unit) in each(systemd, "units") {
        if flag(unit, "enabled") == Some(true)
            && let Some(template) = template_of(plain(unit, "name"))
            && templates.contains(template.as_str())
        {
            report.warning(
                Trail::Item(&at_units, i).below(&["contents"]),
                format!("the template {template} has no [Install] section, so that enabling does nothing"),
            );
        }
    }
}

/// The parsed text; none when there is none, or it is malformed (which is reported).
fn lex(contents: &str, at: &Trail<'_>, report: &mut Report) -> Option<Unit> {
    if contents.is_empty() {
        return None;
    }
    match unit::parse(contents) {
        Ok(unit) => Some(unit),
        Err(error) => {
            report.error(at.below(&["contents"]), error.to_string());
            None
        }
    }
}

/// Whether there is something that enabling would do.
fn installable(unit: &Unit) -> bool {
    unit.sections.iter().any(|section| section.name == "Install" && !section.options.is_empty())
}

/// What follows the last dot of the last path element.
fn extension(name: &str) -> Option<&str> {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.rsplit_once('.').map(|(_, extension)| extension)
}

/// `a@.service` of `a@b.service`.
fn template_of(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".service")?;
    let at = stem.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at)?;
    (at + 1 < stem.len()).then(|| format!("{}@.service", &stem[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_belongs_to_the_template_of_its_shortest_prefix() {
        assert_eq!(template_of("a@b.service").as_deref(), Some("a@.service"));
        assert_eq!(template_of("a@b@c.service").as_deref(), Some("a@.service"));
        for name in ["a.service", "a@.service", "@b.service", "a@b.socket", ""] {
            assert_eq!(template_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_type_of_a_unit_is_behind_the_last_dot_of_its_last_element() {
        assert_eq!(extension("a.b.service"), Some("service"));
        assert_eq!(extension(".service"), Some("service"));
        assert_eq!(extension("a.service/b"), None);
        assert_eq!(extension("a"), None);
    }
}
