//! What systemd would pass over in a unit's text without doing what its author meant.

use super::directive;
use super::text::{LineKind, UnitText};
use crate::render::nearest::nearest;

/// A line that systemd ignores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    /// Line of the text, from 1.
    pub line: usize,
    /// What is odd about it.
    pub what: What,
}

/// Why a line is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The section is none of this kind of unit. All up to the next section is ignored.
    UnknownSection {
        /// As it is written.
        name: String,
        /// The section that was probably meant.
        meant: Option<&'static str>,
    },
    /// It stands before the first section.
    Outside,
    /// It has no equals sign.
    NoEquals,
    /// Nothing stands before its equals sign.
    NoKey,
    /// Its key belongs into other sections.
    Misplaced {
        /// The key.
        key: String,
        /// Where it stands.
        section: &'static str,
        /// Where it belongs: those of this kind of unit, or, when it has none of them, those of other kinds.
        homes: Vec<&'static str>,
    },
}

/// What is odd in the text of a unit, or of one of its drop-ins, whose kind has these sections
/// ([`directive::sections`]). Sections and keys that begin with `X-` are for others than systemd, and never odd.
pub fn oddities(text: &UnitText, sections: [&'static str; 3]) -> Vec<Oddity> {
    let mut found = Vec::new();
    let mut here = Here::BeforeSections;
    for line in &text.lines {
        let what = match (&line.kind, &here) {
            (LineKind::Section(name), _) => {
                let known = sections.into_iter().find(|s| s == name);
                here = known.map_or(Here::Ignored, Here::Section);
                let is_odd = known.is_none() && !name.starts_with("X-");
                is_odd.then(|| What::UnknownSection { name: name.clone(), meant: nearest(name.trim(), sections) })
            }
            (_, Here::Ignored) => None,
            (_, Here::BeforeSections) => Some(What::Outside),
            (LineKind::Other(_), _) => Some(What::NoEquals),
            (LineKind::Assignment { key, .. }, _) if key.is_empty() => Some(What::NoKey),
            (LineKind::Assignment { key, .. }, Here::Section(section)) => misplaced(key, section, sections),
        };
        found.extend(what.map(|what| Oddity { line: line.number, what }));
    }
    found
}

enum Here {
    BeforeSections,
    Ignored,
    Section(&'static str),
}

fn misplaced(key: &str, section: &'static str, sections: [&str; 3]) -> Option<What> {
    let homes = directive::homes(key);
    if homes.is_empty() || homes.contains(&section) {
        return None;
    }
    let near: Vec<&str> = homes.iter().copied().filter(|home| sections.contains(home)).collect();
    let homes = if near.is_empty() { homes.to_vec() } else { near };
    Some(What::Misplaced { key: key.to_owned(), section, homes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn odd(unit: &str, text: &str) -> Vec<(usize, What)> {
        let sections = directive::sections(unit).unwrap();
        oddities(&UnitText::read(text), sections).into_iter().map(|o| (o.line, o.what)).collect()
    }

    fn unknown(name: &str, meant: Option<&'static str>) -> What {
        What::UnknownSection { name: name.to_owned(), meant }
    }

    fn misplaced(key: &str, section: &'static str, homes: &[&'static str]) -> What {
        What::Misplaced { key: key.to_owned(), section, homes: homes.to_vec() }
    }

    #[test]
    fn a_section_of_another_kind_is_unknown_with_all_that_is_in_it() {
        assert_eq!(odd("a.timer", "[Unit]\n[Service]\nfoo\n=1\nAfter=x\n[Timer]\n"), [(2, unknown("Service", None))]);
        assert_eq!(odd("a.service", "[service]\n"), [(1, unknown("service", Some("Service")))]);
        assert_eq!(odd("a.service", "[ Unit ]\n"), [(1, unknown(" Unit ", Some("Unit")))]);
        assert_eq!(odd("a.service", "[Instal]\n"), [(1, unknown("Instal", Some("Install")))]);
        assert_eq!(odd("a.service", "[X-Mine]\nfoo\n[Unit]\nX-Mine=1\n"), [], "for others than systemd");
    }

    #[test]
    fn what_is_no_assignment_in_a_section_is_ignored() {
        assert_eq!(
            odd("a.service", "A=b\nfoo\n# c\n[Unit]\nfoo\n=1\nDescription=\n"),
            [(1, What::Outside), (2, What::Outside), (5, What::NoEquals), (6, What::NoKey)]
        );
    }

    #[test]
    fn a_known_key_in_the_wrong_section_is_told_where_it_belongs() {
        assert_eq!(
            odd("a.service", "[Unit]\nExecStart=/bin/true\n[Service]\nAfter=x\nWantedBy=y\nStartLimitBurst=3\n"),
            [
                (2, misplaced("ExecStart", "Unit", &["Service"])),
                (4, misplaced("After", "Service", &["Unit"])),
                (5, misplaced("WantedBy", "Service", &["Install"])),
            ]
        );
        assert_eq!(odd("a.timer", "[Timer]\nEnvironment=A=b\n")[0].1, {
            misplaced("Environment", "Timer", &["Service", "Socket", "Mount", "Swap"])
        });
        // A key that no list has may be a newer one; names are told apart by case.
        assert_eq!(odd("a.service", "[Unit]\nBrandNew=1\nexecstart=1\n"), []);
    }

    proptest! {
        #[test]
        fn any_text_can_be_looked_at(text in "(\\[(Unit|Service|X-a|b)\\]|(After|ExecStart|)=x|\\PC|\n){0,60}") {
            let read = UnitText::read(&text);
            for unit in ["a.service", "a@.timer", "a.device"] {
                let found = oddities(&read, directive::sections(unit).unwrap());
                prop_assert!(found.len() <= read.lines.len());
            }
        }
    }

    /// What systemd says of a text, one word a line, and `stop` when it gives up.
    fn of_systemd(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.service");
        std::fs::write(&path, text).unwrap();
        let mut command = std::process::Command::new("systemd-analyze");
        let output = command.args(["verify", "--man=no"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let own = said.lines().filter(|line| line.starts_with(path.to_str().unwrap()));
        let kinds = own.filter_map(|line| {
            [
                ("Missing '='", "no-equals"),
                ("Missing key name", "no-key"),
                ("Unknown section", "section"),
                ("Assignment outside", "outside"),
                ("Unknown key", "misplaced"),
                ("Invalid section header", "stop"),
                ("Bad characters in section", "stop"),
            ]
            .into_iter()
            .find_map(|(text, kind)| line.contains(text).then(|| kind.to_owned()))
        });
        kinds.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        #[ignore = "needs systemd-analyze, of version 252 or later"]
        fn systemd_says_the_same(
            text in "(\\[(Unit|Service|Timer|X-a|Unit)\\]\n|(After|ExecStart|WantedBy|Nice|)=x\n|foo\n|\\[Unit\\] x\n|\\[\"a\"\\]\n|# c\n| ;c=d\n|Nice=1\\\\\n|Nice=1\\\\\\\\\n|\u{feff}|\r|\n| ){0,14}"
        ) {
            let read = UnitText::read(&text);
            let mut ours: Vec<String> = oddities(&read, directive::sections("a.service").unwrap())
                .into_iter()
                .map(|o| match o.what {
                    What::UnknownSection { .. } => "section",
                    What::Outside => "outside",
                    What::NoEquals => "no-equals",
                    What::NoKey => "no-key",
                    What::Misplaced { .. } => "misplaced",
                })
                .map(str::to_owned)
                .collect();
            ours.extend(read.stop.map(|_| "stop".to_owned()));
            prop_assert_eq!(ours, of_systemd(&text), "{:?}", text);
        }
    }
}
