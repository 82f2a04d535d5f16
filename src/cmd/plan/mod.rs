//! `mcx plan`: what a change would do to the nodes, before anybody applies it.

mod text;

use super::{input, kubeconfig, print};
use crate::api::{NAMESPACE, PoolName};
use crate::pool::door::Door;
use crate::pool::preview::question::{self, Answer};
use crate::pool::preview::read::{self, Cluster};
use crate::pool::preview::{self, Cost, Plan, Question};
use crate::render::{self, load::Loaded, nearest};
use anyhow::{Context as _, bail};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is missing between folders without nodes, and where it comes from.
const NO_NODES: &str =
    "none given: who goes when is not shown; give them: kubectl get nodes -o yaml >nodes.yaml, and --to nodes.yaml";

/// Flags of `mcx plan`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(
    override_usage = "mcx plan [--from FILE|DIR|-]... --to FILE|DIR|-... [OPTIONS]\n       \
        mcx plan -f FILE|DIR|-... [OPTIONS]\n       mcx plan RENDERED RENDERED [OPTIONS]",
    group(clap::ArgGroup::new("states").args(["to", "filename", "rendered"]).required(true)),
    after_help = "Examples:\n  \
        mcx plan --to examples/\n  \
        mcx plan --from main/ --to branch/ --exit-code\n  \
        mcx plan -f examples/\n  \
        mcx plan -f examples/ --context prod --diff\n  \
        mcx plan -R -f clusters/prod/ --prune\n  \
        mcx plan rendered-worker-0123… rendered-worker-4567…\n\n\
        With -f: what kubectl apply -f would do to the cluster; with --prune also the deletion of all its sources that are not \
        in the input, as a tool does that keeps a cluster to a repository. With --to, and --from for what was before: files or folders, without \
        a cluster. With two names: from one rendered config of the cluster to another, for the nodes of its pool. Nothing is written.\n\n\
        For each pool: what changes, what the node then does and which entry of the policy asks for it, who goes when and how \
        many at a time, who waits and why, what holds a drain and what is lost by it. Nodes, pods and budgets are those of the \
        cluster, or between folders those in the input. Findings go to standard error, as mcx render prints them; what is \
        allowed and probably not meant, such as a policy entry that matches nothing, is said by mcx validate.\n\n\
        Exit codes: 0 planned, 1 refused, 2 could not do it. With --exit-code a plan ends with 0 when nothing changes, 10 when \
        nothing is drained, 11 when nodes are drained, 12 when nodes reboot."
)]
pub struct Args {
    /// Two rendered configs of the cluster: from the first to the second
    #[arg(value_name = "RENDERED", num_args = 2)]
    pub rendered: Vec<String>,
    /// File or folder that is applied to the cluster, or - for standard input; may be given more than once
    #[arg(short, long, value_name = "FILE|DIR|-")]
    pub filename: Vec<PathBuf>,
    /// With -f: sources of the cluster that are not in the input count as deleted; 00-master and 00-worker stay
    #[arg(long, requires = "filename")]
    pub prune: bool,
    /// File or folder with the state before; without it, a cluster that has only what mcx creates itself; may be given
    /// more than once
    #[arg(long, value_name = "FILE|DIR|-", requires = "to")]
    pub from: Vec<PathBuf>,
    /// File or folder with the state after, planned without a cluster; may be given more than once
    #[arg(long, value_name = "FILE|DIR|-")]
    pub to: Vec<PathBuf>,
    /// Read folders with all that is below them
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// The cluster of -f and RENDERED
    #[command(flatten)]
    pub cluster: kubeconfig::Args,
    /// Only this pool; may be given more than once
    #[arg(long, value_name = "POOL")]
    pub pool: Vec<String>,
    /// Namespace of mcx
    #[arg(short, long, default_value = NAMESPACE)]
    pub namespace: String,
    /// Add the lines that differ, decoded
    #[arg(long)]
    pub diff: bool,
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
    let plan = if args.to.is_empty() { on_cluster(args)? } else { folders(args)? };
    let Some(plan) = plan else { return Ok(ExitCode::FAILURE) };
    let text = match args.output {
        Output::Text => text::of(&plan, if args.to.is_empty() { "the cluster has none" } else { NO_NODES }),
        Output::Json => format!("{:#}\n", serde_json::to_value(&plan)?),
    };
    print::bytes(text.as_bytes())?;
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
    let from = if args.from.is_empty() { None } else { Some(load(&args.from, args.recursive)?) };
    let to = load(&args.to, args.recursive)?;
    let Some(mut plan) = asked(args, question::between_folders(from.as_ref(), &to, &args.namespace))? else {
        return Ok(None);
    };
    if let Some(pods) = question::pods_of_folders(from.as_ref(), &to, plan.draining(), &args.namespace) {
        plan.meet(&pods);
    }
    Ok(Some(plan))
}

/// On a cluster; none when the input is refused.
fn on_cluster(args: &Args) -> anyhow::Result<Option<Plan>> {
    if let Some(file) = args.rendered.iter().find(|name| Path::new(name).exists()) {
        bail!("{file} is a file and no rendered config; write --to {file}, or -f {file} to ask the cluster as well");
    }
    let input = if args.filename.is_empty() { None } else { Some(load(&args.filename, args.recursive)?) };
    if input.as_ref().is_some_and(|input| input.objects() == 0 && !input.has_errors()) {
        let names: Vec<String> = args.filename.iter().map(|path| path.display().to_string()).collect();
        bail!("nothing to apply in {}: {}", names.join(", "), input::NOTHING);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        let door =
            Door::new(args.cluster.client().await.context("-f and names ask the cluster; without one use --to")?);
        let cluster = Cluster::read(&door, &args.namespace).await?;
        let plan = match (&input, args.rendered.as_slice()) {
            (None, [from, to]) => Some(planned(args, question::between_rendered(&cluster, from, to)?)),
            (input, _) => {
                asked(args, question::over_cluster(&cluster, input.as_ref().unwrap_or(&Loaded::default()), args.prune))?
            }
        };
        let Some(mut plan) = plan else { return Ok(None) };
        let draining = plan.draining();
        if !draining.is_empty() {
            match read::pods(&door, draining, &args.namespace).await {
                Ok(pods) => plan.meet(&pods),
                Err(error) if error.is_forbidden() => {
                    let error = anyhow::Error::from(error);
                    print::error(&format!("what drains would meet is not known: {error:#}"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(plan))
    })
}

/// Prints the findings, and plans unless one is an error.
fn asked(args: &Args, (question, findings): Answer) -> anyhow::Result<Option<Plan>> {
    print::findings(&findings)?;
    let Some(mut question) = question else { return Ok(None) };
    for name in &args.pool {
        let pools = &question.world.pools;
        if !pools.contains_key(name.as_str()) {
            bail!("{}", nearest::unknown("pool", name, pools.keys().map(PoolName::as_str)));
        }
        question.only.insert(name.as_str().into());
    }
    Ok(Some(planned(args, question)))
}

fn planned(args: &Args, question: Question) -> Plan {
    let configs = question.configs.clone();
    let mut plan = preview::plan(question);
    if args.diff {
        plan.show(&configs);
    }
    plan
}

fn load(paths: &[PathBuf], recursive: bool) -> anyhow::Result<Loaded> {
    Ok(render::load::load(input::Args { filename: paths.to_vec(), recursive }.read()?))
}
