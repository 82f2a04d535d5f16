//! The drainer as a leader has it, against an API server in memory: many nodes, and the end of a leadership.

use super::super::{Drainer, NodeView};
use super::*;
use crate::pool::world::{Leader, Settings, World};
use prometheus_client::registry::Registry;

/// What a leader has, over `fake`.
fn leader(fake: &Fake) -> (Leader, Registry) {
    let mut registry = Registry::default();
    let settings = Settings {
        drain_threshold: Duration::from_mins(10),
        volume_detach: Duration::from_mins(1),
        settle: Duration::ZERO,
        settle_limit: Duration::ZERO,
        keep_rendered: 0,
        namespace: "mcx-system".to_owned(),
    };
    let leader = Leader {
        door: fake.door(),
        epoch: Epoch::from("ours"),
        settings: Arc::new(settings),
        events: Events::discarding(),
        metrics: Arc::new(Metrics::new(&mut registry)),
        rollout: Arc::default(),
    };
    (leader, registry)
}

/// The world as caches that are never late show it.
fn world(fake: &Fake, now: Timestamp) -> World {
    fake.with(|s| {
        let read = |v: &serde_json::Value| serde_json::from_value(v.clone()).unwrap();
        let node = |v: &serde_json::Value| Arc::new(NodeView::new(&serde_json::from_value(v.clone()).unwrap()));
        World {
            now: Some(now),
            nodes: s.nodes.iter().map(|(name, v)| (name.as_str().into(), node(v))).collect(),
            pools: s.pools.iter().map(|(name, v)| (name.as_str().into(), Arc::new(read(v)))).collect(),
            ..World::default()
        }
    })
}

fn metrics(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_stuck_nodes_holds_no_other_r069() {
    // More than are looked at at a time; the healthy one is last.
    let names: Vec<String> = (0..41).map(|n| format!("n{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let fake = Fake::new(&names, names.len());
    fake.with(|s| s.pools.get_mut("worker").unwrap()["spec"]["maxUnavailable"] = 101.into());
    for name in &names {
        fake.annotate(name, annotation::DESIRED_DRAIN, "drain-c-1");
        let pod = format!("on-{name}");
        fake.add_pod(name, &pod, BEFORE);
        if *name != "n040" {
            fake.with(|s| s.refusals.entry(format!("shop/{pod}")).or_default().extend(vec![over_budget(); 60]));
        }
    }
    let (leader, _) = leader(&fake);
    let drainer = Drainer::new();
    let mut now: Timestamp = "2026-01-01T00:00:11Z".parse().unwrap();
    for _ in 0..30 {
        drainer.sync(&leader, &world(&fake, now)).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        now += Duration::from_secs(1);
    }
    assert!(fake.node("n040").applied_drain.is_some(), "the healthy node starved");
    assert!(drainer.is_busy() && fake.node("n000").applied_drain.is_none());
    let tries = fake.count("POST /api/v1/namespaces/shop/pods/on-n000");
    assert!((3..=8).contains(&tries), "{tries} tries of one pod in 30 s");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_node_vanishes_with_it_r072() {
    let fake = Fake::new(&["n1"], 1);
    fake.annotate("n1", annotation::DESIRED_DRAIN, "drain-c-1");
    fake.add_pod("n1", "web", BEFORE);
    fake.with(|s| s.lingering = true);
    let (leader, registry) = leader(&fake);
    let drainer = Drainer::new();
    let begun = tokio::time::Instant::now();
    let start: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
    let run = async |rounds: usize| {
        for _ in 0..rounds {
            drainer.sync(&leader, &world(&fake, start + begun.elapsed())).unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    run(3).await;
    // As if it had begun long ago.
    let started = r#"{"request":"drain-c-1","started":"2026-01-01T00:00:00Z"}"#;
    fake.annotate("n1", annotation::DRAIN_STATUS, started);
    run(3).await;
    assert!(metrics(&registry).contains(r#"mcx_drain_overdue{node="n1"} 1"#), "{}", metrics(&registry));
    fake.with(|s| s.nodes.clear());
    run(3).await;
    assert!(!metrics(&registry).contains("n1") && !drainer.is_busy(), "{}", metrics(&registry));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_deposed_hears_of_it_and_drains_nothing_more() {
    let fake = Fake::new(&["n1", "n2"], 2);
    for name in ["n1", "n2"] {
        fake.annotate(name, annotation::DESIRED_DRAIN, "drain-c-1");
    }
    fake.set_slots(Some(&Slots { epoch: Epoch::from("another"), nodes: Vec::new() }));
    let (leader, _) = leader(&fake);
    let drainer = Drainer::new();
    let now = Timestamp::now();
    drainer.sync(&leader, &world(&fake, now)).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = drainer.sync(&leader, &world(&fake, now)).err();
    assert!(error.as_ref().is_some_and(Error::stops_leading), "{error:?}");
    assert_eq!(fake.count("PATCH"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_leadership_that_ends_takes_its_evictions_along() {
    let fake = Fake::new(&["n1"], 1);
    fake.annotate("n1", annotation::DESIRED_DRAIN, "drain-c-1");
    for n in 0..30 {
        fake.add_pod("n1", &format!("p{n}"), BEFORE);
    }
    fake.with(|s| s.eviction_takes = Duration::from_secs(1));
    let (leader, _) = leader(&fake);
    let drainer = Drainer::new();
    drainer.sync(&leader, &world(&fake, Timestamp::now())).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(drainer);
    let begun = fake.count("POST");
    assert_eq!(begun, 10);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(fake.count("POST"), begun);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_by_a_year_holds_no_drain_up() {
    let fake = Fake::new(&["n1"], 1);
    fake.annotate("n1", annotation::DESIRED_DRAIN, "drain-c-1");
    fake.add_pod("n1", "web", BEFORE);
    fake.with(|s| s.refusals.entry("shop/web".to_owned()).or_default().extend(vec![over_budget(); 5]));
    let (leader, _) = leader(&fake);
    let drainer = Drainer::new();
    for year in ["2026", "2025"] {
        let mut now: Timestamp = format!("{year}-01-01T00:00:11Z").parse().unwrap();
        for _ in 0..if year == "2026" { 5 } else { 120 } {
            drainer.sync(&leader, &world(&fake, now)).unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            now += Duration::from_secs(1);
        }
        assert_eq!(fake.node("n1").applied_drain.is_some(), year == "2025", "{year}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_node_is_looked_at_at_once() {
    let fake = Fake::new(&["n1"], 1);
    fake.annotate("n1", annotation::DESIRED_DRAIN, "drain-c-1");
    fake.add_pod("n1", "web", BEFORE);
    fake.with(|s| s.refusals.entry("shop/web".to_owned()).or_default().extend(vec![over_budget(); 100]));
    let (leader, _) = leader(&fake);
    let drainer = Drainer::new();
    let mut now: Timestamp = "2026-01-01T00:00:11Z".parse().unwrap();
    for _ in 0..300 {
        drainer.sync(&leader, &world(&fake, now)).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        now += Duration::from_secs(1);
    }
    let looks = fake.count("GET /api/v1/nodes");
    assert!(looks < 120, "{looks} looks in 300 s at a node that only waits");
    fake.with(|s| s.set_unschedulable("n1", false));
    drainer.sync(&leader, &world(&fake, now)).unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(fake.node("n1").drain_status.unwrap().ended, "an uncordon by hand waits for the next look");
}

#[tokio::test]
async fn a_status_that_changes_all_the_time_is_written_once_a_second() {
    let mut case = Case::new();
    for n in 0..20 {
        case.fake.add_pod("n1", &format!("p{n:02}"), BEFORE);
    }
    case.fake.with(|s| s.lingering = true);
    case.pass().await;
    // All of them are past their grace period; one goes every 100 ms.
    case.now = "2026-01-01T00:02:00Z".parse().unwrap();
    let before = case.fake.count("PATCH");
    for n in 0..15 {
        case.fake.with(|s| s.pods.remove(&format!("shop/p{n:02}")));
        case.pass().await;
        case.now += Duration::from_millis(100);
    }
    assert_eq!(case.fake.count("PATCH") - before, 2, "in 1.5 s");
    assert_eq!(case.waiting().len(), 9, "the second one says how it stands after a second");
}
