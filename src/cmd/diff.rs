//! `mcx diff`: what differs between two configs, or between a node's disk and a config, with the lines that differ.

use super::{input, kubeconfig, print};
use crate::api::{ConfigName, MachineConfig};
use crate::change::text::{self, Diff};
use crate::node::host::Host;
use crate::node::look;
use crate::render::items::Items;
use crate::render::load;
use crate::render::nearest;
use crate::render::state::{self, State};
use anyhow::{Context as _, bail};
use clap::ValueEnum;
use kube::Api;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// An API server that has not answered by then does not answer.
const API_LIMIT: Duration = Duration::from_secs(30);

/// Flags of `mcx diff`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcx diff [OPTIONS] A B\n       mcx diff [OPTIONS] [-f FILE|DIR|- | --config NAME]",
    after_help = "Examples:\n  \
        mcx diff old/ new/\n  \
        mcx diff old/ new/ --pool infra --stat\n  \
        mcx diff before.yaml after.yaml\n  \
        mcx diff\n  \
        mcx diff --root /host -f examples/ --pool worker\n  \
        mcx diff --config rendered-worker-0123456789abcdef0123456789abcdef --context prod\n\n\
        Two sides are compared pool by pool: each is rendered from its sources, or is a rendered config as kubectl get mc \
        NAME -o yaml prints it. A pool that only one side has sources for is compared with nothing.\n\n\
        With one side or none the other is the disk: without any the current config is compared, which shows drift. Then \
        a/ is the disk and b/ the config: + is what mcx would write. Only what the config manages is looked at, by the \
        daemon's own comparison; the contents of those files are shown, whatever is in them.\n\n\
        Exit codes: 0 same, 1 different, 2 could not compare."
)]
pub struct Args {
    /// Two files or folders to compare, each with sources or with rendered configs
    #[arg(value_names = ["A", "B"], num_args = 2, conflicts_with_all = ["filename", "config", "root", "kubeconfig", "context"])]
    pub sides: Vec<PathBuf>,
    /// Compare the disk with these sources or this rendered config; may be given more than once
    #[arg(short, long, value_name = "FILE|DIR|-")]
    pub filename: Vec<PathBuf>,
    /// Read folders with all that is below them
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Only this pool; beside a disk, by default that of its current config
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// Compare the disk with this rendered config: one that the disk keeps, or, with --kubeconfig or --context, of a cluster
    #[arg(long, value_name = "NAME", conflicts_with = "filename")]
    pub config: Option<String>,
    /// Root directory of the disk
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// The cluster that --config is read from
    #[command(flatten)]
    pub cluster: kubeconfig::Args,
    /// One line an item with the number of lines, and a total
    #[arg(long)]
    pub stat: bool,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Formats of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people, and for patch
    Text,
    /// For programs
    Json,
}

/// What was compared, and what differs.
#[derive(Debug, Serialize)]
struct Compared {
    /// Pools to which it applies; none beside a disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pools: Vec<String>,
    /// The config that the disk is beside, if it has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<ConfigName>,
    #[serde(flatten)]
    diff: Diff,
}

/// Compares and prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let compared = match args.sides.as_slice() {
        [old, new] => sides(args, old, new)?,
        _ => disk(args)?,
    };
    let Some(compared) = compared else { return Ok(ExitCode::from(2)) };
    let is_different = compared.iter().any(|one| !one.diff.is_empty());
    match args.output {
        Output::Json => {
            let all = serde_json::json!({"different": is_different, "diffs": compared});
            print::bytes(format!("{all:#}\n").as_bytes())?;
        }
        Output::Text => print::bytes(text(args, &compared).as_bytes())?,
    }
    Ok(if is_different { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text(args: &Args, compared: &[Compared]) -> String {
    let mut text = String::new();
    for one in compared.iter().filter(|one| !one.diff.is_empty()) {
        // Which pool is a question only where there are several.
        if compared.iter().map(|c| c.pools.len()).sum::<usize>() > 1 {
            let plural = if one.pools.len() == 1 { "" } else { "s" };
            text.push_str(&print::heading(&format!("pool{plural} {}", one.pools.join(", "))));
        }
        if args.stat {
            // Writing to a String does not fail.
            let _ = write!(text, "{}", one.diff.stat());
        } else {
            text.push_str(&print::diff(&one.diff));
        }
    }
    text
}

/// Two inputs, pool by pool; pools with the same to say together.
fn sides(args: &Args, old: &Path, new: &Path) -> anyhow::Result<Option<Vec<Compared>>> {
    let read = |side: &Path| read(args, &[side.to_owned()], args.pool.as_deref());
    let (Some(old), Some(new)) = (read(old)?, read(new)?) else { return Ok(None) };
    if let Some(pool) = args.pool.as_deref().filter(|pool| !old.knows(pool) && !new.knows(pool)) {
        let known: BTreeSet<&str> = old.known.iter().chain(&new.known).map(String::as_str).collect();
        bail!("{}", nearest::unknown("pool", pool, known));
    }
    let mut all: Vec<Compared> = Vec::new();
    for (pool, old, new) in state::pairs(old, new) {
        let diff = text::diff(&old, &new);
        match all.iter_mut().find(|one| one.diff == diff) {
            Some(same) => same.pools.push(pool),
            None => all.push(Compared { pools: vec![pool], config: None, diff }),
        }
    }
    Ok(Some(all))
}

/// The disk and a config.
fn disk(args: &Args) -> anyhow::Result<Option<Vec<Compared>>> {
    if args.cluster.is_given() && args.config.is_none() {
        bail!("--kubeconfig and --context say where --config NAME is read; name a rendered config");
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    let host = Host::open(&args.root).with_context(|| format!("cannot open the root {}", args.root.display()))?;
    let host = Arc::new(host);
    let Some((config, items)) = (match (&args.config, args.filename.is_empty()) {
        (Some(name), _) if args.cluster.is_given() => {
            Some((Some(name.as_str().into()), runtime.block_on(fetch(args, name))?))
        }
        (Some(name), _) => Some((Some(name.as_str().into()), kept(&host, name)?)),
        (None, false) => of_files(args, &host)?.map(|items| (None, items)),
        (None, true) => Some(current(args, &host)?),
    }) else {
        return Ok(None);
    };
    let diff = runtime.block_on(look::diff(&host, &items))?;
    Ok(Some(vec![Compared { pools: Vec::new(), config, diff }]))
}

fn current(args: &Args, host: &Host) -> anyhow::Result<(Option<ConfigName>, Items)> {
    let stored = look::stored(host)?;
    let Some(current) = stored.current else {
        bail!(
            "there is no current config below {}: no daemon has finished an update here; compare with -f or --config",
            args.root.display()
        );
    };
    if let Some(open) = &stored.journal {
        print::error(&format!(
            "an update from {} to {} is under way on this disk",
            shown(&open.from.name),
            shown(&open.to.name)
        ));
    }
    let items = look::items(&current)?;
    Ok((Some(current.name), items))
}

fn shown(name: &ConfigName) -> &str {
    if name.is_empty() { "the empty config" } else { name.as_str() }
}

/// A config that the disk keeps.
fn kept(host: &Host, name: &str) -> anyhow::Result<Items> {
    let configs = look::configs(host, &look::stored(host)?)?;
    let Some(config) = configs.iter().find(|config| config.name == *name) else {
        let names: Vec<&str> = configs.iter().map(|config| config.name.as_str()).collect();
        let kept = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        bail!(
            "the disk does not keep {name}; it keeps: {kept}; to read it from a cluster give --kubeconfig or --context"
        );
    };
    Ok(look::items(config)?)
}

async fn fetch(args: &Args, name: &str) -> anyhow::Result<Items> {
    let api: Api<MachineConfig> = Api::all(args.cluster.client().await?);
    let failed = || format!("cannot read MachineConfig/{name} from the cluster");
    let answer = tokio::time::timeout(API_LIMIT, api.get(name)).await;
    let config = answer.with_context(|| format!("{}: no answer in {} s", failed(), API_LIMIT.as_secs()))?;
    let config = config.with_context(failed)?;
    if !config.is_rendered() {
        bail!("MachineConfig/{name} is a source; give a rendered config, as kubectl get mcp shows them");
    }
    Ok(state::items(&config)?)
}

/// The pool that is asked for, or that of the disk's current config, or the only one.
fn of_files(args: &Args, host: &Host) -> anyhow::Result<Option<Items>> {
    let mut pool = args.pool.clone();
    if pool.is_none() {
        let current = look::stored(host)?.current;
        pool = current.as_ref().and_then(|config| config.name.pool()).map(str::to_owned);
    }
    let Some(mut state) = read(args, &args.filename, pool.as_deref())? else { return Ok(None) };
    let names: Vec<String> = state.pools.keys().cloned().collect();
    match (pool, names.as_slice()) {
        (Some(pool), []) if !state.knows(&pool) => bail!("{}", state.unknown(&pool)),
        (Some(pool), []) => bail!("the input has no source for pool {pool:?}; give another --pool"),
        (_, [only]) => Ok(state.pools.remove(only)),
        (_, []) => bail!("no pool selects a source of the input"),
        (_, several) => bail!("the input is for several pools: give one with --pool: {}", several.join(", ")),
    }
}

/// Reads an input; what is wrong with it goes to standard error, and nothing comes back.
fn read(args: &Args, filename: &[PathBuf], pool: Option<&str>) -> anyhow::Result<Option<State>> {
    let loaded = load::load(input::Args { filename: filename.to_vec(), recursive: args.recursive }.read()?);
    match State::of(&loaded, pool) {
        Ok(state) => Ok(Some(state)),
        Err(state::Error::Refused(findings)) => {
            print::findings(&findings)?;
            Ok(None)
        }
        Err(error) => {
            let names: Vec<String> = filename.iter().map(|path| path.display().to_string()).collect();
            Err(error).with_context(|| names.join(", "))
        }
    }
}
