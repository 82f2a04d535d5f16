//! `mcx explain`: the story of an item, from its sources to what a change of it costs; or that of a rule.

use super::{input, print};
use crate::change::cost::{Cost, cost};
use crate::change::policy::{self, EffectivePolicy};
use crate::render::finding::{Finding, Severity};
use crate::render::item::Item;
use crate::render::load::{self, Loaded};
use crate::render::rule::examples::{self, Example};
use crate::render::state::{self, State};
use crate::render::story::{self, Story};
use crate::render::{nearest, rule};
use anyhow::bail;
use clap::ValueEnum;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `mcx explain`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcx explain [OPTIONS] -f FILE|DIR|- ITEM\n       mcx explain [OPTIONS] --rule RULE",
    after_help = "Examples:\n  \
    mcx explain -f examples/ /etc/chrony.conf\n  \
    mcx explain -f examples/ chronyd.service\n  \
    mcx explain -f sources/ --pool infra app.service/10-limits.conf -o json\n  \
    mcx explain -f examples/ boot\n  \
    mcx explain --rule mode-decimal\n\n\
    Every source that speaks of the item is named, in the order of their names, in which the last one wins field by field. \
    The policy is that of the MachineConfiguration named cluster in the input, or the shipped one. Contents are not shown: \
    see mcx cat.\n\n\
    Exit codes: 0 explained, 1 no such item or the input is refused, 2 could not do it, no such rule included."
)]
pub struct Args {
    /// A path, a unit, a unit and its drop-in, or boot
    #[arg(value_name = "ITEM", required_unless_present = "rule", requires = "filename")]
    pub item: Option<String>,
    /// File or folder with the objects, or - for standard input; may be given more than once
    #[arg(short, long, value_name = "FILE|DIR|-")]
    pub filename: Vec<PathBuf>,
    /// Read folders with all that is below them
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Only this pool
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// Explain a rule by the id that a finding ends with
    #[arg(long, value_name = "RULE", conflicts_with_all = ["item", "filename", "recursive", "pool"])]
    pub rule: Option<String>,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Formats of the explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// What is said of an item, for pools in which it is the same.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Explained {
    pools: Vec<String>,
    /// The item; after a unit its drop-ins.
    items: Vec<Story>,
    change: Cost,
}

/// Explains.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match (&args.rule, &args.item) {
        (Some(id), _) => explain_rule(id, args.output),
        (None, Some(item)) => explain_item(args, item),
        (None, None) => bail!("give an ITEM or --rule"),
    }
}

fn explain_rule(id: &str, output: Output) -> anyhow::Result<ExitCode> {
    let Some(rule) = rule::by_id(id) else {
        bail!("{}", nearest::unknown("rule", id, rule::RULES.iter().map(|r| r.id)));
    };
    match output {
        Output::Text => print::out(&rule.page())?,
        Output::Json => {
            let (severity, meaning, fix) = (rule.severity.to_string(), rule.meaning, rule.fix);
            let example = examples::of(rule.id).map(|(Example::Input(text) | Example::Words(text))| text);
            let value = serde_json::json!({
                "rule": rule.id, "severity": severity, "meaning": meaning, "example": example, "fix": fix,
            });
            print::out(&format!("{value:#}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn explain_item(args: &Args, text: &str) -> anyhow::Result<ExitCode> {
    let loaded = load::load(input::Args { filename: args.filename.clone(), recursive: args.recursive }.read()?);
    let state = match read(&loaded, args.pool.as_deref()) {
        Ok(state) => state,
        Err(state::Error::Refused(findings)) => {
            print::findings(&findings)?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    if state.is_rendered {
        bail!("the input holds only rendered configs, which do not say what they were made from; give the sources");
    }
    if let Some(pool) = args.pool.as_deref().filter(|pool| !state.knows(pool)) {
        bail!("{}", state.unknown(pool));
    }
    let policy = EffectivePolicy::of(&loaded.policies);
    let mut explained: Vec<Explained> = Vec::new();
    let mut known = Vec::new();
    let mut elsewhere = Vec::new();
    for pool in loaded.known_pools() {
        let stories = story::stories(&pool, &loaded.configs);
        if !state.pools.contains_key(pool.name()) {
            let items: Vec<Item> = stories.into_iter().map(|story| story.item).collect();
            elsewhere.extend(Item::find(text, &items).map(|_| pool.name().to_owned()));
            continue;
        }
        let named: Vec<Item> = stories.iter().map(|story| story.item.clone()).collect();
        if let Some(item) = Item::find(text, &named) {
            let change = cost(item, &policy);
            let items: Vec<Story> = stories.into_iter().filter(|story| story.item.is_part_of(item)).collect();
            match explained.iter_mut().find(|e| e.items == items && e.change == change) {
                Some(same) => same.pools.push(pool.name().to_owned()),
                None => explained.push(Explained { pools: vec![pool.name().to_owned()], items, change }),
            }
        }
        known.extend(named);
    }
    if explained.is_empty() {
        let near = Item::nearest(text, &known).map(|near| format!("; {}", nearest::meant(&near))).unwrap_or_default();
        let whose = args.pool.as_ref().map(|pool| format!(" of pool {pool}")).unwrap_or_default();
        let near = match elsewhere.as_slice() {
            [] => near,
            pools => format!("; one of pool {} does", pools.join(", ")),
        };
        print::error(&format!("no source{whose} speaks of {text:?}{near}"));
        return Ok(ExitCode::FAILURE);
    }
    match args.output {
        Output::Json => print::out(&format!("{:#}\n", serde_json::json!({"explained": explained})))?,
        Output::Text => print::out(&explained.iter().map(printed).collect::<Vec<_>>().join("\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The state of the input, unless something in it is wrong, its policy included.
fn read(loaded: &Loaded, pool: Option<&str>) -> Result<State, state::Error> {
    let state = State::of(loaded, pool)?;
    let mut findings: Vec<Finding> = loaded.policies.iter().flat_map(policy::findings).collect();
    findings.retain(|f| f.severity == Severity::Error);
    loaded.locate(&mut findings);
    if findings.is_empty() { Ok(state) } else { Err(state::Error::Refused(findings)) }
}

fn printed(explained: &Explained) -> String {
    let plural = if explained.pools.len() == 1 { "" } else { "s" };
    let mut text = print::heading(&format!("pool{plural} {}", explained.pools.join(", ")));
    for story in &explained.items {
        text.push_str(&print::story(story));
    }
    let Cost { entry, actions } = &explained.change;
    let actions = if actions.is_empty() { "None".to_owned() } else { actions.join(", ") };
    // Writing to a String does not fail.
    let _ = writeln!(text, "a change of it costs: {actions} (policy entry: {entry})");
    text
}
