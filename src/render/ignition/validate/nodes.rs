//! Files, directories and links: single ones, and how they meet each other and the unit files.

use super::{Object, check_path, clean, each, flag, object, plain, resource, text, whole};
use crate::render::ignition::Report;
use crate::render::ignition::trail::Trail;
use std::collections::{BTreeMap, BTreeSet};

/// Where unit files and their drop-ins are written.
const UNIT_DIRECTORY: &str = "/etc/systemd/system/";

pub(super) fn check(storage: &Object, systemd: &Object, here: &Trail<'_>, report: &mut Report) {
    let unit_files = unit_files(systemd);
    let mut links: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, link) in each(storage, "links") {
        *links.entry(plain(link, "path")).or_default() += 1;
    }
    for list in ["directories", "files", "links"] {
        let at_list = Trail::Field(here, list);
        for (i, node) in each(storage, list) {
            let at = Trail::Item(&at_list, i);
            let path = plain(node, "path");
            if let Err(problem) = check_path(path) {
                report.error(at.below(&["path"]), problem);
            }
            for owner in ["user", "group"] {
                let owner_fields = object(node, owner);
                if whole(owner_fields, "id").is_some() && !plain(owner_fields, "name").is_empty() {
                    report.error(at.below(&[owner]), "give an id or a name, not both");
                }
            }
            if unit_files.contains(path) {
                report.error(at.below(&["path"]), "the same file is written by a unit or drop-in of this config");
            }
            for link in links_above(path, &links) {
                report.error(at.pointer(), format!("its path leads through the link {link} of this config"));
            }
            if list != "links" {
                check_mode(node, &at, report);
            }
        }
    }
    check_files(storage, here, report);
    check_links(storage, here, report);
}

/// The files that units and drop-ins with contents are written to.
fn unit_files(systemd: &Object) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for (_, unit) in each(systemd, "units") {
        let file = format!("{UNIT_DIRECTORY}{}", plain(unit, "name"));
        for (_, dropin) in each(unit, "dropins") {
            if !plain(dropin, "contents").is_empty() {
                files.insert(format!("{file}.d/{}", plain(dropin, "name")));
            }
        }
        if !plain(unit, "contents").is_empty() {
            files.insert(file);
        }
    }
    files
}

/// The links whose path is a directory above `path`, once for each time the config has them.
fn links_above<'a>(path: &str, links: &BTreeMap<&'a str, usize>) -> Vec<&'a str> {
    let mut found = Vec::new();
    if links.is_empty() {
        return found;
    }
    for (i, _) in path.match_indices('/') {
        if let Some((link, count)) = links.get_key_value(&path[..i]) {
            found.extend(std::iter::repeat_n(*link, *count));
        }
    }
    found
}

fn check_mode(node: &Object, at: &Trail<'_>, report: &mut Report) {
    let Some(mode) = whole(node, "mode") else { return };
    if !(0..=0o7777).contains(&mode) {
        report.error(at.below(&["mode"]), format!("the mode must be 0 to 07777 (octal), found {mode} (decimal)"));
    }
    if mode & 0o7000 != 0 {
        report.warning(at.below(&["mode"]), "setuid, setgid and sticky bits are not part of Ignition 3.4.0");
    }
}

fn check_files(storage: &Object, here: &Trail<'_>, report: &mut Report) {
    let at_list = Trail::Field(here, "files");
    for (i, file) in each(storage, "files") {
        let at = Trail::Item(&at_list, i);
        let contents = object(file, "contents");
        resource::check(contents, &Trail::Field(&at, "contents"), report);
        let at_append = Trail::Field(&at, "append");
        for (j, append) in each(file, "append") {
            resource::check(append, &Trail::Item(&at_append, j), report);
        }
        if flag(file, "overwrite") == Some(true) && text(contents, "source").is_none() {
            report.error(at.below(&["overwrite"]), "overwrite needs contents with a source");
        }
    }
}

fn check_links(storage: &Object, here: &Trail<'_>, report: &mut Report) {
    let directories: BTreeSet<&str> = each(storage, "directories").map(|(_, d)| plain(d, "path")).collect();
    let at_list = Trail::Field(here, "links");
    for (i, link) in each(storage, "links") {
        let at = Trail::Item(&at_list, i);
        let target = plain(link, "target");
        if target.is_empty() {
            report.error(at.below(&["target"]), "the target of a link is required");
            continue;
        }
        if flag(link, "hard") != Some(true) {
            continue;
        }
        // The reference takes a relative target from the link itself, not from the directory that it is in.
        let full =
            if target.starts_with('/') { clean(target) } else { clean(&format!("{}/{target}", plain(link, "path"))) };
        if directories.contains(full.as_str()) {
            report.error(at.pointer(), "a hard link cannot point to a directory");
        }
        for owner in ["user", "group"] {
            for field in ["id", "name"] {
                if object(link, owner).contains_key(field) {
                    report.warning(at.below(&[owner, field]), "a hard link has the owner of its target; ignored");
                }
            }
        }
    }
}
