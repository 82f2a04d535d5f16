//! What systemd makes of files and links: where it finds a unit, what enables it, and the word that it has for that.

use super::Model;
use super::wants::{ETC, base, is_mask, parent};
use crate::node_root::{Entry, Tree};

pub(super) const VENDOR: &str = "/usr/lib/systemd/system";
/// The target of a link of which only the name counts.
pub(crate) const ANY: &[u8] = b"*";

/// What comes in place of the links that went.
pub(super) enum Comes {
    Nothing,
    /// What `[Install]` says.
    Install,
    These(Tree),
}

/// The links that enabling makes, by the text of a unit.
pub(super) fn install(unit: &str, text: &str) -> Vec<String> {
    let of = |line: &str, key: &str| line.strip_prefix(key).map(str::to_owned);
    text.lines()
        .filter_map(|line| {
            of(line, "WantedBy=")
                .map(|by| format!("{ETC}/{by}.wants/{unit}"))
                .or_else(|| of(line, "RequiredBy=").map(|by| format!("{ETC}/{by}.requires/{unit}")))
                .or_else(|| of(line, "Alias=").map(|alias| format!("{ETC}/{alias}")))
        })
        .collect()
}

pub(super) fn template(unit: &str) -> Option<String> {
    let (prefix, _) = unit.split_once('@')?;
    Some(format!("{prefix}@.service"))
}

/// Whether a path is a link that may enable a unit, or a folder of such.
pub(crate) fn is_link_dir(path: &str) -> bool {
    parent(path) == ETC && [".wants", ".requires"].iter().any(|end| path.ends_with(end))
}

impl Model {
    /// Where a unit is that goes with the next boot.
    pub(super) fn runtime(&self, unit: &str) -> String {
        format!("{}/{unit}", self.until_boot)
    }

    /// What a unit's file is, as systemd finds it; a mask is found too.
    pub(super) fn found(&self, unit: &str) -> Option<(String, Entry)> {
        std::iter::once(unit.to_owned())
            .chain(template(unit))
            .flat_map(|name| [ETC, self.until_boot, VENDOR].map(|dir| format!("{dir}/{name}")))
            .find_map(|path| {
                self.disk.get(&path).filter(|entry| matches!(entry.0, 'f' | 'l')).cloned().map(|e| (path, e))
            })
    }

    /// The links that enable a unit.
    pub(super) fn links(&self, unit: &str) -> Tree {
        let is_of = |path: &str, entry: &Entry| {
            entry.0 == 'l'
                && ((is_link_dir(parent(path)) && base(path) == unit)
                    || (parent(path) == ETC && unit == "chronyd.service" && base(path) == "ntp.service"))
        };
        self.disk.iter().filter(|(path, entry)| is_of(path, entry)).map(|(p, e)| (p.clone(), e.clone())).collect()
    }

    /// What `systemctl is-enabled` says.
    pub(crate) fn word(&self, unit: &str) -> &'static str {
        let Some((path, found)) = self.found(unit) else { return "not-found" };
        if is_mask(Some(&found)) {
            return if path.starts_with(self.until_boot) { "masked-runtime" } else { "masked" };
        }
        if !self.links(unit).is_empty() {
            return "enabled";
        }
        let text = String::from_utf8_lossy(&found.4).into_owned();
        if install(unit, &text).is_empty() { "static" } else { "disabled" }
    }

    pub(super) fn set_links(&mut self, unit: &str, links: Tree) {
        for path in self.links(unit).keys() {
            self.disk.remove(path);
        }
        self.disk.extend(links);
    }

    pub(super) fn link(&mut self, unit: &str, (all_go, comes): (bool, Comes)) {
        if all_go {
            self.set_links(unit, Tree::new());
        }
        match comes {
            Comes::Nothing => {}
            Comes::These(links) => self.set_links(unit, links),
            Comes::Install => {
                let Some((_, found)) = self.found(unit) else { return };
                let text = String::from_utf8_lossy(&found.4).into_owned();
                for path in install(unit, &text) {
                    self.disk.insert(path, ('l', 0o777, 0, 0, ANY.to_vec()));
                }
            }
        }
    }
}
