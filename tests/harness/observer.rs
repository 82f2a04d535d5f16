//! An observer from outside: it watches the Nodes and says when mcx takes one although as many as the limit are already
//! unavailable. It knows nothing of slots or leaders: only what any client of the API server can see.

use super::{NodeView, Rig};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One change of a Node.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Since the observer began.
    pub at: Duration,
    pub view: NodeView,
}

/// The rule itself, fed with one view after the other in the order of the API server.
pub struct Judge {
    limit: usize,
    nodes: BTreeMap<String, Tracked>,
}

struct Tracked {
    view: NodeView,
    /// When it became unavailable; none while it is available.
    since: Option<Duration>,
    /// Since then, by a decision of mcx.
    taken: bool,
}

impl Judge {
    /// At most `limit` of the nodes may be unavailable when mcx takes one.
    pub fn new(limit: usize) -> Self {
        Self { limit, nodes: BTreeMap::new() }
    }

    /// The node is gone.
    pub fn forget(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Takes note of a view; the violation if it is one.
    pub fn see(&mut self, at: Duration, view: NodeView) -> Option<String> {
        let before = self.nodes.get(&view.name);
        // The first view of a node is where it starts from, not a decision.
        let handed = before.is_some_and(|b| !b.view.unavailable() && b.view.desired != view.desired && view.behind());
        let cordoned =
            before.is_some_and(|b| !b.view.unschedulable) && view.unschedulable && view.cordoned_by.is_some();
        let known = |t: &Tracked| t.taken || t.since.is_some_and(|since| at.saturating_sub(since) >= Observer::SKEW);
        let others = |is: &dyn Fn(&NodeView) -> bool| -> Vec<String> {
            let others = self.nodes.values().filter(|t| t.view.name != view.name && is(&t.view) && known(t));
            others.map(|t| t.view.line()).collect()
        };
        // A node that was handed out may lose its turn before the cordon: until then it still serves.
        let (what, away) = match (handed, cordoned) {
            (true, _) => ("given a config", others(&NodeView::unavailable)),
            (_, true) => ("cordoned", others(&|v| v.unschedulable || !v.ready)),
            _ => ("", Vec::new()),
        };
        let violation = (away.len() >= self.limit && !what.is_empty()).then(|| {
            format!(
                "at {:.2} s {} was {what} while {} of at most {} were unavailable already: {}",
                at.as_secs_f32(),
                view.name,
                away.len(),
                self.limit,
                away.join("; ")
            )
        });
        let unavailable = view.unavailable();
        let since = before.and_then(|b| b.since).or(Some(at)).filter(|_| unavailable);
        let taken = unavailable && (handed || cordoned || before.is_some_and(|b| b.taken));
        self.nodes.insert(view.name.clone(), Tracked { view, since, taken });
        violation
    }
}

#[derive(Default)]
struct Log {
    seen: Vec<Seen>,
    violations: Vec<String>,
    lost: Option<String>,
}

/// Watches nodes in a thread of its own until it is finished.
pub struct Observer {
    log: Arc<Mutex<Log>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Observer {
    /// For so long a node that fails by itself may be unknown to a controller that decides at this moment.
    pub const SKEW: Duration = Duration::from_secs(1);

    /// Watches `nodes`, of which at most `limit` may be unavailable when mcx takes one. Returns once it sees them.
    pub fn start(rig: &Rig, nodes: &[&str], limit: usize) -> Self {
        let log = Arc::new(Mutex::new(Log::default()));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (client, names, shared) =
            (rig.client.clone(), nodes.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), Arc::clone(&log));
        let handle = rig.runtime.handle().clone();
        let thread = std::thread::spawn(move || {
            handle.block_on(async {
                tokio::select! {
                    () = watch(client, names, limit, &shared) => {}
                    _ = stopped => {}
                }
            });
        });
        let observer = Self { log, stop: Some(stop), thread: Some(thread) };
        rig.eventually(Duration::from_secs(20), "the observer sees the nodes", || {
            let seen = observer.history();
            match nodes.iter().find(|n| !seen.iter().any(|s| s.view.name == **n)) {
                None => Ok(()),
                Some(missing) => Err(format!("not {missing}")),
            }
        });
        observer
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was seen so far, in order.
    pub fn history(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    /// What was seen of one node.
    pub fn of(&self, node: &str) -> Vec<Seen> {
        self.history().into_iter().filter(|s| s.view.name == node).collect()
    }

    /// The nodes in the order in which they were given `config`.
    pub fn order(&self, config: &str) -> Vec<String> {
        let mut order = Vec::new();
        for seen in self.history() {
            if seen.view.desired == config && !order.contains(&seen.view.name) {
                order.push(seen.view.name);
            }
        }
        order
    }

    /// The different boots of a node, in order.
    pub fn boots(&self, node: &str) -> Vec<String> {
        let mut boots: Vec<String> = self.of(node).into_iter().map(|s| s.view.boot_id).collect();
        boots.dedup();
        boots
    }

    /// Whether `is` was ever true of a view of the node.
    pub fn ever(&self, node: &str, is: impl Fn(&NodeView) -> bool) -> bool {
        self.of(node).iter().any(|s| is(&s.view))
    }

    /// The node's way, one word for each change of state, phase or cordon: for messages.
    pub fn way(&self, node: &str) -> String {
        let mut way: Vec<String> = Vec::new();
        for seen in self.of(node) {
            let v = seen.view;
            let line = format!("{} {}{}", v.state, v.phase, if v.unschedulable { " cordoned" } else { "" });
            if way.last() != Some(&line) {
                way.push(line);
            }
        }
        way.join(" → ")
    }

    /// Ends the watch; the test fails if mcx took a node too many.
    pub fn finish(mut self) -> Vec<Seen> {
        self.end();
        let log = self.lock();
        assert_eq!(log.lost, None, "the observer lost sight of the nodes");
        assert!(log.violations.is_empty(), "mcx went beyond maxUnavailable:\n{}", log.violations.join("\n"));
        log.seen.clone()
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.end();
    }
}

async fn watch(client: Client, names: Vec<String>, limit: usize, log: &Mutex<Log>) {
    let start = Instant::now();
    let mut judge = Judge::new(limit);
    let mut events = watcher::watcher(Api::<Node>::all(client), watcher::Config::default()).boxed();
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            // The watcher comes back by itself; it lists again, so nothing that lasts is missed.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init | Event::InitDone => {}
            Event::Delete(node) => judge.forget(node.metadata.name.as_deref().unwrap_or_default()),
            Event::InitApply(node) | Event::Apply(node) => {
                let view = match serde_json::to_value(&node) {
                    Ok(json) => NodeView::from_json(&json),
                    Err(error) => {
                        log.lost = Some(error.to_string());
                        return;
                    }
                };
                if !names.contains(&view.name) {
                    continue;
                }
                let at = start.elapsed();
                log.violations.extend(judge.see(at, view.clone()));
                log.seen.push(Seen { at, view });
            }
        }
    }
}
