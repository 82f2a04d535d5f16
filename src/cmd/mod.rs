//! The subcommands, one file each: flags in, library call, output out. They decide nothing.

pub mod apply;
pub mod cat;
pub mod completions;
pub mod controller;
pub mod crds;
pub mod daemon;
pub mod diff;
pub mod explain;
pub mod guard;
pub mod host_exec;
pub mod input;
pub mod kubeconfig;
pub mod man;
pub mod new;
pub mod plan;
pub mod print;
pub mod reference;
pub mod render;
pub mod service;
mod usage;
pub mod validate;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::path::Path;
use std::process::ExitCode;

/// The name under which kubectl finds mcx as its plugin.
const PLUGIN: &str = "kubectl-mcx";

/// Machine configuration for Kubernetes nodes: files, systemd units and SSH keys from custom resources.
#[derive(Debug, Parser)]
#[command(
    name = "mcx",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "From a file to its plan, without a cluster:\n  \
    mcx new file --path /etc/chrony.conf --from chrony.conf > chrony.yaml\n  \
    mcx new policy --path /etc/chrony.conf --restart chronyd.service > policy.yaml\n  \
    mcx validate -f chrony.yaml -f policy.yaml\n  \
    mcx plan --to chrony.yaml --to policy.yaml"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What mcx can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a MachineConfig from plain files, or the policy for it
    New(new::Args),
    /// Find all that is wrong or odd in sources, pools and policies
    Validate(validate::Args),
    /// Print the rendered config of a pool
    Render(render::Args),
    /// Say what a change would do to the nodes: what changes, what it costs, who goes when
    Plan(Box<plan::Args>),
    /// Show what differs between two configs, or between a disk and a config
    Diff(Box<diff::Args>),
    /// Tell where an item comes from and what a change of it costs, or what a rule means
    Explain(explain::Args),
    /// Print the contents of a file, unit or drop-in as they would be on a node
    Cat(cat::Args),
    /// Bring a folder to what a pool's nodes would have, without a cluster
    Apply(apply::Args),
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
    /// Undo an update that takes its node away from its cluster (run by a unit that the daemon leaves)
    #[command(hide = true)]
    Guard(guard::Args),
}

/// Parses the command line. What is no command line ends the process, with the usage or the help that was asked for.
pub fn parse() -> Cli {
    let args = usage::spelled(std::env::args_os().collect());
    let program = args.first().cloned().unwrap_or_default();
    let mut command = called(Path::new(&program));
    let cli = command.try_get_matches_from_mut(&args).and_then(|matches| Cli::from_arg_matches(&matches));
    cli.unwrap_or_else(|error| usage::with_flag(error, &command, &args).exit())
}

/// The command as the program of this name shows it: as a plugin it is typed as `kubectl mcx`, in examples too.
fn called(program: &Path) -> clap::Command {
    let command = Cli::command();
    if program.file_name().is_some_and(|name| name == PLUGIN) {
        return as_plugin(command.bin_name("kubectl mcx"));
    }
    command.bin_name("mcx")
}

fn as_plugin(command: clap::Command) -> clap::Command {
    let typed = |help: String, before: &str| help.replace(&format!("{before}mcx "), &format!("{before}kubectl mcx "));
    let examples = command.get_after_help().map(|help| ["  ", "| ", "("].into_iter().fold(help.to_string(), typed));
    let command = command.mut_subcommands(as_plugin);
    match examples {
        Some(examples) => command.after_help(examples),
        None => command,
    }
}

/// Runs a command to its exit code: 0 fine or same, 1 different or invalid, 2 could not do it.
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::New(args) => new::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Render(args) => render::run(&args),
        Command::Apply(args) => apply::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Controller(args) => controller::run(&args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::HostExec(args) => host_exec::run(&args),
        Command::Guard(args) => guard::run(&args),
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

    #[test]
    fn as_a_plugin_it_is_called_as_kubectl_calls_it() {
        for (program, name) in [("/usr/bin/kubectl-mcx", "kubectl mcx"), ("mcx", "mcx"), ("/opt/mcx-1.0", "mcx")] {
            let mut command = called(Path::new(program));
            command.build();
            let help = command.find_subcommand_mut("render").unwrap().render_long_help().to_string();
            assert!(help.contains(&format!("Usage: {name} render ")), "{help}");
            assert!(help.contains(&format!("\n  {name} render --pool worker -f examples/\n")), "{help}");
            assert_eq!(help.contains("| mcx "), name == "mcx", "{help}");
            assert!(!help.contains("kubectl kubectl"), "{help}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
