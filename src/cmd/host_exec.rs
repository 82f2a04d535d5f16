//! `mcx host-exec`: hidden; becomes a command inside a node's root. The daemon starts itself with it, because changing
//! the root is for a process of one thread that has nothing else to do.

use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `mcx host-exec`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The node's root
    pub root: PathBuf,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true)]
    pub argv: Vec<String>,
}

/// Never comes back when it works.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let error = crate::node::host::enter(&args.root, &args.argv);
    // 127 as a shell says it: the command could not be run at all.
    super::print::error(&format!("cannot run {} in {}: {error}", args.argv.join(" "), args.root.display()));
    Ok(ExitCode::from(127))
}
