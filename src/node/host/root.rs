//! Paths beneath a node's root.
//!
//! A directory descriptor stands for `/`; no path of this process's own is ever used. Symlinks on the way to a
//! directory are followed inside the root (`/home -> /var/home`), when only root could have put them there: a user who
//! owns a folder on the way must not lead a write elsewhere. The last component is never followed.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Links that are followed on one way before it counts as a loop; the kernel's own number.
const LINK_LIMIT: usize = 40;
/// A rename elsewhere can make the kernel ask for another try.
const TRIES: usize = 16;

/// A directory taken for `/`.
pub(in crate::node) struct Root {
    fd: OwnedFd,
    path: PathBuf,
    /// Owner of the root directory: its links are trusted as root's are, so that a folder of one's own can be a root.
    owner: u32,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Absent,
    /// A regular file.
    File,
    /// A symlink and its target.
    Link(Vec<u8>),
    /// A directory.
    Dir,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
}

/// What stands at a path, as `lstat` sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its type.
    pub kind: Kind,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes; of files only.
    pub size: u64,
}

impl Seen {
    /// Nothing.
    pub const ABSENT: Self = Self { kind: Kind::Absent, mode: 0, uid: 0, gid: 0, size: 0 };
}

/// Whether an error of a path means that nothing is there.
pub(in crate::node) fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOENT | Errno::ENOTDIR))
}

/// Whether a path leads through a symlink that is not followed.
pub(in crate::node) fn is_blocked(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ELOOP as i32)
}

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = std::fs::canonicalize(path)?;
        let fd: OwnedFd = File::open(&path)?.into();
        let owner = fstat(&fd)?.st_uid;
        Ok(Self { fd, path, owner })
    }

    /// Whether this is the root of this process.
    pub(super) fn is_own(&self) -> io::Result<bool> {
        let (here, own) = (fstat(&self.fd)?, nix::sys::stat::stat("/")?);
        Ok((here.st_dev, here.st_ino) == (own.st_dev, own.st_ino))
    }

    /// The root's path as this process sees it.
    pub(in crate::node) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory at an absolute, clean path.
    pub(in crate::node) fn dir(&self, path: &str) -> io::Result<OwnedFd> {
        let relative = path.trim_start_matches('/');
        if relative.is_empty() {
            return step(&self.fd, OsStr::new("."));
        }
        match step(&self.fd, OsStr::new(relative)) {
            Err(error) if is_blocked(&error) => self.walk(relative),
            result => result,
        }
    }

    /// The slow road: one component at a time, following the links that may be followed.
    fn walk(&self, relative: &str) -> io::Result<OwnedFd> {
        let mut todo: VecDeque<OsString> = components(OsStr::new(relative));
        // Each directory with whether all above it and itself are root's alone.
        let mut way = vec![(step(&self.fd, OsStr::new("."))?, true)];
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                if way.len() > 1 {
                    way.pop();
                }
                continue;
            }
            let Some((here, trusted)) = way.last() else { return Err(Errno::ENOENT.into()) };
            match step(here, &name) {
                Ok(next) => {
                    let trusted = *trusted && self.is_trusted(&fstat(&next)?);
                    way.push((next, trusted));
                }
                Err(error) => {
                    let Ok(target) = readlinkat(here, name.as_os_str()) else { return Err(error) };
                    let link = fstatat(here, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
                    links += 1;
                    if links > LINK_LIMIT || !*trusted || !self.is_mine(link.st_uid) {
                        return Err(Errno::ELOOP.into());
                    }
                    if target.as_bytes().starts_with(b"/") {
                        way.truncate(1);
                    }
                    for part in components(&target).into_iter().rev() {
                        todo.push_front(part);
                    }
                }
            }
        }
        way.pop().map(|(fd, _)| fd).ok_or_else(|| Errno::ENOENT.into())
    }

    fn is_mine(&self, uid: u32) -> bool {
        uid == 0 || uid == self.owner
    }

    fn is_trusted(&self, dir: &FileStat) -> bool {
        self.is_mine(dir.st_uid) && dir.st_mode & 0o022 == 0
    }

    /// What stands at `path`; a missing parent, or one that is no directory, means that nothing does.
    pub(in crate::node) fn seen(&self, path: &str) -> io::Result<Seen> {
        let (parent, name) = split(path);
        match self.dir(parent) {
            Ok(dir) => seen_at(&dir, name),
            Err(error) if is_absent(&error) => Ok(Seen::ABSENT),
            Err(error) => Err(error),
        }
    }

    /// Whether something is at `path`, by whatever links lead there inside the root.
    pub(super) fn reaches(&self, path: &str) -> bool {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_IN_ROOT);
        openat2(&self.fd, path, how).is_ok()
    }

    /// Opens a regular file for reading; anything else of that name is an error, and never blocks.
    pub(in crate::node) fn file(&self, path: &str) -> io::Result<(File, Seen)> {
        let (parent, name) = split(path);
        let dir = self.dir(parent)?;
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let fd = openat(&dir, name, flags, Mode::empty())?;
        let seen = seen_of(&fstat(&fd)?, Kind::File);
        if seen.kind != Kind::File {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok((File::from(fd), seen))
    }

    /// Reads a regular file of at most `limit` bytes.
    pub(in crate::node) fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        let (file, _) = self.file(path)?;
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).is_ok_and(|read| read <= limit) {
            Ok(bytes)
        } else {
            Err(io::Error::other(format!("it is larger than {limit} bytes")))
        }
    }

    /// The names in a directory, sorted; none when it is absent.
    pub(in crate::node) fn names(&self, path: &str) -> io::Result<Vec<OsString>> {
        let dir = match self.dir(path) {
            Ok(dir) => dir,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in Dir::from_fd(dir)?.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether anything is in a directory; nothing when it is absent. It may be a user's, so it is not read whole.
    pub(in crate::node) fn has_names(&self, path: &str) -> io::Result<bool> {
        match self.dir(path) {
            Ok(dir) => has_entries(&dir),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The nearest directory at or above `path` that is there, with its path.
    pub(in crate::node) fn nearest_dir<'a>(&self, path: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        let mut at = path;
        loop {
            match self.dir(at) {
                Ok(dir) => return Ok((dir, at)),
                Err(error) if is_absent(&error) && at.len() > 1 => at = split(at).0,
                Err(error) => return Err(error),
            }
        }
    }
}

/// A directory's path in this process's mount table.
pub(in crate::node) fn real_path(dir: &impl AsFd) -> io::Result<String> {
    let target = std::fs::read_link(fd_path(dir))?;
    Ok(target.to_string_lossy().into_owned())
}

/// A path by which the kernel takes an open directory where it wants a path.
pub(in crate::node) fn fd_path(dir: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd()))
}

/// Parent and last component of an absolute, clean path.
pub(in crate::node) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => ("/", path),
    }
}

/// Opens a directory beneath `dir` without following any link.
pub(super) fn step(dir: &impl AsFd, relative: &OsStr) -> io::Result<OwnedFd> {
    // Not O_NOFOLLOW: with O_DIRECTORY it calls a last component that is a link "no directory", and not a link.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let mut result = Err(Errno::EAGAIN);
    for _ in 0..TRIES {
        result = openat2(dir, relative, OpenHow::new().flags(flags).resolve(resolve));
        if !matches!(result, Err(Errno::EAGAIN | Errno::EINTR)) {
            break;
        }
    }
    Ok(result?)
}

/// Whether anything is in an open directory.
pub(super) fn has_entries(dir: &OwnedFd) -> io::Result<bool> {
    let mut dir = Dir::from_fd(step(dir, OsStr::new("."))?)?;
    for entry in dir.iter() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn seen_at(dir: &impl AsFd, name: &str) -> io::Result<Seen> {
    let stat = match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::ENOENT) => return Ok(Seen::ABSENT),
        Err(errno) => return Err(errno.into()),
    };
    let mut seen = seen_of(&stat, Kind::Absent);
    if seen.kind == Kind::Absent {
        seen.kind = match readlinkat(dir, name) {
            Ok(target) => Kind::Link(target.into_vec()),
            // It was replaced between the two calls: what it was a moment ago is as good an answer.
            Err(Errno::ENOENT | Errno::EINVAL) => Kind::Link(Vec::new()),
            Err(errno) => return Err(errno.into()),
        };
    }
    Ok(seen)
}

/// `link` is what a symlink is taken for: its target is not part of a `stat`.
pub(super) fn seen_of(stat: &FileStat, link: Kind) -> Seen {
    let kind = match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => Kind::File,
        SFlag::S_IFDIR => Kind::Dir,
        SFlag::S_IFLNK => link,
        SFlag::S_IFIFO => Kind::Fifo,
        SFlag::S_IFSOCK => Kind::Socket,
        _ => Kind::Device,
    };
    let size = if kind == Kind::File { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 };
    Seen { kind, mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid, size }
}

fn components(path: &OsStr) -> VecDeque<OsString> {
    path.as_bytes()
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .map(|part| OsString::from_vec(part.to_vec()))
        .collect()
}
