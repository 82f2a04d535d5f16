//! `mcx daemon`: keeps one node at its desired config.

use super::service;
use crate::api::NodeName;
use crate::node::cluster::{self, Cluster};
use crate::node::daemon::{self, Metrics, Options};
use crate::node::disk::Disk;
use crate::node::host::Host;
use crate::{logging, serve};
use anyhow::Context as _;
use prometheus_client::registry::Registry;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// For how long another daemon of this node is waited for: the DaemonSet replaces its pods one after another.
const LOCK_PATIENCE: Duration = Duration::from_mins(2);

/// Flags of `mcx daemon`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  mcx daemon --root / --node-name w1 --kubeconfig /etc/mcx/kubeconfig")]
pub struct Args {
    /// The node's root directory
    #[arg(long, value_name = "DIR", default_value = "/host", env = "MCX_ROOT")]
    root: PathBuf,
    /// Name of the node this runs on
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: String,
    /// Kubeconfig; without it the pod's service account
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Address of /metrics, /healthz and /readyz
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9081", env = "MCX_LISTEN")]
    listen: SocketAddr,
    /// Compare the whole disk this often, besides every event
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = service::duration, env = "MCX_SWEEP")]
    sweep: Duration,
    /// Watch units for this long after the last action
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = service::duration, env = "MCX_WATCH_TIME")]
    watch_time: Duration,
    /// Undo an update whose actions left the node without its kubelet or the API server for this long
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = service::duration, env = "MCX_GUARD_TIMEOUT")]
    guard_timeout: Duration,
    /// Address at which the kubelet serves /healthz
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:10248", env = "MCX_KUBELET_HEALTHZ")]
    kubelet_healthz: SocketAddr,
    #[command(flatten)]
    log: logging::Args,
}

/// A node whose kubelet takes its time to come up must not be taken for lost; one that is lost must come back some day.
const GUARD_TIMES: std::ops::RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_hours(1);

/// Runs until SIGTERM or SIGINT.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    service::last_words(start(args)).map(|()| ExitCode::SUCCESS)
}

fn start(args: &Args) -> anyhow::Result<()> {
    logging::init(&args.log)?;
    anyhow::ensure!(!args.sweep.is_zero(), "--sweep is 0: give the time between two comparisons, such as 60s");
    anyhow::ensure!(
        GUARD_TIMES.contains(&args.guard_timeout),
        "--guard-timeout is {} s: give a time from 10s to 1h",
        args.guard_timeout.as_secs()
    );
    anyhow::ensure!(!args.node_name.is_empty(), "--node-name is empty: give the name of this node's Node object");
    // One thread: the daemon does one thing at a time, and an idle one should cost a node next to nothing.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(serve_node(args))
}

async fn serve_node(args: &Args) -> anyhow::Result<()> {
    let stop = service::stop_on_signal()?;
    let mut registry = Registry::default();
    let metrics = Metrics::default();
    metrics.register(&mut registry);
    let ready = Arc::new(AtomicBool::new(false));
    let listener = serve::bind(args.listen).await?;
    let asked = Arc::clone(&ready);
    let serving = serve::serve_on(listener, Arc::new(registry), move || asked.load(Ordering::Relaxed));
    let way = cluster::way(args.kubeconfig.as_deref(), &args.root).await?;
    let cluster = Cluster::connect(way, NodeName::from(args.node_name.as_str()))?;
    let host =
        Host::open(&args.root).with_context(|| format!("cannot open the node's root {}", args.root.display()))?;
    let working = async {
        let disk = Disk::open(Arc::new(host), LOCK_PATIENCE).await?;
        disk.keep_for(&NodeName::from(args.node_name.as_str()))?;
        tracing::info!(node = args.node_name, root = %args.root.display(), version = env!("CARGO_PKG_VERSION"), "started");
        let options = Options {
            sweep: args.sweep,
            watch_time: args.watch_time,
            patience: args.guard_timeout,
            kubelet: args.kubelet_healthz,
        };
        daemon::run(disk, cluster, options, metrics, ready, stop.clone()).await?;
        anyhow::Ok(())
    };
    tokio::pin!(working);
    tokio::select! {
        result = &mut working => result,
        result = serving => {
            // A daemon without probes is replaced; what it is at is ended first.
            stop.cancel();
            working.await?;
            result.context("metrics and probes ended")
        }
    }
}
