//! Behaviour: the offline tools and the cluster agree. For random states `mcx render` gives the name that the controller
//! gives, and `mcx plan` lists the actions that the nodes then take, by the record of their systemd.
//!
//! `make test` runs a few rounds, `make soak` (`MCX_SOAK=1`) 200; `MCX_SEED=N` begins with another state, so that the
//! rounds N-1 and N are run again that failed. All print what they saw.

#![allow(clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/any_state.rs"]
mod any_state;
mod harness;

use any_state::{AnyState, BROUGHT, LOCAL, VENDOR, body};
use harness::{CONFIGS, Node, Observer, POOLS, ROLLOUT, Rig, STEP, WORKERS, mcx_bin, rig, source};
use mcx::api::GUARD_UNIT;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The first state of the sample. These cost little time, and between them each kind of action but Reboot.
const FIRST: u64 = 40;
const SAMPLE: usize = 5;
const ALL: usize = 200;

/// Ids of systemd's messages about units (sd-messages.h).
const STARTED: &str = "39f53479d3a045ac8e11786248231fbf";
const STOPPED: &str = "9d1aaa27d60140bd96365438aad20286";
const RELOADED: &str = "7b05ebc668384222baa8881179cfda54";

/// A state as files, and what `mcx render` makes of it.
struct Written {
    number: u64,
    state: AnyState,
    folder: tempfile::TempDir,
    name: String,
}

impl Written {
    /// None when the state is refused, as two sources that contradict one another are.
    fn new(number: u64) -> Option<Self> {
        let state = AnyState::of(number);
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, object: &Value| std::fs::write(folder.path().join(name), object.to_string()).unwrap();
        write("policy.json", &policy(&state.policy));
        for (name, body) in &state.sources {
            write(&format!("{name}.json"), &source(name, "worker", body));
        }
        let mut written = Self { number, state, folder, name: String::new() };
        let name = mcx(&["render", "--pool", "worker", "-o", "name", "-f", written.path()]).ok()?;
        name.trim().clone_into(&mut written.name);
        Some(written)
    }

    fn path(&self) -> &str {
        self.folder.path().to_str().expect("UTF-8")
    }
}

fn policy(spec: &Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfiguration",
        "metadata": {"name": "cluster"}, "spec": spec
    })
}

/// What mcx prints; the error is what it says.
fn mcx(args: &[&str]) -> Result<String, String> {
    let output = Command::new(mcx_bin()).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The one update of the workers in a plan.
fn update(plan: &str) -> Value {
    let plan: Value = serde_json::from_str(plan).unwrap();
    let worker = plan["pools"].as_array().unwrap().iter().find(|p| p["pool"] == "worker").unwrap().clone();
    let updates = worker["updates"].as_array().unwrap();
    assert_eq!(updates.len(), 1, "{worker:#}");
    updates[0].clone()
}

/// What a node takes part in during one round.
struct Before {
    cursor: String,
    /// Services that run.
    active: BTreeSet<String>,
    boot: String,
}

fn services() -> impl Iterator<Item = &'static str> {
    LOCAL.into_iter().chain(BROUGHT).chain([VENDOR])
}

/// Every service runs that can, so that the next round has something to reload and to stop. The cursor is at an entry of
/// systemd's own: after one of another process `journalctl` would leave out systemd's first.
fn before(node: Node) -> Before {
    let names: Vec<&str> = services().collect();
    let line = format!(
        "for u in {}; do systemctl start $u 2>/dev/null; systemctl is-active -q $u && echo $u; done; \
         journalctl --sync; journalctl -q _PID=1 -n 1 -o cat --show-cursor | sed -n 's/^-- cursor: /cursor /p'",
        names.join(" ")
    );
    let text = node.sh(&line);
    let cursor = text.lines().find_map(|l| l.strip_prefix("cursor ")).expect("a cursor").to_owned();
    let active = text.lines().filter(|l| l.ends_with(".service")).map(str::to_owned).collect();
    Before { cursor, active, boot: node.boot_id() }
}

/// What systemd has done since, in its order, by its own record.
fn done_since(node: Node, before: &Before) -> Vec<String> {
    let line = format!(
        "journalctl --sync; journalctl -q --after-cursor='{}' _PID=1 -o json --output-fields=MESSAGE,MESSAGE_ID,UNIT",
        before.cursor
    );
    let mut done: Vec<String> = Vec::new();
    let mut is_guarded = false;
    for entry in node.sh(&line).lines().map(|l| serde_json::from_str::<Value>(l).expect("a line of JSON")) {
        let word = |key: &str| entry[key].as_str().unwrap_or_default();
        let unit = word("UNIT");
        if word("MESSAGE").starts_with("Reloading.") {
            done.push("DaemonReload".to_owned());
        }
        if unit == GUARD_UNIT && word("MESSAGE_ID") == STARTED {
            is_guarded = true;
            // For systemd to read it.
            assert_eq!(done.pop().as_deref(), Some("DaemonReload"), "before the guard comes");
        }
        if !services().any(|s| s == unit) {
            continue;
        }
        match word("MESSAGE_ID") {
            STARTED => {
                // A restart is a stop and a start.
                done.retain(|d| *d != format!("Stop {unit}"));
                done.push(format!("Restart {unit}"));
            }
            STOPPED => done.push(format!("Stop {unit}")),
            RELOADED => done.push(format!("Reload {unit}")),
            _ => {}
        }
    }
    // The guard goes when all is done, and systemd is to forget it.
    if is_guarded && done.pop().as_deref() != Some("DaemonReload") {
        done.push("the guard is there still".to_owned());
    }
    done
}

/// What systemd is to do for the planned actions: as the guide says, nothing is reloaded that does not run, and what has
/// no unit file any more is stopped instead. `target`: the rendered config.
fn expected(actions: &[String], active: &BTreeSet<String>, target: &Value) -> Vec<String> {
    let units = target.pointer("/spec/config/systemd/units").and_then(Value::as_array).cloned().unwrap_or_default();
    let named = |name: &str| units.iter().find(|u| u["name"] == name);
    let has_file = |name: &str| {
        let masked = named(name).is_some_and(|u| u["mask"] == true);
        !masked && (!BROUGHT.contains(&name) || named(name).is_some_and(|u| u["contents"].is_string()))
    };
    let systemds = |action: &String| match action.split_once(' ') {
        None => (action == "DaemonReload").then(|| action.clone()),
        Some((_, unit)) if !has_file(unit) => active.contains(unit).then(|| format!("Stop {unit}")),
        Some(("Reload", unit)) => active.contains(unit).then(|| action.clone()),
        Some(_) => Some(action.clone()),
    };
    let all: Vec<String> = actions.iter().filter_map(systemds).collect();
    if !all.iter().any(|action| action == "DaemonReload") {
        return all;
    }
    // Units whose files are gone are stopped before the reload, while systemd still knows how.
    let (mut stops, others): (Vec<String>, Vec<String>) =
        all.into_iter().partition(|action| action.starts_with("Stop "));
    stops.extend(others);
    stops
}

/// Applies `next` at a time when nothing is handed out, so that the nodes see one change, however long applying takes.
fn apply(rig: &Rig, last: Option<&Written>, next: &Written) {
    let worker = format!("{POOLS}/worker");
    rig.patch(&worker, &json!({"spec": {"paused": true}}));
    // Not applied: what the next policy leaves out is to be absent.
    let output = rig.try_kubectl(&["replace", "-f", "-"], &policy(&next.state.policy).to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (name, body) in &next.state.sources {
        if last.and_then(|last| last.state.sources.get(name)) != Some(body) {
            rig.apply_source(&source(name, "worker", body));
        }
    }
    for name in last.into_iter().flat_map(|last| last.state.sources.keys()) {
        if !next.state.sources.contains_key(name) {
            rig.delete_source(name);
        }
    }
    rig.eventually(STEP, &format!("the controller renders {}, as mcx render does", next.name), || {
        let target = rig.target("worker");
        if target == next.name { Ok(()) } else { Err(target) }
    });
    rig.policy_in_effect();
    rig.patch(&worker, &json!({"spec": {"paused": null}}));
}

/// What `mcx plan` says of the way between two states; the first one begins at what mcx ships.
fn planned(last: Option<&Written>, next: &Written) -> Value {
    let mut between = vec!["plan", "-o", "json", "--to", next.path()];
    between.extend(last.into_iter().flat_map(|last| ["--from", last.path()]));
    update(&mcx(&between).unwrap())
}

fn actions(planned: &Value) -> Vec<String> {
    serde_json::from_value(planned["actions"].clone()).unwrap()
}

/// The states from `first` on that make rounds: one that is refused, or gives what is there already, makes none.
fn rounds(first: u64) -> impl Iterator<Item = Written> {
    let mut last = String::new();
    (first..).filter_map(Written::new).filter(move |next| std::mem::replace(&mut last, next.name.clone()) != next.name)
}

/// How many rounds had each kind of action.
#[derive(Default)]
struct Counts(BTreeMap<String, usize>);

impl Counts {
    fn add(&mut self, actions: &[String]) {
        let kinds: BTreeSet<&str> = actions.iter().filter_map(|a| a.split(' ').next()).collect();
        for kind in if kinds.is_empty() { BTreeSet::from(["nothing"]) } else { kinds } {
            *self.0.entry(kind.to_owned()).or_default() += 1;
        }
    }

    fn lack(&self, kinds: &[&'static str]) -> Vec<&'static str> {
        kinds.iter().copied().filter(|kind| !self.0.contains_key(*kind)).collect()
    }
}

/// Whether `after` has every field that `before` has, down to this depth.
fn is_kept(before: &Value, after: &Value, depth: usize) -> bool {
    let mut fields = before.as_object().into_iter().flatten();
    depth == 0 || fields.all(|(key, value)| after.get(key).is_some_and(|after| is_kept(value, after, depth - 1)))
}

/// One round; what was planned.
fn round(rig: &Rig, last: Option<&Written>, next: &Written) -> Vec<String> {
    let planned = planned(last, next);
    assert_eq!(planned["to"], next.name.as_str());
    assert_eq!(planned["from"], rig.target("worker").as_str());
    // On the cluster -f adds and changes, as kubectl apply does, and takes nothing away.
    if last.is_none_or(|last| {
        is_kept(&json!(last.state.sources), &json!(next.state.sources), 1)
            && is_kept(&last.state.policy, &next.state.policy, 2)
    }) {
        let kubeconfig = rig.path("admin.kubeconfig");
        let kubeconfig = kubeconfig.to_str().expect("UTF-8");
        let online = mcx(&["plan", "-o", "json", "-f", next.path(), "--kubeconfig", kubeconfig]);
        let online = update(&online.unwrap());
        assert_eq!(online["actions"], planned["actions"], "on the cluster and between folders");
        assert_eq!((&online["from"], &online["to"]), (&planned["from"], &planned["to"]));
    }
    let actions = actions(&planned);
    let (drains, reboots) = (planned["drain"] == true, planned["reboot"] == true);

    let observer = Observer::start(rig, &WORKERS, WORKERS.len());
    let then: BTreeMap<&str, Before> = WORKERS.into_iter().map(|name| (name, before(rig.node(name)))).collect();
    apply(rig, last, next);
    rig.all_done(ROLLOUT, "worker", &WORKERS, &next.name);
    let target = rig.get(&format!("{CONFIGS}/{}", next.name)).expect("the rendered config");
    for (name, before) in &then {
        let node = rig.node(name);
        let told = || format!("{name} was to do {actions:?}; {}", observer.way(name));
        assert_eq!(node.boot_id() != before.boot, reboots, "a reboot: {}", told());
        assert_eq!(observer.ever(name, |v| v.cordoned_by.is_some()), drains, "a drain: {}", told());
        if !reboots {
            let expected = expected(&actions, &before.active, &target);
            rig.eventually(STEP, &format!("{name} does {expected:?} and nothing else"), || {
                let done = done_since(node, before);
                if done == expected { Ok(()) } else { Err(format!("it did {done:?}; {}", told())) }
            });
        }
    }
    observer.finish();
    actions
}

/// Services that are there before mcx, as an administrator's.
fn set_up(rig: &Rig) {
    for name in WORKERS {
        for unit in LOCAL {
            rig.node(name).write(&format!("/etc/systemd/system/{unit}"), body("by hand").as_bytes());
        }
        rig.node(name).sh("systemctl daemon-reload");
    }
}

/// Takes everything away again, at no cost.
fn tear_down(rig: &Rig, last: &Written, original: &str) {
    let none = json!([{"type": "None"}]);
    rig.set_policy(&json!({
        "defaultNodeDisruptionPolicySpecAction": {"files": none, "units": none},
        "nodeDisruptionPolicy": {"files": null, "units": null, "sshkey": {"actions": none}},
    }));
    for name in last.state.sources.keys() {
        rig.delete_source(name);
    }
    rig.all_done(ROLLOUT, "worker", &WORKERS, original);
    for name in WORKERS {
        let (local, brought) = (LOCAL.join(" "), BROUGHT.join(" "));
        rig.node(name).sh(&format!(
            "systemctl disable -q --now {local}; cd /etc/systemd/system && rm -f {local}; systemctl stop {brought}; \
             systemctl daemon-reload"
        ));
    }
}

#[test]
#[ignore = "needs the rig: make test"]
fn the_offline_tools_say_what_the_controller_renders_and_the_nodes_do() {
    let rig = rig();
    set_up(&rig);
    let original = rig.target("worker");
    rig.patch(&format!("{POOLS}/worker"), &json!({"spec": {"maxUnavailable": "100%"}}));
    let soak = std::env::var_os("MCX_SOAK").is_some();
    let first = std::env::var("MCX_SEED").map_or(FIRST, |seed| seed.parse().expect("MCX_SEED is a number"));
    let wanted = if soak { ALL } else { SAMPLE };
    let mut counts = Counts::default();
    let mut last: Option<Written> = None;
    for (n, next) in rounds(first).take(wanted).enumerate() {
        eprintln!("round {} of {wanted}: state {}: {}", n + 1, next.number, next.name);
        counts.add(&round(&rig, last.as_ref(), &next));
        last = Some(next);
    }
    let last = last.unwrap();
    eprintln!(
        "{wanted} rounds on {} nodes, states {first} to {}: rounds by action {:?}",
        WORKERS.len(),
        last.number,
        counts.0
    );
    tear_down(&rig, &last, &original);
    if soak {
        assert_eq!(counts.lack(&["nothing", "DaemonReload", "Reload", "Restart", "Drain", "Reboot"]), [""; 0]);
    }
}

#[test]
fn the_sample_has_each_kind_of_action_that_costs_little() {
    let mut counts = Counts::default();
    let mut last: Option<Written> = None;
    for next in rounds(FIRST).take(SAMPLE) {
        counts.add(&actions(&planned(last.as_ref(), &next)));
        last = Some(next);
    }
    assert_eq!(counts.lack(&["nothing", "DaemonReload", "Reload", "Restart", "Drain"]), [""; 0]);
    assert!(!counts.0.contains_key("Reboot"));
}
