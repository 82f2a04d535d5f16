//! The loop that ties the daemon together: the watch of its Node, events and sweeps of the disk, signals.
//!
//! A step is never cancelled by an event: it ends, and the situation is looked at again. Nor is it by a signal, unless it
//! only talks to the API server. What each step does
//! is in `steps`; what it does about the guard, in `guarding`.

mod guarding;
mod metrics;
mod steps;

pub use metrics::Metrics;

use super::cluster::{self, Cluster};
use super::disk::Disk;
use super::host;
use super::journal::{Journal, NamedConfig};
use super::machine::{self, Moment, OwnNode, Read, Situation, Step, Waiting, Work};
use crate::api::protocol::DRIFT_PREFIX;
use crate::api::{ConfigName, STATE_DIR};
use crate::render::items::Items;
use futures::StreamExt as _;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// First and longest wait after a request that was not answered.
const API_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Longest wait until a phase is told: what happens to the node does not wait for who is told of it.
const TELL_TIME: Duration = Duration::from_secs(5);
/// How long the watch of the disk waits before it is set up again after a failure; the sweep works meanwhile.
const REWATCH: Duration = Duration::from_secs(10);
/// Sweep of a node that says it drifted, since what is put right shall be seen soon even if the event was missed; and of
/// one whose disk cannot be watched (a host may run out of inotify instances).
const SHORT_SWEEP: Duration = Duration::from_secs(10);

/// How the daemon works.
#[derive(Debug, Clone)]
pub struct Options {
    /// Between two comparisons of the whole disk.
    pub sweep: Duration,
    /// For how long units are watched after their action.
    pub watch_time: Duration,
    /// For how long, after actions that can take the node away from its cluster, the proof is waited for that they did not.
    pub patience: Duration,
    /// Where the kubelet serves `/healthz`.
    pub kubelet: SocketAddr,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sweep: Duration::from_mins(1),
            watch_time: Duration::from_secs(5),
            patience: Duration::from_mins(10),
            kubelet: SocketAddr::from(([127, 0, 0, 1], 10248)),
        }
    }
}

/// Why the daemon ends without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk cannot be used at all.
    #[error("cannot use the node's disk")]
    Disk(#[from] host::Error),
}

/// Why a step was not carried out.
enum Trouble {
    /// The API server: it is asked again later.
    Api(cluster::Error),
    /// The node.
    Node(Work, host::Error),
    /// It is noted already.
    Noted,
}

impl From<cluster::Error> for Trouble {
    fn from(error: cluster::Error) -> Self {
        Self::Api(error)
    }
}

/// For `map_err`.
fn at(work: Work) -> impl FnOnce(host::Error) -> Trouble {
    move |error| Trouble::Node(work, error)
}

/// What the watch has seen: nothing yet, or a Node or its absence.
type Seen = Option<Option<OwnNode>>;

/// A task that ends with whoever started it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Daemon {
    disk: Arc<Disk>,
    /// None while the guard of the host finishes an undo: nobody is told then.
    cluster: Option<Cluster>,
    options: Options,
    metrics: Metrics,
    ready: Arc<AtomicBool>,
    started: Instant,
    s: Situation,
    /// What the configs that are in use mean.
    items: BTreeMap<ConfigName, Arc<Items>>,
    /// Bodies of rendered configs that were fetched and not adopted yet.
    bodies: BTreeMap<ConfigName, NamedConfig>,
    /// Unanswered requests in a row, and when the next may be made.
    api: (u32, Moment),
    /// Patches in a row that met a changed Node.
    stale: u32,
    swept: Moment,
    watching: Option<(Arc<Items>, Task)>,
    /// The disk cannot be watched just now.
    blind: Arc<AtomicBool>,
    events: (mpsc::Sender<()>, mpsc::Receiver<()>),
    /// The wait that was logged last.
    said: Option<Waiting>,
}

/// Runs until `stop`. `ready` becomes true when the state on disk and the Node are known.
pub async fn run(
    disk: Disk,
    cluster: Cluster,
    options: Options,
    metrics: Metrics,
    ready: Arc<AtomicBool>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let (send, seen) = watch::channel::<Seen>(None);
    let mut nodes = Box::pin(cluster.watch());
    let _watching = Task(tokio::spawn(async move {
        while let Some(node) = nodes.next().await {
            if send.send(Some(node)).is_err() {
                return;
            }
        }
    }));
    let mut daemon = Daemon::new(disk, Some(cluster), options, metrics, ready);
    daemon.work(seen, &stop).await;
    Ok(())
}

/// Finishes the undo that the journal says is under way, without an API server and without telling anybody, as a daemon
/// does whose API server is away. Ends with the transaction, or at `stop`; a reboot that is asked for is waited for.
pub async fn finish_undo(disk: Disk, watch_time: Duration, stop: CancellationToken) {
    let options = Options { watch_time, ..Options::default() };
    let mut daemon = Daemon::new(disk, None, options, Metrics::default(), Arc::default());
    daemon.s.read = Read::Away { since: Moment::ZERO, last: Moment::ZERO };
    // Nothing is ever seen, and the sender lives as long as the loop.
    let (_send, seen) = watch::channel::<Seen>(None);
    daemon.work(seen, &stop).await;
}

impl Daemon {
    fn new(disk: Disk, cluster: Option<Cluster>, options: Options, metrics: Metrics, ready: Arc<AtomicBool>) -> Self {
        Self {
            disk: Arc::new(disk),
            cluster,
            options,
            metrics,
            ready,
            started: Instant::now(),
            s: Situation::default(),
            items: BTreeMap::new(),
            bodies: BTreeMap::new(),
            api: (0, Moment::ZERO),
            stale: 0,
            swept: Moment::ZERO,
            watching: None,
            blind: Arc::default(),
            events: mpsc::channel(1),
            said: None,
        }
    }

    /// The requests to the API server, if there is one.
    fn cluster(&self) -> Result<&Cluster, cluster::Error> {
        self.cluster.as_ref().ok_or_else(|| cluster::Error::Away("nobody asks it".into()))
    }

    /// Whether there is nothing more to do for who came to finish an undo.
    fn is_finished(&self) -> bool {
        let open = |journal: &Journal| journal.failure.is_some();
        self.cluster.is_none() && self.s.held.as_ref().is_some_and(|held| !held.journal.as_ref().is_some_and(open))
    }

    async fn work(&mut self, mut seen: watch::Receiver<Seen>, end: &CancellationToken) {
        while !end.is_cancelled() && !self.is_finished() {
            self.look(&mut seen);
            let step = machine::next(&self.s);
            if let Step::Wait { why, until } = step {
                if self.said != Some(why) {
                    tracing::info!("{why}");
                    self.said = Some(why);
                }
                self.wait(&mut seen, end, until).await;
                continue;
            }
            if talks(&step) && self.s.now < self.api.1 {
                self.wait(&mut seen, end, Some(self.api.1)).await;
                continue;
            }
            if !looks(&step) {
                self.said = None;
            }
            let was_read = matches!(step, Step::ReadNode);
            let work = step.work();
            // What only talks is never waited for by a signal: an answer that comes later is looked for by the next daemon.
            let only_talks = talks(&step) || matches!(step, Step::ReadNode | Step::Look);
            let executed = tokio::select! {
                biased;
                () = end.cancelled(), if only_talks => break,
                executed = self.execute(step) => executed,
            };
            match executed {
                Ok(()) => {
                    if let Some(work) = work {
                        self.s.memory.note_success(work);
                    }
                }
                Err(Trouble::Node(work, error)) => self.node_trouble(work, &error),
                Err(Trouble::Noted) => {}
                Err(Trouble::Api(error)) => tokio::select! {
                    biased;
                    () = end.cancelled() => break,
                    () = self.api_trouble(&error) => {}
                },
            }
            if !was_read && self.s.read == Read::Fresh {
                self.s.read = Read::Cached;
            }
        }
        if !self.is_finished() {
            tracing::info!("stopped between two steps");
        }
    }

    fn now(&self) -> Moment {
        self.started.elapsed()
    }

    /// Brings the cheap part of the situation up to date.
    fn look(&mut self, seen: &mut watch::Receiver<Seen>) {
        self.s.now = self.now();
        if self.s.held.is_some() && self.disk.is_lost() {
            tracing::warn!("{STATE_DIR} was removed: looking for what this node has");
            self.forget_state();
        }
        if seen.has_changed().unwrap_or(false) {
            self.take(seen.borrow_and_update().clone());
        }
        if self.events.1.try_recv().is_ok() {
            self.forget_looks();
        }
        let sweep = self.sweep();
        if self.s.now.saturating_sub(self.swept) >= sweep {
            self.swept = self.s.now;
            self.forget_looks();
            if !self.blind.load(Ordering::Relaxed) {
                // A folder can become another without a word, as below a mount: which ones are watched is looked up anew.
                self.watching = None;
            }
        }
        self.s.force = self.disk.host().force_file();
        if self.s.boot_id.is_none() {
            self.s.boot_id = self.disk.host().boot_id().ok();
        }
        let failed = self.s.held.as_ref().and_then(|h| h.failed.as_ref()).map(|f| &f.config);
        self.s.memory.observe(self.s.now, self.s.node.as_ref(), failed);
        self.watch_disk();
        self.metrics.show_state(self.s.node.as_ref().and_then(|n| n.state));
        if self.s.held.is_some() && seen.borrow().is_some() {
            self.ready.store(true, Ordering::Relaxed);
        }
    }

    /// Time between two sweeps, as things are.
    fn sweep(&self) -> Duration {
        let soon = self.says_drift() || self.blind.load(Ordering::Relaxed);
        if soon { SHORT_SWEEP.min(self.options.sweep) } else { self.options.sweep }
    }

    fn says_drift(&self) -> bool {
        self.s.node.as_ref().and_then(|n| n.reason.as_deref()).is_some_and(|r| r.starts_with(DRIFT_PREFIX))
    }

    fn take(&mut self, seen: Seen) {
        let Some(node) = seen else { return };
        let is_news = match (&self.s.node, &node) {
            (Some(old), Some(new)) => old.is_older_than(new),
            _ => true,
        };
        if is_news {
            self.s.node = node;
            self.s.read = Read::Cached;
            self.api = (0, Moment::ZERO);
        }
    }

    /// The disk may have changed: what was seen of it no longer counts.
    fn forget_looks(&mut self) {
        self.s.compared = None;
        if let Some(checked) = &mut self.s.checked {
            // Looked at again now, but its back-off goes on: something that changes all the time is no reason to spin.
            checked.at = checked.at.saturating_sub(Duration::from_hours(1));
            if checked.result.drift.is_empty() && checked.result.obstacles.is_empty() {
                self.s.checked = None;
            }
        }
    }

    /// What is known of the state on disk no longer counts.
    fn forget_state(&mut self) {
        self.s.held = None;
        self.forget_looks();
        self.watching = None;
    }

    /// Has the disk watched for what the current config manages.
    fn watch_disk(&mut self) {
        let name = self.s.held.as_ref().and_then(|h| h.current.clone()).unwrap_or_default();
        let Ok(items) = self.items_of(&name) else { return };
        if self.watching.as_ref().is_some_and(|(watched, task)| Arc::ptr_eq(watched, &items) && !task.0.is_finished()) {
            return;
        }
        let (disk, of, tell) = (Arc::clone(&self.disk), Arc::clone(&items), self.events.0.clone());
        let blind = Arc::clone(&self.blind);
        let task = tokio::spawn(async move {
            loop {
                match disk.changed(&of).await {
                    // One that waits to be taken says as much as two.
                    Ok(()) => {
                        blind.store(false, Ordering::Relaxed);
                        let _ = tell.try_send(());
                    }
                    Err(error) => {
                        if !blind.swap(true, Ordering::Relaxed) {
                            tracing::warn!(error = text(&error), "cannot watch the disk: it is swept more often");
                        }
                        // Wakes the loop, whose next sweep may be far away.
                        let _ = tell.try_send(());
                        tokio::time::sleep(REWATCH).await;
                    }
                }
            }
        });
        self.watching = Some((items, Task(task)));
    }

    async fn wait(&mut self, seen: &mut watch::Receiver<Seen>, stop: &CancellationToken, until: Option<Moment>) {
        let sweep = self.swept + self.sweep();
        let until = until.map_or(sweep, |u| u.min(sweep));
        let left = until.saturating_sub(self.now()).max(Duration::from_millis(1));
        tokio::select! {
            () = stop.cancelled() => {}
            changed = seen.changed() => {
                if changed.is_err() {
                    // The watch never ends by itself; without it there are still timers.
                    tokio::time::sleep(left).await;
                } else {
                    self.take(seen.borrow_and_update().clone());
                }
            }
            _ = self.events.1.recv() => self.forget_looks(),
            () = tokio::time::sleep(left) => {}
        }
        if self.s.read == Read::Fresh {
            self.s.read = Read::Cached;
        }
    }

    fn node_trouble(&mut self, work: Work, error: &host::Error) {
        let text = text(error);
        self.s.memory.note_trouble(work, text.clone(), self.now());
        let count = self.s.memory.trouble.as_ref().map_or(0, |t| t.count);
        tracing::warn!(?work, count, error = text, "that did not work");
        if work == Work::Record {
            // What is on disk now is not known any more.
            self.s.held = None;
        }
    }

    async fn api_trouble(&mut self, error: &cluster::Error) {
        if matches!(error, cluster::Error::Stale(_)) && self.stale < 3 {
            self.stale += 1;
            tracing::debug!(%error, "looking at the Node again");
            if let Ok(cluster) = self.cluster()
                && let Ok(node) = cluster.node().await
            {
                self.s.node = node;
                return;
            }
        }
        self.ask_later(error);
    }

    /// The API server is left alone for a while.
    fn ask_later(&mut self, error: &cluster::Error) {
        self.stale = 0;
        let count = self.api.0 + 1;
        let asked = if let cluster::Error::Busy(_, asked) = error { *asked } else { Duration::ZERO };
        let wait = machine::back_off(API_WAIT.0, count, API_WAIT.1);
        self.api = (count, self.now() + asked.max(jittered(wait)));
        if count == 1 || count.is_multiple_of(10) {
            tracing::warn!(%error, count, "the API server is asked again later");
        }
    }

    fn api_answered(&mut self) {
        self.api = (0, Moment::ZERO);
        self.stale = 0;
    }
}

/// Whether the step is a request to the API server that waits for its back-off.
fn talks(step: &Step) -> bool {
    matches!(
        step,
        Step::Fetch(_) | Step::Plan { forced: false, .. } | Step::Report { .. } | Step::Claim { .. } | Step::Ask { .. }
    )
}

/// Whether the step only looks: what is waited for is still the same.
fn looks(step: &Step) -> bool {
    matches!(step, Step::Compare(_) | Step::Check { .. } | Step::Fetch(_) | Step::ReadNode | Step::Look)
}

/// Between half of `wait` and all of it: nodes that lost the API together do not come back together.
fn jittered(wait: Duration) -> Duration {
    let random = std::hash::RandomState::new().build_hasher().finish();
    let part = u32::try_from(random % 1000).unwrap_or_default();
    wait / 2 + wait / 2 * part / 1000
}

/// An error and its cause on one line.
fn text(error: &host::Error) -> String {
    let cause = std::error::Error::source(error).map(|c| format!(": {c}")).unwrap_or_default();
    machine::one_line(&format!("{error}{cause}"))
}
