#![allow(clippy::unnecessary_wraps, reason = "made as the fields of a situation are: optional")]

use super::*;
use crate::api::protocol::PhaseSince;
use crate::node::compare::Deviation;
use crate::node::disk::Check;
use crate::node::journal::{Guard, NamedConfig, NotedAction, Stage};
use k8s_openapi::jiff::Timestamp;

mod guarded;
mod open;
mod resting;

const UID: &str = "u1";

fn secs(n: u64) -> Moment {
    Duration::from_secs(n)
}

fn request(text: &str) -> DrainRequest {
    text.parse().unwrap()
}

/// A Node that is Done at `a` and shall have `desired`.
fn node(desired: &str) -> OwnNode {
    OwnNode {
        name: "n".into(),
        uid: UID.into(),
        resource_version: "1".into(),
        has_annotations: true,
        desired: Some(desired.into()),
        current: Some("a".into()),
        state: Some(NodeState::Done),
        ..OwnNode::default()
    }
}

fn phase(phase: Phase) -> Option<PhaseSince> {
    Some(PhaseSince { phase, since: Timestamp::default() })
}

fn working(desired: &str) -> OwnNode {
    OwnNode { state: Some(NodeState::Working), phase: phase(Phase::Claimed), ..node(desired) }
}

/// Drained for `config`.
fn drained(config: &str) -> OwnNode {
    let asked = Some(request(&format!("drain-{config}-3")));
    OwnNode { desired_drain: asked.clone(), applied_drain: asked, cordon_is_ours: true, ..working(config) }
}

fn compared(config: &str, differing: &[&str]) -> Option<Compared> {
    let deviations = differing.iter().map(|i| Deviation { item: (*i).into(), what: "is missing".into() }).collect();
    Some(Compared { config: config.into(), deviations })
}

/// Asked for `ago` for the first time, and last now.
fn vainly(s: &mut Situation, name: &str, tries: u32, ago: Duration) {
    let (first, last) = (s.now.checked_sub(ago).unwrap(), s.now);
    fetched(s, name, Fetch::Missing, first, last, tries);
}

fn fetched(s: &mut Situation, name: &str, result: Fetch, first: Moment, last: Moment, tries: u32) {
    s.fetched.insert(name.into(), Fetched { name: name.into(), result, tries, first, last });
}

fn checked(to: &str, drained: bool) -> Checked {
    Checked {
        from: "a".into(),
        to: to.into(),
        forced: false,
        drained,
        result: Check::default(),
        tries: 0,
        at: Moment::ZERO,
    }
}

fn planned(to: &str, actions: &[Action]) -> Option<Planned> {
    Some(Planned {
        from: "a".into(),
        to: to.into(),
        forced: false,
        result: Ok(Plan { actions: actions.to_vec(), generation: 4 }),
        tries: 1,
        first: Moment::ZERO,
        last: Moment::ZERO,
    })
}

fn restart() -> Action {
    Action::Restart("x.service".into())
}

/// At rest at `a`, all looked at.
fn resting(node: OwnNode) -> Situation {
    let mut s = Situation {
        now: secs(1000),
        node: Some(node),
        held: Some(Held { current: Some("a".into()), ..Held::default() }),
        compared: compared("a", &[]),
        boot_id: Some("boot-1".into()),
        ..Situation::default()
    };
    fetched(&mut s, "b", Fetch::Here, secs(0), secs(0), 0);
    s
}

/// All is ready for an update to `b` with these actions.
fn updating(node: OwnNode, actions: &[Action]) -> Situation {
    let mut s = resting(node);
    s.checked = Some(checked("b", true));
    s.planned = planned("b", actions);
    s
}

fn journal(stage: Stage, actions: &[(Action, u32, bool)]) -> Journal {
    let config = |name: &str| NamedConfig { name: name.into(), ..NamedConfig::empty() };
    Journal {
        version: 1,
        from: config("a"),
        to: config("b"),
        stage,
        actions: actions
            .iter()
            .map(|(action, begun, done)| NotedAction { action: action.clone(), begun: *begun, done: *done })
            .collect(),
        policy_generation: 4,
        boot_id: None,
        node_uid: Some(UID.into()),
        forced: false,
        failure: None,
        guard: None,
    }
}

/// With the guard in its place since boot 1.
fn guarded(journal: Journal) -> Journal {
    let kubelet = Some("127.0.0.1:10248".into());
    let guard = Guard { patience: 60, kubelet, boot_id: "boot-1".into(), left: true, ..Guard::default() };
    Journal { guard: Some(guard), ..journal }
}

fn open(node: OwnNode, journal: Journal) -> Situation {
    let current = if journal.stage >= Stage::Written && journal.stage < Stage::Undone { "b" } else { "a" };
    let held = Held { current: Some(current.into()), journal: Some(journal), failed: None };
    Situation { held: Some(held), read: Read::Fresh, compared: None, ..resting(node) }
}

fn degraded(step: &Step) -> &str {
    match step {
        Step::Report { state: NodeState::Degraded, reason: Some(reason), .. } => reason,
        other => panic!("{other:?} is no report of Degraded"),
    }
}

fn waits(step: &Step) -> Waiting {
    match step {
        Step::Wait { why, .. } => *why,
        other => panic!("{other:?} is no wait"),
    }
}

// ---- trouble

#[test]
fn trouble_is_waited_out_then_told_and_never_hides_what_it_has_nothing_to_do_with() {
    let mut s = resting(node("a"));
    s.compared = None;
    s.memory.note_trouble(Work::Look, "cannot read /etc/x".into(), s.now);
    assert_eq!(waits(&next(&s)), Waiting::Retry);
    for _ in 0..2 {
        s.memory.note_trouble(Work::Look, "cannot read /etc/x".into(), s.now);
    }
    assert!(degraded(&next(&s)).contains("/etc/x"));
    s.compared = compared("a", &[]);
    assert_eq!(waits(&next(&s)), Waiting::News, "nothing is to be looked at");
    s.compared = None;
    s.memory.note_success(Work::Record);
    assert!(s.memory.trouble.is_some());
    s.memory.note_success(Work::Look);
    assert_eq!(next(&s), Step::Compare("a".into()));
}

/// A disk that refuses everything fails the way forward and the way back in turn: each was taken for the first failure, so
/// that nothing was waited for and nothing said.
#[test]
fn two_kinds_of_trouble_in_turn_are_both_waited_out_and_told() {
    let mut s = resting(node("b"));
    let held = Held { current: Some("a".into()), journal: Some(journal(Stage::Opened, &[])), failed: None };
    (s.held, s.read) = (Some(held), Read::Fresh);
    for count in 1..Trouble::TELL {
        s.memory.note_trouble(Work::Forward, "cannot write /etc/x".into(), s.now);
        s.memory.note_trouble(Work::Back, "cannot remove what was staged for /etc/x".into(), s.now);
        assert_eq!(waits(&next(&s)), Waiting::Retry, "{count}");
    }
    s.memory.note_trouble(Work::Forward, "cannot write /etc/x".into(), s.now);
    s.memory.note_trouble(Work::Back, "cannot remove what was staged for /etc/x".into(), s.now);
    assert!(matches!(next(&s), Step::Fail(reason) if reason.contains("cannot write /etc/x")));
    for _ in 0..Trouble::TELL {
        s.memory.note_trouble(Work::Record, "cannot write /var/lib/mcx/journal.json".into(), s.now);
    }
    assert!(degraded(&next(&s)).contains("/var/lib/mcx/journal.json"));
    s.memory.note_success(Work::Forward);
    assert_eq!(s.memory.trouble_with(Work::Forward), None);
}

/// The journal is written before an action, and could not be: it was tried again at once, thousands of times.
#[test]
fn an_action_that_cannot_be_noted_is_waited_for_and_told() {
    let mut s = open(working("c"), journal(Stage::Written, &[(restart(), 0, false)]));
    assert_eq!(next(&s), Step::RunActions);
    for count in 1..=Trouble::TELL {
        s.memory.note_trouble(Work::Record, "cannot write /var/lib/mcx/journal.json".into(), s.now);
        if count < Trouble::TELL {
            assert_eq!(waits(&next(&s)), Waiting::Retry, "{count}");
        }
    }
    assert!(degraded(&next(&s)).contains("/var/lib/mcx/journal.json"));
    s.memory.note_success(Work::Record);
    assert_eq!(next(&s), Step::RunActions);
}

#[test]
fn a_damaged_state_is_said_and_nothing_is_done() {
    let mut s = resting(node("b"));
    s.held = None;
    for _ in 0..Trouble::TELL {
        s.memory.note_trouble(Work::State, "/var/lib/mcx/current.json is damaged: move it away".into(), s.now);
    }
    assert_eq!(degraded(&next(&s)), "/var/lib/mcx/current.json is damaged: move it away");
}

#[test]
fn every_stage_at_start_has_a_step_and_none_needs_what_a_new_process_does_not_have() {
    let stages = [
        Stage::Opened,
        Stage::Switching,
        Stage::Written,
        Stage::Rebooting,
        Stage::Acted,
        Stage::Undoing,
        Stage::Undone,
    ];
    for stage in stages {
        for actions in [&[][..], &[(restart(), 1, false)], &[(Action::Reboot, 1, false)], &[(Action::Drain, 0, false)]]
        {
            let mut j = journal(stage, actions);
            j.boot_id = (stage == Stage::Rebooting).then(|| "boot-0".into());
            j.failure = (stage >= Stage::Undoing).then(|| "x".into());
            let held = Held { current: Some("a".into()), journal: Some(j), failed: None };
            let s = Situation { held: Some(held), ..Situation::default() };
            let step = next(&s);
            assert!(!matches!(step, Step::Wait { until: None, .. }), "{stage:?} {actions:?}: {step:?}");
        }
    }
}
