//! An update of a root without a cluster: the daemon's own check, steps and decisions on a folder, by `mcx apply`.
//!
//! Nothing is drained, no action runs, and nobody is told. What a daemon keeps is left alone: its cluster decides.

use super::compare::Deviation;
use super::disk::{self, Disk};
use super::host::{Error, Host, Kind, is_absent};
use super::journal::{self, Journal, NamedConfig, Stage};
use super::layout::Layout;
use super::machine::{self, Compared, Held, OwnNode, Read, Situation, Trouble, Work};
use super::plan::{Observer, Step, Way, plan};
use super::transaction::ancestors;
use super::{check, check::Check};
use crate::api::ConfigName;
use crate::render::items::Items;
use std::sync::Arc;
use std::time::Duration;

/// What an update of a root would do.
#[derive(Debug, Clone)]
pub struct Preview {
    /// What the root has: after an interrupted update is carried to its end.
    pub from: NamedConfig,
    /// The interrupted update, if there is one: it is finished or undone first.
    pub interrupted: Option<ConfigName>,
    /// What stands in the way.
    pub check: Check,
    /// The steps, in order; none when the root has the config already.
    pub steps: Vec<Step>,
}

/// How an update ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The root has the config.
    Done,
    /// It could not be carried out, and what it had changed is undone: why.
    Undone(String),
    /// Nothing was touched: this is in the way.
    Refused(Check),
}

/// Why nobody but a daemon may change this root, and what to do, on one line; none when no daemon keeps it.
pub fn keeper(host: &Host) -> Result<Option<String>, Error> {
    if let Some(keeper) = disk::read_keeper(host.root())? {
        return Ok(Some(format!(
            "{keeper}: change the MachineConfigs of its cluster; if that daemon is gone for good, remove {}",
            disk::LOCK
        )));
    }
    let open = disk::stored(host.root())?.journal.filter(|open| open.node_uid.is_some());
    Ok(open.map(|open| {
        format!("in the middle of a daemon's update to {}: start that daemon, it finishes the update", open.to.name)
    }))
}

/// Whether mcx keeps anything of its own here: also what a run left that was cut off at its very beginning or end.
pub fn has_state(host: &Host) -> Result<bool, Error> {
    let root = host.root();
    for dir in ancestors(disk::STATE_DIR).into_iter().chain([disk::STATE_DIR]) {
        let is_staged = match root.place(dir) {
            Ok(place) => place.has_staged(),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        };
        if is_staged.map_err(Error::file("look at", dir))? {
            return Ok(true);
        }
    }
    let seen = root.seen(disk::STATE_DIR).map_err(Error::file("look at", disk::STATE_DIR))?;
    Ok(seen.kind != Kind::Absent)
}

/// Whether mcx has nothing in this root.
pub fn is_untouched(host: &Host) -> Result<bool, Error> {
    let stored = disk::stored(host.root())?;
    Ok(stored.current.is_none_or(|current| current.name.is_empty()) && stored.journal.is_none())
}

/// What an update of this root to `to` would do. Changes nothing and takes no lock.
pub async fn preview(host: &Arc<Host>, to: &NamedConfig) -> Result<Preview, Error> {
    let stored = disk::stored(host.root())?;
    let (interrupted, from) = match stored.journal {
        Some(open) if is_forward(&open, to) => (Some(open.to.name.clone()), open.to),
        Some(open) => (Some(open.to.name), open.from),
        None => (None, stored.current.unwrap_or_else(NamedConfig::empty)),
    };
    let (old, new) = (items(&from)?, items(to)?);
    let check = checked(host, &old, &new).await?;
    let accounts = host.accounts()?;
    let (old, new) = (Layout::of(&old, &accounts), Layout::of(&new, &accounts));
    let is_there = from.name == to.name;
    let steps = if is_there { Vec::new() } else { plan(&old, &new, Way::Forward, false) };
    Ok(Preview { from, interrupted, check, steps })
}

/// Whether the machine carries an open update forward when `to` is wanted.
fn is_forward(open: &Journal, to: &NamedConfig) -> bool {
    use machine::Step::{Abandon, Back, CloseFailed};
    !matches!(machine::next(&situation(open, &to.name)), Abandon | Back | CloseFailed)
}

/// As the machine sees it: a Node that was read just now and that wants `to`, and the open update.
fn situation(open: &Journal, to: &ConfigName) -> Situation {
    let held = Held { current: None, journal: Some(open.clone()), failed: None };
    let node = OwnNode { desired: Some(to.clone()), ..OwnNode::default() };
    Situation { node: Some(node), read: Read::Fresh, held: Some(held), ..Situation::default() }
}

/// What the root has: the config that was applied last, or the empty one.
pub fn current(disk: &Disk) -> Result<NamedConfig, Error> {
    Ok(disk.stored()?.current.unwrap_or_else(NamedConfig::empty))
}

/// Finishes or undoes an update that was interrupted, as a daemon does whose node shall have `to`. None: there was none.
pub async fn finish(
    disk: &Disk,
    to: &ConfigName,
    observer: &mut Observer<'_>,
) -> Result<Option<(ConfigName, Ended)>, Error> {
    let Some(journal) = disk.stored()?.journal else { return Ok(None) };
    let name = journal.to.name.clone();
    carry(disk, journal, to, observer).await.map(|ended| Some((name, ended)))
}

/// Brings the root, on which no update is open, to `to`. `observer` sees each step before it is carried out.
pub async fn update(disk: &Disk, to: &NamedConfig, observer: &mut Observer<'_>) -> Result<Ended, Error> {
    let from = current(disk)?;
    let check = checked(disk.host(), &items(&from)?, &items(to)?).await?;
    if !check.drift.is_empty() || !check.obstacles.is_empty() {
        return Ok(Ended::Refused(check));
    }
    let journal = Journal {
        version: journal::VERSION,
        from,
        to: to.clone(),
        stage: Stage::Opened,
        actions: Vec::new(),
        policy_generation: 0,
        boot_id: None,
        node_uid: None,
        forced: false,
        failure: None,
        guard: None,
    };
    disk.write_journal(&journal)?;
    let name = to.name.clone();
    carry(disk, journal, &name, observer).await
}

/// Carries an open update to its end, or says that it is open still.
async fn carry(disk: &Disk, journal: Journal, to: &ConfigName, observer: &mut Observer<'_>) -> Result<Ended, Error> {
    let name = journal.to.name.clone();
    let carried = carry_on(disk, journal, to, observer).await;
    let Err(error) = carried else { return carried };
    if !disk.stored().is_ok_and(|stored| stored.journal.is_none()) {
        let what = if name.is_empty() { "withdrawal".to_owned() } else { format!("update to {name}") };
        return Err(Error::Other(format!("{}; the {what} is not ended, the next run ends it", said(&error))));
    }
    Err(error)
}

/// The state machine decides.
async fn carry_on(disk: &Disk, journal: Journal, to: &ConfigName, observer: &mut Observer<'_>) -> Result<Ended, Error> {
    let mut journal = journal;
    let mut compared = None;
    loop {
        match machine::next(&Situation { compared: compared.take(), ..situation(&journal, to) }) {
            machine::Step::Forward => {
                let Err(error) = disk.forward_observed(&mut journal, observer).await else { continue };
                let text = machine::one_line(&said(&error));
                let trouble = Trouble { work: Work::Forward, text: text.clone(), count: 1, last: Duration::ZERO };
                if let machine::Step::Fail(reason) =
                    machine::after_failed_forward(journal.stage, journal.to.name.as_str(), &trouble)
                {
                    journal = machine::failing(journal, &reason, None);
                    disk.write_journal(&journal).map_err(|second| after(&text, &second))?;
                } else {
                    undo(disk, &mut journal, observer).await.map_err(|second| after(&text, &second))?;
                    disk.close().map_err(|second| after(&text, &second))?;
                    return Ok(Ended::Undone(text));
                }
            }
            machine::Step::Compare(_) => {
                let deviations: Vec<Deviation> = disk.compare(&items(&journal.to)?).await?;
                compared = Some(Compared { config: journal.to.name.clone(), deviations });
            }
            machine::Step::Fail(reason) => {
                journal = machine::failing(journal, &reason, None);
                disk.write_journal(&journal)?;
            }
            machine::Step::Back => undo(disk, &mut journal, observer).await?,
            machine::Step::Abandon => {
                undo(disk, &mut journal, observer).await?;
                disk.close()?;
                return Ok(Ended::Undone("it was interrupted before anything was changed".to_owned()));
            }
            machine::Step::Close => {
                disk.close()?;
                return Ok(Ended::Done);
            }
            machine::Step::CloseFailed => {
                disk.close()?;
                return Ok(Ended::Undone(journal.failure.unwrap_or_default()));
            }
            // Actions, reboots and drains: no update of ours has any.
            _ => {
                return Err(Error::Other(format!(
                    "the update to {} that is open in this root is a daemon's; start that daemon, it finishes it",
                    journal.to.name
                )));
            }
        }
    }
}

/// Why it failed, and why it could not be undone.
fn after(first: &str, second: &Error) -> Error {
    Error::Other(format!("{first}; and it could not be undone: {}", said(second)))
}

/// Undoes; twice when it must be, since what failed may have passed, and a daemon tries again too.
async fn undo(disk: &Disk, journal: &mut Journal, observer: &mut Observer<'_>) -> Result<(), Error> {
    match disk.back_observed(journal, observer).await {
        Ok(()) => Ok(()),
        Err(error) => {
            tracing::warn!(error = said(&error), "that did not work, once more");
            disk.back_observed(journal, observer).await
        }
    }
}

async fn checked(host: &Arc<Host>, from: &Items, to: &Items) -> Result<Check, Error> {
    let accounts = host.accounts()?;
    let (from, to) = (Layout::of(from, &accounts), Layout::of(to, &accounts));
    let is_node = host.is_own_root() || host.has_systemd()?;
    let site = if is_node { check::Site::Node { forced: false } } else { check::Site::Folder };
    check::check(host, from, to, accounts, site).await
}

/// What a config means; the empty one has the empty name.
pub fn items(config: &NamedConfig) -> Result<Items, Error> {
    if config.name.is_empty() { Ok(Items::default()) } else { disk::items(config) }
}

/// An error and its cause.
fn said(error: &Error) -> String {
    let cause = std::error::Error::source(error).map(|c| format!(": {c}")).unwrap_or_default();
    format!("{error}{cause}")
}
