//! Changing what stands at a path: whole or not at all.
//!
//! New bytes are staged under a name of ours in the target's own directory (same file system, same default label) and
//! take the target's place by rename. The staged name is a function of the target's, so that what a crash left behind is
//! found without a search.

use super::root::{Kind, Root, Seen, fd_path, has_entries, is_absent, is_blocked, seen_at, seen_of, split, step};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, RenameFlags, openat, readlinkat, renameat, renameat2};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmod, fchmodat, fstat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, fchownat, fsync, geteuid, mkfifoat, symlinkat, unlinkat};
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

/// What every name of ours beside a target begins with.
pub const STAGED_PREFIX: &str = ".mcx-";

/// Of what is made by name and only then opened: in a folder of a user's something else may have its name by then, and the
/// sticky bit, which no umask takes away and hardly anything else has, tells ours from it.
const FRESH: Mode = Mode::S_ISVTX;

/// Mode and owner of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A name in a directory that is held open: what happens to the path meanwhile cannot lead elsewhere.
pub(in crate::node) struct Place {
    dir: OwnedFd,
    name: String,
    staged: String,
}

impl Root {
    /// The place of an absolute, clean path; its directory must be there.
    pub(in crate::node) fn place(&self, path: &str) -> io::Result<Place> {
        let (parent, name) = split(path);
        Ok(Place { dir: self.dir(parent)?, name: name.to_owned(), staged: staged_name(name) })
    }

    /// The place of a path; none when its directory is absent, or behind a link that is not followed.
    pub(in crate::node) fn place_if_there(&self, path: &str) -> io::Result<Option<Place>> {
        match self.place(path) {
            Ok(place) => Ok(Some(place)),
            Err(error) if is_absent(&error) || is_blocked(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes what is staged for a path, if anything is.
    pub(in crate::node) fn unstage(&self, path: &str) -> io::Result<()> {
        self.place_if_there(path)?.map_or(Ok(()), |place| place.unstage())
    }

    /// Makes a directory whose parent is there, whatever the umask; one that is there is left as it is. It appears with
    /// its mode and owner, or not at all: one that a crash left half made would pass for somebody's.
    pub(in crate::node) fn make_dir(&self, path: &str, meta: Meta) -> io::Result<()> {
        let place = self.place(path)?;
        place.unstage()?;
        if place.seen()?.kind != Kind::Absent {
            return Ok(());
        }
        let (old, new) = (place.staged.as_str(), place.name.as_str());
        let made = place.stage_dir(meta).and_then(|()| {
            match renameat2(&place.dir, old, &place.dir, new, RenameFlags::RENAME_NOREPLACE) {
                // Somebody was quicker: theirs is as good.
                Err(Errno::EEXIST) => place.unstage(),
                result => Ok(result?),
            }
        });
        if made.is_err() {
            // The cause is what counts.
            let _ = place.unstage();
            return made;
        }
        place.sync()
    }

    /// Sets mode and owner of a directory of our own.
    pub(in crate::node) fn set_dir_meta(&self, path: &str, meta: Meta) -> io::Result<()> {
        set_meta(&self.dir(path)?, meta)
    }

    /// Opens a file to be locked, made when absent.
    pub(in crate::node) fn lock_file(&self, path: &str) -> io::Result<File> {
        let place = self.place(path)?;
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(File::from(openat(&place.dir, place.name.as_str(), flags, Mode::from_bits_truncate(0o600))?))
    }

    /// Removes a directory if it is empty; says whether it is gone.
    pub(in crate::node) fn remove_empty_dir(&self, path: &str) -> io::Result<bool> {
        let place = match self.place(path) {
            Err(error) if is_absent(&error) => return Ok(true),
            place => place?,
        };
        match unlinkat(&place.dir, place.name.as_str(), UnlinkatFlags::RemoveDir) {
            Ok(()) => {
                place.sync()?;
                Ok(true)
            }
            Err(Errno::ENOENT) => Ok(true),
            // ENOTDIR: a symlink has taken its place; it is not ours.
            Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::EBUSY | Errno::ENOTDIR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Replaces a file of ours, durably: after this returns, a power cut cannot bring the old bytes back.
    pub(in crate::node) fn write_durably(&self, path: &str, bytes: &[u8], meta: Meta) -> io::Result<()> {
        self.replace(path, bytes, meta)?.sync()
    }

    /// Replaces a file of ours by one that is flushed: a power cut before the directory is flushed too leaves the old bytes
    /// or the new ones.
    pub(in crate::node) fn replace(&self, path: &str, bytes: &[u8], meta: Meta) -> io::Result<Place> {
        let place = self.place(path)?;
        place.unstage()?;
        let written = place.stage_file(&mut &*bytes, meta).and_then(|_| place.switch());
        if written.is_err() {
            // The cause is what counts; a leftover is found by its name the next time.
            let _ = place.unstage();
        }
        written.map(|()| place)
    }

    /// Flushes the entries of a directory, or of its nearest ancestor when it is gone.
    pub(in crate::node) fn sync_dir(&self, path: &str) -> io::Result<()> {
        let (dir, _) = self.nearest_dir(path)?;
        Ok(fsync(&dir)?)
    }
}

impl Place {
    /// What stands here.
    pub(in crate::node) fn seen(&self) -> io::Result<Seen> {
        seen_at(&self.dir, &self.name)
    }

    /// Stages a regular file, durably, and gives back the digest of its bytes. Nobody but root can read it before it
    /// has its mode.
    pub(in crate::node) fn stage_file(&self, bytes: &mut dyn Read, meta: Meta) -> io::Result<[u8; 32]> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(&self.dir, self.staged.as_str(), flags, Mode::from_bits_truncate(0o600))?);
        let mut digest = Sha256::new();
        let mut part = vec![0; 64 << 10];
        loop {
            let count = match bytes.read(&mut part) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            digest.update(&part[..count]);
            file.write_all(&part[..count])?;
        }
        let file: OwnedFd = file.into();
        set_meta(&file, meta)?;
        fsync(&file)?;
        Ok(digest.finalize().into())
    }

    /// Stages a symlink.
    pub(in crate::node) fn stage_link(&self, target: &[u8], uid: u32, gid: u32) -> io::Result<()> {
        symlinkat(OsStr::from_bytes(target), &self.dir, self.staged.as_str())?;
        let made = self.made(SFlag::S_IFLNK)?;
        if readlinkat(&made, "")?.as_bytes() != target {
            return Err(taken());
        }
        own(&made, uid, gid)
    }

    /// Stages a named pipe.
    pub(in crate::node) fn stage_fifo(&self, meta: Meta) -> io::Result<()> {
        mkfifoat(&self.dir, self.staged.as_str(), Mode::from_bits_truncate(0o600) | FRESH)?;
        let made = self.made(SFlag::S_IFIFO)?;
        own(&made, meta.uid, meta.gid)?;
        let bits = Mode::from_bits_truncate(meta.mode);
        Ok(fchmodat(AT_FDCWD, &fd_path(&made), bits, FchmodatFlags::FollowSymlink)?)
    }

    /// Stages an empty directory.
    pub(in crate::node) fn stage_dir(&self, meta: Meta) -> io::Result<()> {
        mkdirat(&self.dir, self.staged.as_str(), Mode::from_bits_truncate(0o700) | FRESH)?;
        let made = step(&self.dir, OsStr::new(&self.staged))?;
        if !self.is_made(&fstat(&made)?, SFlag::S_IFDIR)? || has_entries(&made)? {
            return Err(taken());
        }
        set_meta(&made, meta)?;
        Ok(fsync(&made)?)
    }

    /// What was just made under the staged name, held, so that owner and mode are given to it and to nothing else.
    fn made(&self, kind: SFlag) -> io::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let made = openat(&self.dir, self.staged.as_str(), flags, Mode::empty())?;
        if self.is_made(&fstat(&made)?, kind)? { Ok(made) } else { Err(taken()) }
    }

    /// Whether this can be what we made a moment ago. In a folder that is ours alone nothing else can; else it has our owner,
    /// no other name, and the mark. A link has no mode: its target tells.
    fn is_made(&self, made: &FileStat, kind: SFlag) -> io::Result<bool> {
        let (dir, own) = (fstat(&self.dir)?, geteuid().as_raw());
        let is_private = dir.st_uid == own && dir.st_mode & 0o022 == 0;
        let is_single = kind == SFlag::S_IFDIR || made.st_nlink == 1;
        let is_marked = kind == SFlag::S_IFLNK || made.st_mode & FRESH.bits() != 0;
        let is_kind = made.st_mode & SFlag::S_IFMT.bits() == kind.bits();
        Ok(is_kind && (is_private || (made.st_uid == own && is_single && is_marked)))
    }

    /// Whether something is staged.
    pub(in crate::node) fn has_staged(&self) -> io::Result<bool> {
        Ok(seen_at(&self.dir, &self.staged)?.kind != Kind::Absent)
    }

    /// What is staged, opened, when it is a regular file that nobody else can reach by another name.
    pub(in crate::node) fn staged_file(&self) -> io::Result<Option<(File, Seen)>> {
        if seen_at(&self.dir, &self.staged)?.kind != Kind::File {
            return Ok(None);
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = openat(&self.dir, self.staged.as_str(), flags, Mode::empty())?;
        let stat = fstat(&file)?;
        let seen = seen_of(&stat, Kind::Absent);
        let is_ours = seen.kind == Kind::File && stat.st_nlink == 1;
        Ok(is_ours.then(|| (File::from(file), seen)))
    }

    /// Removes what is staged.
    pub(in crate::node) fn unstage(&self) -> io::Result<()> {
        unlink(&self.dir, &self.staged, UnlinkatFlags::NoRemoveDir)
            .or_else(|errno| match errno {
                Errno::EISDIR | Errno::EPERM => unlink(&self.dir, &self.staged, UnlinkatFlags::RemoveDir),
                errno => Err(errno),
            })
            .or_else(|errno| match errno {
                // No directory of ours is ever full: it is somebody's, and keeps nothing from being undone.
                Errno::ENOTEMPTY | Errno::EEXIST => Ok(()),
                // A disk that refuses says so before it looks: an update that has staged nothing there can still be undone.
                Errno::EROFS | Errno::EPERM if !self.has_staged().unwrap_or(true) => Ok(()),
                errno => Err(errno.into()),
            })
    }

    /// The staged thing takes the target's place, at once. Not durable before [`Place::sync`].
    pub(in crate::node) fn switch(&self) -> io::Result<()> {
        let is_dir = seen_at(&self.dir, &self.staged)?.kind == Kind::Dir;
        if is_dir && self.seen()?.kind != Kind::Absent {
            // A directory cannot be renamed over a file.
            let (old, new) = (self.staged.as_str(), self.name.as_str());
            renameat2(&self.dir, old, &self.dir, new, RenameFlags::RENAME_EXCHANGE)?;
            return self.unstage();
        }
        Ok(renameat(&self.dir, self.staged.as_str(), &self.dir, self.name.as_str())?)
    }

    /// Removes what stands here, if it is no directory; nothing is fine.
    pub(in crate::node) fn remove(&self) -> io::Result<()> {
        Ok(unlink(&self.dir, &self.name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes the empty directory that stands here.
    pub(in crate::node) fn remove_dir(&self) -> io::Result<()> {
        Ok(unlink(&self.dir, &self.name, UnlinkatFlags::RemoveDir)?)
    }

    /// Puts a symlink here, where nothing stands.
    pub(in crate::node) fn link(&self, target: &str) -> io::Result<()> {
        Ok(symlinkat(target, &self.dir, self.name.as_str())?)
    }

    /// Makes what happened to this directory's entries durable.
    pub(in crate::node) fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.dir)?)
    }
}

/// 16 hex digits keep it short, and apart from every other target in the same directory.
fn staged_name(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    format!("{STAGED_PREFIX}{}", crate::node::form::hex(&digest[..8]))
}

/// Owner first: changing it clears the set-id bits (L-05). Never by the umask (L-06).
fn set_meta(fd: &OwnedFd, meta: Meta) -> io::Result<()> {
    fchown(fd, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))?;
    Ok(fchmod(fd, Mode::from_bits_truncate(meta.mode))?)
}

/// Gives what is held, whatever it is, to a user.
fn own(held: &OwnedFd, uid: u32, gid: u32) -> io::Result<()> {
    Ok(fchownat(held, "", Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::AT_EMPTY_PATH)?)
}

fn taken() -> io::Error {
    io::Error::other("something else has taken its place")
}

fn unlink(dir: &OwnedFd, name: &str, how: UnlinkatFlags) -> nix::Result<()> {
    match unlinkat(dir, name, how) {
        Err(Errno::ENOENT) => Ok(()),
        result => result,
    }
}
