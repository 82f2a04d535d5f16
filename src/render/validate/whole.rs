//! What only shows when items are looked at together: in one source, and again in all of a pool merged.

use super::{Decoder, Report, below, files, quoted};
use crate::api::SSH_USER;
use crate::render::finding::Finding;
use crate::render::items::Content;
use crate::render::layer::Contents;
use crate::render::merge::{Field, Merged, MergedUnit, Place};
use crate::render::rule::{self, Rule};
use crate::render::systemd::install::{Install, is_template, template_of};
use std::collections::BTreeMap;

/// Where the keys of `boot` go. The node takes the home from its own passwd file; this is where the guide has it.
const SSH_KEYS_FILE: &str = "/home/boot/.ssh/authorized_keys";

/// Where unit files go.
const UNITS: &str = "/etc/systemd/system";

/// A path that a unit or the keys write.
struct Written {
    what: String,
    place: Place,
    field: String,
    keys: bool,
}

/// Checks a merged config. Contents were checked with their source; the final config is looked at once more, since a later
/// source's `compression` may have come over an earlier one's. What is odd but allowed is only said of the final one.
pub(in crate::render) fn whole<'a>(
    merged: &Merged<'a>,
    last: bool,
    decoder: &mut Decoder<'a>,
    found: &mut Vec<Finding>,
) {
    paths(merged, found);
    owners(merged, found);
    for (name, unit) in &merged.units {
        self::unit(name, unit, merged, last, found);
    }
    if last {
        contents(merged, decoder, found);
    }
}

/// Puts a finding where the item was written.
fn add(merged: &Merged, place: Place, field: &str, rule: &'static Rule, message: String, found: &mut Vec<Finding>) {
    let source = &merged.sources[place.source];
    found.push(rule.finding(&source.object, below(source.at, field), message));
}

/// ` (set by MachineConfig/10-x)`, when that is another source than the finding's own.
fn by_other(merged: &Merged, place: Place, other: Place) -> String {
    if place.source == other.source {
        return String::new();
    }
    format!(" of {}", merged.sources[other.source].object)
}

/// No path is written twice, and none lies below another.
fn paths(merged: &Merged, found: &mut Vec<Finding>) {
    let written = written(merged);
    let file_field = |place: Place| format!("storage.files[{}].path", place.index);
    // The nearest file above a path, with the item that writes it.
    let above = |path: &str| -> Option<(String, Place)> {
        let folders = path.rmatch_indices('/').map(|(at, _)| &path[..at]);
        // A file whose path is missing is nobody's parent.
        folders.filter(|dir| !dir.is_empty()).find_map(|dir| {
            let place = merged.files.get(dir).map(|f| f.last).or_else(|| written.get(dir).map(|w| w.place));
            place.map(|place| (dir.to_owned(), place))
        })
    };
    let below = |path: &str, place: Place, field: &dyn Fn() -> String, found: &mut Vec<Finding>| {
        if let Some((parent, other)) = above(path) {
            let by = by_other(merged, place, other);
            let message = format!("{} lies below {}, which is a file{by}", quoted(path), quoted(&parent));
            add(merged, place, &field(), &rule::FILE_PARENT, message, found);
        }
    };
    let nested = any_nested(merged.files.keys().copied().chain(written.keys().map(String::as_str)).collect());
    for (path, file) in &merged.files {
        if let Some(other) = written.get(*path) {
            let rule = if other.keys { &rule::KEYS_FILE } else { &rule::UNIT_FILE };
            let by = by_other(merged, file.last, other.place);
            let message = format!("{} is written by the {}{by}, too", quoted(path), other.what);
            add(merged, file.last, &file_field(file.last), rule, message, found);
        }
        if nested {
            below(path, file.last, &|| file_field(file.last), found);
        }
    }
    for (path, item) in written.iter().filter(|_| nested) {
        below(path, item.place, &|| item.field.clone(), found);
    }
}

/// Whether one of these lies below another. Seen in one pass, since all that begins with a path follows it in their order.
#[expect(clippy::stable_sort_primitive, reason = "two lists that are in order are merged in one pass")]
fn any_nested(mut paths: Vec<&str>) -> bool {
    paths.sort();
    let mut before: Vec<&str> = Vec::new();
    for path in paths.into_iter().filter(|path| !path.is_empty()) {
        while before.last().is_some_and(|begin| !path.starts_with(begin)) {
            before.pop();
        }
        if before.iter().any(|begin| path[begin.len()..].starts_with('/')) {
            return true;
        }
        before.push(path);
    }
    false
}

/// Paths that are written for units and keys.
fn written(merged: &Merged) -> BTreeMap<String, Written> {
    let mut written = BTreeMap::new();
    for (name, unit) in &merged.units {
        let new = |what: String| Written {
            what,
            place: unit.last,
            field: format!("systemd.units[{}].name", unit.last.index),
            keys: false,
        };
        if unit.body().is_some() || unit.mask.value() == Some(true) {
            written.insert(format!("{UNITS}/{name}"), new(format!("unit {name}")));
        }
        for (dropin, _) in unit.dropin_bodies() {
            written.insert(format!("{UNITS}/{name}.d/{dropin}"), new(format!("drop-in {name}/{dropin}")));
        }
    }
    if let Some(place) = merged.keys.values().flatten().next() {
        let what = format!("keys of {SSH_USER}");
        let field = format!("passwd.users[{}]", place.index);
        written.insert(SSH_KEYS_FILE.to_owned(), Written { what, place: *place, field, keys: true });
    }
    written
}

fn owners(merged: &Merged, found: &mut Vec<Finding>) {
    let files = merged.files.iter().filter_map(|(path, file)| Some((path, file.owners.as_ref()?)));
    for (path, owners) in files {
        let both = [("user", &owners.user_id, &owners.user_name), ("group", &owners.group_id, &owners.group_name)];
        for (what, id, name) in both {
            let (Some((_, a)), Some((name, b))) = (id.now, name.now) else { continue };
            if name.is_empty() {
                continue;
            }
            let (last, first) = if b >= a { (b, a) } else { (a, b) };
            let by = by_other(merged, last, first);
            let part = if b >= a { "id" } else { "name" };
            let message = format!("{} would have a {what} id and a {what} name; the {part} is set{by}", quoted(path));
            add(merged, last, &format!("storage.files[{}].{what}", last.index), &rule::FILE_OWNER, message, found);
        }
    }
}

fn unit(name: &str, unit: &MergedUnit, merged: &Merged, last: bool, found: &mut Vec<Finding>) {
    let Some((true, enabled)) = unit.enabled.now else { return };
    let field = format!("systemd.units[{}].enabled", enabled.index);
    if let Some((true, mask)) = unit.mask.now {
        let by = by_other(merged, enabled, mask);
        let message = format!("{} is to be enabled, and masked{by}", quoted(name));
        return add(merged, enabled, &field, &rule::UNIT_MASKED, message, found);
    }
    // Without a body the unit is the vendor's, and only the node can tell.
    let template = template_of(name).and_then(|template| merged.units.get(template.as_str()));
    let Some(body) = unit.body().or_else(|| template?.body()) else { return };
    // A drop-in may bring what the body lacks; an instance reads those of its template, too.
    let dropins = template.into_iter().chain([unit]).flat_map(MergedUnit::dropin_bodies);
    let install = Install::of(std::iter::once(body).chain(dropins.map(|(_, text)| text)));
    if is_template(name) && !install.has_default_instance() {
        //
        let message = format!("{} is a template without DefaultInstance", quoted(name));
        add(merged, enabled, &field, &rule::UNIT_TEMPLATE, message, found);
    } else if last && !install.has_effect() {
        // L-16: systemctl says so at length, and succeeds. A later source may still bring it, so of the whole only.
        let lacks = if install.is_empty() { "no [Install] section" } else { "nothing in [Install] that makes a link" };
        let message = format!("{} is to be enabled and has {lacks}: nothing would start it", quoted(name));
        add(merged, enabled, &field, &rule::UNIT_INSTALL, message, found);
    }
}

fn contents<'a>(merged: &Merged<'a>, decoder: &mut Decoder<'a>, found: &mut Vec<Finding>) {
    let mut total: u64 = 0;
    for (path, file) in &merged.files {
        let place = file.contents.now.map_or(file.last, |(_, place)| place);
        let source = &merged.sources[place.source];
        let now: Contents = file.contents.value().unwrap_or_default();
        if now.source.is_none() {
            let field = format!("storage.files[{}]", place.index);
            add(merged, place, &field, &rule::FILE_EMPTY, format!("{} has no contents", quoted(path)), found);
            continue;
        }
        let size = match decoder.decode(now) {
            // Refused with the source that gives it, whatever a later one lays over it.
            Err(_) if now.source.is_some_and(|url| !url.starts_with("data:")) => 0,
            // Only a later source's `compression` can still break what its source had checked.
            Err(_) => {
                let mut report = Report { object: &source.object, at: source.at, found };
                let field = format_args!("storage.files[{}].contents", place.index);
                super::contents::check(now, field, decoder, &mut report)
            }
            Ok(read) => {
                let readable = file.mode.value().unwrap_or(0o644) & 0o004 != 0;
                let secret = read.secret.filter(|_| readable);
                let size = read.content.size();
                if let Some(secret) = secret {
                    let message = format!("{} holds {secret} and is readable by everybody", quoted(path));
                    let place = file.mode.now.map_or(place, |(_, place)| place);
                    let field = format!("storage.files[{}].mode", place.index);
                    add(merged, place, &field, &rule::SECRET_READABLE, message, found);
                }
                size
            }
        };
        total = total.saturating_add(size);
        if total > Content::CONFIG_LIMIT {
            let mut report = Report { object: &source.object, at: source.at, found };
            files::too_large(format_args!("storage.files[{}]", place.index), &mut report);
            return;
        }
    }
}

impl<T: Copy> Field<T> {
    fn value(&self) -> Option<T> {
        self.now.map(|(value, _)| value)
    }
}
