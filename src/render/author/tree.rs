//! Which item a file of a folder laid out like a root is: a unit, a drop-in, or a file.

use super::{Draft, Error, File};
use crate::render::validate::unit_name_problem;

/// Where an administrator's units are on a node.
const UNIT_DIR: &str = "/etc/systemd/system/";

impl Draft {
    /// Adds the file that stands at `path` of the tree. Units have no mode: systemd's are 0644.
    pub fn add(&mut self, path: &str, mode: u32, bytes: Vec<u8>) -> Result<(), Error> {
        match path.strip_prefix(UNIT_DIR).map(|below| below.split_once('/').unwrap_or((below, ""))) {
            Some((unit, "")) if unit_name_problem(unit).is_none() => {
                let text = Self::unit_text(path, bytes)?;
                let unit = self.unit(unit);
                // An empty unit file masks the unit, while `contents: ""` says nothing.
                if text.is_empty() {
                    unit.mask = Some(true);
                } else {
                    unit.contents = Some(text);
                }
            }
            Some((folder, dropin)) if is_dropin(folder, dropin) => {
                let text = Self::unit_text(path, bytes)?;
                let unit = folder.strip_suffix(".d").unwrap_or(folder);
                self.unit(unit).dropins.push((dropin.to_owned(), text));
            }
            _ => self.files.push(File { path: path.to_owned(), mode, bytes, user: None, group: None }),
        }
        Ok(())
    }
}

fn is_dropin(folder: &str, name: &str) -> bool {
    let of_unit = folder.strip_suffix(".d").is_some_and(|unit| unit_name_problem(unit).is_none());
    of_unit && name.strip_suffix(".conf").is_some_and(|stem| !stem.contains('/'))
}
