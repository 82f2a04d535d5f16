//! `mcx controller`: renders, hands out and drains, as one of several replicas of which one leads.

use crate::api::{NAMESPACE, NodeName};
use crate::logging;
use crate::pool::controller::{self, Options};
use crate::pool::handover::Myself;
use crate::pool::leader::Timing;
use crate::pool::world::Settings;
use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Kubernetes shows what stands here as the reason why a container ended.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Flags of `mcx controller`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  mcx controller --kubeconfig admin.kubeconfig --namespace mcx-system --log debug")]
pub struct Args {
    /// Namespace of the controller, the daemons and the lease
    #[arg(long, env = "POD_NAMESPACE", default_value = NAMESPACE)]
    namespace: String,
    /// Render when no source has changed for this long
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, env = "MCX_SETTLE")]
    settle: Duration,
    /// Render at the latest this long after the first change
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, env = "MCX_SETTLE_LIMIT")]
    settle_limit: Duration,
    /// A drain that takes longer is told about; it goes on
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration, env = "MCX_DRAIN_THRESHOLD")]
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
    let result = start(args);
    if let Err(error) = &result {
        last_words(Path::new(TERMINATION_LOG), &format!("{error:#}"));
    }
    result.map(|()| ExitCode::SUCCESS)
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
        let stop = stop_on_signal()?;
        let client = client(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
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

/// Cancelled at the first SIGTERM or SIGINT.
fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to stop");
        cancelled.cancel();
    });
    Ok(stop)
}

/// A client without retries of its own: a refused eviction must come back at once, and every request is bounded by us.
async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
            let what = || format!("cannot use {}", path.display());
            Config::from_custom_kubeconfig(file, &options).await.with_context(what)?
        }
        None if context.is_some() => Config::from_kubeconfig(&options).await.context("cannot use the kubeconfig")?,
        None => Config::infer().await.context(
            "no way to the API server: neither the service account of a pod nor a kubeconfig; use --kubeconfig",
        )?,
    };
    config.default_retry = false;
    Client::try_from(config).context("cannot make a client for the API server")
}

/// Leaves the reason of the end for Kubernetes to show, where a container runtime has made the file for it.
fn last_words(path: &Path, text: &str) {
    if path.is_file() {
        // Standard error has it too: nothing is lost when this fails.
        let _ = std::fs::write(path, format!("mcx: {}\n", text.replace('\n', " ")));
    }
}

fn lease_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_secs(5) || time.subsec_nanos() != 0 => {
            Err("must be whole seconds, at least 5s".to_owned())
        }
        time => Ok(time),
    }
}

/// `500ms`, `10s`, `5m`, `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is no time; write it as 500ms, 10s, 5m or 1h");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let number: u64 = text[..digits].parse().map_err(|_| expected())?;
    let times = |seconds: u64| number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(expected);
    match &text[digits..] {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => times(1),
        "m" => times(60),
        "h" => times(3600),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_their_unit() {
        for (text, time) in [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(time)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1.5s", "1d", "99999999999999999999s", "9999999999999999999h"] {
            assert!(duration(text).unwrap_err().contains("500ms"), "{text}");
        }
        assert!(lease_duration("10s").is_ok() && lease_duration("4s").is_err() && lease_duration("5500ms").is_err());
    }

    #[test]
    fn last_words_go_only_where_somebody_made_a_place_for_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("termination-log");
        last_words(&path, "no");
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        last_words(&path, "cannot\nstart");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mcx: cannot start\n");
    }
}
