use super::*;

fn unit(load: &str, active: &str, sub: &str, result: &str, restarts: u32) -> Unit {
    Unit { load: load.into(), active: active.into(), sub: sub.into(), result: result.into(), restarts }
}

#[test]
fn what_systemctl_prints_is_read_whatever_the_order_and_unknown_words_are_left() {
    let text = "LoadState=loaded\nResult=exit-code\nNRestarts=3\nActiveState=failed\nSubState=failed\nFuture=x\n\n";
    assert_eq!(Unit::parse(text), unit("loaded", "failed", "failed", "exit-code", 3));
    // A timer has no restarts.
    assert_eq!(Unit::parse("NRestarts=\nActiveState=active").restarts, 0);
    assert_eq!(Unit::parse("garbage"), Unit::default());
}

#[test]
fn an_action_has_worked_only_when_its_unit_runs_or_has_ended_well() {
    let cases = [
        (unit("loaded", "active", "running", "success", 2), "good"),
        (unit("loaded", "active", "exited", "success", 2), "good"),
        (unit("loaded", "reloading", "reload", "success", 2), "good"),
        // A oneshot that has ended, or a condition that was not met.
        (unit("loaded", "inactive", "dead", "success", 2), "good"),
        (unit("loaded", "inactive", "dead", "", 0), "good"),
        (unit("loaded", "activating", "start", "success", 2), "pending"),
        (unit("loaded", "deactivating", "stop-sigterm", "success", 2), "pending"),
        // Crashes in a loop: systemd calls it activating, or active for a moment.
        (unit("loaded", "activating", "auto-restart", "exit-code", 2), "bad"),
        (unit("loaded", "activating", "auto-restart-queued", "exit-code", 2), "bad"),
        (unit("loaded", "active", "running", "success", 3), "bad"),
        (unit("loaded", "failed", "failed", "exit-code", 2), "bad"),
        (unit("loaded", "inactive", "dead", "exit-code", 2), "bad"),
        (unit("loaded", "a new word", "x", "success", 2), "bad"),
    ];
    for (unit, expected) in cases {
        let verdict = match (Expected::Well { restarts: 2 }).judge(&unit) {
            Verdict::Good => "good",
            Verdict::Pending => "pending",
            Verdict::Bad(_) => "bad",
        };
        assert_eq!(verdict, expected, "{unit:?}");
    }
}

#[test]
fn a_unit_without_a_file_or_masked_must_not_run_and_nothing_more() {
    for load in ["not-found", "masked"] {
        let expected = unit(load, "active", "running", "success", 0).expectation();
        assert_eq!(expected, Expected::Stopped);
        for gone in ["inactive", "failed", ""] {
            assert_eq!(expected.judge(&unit(load, gone, "dead", "exit-code", 0)), Verdict::Good, "{load} {gone}");
        }
        assert!(matches!(expected.judge(&unit(load, "active", "running", "success", 0)), Verdict::Bad(_)));
    }
}

#[test]
fn restarts_count_from_the_action_on() {
    // systemd counts them from the last start by hand; what was before the action is not its fault.
    assert_eq!(unit("loaded", "active", "running", "success", 7).expectation(), Expected::Well { restarts: 7 });
}
