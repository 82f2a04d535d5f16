//! `mcx render`: what a pool's sources merge into, exactly as the controller would write it.

use super::{input, print};
use crate::api::MachineConfigPool;
use crate::render::load::{self, Loaded};
use crate::render::{self, Rendered, nearest, story};
use crate::{review, yaml};
use anyhow::bail;
use clap::ValueEnum;
use std::process::ExitCode;

/// Flags of `mcx render`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        mcx render --pool worker -f examples/\n  \
        mcx render --pool worker -f examples/ -o name\n  \
        mcx render --pool worker -f examples/ --explain\n  \
        kubectl get mc,mcp -o yaml | mcx render --pool infra -f -\n\n\
        Pools come from the input; master and worker are known without it. Findings go to standard error, one a line.\n\
        Exit codes: 0 rendered, 1 refused, 2 could not do it.")]
pub struct Args {
    /// Pool to render
    #[arg(long, value_name = "POOL")]
    pub pool: String,
    /// What is read
    #[command(flatten)]
    pub input: input::Args,
    /// What to print; the object as YAML without it
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// Tell, instead of the object, which source wins for each field of each item and which are hidden
    #[arg(long)]
    pub explain: bool,
}

/// Formats of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// The object as YAML
    Yaml,
    /// The object as JSON
    Json,
    /// Only the name of the rendered config
    Name,
}

/// Renders and prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.explain && args.output == Some(Output::Name) {
        bail!("--explain tells more than a name: leave out -o name, or write -o json or -o yaml");
    }
    let Some(Ready { loaded, pool, rendered }) = ready(&args.input, &args.pool)? else {
        return Ok(ExitCode::FAILURE);
    };
    let object = || {
        if !args.explain {
            return serde_json::to_value(rendered.to_object(&pool));
        }
        let stories = story::stories(&pool, &loaded.configs);
        Ok(
            serde_json::json!({"name": rendered.name, "pool": pool.name(), "sources": rendered.sources, "items": stories}),
        )
    };
    let text = match args.output {
        None if args.explain => {
            let stories = story::stories(&pool, &loaded.configs);
            stories.iter().map(print::story).collect::<Vec<_>>().join("\n")
        }
        Some(Output::Name) => format!("{}\n", rendered.name),
        Some(Output::Json) => format!("{:#}\n", object()?),
        None | Some(Output::Yaml) => yaml::to_string(&object()?),
    };
    print::out(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A pool's rendered config, and what it was read from.
pub(super) struct Ready {
    pub(super) loaded: Loaded,
    pub(super) pool: MachineConfigPool,
    pub(super) rendered: Rendered,
}

/// Reads and renders. All findings go to standard error; nothing comes back when one of them is an error.
pub(super) fn ready(input: &input::Args, pool: &str) -> anyhow::Result<Option<Ready>> {
    let loaded = load::load(input.read()?);
    let pools = loaded.known_pools();
    let Some(pool) = pools.iter().find(|p| p.name() == pool) else {
        let found = review::gather(&loaded, &pools, Vec::new());
        print::findings(&found.findings)?;
        if found.errors > 0 {
            return Ok(None);
        }
        bail!("{}", nearest::unknown("pool", pool, pools.iter().map(MachineConfigPool::name)));
    };
    let outcome = render::render(pool, &loaded.configs);
    let found = review::gather(&loaded, &pools, outcome.findings);
    print::findings(&found.findings)?;
    let pool = pool.clone();
    Ok(outcome.rendered.filter(|_| found.errors == 0).map(|rendered| Ready { loaded, pool, rendered }))
}
