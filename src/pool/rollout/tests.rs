//! The executor against an API server in memory: what is there in the end, and how often it was written.

use super::*;
use crate::api::protocol::SlotHolder;
use crate::api::{annotation, condition, label, shipped};
use crate::pool::door;
use crate::pool::fake_api::FakeApi;
use crate::pool::scene::{A, B, Scene};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const POOLS: &str = "/apis/machineconfiguration.alauda.io/v1alpha1/machineconfigpools";

/// A cluster with pool worker, whose target is B, and nodes Done at A.
struct Rig {
    api: FakeApi,
    leader: Leader,
    world: World,
}

impl Rig {
    fn new(nodes: &[&str]) -> Self {
        let api = FakeApi::default();
        {
            let mut state = api.state();
            for mut pool in shipped::pools() {
                pool.spec.configuration = Scene::new(vec![]).world.pools[label::WORKER].spec.configuration.clone();
                state.put(&format!("{POOLS}/{}", pool.name()), serde_json::to_value(&pool).unwrap());
            }
            for (age, name) in nodes.iter().enumerate() {
                let node = json!({"apiVersion": "v1", "kind": "Node",
                    "metadata": {"name": name, "creationTimestamp": format!("2020-01-01T00:00:{age:02}Z"),
                        "labels": {label::NODE_ROLE_WORKER: ""},
                        "annotations": {annotation::DESIRED_CONFIG: A, annotation::CURRENT_CONFIG: A, annotation::STATE: "Done"}},
                    "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}]}});
                state.put(&format!("/api/v1/nodes/{name}"), node);
            }
        }
        let leader = api.leader("e1");
        let mut rig = Self { api, leader, world: Scene::new(vec![]).world };
        rig.catch_up();
        rig
    }

    /// The caches hear of everything.
    fn catch_up(&mut self) {
        let state = self.api.state();
        let of = |prefix: &str| -> Vec<Value> {
            state.objects.iter().filter(|(p, _)| p.starts_with(prefix)).map(|(_, o)| o.clone()).collect()
        };
        let pools = of(POOLS).into_iter().map(|p| serde_json::from_value::<MachineConfigPool>(p).unwrap());
        self.world.pools = pools.map(|p| (p.name().into(), Arc::new(p))).collect();
        let nodes = of("/api/v1/nodes").into_iter().map(|n| NodeView::new(&serde_json::from_value(n).unwrap()));
        self.world.nodes = nodes.map(|n| (n.name.clone(), Arc::new(n))).collect();
        self.world.now = Some(Timestamp::from_second(1_700_000_000).unwrap());
    }

    async fn sync(&self) -> Result<Option<Duration>, Error> {
        sync(&self.leader, &self.world).await
    }

    fn pool(&self, name: &str) -> MachineConfigPool {
        serde_json::from_value(self.api.state().objects[&format!("{POOLS}/{name}")].clone()).unwrap()
    }

    fn holders(&self) -> Vec<String> {
        let slots = door::slots(&self.pool(label::WORKER)).unwrap();
        slots.nodes.into_iter().map(|h| h.name.to_string()).collect()
    }

    fn annotation(&self, node: &str, key: &str) -> Option<String> {
        let state = self.api.state();
        state.objects[&format!("/api/v1/nodes/{node}")]["metadata"]["annotations"][key].as_str().map(str::to_owned)
    }

    fn annotate(&self, node: &str, values: &[(&str, &str)]) {
        let mut state = self.api.state();
        let path = format!("/api/v1/nodes/{node}");
        let mut object = state.objects[&path].clone();
        for (key, value) in values {
            object["metadata"]["annotations"][key] = json!(value);
        }
        state.put(&path, object);
    }

    fn change_pool(&self, change: impl FnOnce(&mut Value)) {
        let mut state = self.api.state();
        let path = format!("{POOLS}/{}", label::WORKER);
        let mut object = state.objects[&path].clone();
        change(&mut object);
        state.put(&path, object);
    }

    fn writes(&self) -> Vec<String> {
        let writes = std::mem::take(&mut self.api.state().writes);
        writes.into_iter().filter(|w| !w.contains("/events")).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn the_oldest_node_is_handed_the_target_and_the_status_says_so() {
    let mut rig = Rig::new(&["b", "a"]);
    takeover::take_over(&rig.leader).await.unwrap();
    rig.catch_up();
    rig.sync().await.unwrap();
    assert_eq!(rig.holders(), ["b"]);
    assert_eq!(rig.annotation("b", annotation::DESIRED_CONFIG).as_deref(), Some(B));
    assert_eq!(rig.annotation("a", annotation::DESIRED_CONFIG).as_deref(), Some(A));
    let status = rig.pool(label::WORKER).status.unwrap();
    assert_eq!(status.machine_count, Some(2));
    assert!(!status::is_updated(Some(&status)));
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_changes_nothing_writes_nothing() {
    // R-169, with caches that have caught up and with caches that have not.
    let mut rig = Rig::new(&["a", "b"]);
    takeover::take_over(&rig.leader).await.unwrap();
    rig.catch_up();
    rig.sync().await.unwrap();
    rig.writes();
    rig.sync().await.unwrap();
    assert_eq!(rig.writes(), [""; 0], "own writes are not repeated while the caches are late");
    tokio::time::advance(Duration::from_secs(5)).await;
    rig.catch_up();
    rig.sync().await.unwrap();
    rig.writes();
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(5)).await;
        rig.catch_up();
        rig.sync().await.unwrap();
    }
    assert_eq!(rig.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_a_second_but_updated_is_withdrawn_at_once() {
    let mut rig = Rig::new(&["a"]);
    takeover::take_over(&rig.leader).await.unwrap();
    rig.annotate("a", &[(annotation::DESIRED_CONFIG, B), (annotation::CURRENT_CONFIG, B)]);
    rig.catch_up();
    rig.sync().await.unwrap();
    assert!(status::is_updated(rig.pool(label::WORKER).status.as_ref()));
    rig.writes();
    rig.catch_up();
    // Within the same second: a change that can wait, and one that cannot.
    rig.change_pool(|p| p["spec"]["paused"] = json!(true));
    rig.catch_up();
    let again = rig.sync().await.unwrap();
    assert!(again.is_some_and(|again| again <= Duration::from_secs(1)), "it says when to come again: {again:?}");
    assert_eq!(rig.writes(), [""; 0]);
    rig.world
        .rendering
        .insert(label::WORKER.into(), crate::pool::world::Rendering { pending: true, ..Default::default() });
    rig.sync().await.unwrap();
    assert!(!status::is_updated(rig.pool(label::WORKER).status.as_ref()));
    let status = rig.pool(label::WORKER).status.unwrap();
    let updated = status.conditions.unwrap().into_iter().find(|c| c.type_ == condition::UPDATED).unwrap();
    assert_eq!(updated.reason, "Rendering");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_deposed_stops_and_hands_nothing_out() {
    let mut rig = Rig::new(&["a"]);
    takeover::take_over(&rig.leader).await.unwrap();
    rig.catch_up();
    takeover::take_over(&rig.api.leader("e2")).await.unwrap();
    rig.writes();
    let statuses = [label::MASTER, label::WORKER].map(|name| rig.pool(name).status);
    // By late caches, and by caches that show the new epoch.
    assert!(matches!(rig.sync().await, Err(Error::Deposed { .. })));
    rig.catch_up();
    assert!(matches!(rig.sync().await, Err(Error::Deposed { .. })));
    let writes: Vec<String> = rig.writes().into_iter().filter(|w| !w.ends_with("/status")).collect();
    assert_eq!(writes, [""; 0], "no slot, no Node");
    assert_eq!([label::MASTER, label::WORKER].map(|name| rig.pool(name).status), statuses, "a status is refused");
    assert_eq!(rig.annotation("a", annotation::DESIRED_CONFIG).as_deref(), Some(A));
}

#[tokio::test(start_paused = true)]
async fn a_take_over_that_the_caches_do_not_show_yet_is_no_deposition() {
    let rig = Rig::new(&["a"]);
    takeover::take_over(&rig.api.leader("e0")).await.unwrap();
    let mut rig = Rig { leader: rig.api.leader("e1"), ..rig };
    rig.catch_up();
    takeover::take_over(&rig.leader).await.unwrap();
    rig.sync().await.unwrap();
    assert_eq!(rig.holders(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn slots_that_somebody_deleted_make_the_leader_stand_again() {
    // Hole B12c.
    let mut rig = Rig::new(&["a", "b"]);
    takeover::take_over(&rig.leader).await.unwrap();
    rig.catch_up();
    rig.sync().await.unwrap();
    rig.change_pool(|p| p["metadata"]["annotations"] = json!({}));
    rig.catch_up();
    let error = rig.sync().await.unwrap_err();
    assert!(matches!(error, Error::NoSlots { .. }) && error.stops_leading(), "{error}");
    assert!(error.to_string().contains(annotation::SLOTS) && error.to_string().contains("worker"), "{error}");
    // The next leader finds out who held one, and marks every node of the pool.
    let next = Rig { leader: rig.api.leader("e2"), ..rig };
    takeover::take_over(&next.leader).await.unwrap();
    assert_eq!(next.holders(), ["a"]);
    for node in ["a", "b"] {
        assert_eq!(next.annotation(node, annotation::EPOCH).as_deref(), Some("e2"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_created_later_is_led_too() {
    let mut rig = Rig::new(&["a"]);
    let later = rig.api.state().objects.remove(&format!("{POOLS}/worker")).unwrap();
    takeover::take_over(&rig.leader).await.unwrap();
    rig.api.state().put(&format!("{POOLS}/worker"), later);
    rig.catch_up();
    rig.sync().await.unwrap();
    assert_eq!(rig.holders(), ["a"]);
    assert_eq!(door::slots(&rig.pool(label::WORKER)).unwrap().epoch, "e1");
}

#[tokio::test(start_paused = true)]
async fn a_slot_goes_on_to_the_next_node_once_the_kubelet_has_proved_itself() {
    let mut rig = Rig::new(&["a", "b"]);
    takeover::take_over(&rig.leader).await.unwrap();
    rig.catch_up();
    rig.sync().await.unwrap();
    rig.annotate("a", &[(annotation::CURRENT_CONFIG, B)]);
    rig.catch_up();
    let at = |s: i64| Timestamp::from_second(1_700_000_000 + s).unwrap();
    rig.world.leases = BTreeMap::from([("a".into(), at(0))]);
    let again = rig.sync().await.unwrap();
    assert!(again.is_some(), "it says when to come again");
    assert_eq!(rig.holders(), ["a"]);
    rig.world.now = Some(at(10));
    rig.world.leases = BTreeMap::from([("a".into(), at(9))]);
    tokio::time::advance(Duration::from_secs(5)).await;
    rig.sync().await.unwrap();
    assert_eq!(rig.holders(), ["b"]);
    assert_eq!(rig.annotation("b", annotation::DESIRED_CONFIG).as_deref(), Some(B));
}

#[tokio::test(start_paused = true)]
async fn an_error_in_one_pool_does_not_keep_the_others_waiting() {
    let mut rig = Rig::new(&["a"]);
    takeover::take_over(&rig.leader).await.unwrap();
    rig.catch_up();
    rig.api.state().refuse = Some((http::Method::PATCH, "machineconfigpools/master", 500));
    assert!(rig.sync().await.is_err());
    assert_eq!(rig.holders(), ["a"]);
    let holder = door::slots(&rig.pool(label::WORKER)).unwrap().nodes.remove(0);
    assert_eq!(holder, SlotHolder { name: "a".into(), uid: rig.world.nodes["a"].uid.clone() });
}
