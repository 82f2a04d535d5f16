//! What the machine does while no update is open: adoption, drift, the way to an update, failures, the force file.

use super::*;

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
    pub(super) fn retargeted(self, desired: &str) -> Self {
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
