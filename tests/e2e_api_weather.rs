//! What `tests/daemon_api.rs` does with an API server in memory, done with a real one: an update of a machine on a folder
//! through a way that is away, refuses, comes late or finds another Node. The daemon has the rights of an installation and
//! a token that is bound to its Node; the controller's part is the test's. That update ends as without any trouble, and
//! acts once; undone, and tried again, only when the API is away for longer than the guard waits.
//!
//! A sample by default; every request, or every kind of request, with `MCX_SOAK=1`.

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "test code outside of #[test] functions")]

mod cluster;
#[path = "support/machine.rs"]
mod machine;
#[path = "support/node_api.rs"]
mod node_api;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/real_node.rs"]
mod real_node;
#[path = "support/weather.rs"]
mod weather;

use machine::{Cluster as _, Cost, Machine, RESTART, bare};
use real_node::{RealNode, Server};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weather::{Asked, Fault, Sky};

/// Longer than the guard's time, which is 10 s here, and than one request may take.
const LONG: Duration = Duration::from_secs(40);
/// Of each call when the server is slow.
const SLOW: Duration = Duration::from_secs(10);
const SIDE_BY_SIDE: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// No connection is accepted.
    Away(Duration),
    /// This one request is answered so.
    Once(u16),
    /// Each call takes so long from then on.
    Slow,
    /// This one does.
    Late,
    /// The Node is deleted and registered anew, and the daemon has a token for that.
    NewNode,
}

/// A machine that is Done at the first config.
fn joined(server: &Arc<Server>, name: &str) -> Option<Machine<RealNode>> {
    let (folder, node) = (bare()?, server.node(name));
    let daemon = node.daemon();
    let mut machine = Machine::on(folder, node, async || daemon, name, Cost::Restart);
    machine.start();
    machine.until("joined", |m| m.api.annotation("state") == "Done");
    machine.want(1);
    machine.until("the first config", |m| m.is_at(1));
    machine.forget_calls();
    Some(machine)
}

/// The requests of an update when nothing happens.
fn requests(server: &Arc<Server>) -> Option<Vec<String>> {
    let mut machine = joined(server, "weather")?;
    let before = machine.weather.asked().len();
    machine.want(2);
    machine.until("the second config", |m| m.is_at(2));
    machine.assert_fine(2, "without any trouble");
    assert_eq!(machine.count(RESTART), 1);
    let asked = machine.weather.asked().split_off(before);
    Some(asked.iter().filter(|asked| asked.is_a_step()).map(Asked::name).collect())
}

/// Has `trouble` begin with the step `at` (from 0) of what the daemon asks for from now on.
fn set(machine: &Machine<RealNode>, at: usize, trouble: Trouble) {
    let (api, weather) = (machine.api.clone(), machine.weather.clone());
    let (mut seen, mut has_begun) = (0, false);
    machine.weather.rule(move |asked| {
        let begins = !has_begun && asked.is_a_step() && {
            seen += 1;
            seen > at
        };
        has_begun |= begins;
        match trouble {
            Trouble::Away(time) if begins => {
                weather.set(Sky::Refused);
                let weather = weather.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(time);
                    weather.set(Sky::Fair);
                });
                Some(Fault::Lost)
            }
            Trouble::Once(code) if begins => Some(Fault::Status(code)),
            Trouble::Late if begins => Some(Fault::Late(SLOW)),
            Trouble::Slow if has_begun => Some(Fault::Late(SLOW)),
            Trouble::NewNode if begins => {
                let (api, weather) = (api.clone(), weather.clone());
                // Within a request nobody waits for the server: that is done beside it.
                let done = std::thread::spawn(move || {
                    api.register();
                    weather.pass_on_by(api.daemon());
                });
                done.join().unwrap();
                None
            }
            _ => None,
        }
    });
}

fn run(server: &Arc<Server>, number: usize, (at, what): (usize, &str), trouble: Trouble) -> Duration {
    let when = format!("{trouble:?} at {at} ({what})");
    let mut machine = joined(server, &format!("weather-{number}")).unwrap();
    set(&machine, at, trouble);
    let begun = Instant::now();
    machine.want(2);
    machine.until(&when, |m| m.is_at(2) && !m.api.is_cordoned());
    let took = begun.elapsed();
    // One that says more than that it is done, or does more, has not come to rest.
    machine.pass(Duration::from_millis(500));
    machine.until(&format!("{when}, again"), |m| m.is_at(2) && !m.api.is_cordoned());
    machine.assert_fine(2, &when);
    let (acted, undone) = (machine.count(RESTART), machine.log().matches("the update is undone").count());
    let may_be_undone = matches!(trouble, Trouble::Away(time) if time == LONG);
    assert!(may_be_undone || undone == 0, "{when}: {}", machine.log());
    assert_eq!(acted, if undone > 0 { 3 } else { 1 }, "{when}: undone {undone} times: {:?}", machine.calls());
    took
}

/// The cases: a moment, and what happens then.
fn cases(steps: &[String], is_soak: bool) -> Vec<(usize, Trouble)> {
    let mut kinds = BTreeSet::new();
    let first_of_kind: Vec<usize> = (0..steps.len()).filter(|at| kinds.insert(&steps[*at])).collect();
    let codes = [401, 409, 410, 429, 500].map(Trouble::Once);
    if is_soak {
        let away = (0..steps.len()).map(|at| (at, Trouble::Away(LONG)));
        let once = codes.iter().flat_map(|code| first_of_kind.iter().map(|at| (*at, *code)));
        let new = (0..steps.len()).map(|at| (at, Trouble::NewNode));
        return [(0, Trouble::Slow)].into_iter().chain(away).chain(once).chain(new).collect();
    }
    let spread = |n: usize| first_of_kind[n * (first_of_kind.len() - 1) / 6];
    let once = codes.into_iter().enumerate().map(|(n, code)| (spread(n + 1), code));
    let others = [Trouble::NewNode, Trouble::Late, Trouble::Away(Duration::from_secs(3))];
    once.chain(others.into_iter().enumerate().map(|(n, trouble)| (spread(2 * n + 1), trouble))).collect()
}

#[test]
#[ignore = "needs a cluster: set MCX_RIG_KUBECONFIG"]
fn an_update_through_a_disturbed_way_to_a_real_api_server_ends_as_without_any_trouble() {
    cluster::install();
    let server = Arc::new(Server::with(Cost::Restart));
    let Some(steps) = requests(&server) else { return };
    println!("the requests of an update: {steps:?}");
    let cases = cases(&steps, std::env::var_os("MCX_SOAK").is_some());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((at, trouble)) = cases.get(number) else { return };
                    match catch_unwind(AssertUnwindSafe(|| run(&server, number, (*at, &steps[*at]), *trouble))) {
                        Ok(took) => println!("{trouble:?} at {at} ({}): {took:.1?}", steps[*at]),
                        Err(panic) => {
                            let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                            failed.lock().unwrap().push(format!("{trouble:?} at {at} ({}): {why}", steps[*at]));
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("{} cases, {} requests, {} failed", cases.len(), steps.len(), failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
