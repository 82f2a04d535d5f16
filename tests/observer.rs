//! The observer that the cluster tests trust: it must see what it is there to see, and nothing else.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod harness;

use harness::{Judge, NodeView};
use std::time::Duration;

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A node in service at config `a`.
fn idle(name: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        is_worker: true,
        ready: true,
        desired: "a".to_owned(),
        current: "a".to_owned(),
        state: "Done".to_owned(),
        ..NodeView::default()
    }
}

fn given(name: &str, config: &str) -> NodeView {
    NodeView { desired: config.to_owned(), ..idle(name) }
}

fn three() -> Judge {
    let mut judge = Judge::new(1);
    for name in ["w1", "w2", "w3"] {
        assert_eq!(judge.see(at(0), idle(name)), None);
    }
    judge
}

#[test]
fn a_second_node_under_a_limit_of_one_is_a_violation() {
    let mut judge = three();
    assert_eq!(judge.see(at(10), given("w1", "b")), None);
    let violation = judge.see(at(20), given("w2", "b")).expect("w1 has not come back yet");
    assert!(violation.contains("w2 was given a config while 1 of at most 1"), "{violation}");
}

#[test]
fn one_after_the_other_is_none() {
    let mut judge = three();
    for (n, name) in [(1, "w1"), (2, "w2"), (3, "w3")] {
        assert_eq!(judge.see(at(n * 100), given(name, "b")), None);
        let back = NodeView { current: "b".to_owned(), ..given(name, "b") };
        assert_eq!(judge.see(at(n * 100 + 50), back), None);
    }
}

#[test]
fn a_new_target_for_a_node_that_is_taken_already_is_none() {
    let mut judge = three();
    assert_eq!(judge.see(at(10), given("w1", "b")), None);
    assert_eq!(judge.see(at(20), given("w1", "c")), None);
}

#[test]
fn a_node_that_fails_by_itself_counts_once_it_can_be_known() {
    let down = NodeView { ready: false, ..idle("w3") };
    let mut judge = three();
    assert_eq!(judge.see(at(10), down.clone()), None, "it failed by itself");
    assert_eq!(judge.see(at(500), given("w1", "b")), None, "half a second later nobody need know");
    let mut judge = three();
    judge.see(at(10), down);
    assert!(judge.see(at(1500), given("w1", "b")).is_some());
}

#[test]
fn a_cordon_by_mcx_counts_what_is_cordoned_and_not_ready() {
    let cordoned =
        |name: &str| NodeView { unschedulable: true, cordoned_by: Some("mcx".to_owned()), ..given(name, "b") };
    let mut judge = three();
    judge.see(at(10), given("w1", "b"));
    judge.see(at(20), NodeView { ready: false, ..idle("w2") });
    assert!(judge.see(at(2000), cordoned("w1")).is_some(), "w2 has been away for two seconds");
    // A person's cordon is a person's business.
    let mut judge = three();
    judge.see(at(10), given("w1", "b"));
    assert_eq!(judge.see(at(2000), NodeView { unschedulable: true, ..idle("w2") }), None);
}

#[test]
fn a_node_that_is_gone_no_longer_counts() {
    let mut judge = three();
    judge.see(at(10), given("w1", "b"));
    judge.forget("w1");
    assert_eq!(judge.see(at(20), given("w2", "b")), None);
}
