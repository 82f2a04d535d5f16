//! How units of a node are enabled: systemd's own words and links.
//!
//! Enabling and disabling is left to `systemctl`, one call a unit (L-15), with `--no-reload`: a reload in the middle of
//! a transaction would let half of it act; the actions reload when all is written. Giving back is done by links, since
//! only they say exactly what was there.

use super::compare::is_mask;
use super::host::{Error, Host, Kind, Meta, Root, is_absent, is_blocked, split};
use super::layout::{FIRST_UNIT_DIRS, Layout, RUNTIME_UNIT_DIR, UNIT_DIR, unit_path};
use super::originals::Enablement;
use crate::render::items::UnitItem;
use crate::render::systemd::install::{Install, is_template, template_of};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// `systemctl` waits 25 s for the service manager by itself; a busy machine gets some more.
const LIMIT: Duration = Duration::from_mins(1);
/// Where systemd looks for unit files, first wins.
const SEARCH: [&str; 7] = [
    UNIT_DIR,
    RUNTIME_UNIT_DIR,
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];
/// The word for a unit that systemd cannot read: whether it is enabled is not said.
pub(super) const BAD: &str = "bad";
/// A unit file is text of people; a larger one is none.
const UNIT_LIMIT: u64 = 4 << 20;
/// Siblings of siblings end somewhere, even when they name each other in a circle.
const SIBLING_LIMIT: usize = 64;

/// The words of `systemctl is-enabled`; `not-found` for units that do not exist.
pub(super) async fn words(host: &Host, units: &[&str]) -> Result<BTreeMap<String, String>, Error> {
    if units.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut words = BTreeMap::new();
    let mut ask = Vec::new();
    for unit in units {
        if is_readable(host.root(), unit)? {
            ask.push(*unit);
        } else {
            words.insert((*unit).to_owned(), BAD.to_owned());
        }
    }
    let mut todo = ask.as_slice();
    while !todo.is_empty() {
        let argv: Vec<&str> = ["is-enabled", "--"].into_iter().chain(todo.iter().copied()).collect();
        let output = host.systemctl(&argv, LIMIT).await?;
        // It stops at the first unit that it does not find: that one is asked for on its own, then the rest.
        let said = output.stdout.lines().take(todo.len()).count();
        let (known, rest) = todo.split_at(said);
        words.extend(
            known.iter().zip(output.stdout.lines()).map(|(unit, word)| ((*unit).to_owned(), word.trim().to_owned())),
        );
        todo = match rest.split_first() {
            Some((next, rest)) => {
                words.insert((*next).to_owned(), word(host, next).await?);
                rest
            }
            None => rest,
        };
    }
    Ok(words)
}

/// Whether `systemctl` can read what there is of a unit: it would wait for ever for a named pipe.
fn is_readable(root: &Root, unit: &str) -> Result<bool, Error> {
    let (name, kind) = unit.rsplit_once('.').unwrap_or((unit, ""));
    let names: Vec<String> = std::iter::once(unit.to_owned()).chain(template_of(unit)).collect();
    // A drop-in may be for all units of a kind, or of a prefix that ends with a dash.
    let prefixes = name.match_indices('-').map(|(at, _)| format!("{}.{kind}", &name[..=at]));
    let dropins: Vec<String> = names.iter().cloned().chain([kind.to_owned()]).chain(prefixes).collect();
    for dir in FIRST_UNIT_DIRS.iter().chain(&SEARCH) {
        let mut paths: Vec<String> = names.iter().map(|name| format!("{dir}/{name}")).collect();
        for dropin in dropins.iter().map(|name| format!("{dir}/{name}.d")) {
            let found = root.names(&dropin).map_err(Error::file("read", &dropin))?;
            paths.extend(found.iter().map(|name| format!("{dropin}/{}", name.to_string_lossy())));
        }
        for path in paths {
            let kind = root.seen(&path).map_err(Error::file("look at", &path))?.kind;
            if matches!(kind, Kind::Fifo | Kind::Socket | Kind::Device) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

async fn word(host: &Host, unit: &str) -> Result<String, Error> {
    if !is_readable(host.root(), unit)? {
        return Ok(BAD.to_owned());
    }
    let argv = ["is-enabled", "--", unit];
    let output = host.systemctl(&argv, LIMIT).await?;
    if let Some(word) = output.stdout.lines().next() {
        return Ok(word.trim().to_owned());
    }
    // The exit status is 1 for disabled, masked and missing alike. That systemd looked, and what it found, is only said
    // in words; anything else is a failure to look.
    if output.stderr.contains("unit file state") {
        for (said, word) in [
            ("No such file or directory", "not-found"),
            // No unit file at all, or a directory of that name.
            ("Bad message", BAD),
            ("Invalid argument", BAD),
            ("Is a directory", BAD),
        ] {
            if output.stderr.contains(said) {
                // A drop-in that leads nowhere is said like a unit that is not there.
                let is_there = word == "not-found" && body(host.root(), unit, &[])? != Body::Missing;
                return Ok(if is_there { BAD } else { word }.to_owned());
            }
        }
    }
    output.ok(&["systemctl", "is-enabled", unit]).map(|_| String::new())
}

/// Enables a unit that is not. One without `[Install]` is as enabled as it can be (L-16).
pub(super) async fn enable(host: &Host, unit: &str, ours: &(dyn Fn(&str) -> bool + Sync)) -> Result<(), Error> {
    let word = word(host, unit).await?;
    if matches!(word.as_str(), "static" | "alias" | "generated" | "transient") {
        return Ok(());
    }
    // One of its links is enough for the word: an enabling that was cut off has made some of them.
    if word == "enabled" && missing_link(host.root(), unit)?.is_none() {
        return Ok(());
    }
    remove_dangling(host.root(), ours)?;
    change(host, &["enable", "--no-reload", "--", unit]).await?;
    // `systemctl` calls it a success when some of the links could be made.
    match missing_link(host.root(), unit)? {
        None => Ok(()),
        Some(path) => Err(Error::Command {
            command: format!("systemctl enable {unit}"),
            detail: format!("the link {path} could not be made; see whether its folder can be written"),
        }),
    }
}

/// A link that enabling the unit makes and that is not there.
fn missing_link(root: &Root, unit: &str) -> Result<Option<String>, Error> {
    if is_template(unit) {
        return Ok(None);
    }
    let Body::Found(install) = body(root, unit, &[])? else { return Ok(None) };
    for link in install.links(unit) {
        let path = unit_path(&link);
        if root.seen(&path).map_err(Error::file("look at", &path))?.kind == Kind::Absent {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The link that a unit lacks which shall be enabled, and which systemd calls enabled since one link of any kind is enough
/// for that word. Of a unit that the config brings (`is`) all links are known. What a vendor's says may have changed with
/// its package: one link by which it is started will do, only an alias is too little.
pub(super) fn lacking(root: &Root, unit: &str, is: Option<&UnitItem>) -> Result<Option<String>, Error> {
    if is_template(unit) {
        return Ok(None);
    }
    let is_there = |path: &str| -> Result<bool, Error> {
        Ok(root.seen(path).map_err(Error::file("look at", path))?.kind != Kind::Absent)
    };
    if let Some(is) = is.filter(|is| is.contents.is_some()) {
        for link in Install::of_unit(is).links(unit) {
            let path = unit_path(&link);
            if !is_there(&path)? {
                return Ok(Some(path));
            }
        }
        return Ok(None);
    }
    let Body::Found(install) = body(root, unit, &[])? else { return Ok(None) };
    let starts: Vec<String> = install.links(unit).into_iter().filter(|link| link.contains('/')).collect();
    let Some(first) = starts.first() else { return Ok(None) };
    if has_links(root, unit)? {
        return Ok(None);
    }
    for path in starts.iter().flat_map(|link| SEARCH.map(|dir| format!("{dir}/{link}"))) {
        if is_there(&path)? {
            return Ok(None);
        }
    }
    Ok(Some(unit_path(first)))
}

/// Whether there is any link that starts a unit.
pub(super) fn has_links(root: &Root, unit: &str) -> Result<bool, Error> {
    let (present, _) = links(root, &BTreeSet::from([unit.to_owned()]))?;
    Ok(present.keys().any(|path| split(path).0 != UNIT_DIR))
}

/// Disables a unit that is enabled, for this boot too (L-17). `goes`: its file is about to go, and of a template the
/// links of all instances go with it; their word is not the template's (L-15).
pub(super) async fn disable(host: &Host, unit: &str, goes: bool) -> Result<(), Error> {
    let found = word(host, unit).await?;
    if found == BAD {
        // `systemctl` cannot read it, and might wait for ever.
        return remove_links(host.root(), unit);
    }
    if found.starts_with("masked") || is_linked(host.root(), unit)? {
        // Of a masked one `systemctl` would do nothing (L-11), and the links would count again once the mask goes. Of one
        // whose file is a link it would remove that, too (L-12), and with it the unit.
        remove_links(host.root(), unit)?;
        return disable_runtime(host, unit).await;
    }
    if found == "enabled" || (goes && is_template(unit) && found != "not-found") {
        change(host, &["disable", "--no-reload", "--", unit]).await?;
    } else if found != "enabled-runtime" {
        return Ok(());
    }
    disable_runtime(host, unit).await
}

async fn disable_runtime(host: &Host, unit: &str) -> Result<(), Error> {
    if word(host, unit).await? == "enabled-runtime" {
        change(host, &["disable", "--no-reload", "--runtime", "--", unit]).await?;
    }
    Ok(())
}

/// Whether a unit's file is a link of an administrator's to a file elsewhere; one to another name is an alias.
fn is_linked(root: &Root, unit: &str) -> Result<bool, Error> {
    let path = unit_path(unit);
    let seen = root.seen(&path).map_err(Error::file("look at", &path))?;
    let Kind::Link(target) = &seen.kind else { return Ok(false) };
    Ok(base(&String::from_utf8_lossy(target)) == unit)
}

/// Removes the links that enable a unit, and none of its siblings'.
pub(super) fn remove_links(root: &Root, unit: &str) -> Result<(), Error> {
    let (present, _) = links(root, &BTreeSet::from([unit.to_owned()]))?;
    for path in present.keys() {
        let place = root.place(path).map_err(Error::file("open", path))?;
        place.remove().map_err(Error::file("remove", path))?;
        let (dir, _) = split(path);
        if dir != UNIT_DIR {
            root.remove_empty_dir(dir).map_err(Error::file("remove", dir))?;
        }
    }
    Ok(())
}

/// Sets a unit to what its distribution wants; for one whose earlier enablement is unknown.
pub(super) async fn preset(host: &Host, unit: &str) -> Result<(), Error> {
    // To that of a link it would do what `disable` does.
    if word(host, unit).await? == "not-found" || is_linked(host.root(), unit)? {
        return Ok(());
    }
    change(host, &["preset", "--no-reload", "--", unit]).await
}

async fn change(host: &Host, args: &[&str]) -> Result<(), Error> {
    let command: Vec<&str> = std::iter::once("systemctl").chain(args.iter().copied()).collect();
    tracing::info!(command = command.join(" "), "change of enablement");
    host.systemctl(args, LIMIT).await?.ok(&command).map(|_| ())
}

/// A unit file as systemd finds it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    Missing,
    Masked,
    Found(Install),
}

/// What systemd would find under this name if it were not in the folders `without`.
pub(super) fn body(root: &Root, unit: &str, without: &[&str]) -> Result<Body, Error> {
    for name in std::iter::once(unit.to_owned()).chain(template_of(unit)) {
        for dir in SEARCH {
            if without.contains(&dir) && name == unit {
                continue;
            }
            let path = format!("{dir}/{name}");
            let seen = root.seen(&path).map_err(Error::file("look at", &path))?;
            let at = match &seen.kind {
                Kind::Absent | Kind::Dir | Kind::Fifo | Kind::Socket | Kind::Device => continue,
                _ if is_mask(&seen) => return Ok(Body::Masked),
                Kind::Link(target) => absolute(&String::from_utf8_lossy(target)),
                Kind::File => path,
            };
            let mut texts = vec![text(root, &at)?];
            let dropins = format!("{UNIT_DIR}/{unit}.d");
            for dropin in root.names(&dropins).map_err(Error::file("read", &dropins))? {
                let path = format!("{dropins}/{}", dropin.to_string_lossy());
                texts.push(text(root, &path)?);
            }
            return Ok(Body::Found(Install::of(texts.iter().map(String::as_str))));
        }
    }
    Ok(Body::Missing)
}

/// The text of a unit file or drop-in. A link to a link, or to nowhere, or something else than a file: there is a unit, and
/// nothing is known of it. A file that cannot be read is an error: what it says of siblings would be missed.
fn text(root: &Root, path: &str) -> Result<String, Error> {
    match root.read(path, UNIT_LIMIT) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Err(error) if is_absent(&error) || is_blocked(&error) || error.raw_os_error().is_none() => Ok(String::new()),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

/// The unit and all that `Also=` enables and disables with it: as their files are now, and as `next` will make them.
pub(super) fn with_siblings(root: &Root, unit: &str, next: &Layout) -> Result<BTreeSet<String>, Error> {
    let mut all = BTreeSet::from([unit.to_owned()]);
    let mut todo = vec![unit.to_owned()];
    while let Some(of) = todo.pop() {
        let now = match body(root, &of, &[])? {
            Body::Found(install) => install,
            Body::Missing | Body::Masked => Install::default(),
        };
        let then = next.units.get(&of).map(Install::of_unit).unwrap_or_default();
        for also in now.also().chain(then.also()).filter(|name| !name.contains(['/', '%'])) {
            if all.len() < SIBLING_LIMIT && all.insert(also.to_owned()) {
                todo.push(also.to_owned());
            }
        }
    }
    Ok(all)
}

/// The present links of these units and of all that goes with them, under either of two layouts.
pub(super) fn snapshot(root: &Root, of: &[String], old: &Layout, new: &Layout) -> Result<Enablement, Error> {
    let mut units = BTreeSet::new();
    for unit in of {
        units.extend(with_siblings(root, unit, old)?);
        units.extend(with_siblings(root, unit, new)?);
    }
    let (links, dirs) = links(root, &units)?;
    Ok(Enablement::new("", String::new(), links, units, dirs))
}

/// The enablement of a unit and its siblings before mcx: as it is now, or as an earlier record has it, since a sibling's
/// links may be ours by now.
pub(super) fn look(
    root: &Root,
    unit: &str,
    next: &Layout,
    word: String,
    earlier: &[Enablement],
) -> Result<Enablement, Error> {
    let units = with_siblings(root, unit, next)?;
    let (_, mut dirs) = links(root, &units)?;
    let links = links_before(root, &units, earlier)?;
    // A folder that others' links hold may be ours by now: it goes with its last link, as `systemctl` does it.
    let mut others = BTreeSet::new();
    for dir in &dirs {
        let holds_link = links.keys().any(|path| split(path).0 == dir);
        if !holds_link && !root.names(dir).map_err(Error::file("read", dir))?.is_empty() {
            others.insert(dir.clone());
        }
    }
    dirs.retain(|dir| !others.contains(dir));
    Ok(Enablement::new(unit, word, links, units, dirs))
}

/// Adds siblings that the record does not know yet; says whether there were any.
pub(super) fn add_siblings(
    root: &Root,
    unit: &str,
    record: &mut Enablement,
    next: &Layout,
    earlier: &[Enablement],
) -> Result<bool, Error> {
    let mut fresh = with_siblings(root, unit, next)?;
    fresh.retain(|unit| !record.units.contains(unit));
    record.links.extend(links_before(root, &fresh, earlier)?);
    let is_changed = !fresh.is_empty();
    record.units.extend(fresh);
    Ok(is_changed)
}

fn links_before(
    root: &Root,
    units: &BTreeSet<String>,
    earlier: &[Enablement],
) -> Result<BTreeMap<String, String>, Error> {
    let (mut before, _) = links(root, units)?;
    for unit in units {
        let Some(record) = earlier.iter().find(|record| record.units.contains(unit)) else { continue };
        let is_of = |path: &str, target: &str| base(path) == unit || base(target) == unit;
        before.retain(|path, target| !is_of(path, target));
        let recorded = record.links.iter().filter(|(path, target)| is_of(path, target));
        before.extend(recorded.map(|(path, target)| (path.clone(), target.clone())));
    }
    Ok(before)
}

/// Makes the links of a record, and no others, the links of its units; those of units that `managed` names are left.
pub(super) fn give_back(root: &Root, record: &Enablement, managed: &dyn Fn(&str) -> bool) -> Result<(), Error> {
    let (present, dirs) = links(root, &record.units)?;
    let is_left = |path: &str, target: &str| managed(base(path)) || managed(base(target));
    for (path, target) in &present {
        if record.links.get(path) != Some(target) && !is_left(path, target) {
            let place = root.place(path).map_err(Error::file("open", path))?;
            place.remove().map_err(Error::file("remove", path))?;
        }
    }
    for (path, target) in &record.links {
        if present.get(path) == Some(target) || is_left(path, target) {
            continue;
        }
        let dir = path.rsplit_once('/').map_or(UNIT_DIR, |(dir, _)| dir);
        make_dir(root, dir)?;
        let place = root.place(path).map_err(Error::file("open", path))?;
        // Something else of that name is not ours to remove.
        if place.seen().map_err(Error::file("look at", path))?.kind == Kind::Absent {
            place.link(target).map_err(Error::file("link", path))?;
        }
    }
    for dir in dirs.difference(&record.dirs) {
        root.remove_empty_dir(dir).map_err(Error::file("remove", dir))?;
    }
    // `systemctl` removes a folder with its last link.
    for dir in &record.dirs {
        make_dir(root, dir)?;
    }
    Ok(())
}

/// The folders that hold such links, to be flushed: `systemctl` does not.
pub(super) fn folders(root: &Root) -> Result<BTreeSet<String>, Error> {
    let mut dirs = link_dirs(root)?;
    dirs.insert(UNIT_DIR.to_owned());
    Ok(dirs)
}

fn make_dir(root: &Root, path: &str) -> Result<(), Error> {
    root.make_dir(path, Meta { mode: 0o755, uid: 0, gid: 0 }).map_err(Error::file("make", path))
}

/// A link of a unit of ours that leads nowhere blocks the enabling of another with the same alias (L-10, R-152).
fn remove_dangling(root: &Root, ours: &dyn Fn(&str) -> bool) -> Result<(), Error> {
    for name in root.names(UNIT_DIR).map_err(Error::file("read", UNIT_DIR))? {
        let path = format!("{UNIT_DIR}/{}", name.to_string_lossy());
        let seen = root.seen(&path).map_err(Error::file("look at", &path))?;
        let Kind::Link(target) = &seen.kind else { continue };
        let target = String::from_utf8_lossy(target);
        let at = absolute(&target);
        let leads = at.contains("..")
            || match root.seen(&at) {
                Ok(seen) => seen.kind != Kind::Absent,
                Err(error) if is_blocked(&error) => false,
                Err(error) => return Err(Error::file("look at", &at)(error)),
            };
        if is_mask(&seen) || leads || !ours(base(&target)) {
            continue;
        }
        tracing::info!(path, "removing a dangling link of a unit that is gone");
        let place = root.place(&path).map_err(Error::file("open", &path))?;
        place.remove().map_err(Error::file("remove", &path))?;
    }
    Ok(())
}

/// Links that enable these units, and the folders that can hold such.
fn links(root: &Root, units: &BTreeSet<String>) -> Result<(BTreeMap<String, String>, BTreeSet<String>), Error> {
    let dirs = link_dirs(root)?;
    let mut links = BTreeMap::new();
    for dir in dirs.iter().map(String::as_str).chain([UNIT_DIR]) {
        for name in root.names(dir).map_err(Error::file("read", dir))? {
            let Some(name) = name.to_str() else { continue };
            let path = format!("{dir}/{name}");
            let seen = root.seen(&path).map_err(Error::file("look at", &path))?;
            let Kind::Link(target) = &seen.kind else { continue };
            let target = String::from_utf8_lossy(target).into_owned();
            // In the unit folder itself the unit's own name is its file or mask, which is a managed path of its own.
            let is_own = dir != UNIT_DIR && units.contains(name);
            if is_own || (units.contains(base(&target)) && name != base(&target)) {
                links.insert(path, target);
            }
        }
    }
    Ok((links, dirs))
}

fn link_dirs(root: &Root) -> Result<BTreeSet<String>, Error> {
    let mut dirs = BTreeSet::new();
    for name in root.names(UNIT_DIR).map_err(Error::file("read", UNIT_DIR))? {
        let Some(name) = name.to_str() else { continue };
        let path = format!("{UNIT_DIR}/{name}");
        if [".wants", ".requires", ".upholds"].iter().any(|end| name.ends_with(end))
            && root.seen(&path).map_err(Error::file("look at", &path))?.kind == Kind::Dir
        {
            dirs.insert(path);
        }
    }
    Ok(dirs)
}

/// A link's target as a path of the root, for a link in the unit folder.
fn absolute(target: &str) -> String {
    if target.starts_with('/') { target.to_owned() } else { format!("{UNIT_DIR}/{target}") }
}

fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
