//! What the machine does with an open update: forward, through a reboot, and back.

use super::*;

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
