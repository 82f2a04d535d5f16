#![allow(clippy::unnecessary_wraps, reason = "made as the fields of a situation are: optional")]

use super::*;
use crate::api::protocol::PhaseSince;
use crate::node::compare::Deviation;
use crate::node::disk::Check;
use crate::node::journal::{Guard, NamedConfig, NotedAction, Stage};
use k8s_openapi::jiff::Timestamp;

mod guarded;

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
    let config = |name: &str| NamedConfig { name: name.into(), config: serde_json::json!({}).into() };
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

// ---- adoption

fn joining(node: OwnNode) -> Situation {
    Situation { now: secs(1000), node: Some(node), held: Some(Held::default()), ..Situation::default() }
}

#[test]
fn a_node_that_joins_without_any_state_has_the_empty_config_and_says_done_without_current() {
    let fresh = OwnNode { desired: None, current: None, state: None, ..node("b") };
    let mut s = joining(fresh);
    assert_eq!(next(&s), Step::Adopt(ConfigName::default()));
    s.held = Some(Held { current: Some(ConfigName::default()), ..Held::default() });
    assert_eq!(next(&s), Step::Compare(ConfigName::default()));
    s.compared = compared("", &[]);
    assert_eq!(next(&s), Step::Report { state: NodeState::Done, reason: None, current: ConfigName::default() });
}

#[test]
fn lost_state_is_taken_from_the_annotation_before_anything_else() {
    let mut s = joining(node("b"));
    assert_eq!(next(&s), Step::Fetch("a".into()));
    fetched(&mut s, "a", Fetch::Here, secs(0), secs(0), 0);
    assert_eq!(next(&s), Step::Adopt("a".into()));
}

#[test]
fn desired_is_adopted_only_when_the_disk_matches() {
    let mut s = joining(OwnNode { current: None, ..node("b") });
    assert_eq!(next(&s), Step::Fetch("b".into()));
    fetched(&mut s, "b", Fetch::Here, secs(0), secs(0), 0);
    assert_eq!(next(&s), Step::Compare("b".into()));
    s.compared = compared("b", &[]);
    assert_eq!(next(&s), Step::Adopt("b".into()));
    s.compared = compared("b", &["/etc/x"]);
    assert_eq!(next(&s), Step::Adopt(ConfigName::default()));
}

#[test]
fn a_working_node_without_state_does_not_adopt_desired_whose_actions_may_be_missing() {
    let mut s = joining(OwnNode { current: None, ..working("b") });
    fetched(&mut s, "b", Fetch::Here, secs(0), secs(0), 0);
    s.compared = compared("b", &[]);
    assert_eq!(next(&s), Step::Adopt(ConfigName::default()));
}

#[test]
fn nothing_is_adopted_while_the_api_is_away() {
    let s = Situation { node: None, ..joining(node("b")) };
    assert_eq!(waits(&next(&s)), Waiting::Api);
}

// ---- at rest

#[test]
fn done_is_said_only_of_a_disk_that_was_compared() {
    let mut s = resting(working("a"));
    s.compared = None;
    assert_eq!(next(&s), Step::Compare("a".into()));
    s.compared = compared("b", &[]);
    assert_eq!(next(&s), Step::Compare("a".into()), "a comparison with another config says nothing");
    s.compared = compared("a", &[]);
    assert_eq!(next(&s), Step::Report { state: NodeState::Done, reason: None, current: "a".into() });
}

#[test]
fn a_node_that_says_what_is_true_is_left_alone() {
    assert_eq!(next(&resting(node("a"))), Step::Wait { why: Waiting::News, until: None });
}

#[test]
fn a_node_never_stays_done_with_a_request_that_is_no_fulfilled_uncordon() {
    let mut s = resting(OwnNode { desired_drain: Some(request("drain-b-7")), ..node("a") });
    let ask = Step::Ask { request: request("uncordon-a-8"), phase: None };
    assert_eq!(next(&s), ask);
    s.node = Some(OwnNode { desired_drain: Some(request("uncordon-a-8")), ..node("a") });
    assert_eq!(waits(&next(&s)), Waiting::Uncordon);
    let asked = Some(request("uncordon-a-8"));
    s.node = Some(OwnNode { desired_drain: asked.clone(), applied_drain: asked, ..node("a") });
    assert_eq!(waits(&next(&s)), Waiting::News);
}

#[test]
fn done_is_the_last_write_after_the_uncordon() {
    let mut s = resting(drained("a"));
    assert_eq!(next(&s), Step::Ask { request: request("uncordon-a-4"), phase: Some(Phase::Uncordoning) });
    s.node = Some(OwnNode { desired_drain: Some(request("uncordon-a-4")), ..drained("a") });
    assert_eq!(waits(&next(&s)), Waiting::Uncordon);
    let asked = Some(request("uncordon-a-4"));
    s.node = Some(OwnNode { desired_drain: asked.clone(), applied_drain: asked, ..drained("a") });
    assert_eq!(next(&s), Step::Report { state: NodeState::Done, reason: None, current: "a".into() });
}

#[test]
fn drift_is_said_at_once_and_with_every_finding() {
    let mut s = resting(drained("a"));
    s.compared = compared("a", &["/etc/x", "/etc/y"]);
    let step = next(&s);
    let reason = degraded(&step);
    assert!(reason.starts_with("Drift: ") && reason.contains("/etc/x") && reason.contains("/etc/y"), "{reason}");
    s.node =
        Some(OwnNode { state: Some(NodeState::Degraded), reason: Some(reason.into()), phase: None, ..drained("a") });
    assert_eq!(next(&s), Step::Ask { request: request("uncordon-a-4"), phase: None }, "then the cordon is given back");
}

#[test]
fn drift_that_is_put_right_makes_the_node_done_without_anything_else() {
    let reason = Some("Drift: 1 finding".to_owned());
    let s = resting(OwnNode { state: Some(NodeState::Degraded), reason, ..node("a") });
    assert_eq!(next(&s), Step::Report { state: NodeState::Done, reason: None, current: "a".into() });
}

#[test]
fn a_drifted_node_takes_no_new_config() {
    let mut s = resting(node("b"));
    s.compared = compared("a", &["/etc/x"]);
    let mut found = checked("b", false);
    found.result.drift = vec![Deviation { item: "/etc/x".into(), what: "is missing".into() }];
    (found.tries, found.at) = (1, s.now);
    s.checked = Some(found);
    assert!(degraded(&next(&s)).starts_with("Drift: "));
}

#[test]
fn a_disk_that_is_already_as_desired_is_no_drift_in_the_way() {
    let mut s = resting(node("b"));
    s.compared = compared("a", &["/etc/x"]);
    s.checked = Some(checked("b", false));
    assert!(matches!(next(&s), Step::Claim { .. }));
}

#[test]
fn a_node_without_a_node_object_still_measures_drift_and_waits() {
    let mut s = Situation { node: None, compared: None, ..resting(node("a")) };
    assert_eq!(next(&s), Step::Compare("a".into()));
    s.compared = compared("a", &[]);
    assert_eq!(waits(&next(&s)), Waiting::Api);
}

// ---- the way to an update

#[test]
fn an_update_is_fetched_checked_claimed_planned_and_opened_in_this_order() {
    let mut s = resting(node("b"));
    s.fetched.clear();
    assert_eq!(next(&s), Step::Fetch("b".into()));
    fetched(&mut s, "b", Fetch::Here, secs(0), secs(0), 0);
    assert_eq!(next(&s), Step::Check { to: "b".into(), forced: false, drained: false });
    s.checked = Some(checked("b", false));
    assert_eq!(next(&s), Step::Claim { desired: Some("b".into()), quiet: false });
    s.node = Some(working("b"));
    assert_eq!(next(&s), Step::Plan { to: "b".into(), forced: false });
    s.planned = planned("b", &[Action::DaemonReload]);
    let open = Step::OpenJournal {
        to: "b".into(),
        actions: vec![Action::DaemonReload],
        generation: 4,
        uid: UID.into(),
        forced: false,
    };
    assert_eq!(next(&s), open, "no cordon and no drain for what needs none");
}

#[test]
fn observations_about_another_update_count_for_nothing() {
    let mut s = updating(working("c"), &[]);
    fetched(&mut s, "c", Fetch::Here, secs(0), secs(0), 0);
    assert_eq!(next(&s), Step::Check { to: "c".into(), forced: false, drained: false });
    s.checked = Some(checked("c", true));
    assert_eq!(next(&s), Step::Plan { to: "c".into(), forced: false });
}

#[test]
fn drain_and_reboot_are_asked_for_and_checked_again_when_drained() {
    for action in [Action::Drain, Action::Reboot] {
        let mut s = updating(working("b"), std::slice::from_ref(&action));
        s.checked = Some(checked("b", false));
        assert_eq!(next(&s), Step::Ask { request: request("drain-b-1"), phase: Some(Phase::Draining) });
        s.node = Some(OwnNode { desired_drain: Some(request("drain-b-1")), ..working("b") });
        assert_eq!(waits(&next(&s)), Waiting::Drain);
        s.node = Some(drained("b"));
        assert_eq!(next(&s), Step::Check { to: "b".into(), forced: false, drained: true });
        s.checked = Some(checked("b", true));
        assert!(matches!(next(&s), Step::OpenJournal { .. }));
    }
}

#[test]
fn a_fulfilment_without_our_cordon_is_not_one() {
    let mut s = updating(OwnNode { cordon_is_ours: false, ..drained("b") }, &[Action::Reboot]);
    s.memory.observe(s.now, s.node.as_ref(), None);
    assert_eq!(waits(&next(&s)), Waiting::NextDrain);
    s.now += observed::FIRST_WAIT;
    assert_eq!(next(&s), Step::Ask { request: request("drain-b-4"), phase: Some(Phase::Draining) });
}

#[test]
fn an_ended_attempt_is_followed_by_the_next_after_a_growing_wait() {
    // Hole 3: without it daemon and controller wait for each other for ever.
    let asked = |n: u32| {
        let r = Some(request(&format!("drain-b-{n}")));
        OwnNode { desired_drain: r.clone(), ended: r, ..working("b") }
    };
    let mut s = updating(asked(1), &[Action::Reboot]);
    for (n, wait) in [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (7, 300)] {
        s.node = Some(asked(n));
        s.memory.observe(s.now, s.node.as_ref(), None);
        let until = s.now + secs(wait);
        assert_eq!(next(&s), Step::Wait { why: Waiting::NextDrain, until: Some(until) }, "attempt {n}");
        s.now = until;
        let again = request(&format!("drain-b-{}", n + 1));
        assert_eq!(next(&s), Step::Ask { request: again, phase: Some(Phase::Draining) });
    }
}

#[test]
fn a_change_over_keeps_the_cordon_and_asks_with_a_new_number() {
    let mut s = updating(OwnNode { desired: Some("c".into()), ..drained("b") }, &[]);
    fetched(&mut s, "c", Fetch::Here, secs(0), secs(0), 0);
    s.checked = Some(checked("c", true));
    s.planned = planned("c", &[Action::Reboot]);
    assert_eq!(next(&s), Step::Ask { request: request("drain-c-4"), phase: Some(Phase::Draining) });
    s.planned = planned("c", &[]);
    assert!(matches!(next(&s), Step::OpenJournal { .. }), "without a drain of its own it does not uncordon first");
}

#[test]
fn withdrawn_before_the_first_switch_it_uncordons_and_is_done() {
    assert_eq!(
        next(&resting(drained("b").retargeted("a"))),
        Step::Ask { request: request("uncordon-a-4"), phase: Some(Phase::Uncordoning) }
    );
}

impl OwnNode {
    fn retargeted(self, desired: &str) -> Self {
        Self { desired: Some(desired.into()), ..self }
    }
}

#[test]
fn a_node_whose_disk_is_behind_the_api_asks_for_a_drain_whatever_the_actions() {
    // Hole 9: its slot is long given back; services would be restarted without one.
    for actions in [vec![], vec![restart()]] {
        let behind = OwnNode { current: Some("b".into()), ..working("b") };
        let mut s = updating(behind, &actions);
        assert!(matches!(next(&s), Step::Ask { .. }), "{actions:?}");
        s.node = Some(OwnNode { current: Some("b".into()), ..drained("b") });
        let Step::OpenJournal { actions: opened, .. } = next(&s) else { panic!("{:?}", next(&s)) };
        assert_eq!(opened[0], Action::Drain, "the journal knows that it was drained");
    }
}

#[test]
fn obstacles_are_said_and_looked_at_again_without_anybody_asking() {
    let mut s = resting(node("b"));
    let mut found = checked("b", false);
    found.result.obstacles = vec!["user boot does not exist: create it".into()];
    (found.tries, found.at) = (1, s.now);
    s.checked = Some(found);
    let step = next(&s);
    let reason = degraded(&step);
    assert!(reason.contains("user boot") && !reason.starts_with("Drift:"), "{reason}");
    s.node = Some(OwnNode { state: Some(NodeState::Degraded), reason: Some(reason.into()), ..node("b") });
    assert_eq!(next(&s), Step::Wait { why: Waiting::News, until: Some(s.now + secs(2)) });
    s.now += secs(2);
    assert_eq!(next(&s), Step::Check { to: "b".into(), forced: false, drained: false });
}

#[test]
fn a_missing_config_is_waited_for_before_it_is_called_missing() {
    // the controller puts a deleted one back within a second.
    let mut s = resting(node("b"));
    vainly(&mut s, "b", 1, Duration::ZERO);
    assert_eq!(waits(&next(&s)), Waiting::Target);
    s.now += secs(1);
    assert_eq!(next(&s), Step::Fetch("b".into()));
    vainly(&mut s, "b", 5, GRACE);
    assert!(degraded(&next(&s)).contains("MachineConfig b"));
}

#[test]
fn a_policy_that_is_not_in_effect_is_waited_for_and_then_named() {
    let mut s = updating(working("b"), &[]);
    let not_yet = |first: Moment, last: Moment| Planned {
        result: Err("status.observedGeneration is 1, metadata.generation is 2".into()),
        first,
        last,
        ..planned("b", &[]).unwrap()
    };
    s.planned = Some(not_yet(s.now, s.now));
    assert_eq!(waits(&next(&s)), Waiting::Policy);
    s.planned = Some(not_yet(s.now.checked_sub(GRACE).unwrap(), s.now));
    assert!(degraded(&next(&s)).contains("observedGeneration"));
    s.now += secs(1);
    assert_eq!(next(&s), Step::Plan { to: "b".into(), forced: false });
}

// ---- what failed

fn failed(disruptive: bool) -> Situation {
    let mut s = updating(node("b"), &[restart()]);
    let held = s.held.as_mut().unwrap();
    held.failed =
        Some(Failed { config: "b".into(), reason: "restart of x.service failed".into(), disruptive, unanswered: 0 });
    s.memory.observe(s.now, None, Some(&"b".into()));
    s
}

#[test]
fn what_failed_after_a_drain_is_not_tried_again_by_itself() {
    let mut s = failed(true);
    assert_eq!(degraded(&next(&s)), "restart of x.service failed");
    s.node = Some(OwnNode {
        state: Some(NodeState::Degraded),
        reason: Some("restart of x.service failed".into()),
        ..node("b")
    });
    s.now += secs(1_000_000);
    assert_eq!(next(&s), Step::Wait { why: Waiting::News, until: None });
}

#[test]
fn other_failures_are_tried_again_quietly_after_a_wait() {
    let mut s = failed(false);
    let reason = Some("restart of x.service failed".to_owned());
    let told = OwnNode { state: Some(NodeState::Degraded), reason, ..node("b") };
    s.node = Some(told.clone());
    let until = s.now + secs(10);
    assert_eq!(next(&s), Step::Wait { why: Waiting::News, until: Some(until) });
    s.now = until;
    assert_eq!(next(&s), Step::Claim { desired: Some("b".into()), quiet: true });
    s.node = Some(OwnNode { phase: phase(Phase::Claimed), ..told });
    assert!(matches!(next(&s), Step::OpenJournal { .. }), "its claim is the phase");
    s.memory.note_failure(&"b".into(), s.now);
    let step = next(&s);
    assert!(matches!(step, Step::Report { state: NodeState::Degraded, .. }), "the claim is given back: {step:?}");
}

#[test]
fn a_new_wish_forgets_the_failure_and_a_node_without_wishes_does_not() {
    let mut s = failed(true);
    s.node = Some(node("c"));
    assert_eq!(next(&s), Step::ForgetFailure);
    // Registered again: the bad config will be handed out again, and must not be tried again.
    s.node = Some(OwnNode { desired: None, ..node("c") });
    assert_ne!(next(&s), Step::ForgetFailure);
}

// ---- the force file

#[test]
fn the_force_file_works_on_a_healthy_node_and_on_a_drifted_one() {
    for differing in [&[][..], &["/etc/x"][..]] {
        let mut s = resting(node("a"));
        s.force = true;
        s.compared = compared("a", differing);
        assert_eq!(next(&s), Step::Check { to: "a".into(), forced: true, drained: false });
        s.checked = Some(Checked { forced: true, ..checked("a", true) });
        assert_eq!(next(&s), Step::Claim { desired: Some("a".into()), quiet: false });
        s.node = Some(working("a"));
        assert_eq!(next(&s), Step::Plan { to: "a".into(), forced: true });
        s.planned = planned("a", &[Action::Reboot]).map(|p| Planned { forced: true, ..p });
        assert_eq!(next(&s), Step::Ask { request: request("drain-a-1"), phase: Some(Phase::Draining) });
        s.node = Some(drained("a"));
        assert!(matches!(next(&s), Step::OpenJournal { forced: true, .. }));
    }
}

#[test]
fn the_force_file_tries_again_what_failed() {
    let mut s = failed(true);
    s.force = true;
    s.checked = Some(Checked { forced: true, ..checked("b", false) });
    assert_eq!(next(&s), Step::ForgetFailure);
    s.held.as_mut().unwrap().failed = None;
    assert!(matches!(next(&s), Step::Claim { quiet: false, .. }));
}

#[test]
fn the_force_file_goes_when_its_effect_is_durable_and_not_before() {
    let mut j = guarded(journal(Stage::Opened, &[(Action::Reboot, 0, false)]));
    j.forced = true;
    let mut s = open(drained("b"), j.clone());
    s.force = true;
    assert_eq!(next(&s), Step::Forward);
    for (stage, step) in [(Stage::Switching, Step::Forward), (Stage::Written, Step::RemoveForceFile)] {
        j.stage = stage;
        let s = Situation { force: true, ..open(drained("b"), j.clone()) };
        assert_eq!(next(&s), step);
    }
}

// ---- an open transaction

#[test]
fn before_the_first_switch_the_node_is_read_once_more() {
    let mut s = open(drained("b"), guarded(journal(Stage::Opened, &[(Action::Reboot, 0, false)])));
    s.read = Read::Cached;
    assert_eq!(next(&s), Step::ReadNode);
    s.read = Read::Fresh;
    assert_eq!(next(&s), Step::Forward);
}

#[test]
fn nothing_is_switched_when_what_was_agreed_no_longer_holds() {
    let opened = || guarded(journal(Stage::Opened, &[(Action::Reboot, 0, false)]));
    let cases = [
        ("retargeted", drained("b").retargeted("c")),
        ("withdrawn", drained("b").retargeted("a")),
        ("uncordoned by hand", OwnNode { cordon_is_ours: false, ..drained("b") }),
        ("another request", OwnNode { desired_drain: Some(request("drain-b-9")), ..drained("b") }),
        ("registered again", OwnNode { uid: "u2".into(), ..drained("b") }),
    ];
    for (what, node) in cases {
        assert_eq!(next(&open(node, opened())), Step::Abandon, "{what}");
    }
}

#[test]
fn with_the_api_away_nothing_is_switched() {
    let mut s = open(drained("b"), journal(Stage::Opened, &[]));
    s.read = Read::Away { since: s.now, last: s.now };
    assert_eq!(next(&s), Step::Wait { why: Waiting::Api, until: Some(s.now + secs(5)) });
    s.now += secs(5);
    assert_eq!(next(&s), Step::ReadNode);
    s.read = Read::Fresh;
    s.node = None;
    assert_eq!(waits(&next(&s)), Waiting::Api);
}

#[test]
fn from_the_first_switch_on_it_is_carried_through_without_the_api() {
    let away = |s: &mut Situation| s.read = Read::Away { since: s.now, last: s.now };
    let mut s = open(working("c"), journal(Stage::Switching, &[(restart(), 0, false)]));
    away(&mut s);
    assert_eq!(next(&s), Step::Forward, "whatever desired says by now");
    let mut s = open(working("c"), journal(Stage::Written, &[(restart(), 0, false)]));
    away(&mut s);
    assert_eq!(next(&s), Step::RunActions);
    let mut s = open(working("c"), journal(Stage::Written, &[(Action::Reboot, 0, false)]));
    away(&mut s);
    assert_eq!(next(&s), Step::Reboot);
}

#[test]
fn a_node_that_was_registered_again_is_claimed_and_drained_before_anything_is_disrupted() {
    // Hole 5: the new Node is schedulable, and its slot is another's.
    for actions in [[(restart(), 0, false)], [(Action::Reboot, 0, false)]] {
        let fresh = OwnNode { uid: "u2".into(), state: None, desired: None, current: None, ..node("b") };
        let mut s = open(fresh, journal(Stage::Written, &actions));
        assert_eq!(next(&s), Step::Claim { desired: None, quiet: false });
        s.node = Some(OwnNode { uid: "u2".into(), desired: None, ..working("b") });
        assert_eq!(next(&s), Step::Ask { request: request("drain-b-1"), phase: Some(Phase::Draining) });
        s.node = Some(OwnNode { desired_drain: Some(request("drain-b-1")), uid: "u2".into(), ..working("b") });
        assert_eq!(waits(&next(&s)), Waiting::Drain);
        s.node = Some(OwnNode { uid: "u2".into(), ..drained("b") });
        assert_eq!(next(&s), Step::AdoptUid("u2".into()));
        // One lost answer is no reason to go on over pods that are known to be there.
        s.read = Read::Away { since: s.now, last: s.now };
        assert_eq!(waits(&next(&s)), Waiting::Api);
        s.now += NEW_NODE_PATIENCE;
        assert!(matches!(next(&s), Step::RunActions | Step::Reboot));
    }
    let s =
        open(OwnNode { uid: "u2".into(), ..node("b") }, journal(Stage::Written, &[(Action::DaemonReload, 0, false)]));
    assert_eq!(next(&s), Step::RunActions, "a daemon-reload is noticed by nobody");
}

#[test]
fn no_action_is_begun_a_third_time() {
    for (begun, fails) in [(0, false), (1, false), (2, true)] {
        let s = open(working("b"), journal(Stage::Written, &[(restart(), begun, false)]));
        match next(&s) {
            Step::RunActions => assert!(!fails, "begun {begun}"),
            Step::Fail(reason) => assert!(fails && reason.contains("systemctl restart x.service"), "{reason}"),
            other => panic!("{other:?}"),
        }
        let s = open(working("b"), journal(Stage::Undone, &[(restart(), begun, false)]));
        assert_eq!(matches!(next(&s), Step::SkipActions(_)), fails, "undoing, begun {begun}");
    }
}

#[test]
fn actions_whose_end_nobody_saw_are_watched_again_after_a_restart() {
    let s = open(working("b"), journal(Stage::Written, &[(restart(), 1, true)]));
    assert_eq!(next(&s), Step::RunActions);
}

#[test]
fn without_actions_it_is_verified_and_closed() {
    let mut s = open(working("b"), journal(Stage::Written, &[]));
    assert_eq!(next(&s), Step::Compare("b".into()));
    s.compared = compared("b", &[]);
    assert_eq!(next(&s), Step::Close);
}

#[test]
fn a_disk_that_does_not_verify_has_failed_and_is_no_drift() {
    // Drift is never given a new config: called so, it could not be withdrawn.
    let mut s = open(working("b"), journal(Stage::Acted, &[(restart(), 1, true)]));
    s.compared = compared("b", &["/etc/x"]);
    let Step::Fail(reason) = next(&s) else { panic!("{:?}", next(&s)) };
    assert!(reason.contains("/etc/x") && !reason.starts_with("Drift:"), "{reason}");
}

// ---- reboot

fn rebooting(begun: u32, boot: &str) -> Situation {
    let mut j = journal(Stage::Rebooting, &[(Action::Reboot, begun, false)]);
    j.boot_id = Some("boot-1".into());
    Situation { boot_id: Some(boot.into()), ..open(drained("b"), j) }
}

#[test]
fn only_a_changed_boot_id_proves_a_reboot() {
    assert_eq!(next(&rebooting(1, "boot-2")), Step::Rebooted);
    let mut s = rebooting(1, "boot-1");
    s.now = secs(1);
    assert_eq!(waits(&next(&s)), Waiting::End);
    s.boot_id = None;
    assert_eq!(next(&s), Step::ReadBootId, "what cannot be read proves nothing");
}

#[test]
fn after_asking_for_a_reboot_nothing_is_done_but_waiting_for_the_end() {
    //
    let mut s = rebooting(1, "boot-1");
    s.memory.reboot_asked = Some(s.now);
    s.node = Some(drained("b").retargeted("c"));
    s.force = true;
    s.compared = compared("b", &["/etc/x"]);
    assert_eq!(next(&s), Step::Wait { why: Waiting::End, until: Some(s.now + REBOOT_PATIENCE) });
}

#[test]
fn a_reboot_that_does_not_come_is_asked_for_again_and_then_has_failed() {
    //
    for begun in 1..REBOOT_LIMIT {
        assert_eq!(next(&rebooting(begun, "boot-1")), Step::Reboot, "try {begun}");
    }
    let Step::Fail(reason) = next(&rebooting(REBOOT_LIMIT, "boot-1")) else { panic!() };
    assert!(reason.contains("systemd-inhibit"), "{reason}");
}

#[test]
fn a_daemon_that_starts_on_the_way_down_does_not_count_up_the_tries_at_once() {
    for (begun, wait) in [(1, 5), (2, 10), (3, 20), (4, 40)] {
        let mut s = rebooting(begun, "boot-1");
        s.now = secs(1);
        assert_eq!(next(&s), Step::Wait { why: Waiting::End, until: Some(secs(wait)) });
    }
}

#[test]
fn after_the_boot_the_disk_is_verified_before_anything_is_said() {
    let j = finished_reboot(journal(Stage::Rebooting, &[(Action::Reboot, 1, false)]), None);
    assert_eq!(j.stage, Stage::Acted);
    let mut s = open(drained("b"), j);
    assert_eq!(next(&s), Step::Compare("b".into()));
    s.compared = compared("b", &[]);
    assert_eq!(next(&s), Step::Close);
}

// ---- undoing

#[test]
fn a_noted_failure_is_undone_at_every_stage_and_after_every_crash() {
    for stage in [Stage::Opened, Stage::Switching, Stage::Written, Stage::Rebooting, Stage::Acted, Stage::Undoing] {
        let mut j = journal(stage, &[(restart(), 1, false)]);
        j.failure = Some("x".into());
        assert_eq!(next(&open(working("b"), j)), Step::Back, "{stage:?}");
    }
}

#[test]
fn an_undo_repeats_what_was_begun_and_nothing_else() {
    let j = journal(
        Stage::Written,
        &[
            (Action::Drain, 0, false),
            (Action::DaemonReload, 1, true),
            (Action::Restart("begun.service".into()), 1, false),
            (Action::Restart("never.service".into()), 0, false),
        ],
    );
    let j = failing(j, "x", Some("boot-1"));
    let left: Vec<String> = j.actions.iter().filter(|a| !a.done).map(|a| a.action.to_string()).collect();
    assert_eq!(left, ["DaemonReload", "Restart begun.service"]);
    assert!(j.actions.iter().all(|a| a.begun == 0), "each may be begun twice again");
}

#[test]
fn an_undo_reboots_only_a_node_that_has_booted_into_what_failed() {
    let mut j = journal(Stage::Rebooting, &[(Action::Reboot, 5, false)]);
    j.boot_id = Some("boot-1".into());
    assert!(failing(j.clone(), "x", Some("boot-1")).actions[0].done, "the reboot never came");
    j.stage = Stage::Acted;
    let j = failing(j, "x", Some("boot-2"));
    assert!(!j.actions[0].done);
    let mut undone = j;
    undone.stage = Stage::Undone;
    let s = Situation { boot_id: Some("boot-2".into()), ..open(drained("b"), undone.clone()) };
    assert_eq!(next(&s), Step::Reboot);
    let undone = next_reboot(undone, "boot-2");
    assert_eq!(undone.stage, Stage::Undone);
    let s = Situation { boot_id: Some("boot-3".into()), ..open(drained("b"), undone.clone()) };
    assert_eq!(next(&s), Step::Rebooted);
    let undone = finished_reboot(undone, None);
    assert_eq!(next(&open(drained("b"), undone)), Step::CloseFailed);
}

#[test]
fn a_failure_before_the_first_switch_acts_on_nothing() {
    let j = failing(journal(Stage::Opened, &[(Action::DaemonReload, 0, false), (restart(), 0, false)]), "x", None);
    assert!(j.actions.iter().all(|a| a.done));
}

#[test]
fn what_goes_wrong_while_undoing_is_in_the_reason() {
    let mut j = failing(journal(Stage::Written, &[(restart(), 1, false)]), "first", None);
    j.stage = Stage::Undone;
    let j = finished_actions(j, Some("second"));
    assert_eq!(j.failure.as_deref(), Some("first; second"));
    assert_eq!(j.stage, Stage::Undone);
}

#[test]
fn files_that_cannot_be_staged_are_tried_again_and_files_that_are_switched_are_undone() {
    let trouble = |count| Trouble { work: Work::Forward, text: "no space".into(), count, last: secs(0) };
    assert_eq!(after_failed_forward(Stage::Opened, "b", &trouble(1)), Step::Abandon);
    for (stage, count) in [(Stage::Opened, Trouble::TELL), (Stage::Switching, 1)] {
        assert!(matches!(after_failed_forward(stage, "b", &trouble(count)), Step::Fail(_)), "{stage:?} {count}");
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
