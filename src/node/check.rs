//! Whether an update can be carried out: found before anything is touched, so that the node stays as it is and a
//! withdrawn config heals it.

use super::compare::{self, Deviation, is_as_wanted};
use super::host::{Accounts, Error, Host, Kind, Mounts, Root, is_absent, is_blocked, real_path, split};
use super::layout::{Layout, RUNTIME_UNIT_DIR, Sort, UNIT_DIR, Want, unit_path};
use super::originals::{Originals, Was};
use super::transaction::{ancestors, blocking};
use super::units::{self, Body};
use crate::render::systemd::install::{Install, is_template, template_of};
use nix::sys::stat::fstat;
use nix::sys::statvfs::{FsFlags, fstatvfs};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What [`super::disk::Disk::check`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Drift: the disk is neither old nor new.
    pub drift: Vec<Deviation>,
    /// What makes the update impossible now: one line each, with path and what to do. It may pass by itself
    /// (a user that is created, space that is freed).
    pub obstacles: Vec<String>,
    /// What will not have the effect that is hoped for, though the update can be carried out: one line each.
    pub warnings: Vec<String>,
}

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
    /// A node.
    Node {
        /// By the force file: the disk is not compared first.
        forced: bool,
    },
    /// A folder that is no node yet: what it is mounted on here says nothing about what that node will keep.
    Folder,
}

/// Metadata of a new file, roughly: one block.
const PER_FILE: u64 = 4 << 10;

pub(super) async fn check(
    host: &Arc<Host>,
    from: Layout,
    to: Layout,
    accounts: Accounts,
    site: Site,
) -> Result<Check, Error> {
    let forced = site == Site::Node { forced: true };
    let units: BTreeSet<&str> = from.enablement.keys().chain(to.enablement.keys()).map(String::as_str).collect();
    let units: Vec<&str> = units.into_iter().collect();
    let words = units::words(host, &units).await?;
    let host = Arc::clone(host);
    blocking(move || {
        let mut checker = Checker { root: host.root(), from: &from, to: &to, forced, site, found: Check::default() };
        if !forced {
            checker.drift(&accounts, &words)?;
        }
        checker.obstacles()?;
        checker.units(&words)?;
        checker.key_warnings()?;
        let mut found = checker.found;
        found.drift.sort();
        found.obstacles.sort();
        found.obstacles.dedup();
        Ok(found)
    })
    .await
}

struct Checker<'a> {
    root: &'a Root,
    from: &'a Layout,
    to: &'a Layout,
    forced: bool,
    site: Site,
    found: Check,
}

/// What a file system has to take.
#[derive(Default)]
struct Need {
    bytes: u64,
    files: u64,
    /// One of the paths, for the message.
    path: String,
}

impl Checker<'_> {
    /// Each item of the present config must be as it or the next one says; what the next one leaves may also be as it
    /// was before mcx.
    fn drift(&mut self, accounts: &Accounts, words: &BTreeMap<String, String>) -> Result<(), Error> {
        let originals = Originals::of(self.root);
        let mut suspects = Layout { units: self.from.units.clone(), ..Layout::default() };
        for (path, managed) in &self.from.places {
            let is_new = match self.to.places.get(path) {
                Some(next) => is_there(self.root, path, &next.want)?,
                None => match originals.get(path)? {
                    Some(original) => original.stands(self.root).unwrap_or(false),
                    None => self.root.seen(path).is_ok_and(|seen| seen.kind == Kind::Absent),
                },
            };
            if !is_new || compare::rival(self.root, self.from, path)?.is_some() {
                suspects.places.insert(path.clone(), managed.clone());
            }
        }
        self.found.drift.extend(compare::places(self.root, &suspects, accounts)?);
        let is_then = |then: &[Deviation], unit: &str| !then.iter().any(|deviation| deviation.item == unit);
        let then = compare::enablements(self.root, self.to, words)?;
        for deviation in compare::enablements(self.root, self.from, words)? {
            let unit = deviation.item.as_str();
            let word = words.get(unit).map(String::as_str).unwrap_or_default();
            let is_new = if self.to.enablement.contains_key(unit) {
                is_then(&then, unit)
            } else {
                originals.enablement(unit)?.is_some_and(|record| record.word == word)
            };
            if !is_new {
                self.found.drift.push(deviation);
            }
        }
        Ok(())
    }

    fn obstacle(&mut self, text: String) {
        self.found.obstacles.push(text);
    }

    fn obstacles(&mut self) -> Result<(), Error> {
        let unplaced: Vec<String> = self.to.unplaced.iter().map(ToString::to_string).collect();
        self.found.obstacles.extend(unplaced);
        let mounts = Mounts::read().map_err(Error::file("read", "/proc/self/mountinfo"))?;
        let mut needs: BTreeMap<u64, (OwnedFd, Need)> = BTreeMap::new();
        let (from, to) = (self.from, self.to);
        let written = to.places.iter().filter(|(path, _)| {
            from.places.get(*path).map(|old| &old.want) != to.places.get(*path).map(|new| &new.want) || self.forced
        });
        let written: Vec<_> = written.collect();
        let mut kept = 0;
        for (path, managed) in written {
            if (self.forced || !from.places.contains_key(path))
                && let Some(what) = compare::rival(self.root, to, path)?
            {
                self.obstacle(format!("{} {what}; move it away", managed.item));
            }
            if is_there(self.root, path, &managed.want)? || managed.want == Want::NoMask {
                continue;
            }
            let Some(dir) = self.path(path, &mounts)? else { continue };
            kept += self.root.seen(path).map_or(0, |seen| seen.size);
            let device =
                fstat(&dir).map_err(|errno| Error::file("look at the directory of", path)(errno.into()))?.st_dev;
            let (_, need) =
                needs.entry(device).or_insert_with(|| (dir, Need { path: path.clone(), ..Need::default() }));
            need.files += 1;
            need.bytes += PER_FILE + if let Want::File(file) = &managed.want { file.bytes.size() } else { 0 };
        }
        for path in from.places.keys().filter(|path| !to.places.contains_key(*path)) {
            self.path(path, &mounts)?;
        }
        self.space(needs, kept)
    }

    /// What is in the way of writing at `path`; the directory that will take it, or the nearest above.
    fn path(&mut self, path: &str, mounts: &Mounts) -> Result<Option<OwnedFd>, Error> {
        let parent = split(path).0;
        let (dir, nearest) = match self.root.nearest_dir(parent) {
            Ok(found) => found,
            Err(error) if is_blocked(&error) => {
                self.obstacle(format!(
                    "{path} is behind a symlink in a folder that is not root's alone; mcx does not follow it: replace it by a folder"
                ));
                return Ok(None);
            }
            Err(error) => return Err(Error::file("open the directory of", path)(error)),
        };
        if nearest == parent {
            self.target(path)?;
        } else {
            // The next component on the way: absent, or no directory.
            let next = ancestors(path).into_iter().find(|dir| dir.len() > nearest.len()).unwrap_or(parent);
            let kind = self.root.seen(next).map_err(Error::file("look at", next))?.kind;
            let what = match kind {
                Kind::Absent => None,
                Kind::Link(_) => Some("a symlink that leads to no directory"),
                _ => Some("not a directory"),
            };
            if let Some(what) = what {
                let so = if self.from.places.contains_key(next) {
                    "withdraw it by a config of its own first"
                } else {
                    "move it away"
                };
                self.obstacle(format!("{path} cannot be made: {next} is {what}; {so}"));
                return Ok(None);
            }
        }
        self.mount(path, &dir, nearest == parent, mounts)?;
        Ok(Some(dir))
    }

    fn target(&mut self, path: &str) -> Result<(), Error> {
        let kind = self.root.seen(path).map_err(Error::file("look at", path))?.kind;
        let what = match kind {
            Kind::Dir => {
                let is_empty = !self.root.has_names(path).map_err(Error::file("read", path))?;
                if self.forced && is_empty {
                    return Ok(());
                }
                if is_empty { "an empty directory" } else { "a directory that is not empty" }
            }
            Kind::Socket => "a socket",
            Kind::Device => "a device",
            Kind::Absent | Kind::File | Kind::Link(_) | Kind::Fifo => return Ok(()),
        };
        // What the present config manages is drift, named as such.
        if self.forced || !self.from.places.contains_key(path) {
            self.obstacle(format!("{path} is {what}, where a file belongs; move it away"));
        }
        Ok(())
    }

    fn mount(&mut self, path: &str, dir: &OwnedFd, is_parent: bool, mounts: &Mounts) -> Result<(), Error> {
        let real = real_path(dir).map_err(Error::file("find the mount of", path))?;
        let stat = fstatvfs(dir).map_err(|errno| Error::file("look at the file system of", path)(errno.into()))?;
        let mount = mounts.of(&real);
        let name = mount.map_or(real.as_str(), |mount| mount.point.as_str());
        if stat.flags().contains(FsFlags::ST_RDONLY) {
            self.obstacle(format!("{path} cannot be written: the mount {name} is read-only; remount it writable"));
        }
        if let Some(mount) = mount.filter(|mount| mount.is_volatile() && self.site != Site::Folder) {
            self.obstacle(format!(
                "{path} would be gone at the next boot: the mount {name} is {}; choose a path on a lasting file system",
                mount.fstype
            ));
        }
        let target = format!("{}/{}", real.trim_end_matches('/'), split(path).1);
        if is_parent && mounts.is_point(&target) {
            self.obstacle(format!("{path} cannot be replaced: something is mounted on it; unmount {target}"));
        }
        Ok(())
    }

    /// All new files are staged beside the old ones, so all of them need space at once. `kept`: bytes of originals.
    fn space(&mut self, needs: BTreeMap<u64, (OwnedFd, Need)>, kept: u64) -> Result<(), Error> {
        let mut needs = needs;
        let state = super::disk::STATE_DIR;
        let dir = match self.root.dir(state) {
            Ok(dir) => Some(dir),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(Error::file("open", state)(error)),
        };
        if let Some(dir) = dir {
            let device = fstat(&dir).map_err(|errno| Error::file("look at", state)(errno.into()))?.st_dev;
            let (_, need) =
                needs.entry(device).or_insert_with(|| (dir, Need { path: state.into(), ..Need::default() }));
            // Journal, previous and current hold the configs once or twice each, base64 at worst.
            let config: u64 = self
                .to
                .places
                .values()
                .filter_map(|managed| match &managed.want {
                    Want::File(file) => Some(file.bytes.size()),
                    Want::Mask | Want::NoMask => None,
                })
                .sum();
            need.bytes += kept + config.min(2 << 20) * 4 + 16 * PER_FILE;
            need.files += 16;
        }
        for (dir, need) in needs.values() {
            let stat =
                fstatvfs(dir).map_err(|errno| Error::file("look at the file system of", &need.path)(errno.into()))?;
            let free = stat.blocks_available().saturating_mul(stat.fragment_size());
            if free < need.bytes {
                self.obstacle(format!(
                    "no space for {} and others: {} KiB are needed on its file system, {} KiB are free",
                    need.path,
                    need.bytes.div_ceil(1024),
                    free / 1024
                ));
            }
            // Some file systems count no inodes.
            if stat.files() > 0 && stat.files_available() < need.files {
                self.obstacle(format!(
                    "no inodes for {} and others: {} are needed on its file system, {} are free",
                    need.path,
                    need.files,
                    stat.files_available()
                ));
            }
        }
        Ok(())
    }

    /// A unit that shall be enabled must be there, must not be masked, and must be one that can be.
    fn units(&mut self, words: &BTreeMap<String, String>) -> Result<(), Error> {
        let (from, to) = (self.from, self.to);
        for (unit, _) in to.enablement.iter().filter(|(_, enabled)| **enabled) {
            // By the force file it is enabled anew.
            let is_same = !self.forced
                && from.enablement.get(unit) == Some(&true)
                && from.units.get(unit) == to.units.get(unit)
                && words.get(unit).map(String::as_str) != Some("not-found");
            if is_same {
                continue;
            }
            let text = match self.unit_after(unit)? {
                Body::Missing => {
                    format!("{unit} cannot be enabled: it does not exist on this node; install it, or give it contents")
                }
                Body::Masked => {
                    format!("{unit} cannot be enabled: it is masked on this node; unmask it, or set `mask: false`")
                }
                Body::Found(install) if is_template(unit) && !install.has_default_instance() && !install.is_empty() => {
                    format!(
                        "{unit} cannot be enabled: it is a template without DefaultInstance; enable its instances by name"
                    )
                }
                Body::Found(_) => continue,
            };
            self.obstacle(text);
        }
        Ok(())
    }

    /// The unit's file as it will be after the update.
    fn unit_after(&self, unit: &str) -> Result<Body, Error> {
        for name in std::iter::once(unit.to_owned()).chain(template_of(unit)) {
            if let Some(unit) = self.to.units.get(&name).filter(|unit| unit.contents.is_some()) {
                return Ok(Body::Found(Install::of_unit(unit)));
            }
            let is_file = |path: &&String| path.contains("/systemd/system/") && split(path).1 == name;
            if self.to.places.iter().any(|(path, managed)| managed.sort == Sort::File && is_file(&path)) {
                return Ok(Body::Found(Install::default()));
            }
        }
        let path = unit_path(unit);
        let seen = self.root.seen(&path).map_err(Error::file("look at", &path))?;
        let unmasks = self.to.units.get(unit).is_some_and(|unit| unit.mask == Some(false));
        let left = self.from.places.get(&path).filter(|_| !self.to.places.contains_key(&path));
        let original = Originals::of(self.root).get(&path)?.filter(|original| original.was != Was::Nothing);
        let is_ours = self.from.places.get(&path).is_some_and(|managed| managed.want != Want::NoMask);
        let is_unmasked = unmasks && compare::has_runtime_mask(self.root, unit)?;
        let without = |own: bool| {
            let dirs = [(own, UNIT_DIR), (is_unmasked, RUNTIME_UNIT_DIR)].into_iter();
            dirs.filter_map(|(goes, dir)| goes.then_some(dir)).collect::<Vec<_>>()
        };
        // Ours goes: what was there before it comes back, unless that is the mask that goes.
        if is_ours || (left.is_some() && seen.kind == Kind::Absent) {
            return match original {
                Some(original) if original.is_mask() && !unmasks => Ok(Body::Masked),
                Some(original) if !original.is_mask() => Ok(Body::Found(Install::default())),
                _ => units::body(self.root, unit, &without(true)),
            };
        }
        units::body(self.root, unit, &without(unmasks && compare::is_mask(&seen)))
    }

    /// The SSH server reads no keys from a file, folder or home that others can write.
    fn key_warnings(&mut self) -> Result<(), Error> {
        let Some((path, managed)) = self.to.places.iter().find(|(_, managed)| managed.sort == Sort::Keys) else {
            return Ok(());
        };
        let Want::File(file) = &managed.want else { return Ok(()) };
        let (ssh, home) = (split(path).0, split(split(path).0).0);
        for dir in [home, ssh] {
            let seen = match self.root.seen(dir) {
                Ok(seen) => seen,
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(Error::file("look at", dir)(error)),
            };
            if seen.kind != Kind::Dir {
                continue;
            }
            let owner_is_fine = seen.uid == 0 || Some(seen.uid) == file.uid.number;
            if seen.mode & 0o022 != 0 || !owner_is_fine {
                self.found.warnings.push(format!(
                    "keys of boot: the SSH server will refuse them, because {dir} is writable by others or not boot's \
                     (mode {:04o}, owner {}); run chmod go-w or chown",
                    seen.mode, seen.uid
                ));
            }
        }
        Ok(())
    }
}

/// A path that cannot even be looked at is not as wanted; why is said by whoever asks next.
fn is_there(root: &Root, path: &str, want: &Want) -> Result<bool, Error> {
    match is_as_wanted(root, path, want) {
        Err(Error::File { source, .. }) if is_blocked(&source) => Ok(false),
        result => result,
    }
}
