//! `mcx render`: what a pool's sources merge into, exactly as the controller would write it.

use super::{input, print};
use crate::api::MachineConfigPool;
use crate::render::{self, load};
use crate::{review, yaml};
use anyhow::bail;
use clap::ValueEnum;
use std::process::ExitCode;

/// Flags of `mcx render`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        mcx render --pool worker -f examples/\n  \
        mcx render --pool worker -f examples/ -o name\n  \
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
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    pub output: Output,
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
    let loaded = load::load(args.input.read()?);
    let pools = loaded.known_pools();
    let Some(pool) = pools.iter().find(|p| p.name() == args.pool) else {
        let found = review::gather(&loaded, &pools, Vec::new());
        print::findings(&found.findings)?;
        if found.errors > 0 {
            return Ok(ExitCode::FAILURE);
        }
        let names: Vec<&str> = pools.iter().map(MachineConfigPool::name).collect();
        bail!("there is no pool {:?} in the input; known here: {}", args.pool, names.join(", "));
    };
    let outcome = render::render(pool, &loaded.configs);
    let found = review::gather(&loaded, &pools, outcome.findings);
    print::findings(&found.findings)?;
    let Some(rendered) = outcome.rendered.filter(|_| found.errors == 0) else {
        return Ok(ExitCode::FAILURE);
    };
    let text = match args.output {
        Output::Name => format!("{}\n", rendered.name),
        Output::Json => format!("{:#}\n", serde_json::to_value(rendered.to_object(pool))?),
        Output::Yaml => yaml::to_string(&serde_json::to_value(rendered.to_object(pool))?),
    };
    print::out(&text)?;
    Ok(ExitCode::SUCCESS)
}
