//! A node's disk from outside: what of it is compared with the model's, and how a hand changes it.

use crate::model::{ANY, Model, is_link_dir};
use crate::node_root::{Entry, Tree, assert_same};
use nix::sys::stat::Mode;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

pub(crate) const FORCE: &str = "/run/machine-config-daemon-force";
const VENDOR: &str = "/usr/lib/systemd/system";

/// Where a path of the node is for this test.
pub(crate) type At<'a> = &'a dyn Fn(&str) -> PathBuf;

/// Brings the disk from one tree to another; the paths that this changes.
pub(crate) fn change(from: &Tree, to: &Tree, at: At<'_>) -> BTreeSet<String> {
    let paths: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let changed: BTreeSet<String> = paths.into_iter().filter(|p| from.get(*p) != to.get(*p)).cloned().collect();
    for path in &changed {
        put(path, to.get(path), at);
    }
    changed
}

fn put(path: &str, entry: Option<&Entry>, place: At<'_>) {
    let at = place(path);
    let is_dir = |at: &Path| fs::symlink_metadata(at).is_ok_and(|meta| meta.is_dir());
    let Some((kind, mode, uid, gid, bytes)) = entry else {
        return if is_dir(&at) { fs::remove_dir(&at).unwrap() } else { fs::remove_file(&at).unwrap() };
    };
    // The model does not know of every folder of links.
    if *kind == 'd' && is_dir(&at) {
        lchown(&at, Some(*uid), Some(*gid)).unwrap();
        return fs::set_permissions(&at, fs::Permissions::from_mode(*mode)).unwrap();
    }
    let fresh = at.with_file_name(".by-hand");
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    match kind {
        'f' => fs::write(&fresh, bytes).unwrap(),
        'd' => fs::create_dir(&fresh).unwrap(),
        'o' => nix::unistd::mkfifo(&fresh, Mode::from_bits_truncate(*mode)).unwrap(),
        _ => symlink(target(path, bytes, place), &fresh).unwrap(),
    }
    lchown(&fresh, Some(*uid), Some(*gid)).unwrap();
    if *kind != 'l' {
        fs::set_permissions(&fresh, fs::Permissions::from_mode(*mode)).unwrap();
    }
    match fs::symlink_metadata(&at) {
        Ok(meta) if meta.is_dir() => fs::remove_dir(&at).unwrap(),
        Ok(_) if *kind == 'd' => fs::remove_file(&at).unwrap(),
        _ => {}
    }
    fs::rename(&fresh, &at).unwrap();
}

/// A link of which only the name counts leads to the unit's file.
fn target(path: &str, bytes: &[u8], at: At<'_>) -> PathBuf {
    if bytes != ANY {
        return PathBuf::from(std::str::from_utf8(bytes).unwrap());
    }
    let name = path.rsplit_once('/').unwrap().1;
    let name = if name == "ntp.service" { "chronyd.service" } else { name };
    let own = format!("/etc/systemd/system/{name}");
    let is_own = fs::symlink_metadata(at(&own)).is_ok();
    if is_own { own.into() } else { format!("{VENDOR}/{}", name.replace("@a.", "@.")).into() }
}

/// What lies there is what the model has.
pub(crate) fn assert_as(model: &Model, found: &Tree) {
    assert_same(&shape(found, &model.disk), &shape(&model.disk, &model.disk), "disk");
}

/// What of a tree is compared: folders of links come and go with them, and of some links only the name counts.
fn shape(tree: &Tree, model: &Tree) -> Tree {
    let is_other = |path: &str| path.starts_with("/proc") || path == FORCE;
    let kept = tree.iter().filter(|(path, entry)| !(is_other(path) || (entry.0 == 'd' && is_link_dir(path))));
    kept.map(|(path, entry)| {
        let any = entry.0 == 'l' && model.get(path).is_some_and(|other| other.4 == ANY);
        let entry = if any { ('l', 0o777, 0, 0, ANY.to_vec()) } else { entry.clone() };
        (path.clone(), entry)
    })
    .collect()
}

/// A record of what stood at a path.
fn original(dir: &Path, record: &Value) -> Option<Entry> {
    let number = |key: &str| u32::try_from(record[key].as_u64().unwrap_or_default()).unwrap();
    let (mode, uid, gid) = (number("mode"), number("uid"), number("gid"));
    match record["was"].as_str().unwrap() {
        "nothing" => None,
        "file" => Some(('f', mode, uid, gid, fs::read(dir.join(record["blob"].as_str().unwrap())).unwrap())),
        "link" => {
            let hex = record["target"].as_str().unwrap();
            let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
            Some(('l', 0o777, uid, gid, bytes.collect()))
        }
        "fifo" => Some(('o', mode, uid, gid, vec![])),
        "dir" => Some(('d', mode, uid, gid, vec![])),
        other => panic!("an original that was {other}"),
    }
}

/// The records in the folder `originals` are of what the model knows of. `has_more`: a daemon that was killed when its
/// journal was gone has left records that the next update drops.
pub(crate) fn assert_originals(model: &Model, dir: &Path, has_more: bool) {
    let (mut paths, mut units) = (BTreeMap::new(), BTreeMap::new());
    for entry in fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with("p-") && !name.starts_with("u-") {
            continue;
        }
        let text = fs::read_to_string(dir.join(&name)).unwrap();
        let record: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        if name.starts_with("p-") {
            paths.insert(record["path"].as_str().unwrap().to_owned(), original(dir, &record));
        } else {
            let links: BTreeSet<String> = record["links"].as_object().unwrap().keys().cloned().collect();
            units.insert(record["unit"].as_str().unwrap().to_owned(), links);
        }
    }
    if has_more {
        paths.retain(|path, _| model.before.contains_key(path));
        units.retain(|unit, _| model.links_before.contains_key(unit));
    }
    assert_eq!(paths, model.before, "originals of paths");
    let expected: BTreeMap<String, BTreeSet<String>> =
        model.links_before.iter().map(|(unit, (links, _))| (unit.clone(), links.keys().cloned().collect())).collect();
    assert_eq!(units, expected, "originals of enablement");
}
