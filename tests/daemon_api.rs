//! What the daemon does when its API server, its machine or its state goes wrong in the middle of an update: `mcx daemon`
//! as a process, an API server in memory behind a way that can be disturbed, and each request of an update (each phase
//! ends with one) as the moment at which it happens.
//!
//! | what happens | before the first switch | from the first switch to the proof | from the proof to Done |
//! |---|---|---|---|
//! | API refused or silent, shorter than the guard's time | it waits, nothing is begun; then Done | carried through its actions, once; then Done | it waits; then Done |
//! | the same for longer than every timeout and the guard's time | the same | undone, tried once more when the API answers; then Done | the same |
//! | 401, 409, 410, 429, 500, no API server's answer | as away | as away; any answer is a proof | as away |
//! | slow: 10 s a call | Done, later | Done, later; the guard is satisfied | Done, later |
//! | a request that comes late, or whose answer is lost | it is seen, or made again | the same | no report that is late says anything of a later state |
//! | desired is another | it is changed to at once, nothing of the first is switched | finished, then changed to | the same |
//! | the Node is deleted and registered anew | claimed and drained again | claimed and drained before anything is acted on | reported again |
//! | the rendered config is deleted | waited for, named after 15 s; another desired is taken | not needed | not needed |
//! | the daemon is killed, the machine boots unasked | begun again | an action is run again at most once; a boot has started all anew | reported again |
//! | `/var/lib/mcx` is lost, with or under the daemon | begun again from what the Node says | the same, with its actions | adopted from what the Node says |
//!
//! Always: Done is said only with the config's file on the disk, in what runs, and no open transaction; the cordon is
//! lifted; requests, log and memory are bounded. A sample by default, every moment with `MCX_SOAK=1`.

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "test code outside of #[test] functions")]

#[path = "support/machine.rs"]
mod machine;
#[path = "support/node_api.rs"]
mod node_api;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/weather.rs"]
mod weather;

use machine::{Cost, FILE, Machine, Order, RESTART, rendered};
use mcx::node::disk::Disk;
use mcx::node::host::Host;
use mcx::node::{cluster, daemon};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use weather::{Asked, Fault, Sky};

/// Shorter than the guard's time, which is 10 s here.
const SHORT: Duration = Duration::from_secs(3);
/// Longer than that, than one request may take, and than a missing config is waited for in silence.
const LONG: Duration = Duration::from_secs(40);
/// Machines side by side: what they do is wait, mostly.
const SIDE_BY_SIDE: usize = 12;

/// Every which case is wanted: `MCX_SOAK=1` means all; none without it.
fn soak() -> Option<usize> {
    std::env::var("MCX_SOAK").ok().map(|wanted| wanted.parse().unwrap_or(1).max(1))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Away(Sky, Duration),
    Answers(Fault, Duration),
    /// Only this one request.
    Once(Fault),
    Desired,
    NewNode,
    /// Until then.
    ConfigGone(Duration),
    Ordered(Order),
}

/// Has `trouble` begin with the step `at` (from 0) of what the daemon asks for from now on.
fn set(machine: &Machine, at: usize, trouble: Trouble) {
    let (api, weather, orders) = (machine.api.clone(), machine.weather.clone(), machine.orders.clone());
    let (mut seen, mut began) = (0, None::<Instant>);
    machine.weather.rule(move |asked| {
        let begins = began.is_none() && asked.is_a_step() && {
            seen += 1;
            seen > at
        };
        if begins {
            began = Some(Instant::now());
        }
        let since = began?.elapsed();
        match trouble {
            Trouble::Away(sky, time) if begins => {
                weather.set(sky);
                let weather = weather.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(time);
                    weather.set(Sky::Fair);
                });
                Some(Fault::Lost)
            }
            Trouble::Answers(fault, time) => (since < time).then_some(fault),
            Trouble::Once(fault) => begins.then_some(fault),
            Trouble::Desired if begins => {
                api.annotate("desiredConfig", &rendered(3).0);
                None
            }
            Trouble::NewNode if begins => {
                api.register();
                None
            }
            Trouble::ConfigGone(time) if begins => {
                let (name, api) = (rendered(2).0, api.clone());
                let gone = api.state().configs.remove(&name).unwrap();
                std::thread::spawn(move || {
                    std::thread::sleep(time);
                    api.state().configs.insert(name, gone);
                });
                None
            }
            Trouble::Ordered(order) if begins => {
                orders.lock().unwrap().push(order);
                // The request that the daemon dies with may have arrived or not.
                (order != Order::LoseUnder).then_some(if at.is_multiple_of(2) {
                    Fault::Lost
                } else {
                    Fault::Unanswered
                })
            }
            _ => None,
        }
    });
}

/// A machine at the first config, and the requests of its update to the second one when nothing happens.
struct Scenario {
    cost: Cost,
    template: Machine,
    steps: Vec<String>,
    load: usize,
}

impl Scenario {
    fn new(cost: Cost) -> Option<Self> {
        let mut template = Machine::new(cost)?;
        template.start();
        template.until("joined", |m| m.api.annotation("state") == "Done");
        template.want(1);
        template.until("the first config", |m| m.is_at(1));
        template.assert_fine(1, "at first");
        template.stop();
        template.forget_calls();
        let mut whole = template.copy();
        whole.want(2);
        whole.start();
        whole.until("the second config", |m| m.is_at(2));
        whole.assert_fine(2, "without any trouble");
        assert_eq!(effects(&whole, cost), 1);
        let steps = whole.weather.asked().iter().filter(|asked| asked.is_a_step()).map(Asked::name).collect();
        Some(Self { cost, template, steps, load: whole.weather.load() })
    }

    /// The first step after the last look before the first switch.
    fn switched(&self) -> usize {
        self.steps.iter().position(|step| step == "PATCH Applying").unwrap()
    }

    /// The step that is the proof; after it nothing is undone any more.
    fn proof(&self) -> usize {
        self.steps.iter().rposition(|step| step == "GET version").unwrap()
    }

    fn run(&self, at: usize, trouble: Trouble) {
        let when = format!("{:?}, {trouble:?} at {at} ({})", self.cost, self.steps[at]);
        let mut machine = self.template.copy();
        set(&machine, at, trouble);
        let is_else = trouble == Trouble::Desired;
        machine.want(2);
        if is_else {
            machine.target = String::new();
        }
        let end = if is_else { 3 } else { 2 };
        machine.start();
        machine.until(&when, |m| m.is_at(end) && m.api.annotation("desiredConfig") == rendered(end).0);
        // One that says more than that it is done, or does more, has not come to rest.
        machine.pass(Duration::from_millis(500));
        machine.until(&format!("{when}, again"), |m| m.is_at(end));
        machine.assert_fine(end, &when);
        let (acted, undone) = (effects(&machine, self.cost), machine.log().matches("the update is undone").count());
        let after = at >= self.switched();
        let is_long = matches!(trouble, Trouble::Away(_, time) if time == LONG);
        let expected = match trouble {
            Trouble::Away(_, time) if time == LONG && after && at <= self.proof() => {
                assert!(undone > 0 && machine.log().contains("tried once more"), "{when}: {}", machine.log());
                3..=3
            }
            // The second config was acted on only if its files were switched.
            Trouble::Desired => usize::from(after) + 1..=usize::from(after) + 1,
            Trouble::Ordered(Order::LoseUnder | Order::Lose | Order::Kill) => 1..=2,
            // A boot has started everything anew.
            Trouble::Ordered(Order::PowerCut) => 0..=2,
            _ => 1..=1,
        };
        assert!(expected.contains(&acted), "{when}: acted {acted} times, undone {undone} times: {:?}", machine.calls());
        if !is_long && trouble != Trouble::Ordered(Order::LoseUnder) {
            assert_eq!(undone, 0, "{when}: {}", machine.log());
        }
        let load = machine.weather.load().saturating_sub(self.load);
        let most = if is_long { 150 } else { 60 };
        assert!(load < most, "{when}: {load} more requests and connections than without trouble");
    }
}

/// How often what runs was changed.
fn effects(machine: &Machine, cost: Cost) -> usize {
    machine.count(if cost == Cost::Restart { RESTART } else { "reboot" })
}

/// Runs all cases side by side; a sample, unless it is a soak.
fn sweep(cost: Cost, every: usize, troubles: &[Trouble]) {
    let Some(scenario) = Scenario::new(cost) else { return };
    let moments = scenario.steps.len();
    let all: Vec<(usize, Trouble)> = troubles.iter().flat_map(|t| (0..moments).map(move |at| (at, *t))).collect();
    // Each sample has another offset with each trouble, so that all moments are met.
    let picked = all.iter().enumerate().filter(|(n, _)| n % soak().unwrap_or(every) == 0).map(|(_, case)| *case);
    let cases: Vec<(usize, Trouble)> = picked.collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some((at, trouble)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario.run(*at, *trouble))) {
                        failed.lock().unwrap().push(panic.downcast_ref::<String>().cloned().unwrap_or_default());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("{cost:?}: {} of {} cases ({} requests), {} failed", cases.len(), all.len(), moments, failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn an_api_that_is_away_for_a_moment_costs_nothing_but_time() {
    sweep(Cost::Restart, 19, &[Trouble::Away(Sky::Refused, SHORT), Trouble::Away(Sky::Silent, SHORT)]);
}

#[test]
fn an_api_that_answers_no_request_costs_nothing_but_time() {
    let answers = [401, 409, 410, 429, 500].map(Fault::Status).into_iter().chain([Fault::Rubbish]);
    let troubles: Vec<Trouble> = answers.map(|fault| Trouble::Answers(fault, SHORT)).collect();
    sweep(Cost::Restart, 29, &troubles);
}

#[test]
fn an_api_that_is_away_for_longer_than_the_guard_waits_undoes_only_what_it_cannot_tell_from_a_lost_node() {
    sweep(Cost::Restart, 19, &[Trouble::Away(Sky::Refused, LONG), Trouble::Away(Sky::Silent, LONG)]);
}

#[test]
fn a_request_that_comes_late_or_is_lost_is_made_once() {
    let late = |seconds| Trouble::Once(Fault::Late(Duration::from_secs(seconds)));
    sweep(Cost::Restart, 29, &[late(10), late(17), Trouble::Once(Fault::Lost), Trouble::Once(Fault::Unanswered)]);
}

#[test]
fn another_desired_config_a_new_node_or_a_missing_config_is_met_at_any_moment() {
    sweep(Cost::Restart, 13, &[Trouble::Desired, Trouble::NewNode, Trouble::ConfigGone(SHORT)]);
}

#[test]
fn a_daemon_a_machine_or_its_state_that_goes_at_any_moment_ends_right() {
    let orders = [Order::Kill, Order::PowerCut, Order::Lose, Order::LoseUnder].map(Trouble::Ordered);
    sweep(Cost::Restart, 19, &orders);
}

#[test]
fn an_update_that_reboots_ends_right_whatever_happens_at_any_moment() {
    let troubles = [
        Trouble::Away(Sky::Silent, SHORT),
        Trouble::Answers(Fault::Status(409), SHORT),
        Trouble::Desired,
        Trouble::NewNode,
        Trouble::Ordered(Order::PowerCut),
        Trouble::Ordered(Order::Kill),
    ];
    sweep(Cost::Reboot, 29, &troubles);
}

/// An API server that takes 10 s for each call.
#[test]
fn with_a_slow_api_the_update_comes_later_and_is_not_undone() {
    if soak().is_some() {
        sweep(Cost::Restart, 1, &[Trouble::Answers(Fault::Late(Duration::from_secs(10)), Duration::from_mins(10))]);
    }
}

#[test]
fn a_report_that_arrives_late_says_nothing_of_what_came_after_it() {
    let Some(scenario) = Scenario::new(Cost::Restart) else { return };
    let mut machine = scenario.template.copy();
    let (api, mut late) = (machine.api.clone(), false);
    machine.weather.rule(move |asked| {
        let is_it = !late && asked.name() == "PATCH Done";
        late |= is_it;
        if is_it {
            let api = api.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(1));
                api.annotate("desiredConfig", &rendered(3).0);
            });
        }
        // It comes when the daemon has given it up and is at the next config.
        is_it.then_some(Fault::Late(Duration::from_secs(18)))
    });
    machine.want(2);
    machine.target = String::new();
    machine.start();
    machine.until("the third config", |m| m.is_at(3));
    machine.pass(Duration::from_secs(4));
    assert!(machine.is_at(3));
    machine.assert_fine(3, "after the late report");
}

#[test]
fn a_daemon_whose_requests_hang_still_ends_within_seconds() {
    let Some(mut machine) = Machine::new(Cost::Restart) else { return };
    machine.start();
    machine.until("joined", |m| m.api.annotation("state") == "Done");
    machine.weather.set(Sky::Silent);
    machine.want(1);
    machine.pass(Duration::from_secs(1));
    assert!(machine.stop() < Duration::from_secs(5));
}

/// The connection takes the first request, and nothing ever comes back, not even its end.
#[test]
fn a_list_that_is_never_answered_is_made_anew() {
    let Some(mut machine) = Machine::new(Cost::Restart) else { return };
    let (kubeconfig, root) = (machine.kubeconfig(), machine.node.root().to_owned());
    machine.weather.set(Sky::Dead);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let daemon = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut way = cluster::way(Some(&kubeconfig), &root).await.unwrap();
            // Else it is the longest watch and a little more.
            way.read_timeout = Some(Duration::from_secs(2));
            let host = Host::open(&root).unwrap().with_program(env!("CARGO_BIN_EXE_mcx").into());
            let disk = Disk::open(host.into(), Duration::ZERO).await.unwrap();
            let cluster = cluster::Cluster::connect(way, "n1".into()).unwrap();
            let (metrics, ready) = (daemon::Metrics::default(), Arc::default());
            daemon::run(disk, cluster, daemon::Options::default(), metrics, ready, stopped).await.unwrap();
        });
    });
    machine.pass(Duration::from_secs(1));
    assert_eq!(machine.api.annotation("state"), "");
    machine.weather.set(Sky::Fair);
    machine.until("joined", |m| m.api.annotation("state") == "Done");
    stop.cancel();
    daemon.join().unwrap();
}

#[test]
fn an_expired_token_is_read_anew_as_soon_as_its_file_is() {
    let Some(mut machine) = Machine::new(Cost::Restart) else { return };
    let expired = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_expired = expired.clone();
    machine.weather.rule(move |asked| {
        let good = if is_expired.load(Ordering::Relaxed) { "Bearer second" } else { "Bearer first" };
        (asked.token != good).then_some(Fault::Status(401))
    });
    machine.start();
    machine.until("joined", |m| m.api.annotation("state") == "Done");
    expired.store(true, Ordering::Relaxed);
    machine.want(1);
    let before = machine.weather.load();
    machine.pass(SHORT);
    assert!(!machine.is_at(1) && !machine.node.at(FILE).exists());
    assert!(machine.weather.load() - before < 30, "it asks and asks");
    // As `kubectl create token` writes it, with a newline.
    machine.set_token("second\n");
    let renewed = Instant::now();
    machine.until("the config", |m| m.is_at(1));
    assert!(renewed.elapsed() < Duration::from_secs(30), "{:?}", renewed.elapsed());
    assert!(!machine.log().contains("second"), "the token is in the log");
    machine.assert_fine(1, "with the new token");
}

#[test]
fn a_config_that_stays_away_is_named_and_another_one_is_taken() {
    let Some(scenario) = Scenario::new(Cost::Restart) else { return };
    let mut machine = scenario.template.copy();
    machine.api.state().configs.remove(&rendered(2).0);
    machine.want(2);
    machine.start();
    machine.until("the reason", |m| m.api.annotation("reason").contains(&rendered(2).0));
    assert_eq!((machine.api.annotation("state"), effects(&machine, Cost::Restart)), ("Degraded".into(), 0));
    machine.want(3);
    machine.until("the third config", |m| m.is_at(3));
    machine.assert_fine(3, "after a config that was not there");
}

#[test]
fn a_config_that_arrives_while_a_reboot_is_waited_for_comes_after_it_and_a_reboot_that_does_not_come_is_named() {
    let Some(scenario) = Scenario::new(Cost::Reboot) else { return };
    let mut machine = scenario.template.copy();
    machine.reboots = false;
    machine.want(2);
    machine.start();
    machine.until("the reboot is asked for", |m| m.count("reboot") == 1);
    machine.want(3);
    machine.pass(Duration::from_secs(7));
    assert_eq!(machine.count("reboot"), 1, "asked again while the system may be going down");
    assert_eq!(machine.node.read(FILE), "rendered-w-2\n", "changed under a system that goes down");
    assert_ne!(machine.api.annotation("state"), "Done");
    // A daemon that starts in the same boot asks once more, and says what to look at.
    machine.orders.lock().unwrap().push(Order::Kill);
    machine.until("it is asked for again", |m| m.count("reboot") == 2);
    machine.until("somebody is told", |m| {
        m.api.state().notes.iter().any(|note| note.contains("try 2 of 5") && note.contains("systemd-inhibit"))
    });
    machine.reboots = true;
    machine.until("the third config", |m| m.is_at(3));
    assert_eq!(machine.count("reboot"), 3);
    machine.assert_fine(3, "after two reboots");
}

#[test]
fn a_lost_state_is_found_again_from_what_the_node_says_or_from_desired_when_the_disk_matches_it() {
    let Some(scenario) = Scenario::new(Cost::Restart) else { return };
    for under in [false, true] {
        let mut machine = scenario.template.copy();
        machine.flags.extend(["--sweep", "1s"]);
        machine.target = rendered(1).0;
        if under {
            machine.start();
            machine.pass(Duration::from_secs(1));
        }
        machine.lose_state();
        if !under {
            machine.start();
        }
        machine.until("its state is there again", |m| m.node.at("/var/lib/mcx/current.json").exists());
        machine.pass(Duration::from_secs(1));
        assert!(machine.is_at(1) && machine.node.read("/var/lib/mcx/current.json").contains("rendered-w-1"));
        assert_eq!(effects(&machine, Cost::Restart), 0, "adopted, not applied");
        let keeper = machine.node.read("/var/lib/mcx/lock");
        assert_eq!(keeper, "kept by the daemon of node n1\n");
        machine.want(2);
        machine.until("the second config", |m| m.is_at(2));
        machine.assert_fine(2, "after a lost state");
        machine.want(0);
        machine.until("the withdrawal", |m| m.is_at(0));
        assert!(!machine.node.at(FILE).exists(), "what the lost state had brought stays for ever");
    }
    for (disk, applied) in [("rendered-w-1\n", 0), ("by hand\n", 1)] {
        let mut machine = scenario.template.copy();
        machine.lose_state();
        machine.api.register();
        machine.node.write(FILE, disk, 0o644);
        machine.target = rendered(1).0;
        machine.want(1);
        machine.start();
        machine.until("the first config", |m| m.is_at(1));
        machine.assert_fine(1, disk);
        assert_eq!(effects(&machine, Cost::Restart), applied, "{disk:?}");
    }
}

#[test]
fn a_state_folder_that_is_full_is_named_and_the_update_goes_on_by_itself_once_there_is_room() {
    let Some(scenario) = Scenario::new(Cost::Restart) else { return };
    for lost in [false, true] {
        let mut machine = scenario.template.copy();
        machine.flags.extend(["--sweep", "1s"]);
        let at = machine.node.at("/var/lib/mcx");
        let state = machine.node.read("/var/lib/mcx/current.json");
        let size = Some("size=200m");
        nix::mount::mount(Some("tmpfs"), &at, Some("tmpfs"), nix::mount::MsFlags::empty(), size).unwrap();
        let _mounted = Mounted(at.clone());
        if !lost {
            std::fs::write(at.join("current.json"), state).unwrap();
        }
        std::fs::create_dir(at.join("originals")).unwrap();
        std::fs::write(at.join("lock"), "kept by the daemon of node n1\n").unwrap();
        let filler = at.join("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        for size in [1 << 20, 512] {
            while std::io::Write::write_all(&mut file, &vec![b'x'; size]).is_ok() {}
        }
        drop(file);
        machine.want(2);
        machine.start();
        machine.until("somebody is told", |m| {
            // Ours before the update, or the kernel's.
            let reason = m.api.annotation("reason").to_lowercase();
            m.api.annotation("state") == "Degraded" && reason.contains("/var/lib/mcx") && reason.contains("no space")
        });
        assert_eq!(machine.node.read(FILE), "rendered-w-1\n");
        assert_eq!(effects(&machine, Cost::Restart), 0);
        std::fs::remove_file(&filler).unwrap();
        machine.until("the second config", |m| m.is_at(2));
        machine.assert_fine(2, "with room again");
        machine.kill();
    }
}

struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}
