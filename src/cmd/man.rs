//! `mcx man`: manual pages of mcx and of each subcommand, for packagers.

use super::Cli;
use anyhow::Context as _;
use clap::CommandFactory as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `mcx man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mcx man /usr/local/share/man/man1")]
pub struct Args {
    /// Folder to write the pages into; made when absent
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Writes the pages.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let failed = || format!("cannot write manual pages into {}", args.folder.display());
    std::fs::create_dir_all(&args.folder).with_context(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).with_context(failed)?;
    Ok(ExitCode::SUCCESS)
}
