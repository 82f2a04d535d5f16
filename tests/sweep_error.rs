//! Error sweep: every system call of `mcx apply`, which is the daemon's transaction, fails on the folder: once, or from
//! then on. A sample by default, all with `MCX_SOAK=1` (`make soak`).

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_lives.rs"]
mod node_lives;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/sweep.rs"]
mod sweep;
#[path = "support/sysfault.rs"]
mod sysfault;

use nix::errno::Errno;
use node_lives::torn;
use node_root::assert_same;
use sweep::{Counts, Scenario, sample, sweep};
use sysfault::{Call, Ended, Fault, Set};

/// What a call that changes something can say.
const CHANGES: [Errno; 6] = [Errno::EIO, Errno::ENOSPC, Errno::EROFS, Errno::EDQUOT, Errno::EACCES, Errno::EMFILE];
/// What one that opens can.
const OPENS: [Errno; 3] = [Errno::EIO, Errno::EACCES, Errno::EMFILE];
/// What one that looks can.
const LOOKS: [Errno; 2] = [Errno::EIO, Errno::EACCES];

#[derive(Debug, Clone)]
struct Case {
    fault: Fault,
    call: Call,
}

fn cases(scenario: &Scenario) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, call) in scenario.calls(Set::Every).into_iter().enumerate() {
        let n = index + 1;
        let looks = [
            "read",
            "pread64",
            "getdents64",
            "stat",
            "lstat",
            "fstat",
            "newfstatat",
            "statx",
            "statfs",
            "fstatfs",
            "readlink",
            "readlinkat",
            "access",
            "faccessat",
            "faccessat2",
            "flock",
        ];
        let errors: &[Errno] = match call.name.as_str() {
            name if name.starts_with("open") => &OPENS,
            name if looks.contains(&name) => &LOOKS,
            _ => &CHANGES,
        };
        // What only looks is many times more, and what it can say makes little difference: one error each, in turn.
        let errors = if errors.len() == CHANGES.len() { errors } else { &errors[n % errors.len()..][..1] };
        for error in errors {
            cases.push(Case { fault: Fault::Error(n, *error), call: call.clone() });
            cases.push(Case { fault: Fault::ErrorsFrom(n, *error), call: call.clone() });
        }
    }
    cases
}

/// Whether a message says what is wrong where: the path of the call, one beside it (what is staged there is nobody's
/// business), or the command that it failed in.
fn names(said: &str, call: &Call) -> bool {
    let path = call.path.strip_suffix("/.").unwrap_or(&call.path);
    let beside = path.rsplit_once('/').map_or("/", |(dir, _)| dir);
    said.contains(path) || said.contains(&format!("{beside}/")) || said.contains("systemctl ")
}

fn run(scenario: &Scenario, case: &Case, counts: &Counts) {
    let node = scenario.template.copy();
    let when = format!("{}, {:?} ({} {})", scenario.name, case.fault, case.call.name, case.call.path);
    let Ended { code, out, err, calls } = scenario.run(&node, Set::Every, case.fault, scenario.wish);
    // Without the warnings of validation.
    let said: String =
        out.lines().chain(err.lines().filter(|line| !line.contains(": warning: "))).collect::<Vec<_>>().join(" | ");
    assert!((0..=2).contains(&code), "{when}: ended with {code}: {said}");
    let tree = node.tree();
    let torn = torn(&tree, &[&scenario.bare, &scenario.from, &scenario.to, &scenario.on_the_way]);
    assert!(torn.is_empty(), "{when}: torn: {torn:?}: {said}");
    let is_open = node.at("/var/lib/mcx/journal.json").exists();
    if code == 0 {
        assert_same(&tree, &scenario.to, &format!("{when}: called a success: {said}"));
        assert!(!is_open, "{when}: called a success, and still open: {said}");
        counts.add("finished");
    } else {
        let failed = match case.fault {
            Fault::ErrorsFrom(n, _) => &calls[n - 1..],
            _ => std::slice::from_ref(&case.call),
        };
        assert!(failed.iter().any(|call| names(&err, call)), "{when}: does not say where: {said}");
        if said.contains("is as it was") {
            assert_same(&tree, &scenario.from, &format!("{when}: {said}"));
            counts.add("undone");
        } else {
            // Nothing is left half done by an error that has passed.
            let passed = matches!(case.fault, Fault::Error(..));
            assert!(!passed || tree == scenario.from || tree == scenario.to, "{when}: {said}");
            counts.add(if is_open { "left to the next run" } else { "refused" });
        }
    }
    scenario.succeed(&node, scenario.wish, &format!("{when}: {said}, without it"));
    assert_same(&node.tree(), &scenario.to, &format!("{when}, then without it"));
    counts.add("fine without it");
    if let Fault::Error(n, _) | Fault::ErrorsFrom(n, _) = case.fault
        && n % 7 == 0
    {
        scenario.withdraw(&node, &when);
        counts.add("given back");
    }
}

#[test]
fn whatever_system_call_fails_it_is_undone_or_finished_and_fine_without_the_fault() {
    let mut failed = Vec::new();
    for scenario in Scenario::all() {
        let all = cases(&scenario);
        assert!(all.len() > 1000, "{} has lost its calls: {}", scenario.name, all.len());
        let few = sample(&all, 401);
        let counts = Counts::default();
        failed.extend(sweep(&format!("error sweep, {}", scenario.name), &few, &counts, |case| {
            run(&scenario, case, &counts);
        }));
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// This was wrong: what was staged for the folder of mcx's state stayed beside it.
#[test]
fn a_state_folder_that_cannot_be_made_leaves_nothing_beside_it() {
    let Some(scenario) = Scenario::all().into_iter().find(|scenario| scenario.name == "first update") else { return };
    let is_of_it = |call: &Call| call.path.starts_with("/var/lib/.mcx-") || call.name.starts_with("rename");
    let all: Vec<(usize, Call)> = scenario.calls(Set::Every).into_iter().enumerate().collect();
    let made = all.iter().position(|(_, call)| call.name.starts_with("rename") && call.path == "/var/lib/mcx").unwrap();
    let of_it: Vec<_> = all[..=made].iter().filter(|(_, call)| is_of_it(call)).collect();
    let mut refused = 0;
    for (index, call) in of_it {
        let node = scenario.template.copy();
        let ended = scenario.run(&node, Set::Every, Fault::Error(index + 1, Errno::EIO), scenario.wish);
        if ended.code != 0 {
            let when = format!("EIO at {} {}: {}", call.name, call.path, ended.err);
            assert_same(&node.tree(), &scenario.from, &when);
            refused += 1;
        }
    }
    assert!(refused > 5, "{refused} refused");
}

/// These were wrong: a folder that mcx made was forgotten when it could not be looked at while the update was closed, and
/// stayed after the withdrawal; a lock that could not be let go was a panic.
#[test]
fn an_error_in_the_last_steps_loses_no_folder_and_is_no_panic() {
    let Some(scenario) = Scenario::all().into_iter().find(|scenario| scenario.name == "update") else { return };
    let calls = scenario.calls(Set::Every);
    let closing =
        calls.iter().rposition(|call| call.name == "unlinkat" && call.path == "/var/lib/mcx/journal.json").unwrap();
    let cases: Vec<(usize, Call)> = calls.into_iter().enumerate().skip(closing).collect();
    let is_chosen = |call: &Call| call.path == "/etc/cron.d" || call.path == "/etc" || call.name == "flock";
    let chosen: Vec<_> = cases.into_iter().filter(|(_, call)| is_chosen(call)).collect();
    assert!(chosen.len() > 2, "{chosen:?}");
    for (index, call) in chosen {
        let node = scenario.template.copy();
        let when = format!("EIO at {} {}", call.name, call.path);
        let ended = scenario.run(&node, Set::Every, Fault::Error(index + 1, Errno::EIO), scenario.wish);
        assert!((0..=2).contains(&ended.code), "{when}: ended with {}: {}", ended.code, ended.err);
        scenario.succeed(&node, scenario.wish, &when);
        scenario.withdraw(&node, &when);
    }
}
