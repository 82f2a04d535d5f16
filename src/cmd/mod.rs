//! The subcommands, one file each: flags in, library call, output out. They decide nothing.

pub mod completions;
pub mod controller;
pub mod crds;
pub mod daemon;
pub mod host_exec;
pub mod input;
pub mod man;
pub mod print;
pub mod reference;
pub mod render;
pub mod service;
pub mod validate;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Machine configuration for Kubernetes nodes: files, systemd units and SSH keys from custom resources.
#[derive(Debug, Parser)]
#[command(name = "mcx", version, propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What mcx can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the rendered config of a pool
    Render(render::Args),
    /// Find all that is wrong or odd in sources, pools and policies
    Validate(validate::Args),
    /// Run the cluster controller
    Controller(Box<controller::Args>),
    /// Run the daemon of one node
    Daemon(daemon::Args),
    /// Print the custom resource definitions
    Crds(crds::Args),
    /// Print a script for a shell to complete mcx on TAB
    Completions(completions::Args),
    /// Write manual pages
    #[command(hide = true)]
    Man(man::Args),
    /// Write the reference pages
    #[command(hide = true)]
    Reference(reference::Args),
    /// Run a command inside a node's root (used by the daemon)
    #[command(hide = true)]
    HostExec(host_exec::Args),
}

/// Runs a command to its exit code: 0 fine or same, 1 different or invalid, 2 could not do it.
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Render(args) => render::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Controller(args) => controller::run(&args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::HostExec(args) => host_exec::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            print::error(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
