//! The guard as a process of the host: it looks at the journal and at the node's health, and does what `course` says.
//!
//! It changes nothing without the lock of the state. A daemon holds that lock as long as it runs, and does itself what is
//! to be done; so the two never work at the same time, and the guard acts only where there is no daemon.

use super::course::{Next, Seen, next};
use super::rule::{EVERY, Look};
use super::{health, unit};
use crate::node::daemon;
use crate::node::disk::{self, Disk, Stamp};
use crate::node::host::{Error, Host};
use crate::node::journal::{Guard, Journal, Lost};
use crate::node::machine;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// For how long a guard that was just left tries to see that the node is well.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// For how long units are watched after their action, in an undo.
const WATCH_TIME: Duration = Duration::from_secs(5);

struct Watch {
    host: Arc<Host>,
    stop: CancellationToken,
    started: Instant,
    seen: Seen,
    /// The journal that was read last: it is some megabytes, and rarely another.
    read: Option<(Stamp, Journal)>,
    /// The last trouble that was logged.
    said: String,
}

/// Runs until nothing is left to guard, or until `stop`. `ready` is called when it is at its place.
pub async fn run(host: Arc<Host>, ready: impl FnOnce(), stop: CancellationToken) -> Result<(), Error> {
    let started = Instant::now();
    let watch = Watch { host, stop, started, seen: Seen::default(), read: None, said: String::new() };
    watch.work(ready).await
}

impl Watch {
    async fn work(mut self, ready: impl FnOnce()) -> Result<(), Error> {
        if let Ok(Some(journal)) = self.journal()
            && let Some(guard) = journal.guard.as_ref().filter(|guard| !guard.left)
        {
            self.see_that_all_is_well(guard).await?;
        }
        ready();
        while !self.stop.is_cancelled() {
            let journal = match self.journal() {
                Ok(journal) => journal,
                // A newer mcx, or damage: what is not understood is not touched.
                Err(error) => {
                    self.say(&error);
                    self.pause(EVERY * 5).await;
                    continue;
                }
            };
            if let Some(journal) = &journal {
                self.seen.observe(journal);
            }
            let now = self.started.elapsed();
            match next(journal.as_ref(), &self.host.boot_id()?, &self.seen.watched, now) {
                Next::Rest => self.pause(EVERY).await,
                Next::Wait(until) => self.pause(until.saturating_sub(now)).await,
                Next::Look => {
                    if let Some(guard) = journal.as_ref().and_then(|j| j.guard.as_ref()) {
                        let look = self.look(guard).await;
                        self.seen.watched = self.seen.watched.and(look);
                    }
                }
                Next::Remove => {
                    if self.remove().await? {
                        return Ok(());
                    }
                }
                act @ (Next::StandDown | Next::Undo(_) | Next::Finish) => {
                    if self.act(act).await? {
                        return Ok(());
                    }
                    self.pause(EVERY).await;
                }
            }
        }
        Ok(())
    }

    /// A wait that the end cuts short.
    async fn pause(&self, time: Duration) {
        let _ = tokio::time::timeout(time, self.stop.cancelled()).await;
    }

    fn journal(&mut self) -> Result<Option<Journal>, Error> {
        let root = self.host.root();
        let stamp = disk::journal_stamp(root)?;
        if let (Some(stamp), Some((read, journal))) = (&stamp, &self.read)
            && stamp == read
        {
            return Ok(Some(journal.clone()));
        }
        let journal = disk::open_journal(root)?;
        self.read = stamp.zip(journal.clone());
        Ok(journal)
    }

    fn say(&mut self, error: &Error) {
        let text = machine::one_line(&error.to_string());
        if self.said != text {
            tracing::warn!(error = text, "waiting");
            self.said = text;
        }
    }

    async fn look(&self, guard: &Guard) -> Look {
        let at = self.started.elapsed();
        let kubelet = async {
            match guard.kubelet.as_deref().and_then(|address| address.parse().ok()) {
                Some(address) => health::kubelet(address).await,
                None => false,
            }
        };
        let (kubelet, api) = tokio::join!(kubelet, health::any_answers(&guard.servers));
        tracing::debug!(kubelet, api, "looked");
        Look { at, kubelet, api }
    }

    /// The node is well now; a guard that does not see it could only ever do harm.
    async fn see_that_all_is_well(&self, guard: &Guard) -> Result<(), Error> {
        loop {
            let look = self.look(guard).await;
            let healthy = look.kubelet || guard.kubelet.is_none();
            if healthy && look.api {
                return Ok(());
            }
            if self.started.elapsed() > FIRST_LOOK {
                let kubelet = guard.kubelet.as_deref().unwrap_or("nowhere");
                let found = |is: bool| if is { "answers" } else { "does not answer" };
                return Err(Error::Other(format!(
                    "from this host the kubelet at {kubelet} {}, the API server at {} {}: a node that does not look well \
                     before an update cannot be judged after it",
                    found(look.kubelet),
                    guard.servers.join(" or "),
                    found(look.api),
                )));
            }
            self.pause(EVERY).await;
            if self.stop.is_cancelled() {
                return Err(Error::Other("asked to stop".into()));
            }
        }
    }

    /// The lock of the state; none while a daemon runs.
    async fn lock(&self) -> Result<Option<Disk>, Error> {
        match Disk::open(Arc::clone(&self.host), Duration::ZERO).await {
            Ok(disk) => Ok(Some(disk)),
            Err(Error::Held(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes what is left of the guard, unless another update is open by now. Whether it has ended its service.
    async fn remove(&self) -> Result<bool, Error> {
        // A daemon removes it itself, and may be at leaving the next one.
        let Some(disk) = self.lock().await? else { return Ok(true) };
        if disk.stored()?.journal.is_some() {
            return Ok(false);
        }
        tracing::info!("no update is open: the guard is removed");
        unit::remove_self(&self.host).await.map(|()| true)
    }

    /// Carries out what needs the lock. Whether the guard has ended its service.
    async fn act(&mut self, act: Next) -> Result<bool, Error> {
        let Some(disk) = self.lock().await? else { return Ok(false) };
        // What was decided without the lock holds only if nothing has happened since.
        let Some(mut journal) = disk.stored()?.journal else { return Ok(false) };
        let before = self.seen.watched;
        self.seen.observe(&journal);
        let now = self.started.elapsed();
        if self.seen.watched != before || next(Some(&journal), &self.host.boot_id()?, &before, now) != act {
            return Ok(false);
        }
        match act {
            Next::StandDown => {
                tracing::info!(to = %journal.to.name, "this node is part of its cluster: the guard stands down");
                if let Some(guard) = &mut journal.guard {
                    guard.proven = true;
                }
                disk.write_journal(&journal)?;
                unit::remove_self(&self.host).await?;
            }
            Next::Undo(lost) => self.undo(disk, journal, Some(lost)).await?,
            _ => self.undo(disk, journal, None).await?,
        }
        Ok(true)
    }

    async fn undo(&self, disk: Disk, journal: Journal, lost: Option<Lost>) -> Result<(), Error> {
        if let Some(lost) = lost {
            let journal = machine::lost(journal, lost, &self.host.boot_id()?);
            tracing::warn!(reason = journal.failure, "no daemon runs: the update is undone");
            disk.write_journal(&journal)?;
        } else {
            tracing::info!(to = %journal.to.name, "no daemon runs: the undo goes on");
        }
        daemon::finish_undo(disk, WATCH_TIME, self.stop.clone()).await;
        Ok(())
    }
}
