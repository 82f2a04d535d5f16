//! The subcommands, one file each: flags in, library call, output out. They decide nothing.

pub mod cat;
pub mod completions;
pub mod controller;
pub mod crds;
pub mod daemon;
pub mod diff;
pub mod explain;
pub mod host_exec;
pub mod input;
pub mod kubeconfig;
pub mod man;
pub mod plan;
pub mod print;
pub mod reference;
pub mod render;
pub mod service;

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
    /// Print the contents of a file, unit or drop-in as they would be on a node
    Cat(cat::Args),
    /// Show what differs between two configs, or between a disk and a config
    Diff(Box<diff::Args>),
    /// Tell where an item comes from and what a change of it costs, or what a rule means
    Explain(explain::Args),
    /// Say what a change would do to the nodes: what changes, what it costs, who goes when
    Plan(Box<plan::Args>),
    /// Print the rendered config of a pool
    Render(render::Args),
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
        Command::Cat(args) => cat::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Render(args) => render::run(&args),
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
