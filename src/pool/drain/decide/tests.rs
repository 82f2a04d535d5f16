use super::*;
use crate::api::protocol::{NodeState, UNSCHEDULABLE_TAINT};
use crate::pool::door::Cordon;
use serde_json::json;

const CORDONED_AT: &str = "2026-01-01T00:00:10Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-01-01T00:01:00Z")
}

fn request(text: &str) -> DrainRequest {
    text.parse().unwrap()
}

fn mark(time: &str) -> CordonMark {
    CordonMark::new(at(time))
}

/// A Working node that asks for `desired`.
fn asking(desired: &str) -> NodeView {
    NodeView {
        name: "n".into(),
        uid: "u".into(),
        ready: true,
        state: Some(NodeState::Working),
        desired_drain: Some(request(desired)),
        ..NodeView::default()
    }
}

/// As [`asking`], cordoned by us, the time on record and the request taken up.
fn emptying(desired: &str) -> NodeView {
    NodeView {
        cordoned: true,
        cordoned_at: Some(at(CORDONED_AT)),
        mark: Some(mark(CORDONED_AT)),
        drain_status: Some(DrainStatus {
            request: desired.to_owned(),
            started: Some(at("2026-01-01T00:00:09Z")),
            ..DrainStatus::default()
        }),
        ..asking(desired)
    }
}

/// `node` after `change`, as the API server would have it.
fn after(node: &NodeView, change: &NodeChange) -> NodeView {
    let mut annotations = serde_json::Map::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            annotations.insert(key.to_owned(), value.into());
        }
    };
    put(annotation::DESIRED_DRAIN, node.desired_drain.as_ref().map(ToString::to_string));
    put(annotation::LAST_APPLIED_DRAIN, node.applied_drain.as_ref().map(ToString::to_string));
    put(annotation::DRAIN_STATUS, node.drain_status.as_ref().map(text));
    put(annotation::CORDONED_BY, node.mark.as_ref().map(ToString::to_string));
    for (key, value) in &change.annotations {
        match value {
            Some(value) => annotations.insert((*key).to_owned(), value.clone().into()),
            None => annotations.remove(*key),
        };
    }
    let (cordoned, cordoned_at) = match change.cordon {
        None => (node.cordoned, node.cordoned_at),
        Some(Cordon::On(mark)) => (true, Some(mark.at())),
        Some(Cordon::Off) => (false, None),
    };
    let mut taints = json!([]);
    if let Some(time) = cordoned_at {
        taints = json!([{"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule", "timeAdded": time.to_string()}]);
    }
    let value = json!({
        "metadata": {"name": node.name, "uid": node.uid, "annotations": annotations},
        "spec": {"unschedulable": cordoned, "taints": taints}
    });
    NodeView::new(&serde_json::from_value(value).unwrap())
}

fn written(next: Next) -> (NodeChange, Option<Notice>) {
    match next {
        Next::Write(change, notice) => (change, notice),
        other => panic!("a write was expected, not {other:?}"),
    }
}

fn ended(change: &NodeChange) -> Option<DrainStatus> {
    let text = change.annotations.get(annotation::DRAIN_STATUS)?.as_ref()?;
    serde_json::from_str::<DrainStatus>(text).ok().filter(|s| s.ended)
}

fn removes_mark(change: &NodeChange) -> bool {
    change.annotations.get(annotation::CORDONED_BY) == Some(&None)
}

#[test]
fn a_schedulable_node_is_cordoned_only_by_way_of_a_slot() {
    let node = asking("drain-rendered-worker-1-1");
    assert_eq!(next(&node, now()), Next::Cordon(request("drain-rendered-worker-1-1")));
}

#[test]
fn cordon_mark_and_start_time_are_one_patch() {
    let node = asking("drain-c-1");
    let (change, notice) = cordon(&node, &request("drain-c-1"), CordonMark::new(now()), now());
    assert_eq!(change.cordon, Some(Cordon::On(CordonMark::new(now()))));
    let view = after(&node, &change);
    assert!(view.cordon_is_ours());
    assert!(
        matches!(next(&view, now()), Next::Empty(_)),
        "hole 4: the time of the cordon is on record before evictions"
    );
    assert_eq!(view.drain_status.unwrap().started, Some(now()), "G-05: the clock must survive a new leader");
    assert_eq!(notice.reason, event::DRAIN_STARTED);
}

#[test]
fn uncordoned_and_cordoned_again_between_two_looks_is_not_our_cordon_hole_4() {
    for desired in ["drain-c-1", "uncordon-c-2"] {
        let mut node = emptying(desired);
        node.cordoned_at = Some(at("2026-01-01T00:00:40Z"));
        let (change, _) = written(next(&node, now()));
        assert!(removes_mark(&change), "{desired}");
        assert_eq!(change.cordon, None, "{desired}: the administrator's cordon was touched");
        let node = after(&node, &change);
        assert!(node.cordoned, "{desired}");
        if desired == "drain-c-1" {
            assert_eq!(ended(&change).unwrap().request, desired);
            assert_eq!(next(&node, now()), Next::Nothing, "an ended attempt goes on");
        } else {
            assert_eq!(node.applied_drain, node.desired_drain);
        }
    }
}

#[test]
fn a_taint_that_vanished_makes_the_mark_void_too() {
    let mut node = emptying("drain-c-1");
    node.cordoned_at = None;
    let (change, _) = written(next(&node, now()));
    assert!(removes_mark(&change) && ended(&change).is_some(), "the scheduler may have placed pods meanwhile");
}

#[test]
fn an_uncordon_by_hand_ends_the_attempt_in_the_api_hole_3() {
    // Fulfilled or not: the daemon must be able to read it, or both sides wait for ever.
    for fulfilled in [false, true] {
        let mut node = emptying("drain-c-1");
        node.cordoned = false;
        node.cordoned_at = None;
        node.applied_drain = node.desired_drain.clone().filter(|_| fulfilled);
        let (change, notice) = written(next(&node, now()));
        assert!(removes_mark(&change), "R-049");
        assert_eq!(ended(&change).unwrap().request, "drain-c-1");
        assert_eq!(notice.unwrap().reason, event::DRAIN_ENDED);
        let node = after(&node, &change);
        assert_eq!(next(&node, now()), Next::Nothing, "the node was cordoned again over the administrator's head");
    }
}

#[test]
fn the_next_attempt_after_an_end_is_served() {
    let mut node = emptying("drain-c-1");
    node.cordoned = false;
    let (change, _) = written(next(&node, now()));
    let mut node = after(&node, &change);
    node.desired_drain = Some(request("drain-c-2"));
    assert_eq!(next(&node, now()), Next::Cordon(request("drain-c-2")));
}

#[test]
fn a_foreign_cordon_is_never_taken_over_r048() {
    let mut node = asking("drain-c-1");
    node.cordoned = true;
    node.cordoned_at = Some(at(CORDONED_AT));
    let Next::Wait(request, why) = next(&node, now()) else { panic!("{:?}", next(&node, now())) };
    let change = say(&node, &request, &[why]).unwrap();
    assert_eq!(change.cordon, None);
    assert!(!change.annotations.contains_key(annotation::CORDONED_BY), "a foreign cordon got our mark");
    assert!(!change.annotations.contains_key(annotation::LAST_APPLIED_DRAIN), "R-081: a cordon is no proof of a drain");
    let node = after(&node, &change);
    assert!(node.drain_status.unwrap().waiting[0].contains("somebody else"));
}

#[test]
fn a_foreign_cordon_is_never_lifted_r049() {
    let mut node = asking("uncordon-c-2");
    node.cordoned = true;
    node.cordoned_at = Some(at(CORDONED_AT));
    let (change, notice) = written(next(&node, now()));
    assert_eq!(change, NodeChange::default().set(annotation::LAST_APPLIED_DRAIN, "uncordon-c-2"));
    assert_eq!(notice, None);
}

#[test]
fn our_cordon_is_lifted_and_fulfilled_in_one_patch_r067() {
    let node = emptying("uncordon-c-2");
    let (change, notice) = written(next(&node, now()));
    assert_eq!(change.cordon, Some(Cordon::Off));
    let view = after(&node, &change);
    assert_eq!((view.mark, view.drain_status), (None, None));
    assert_eq!(view.applied_drain, view.desired_drain);
    assert_eq!(notice.unwrap().reason, event::UNCORDONED);
}

#[test]
fn a_withdrawn_drain_is_unwound_at_once_r083() {
    let mut node = emptying("drain-c-1");
    node.desired_drain = Some(request("uncordon-b-2"));
    let (change, _) = written(next(&node, now()));
    assert_eq!(change.cordon, Some(Cordon::Off));
    assert!(removes_mark(&change));
}

#[test]
fn the_mark_goes_whenever_the_node_is_schedulable() {
    for desired in [None, Some("uncordon-c-2"), Some("drain-c-1")] {
        let mut node = emptying("drain-c-1");
        node.cordoned = false;
        node.desired_drain = desired.map(request);
        let (change, _) = written(next(&node, now()));
        assert!(removes_mark(&change), "{desired:?}");
        let node = after(&node, &change);
        assert_eq!(next(&node, now()), Next::Nothing, "{desired:?}");
    }
}

#[test]
fn a_kept_cordon_serves_the_next_config_with_a_clock_of_its_own() {
    // Retargeted during the drain: the daemon keeps the cordon and asks for the other config.
    let mut node = emptying("drain-c-1");
    node.desired_drain = Some(request("drain-d-2"));
    let Next::Begin(asked, change) = next(&node, now()) else { panic!("{:?}", next(&node, now())) };
    assert_eq!((asked, change.cordon), (request("drain-d-2"), None));
    let node = after(&node, &change);
    let Next::Empty(drain) = next(&node, now()) else { panic!("{:?}", next(&node, now())) };
    assert_eq!(drain.started, now());
}

#[test]
fn a_fulfilled_request_asks_for_nothing() {
    for desired in ["drain-c-1", "uncordon-c-2"] {
        let mut node = asking(desired);
        node.applied_drain = node.desired_drain.clone();
        assert_eq!(next(&node, now()), Next::Nothing, "{desired}");
    }
    let mut node = emptying("drain-c-1");
    node.applied_drain = node.desired_drain.clone();
    assert_eq!(next(&node, now()), Next::Nothing, "R-079: a finished drain was repeated");
}

#[test]
fn no_state_makes_the_controller_write_for_ever() {
    // Every combination of what can be on a Node: writes settle within three steps, and none of them cordons.
    let times = [None, Some(CORDONED_AT), Some("2026-01-01T00:00:40Z")];
    let requests = [None, Some("drain-c-1"), Some("uncordon-c-2")];
    for cordoned in [false, true] {
        for cordoned_at in times {
            for marked in [None, Some(CORDONED_AT)] {
                for (desired, applied) in requests.iter().flat_map(|d| requests.iter().map(move |a| (d, a))) {
                    for status in [None, Some(false), Some(true)] {
                        let start = NodeView {
                            cordoned,
                            cordoned_at: cordoned_at.map(at),
                            mark: marked.map(mark),
                            desired_drain: desired.map(request),
                            applied_drain: applied.map(request),
                            drain_status: status.map(|ended| DrainStatus {
                                request: "drain-c-1".to_owned(),
                                ended,
                                ..DrainStatus::default()
                            }),
                            ..asking("drain-c-1")
                        };
                        settles(&start);
                    }
                }
            }
        }
    }
}

fn settles(start: &NodeView) {
    let mut node = start.clone();
    for _ in 0..3 {
        let (Next::Write(change, _) | Next::Begin(_, change)) = next(&node, now()) else { return };
        assert!(!matches!(change.cordon, Some(Cordon::On(_))), "{start:?}");
        if change.cordon == Some(Cordon::Off) {
            assert!(node.cordon_is_ours(), "a foreign cordon was lifted: {start:?}");
        }
        if change.annotations.contains_key(annotation::LAST_APPLIED_DRAIN) {
            let kind = node.desired_drain.as_ref().map(|r| r.kind);
            assert_eq!(kind, Some(DrainKind::Uncordon), "a drain was fulfilled without looking at pods: {start:?}");
        }
        node = after(&node, &change);
    }
    assert!(!matches!(next(&node, now()), Next::Write(..) | Next::Begin(..)), "never settles: {start:?}");
}

#[test]
fn a_fulfilment_names_what_came_late_and_ends_the_waiting_r089() {
    let node = emptying("drain-c-1");
    let Next::Empty(drain) = next(&node, now()) else { panic!() };
    let (change, notice) = fulfil(&drain, &["pod a/b came after the cordon".to_owned()], now());
    assert_eq!(change.cordon, None);
    let view = after(&node, &change);
    assert_eq!(view.applied_drain, view.desired_drain);
    let status = view.drain_status.unwrap();
    assert_eq!((status.waiting_count, status.ended), (1, false));
    assert_eq!(notice.reason, event::DRAINED);
}

#[test]
fn the_status_is_written_only_when_it_says_something_new() {
    let node = emptying("drain-c-1");
    let asked = request("drain-c-1");
    assert_eq!(say(&node, &asked, &[]), None, "nothing to say yet");
    let waiting: Vec<String> = (0..12).map(|n| format!("pod a/p{n}")).collect();
    let change = say(&node, &asked, &waiting).unwrap();
    let node = after(&node, &change);
    assert_eq!(say(&node, &asked, &waiting), None);
    let status = node.drain_status.clone().unwrap();
    assert_eq!((status.waiting.len(), status.waiting_count), (10, 12));
    assert_eq!(status.started, Some(at("2026-01-01T00:00:09Z")), "saying something must not restart the clock");
}

#[test]
fn an_overdue_drain_is_told_and_goes_on_r068() {
    let node = emptying("drain-c-1");
    let Next::Empty(drain) = next(&node, now()) else { panic!() };
    let threshold = Duration::from_mins(10);
    assert!(!overdue(&drain, threshold, at("2026-01-01T00:10:09Z")));
    assert!(overdue(&drain, threshold, at("2026-01-01T00:10:10Z")));
    let later = at("2026-01-02T00:00:00Z");
    assert!(matches!(next(&node, later), Next::Empty(_)), "it was given up");
    let names: Vec<String> = (0..40).map(|n| format!("pod shop/{}-{n}", "x".repeat(200))).collect();
    let notice = overdue_notice(&drain, &names);
    assert!(
        notice.warning && notice.note.len() <= 1024,
        "{} bytes: the API server refuses the Event",
        notice.note.len()
    );
}

#[test]
fn a_pod_that_cannot_end_is_named_with_what_to_do_r078() {
    let node = emptying("drain-c-1");
    let Next::Empty(drain) = next(&node, now()) else { panic!() };
    let value =
        json!({"metadata": {"name": "p", "namespace": "a", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:50Z"}});
    let pod = BoundPod::new(&serde_json::from_value(value).unwrap(), "mcx-system");
    let text = |ready, time| ending(&pod, ready, &drain, at(time));
    assert_eq!(text(true, "2026-01-01T00:00:12Z"), None, "an ordinary end is no news");
    assert!(text(true, "2026-01-01T00:00:20Z").unwrap().contains("is ending"));
    assert!(text(true, "2026-01-01T00:00:51Z").unwrap().contains("finalizers"));
    assert!(text(false, "2026-01-01T00:00:51Z").unwrap().contains("NotReady"));
}
