//! `mcx completions`: what a shell needs to complete mcx on TAB.

use super::{Cli, print};
use clap::{CommandFactory as _, ValueEnum};
use std::process::ExitCode;

/// Flags of `mcx completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    source <(mcx completions bash)\n  \
    mcx completions zsh > \"${fpath[1]}/_mcx\"\n  \
    mcx completions fish > ~/.config/fish/completions/mcx.fish")]
pub struct Args {
    /// Shell to complete in
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Shells that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Prints the script.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "mcx", &mut script);
    print::out(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
