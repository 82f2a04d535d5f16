//! Files of one source: paths, modes, owners, contents.

use super::contents::{self, Decoder};
use super::{Report, duplicates, quoted};
use crate::api::{FORCE_FILE, GUARD_UNIT, STATE_DIR};
use crate::render::items::Content;
use crate::render::layer::{Contents, FileLayer, OwnerLayer};
use crate::render::mode;
use crate::render::nearest;
use crate::render::path::{is_clean, is_within};
use crate::render::rule;
use std::fmt::{Arguments, Display};

/// File systems that are empty after each boot.
const VOLATILE: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/var/run", "/tmp"];

/// Longest path, in bytes: the kernel's `PATH_MAX` without its end.
const PATH_MAX: usize = 4095;

/// Longest name in a path, in bytes: 255 less the ending that the writer of files gives a new file beside the old one.
const NAME_MAX: usize = 230;

pub(super) fn check<'a>(files: &[FileLayer<'a>], decoder: &mut Decoder<'a>, report: &mut Report) {
    decoder.prepare(files);
    let mut total: u64 = 0;
    for (i, file) in files.iter().enumerate() {
        path(file.path, format_args!("storage.files[{i}].path"), report);
        if let Some(mode) = file.mode {
            permissions(mode, format_args!("storage.files[{i}].mode"), report);
        }
        owner(file.user, format_args!("storage.files[{i}].user"), report);
        owner(file.group, format_args!("storage.files[{i}].group"), report);
        if file.overwrite == Some(false) {
            let message = "false is not obeyed: what is there is replaced, and given back when the file is withdrawn";
            report.add(&rule::OVERWRITE, format_args!("storage.files[{i}].overwrite"), message);
        }
        let field = format_args!("storage.files[{i}].contents");
        total = total.saturating_add(contents::check(file.contents, field, decoder, report));
        if total > Content::CONFIG_LIMIT {
            too_large("storage.files", report);
            break;
        }
    }
    let names = files.iter().map(|f| f.path).enumerate().filter(|(_, path)| !path.is_empty());
    duplicates(names, "file", |i| format!("storage.files[{i}].path"), report);
}

/// Whether the specification may have more to say of a file than is said here.
pub(super) fn is_for_specification(file: &FileLayer) -> bool {
    let Contents { source, hash, .. } = file.contents;
    hash.is_some() || source.map_or(file.overwrite == Some(true), |source| !contents::is_plain_url(source))
}

/// The files of a config are too large together.
pub(super) fn too_large(field: impl Display, report: &mut Report) {
    let message = format!("the files have more than {} GiB together, decoded", Content::CONFIG_LIMIT >> 30);
    report.add(&rule::CONTENTS_SIZE, field, message);
}

fn path(path: &str, field: Arguments, report: &mut Report) {
    if path.is_empty() {
        return report.help(&rule::FILE_PATH, field, "is missing", "name the file by its absolute path");
    }
    if path.chars().any(char::is_control) {
        let help = "remove it; in YAML, write the path without quotes and escapes";
        return report.help(&rule::FILE_PATH, field, format!("{} holds a control character", quoted(path)), help);
    }
    if !path.starts_with('/') {
        return report.add(&rule::FILE_PATH, field, format!("{} is not absolute", quoted(path)));
    }
    if !is_clean(path) {
        return report.add(&rule::FILE_PATH, field, format!("{} is not clean", quoted(path)));
    }
    if path.len() > PATH_MAX || path.split('/').any(|name| name.len() > NAME_MAX) {
        let message = format!("{} is too long: at most {PATH_MAX} bytes, and {NAME_MAX} each name in it", quoted(path));
        return report.help(&rule::FILE_PATH, field, message, "shorten it");
    }
    if path == FORCE_FILE {
        report.add(&rule::FILE_STATE, field, format!("{} asks the daemon to apply the config again", quoted(path)));
    } else if is_within(path, STATE_DIR) {
        report.add(
            &rule::FILE_STATE,
            field,
            format!("{} belongs to mcx, which keeps its state in {STATE_DIR}", quoted(path)),
        );
    } else if is_of_guard(path) {
        let message = format!("{} belongs to mcx, which undoes updates with {GUARD_UNIT}", quoted(path));
        report.add(&rule::FILE_STATE, field, message);
    } else if let Some(tree) = VOLATILE.iter().find(|tree| is_within(path, tree)) {
        report.add(
            &rule::FILE_VOLATILE,
            field,
            format!("{} would be gone after a boot, as all of {tree}", quoted(path)),
        );
    } else if path == "/" || !path[1..].contains('/') {
        report.add(&rule::FILE_ROOT, field, format!("{} lies directly in /, which is not writable", quoted(path)));
    }
}

/// Whether systemd reads it as the guard, as a drop-in of it, or as a link that enables or masks it.
fn is_of_guard(path: &str) -> bool {
    let mut names = path.split('/').skip_while(|name| *name != "systemd");
    names.any(|name| name.strip_suffix(".d").unwrap_or(name) == GUARD_UNIT)
}

fn permissions(mode: i128, field: Arguments, report: &mut Report) {
    let meant = mode::meant_in_octal(mode);
    let Some(bits) = u32::try_from(mode).ok().filter(|bits| *bits <= mode::ALL) else {
        let octal = if mode < 0 { String::new() } else { format!(" (0o{mode:o})") };
        let message = format!("found {mode}{octal}, expected 0 to 0o7777");
        match meant {
            Some(meant) => report.help(&rule::FILE_MODE, field, message, nearest::meant(&format!("0o{meant:o}"))),
            None => report.add(&rule::FILE_MODE, field, message),
        }
        return;
    };
    if let Some(meant) = meant {
        let message = format!("{mode} is decimal and means 0o{bits:o}");
        report.help(&rule::MODE_DECIMAL, field, message, format!("write 0o{meant:o} if that is meant"));
    } else if bits & 0o7000 != 0 {
        let names: Vec<&str> = [(0o4000, "setuid"), (0o2000, "setgid"), (0o1000, "sticky")]
            .into_iter()
            .filter_map(|(bit, name)| (bits & bit != 0).then_some(name))
            .collect();
        report.add(&rule::MODE_SPECIAL, field, format!("0o{bits:o} sets {}", names.join(", ")));
    }
}

fn owner(owner: OwnerLayer, field: Arguments, report: &mut Report) {
    if let Some(id) = owner.id {
        // The largest number means "leave as it is" to the kernel.
        if u32::try_from(id).is_err() || id == i128::from(u32::MAX) {
            report.add(&rule::FILE_OWNER, format_args!("{field}.id"), format!("{id} is no id of a user or group"));
        }
    }
    if let Some(name) = owner.name.filter(|n| !n.is_empty()) {
        let odd = |c: char| c.is_control() || c.is_whitespace() || c == ':' || c == '/';
        if name.contains(odd) {
            report.add(&rule::FILE_OWNER, format_args!("{field}.name"), format!("{} is no name", quoted(name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_cannot_be_replaced_by_a_file() {
        let refused = |path: &str| {
            let mut found = Vec::new();
            super::path(path, format_args!("path"), &mut Report { object: "", at: "", found: &mut found });
            found.iter().any(|finding| finding.rule == rule::FILE_STATE.id)
        };
        for path in [
            "/etc/systemd/system/mcx-guard.service",
            "/etc/systemd/system.control/mcx-guard.service",
            "/usr/lib/systemd/system/mcx-guard.service.d/10-no.conf",
            "/etc/systemd/system/sysinit.target.wants/mcx-guard.service",
        ] {
            assert!(refused(path), "{path}");
        }
        for path in
            ["/etc/mcx-guard.service", "/etc/systemd/system/mcx-guard.service.bak", "/etc/systemd/system/guard.service"]
        {
            assert!(!refused(path), "{path}");
        }
    }
}
