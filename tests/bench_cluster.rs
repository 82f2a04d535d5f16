//! The numbers that mcx promises for a running cluster, measured and printed: `make bench`.
//!
//! Each is measured from outside, as a user would see it: from the write of an object to the annotation on the Node.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]
#![allow(clippy::print_stdout, reason = "test code outside of #[test] functions")]

mod harness;

use harness::{CONFIGS, Observer, Rig, STEP, file, rig, source, text};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How often each time is measured.
const RUNS: usize = 7;
/// The controller waits so long for further edits before it renders.
const SETTLE: Duration = Duration::from_secs(1);

struct Row {
    what: &'static str,
    bound: f64,
    unit: &'static str,
    values: Vec<f64>,
}

impl Row {
    fn median(&self) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    fn print(&self) {
        let worst = self.values.iter().copied().fold(f64::MIN, f64::max);
        let verdict = if self.median() <= self.bound { "" } else { "  OVER" };
        let (median, n) = (self.median(), self.values.len());
        println!(
            "{:58} {median:8.2} {:4} worst {worst:8.2}, n {n}, bound {}{verdict}",
            self.what, self.unit, self.bound
        );
    }
}

/// Seconds from `start` until `is` was true of the node, by the observer's clock.
fn seconds_until(rig: &Rig, observer: &Observer, from: usize, is: impl Fn(&harness::NodeView) -> bool) -> Duration {
    rig.eventually(STEP, "the node gets there", || {
        let history = observer.history();
        history[from..].iter().find(|s| is(&s.view)).map(|s| s.at).ok_or("not yet")
    })
}

/// Resident memory, in MiB, of the first process of a pod's container.
fn resident(rig: &Rig, pod: &Value) -> f64 {
    let id = text(pod, "/status/containerStatuses/0/containerID").replace("containerd://", "");
    let node = rig.node(&text(pod, "/spec/nodeName"));
    let line = format!(
        "pid=$(ctr -n k8s.io tasks ls | awk '$1 == \"{id}\" {{print $2}}'); awk '/^VmRSS:/ {{print $2}}' /proc/$pid/status"
    );
    node.sh(&line).parse::<f64>().expect("kB") / 1024.0
}

/// The time that a measurement by the observer's clock begins at.
struct Clock {
    observer: Observer,
    began: Instant,
}

impl Clock {
    fn start(rig: &Rig) -> Self {
        let began = Instant::now();
        Self { observer: Observer::start(rig, &["w1"], 1), began }
    }

    /// Does `act`, and returns the seconds from then until `is` is true of w1.
    fn time(&self, rig: &Rig, act: impl FnOnce(), is: impl Fn(&harness::NodeView) -> bool) -> f64 {
        let from = self.observer.history().len();
        let start = Instant::now();
        act();
        let at = seconds_until(rig, &self.observer, from, is);
        (self.began + at).saturating_duration_since(start).as_secs_f64()
    }
}

#[test]
#[ignore = "needs the rig: make bench"]
fn numbers() {
    let rig = rig();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut rows = Vec::new();

    let clock = Clock::start(&rig);
    // The limit is one node; the one that is measured is the first.
    rig.patch(&format!("{}/worker", harness::POOLS), &json!({"spec": {"maxUnavailable": "100%"}}));
    let values = (0..RUNS)
        .map(|n| {
            let before = rig.target("worker");
            let text = format!("{n}\n");
            let config = source("60-bench", "worker", &file("/etc/mcx-test/bench", 0o644, &text));
            let path = format!("{CONFIGS}/60-bench");
            let seconds = clock.time(
                &rig,
                || {
                    // Not through kubectl, whose start would be measured too.
                    if rig.get(&path).is_some() {
                        rig.patch(&path, &json!({"spec": config["spec"]}));
                    } else {
                        rig.create(CONFIGS, &config).expect("created");
                    }
                },
                |v| v.state == "Done" && v.current == v.desired && v.current != before,
            );
            let target = rig.target("worker");
            rig.all_done(STEP, "worker", &["w1"], &target);
            seconds - SETTLE.as_secs_f64()
        })
        .collect();
    rows.push(Row {
        what: "edit of a source → Done, actions None, beyond the settle time",
        bound: 3.0,
        unit: "s",
        values,
    });

    let node = rig.node("w1");
    let values = (0..RUNS)
        .map(|_| {
            let seconds = clock.time(&rig, || node.write("/etc/mcx-test/bench", b"x\n"), |v| v.state == "Degraded");
            node.write("/etc/mcx-test/bench", format!("{}\n", RUNS - 1).as_bytes());
            node.done(STEP);
            seconds
        })
        .collect();
    rows.push(Row { what: "drift of a file → Degraded", bound: 1.0, unit: "s", values });

    let files: Vec<Value> = (0..500)
        .map(|n| file(&format!("/etc/mcx-test/many/{n}"), 0o644, &format!("{n}\n"))["storage"]["files"][0].clone())
        .collect();
    let before = rig.target("worker");
    rig.apply_source(&source("61-many", "worker", &json!({"storage": {"files": files}})));
    let target = rig.new_target("worker", &before);
    rig.all_done(STEP, "worker", &["w1"], &target);
    std::thread::sleep(Duration::from_secs(10));
    let value = resident(&rig, &rig.daemon_on("w1"));
    rows.push(Row {
        what: "daemon with 500 files, idle, resident memory",
        bound: 15.0,
        unit: "MiB",
        values: vec![value],
    });
    let leader = rig.leader().and_then(|name| rig.pod(&name)).expect("a leader");
    rows.push(Row {
        what: "controller, idle, resident memory",
        bound: 40.0,
        unit: "MiB",
        values: vec![resident(&rig, &leader)],
    });
    if let Some(binary) = std::env::var_os("MCX_BINARY") {
        let size = f64::from(u32::try_from(std::fs::metadata(binary).expect("the binary").len()).expect("below 4 GB"));
        rows.push(Row { what: "static binary", bound: 15.0, unit: "MB", values: vec![size / 1e6] });
    }

    println!("\nmcx on {cores} cores, a control plane and {} nodes beside it", rig.views().len());
    for row in &rows {
        row.print();
    }
}
