//! `mcx crds`: the custom resource definitions, to apply or to compare.

use super::print;
use crate::{api, yaml};
use std::process::ExitCode;

/// Flags of `mcx crds`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mcx crds | kubectl apply --server-side -f -")]
pub struct Args {}

/// Prints all of them as one YAML stream.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    let texts: Vec<String> = api::crds::all().iter().map(yaml::to_string).collect();
    print::out(&texts.join("---\n"))?;
    Ok(ExitCode::SUCCESS)
}
