//! The only door to the file system and to processes of a node. Nothing else in `node` uses `std::fs` or starts a process.
//!
//! | file | knows |
//! |---|---|
//! | `root` | paths beneath the node's root: which symlinks are followed, what is there, reading |
//! | `write` | changing what is there: whole or not at all |
//! | `exec` | commands in the node's root |
//! | `passwd` | users and groups of the node's own files |
//! | `mounts` | which file system a path is on |
//! | `boot` | boot id, service manager, force file |
//! | `program` | what this binary needs to run |

mod boot;
mod exec;
mod mounts;
mod passwd;
mod program;
mod root;
mod write;

pub use boot::FORCE_FILE;
pub use exec::enter;
pub use mounts::{Mount, Mounts};
pub use passwd::{Accounts, User};
pub use root::{Kind, Seen};
pub use write::{Meta, STAGED_PREFIX};

pub(in crate::node) use root::{Root, fd_path, is_absent, is_blocked, real_path, split};
pub(in crate::node) use write::Place;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where `systemctl` is.
const SYSTEMCTL: [&str; 2] = ["/usr/bin/systemctl", "/bin/systemctl"];

/// A node's root directory and its processes.
pub struct Host {
    root: Root,
    /// Commands run here without entering anything: the root is this process's own.
    is_own_root: bool,
    /// Enters the root for a command: this binary.
    program: PathBuf,
}

/// Why something on the host did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation.
    #[error("cannot {what} {path}")]
    File {
        /// What was tried: `write`, `read`, …
        what: &'static str,
        /// Where, as seen from the node's root.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed: {detail}")]
    Command {
        /// As an operator would type it.
        command: String,
        /// Exit status and the last 1 KiB of stderr, on one line.
        detail: String,
    },
    /// Another mcx works on this root.
    #[error("another mcx, a daemon or `mcx apply`, holds {0}; only one may work on a node")]
    Held(
        /// The lock.
        String,
    ),
    /// Anything else, one line.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// For `map_err` after a file operation.
    pub(in crate::node) fn file(what: &'static str, path: &str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }
}

/// What a command printed.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// Exit status; 128 and the signal's number when a signal ended it.
    pub status: i32,
    /// Standard output, at most 1 MiB.
    pub stdout: String,
    /// Standard error, last 1 KiB.
    pub stderr: String,
}

impl Output {
    /// The error for an exit status that is not 0.
    pub fn ok(self, argv: &[&str]) -> Result<Self, Error> {
        if self.status == 0 {
            return Ok(self);
        }
        let said = self.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let detail = if said.is_empty() {
            format!("exit status {}", self.status)
        } else {
            format!("exit status {}: {said}", self.status)
        };
        Err(Error::Command { command: argv.join(" "), detail })
    }
}

impl Host {
    /// Opens `root`. When it is not `/`, commands run inside it by re-executing this binary (`mcx host-exec`).
    pub fn open(root: &Path) -> Result<Self, Error> {
        let shown = root.display().to_string();
        let opened = Root::open(root).map_err(Error::file("open the root", &shown))?;
        let is_own_root = opened.is_own().map_err(Error::file("look at the root", &shown))?;
        // The link is resolved by the kernel at exec, so it is right even after the binary was replaced by an update.
        Ok(Self { root: opened, is_own_root, program: PathBuf::from("/proc/self/exe") })
    }

    /// Has `program` enter the root in place of this binary; it must understand `host-exec`.
    #[must_use]
    pub fn with_program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Whether a copy of this binary can run in the root. A static one can; one that is linked dynamically needs the very
    /// loader that it names.
    pub(in crate::node) fn check_program(&self) -> Result<(), Error> {
        let Some(loader) = program::loader(&self.program).map_err(self.program_error("read"))? else { return Ok(()) };
        if self.is_own_root || self.root.reaches(&loader) {
            return Ok(());
        }
        Err(Error::Other(format!(
            "this mcx is linked dynamically and its loader {loader} is not on the node, so no copy of it can guard the node; \
             use the static build"
        )))
    }

    /// Puts a copy of this binary at `path` in the root, for root alone, whole or not at all, durably.
    pub(in crate::node) fn copy_program(&self, path: &str) -> Result<(), Error> {
        let mut program = std::fs::File::open(&self.program).map_err(self.program_error("open"))?;
        let place = self.root.place(path).map_err(Error::file("open the directory of", path))?;
        let meta = Meta { mode: 0o700, uid: 0, gid: 0 };
        let copied = place
            .unstage()
            .and_then(|()| place.stage_file(&mut program, meta))
            .and_then(|_| place.switch())
            .and_then(|()| place.sync());
        if copied.is_err() {
            // The cause is what counts.
            let _ = place.unstage();
        }
        copied.map_err(Error::file("copy this binary to", path))
    }

    fn program_error(&self, what: &'static str) -> impl FnOnce(std::io::Error) -> Error + use<> {
        let path = self.program.display().to_string();
        move |source| Error::File { what, path, source }
    }

    /// Whether the root is this process's own, `/`.
    pub(in crate::node) fn is_own_root(&self) -> bool {
        self.is_own_root
    }

    /// Runs a command in the node's root with a clean environment, without a shell, within `limit`.
    /// An exit status other than 0 is no error here.
    pub async fn run(&self, argv: &[&str], limit: Duration) -> Result<Output, Error> {
        if self.is_own_root {
            return exec::run(argv, argv, limit).await;
        }
        let program = self.program.to_string_lossy();
        let root = self.root.path().to_string_lossy();
        let mut entering: Vec<&str> = vec![&program, "host-exec", &root, "--"];
        entering.extend_from_slice(argv);
        exec::run(&entering, argv, limit).await
    }

    /// Runs `systemctl`. Without a service manager in this root it changes the root's files (`--root`), with the
    /// `systemctl` of this machine when it has one: that of a root that is not booted may be made for another machine.
    pub async fn systemctl(&self, args: &[&str], limit: Duration) -> Result<Output, Error> {
        let shown: Vec<&str> = std::iter::once("systemctl").chain(args.iter().copied()).collect();
        if self.has_systemd()? {
            return self.run(&shown, limit).await;
        }
        let is_here = SYSTEMCTL.iter().any(|path| Path::new(path).exists());
        if is_here {
            let root = format!("--root={}", self.root.path().display());
            let whole: Vec<&str> = ["systemctl", &root].into_iter().chain(args.iter().copied()).collect();
            return exec::run(&whole, &whole, limit).await;
        }
        if !SYSTEMCTL.iter().any(|path| self.root.seen(path).is_ok_and(|seen| seen.kind != Kind::Absent)) {
            return Err(Error::Other(format!(
                "whether a unit is enabled is changed by `systemctl`, and neither this machine nor {} has one; install \
                 systemd on either",
                self.root.path().display()
            )));
        }
        let whole: Vec<&str> = ["systemctl", "--root=/"].into_iter().chain(args.iter().copied()).collect();
        self.run(&whole, limit).await
    }

    /// Users and groups of the node's own `/etc/passwd` and `/etc/group`; a missing file has none.
    pub fn accounts(&self) -> Result<Accounts, Error> {
        let read = |path: &str| match self.root.read(path, passwd::FILE_LIMIT) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if root::is_absent(&error) => Ok(String::new()),
            Err(error) => Err(Error::file("read", path)(error)),
        };
        Ok(Accounts::parse(&read("/etc/passwd")?, &read("/etc/group")?))
    }

    /// The node's root.
    pub(in crate::node) fn root(&self) -> &Root {
        &self.root
    }
}
