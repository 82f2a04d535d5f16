//! What the machine does about the guard, and about a node that its update has taken away.

use super::*;
use crate::api::protocol::{NO_API, NO_KUBELET};
use crate::node::guard::rule::Look;

fn failed_with(s: &Situation, lost: Lost) -> Failed {
    let j = s.held.as_ref().unwrap().journal.clone().unwrap();
    super::super::failed(&super::super::lost(j, lost, "boot-2"), s.held.as_ref().unwrap().failed.as_ref()).unwrap()
}

/// All is done and the disk is right; the node was looked at for so many seconds, always with this result.
fn acted(seconds: u64, kubelet: bool, api: bool) -> Situation {
    let mut s = open(working("b"), guarded(journal(Stage::Acted, &[(restart(), 1, true)])));
    s.compared = compared("b", &[]);
    let look = |n: u64| Look { at: s.now + secs(n), kubelet, api };
    s.watched = (0..=seconds).fold(s.watched, |watched, n| watched.and(look(n)));
    s.now += secs(seconds);
    s
}

#[test]
fn the_guard_is_left_before_the_first_switch_and_only_where_something_acts() {
    for action in [restart(), Action::Reload("x.service".into()), Action::Reboot] {
        let opened = journal(Stage::Opened, &[(action, 0, false)]);
        assert_eq!(next(&open(drained("b"), opened.clone())), Step::LeaveGuard);
        // Killed after it was noted what to look at, before it was in its place.
        let mut half = guarded(opened.clone());
        half.guard.as_mut().unwrap().left = false;
        assert_eq!(next(&open(drained("b"), half)), Step::LeaveGuard);
        assert_eq!(next(&open(drained("b"), guarded(opened.clone()))), Step::Forward);
        // Booted since, still with the old files: which boot has new ones must be told apart.
        let booted = Situation { boot_id: Some("boot-2".into()), ..open(drained("b"), guarded(opened.clone())) };
        assert_eq!(next(&booted), Step::LeaveGuard);
        let blind = Situation { boot_id: None, ..open(drained("b"), opened.clone()) };
        assert_eq!(next(&blind), Step::ReadBootId);
        // Forced, from a config to itself: there is nothing else to go back to.
        let mut same = opened;
        same.to = same.from.clone();
        assert_ne!(next(&open(drained("b"), same)), Step::LeaveGuard);
    }
    for actions in [vec![], vec![(Action::DaemonReload, 0, false)], vec![(Action::Drain, 0, false)]] {
        assert_eq!(next(&open(drained("b"), journal(Stage::Opened, &actions))), Step::Forward, "{actions:?}");
    }
}

#[test]
fn a_guard_that_cannot_be_left_again_and_again_fails_the_update_with_nothing_changed() {
    let mut s = open(drained("b"), journal(Stage::Opened, &[(Action::Reboot, 0, false)]));
    for _ in 0..Trouble::TELL {
        s.memory.note_trouble(Work::Guard, "no space".into(), s.now);
    }
    let Step::Fail(reason) = next(&s) else { panic!("{:?}", next(&s)) };
    assert!(reason.contains("no space"), "{reason}");
}

#[test]
fn nothing_is_closed_before_the_node_has_proven_that_it_is_still_there() {
    assert_eq!(next(&acted(0, true, true)), Step::Close);
    let mut s = acted(0, true, true);
    s.watched = Watched::default();
    assert_eq!(next(&s), Step::Look);
    let early = acted(59, true, false);
    assert_eq!(next(&early), Step::Wait { why: Waiting::Proof, until: Some(early.now + secs(1)) });
    assert_eq!(next(&acted(60, true, false)), Step::Lose(Lost::Api));
    assert_eq!(next(&acted(60, false, true)), Step::Lose(Lost::Kubelet));
    // What differs is said at once: it does not need the API server.
    let mut differs = acted(0, false, false);
    differs.compared = compared("b", &["/etc/x"]);
    assert!(matches!(next(&differs), Step::Fail(_)));
}

#[test]
fn an_update_of_an_mcx_without_a_guard_is_finished_as_it_was_begun() {
    let mut s = open(working("b"), journal(Stage::Acted, &[(restart(), 1, true)]));
    s.compared = compared("b", &[]);
    assert_eq!(next(&s), Step::Close);
}

#[test]
fn a_lost_node_is_undone_with_all_that_acted_and_with_a_boot_if_there_was_one() {
    let cases = [
        (Stage::Acted, restart(), 1, "boot-1", false),
        (Stage::Acted, restart(), 1, "boot-2", false),
        // Power cuts: the boot has brought the new files into effect, whatever was asked.
        (Stage::Written, restart(), 0, "boot-2", false),
        (Stage::Switching, Action::Reboot, 0, "boot-2", false),
        (Stage::Rebooting, Action::Reboot, 1, "boot-2", false),
        (Stage::Written, Action::Reboot, 0, "boot-1", true),
    ];
    for (stage, action, begun, boot, done) in cases {
        let j = super::super::lost(guarded(journal(stage, &[(action, begun, false)])), Lost::Kubelet, boot);
        assert_eq!((j.actions[0].done, j.actions[0].begun), (done, 0), "{stage:?} {boot}");
        assert_eq!(j.guard.as_ref().unwrap().lost, Some(Lost::Kubelet));
        assert_eq!(next(&open(working("b"), j)), Step::Back);
    }
}

#[test]
fn a_config_that_took_the_kubelet_away_is_not_tried_again_by_itself() {
    let failed = failed_with(&acted(60, false, true), Lost::Kubelet);
    assert!(failed.disruptive, "though there was no drain");
    assert!(failed.reason.contains(NO_KUBELET) && failed.reason.contains("journalctl"), "{}", failed.reason);
    let mut s = resting(OwnNode { state: Some(NodeState::Working), ..node("b") });
    s.held.as_mut().unwrap().failed = Some(failed.clone());
    s.memory.failed = Some(("b".into(), s.now, 1));
    assert_eq!(degraded(&next(&s)), failed.reason);
    s.now += Duration::from_hours(9);
    assert_eq!(degraded(&next(&s)), failed.reason);
}

#[test]
fn after_an_api_that_was_away_the_update_is_tried_once_more_and_only_once() {
    let mut s = acted(60, true, false);
    let failed = failed_with(&s, Lost::Api);
    assert!(
        failed.reason.contains(NO_API) && failed.reason.ends_with("tried once more by itself"),
        "{}",
        failed.reason
    );
    s.held.as_mut().unwrap().failed = Some(failed.clone());
    let again = failed_with(&s, Lost::Api);
    assert_eq!((failed.unanswered, again.unanswered), (1, 2));
    assert!(again.reason.contains("not tried again"), "{}", again.reason);
    for (failed, retried) in [(failed, true), (again, false)] {
        let reported = OwnNode { state: Some(NodeState::Degraded), reason: Some(failed.reason.clone()), ..node("b") };
        let mut s = updating(reported, &[restart()]);
        s.held.as_mut().unwrap().failed = Some(failed);
        s.memory.failed = Some(("b".into(), s.now, 1));
        assert_eq!(waits(&next(&s)), Waiting::News, "not at once");
        s.now += Duration::from_mins(5);
        assert_eq!(matches!(next(&s), Step::Claim { quiet: true, .. }), retried, "{:?}", next(&s));
    }
}

#[test]
fn another_failure_in_between_begins_to_count_anew() {
    let mut s = acted(60, true, false);
    s.held.as_mut().unwrap().failed = Some(Failed { unanswered: 1, ..failed_with(&s, Lost::Kubelet) });
    let j = s.held.as_ref().unwrap().journal.clone().unwrap();
    let earlier = s.held.as_ref().unwrap().failed.as_ref();
    let by_action = super::super::failed(&failing(j, "restart failed", Some("boot-1")), earlier).unwrap();
    assert_eq!((by_action.unanswered, by_action.disruptive), (0, false));
}

#[test]
fn the_way_back_is_not_given_up_after_two_kills() {
    // Skipped, the action would leave a node cut off with nobody who tries again.
    for (begun, skips) in [(2, false), (4, false), (5, true)] {
        let j = guarded(journal(Stage::Undone, &[(restart(), begun, false)]));
        let s = open(working("b"), Journal { failure: Some("x".into()), ..j });
        assert_eq!(matches!(next(&s), Step::SkipActions(_)), skips, "begun {begun}");
    }
}

#[test]
fn skipping_what_was_interrupted_too_often_skips_nothing_else() {
    let actions = [(Action::DaemonReload, 5, false), (restart(), 0, false)];
    let j = guarded(journal(Stage::Undone, &actions));
    let j = skipped_actions(Journal { failure: Some("x".into()), ..j }, "note");
    assert_eq!(j.actions.iter().map(|a| a.done).collect::<Vec<_>>(), [true, false]);
    assert_eq!(j.failure.as_deref(), Some("x; note"));
    assert_eq!(next(&open(working("b"), j)), Step::RunActions);
}
