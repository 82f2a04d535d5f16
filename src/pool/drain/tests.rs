//! Passes against an API server in memory: what is asked in which order, and what stands on the Node afterwards.

mod drainer;

use super::decide::Notice;
use super::fake::{Fake, failure, over_budget};
use super::pass::{Memory, Report, Work, pass};
use super::slot::Surroundings;
use crate::api::protocol::Slots;
use crate::api::{Epoch, annotation, event};
use crate::pool::door::Error;
use crate::pool::events::Events;
use crate::pool::membership::Membership;
use crate::pool::metrics::Metrics;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const BEFORE: &str = "2025-12-31T00:00:00Z";
const NODE: &str = "/api/v1/nodes/n1";
const POOL: &str = "/apis/machineconfiguration.alauda.io/v1alpha1/machineconfigpools/worker";

/// One node, looked after.
struct Case {
    fake: Fake,
    memory: Memory,
    now: Timestamp,
    notices: Vec<Notice>,
}

impl Case {
    /// `n1` holds a slot and asks for a drain.
    fn new() -> Self {
        let fake = Fake::new(&["n1", "n2"], 1);
        fake.annotate("n1", annotation::DESIRED_DRAIN, "drain-c-1");
        let now = "2026-01-01T00:00:11Z".parse().unwrap();
        Self { fake, memory: Memory::default(), now, notices: Vec::new() }
    }

    fn work(&self) -> Work {
        let nodes = ["n1", "n2"].iter().filter(|n| self.fake.with(|s| s.nodes.contains_key(**n)));
        let nodes = nodes.map(|n| ((*n).into(), Arc::new(self.fake.node(n)))).collect();
        let read = |v: &serde_json::Value| Arc::new(serde_json::from_value(v.clone()).unwrap());
        let pools = self.fake.with(|s| s.pools.iter().map(|(k, v)| (k.as_str().into(), read(v))).collect());
        let membership = Membership::new(&pools, &nodes);
        Work {
            door: self.fake.door(),
            epoch: Epoch::from("ours"),
            threshold: Duration::from_mins(10),
            detach: Duration::from_mins(1),
            namespace: "mcx-system".to_owned(),
            name: "n1".into(),
            around: Arc::new(Surroundings { pools, nodes, membership }),
        }
    }

    async fn try_pass(&mut self) -> Result<Report, Error> {
        let mut report = Report::default();
        let result = pass(&self.work(), &mut self.memory, self.now, &mut report).await;
        self.notices.extend(report.notices.clone());
        result.map(|()| report)
    }

    async fn pass(&mut self) -> Report {
        self.try_pass().await.unwrap()
    }

    /// The next pass, a second later.
    async fn next_pass(&mut self) -> Report {
        self.now += Duration::from_secs(1);
        self.pass().await
    }

    fn waiting(&self) -> Vec<String> {
        self.fake.node("n1").drain_status.map(|s| s.waiting).unwrap_or_default()
    }

    fn is_fulfilled(&self) -> bool {
        let node = self.fake.node("n1");
        node.applied_drain.is_some() && node.applied_drain == node.desired_drain
    }

    fn reasons(&self) -> Vec<&'static str> {
        self.notices.iter().map(|n| n.reason).collect()
    }
}

#[tokio::test]
async fn a_drain_goes_from_slot_to_empty_and_back() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.add_pod("n2", "other", BEFORE);
    case.pass().await;
    case.next_pass().await;
    let node = case.fake.node("n1");
    assert!(node.cordon_is_ours() && case.is_fulfilled());
    case.fake.with(|s| assert_eq!(s.pods.keys().collect::<Vec<_>>(), ["shop/other"], "a pod of another node went"));

    case.fake.annotate("n1", annotation::DESIRED_DRAIN, "uncordon-c-2");
    let report = case.next_pass().await;
    let node = case.fake.node("n1");
    assert!(!node.cordoned && node.mark.is_none() && case.is_fulfilled() && !report.waits);
    assert_eq!(case.reasons(), [event::DRAIN_STARTED, event::DRAINED, event::UNCORDONED]);
}

#[tokio::test]
async fn the_node_is_read_before_the_pool_and_written_after_it_hole_1() {
    let mut case = Case::new();
    case.pass().await;
    let mut log = case.fake.with(|s| s.log.clone());
    log.retain(|line| line != "GET /version");
    assert_eq!(log[..3], [format!("GET {NODE}"), format!("GET {POOL}"), format!("PATCH {NODE}")]);
}

#[tokio::test]
async fn a_slot_given_back_before_the_pool_is_read_brings_no_cordon() {
    let mut case = Case::new();
    let work = case.work();
    // The caches, and so `work`, still show the slot.
    case.fake.set_slots(Some(&Slots { epoch: Epoch::from("ours"), nodes: Vec::new() }));
    let mut report = Report::default();
    pass(&work, &mut case.memory, case.now, &mut report).await.unwrap();
    assert!(!case.fake.node("n1").cordoned, "a cached slot was believed");
    assert!(case.waiting()[0].contains("no slot of pool worker"), "{:?}", case.waiting());
}

#[tokio::test]
async fn a_take_over_between_the_reads_and_the_cordon_stops_the_old_leader() {
    let mut case = Case::new();
    // The new leader changes the Node of each slot holder; the write of the old one must then fail.
    case.fake.before(&format!("PATCH {NODE}"), |s| {
        s.set_slots(Some(&Slots { epoch: Epoch::from("another"), nodes: Vec::new() }));
        s.annotate("n1", annotation::EPOCH, "another");
    });
    let error = case.try_pass().await.err();
    assert!(matches!(error, Some(Error::Deposed { .. })), "{error:?}");
    assert!(!case.fake.node("n1").cordoned);
}

#[tokio::test]
async fn another_leaders_epoch_or_no_slots_at_all_bring_no_cordon() {
    let mut case = Case::new();
    case.fake.with(|s| s.set_slots(None));
    case.pass().await;
    assert!(!case.fake.node("n1").cordoned && case.waiting()[0].contains("has no slots"), "{:?}", case.waiting());
    let mut slots = Slots { epoch: Epoch::from("another"), nodes: Vec::new() };
    slots.nodes.push(crate::api::protocol::SlotHolder { name: "n1".into(), uid: "uid-n1".into() });
    case.fake.set_slots(Some(&slots));
    assert!(matches!(case.try_pass().await, Err(Error::Deposed { .. })));
    assert!(!case.fake.node("n1").cordoned);
}

#[tokio::test]
async fn a_slot_of_an_earlier_node_of_that_name_counts_for_nothing_hole_5() {
    let mut case = Case::new();
    case.fake.with(|s| s.nodes.get_mut("n1").unwrap()["metadata"]["uid"] = "registered-again".into());
    case.pass().await;
    assert!(!case.fake.node("n1").cordoned);
}

#[tokio::test]
async fn the_limit_is_counted_again_just_before_the_cordon_hole_10() {
    let mut case = Case::new();
    case.fake.with(|s| s.nodes.get_mut("n2").unwrap()["status"]["conditions"][0]["status"] = "Unknown".into());
    case.pass().await;
    assert!(!case.fake.node("n1").cordoned, "one too many");
    assert!(case.waiting()[0].contains("n2 is NotReady"), "{:?}", case.waiting());
    case.fake.with(|s| s.nodes.get_mut("n2").unwrap()["status"]["conditions"][0]["status"] = "True".into());
    case.next_pass().await;
    assert!(case.fake.node("n1").cordoned);
}

#[tokio::test]
async fn a_node_in_no_pool_any_more_finishes_with_the_slot_that_it_has() {
    let mut case = Case::new();
    case.fake.with(|s| s.nodes.get_mut("n1").unwrap()["metadata"]["labels"] = json!({}));
    case.pass().await;
    assert!(case.is_fulfilled());
    let mut without = Case::new();
    without.fake.with(|s| s.nodes.get_mut("n1").unwrap()["metadata"]["labels"] = json!({}));
    without.fake.set_slots(Some(&Slots { epoch: Epoch::from("ours"), nodes: Vec::new() }));
    without.pass().await;
    assert!(without.waiting()[0].contains("in no pool"), "{:?}", without.waiting());
}

#[tokio::test]
async fn the_blocking_budget_is_named_within_one_try_and_clearing_it_helps_r091_r068() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "db-0", BEFORE);
    case.fake.with(|s| s.refusals.entry("shop/db-0".to_owned()).or_default().extend([over_budget(), over_budget()]));
    case.pass().await;
    assert_eq!(case.waiting(), ["pod shop/db-0: PodDisruptionBudget shop/b needs 2 healthy pods and has 2"]);
    assert!(!case.is_fulfilled(), "went on undrained");
    for _ in 0..4 {
        case.next_pass().await;
    }
    assert_eq!(case.fake.count("POST"), 3, "two refusals and one success in five seconds: 0, 1, 3");
    assert!(case.is_fulfilled() && case.waiting().is_empty());
}

#[tokio::test]
async fn two_budgets_on_one_pod_are_named_as_what_they_are_r076() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "db-0", BEFORE);
    case.fake.with(|s| {
        s.pods.get_mut("shop/db-0").unwrap()["metadata"]["labels"] = json!({"app": "db"});
        for (name, label) in [("one", "db"), ("two", "db"), ("unrelated", "web")] {
            s.budgets.push(json!({
                "metadata": {"name": name, "namespace": "shop"}, "spec": {"selector": {"matchLabels": {"app": label}}}
            }));
        }
        let words = "Internal error occurred: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        s.refusals.entry("shop/db-0".to_owned()).or_default().push_back(failure(500, words, &json!([])));
    });
    case.pass().await;
    assert!(case.waiting()[0].contains("(shop/one, shop/two)"), "{:?}", case.waiting());
}

#[tokio::test]
async fn a_forbidden_eviction_never_lets_the_node_go_on_r084() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.with(|s| {
        let refusal = failure(403, "pods \"web\" is forbidden: User \"x\" cannot create", &json!([]));
        s.refusals.entry("shop/web".to_owned()).or_default().push_back(refusal);
    });
    case.pass().await;
    assert!(!case.is_fulfilled() && case.waiting()[0].contains("forbidden"), "{:?}", case.waiting());
}

#[tokio::test]
async fn pods_are_waited_for_by_uid_until_they_are_gone_r073() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "db-0", BEFORE);
    case.fake.with(|s| s.lingering = true);
    for _ in 0..3 {
        case.next_pass().await;
    }
    assert!(!case.is_fulfilled(), "a pod that is still ending was taken for gone");
    assert_eq!(case.fake.count("POST"), 1, "R-074: evicted more than once");
    // The StatefulSet's next pod of the same name, elsewhere.
    case.fake.add_pod("n2", "db-0", BEFORE);
    case.next_pass().await;
    assert!(case.is_fulfilled(), "waits for a name and not for a pod");
    assert_eq!(case.fake.count("POST"), 1, "the replacement was evicted");
}

#[tokio::test]
async fn a_replacement_of_the_same_name_is_never_evicted() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "db-0", BEFORE);
    case.fake.before("POST", |s| s.add_pod("n2", "db-0", BEFORE));
    case.pass().await;
    case.next_pass().await;
    assert!(case.is_fulfilled());
    case.fake.with(|s| assert_eq!(s.pods["shop/db-0"]["spec"]["nodeName"], "n2"));
}

#[tokio::test]
async fn pods_that_are_put_past_the_scheduler_do_not_hold_the_drain_r089() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.with(|s| s.refusals.entry("shop/web".to_owned()).or_default().extend(vec![over_budget(); 4]));
    let add = |s: &mut super::fake::State, n: usize| {
        s.add_pod("n1", &format!("pinned-{n}"), "2026-01-01T00:00:30Z");
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "rs", "controller": true}]);
        s.pods.get_mut(&format!("shop/pinned-{n}")).unwrap()["metadata"]["ownerReferences"] = owner;
    };
    case.pass().await;
    case.now = "2026-01-01T00:00:31Z".parse().unwrap();
    let mut pods = 0;
    for _ in 0..20 {
        if case.fake.with(|s| !s.pods.keys().any(|k| k.contains("pinned"))) {
            pods += 1;
            case.fake.with(|s| add(s, pods));
        }
        case.next_pass().await;
        if case.is_fulfilled() {
            break;
        }
    }
    assert!(case.is_fulfilled(), "the wait starts again with every pod");
    let late = case.fake.count("POST /api/v1/namespaces/shop/pods/pinned");
    assert!((1..8).contains(&late), "{late} evictions of pods that come back at once");
    assert!(case.waiting()[0].contains("came after the cordon"), "{:?}", case.waiting());
}

#[tokio::test]
async fn a_pod_is_late_by_the_api_servers_clock_and_not_by_ours() {
    // Ours is an hour behind: a pod of half an hour ago was there before the cordon, and is waited for.
    let mut case = Case::new();
    case.fake.with(|s| s.date = Some("Thu, 01 Jan 2026 01:00:11 GMT"));
    case.fake.add_pod("n1", "web", "2026-01-01T00:30:00Z");
    case.fake.with(|s| s.refusals.entry("shop/web".to_owned()).or_default().push_back(over_budget()));
    case.pass().await;
    assert_eq!(case.fake.node("n1").cordoned_at, "2026-01-01T01:00:11Z".parse().ok());
    assert!(!case.is_fulfilled(), "a pod that was there counts as late");
    case.next_pass().await;
    case.next_pass().await;
    assert!(case.is_fulfilled());
}

#[tokio::test]
async fn a_drain_waits_for_its_volumes_and_not_for_ever_r218() {
    let attachment = |node: &str| {
        json!({"metadata": {"name": node}, "status": {"attached": true}, "spec": {
            "attacher": "disk", "nodeName": node, "source": {"persistentVolumeName": format!("pv-{node}")}}})
    };
    let mut case = Case::new();
    case.fake.with(|s| s.attachments = vec![attachment("n1"), attachment("n2")]);
    case.pass().await;
    case.next_pass().await;
    assert!(!case.is_fulfilled());
    assert_eq!(case.waiting(), ["volume pv-n1 is still attached by disk"]);
    case.fake.with(|s| s.attachments.remove(0));
    case.next_pass().await;
    assert!(case.is_fulfilled(), "another node's volume was waited for");

    let mut case = Case::new();
    case.fake.with(|s| s.attachments = vec![attachment("n1")]);
    case.pass().await;
    case.now += Duration::from_mins(1);
    case.next_pass().await;
    assert!(case.is_fulfilled(), "the volume of a pod that stays is never detached");
    assert_eq!(case.waiting(), ["volume pv-n1 is still attached by disk"], "it is named");
}

#[tokio::test]
async fn a_cordon_that_was_kept_needs_a_slot_for_the_next_config_too() {
    let mut case = Case::new();
    case.pass().await;
    assert!(case.is_fulfilled());
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.set_slots(Some(&Slots { epoch: Epoch::from("ours"), nodes: Vec::new() }));
    case.fake.annotate("n1", annotation::DESIRED_DRAIN, "drain-d-2");
    case.next_pass().await;
    assert!(!case.is_fulfilled() && case.fake.count("POST") == 0, "pods were evicted without a slot");
    assert!(case.waiting()[0].contains("no slot of pool worker"), "{:?}", case.waiting());
}

#[tokio::test]
async fn daemon_set_pods_stay_and_orphans_of_one_go() {
    let mut case = Case::new();
    for (name, set) in [("agent", "ds-1"), ("orphan", "ds-2")] {
        case.fake.add_pod("n1", name, BEFORE);
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": set, "uid": set, "controller": true}]);
        case.fake.with(|s| s.pods.get_mut(&format!("shop/{name}")).unwrap()["metadata"]["ownerReferences"] = owner);
    }
    case.fake.with(|s| {
        s.daemon_sets
            .insert("shop/ds-1".to_owned(), json!({"metadata": {"name": "ds-1", "namespace": "shop", "uid": "ds-1"}}));
        // Another DaemonSet of that name: not the orphan's.
        s.daemon_sets
            .insert("shop/ds-2".to_owned(), json!({"metadata": {"name": "ds-2", "namespace": "shop", "uid": "later"}}));
    });
    case.pass().await;
    case.next_pass().await;
    case.fake.with(|s| assert_eq!(s.pods.keys().collect::<Vec<_>>(), ["shop/agent"]));
    assert!(case.is_fulfilled());
}

#[tokio::test]
async fn an_uncordon_by_hand_stops_the_evictions_hole_3() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.with(|s| s.refusals.entry("shop/web".to_owned()).or_default().extend(vec![over_budget(); 9]));
    case.pass().await;
    case.fake.with(|s| s.set_unschedulable("n1", false));
    let evictions = case.fake.count("POST");
    let report = case.next_pass().await;
    let node = case.fake.node("n1");
    assert!(!node.cordoned && node.mark.is_none(), "{node:?}");
    assert!(node.drain_status.unwrap().ended && !report.waits);
    for _ in 0..3 {
        case.next_pass().await;
    }
    assert_eq!(case.fake.count("POST"), evictions, "evictions go on");
    assert_eq!(case.reasons(), [event::DRAIN_STARTED, event::DRAIN_ENDED]);
}

#[tokio::test]
async fn an_uncordon_between_the_list_of_pods_and_the_fulfilment_wins() {
    let mut case = Case::new();
    case.fake.before("GET /api/v1/pods", |s| s.set_unschedulable("n1", false));
    case.pass().await;
    let node = case.fake.node("n1");
    assert_eq!(node.applied_drain, None, "pods may be on it again, and it counts as drained");
    assert!(node.drain_status.unwrap().ended && node.mark.is_none());
}

#[tokio::test]
async fn a_list_of_pods_that_fails_never_passes_for_empty() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.with(|s| {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "gone", "uid": "x", "controller": true}]);
        s.pods.get_mut("shop/web").unwrap()["metadata"]["ownerReferences"] = owner;
        s.daemon_sets.insert("shop/gone".to_owned(), failure(500, "etcd is away", &json!([])));
    });
    let result = case.try_pass().await;
    assert!(result.is_err() && !case.is_fulfilled(), "what could not be checked was taken for fine");
}

#[tokio::test]
async fn a_node_that_vanishes_leaves_nothing_to_do_r072() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.with(|s| s.lingering = true);
    let work = case.work();
    case.pass().await;
    case.fake.with(|s| s.nodes.remove("n1"));
    let mut report = Report { overdue: true, waits: true, ..Report::default() };
    pass(&work, &mut case.memory, case.now, &mut report).await.unwrap();
    assert!(report.uid.is_none() && !report.overdue && !report.waits);
}

#[tokio::test]
async fn an_overdue_drain_is_told_once_and_goes_on_r068() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.with(|s| s.refusals.entry("shop/web".to_owned()).or_default().extend(vec![over_budget(); 3]));
    case.pass().await;
    case.now += Duration::from_secs(601);
    assert!(case.pass().await.overdue);
    case.now += Duration::from_secs(30);
    assert!(case.pass().await.overdue);
    let told: Vec<&Notice> = case.notices.iter().filter(|n| n.reason == event::DRAIN_SLOW).collect();
    assert!(told.len() == 1 && told[0].note.contains("PodDisruptionBudget shop/b"), "{told:?}");
    case.now += Duration::from_secs(30);
    case.pass().await;
    assert!(!case.next_pass().await.overdue && case.is_fulfilled());
}

#[tokio::test]
async fn the_clock_of_a_drain_survives_a_new_leader_g05() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.with(|s| s.lingering = true);
    case.pass().await;
    case.memory = Memory::default();
    case.now += Duration::from_secs(601);
    assert!(case.pass().await.overdue);
}

#[tokio::test(start_paused = true)]
async fn evictions_run_side_by_side_and_within_bounds_r087() {
    let mut case = Case::new();
    for n in 0..50 {
        case.fake.add_pod("n1", &format!("p{n}"), BEFORE);
    }
    case.fake.with(|s| s.eviction_takes = Duration::from_millis(500));
    let begun = tokio::time::Instant::now();
    while !case.is_fulfilled() {
        case.next_pass().await;
        assert!(begun.elapsed() < Duration::from_secs(10), "one after the other");
    }
    let most = case.fake.with(|s| s.most_at_a_time);
    assert!((5..=10).contains(&most), "{most} at a time");
}

#[tokio::test(start_paused = true)]
async fn a_long_round_ends_soon_after_an_uncordon_by_hand() {
    let mut case = Case::new();
    for n in 0..300 {
        case.fake.add_pod("n1", &format!("p{n}"), BEFORE);
    }
    case.fake.with(|s| s.eviction_takes = Duration::from_millis(500));
    case.fake.before("POST", |s| s.set_unschedulable("n1", false));
    case.pass().await;
    case.next_pass().await;
    assert!(case.fake.count("POST") <= 60, "{} evictions of a node that is in service again", case.fake.count("POST"));
    assert!(case.fake.node("n1").drain_status.unwrap().ended);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_is_never_answered_holds_no_other() {
    let mut case = Case::new();
    case.fake.add_pod("n1", "web", BEFORE);
    case.fake.with(|s| s.eviction_takes = Duration::from_hours(1));
    case.pass().await;
    assert!(case.waiting()[0].contains("no answer to the eviction"), "{:?}", case.waiting());
}

#[tokio::test]
async fn a_status_that_says_nothing_new_is_not_written_again() {
    let mut case = Case::new();
    case.fake.with(|s| s.set_unschedulable("n1", true));
    case.pass().await;
    let writes = case.fake.count("PATCH");
    for _ in 0..5 {
        case.next_pass().await;
    }
    assert_eq!((writes, case.fake.count("PATCH")), (1, 1));
    assert!(case.fake.node("n1").mark.is_none(), "a foreign cordon got our mark");
}
