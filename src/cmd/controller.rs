//! `mcx controller`: renders, hands out and drains, as one of several replicas of which one leads.

use super::{kubeconfig, service};
use crate::api::{NAMESPACE, NodeName};
use crate::logging;
use crate::pool::controller::{self, Options};
use crate::pool::handover::Myself;
use crate::pool::leader::Timing;
use crate::pool::world::Settings;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Flags of `mcx controller`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  mcx controller --kubeconfig admin.kubeconfig --namespace mcx-system --log debug")]
pub struct Args {
    /// Namespace of the controller, the daemons and the lease
    #[arg(long, env = "POD_NAMESPACE", default_value = NAMESPACE)]
    namespace: String,
    /// Render when no source has changed for this long
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = service::duration, env = "MCX_SETTLE")]
    settle: Duration,
    /// Render at the latest this long after the first change
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = service::duration, env = "MCX_SETTLE_LIMIT")]
    settle_limit: Duration,
    /// A drain that takes longer is told about; it goes on
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = service::duration, env = "MCX_DRAIN_THRESHOLD")]
    drain_threshold: Duration,
    /// Unused rendered configs kept per pool
    #[arg(long, value_name = "N", default_value_t = 5, env = "MCX_KEEP_RENDERED")]
    keep_rendered: usize,
    /// Address of /metrics, /healthz and /readyz
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:9080", env = "MCX_LISTEN")]
    listen: SocketAddr,
    /// For how long a leader leads after a renewal; it renews five times as often
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = lease_duration, env = "MCX_LEASE_DURATION")]
    lease_duration: Duration,
    /// Kubeconfig; without it the pod's service account, or else as kubectl finds it
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Name of the pod this runs in
    #[arg(long, hide = true, env = "POD_NAME", default_value = "controller")]
    pod: String,
    /// Name of the node this runs on
    #[arg(long, hide = true, env = "NODE_NAME")]
    node: Option<String>,
    #[command(flatten)]
    log: logging::Args,
}

/// Runs until SIGTERM or SIGINT.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    service::last_words(start(args)).map(|()| ExitCode::SUCCESS)
}

fn start(args: &Args) -> anyhow::Result<()> {
    logging::init(&args.log)?;
    anyhow::ensure!(
        args.settle <= args.settle_limit,
        "--settle is {:?} and --settle-limit {:?}: the limit must not be shorter",
        args.settle,
        args.settle_limit
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let stop = service::stop_on_signal()?;
        // Without retries of its own: a refused eviction must come back at once, and every request is bounded by us.
        let way = kubeconfig::Args { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
        let client = way.client().await?;
        let options = Options {
            settings: Settings {
                drain_threshold: args.drain_threshold,
                settle: args.settle,
                settle_limit: args.settle_limit,
                keep_rendered: args.keep_rendered,
                namespace: args.namespace.clone(),
            },
            me: Myself { pod: args.pod.clone(), node: args.node.clone().map(NodeName::from) },
            timing: Timing::new(args.lease_duration),
            listen: args.listen,
        };
        Box::pin(controller::run(client, options, stop)).await?;
        anyhow::Ok(())
    })
}

fn lease_duration(text: &str) -> Result<Duration, String> {
    match service::duration(text)? {
        time if time < Duration::from_secs(5) || time.subsec_nanos() != 0 => {
            Err("must be whole seconds, at least 5s".to_owned())
        }
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_whole_seconds_and_not_too_short_to_renew() {
        assert!(lease_duration("10s").is_ok() && lease_duration("4s").is_err() && lease_duration("5500ms").is_err());
    }
}
