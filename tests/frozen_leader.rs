//! Behaviour: a leader that is frozen anywhere between the two writes of a hand-out, and wakes after another has taken
//! over, does no harm: its second write fails, it stops, and no node too many is taken.
//!
//! The controllers are processes on a real API server; the nodes are made by hand. The frozen one reaches the API server
//! through a gate, which stops it at the very request.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod cluster;
#[path = "support/controller_process.rs"]
mod controller_process;
#[path = "support/gate.rs"]
mod gate;
mod harness;

use controller_process::ControllerProcess;
use gate::{Asked, Gate, Hold, Step};
use harness::{HandMade, Observer, Rig, STEP, file, source};
use http::{Method, StatusCode};
use mcx::api::protocol::Slots;
use mcx::api::{LEASE, NAMESPACE, annotation};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;

/// The lease and the shipped objects are one per cluster: tests take turns.
static TURN: Mutex<()> = Mutex::new(());

const FIRST: &str = "n1";
const SECOND: &str = "n2";
const NODES: [&str; 2] = [FIRST, SECOND];
const SOURCE: &str = "60-frozen";
const POOL_PATH: &str = "/apis/machineconfiguration.alauda.io/v1alpha1/machineconfigpools/worker";
const NODE_PATH: &str = "/api/v1/nodes/n1";

/// The requests of a hand-out to the first node, in their order (design of the rollout: slot, Node, pool, Node).
const HAND_OUT: [Step; 4] = [
    |a: &Asked| a.method == Method::PATCH && a.path == POOL_PATH && a.body.contains(FIRST),
    |a: &Asked| a.method == Method::GET && a.path == NODE_PATH,
    |a: &Asked| a.method == Method::GET && a.path == POOL_PATH,
    |a: &Asked| a.method == Method::PATCH && a.path == NODE_PATH && a.body.contains(annotation::DESIRED_CONFIG),
];

/// Where the leader is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The slot is written, and the leader does not know yet.
    SlotWritten,
    /// The Node is read, and the leader does not know yet.
    NodeRead,
    /// The pool is read, which lets it go on, and the leader does not know yet.
    PoolRead,
    /// The desired config is on its way, and arrives after all that the other leader does.
    DesiredOnItsWay,
}

/// What the other leader does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    /// A newer target goes to the first node, which is through with it, and then to the second, which is on its way.
    GoesOn,
    /// The target is what the nodes have again, the slot is given back without a word to the Node; then the second
    /// node fails by itself.
    Withdraws,
}

/// How the other comes to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// The lease is deleted by hand: the frozen leader, when it wakes, has no reason to think that it leads no longer.
    Taken,
    /// The lease runs out.
    RunOut,
}

fn slots(rig: &Rig) -> Option<Slots> {
    serde_json::from_str(rig.pool("worker")["metadata"]["annotations"][annotation::SLOTS].as_str()?).ok()
}

fn holders(rig: &Rig) -> Vec<String> {
    slots(rig).into_iter().flat_map(|s| s.nodes).map(|h| h.name.to_string()).collect()
}

/// Whether the rendered config mentions `text`; none when there is none of that name.
fn target_holds(rig: &Rig, config: &str, text: &str) -> Option<bool> {
    rig.get(&format!("{}/{config}", harness::CONFIGS)).map(|config: Value| config["spec"].to_string().contains(text))
}

fn write_source(rig: &Rig, text: &str) {
    rig.apply_source(&source(SOURCE, "worker", &file("/etc/mcx-test/frozen", 0o644, text)));
}

/// The workers cost nothing to change: no drain, no proof of the kubelet.
fn start(rig: &Rig, pod: &str, kubeconfig: &std::path::Path, lease: &str) -> ControllerProcess {
    let flags = ["--settle", "100ms", "--settle-limit", "500ms", "--lease-duration", lease];
    let controller = ControllerProcess::start(pod, kubeconfig, &flags);
    rig.eventually(STEP, &format!("{pod} is ready"), || controller.is_ready().then_some(()).ok_or("it is not"));
    controller
}

fn frozen(moment: Moment, meanwhile: Meanwhile, lead: Lead) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    cluster::install();
    let rig = harness::control_plane();
    let lease_path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}");
    rig.delete(&lease_path);
    rig.delete_source(SOURCE);
    let gate = Gate::open(&rig.path("admin.kubeconfig"));
    let frozen_lease = if lead == Lead::RunOut { "5s" } else { "300s" };
    let first = start(&rig, "c1", &gate.kubeconfig(), frozen_lease);
    rig.eventually(STEP, "the first leads", || first.leads().then_some(()).ok_or("it does not"));
    let original = rig.eventually(STEP, "the pool has the target without the source", || {
        let target = rig.get(POOL_PATH).map(|_| rig.target("worker")).unwrap_or_default();
        if target_holds(&rig, &target, "/etc/mcx-test/frozen") == Some(false) { Ok(target) } else { Err(target) }
    });
    let nodes = HandMade::register(&rig, &NODES, &original);
    rig.all_done(STEP, "worker", &NODES, &original);
    let observer = Observer::start(&rig, &NODES, 1);
    let second = start(&rig, "c2", &rig.path("admin.kubeconfig"), "5s");

    let (steps, hold) = match moment {
        Moment::SlotWritten => (&HAND_OUT[..1], Hold::Answer),
        Moment::NodeRead => (&HAND_OUT[..2], Hold::Answer),
        Moment::PoolRead => (&HAND_OUT[..3], Hold::Answer),
        Moment::DesiredOnItsWay => (&HAND_OUT[..], Hold::Request),
    };
    let mut trap = gate.trap(first.pid(), steps, hold);
    write_source(&rig, "one");
    trap.caught(STEP);
    assert_eq!(first.says_it_leads(), None, "it is not frozen");
    assert_eq!((holders(&rig), rig.view(FIRST).desired), (vec![FIRST.to_owned()], original.clone()));
    let epoch = slots(&rig).unwrap().epoch;

    match meanwhile {
        Meanwhile::GoesOn => write_source(&rig, "two"),
        Meanwhile::Withdraws => rig.delete_source(SOURCE),
    }
    if lead == Lead::Taken {
        rig.delete(&lease_path);
    }
    rig.eventually(STEP, "the second has taken over", || match slots(&rig) {
        Some(slots) if second.leads() && slots.epoch != epoch => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let newest = match meanwhile {
        Meanwhile::GoesOn => go_on(&rig, &nodes, &original),
        Meanwhile::Withdraws => withdraw(&rig, &nodes, &original),
    };
    let epoch = slots(&rig).unwrap().epoch;

    let answered = trap.release(STEP);
    let refused = if moment == Moment::DesiredOnItsWay { StatusCode::CONFLICT } else { StatusCode::OK };
    assert_eq!(answered, refused);
    let before = gate.writes().len();
    first.signal(Signal::SIGCONT);
    rig.eventually(STEP, "the first notices", || match first.says_it_leads() {
        Some(false) => Ok(()),
        other => Err(format!("it leads: {other:?}")),
    });
    assert_eq!(slots(&rig).unwrap().epoch, epoch, "the frozen leader took the pool back");
    assert!(second.leads());

    match meanwhile {
        Meanwhile::GoesOn => nodes.end(SECOND),
        Meanwhile::Withdraws => nodes.ready(SECOND, true),
    }
    rig.all_done(STEP, "worker", &NODES, &newest);
    rig.eventually(STEP, "all slots are free", || match holders(&rig) {
        none if none.is_empty() => Ok(()),
        some => Err(some.join(", ")),
    });
    observer.finish();
    // An Event is a word to people about what was, and nobody decides by it.
    let harmless = |path: &str| path.starts_with("/apis/events.k8s.io/");
    let made = gate.writes().split_off(before).into_iter().filter(|w| w.status.is_success());
    let made: Vec<_> = made.filter(|w| !harmless(&w.asked.path)).collect();
    assert!(made.is_empty(), "it woke and wrote {made:#?}");
}

/// The second leader's rollout of a newer config: the first node through, the second on its way. Returns the target.
fn go_on(rig: &Rig, nodes: &HandMade, original: &str) -> String {
    let given = |name: &str| {
        rig.eventually(STEP, &format!("{name} is given the newest config"), || {
            let (view, target) = (rig.view(name), rig.target("worker"));
            let newest = target_holds(rig, &target, "data:,two") == Some(true);
            if newest && view.desired == target && target != original { Ok(target) } else { Err(view.line()) }
        })
    };
    let target = given(FIRST);
    nodes.begin(FIRST);
    nodes.end(FIRST);
    assert_eq!(given(SECOND), target);
    nodes.begin(SECOND);
    target
}

/// The second leader gives the slot back, since there is nothing to do; then the second node fails. Returns the target.
fn withdraw(rig: &Rig, nodes: &HandMade, original: &str) -> String {
    rig.eventually(STEP, "the slot is given back", || match (rig.target("worker"), holders(rig)) {
        (target, none) if target == original && none.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    });
    nodes.ready(SECOND, false);
    // So long the observer grants a controller that a node that fails by itself is not known.
    sleep(Observer::SKEW);
    original.to_owned()
}

#[test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
fn r_177_a_desired_config_that_arrives_after_a_newer_rollout_is_refused() {
    frozen(Moment::DesiredOnItsWay, Meanwhile::GoesOn, Lead::Taken);
}

#[test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
fn r_177_a_desired_config_that_arrives_after_its_slot_was_given_back_is_refused() {
    frozen(Moment::DesiredOnItsWay, Meanwhile::Withdraws, Lead::Taken);
}

#[test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
fn r_177_a_desired_config_that_arrives_after_the_lease_ran_out_is_refused() {
    frozen(Moment::DesiredOnItsWay, Meanwhile::GoesOn, Lead::RunOut);
}

#[test]
#[ignore = "needs an API server: MCX_RIG_KUBECONFIG"]
fn r_177_a_leader_that_wakes_before_its_second_write_does_not_make_it() {
    for moment in [Moment::SlotWritten, Moment::NodeRead, Moment::PoolRead] {
        for meanwhile in [Meanwhile::GoesOn, Meanwhile::Withdraws] {
            frozen(moment, meanwhile, Lead::Taken);
        }
    }
}
