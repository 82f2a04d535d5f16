//! What the offline commands cost, against bounds: `make bench-offline`. Prints a table; exit code 1 when a bound is missed.
//!
//! Most bounds are ratios to the time in which `serde_json` parses and writes the same JSON, so that they mean the same on
//! every machine. Both are measured in turn in one run, and the least of several rounds counts: what disturbs a round only
//! makes it longer. That is also why this is a plain program: a bench library measures functions one after the other, and
//! knows no ratio between two of them.
//!
//! Peak memory is that of a process of its own, which runs this program again with `peak`. So is the time of each number of
//! sources (`once`), since it is one of memory, too: that of a small input, asked for again in the same process, is there
//! already, while that of a large one goes back to the kernel and comes anew, which takes a third of the time of a render.

#![allow(clippy::print_stdout, reason = "a table on standard output is what this program is for")]

mod sources;
mod table;

use anyhow::{Context as _, bail, ensure};
use mcx::api::{MachineConfigPool, NAMESPACE};
use mcx::pool::preview::{self, question};
use mcx::render::finding::{Finding, Severity};
use mcx::render::load::{self, Input, Loaded};
use mcx::render::rule;
use mcx::{render, review};
use serde_json::Value;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use table::{Table, milliseconds};

/// Of each figure; the least counts.
const ROUNDS: usize = 7;

/// Most that a render may take, as a multiple of parsing and writing the JSON.
const RENDER: f64 = 3.0;
/// As `RENDER`, for a validation.
const VALIDATE: f64 = 5.0;
/// Most that a source among many may take, as a multiple of one among a hundred.
const LINEAR: f64 = 1.5;
/// Most resident memory, as a multiple of the input.
const MEMORY: f64 = 8.0;
/// Of planning for [`NODES`] nodes.
const PLAN: Duration = Duration::from_millis(200);
/// Of the whole process that renders the guide's examples.
const PROCESS: Duration = Duration::from_millis(10);

const NODES: usize = 5000;
const POOLS: usize = 20;

fn main() -> anyhow::Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, what, file] = &args[..]
        && first == "peak"
    {
        println!("{}", peak(what, Path::new(file))?);
        return Ok(ExitCode::SUCCESS);
    }
    if let [first, file] = &args[..]
        && first == "once"
    {
        println!("{}", once(Path::new(file))?.as_nanos());
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    for (name, paths) in [("10,000 paths", 10_000), ("2,000 paths", 2000)] {
        against_json(&mut table, name, &sources::worker(500, paths))?;
    }
    linear(&mut table)?;
    plan(&mut table)?;
    process(&mut table)?;
    Ok(if table.missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A function to measure.
type Work<'a> = &'a dyn Fn() -> anyhow::Result<()>;

/// The least time of each of `works`, which run in turn.
fn least<const N: usize>(works: [Work; N]) -> anyhow::Result<[Duration; N]> {
    let mut least = [Duration::MAX; N];
    for _ in 0..ROUNDS {
        for (work, least) in works.iter().zip(&mut least) {
            let begin = Instant::now();
            work()?;
            *least = begin.elapsed().min(*least);
        }
    }
    Ok(least)
}

fn read(text: &str) -> Loaded {
    load::load(vec![Input { name: "input.json".to_owned(), bytes: text.as_bytes().to_vec() }])
}

fn worker(loaded: &Loaded) -> anyhow::Result<MachineConfigPool> {
    loaded.known_pools().into_iter().find(|p| p.name() == "worker").context("there is no pool worker")
}

/// What `serde_json` does with the text: the measure of the others.
fn json(text: &str) -> anyhow::Result<()> {
    let value: Value = serde_json::from_str(black_box(text))?;
    black_box(serde_json::to_string(&value)?);
    Ok(())
}

/// From the text of the sources to the text of the rendered config.
fn render(text: &str) -> anyhow::Result<()> {
    let loaded = read(black_box(text));
    let outcome = render::compose(&worker(&loaded)?, &loaded.configs);
    let Some(rendered) = outcome.rendered else { bail!("the sources are refused: {:?}", outcome.findings.first()) };
    black_box(serde_json::to_string(&rendered.config)?);
    Ok(())
}

fn validate(text: &str) -> anyhow::Result<()> {
    let loaded = read(black_box(text));
    let said = black_box(review::review(&loaded));
    // The larger of the two inputs is beyond what an API server takes, and is told so.
    let is_refused = |finding: &Finding| finding.severity == Severity::Error && finding.rule != rule::RENDERED_SIZE.id;
    ensure!(!said.findings.iter().any(is_refused), "the sources are refused: {:?}", said.findings.first());
    Ok(())
}

fn against_json(table: &mut Table, name: &str, text: &str) -> anyhow::Result<()> {
    let loaded = read(text);
    let pool = worker(&loaded)?;
    let merge = || {
        black_box(render::compose(&pool, black_box(&loaded.configs)));
        Ok(())
    };
    let [parsed, rendered, validated, merged] = least([&|| json(text), &|| render(text), &|| validate(text), &merge])?;
    let what = format!("500 sources of {} files, {name}", sources::FILES);
    table.plain(&format!("{what}: serde_json, {} kB", text.len() / 1000), parsed);
    let ratio = |time: Duration| time.as_secs_f64() / parsed.as_secs_f64();
    table.ratio(&format!("{what}: render"), &milliseconds(rendered), ratio(rendered), RENDER);
    table.plain(&format!("{what}: of it, all but text"), merged);
    table.ratio(&format!("{what}: validate"), &milliseconds(validated), ratio(validated), VALIDATE);

    let file = scratch("offline.json");
    fs::write(&file, text)?;
    for work in ["render", "validate"] {
        let output = Command::new(std::env::current_exe()?).arg("peak").arg(work).arg(&file).output()?;
        let kilobytes: u32 = String::from_utf8(output.stdout)?.trim().parse().context("no peak was printed")?;
        let ratio = f64::from(kilobytes) * 1024.0 / f64::from(u32::try_from(text.len())?);
        table.ratio(&format!("{what}: peak memory, {work}"), &format!("{} MiB", kilobytes >> 10), ratio, MEMORY);
    }
    Ok(fs::remove_file(file)?)
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The most memory that this process has had, after the work, in KiB.
fn peak(what: &str, file: &Path) -> anyhow::Result<u32> {
    let text = fs::read(file)?;
    let loaded = load::load(vec![Input { name: "input.json".to_owned(), bytes: text }]);
    match what {
        "render" => {
            let outcome = render::compose(&worker(&loaded)?, &loaded.configs);
            black_box(serde_json::to_string(&outcome.rendered.context("refused")?.config)?);
        }
        "validate" => drop(black_box(review::review(&loaded))),
        _ => bail!("{what} is not measured"),
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

/// The time of a render in a process that has done nothing else, as a person waits for it.
fn once(file: &Path) -> anyhow::Result<Duration> {
    let text = fs::read_to_string(file)?;
    let begin = Instant::now();
    render(&text)?;
    Ok(begin.elapsed())
}

/// Every source costs the same, however many there are.
fn linear(table: &mut Table) -> anyhow::Result<()> {
    let counts: [u32; 4] = [10, 100, 500, 2000];
    let file = |count: u32| scratch(&format!("offline-{count}.json"));
    for count in counts {
        fs::write(file(count), sources::worker(count as usize, usize::MAX))?;
    }
    let mut each = [Duration::MAX; 4];
    for _ in 0..ROUNDS {
        for (count, least) in counts.into_iter().zip(&mut each) {
            let output = Command::new(std::env::current_exe()?).arg("once").arg(file(count)).output()?;
            let nanos = String::from_utf8(output.stdout)?.trim().parse().context("no time was printed")?;
            *least = (Duration::from_nanos(nanos) / count).min(*least);
        }
    }
    for (count, time) in counts.into_iter().zip(each) {
        fs::remove_file(file(count))?;
        let ratio = time.as_secs_f64() / each[1].as_secs_f64();
        let figure = format!("{:.1} µs", time.as_secs_f64() * 1e6);
        let what = format!("render of {count} sources: for each, and against 100");
        if count > 100 {
            table.ratio(&what, &figure, ratio, LINEAR);
        } else {
            table.row(&what, &figure, Some(ratio), "", false);
        }
    }
    Ok(())
}

/// A plan for many nodes in many pools, of a change that reboots all of them, one at a time in each pool.
fn plan(table: &mut Table) -> anyhow::Result<()> {
    let (before, after) = sources::states(POOLS);
    let from = read(&before);
    let pools: Vec<(String, String)> = from
        .pools
        .iter()
        .filter_map(|pool| {
            Some((pool.name().to_owned(), render::render(pool, &from.configs).rendered?.name.to_string()))
        })
        .collect();
    ensure!(pools.len() == POOLS, "not every pool has a config");
    let nodes = sources::nodes(NODES, &pools);
    let both = |texts: [&str; 2]| {
        let input = |text: &str| Input { name: format!("{}.json", text.len()), bytes: text.as_bytes().to_vec() };
        load::load(texts.map(input).to_vec())
    };
    let to = both([&after, &nodes]);
    let ask = || {
        let (question, findings) = question::between_folders(Some(&from), &to, NAMESPACE);
        question.with_context(|| format!("there is no question: {:?}", findings.first()))
    };
    let planned = preview::plan(ask()?);
    let waves: usize = planned.pools.iter().flat_map(|p| &p.waves).map(Vec::len).sum();
    ensure!(waves == NODES, "only {waves} of {NODES} nodes would go");
    let mut decided = Duration::MAX;
    for _ in 0..ROUNDS {
        let question = ask()?;
        let begin = Instant::now();
        black_box(preview::plan(question));
        decided = begin.elapsed().min(decided);
    }
    let [whole, read] = least([
        &|| {
            black_box(preview::plan(ask()?));
            Ok(())
        },
        &|| {
            black_box(both([&after, &nodes]));
            Ok(())
        },
    ])?;
    let what = format!("{NODES} nodes in {POOLS} pools");
    table.absolute(&format!("{what}: plan, render of both states included"), whole, PLAN);
    table.plain(&format!("{what}: of it, the plan alone"), decided);
    table.plain(&format!("{what}: reading their texts"), read);
    Ok(())
}

/// The guide's examples, by the program itself.
fn process(table: &mut Table) -> anyhow::Result<()> {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcx"));
        let output = command.args(["render", "--pool", "worker", "-f", examples]).output()?;
        ensure!(output.status.success(), "mcx render: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    let [time] = least([&run])?;
    table.absolute("mcx render of the guide's examples, whole process", time, PROCESS);
    Ok(())
}
