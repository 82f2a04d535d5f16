//! The way to an API server: `--kubeconfig` and `--context`, as kubectl has them.

use crate::client;
use anyhow::{Context as _, anyhow};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::error::Error as _;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Flags for the API server.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Kubeconfig; without it as kubectl finds it, or else the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl Args {
    /// Whether a cluster is asked for by one of the flags.
    pub fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// A client without retries of its own: what waits and tries again decides that itself, and a person is answered soon.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match &self.kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
                let what = || format!("cannot use {}", path.display());
                Config::from_custom_kubeconfig(file, &options).await.with_context(what)?
            }
            None if self.context.is_some() => {
                Config::from_kubeconfig(&options).await.context("cannot use the kubeconfig")?
            }
            None => Config::infer().await.map_err(no_way)?,
        };
        client::client(config).context("cannot make a client for the API server")
    }
}

/// Outside of a pod only the kubeconfig is worth a word, and one that is not there needs no more than its path.
fn no_way(error: InferConfigError) -> anyhow::Error {
    match error.source().and_then(|cause| cause.downcast_ref()) {
        Some(KubeconfigError::ReadConfig(cause, path)) if cause.kind() == ErrorKind::NotFound => anyhow!(
            "no way to the API server: this is no pod with a service account, and there is no {}; give --kubeconfig FILE",
            path.display()
        ),
        Some(cause) => anyhow!("no way to the API server: cannot use the kubeconfig: {cause}"),
        None => error.into(),
    }
}
