//! The only door to the file system and to processes of a node. Nothing else in `node` uses `std::fs` or starts a process.

use std::path::Path;
use std::time::Duration;

/// A node's root directory and its processes.
pub struct Host {
    // The owner of this room fills this in: a directory descriptor taken for `/`, and how commands are run.
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
    /// Anything else, one line.
    #[error("{0}")]
    Other(String),
}

/// What a command printed.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error, last 1 KiB.
    pub stderr: String,
}

impl Host {
    /// Opens `root`. When it is not `/`, commands run inside it by re-executing this binary (`mcx host-exec`).
    pub fn open(_root: &Path) -> Result<Self, Error> {
        todo!()
    }

    /// Runs a command in the node's root with a clean environment, without a shell, within `limit`.
    /// An exit status other than 0 is no error here.
    pub async fn run(&self, _argv: &[&str], _limit: Duration) -> Result<Output, Error> {
        todo!()
    }

    /// Whether a service manager runs in this root (`/run/systemd/system` exists); without one, units are changed with
    /// `systemctl --root` and actions are not run.
    pub fn has_systemd(&self) -> bool {
        todo!()
    }

    /// The boot id, read through the root's `/proc`.
    pub fn boot_id(&self) -> Result<String, Error> {
        todo!()
    }

    /// Whether the force file is there.
    pub fn force_file(&self) -> bool {
        todo!()
    }

    /// Removes the force file, durably.
    pub fn remove_force_file(&self) -> Result<(), Error> {
        todo!()
    }
}
