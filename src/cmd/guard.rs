//! `mcx guard`: hidden; the process of the unit that a daemon leaves on its node for the time of an update.

use super::service;
use crate::logging;
use crate::node::guard::watch;
use crate::node::host::Host;
use anyhow::Context as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Arguments of `mcx guard`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The node's root directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    #[command(flatten)]
    log: logging::Args,
}

/// Runs until nothing is left to guard, or until SIGTERM.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    logging::init(&args.log)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(async {
        let stop = service::stop_on_signal()?;
        let host =
            Host::open(&args.root).with_context(|| format!("cannot open the node's root {}", args.root.display()))?;
        tracing::info!(root = %args.root.display(), version = env!("CARGO_PKG_VERSION"), "started");
        watch::run(Arc::new(host), tell_systemd, stop).await?;
        anyhow::Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Tells the service manager, if one has started this process, that it is at its place. It takes a lost word for a start
/// that did not work.
fn tell_systemd() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let told = UnixDatagram::unbound().and_then(|from| from.send_to(b"READY=1", PathBuf::from(socket)));
    if let Err(error) = told {
        tracing::warn!(%error, "cannot tell the service manager");
    }
}
