//! What a node pays, against bounds: `make bench-node`. Prints a table; exit code 1 when a bound is missed. Needs root, as
//! the daemon does, and a disk below `target` on which nothing else works meanwhile.
//!
//! The programs that are measured are those that are shipped (`MCX_BINARY`, else the one beside this): `mcx apply` on a
//! folder, and `mcx daemon` with an API server that this program plays. Times are ratios to what `cp` with `fsync`, or
//! `sha256sum`, need for the same files, measured in turn in one run; the least of several rounds counts, since what disturbs a
//! round only makes it longer.

#![allow(clippy::print_stdout, reason = "a table on standard output is what this program is for")]
#![allow(clippy::unwrap_used, reason = "the API server is shared with the tests")]
#![allow(clippy::panic, clippy::cast_precision_loss, reason = "as in tests: figures are far below 2^52")]

mod files;
#[path = "../../tests/support/node_api.rs"]
mod node_api;
mod process;
#[path = "../offline/table.rs"]
mod table;

use anyhow::{Context as _, ensure};
use files::Files;
use mcx::node::disk::Disk;
use mcx::node::host::Host;
use mcx::render::Rendered;
use process::{Node, folder};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::Table;

/// Of an apply, and of each time of a daemon.
const ROUNDS: usize = 3;
/// Of what takes less than a second.
const SHORT_ROUNDS: usize = 7;
/// For so long a resting daemon is watched: one sweep is in it.
const REST: Duration = Duration::from_secs(65);
/// An idle daemon has let its threads go by then.
const CALM: Duration = Duration::from_secs(15);

/// Most that an apply of new files may take, as a multiple of copying and flushing each.
const APPLY: f64 = 1.5;
/// Most that looking at all files may take, as a multiple of `sha256sum`.
const SWEEP: f64 = 1.0;
/// From a change on the disk to the word on the Node.
const DRIFT: Duration = Duration::from_secs(1);
/// Of an update that was killed, beyond its actions.
const RESTART: Duration = Duration::from_secs(1);
/// Resident memory of a resting daemon, in MiB.
const RESIDENT: [f64; 2] = [15.0, 20.0];
/// How much more memory an update of large files may take at its peak than one of small files, in MiB.
const PEAK: f64 = 4.0;
/// In a second.
const WAKES: f64 = 1.0;

/// The program that is measured.
fn binary() -> PathBuf {
    std::env::var_os("MCX_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_mcx").into(), PathBuf::from)
}

fn main() -> anyhow::Result<ExitCode> {
    ensure!(nix::unistd::geteuid().is_root(), "root is needed: files are given to their owners");
    let only = std::env::args().nth(1).filter(|word| !word.starts_with("--")).unwrap_or_default();
    let is_wanted = |what: &str| only.is_empty() || only == what;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    println!("{}", binary().display());
    let mut table = Table::new();
    if is_wanted("apply") {
        apply(&mut table, dir.path())?;
    }
    if is_wanted("rest") {
        rest(&mut table, dir.path(), "500 files", Files::MANY, RESIDENT[0])?;
        rest(&mut table, dir.path(), "2,000 files, 200 MB", Files::BIG, RESIDENT[1])?;
    }
    if is_wanted("kill") {
        killed(&mut table, dir.path())?;
    }
    if is_wanted("peak") {
        peak(&mut table, dir.path())?;
    }
    Ok(if table.missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// What was written before is no business of the next measurement.
fn fresh(dir: &Path) -> anyhow::Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    nix::unistd::sync();
    Ok(())
}

/// `mcx apply` of new files, again when nothing is to be done, and the daemon's comparison of them.
fn apply(table: &mut Table, dir: &Path) -> anyhow::Result<()> {
    let (from, copy, root) = (dir.join("from"), dir.join("copy"), dir.join("root"));
    let paths = Files::BIG.write(&from)?;
    let source = dir.join("source.json");
    fs::write(&source, Files::BIG.source()?)?;
    let apply = || {
        let mut command = Command::new(binary());
        command.args(["apply", "--pool", "worker", "-f"]).arg(&source).arg("--root").arg(&root);
        run(&mut command)
    };
    let (mut copied, mut applied) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        fresh(&copy)?;
        copied = copied.min(timed(|| copy_each(&paths, &copy))?);
        fresh(&root)?;
        folder(&root)?;
        applied = applied.min(timed(apply)?);
    }
    let ratio = |time: Duration, to: Duration| time.as_secs_f64() / to.as_secs_f64();
    let figure = table::milliseconds;
    table.plain("2,000 files, 200 MB: cp, and fsync of each", copied);
    table.ratio("2,000 files, 200 MB: apply, all new", &figure(applied), ratio(applied, copied), APPLY);

    let there: Vec<PathBuf> = (0..paths.len()).map(|n| root.join(&files::FOLDER[1..]).join(Files::name(n))).collect();
    let rendered = Files::BIG.rendered()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut summed, mut swept, mut same) = (Duration::MAX, Duration::MAX, Duration::MAX);
    for _ in 0..SHORT_ROUNDS {
        summed = summed.min(timed(|| run(Command::new("sha256sum").args(&there)))?);
        same = same.min(timed(apply)?);
        let disk = runtime.block_on(Disk::open(Arc::new(Host::open(&root)?), Duration::ZERO))?;
        swept = swept.min(timed(|| {
            let found = runtime.block_on(disk.compare(&rendered.items))?;
            ensure!(found.is_empty(), "it differs: {}", found[0]);
            Ok(())
        })?);
    }
    table.plain("2,000 files, 200 MB: sha256sum", summed);
    table.ratio("2,000 files, 200 MB: full sweep", &figure(swept), ratio(swept, summed), SWEEP);
    table.ratio("2,000 files, 200 MB: apply, nothing to do", &figure(same), ratio(same, summed), SWEEP);
    fresh(&copy)?;
    fresh(&root)
}

fn copy_each(paths: &[PathBuf], to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for path in paths {
        let at = to.join(path.file_name().context("a name")?);
        fs::copy(path, &at)?;
        fs::File::open(&at)?.sync_all()?;
    }
    Ok(())
}

/// A config as the API server has it.
fn known(node: &Node, rendered: &Rendered) -> String {
    let name = rendered.name.to_string();
    node.api.config(&name, &rendered.config.to_value());
    name
}

/// A daemon that has a config and nothing to do; then drift.
fn rest(table: &mut Table, dir: &Path, what: &str, files: Files, bound: f64) -> anyhow::Result<()> {
    let node = Node::new(dir)?;
    let config = known(&node, &files.rendered()?);
    let daemon = node.start()?;
    node.wants(&config);
    let update = node.until("the update", |node| node.is_done(&config))?;
    table.plain(&format!("{what}: a new daemon's update, all new, to Done"), update);
    std::thread::sleep(CALM);
    let before = daemon.used()?;
    std::thread::sleep(REST);
    let after = daemon.used()?;
    let resident = daemon.memory("VmRSS")?;
    memory(table, &format!("{what}: resting daemon, resident"), resident, bound);
    let anonymous = daemon.memory("RssAnon")?;
    table.row(&format!("{what}: of it, not of the program's file"), &format!("{anonymous:.1} MiB"), None, "", false);
    let wakes = (after.wakes - before.wakes) as f64 / REST.as_secs_f64();
    table.row(
        &format!("{what}: resting daemon, wake-ups in a second"),
        &format!("{wakes:.2}"),
        None,
        &format!("{WAKES}"),
        wakes > WAKES,
    );
    table.plain(&format!("{what}: resting daemon, processor time in a minute"), after.time.saturating_sub(before.time));

    let path = node.root.join(&files::FOLDER[1..]).join(Files::name(files.count / 2));
    let mut worst = Duration::ZERO;
    for _ in 0..SHORT_ROUNDS {
        fs::write(&path, "drift\n")?;
        worst = worst.max(node.until("drift", |node| node.is("Degraded"))?);
        fs::write(&path, files.bytes(files.count / 2))?;
        node.until("healed", |node| node.is_done(&config))?;
    }
    table.absolute(&format!("{what}: drift to Degraded, the worst of {SHORT_ROUNDS}"), worst, DRIFT);

    // The one that has just started has read nothing yet but what is on its disk.
    daemon.kill()?;
    node.api.annotate("state", "");
    let daemon = node.start()?;
    let start = node.until("the start", |node| node.is_done(&config))?;
    table.absolute(&format!("{what}: killed at rest, started, to Done"), start, RESTART);
    std::thread::sleep(CALM);
    memory(table, &format!("{what}: resting daemon after a start, resident"), daemon.memory("VmRSS")?, bound);
    Ok(())
}

fn memory(table: &mut Table, what: &str, found: f64, bound: f64) {
    table.row(what, &format!("{found:.1} MiB"), None, &format!("{bound} MiB"), found > bound);
}

/// An update that is killed in the middle, and the daemon that is started then.
fn killed(table: &mut Table, dir: &Path) -> anyhow::Result<()> {
    let node = Node::new(dir)?;
    let [one, two] = [0, 1].map(|edition| Files { edition, ..Files::BIG }.rendered());
    let configs = [known(&node, &one?), known(&node, &two?)];
    let mut daemon = node.start()?;
    node.wants(&configs[0]);
    node.until("the first update", |node| node.is_done(&configs[0]))?;
    let what = "2,000 files, 200 MB, all changed";
    let mut at = 0;
    let mut whole = Duration::MAX;
    for _ in 0..ROUNDS {
        at = 1 - at;
        node.wants(&configs[at]);
        whole = whole.min(node.until("the update", |node| node.is_done(&configs[at]))?);
    }
    table.plain(&format!("{what}: update to Done"), whole);
    for (stage, wait, beyond) in [
        ("Opened", Duration::from_millis(500), whole),
        ("Switching", Duration::ZERO, Duration::ZERO),
        ("Written", Duration::ZERO, Duration::ZERO),
    ] {
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            at = 1 - at;
            node.wants(&configs[at]);
            node.until(stage, |node| node.is_at(stage))?;
            std::thread::sleep(wait);
            daemon.kill()?;
            let was = if node.is_at(stage) { "" } else { " (it was further)" };
            daemon = node.start()?;
            let time = node.until("converged", |node| node.is_done(&configs[at]))?;
            println!("  killed at {stage}{was}: {:.2} s", time.as_secs_f64());
            best = best.min(time.saturating_sub(beyond));
        }
        let less = if beyond.is_zero() { "" } else { ", beyond a whole update" };
        table.absolute(&format!("{what}: killed at {stage}, to Done{less}"), best, RESTART);
    }
    Ok(())
}

/// The most memory that a daemon takes for an update, by what its files weigh.
fn peak(table: &mut Table, dir: &Path) -> anyhow::Result<()> {
    let mut peaks = Vec::new();
    for size in [1000, 60 << 20] {
        let files = Files { count: 4, size, edition: 0 };
        let node = Node::new(dir)?;
        let config = known(&node, &files.rendered()?);
        let daemon = node.start()?;
        node.wants(&config);
        node.until("the update", |node| node.is_done(&config))?;
        // A difference is looked for line by line.
        let path = node.root.join(&files::FOLDER[1..]).join(Files::name(1));
        let mut bytes = files.bytes(1);
        *bytes.last_mut().context("a byte")? = b'x';
        fs::write(&path, bytes)?;
        node.until("drift", |node| node.is("Degraded"))?;
        peaks.push(daemon.memory("VmHWM")?);
    }
    table.row("4 files of 1 kB: daemon's peak of memory", &format!("{:.1} MiB", peaks[0]), None, "", false);
    let bound = peaks[0] + PEAK;
    table.row(
        "4 files of 60 MiB: daemon's peak of memory",
        &format!("{:.1} MiB", peaks[1]),
        None,
        &format!("{bound:.1} MiB"),
        peaks[1] > bound,
    );
    Ok(())
}
