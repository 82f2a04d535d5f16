//! The controller's life: caches on every replica, one that leads and writes, and what both tell.
//!
//! A leader goes round whenever something has changed, and once a second while anything is under way. Each step decides
//! from one snapshot; a step that fails is logged and tried again later, and does not stop the others.

use super::backoff::{Backoff, jitter, random};
use super::cache::one_line;
use super::caches::{Caches, Objects};
use super::door::{Door, Error};
use super::events::Events;
use super::handover::{Myself, may_stand, should_hand_over};
use super::leader::{Election, Held, Lost, NoRandomness, Timing, new_epoch, new_identity};
use super::membership::Membership;
use super::metrics::Metrics;
use super::rendering::Renderer;
use super::world::{Leader, Settings, World};
use super::{drain, policy, rollout, shipped, takeover};
use crate::api::protocol::NodeState;
use crate::api::{self, MachineConfig, MachineConfigPool, MachineConfiguration, condition};
use crate::serve;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use prometheus_client::registry::Registry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Changes within this time are looked at together.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Between rounds while something is under way.
const BUSY: Duration = Duration::from_secs(1);
/// Between rounds while nothing is.
const IDLE: Duration = Duration::from_secs(30);
/// After SIGTERM the round that is under way may take so long to end.
const LAST_ROUND: Duration = Duration::from_secs(5);
/// Custom resource definitions that are applied together with the controller may come so much later.
const CRDS_GRACE: Duration = Duration::from_secs(10);

/// What the controller is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Flags that decisions use.
    pub settings: Settings,
    /// Pod and node of this process.
    pub me: Myself,
    /// Of the election.
    pub timing: Timing,
    /// For metrics and probes.
    pub listen: SocketAddr,
}

/// What ends a controller: one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// The custom resource definitions are not there.
    #[error(
        "CustomResourceDefinition {plural}.{} is not installed; run `mcx crds | kubectl apply --server-side -f -`",
        api::GROUP
    )]
    NoCrd {
        /// Plural name of the kind.
        plural: String,
    },
    /// The identity may not do what the controller does.
    #[error("the API server does not let this identity list {plural}.{}; apply the RBAC of manifests/", api::GROUP)]
    Forbidden {
        /// Plural name of the kind.
        plural: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// No metrics and probes.
    #[error(transparent)]
    Serve(#[from] serve::Error),
    /// No epoch can be made.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// A task ended that never does.
    #[error("a part of the controller has stopped: {0}; see the log before this line")]
    Stopped(String),
}

/// Runs until `stop`. `client` must have `default_retry` off.
pub async fn run(client: Client, options: Options, stop: CancellationToken) -> Result<(), Fatal> {
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::new(&mut registry));
    let caches: Arc<tokio::sync::OnceCell<Arc<Caches>>> = Arc::default();
    let listener = serve::bind(options.listen).await?;
    let asked = Arc::clone(&caches);
    let ready = move || asked.get().is_some_and(|caches| caches.are_synced());
    let serving = serve::serve_on(listener, Arc::new(registry), ready);
    let working = async {
        let Some(()) = stop.run_until_cancelled(installed(&client)).await.transpose()? else { return Ok(()) };
        let mut tasks = JoinSet::new();
        let started = Arc::new(Caches::start(&client, &options.settings.namespace, &mut tasks));
        // Set once: a second caller does not exist.
        let _ = caches.set(Arc::clone(&started));
        let (events, publishing) = Events::start(client.clone(), api::DEPLOYMENT, options.me.pod.clone());
        tasks.spawn(publishing);
        let leases = Api::namespaced(client.clone(), &options.settings.namespace);
        let mut election = Election::new(leases, api::LEASE, new_identity(&options.me.pod)?, options.timing);
        let mut controller = Controller::new(&client, started, metrics, events, options);
        tokio::select! {
            done = controller.run(&mut election, &stop) => done,
            Some(ended) = tasks.join_next() => Err(Fatal::Stopped(ended.err().map_or_else(|| "a watch".into(), |e| e.to_string()))),
        }
    };
    tokio::select! {
        done = working => done,
        served = serving => Err(served.err().map_or_else(|| Fatal::Stopped("serving".into()), Fatal::Serve)),
    }
}

/// Waits until the API server answers for all kinds of ours.
async fn installed(client: &Client) -> Result<(), Fatal> {
    let begun = Instant::now();
    let mut backoff = Backoff::for_watches();
    loop {
        let kinds = async {
            listed::<MachineConfig>(client).await?;
            listed::<MachineConfigPool>(client).await?;
            listed::<MachineConfiguration>(client).await
        };
        match kinds.await {
            Ok(()) => return Ok(()),
            Err((plural, kube::Error::Api(status))) if status.code == 404 => {
                if begun.elapsed() >= CRDS_GRACE {
                    return Err(Fatal::NoCrd { plural });
                }
            }
            Err((plural, source @ kube::Error::Api(_))) if matches!(&source, kube::Error::Api(s) if s.code == 401 || s.code == 403) =>
            {
                return Err(Fatal::Forbidden { plural, source });
            }
            Err((plural, error)) => {
                tracing::warn!(kind = plural, error = %one_line(&error), "the API server does not answer, trying again");
            }
        }
        sleep(backoff.fail()).await;
    }
}

async fn listed<K>(client: &Client) -> Result<(), (String, kube::Error)>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug,
{
    let plural = || K::plural(&()).into_owned();
    let api: Api<kube::core::PartialObjectMeta<K>> = Api::all(client.clone());
    let params = ListParams::default().limit(1);
    match timeout(super::door::TIMEOUT, api.list(&params)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err((plural(), error)),
        Err(elapsed) => Err((plural(), kube::Error::Service(Box::new(elapsed)))),
    }
}

/// Why a leader's rounds ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// The process is to stop.
    Stop,
    /// The lease is lost.
    Lost(Lost),
    /// Another leader has taken over, or slots are gone: stand again with a new epoch.
    Deposed(String),
    /// Our node is drained and another replica can lead.
    HandOver,
}

/// One replica.
struct Controller {
    caches: Arc<Caches>,
    door: Door,
    metrics: Arc<Metrics>,
    events: Events,
    settings: Arc<Settings>,
    me: Myself,
    renderer: Renderer,
}

impl Controller {
    fn new(client: &Client, caches: Arc<Caches>, metrics: Arc<Metrics>, events: Events, options: Options) -> Self {
        let settings = Arc::new(options.settings);
        Self {
            caches,
            door: Door::new(client.clone()).counted(Arc::clone(&metrics)),
            metrics,
            events,
            me: options.me,
            renderer: Renderer::new(settings.settle, settings.settle_limit),
            settings,
        }
    }

    async fn run(&mut self, election: &mut Election, stop: &CancellationToken) -> Result<(), Fatal> {
        tracing::info!(pod = self.me.pod, node = ?self.me.node, version = env!("CARGO_PKG_VERSION"), "controller started");
        if stop.run_until_cancelled(self.synced()).await.is_none() {
            return Ok(());
        }
        while let Some(mut held) = self.stand(election, stop).await {
            let epoch = new_epoch()?;
            tracing::info!(%epoch, "leading");
            self.metrics.leads(true);
            let leader = Leader {
                door: self.door.clone(),
                epoch,
                settings: Arc::clone(&self.settings),
                events: self.events.clone(),
                metrics: Arc::clone(&self.metrics),
                rollout: Arc::default(),
            };
            let end = self.lead_while_held(&leader, election, &mut held, stop).await;
            self.metrics.leads(false);
            tracing::info!(?end, "not leading any longer");
            if !matches!(end, End::Lost(_)) {
                election.resign(held).await;
            }
            if end == End::Stop {
                return Ok(());
            }
            stop.run_until_cancelled(sleep(jitter(BUSY, random()))).await;
        }
        Ok(())
    }

    /// Waits for the first list of every kind.
    async fn synced(&self) {
        let mut last = Instant::now();
        while !self.caches.are_synced() {
            sleep(DEBOUNCE).await;
            if last.elapsed() > Duration::from_secs(15) {
                tracing::warn!(missing = ?self.caches.missing(), "still waiting for the first lists");
                last = Instant::now();
            }
        }
    }

    /// Waits for the lease, with open eyes. None when the process is to stop.
    async fn stand(&mut self, election: &mut Election, stop: &CancellationToken) -> Option<Held> {
        loop {
            let allowed = self.look().allowed;
            let mut standing = std::pin::pin!(election.stand());
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return None,
                    held = &mut standing, if allowed => return Some(held),
                    () = woken(&self.caches, self.renderer.next_due(), IDLE) => {
                        if self.look().allowed != allowed {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Takes everything in, and shows it.
    fn look(&mut self) -> Seen {
        let (mut world, objects) = self.caches.snapshot(Timestamp::now());
        let observed = self.renderer.observe(&mut world, &objects, Instant::now());
        self.metrics.rendered(observed.rendered, observed.refused);
        let unmanaged = Membership::new(&world.pools, &world.nodes).unmanaged.len();
        self.metrics.show(&world, unmanaged, Renderer::unselected(&world, &objects).len());
        let allowed = may_stand(&world, &self.me, &objects.pods);
        Seen { world, objects, allowed }
    }

    /// The lease is kept whatever the rounds do, and its loss cuts them off.
    async fn lead_while_held(
        &mut self,
        leader: &Leader,
        election: &mut Election,
        held: &mut Held,
        stop: &CancellationToken,
    ) -> End {
        let hard_stop = async {
            stop.cancelled().await;
            sleep(LAST_ROUND).await;
        };
        tokio::select! {
            biased;
            lost = election.keep(held) => End::Lost(lost),
            () = hard_stop => End::Stop,
            end = self.lead(leader, stop) => end,
        }
    }

    async fn lead(&mut self, leader: &Leader, stop: &CancellationToken) -> End {
        self.renderer.begin_term();
        let mut backoff = Backoff::new(BUSY, IDLE);
        let mut taken_over = false;
        // Dropped with this leadership, and all that it has under way with it.
        let drainer = drain::Drainer::new();
        loop {
            let round = self.round(leader, &drainer, &mut taken_over, stop).await;
            if stop.is_cancelled() {
                return End::Stop;
            }
            let pause = match round {
                Ok(Round { hand_over: true, .. }) => return End::HandOver,
                Ok(Round { again, .. }) => {
                    backoff.succeed();
                    again
                }
                Err(error) if error.stops_leading() => return End::Deposed(one_line(&error)),
                Err(error) => {
                    let pause = backoff.fail();
                    tracing::warn!(error = %one_line(&error), ?pause, "a step failed, it is tried again");
                    sleep(pause.min(BUSY)).await;
                    pause
                }
            };
            let due = self.renderer.next_due();
            tokio::select! {
                biased;
                () = stop.cancelled() => return End::Stop,
                () = woken(&self.caches, due, pause) => {}
            }
        }
    }

    /// Looks at everything once and does what is to do. All steps are tried; the first error is returned.
    async fn round(
        &mut self,
        leader: &Leader,
        drainer: &drain::Drainer,
        taken_over: &mut bool,
        stop: &CancellationToken,
    ) -> Result<Round, Error> {
        if !*taken_over {
            // Nothing is written before the old leader's pending writes are sure to fail.
            takeover::take_over(leader).await?;
            *taken_over = true;
            tracing::info!(epoch = %leader.epoch, "took over all pools");
        }
        let Seen { mut world, objects, .. } = self.look();
        let mut errors = Errors::default();
        errors.take(shipped::sync(leader, &world, &objects).await)?;
        errors.take(policy::sync(leader, &objects, world.now.unwrap_or_else(Timestamp::now)).await)?;
        errors.take(self.renderer.publish(leader, &mut world, &objects).await)?;
        if stop.is_cancelled() {
            return Ok(Round::default());
        }
        let again = errors.take(rollout::sync(leader, &world).await)?.flatten();
        if stop.is_cancelled() {
            return Ok(Round::default());
        }
        errors.take(drainer.sync(leader, &world))?;
        let hand_over = should_hand_over(&world, &self.me, &objects.pods);
        let busy = drainer.is_busy() || is_busy(&world);
        let again = again.unwrap_or(IDLE).min(if busy { BUSY } else { IDLE });
        errors.first.map_or(Ok(Round { hand_over, again }), Err)
    }
}

/// What a round found.
#[derive(Debug, Default, Clone, Copy)]
struct Round {
    hand_over: bool,
    /// When the next one is due though nothing changes.
    again: Duration,
}

/// Errors of the steps of a round. One that stops the leadership ends the round, any other lets the next steps run.
#[derive(Debug, Default)]
struct Errors {
    first: Option<Error>,
}

impl Errors {
    fn take<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.stops_leading() => Err(error),
            Err(error) => {
                if self.first.is_some() {
                    tracing::warn!(error = %one_line(&error), "another step failed too");
                } else {
                    self.first = Some(error);
                }
                Ok(None)
            }
        }
    }
}

/// One look at everything.
struct Seen {
    world: World,
    objects: Objects,
    allowed: bool,
}

/// Returns after a change and a moment more, when a burst of edits is over, or after `pause`.
async fn woken(caches: &Caches, due: Option<Instant>, pause: Duration) {
    let latest = Instant::now() + pause;
    tokio::select! {
        () = caches.changed() => sleep(DEBOUNCE).await,
        () = sleep_until(due.map_or(latest, |due| due.min(latest))) => {}
    }
}

/// Whether anything is under way that time alone moves on: drains, leases, thresholds.
fn is_busy(world: &World) -> bool {
    let node_is = world.nodes.values().any(|n| {
        n.mark.is_some() || n.desired_drain != n.applied_drain || n.state.is_some_and(|s| s != NodeState::Done) || {
            n.desired.is_some() && n.desired != n.current
        }
    });
    let pool_is = world.pools.values().any(|pool| {
        let slots = super::door::slots(pool).is_some_and(|s| !s.nodes.is_empty());
        let conditions = pool.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let updated = conditions.into_iter().any(|c| c.type_ == condition::UPDATED && c.status == "True");
        slots || !updated
    });
    node_is || pool_is || world.rendering.values().any(|r| r.pending)
}

#[cfg(test)]
mod tests;
