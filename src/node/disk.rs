//! The node's disk as the rest of the daemon uses it: state, comparison, transaction, watch.

use super::compare::Deviation;
use super::host::{Error, Host};
use super::journal::{Failed, Journal, NamedConfig, Stored};
use crate::render::items::Items;
use std::sync::Arc;

/// The disk of one node. At most one per root: it holds a lock.
pub struct Disk {
    host: Arc<Host>,
}

/// How a comparison looks at an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything that the config manages.
    All,
}

impl Disk {
    /// Takes the lock in `/var/lib/mcx` (0700, made when absent); waits for another daemon up to `patience`, then fails.
    pub async fn open(_host: Arc<Host>, _patience: std::time::Duration) -> Result<Self, Error> {
        todo!()
    }

    /// The host.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Reads the state. A file that is there but unreadable is an error that names it and the way out; it is never
    /// taken for absent.
    pub fn stored(&self) -> Result<Stored, Error> {
        todo!()
    }

    /// What of the disk differs from `items`: existence, type, bytes, mode, owner, unit body, drop-ins, enablement,
    /// mask, keys. All of it.
    pub async fn compare(&self, _items: &Items) -> Result<Vec<Deviation>, Error> {
        todo!()
    }

    /// Whether an update from `from` to `to` can be carried out: each item of `from` equals `from` or `to` on disk
    /// (else it is drift, unless `forced`); what only `to` names may be anything that a file can replace; targets are
    /// writable and on a lasting file system, there is space, users exist, nothing is in the way. Changes nothing.
    pub async fn check(&self, _from: &Items, _to: &Items, _forced: bool) -> Result<Check, Error> {
        todo!()
    }

    /// Writes `journal.json`, durably.
    pub fn write_journal(&self, _journal: &Journal) -> Result<(), Error> {
        todo!()
    }

    /// Carries an opened or switching journal forward up to [`super::journal::Stage::Written`]: stage, switch, units,
    /// keys, removals and given-back originals, `current.json`. Idempotent: a crashed one is continued by the same call.
    /// On an error before the first switch everything is as before.
    pub async fn forward(&self, _journal: &mut Journal) -> Result<(), Error> {
        todo!()
    }

    /// Brings the old files back, up to [`super::journal::Stage::Undone`] (before the first switch: only staged files
    /// are removed). Idempotent.
    pub async fn back(&self, _journal: &mut Journal) -> Result<(), Error> {
        todo!()
    }

    /// Closes the transaction: `previous.json`, `journal.json` and originals that nothing needs any more go.
    pub fn close(&self) -> Result<(), Error> {
        todo!()
    }

    /// Writes `current.json` without a transaction: adoption of what is on the disk already.
    pub fn adopt(&self, _config: &NamedConfig) -> Result<(), Error> {
        todo!()
    }

    /// Writes or removes `failed.json`.
    pub fn set_failed(&self, _failed: Option<&Failed>) -> Result<(), Error> {
        todo!()
    }

    /// Ends once anything that `items` manages, or the force file, may have changed (inotify on parents, debounced).
    /// Misses are found by the caller's sweep.
    pub async fn changed(&self, _items: &Items) -> Result<(), Error> {
        todo!()
    }
}

/// What [`Disk::check`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Drift: the disk is neither old nor new.
    pub drift: Vec<Deviation>,
    /// What makes the update impossible now: one line each, with path and what to do. It may pass by itself
    /// (a user that is created, space that is freed).
    pub obstacles: Vec<String>,
}
