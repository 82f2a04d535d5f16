//! Kill sweep: `mcx apply`, which is the daemon's transaction, is killed before every system call that changes a file.
//! A sample by default, every call with `MCX_SOAK=1` (`make soak`).

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_lives.rs"]
mod node_lives;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/sweep.rs"]
mod sweep;
#[path = "support/sysfault.rs"]
mod sysfault;

use node_lives::{is_staged, torn};
use node_root::assert_same;
use sweep::{Counts, Scenario, sample, soak, sweep};
use sysfault::{Fault, KILLED, Set};

/// Which way the node goes after the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The same again, then all is withdrawn.
    Again,
    /// The same again, which is killed too, at some other call; then again.
    KilledAgain,
    /// All is withdrawn.
    Withdrawn,
}

#[derive(Debug, Clone)]
struct Case {
    fault: Fault,
    then: Then,
    /// For the message.
    at: String,
}

fn cases(scenario: &Scenario) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, call) in scenario.calls(Set::Change).iter().enumerate() {
        let at = format!("{} {}", call.name, call.path);
        let case = |fault, then| Case { fault, then, at: at.clone() };
        let n = index + 1;
        cases.push(case(Fault::Kill(n), Then::Again));
        cases.push(case(Fault::KillFirst(n), Then::Again));
        cases.push(case(Fault::Kill(n), Then::KilledAgain));
        cases.push(case(Fault::Kill(n), Then::Withdrawn));
    }
    cases
}

fn run(scenario: &Scenario, case: &Case, counts: &Counts) {
    let node = scenario.template.copy();
    let when = format!("{}, {:?} ({})", scenario.name, case.fault, case.at);
    let killed = scenario.run(&node, Set::Change, case.fault, scenario.wish);
    assert_eq!(killed.code, KILLED, "{when}: {}{}", killed.out, killed.err);
    let whole = |when: &str| {
        let tree = node.tree();
        let torn = torn(&tree, &[&scenario.bare, &scenario.from, &scenario.to, &scenario.on_the_way]);
        assert!(torn.is_empty(), "{when}: torn: {torn:?}");
        tree
    };
    let tree = whole(&when);
    counts.add(if tree.keys().any(|path| is_staged(path)) { "with staged files" } else { "with nothing staged" });
    if case.then == Then::KilledAgain {
        // Somewhere else each time, and always the same for the same case.
        let Fault::Kill(n) = case.fault else { return };
        let again = Fault::Kill(1 + n * 7 % 40);
        let ended = scenario.run(&node, Set::Change, again, scenario.wish);
        counts.add(if ended.code == KILLED { "killed again" } else { "ended before the second kill" });
        whole(&format!("{when}, then {again:?}"));
    }
    if case.then != Then::Withdrawn {
        scenario.succeed(&node, scenario.wish, &format!("{when}, then again"));
        assert_same(&node.tree(), &scenario.to, &format!("{when}, then again"));
        counts.add("converged");
    }
    scenario.withdraw(&node, &when);
    counts.add("given back");
}

#[test]
fn killed_before_any_system_call_every_path_is_whole_and_the_next_run_ends_it() {
    let mut failed = Vec::new();
    for scenario in Scenario::all() {
        let all = cases(&scenario);
        let few = sample(&all, 61);
        assert!(all.len() > 400, "{} has lost its calls: {}", scenario.name, all.len());
        let counts = Counts::default();
        failed.extend(sweep(&format!("kill sweep, {}", scenario.name), &few, &counts, |case| {
            run(&scenario, case, &counts);
        }));
        // Nothing would be found in a sweep whose kills come before or after all that matters.
        assert!(counts.of("with staged files") > 0 || soak() != Some(1), "{}", scenario.name);
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
