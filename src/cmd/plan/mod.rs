//! `mcx plan`: what a change would do to the nodes, before anybody applies it.

mod text;

use super::{input, print};
use crate::api::{NAMESPACE, PoolName};
use crate::pool::preview::question::{self, Answer};
use crate::pool::preview::{self, Cost, Plan};
use crate::render::load::{self, Loaded};
use anyhow::bail;
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `mcx plan`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcx plan [--from FILE|DIR|-]... --to FILE|DIR|-... [OPTIONS]",
    after_help = "Examples:\n  \
        mcx plan --to examples/\n  \
        mcx plan --from main/ --to branch/ --exit-code\n  \
        kubectl get mc,mcp,machineconfiguration,nodes,pods,pdb,ds -A -o yaml > now.yaml\n  \
        mcx plan --from now.yaml --to new/ -o json\n\n\
        For each pool: what changes, what the node then does and which entry of the policy asks for it, in which order\n\
        and how many at a time nodes go, which wait and why, and what holds a drain or is lost by it.\n\
        Nodes, pods and budgets are those in the input. Findings go to standard error, as mcx render prints them.\n\
        Exit codes: 0 planned, 1 refused, 2 could not do it. With --exit-code, a plan ends with 0 when nothing changes,\n\
        10 when nothing is drained, 11 when nodes are drained, 12 when nodes reboot."
)]
pub struct Args {
    /// File or folder with the state before; without it, a cluster that has only what mcx creates itself
    #[arg(long, value_name = "FILE|DIR|-", requires = "to")]
    pub from: Vec<PathBuf>,
    /// File or folder with the state after
    #[arg(long, value_name = "FILE|DIR|-")]
    pub to: Vec<PathBuf>,
    /// Read folders with all that is below them
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Only this pool; may be given more than once
    #[arg(long, value_name = "POOL")]
    pub pool: Vec<String>,
    /// Namespace of mcx
    #[arg(short, long, default_value = NAMESPACE)]
    pub namespace: String,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Say by the exit code what the change costs
    #[arg(long)]
    pub exit_code: bool,
}

/// Formats of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// All of it, for programs
    Json,
}

/// Plans and prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(plan) = folders(args)? else { return Ok(ExitCode::FAILURE) };
    let text = match args.output {
        Output::Text => text::of(&plan),
        Output::Json => format!("{:#}\n", serde_json::to_value(&plan)?),
    };
    print::out(&text)?;
    Ok(ExitCode::from(if args.exit_code { exit_code(plan.cost) } else { 0 }))
}

fn exit_code(cost: Cost) -> u8 {
    match cost {
        Cost::Nothing => 0,
        Cost::NoDisruption => 10,
        Cost::Drain => 11,
        Cost::Reboot => 12,
    }
}

/// Between two folders; none when one is refused.
fn folders(args: &Args) -> anyhow::Result<Option<Plan>> {
    if [&args.from, &args.to].iter().all(|paths| paths.iter().any(|p| p.as_os_str() == "-")) {
        bail!("standard input can be read only once; give - to --from or to --to");
    }
    let from = if args.from.is_empty() { None } else { Some(read(&args.from, args.recursive)?) };
    let to = read(&args.to, args.recursive)?;
    let Some(mut plan) = asked(args, question::between_folders(from.as_ref(), &to, &args.namespace))? else {
        return Ok(None);
    };
    if let Some(pods) = question::pods_of_folders(from.as_ref(), &to, plan.draining(), &args.namespace) {
        plan.meet(&pods);
    }
    Ok(Some(plan))
}

/// Prints the findings, and plans unless one is an error.
fn asked(args: &Args, (question, findings): Answer) -> anyhow::Result<Option<Plan>> {
    print::findings(&findings)?;
    let Some(mut question) = question else { return Ok(None) };
    for name in &args.pool {
        let pools = &question.world.pools;
        if !pools.contains_key(name.as_str()) {
            let known: Vec<&str> = pools.keys().map(PoolName::as_str).collect();
            bail!("there is no pool {name:?}; known here: {}", known.join(", "));
        }
        question.only.insert(name.as_str().into());
    }
    Ok(Some(preview::plan(question)))
}

fn read(paths: &[PathBuf], recursive: bool) -> anyhow::Result<Loaded> {
    Ok(load::load(input::Args { filename: paths.to_vec(), recursive }.read()?))
}
