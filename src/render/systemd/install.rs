//! The `[Install]` section of unit files: what enabling a unit would do.

use super::text::UnitText;
use crate::render::items::UnitItem;

/// Keys by which enabling a unit does something.
const EFFECTIVE: [&str; 5] = ["Alias", "WantedBy", "RequiredBy", "UpheldBy", "Also"];

/// What `[Install]` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Install {
    /// All assignments in order, comments and blanks apart: two equal lists give equal links.
    pub lines: Vec<(String, String)>,
}

impl Install {
    /// Of a unit file's text, or of several that are read as one (a body and its drop-ins).
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut lines = Vec::new();
        for text in texts {
            let text = UnitText::read(text);
            lines.extend(
                text.section("Install")
                    .map(|(key, value)| (key.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "))),
            );
        }
        Self { lines }
    }

    /// Of a unit as a config brings it.
    pub fn of_unit(unit: &UnitItem) -> Self {
        Self::of(unit.contents.iter().chain(unit.dropins.values()).map(String::as_str))
    }

    /// Units that are enabled and disabled together with this one.
    pub fn also(&self) -> impl Iterator<Item = &str> {
        self.values("Also").flat_map(str::split_whitespace)
    }

    /// Whether a template can be enabled as it is.
    pub fn has_default_instance(&self) -> bool {
        self.values("DefaultInstance").last().is_some_and(|value| !value.is_empty())
    }

    /// Whether there is no assignment at all.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether enabling the unit would make a link, or enable another unit.
    pub fn has_effect(&self) -> bool {
        EFFECTIVE.iter().any(|key| self.values(key).last().is_some_and(|value| !value.is_empty()))
    }

    /// The links that enabling `unit`, which is no template, makes in the unit folder: those that can be told without
    /// systemd's own knowledge of specifiers, of aliases of instances, and of keys that only some versions have.
    pub fn links(&self, unit: &str) -> Vec<String> {
        let folders = [("WantedBy", ".wants"), ("RequiredBy", ".requires")].into_iter();
        let mut links: Vec<String> = folders
            .flat_map(|(key, end)| self.names(key).into_iter().map(move |by| format!("{by}{end}/{unit}")))
            .collect();
        let suffix = unit.rsplit_once('.').map_or("", |(_, suffix)| suffix);
        let is_alias = |name: &&str| *name != unit && name.rsplit_once('.').is_some_and(|(_, of)| of == suffix);
        if !unit.contains('@') {
            links.extend(self.names("Alias").into_iter().filter(is_alias).map(str::to_owned));
        }
        links
    }

    /// Names of units without specifiers; an empty assignment drops those before it.
    fn names<'a>(&'a self, key: &'a str) -> Vec<&'a str> {
        let mut names = Vec::new();
        for value in self.values(key) {
            if value.is_empty() {
                names.clear();
            }
            names.extend(value.split_whitespace().filter(|name| name.contains('.') && !name.contains(['%', '/', '@'])));
        }
        names
    }

    fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter(move |(found, _)| found == key).map(|(_, value)| value.as_str())
    }
}
/// `a@.service`: a template, as opposed to an instance of one.
pub fn is_template(name: &str) -> bool {
    name.split_once('@').is_some_and(|(_, rest)| rest.starts_with('.'))
}

/// The template's name of an instance's.
pub fn template_of(name: &str) -> Option<String> {
    let (prefix, rest) = name.split_once('@')?;
    let (instance, suffix) = rest.rsplit_once('.')?;
    (!instance.is_empty()).then(|| format!("{prefix}@.{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_is_read_as_systemd_reads_it() {
        let install = Install::of([
            "[Unit]\nAlso=not.service\n[Install]\n# Also=no.service\nWantedBy = a.target \\\n  b.target\nAlso=x.service\n[Service]\nAlso=n.service\n",
            "[Install]\nAlso=y.service z.service\nDefaultInstance=1",
        ]);
        assert_eq!(install.also().collect::<Vec<_>>(), ["x.service", "y.service", "z.service"]);
        assert_eq!(install.lines[0], ("WantedBy".to_owned(), "a.target b.target".to_owned()));
        assert!(install.has_default_instance());
        assert!(Install::of(["[Unit]\nDescription=x\n"]).is_empty());
    }

    #[test]
    fn the_links_of_a_unit_are_those_that_are_certain() {
        let install = Install::of([
            "[Install]\nWantedBy=no.target\nWantedBy=\nWantedBy=a.target %i.target plain\nRequiredBy=b.target\nUpheldBy=u.target\n\
             Alias=x.service y.service x.socket\n",
        ]);
        assert_eq!(
            install.links("x.service"),
            ["a.target.wants/x.service", "b.target.requires/x.service", "y.service"]
        );
        assert_eq!(install.links("x@1.service"), ["a.target.wants/x@1.service", "b.target.requires/x@1.service"]);
    }

    #[test]
    fn templates_and_instances_are_told_apart() {
        for (name, template, of) in [
            ("a.service", false, None),
            ("a@.service", true, None),
            ("a@b.service", false, Some("a@.service")),
            ("a@b.c.service", false, Some("a@.service")),
        ] {
            assert_eq!((is_template(name), template_of(name).as_deref()), (template, of), "{name}");
        }
    }
}
