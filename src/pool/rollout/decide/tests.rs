use super::*;
use crate::api::protocol::CordonMark;
use crate::api::{DAEMONSET, FORCE_FILE, annotation, label};
use crate::pool::scene::{A, B, C, Scene, asking, cordoned, degraded, infra, node, updating};

fn to(config: &str, kind: Kind) -> Give {
    Give { to: Some(config.into()), kind }
}

#[test]
fn the_oldest_nodes_get_the_slots() {
    let scene = Scene::new(vec![node("n3"), node("n1"), node("n2")]).limit(2);
    assert_eq!(scene.granted(), ["n1", "n2"]);
    assert_eq!(scene.why("n3"), Why::Turn);
}

#[test]
fn a_free_slot_and_a_node_that_waits_come_together() {
    // one that is in the way of itself, or has no hand-out under way, would wait for ever.
    for waits in [node("n1"), NodeView { desired: None, current: None, ..node("n1") }] {
        assert_eq!(Scene::new(vec![waits]).granted(), ["n1"]);
    }
}

#[test]
fn a_node_counts_while_its_daemon_has_not_reacted_yet() {
    // between the hand-out and the claim the node still says Done.
    let handed = NodeView { desired: Some(B.into()), ..node("n1") };
    let scene = Scene::new(vec![handed, node("n2")]).slots(&["n1"]);
    assert_eq!(scene.granted(), [""; 0]);
    assert_eq!(scene.why("n2"), Why::Turn);
}

#[test]
fn what_makes_a_node_unavailable_whatever_the_target() {
    let cases = [
        ("NotReady", NodeView { ready: false, ..node("n1") }, true),
        ("cordoned", cordoned(node("n1")), true),
        ("Degraded", degraded("n1", A, "x"), true),
        ("drifted", degraded("n1", A, "Drift: x"), true),
        ("not Done", updating("n1", B), true),
        ("not begun", NodeView { desired: Some(C.into()), ..node("n1") }, true),
        ("at rest", node("n1"), false),
        ("joining", NodeView { desired: None, current: None, ..node("n1") }, false),
        ("joining with state on its disk", NodeView { desired: None, ..node("n1") }, false),
        ("a claim alone", asking("n1"), false),
        ("no daemon", NodeView { state: None, desired: None, current: None, ..node("n1") }, false),
        ("no daemon, NotReady", NodeView { state: None, ready: false, ..node("n1") }, true),
    ];
    for (what, other, counts) in cases {
        let scene = Scene::new(vec![other, node("n2")]);
        let is = scene.see(|case| case.counts(&scene.world.nodes["n1"]));
        assert_eq!(is, counts, "{what}");
    }
}

#[test]
fn a_node_that_fails_by_itself_takes_the_turn_of_the_next() {
    for away in [NodeView { ready: false, desired: Some(B.into()), current: Some(B.into()), ..node("n1") }, {
        let done = NodeView { desired: Some(B.into()), current: Some(B.into()), ..node("n1") };
        cordoned(done)
    }] {
        let scene = Scene::new(vec![away, node("n2")]);
        assert_eq!(scene.granted(), [""; 0]);
        let plan = scene.plan();
        assert_eq!(plan.in_the_way.len(), 1, "{plan:?}");
        assert!(plan.in_the_way[0].starts_with("n1 ("), "{plan:?}");
        assert_eq!(Scene { slots: Slots::default(), ..scene }.limit(2).granted(), ["n2"]);
    }
}

#[test]
fn a_node_that_failed_in_another_pool_is_healed_in_this_one() {
    // Hole A7: it needs a slot of the new pool, and is itself the one unavailable node.
    let scene = Scene::new(vec![degraded("n1", C, "the restart failed")]);
    assert_eq!(scene.granted(), ["n1"]);
    let and_another = Scene::new(vec![degraded("n1", C, "x"), updating("n2", B)]).slots(&["n2"]);
    assert_eq!(and_another.granted(), [""; 0], "slots are out as many as the limit");
}

#[test]
fn a_node_that_never_was_ready_gets_the_config_that_may_make_it_so() {
    let joins = NodeView { ready: false, desired: None, current: None, ..node("n1") };
    assert_eq!(Scene::new(vec![joins]).granted(), ["n1"]);
}

#[test]
fn a_node_without_daemon_does_not_block_its_pool_for_ever() {
    // Hole B11.
    let none = NodeView { state: None, desired: None, current: None, ..node("n1") };
    let scene = Scene::new(vec![none, node("n2")]);
    assert_eq!(scene.granted(), ["n2"]);
    assert!(matches!(scene.why("n1"), Why::Kept(text) if text.contains("no daemon") && text.contains(DAEMONSET)));
}

#[test]
fn where_daemon_pods_are_expected_only_nodes_with_a_ready_one_are_candidates() {
    let mut scene = Scene::new(vec![node("n1"), node("n2")]);
    scene.world.daemons_expected = ["n1", "n2"].map(NodeName::from).into();
    scene.world.daemons = [NodeName::from("n2")].into();
    assert_eq!(scene.granted(), ["n2"]);
    assert!(matches!(scene.why("n1"), Why::Kept(text) if text.contains("not Ready") && text.contains(DAEMONSET)));
}

#[test]
fn a_daemon_that_is_a_process_of_the_host_needs_no_pod() {
    let mut scene = Scene::new(vec![node("n1"), node("n2")]);
    scene.world.daemons_expected = [NodeName::from("n2")].into();
    assert_eq!(scene.granted(), ["n1"]);
}

#[test]
fn a_node_in_mid_update_counts_though_its_daemon_is_away() {
    let mut scene = Scene::new(vec![updating("n1", B), node("n2")]).slots(&["n1"]);
    scene.world.daemons_expected = ["n1", "n2"].map(NodeName::from).into();
    scene.world.daemons = [NodeName::from("n2")].into();
    assert_eq!(scene.granted(), [""; 0]);
}

#[test]
fn desired_is_written_only_for_a_holder_of_the_pool() {
    assert_eq!(Scene::new(vec![node("n1")]).given("n1"), None);
    assert_eq!(Scene::new(vec![node("n1")]).slots(&["n1"]).given("n1"), Some(to(B, Kind::HandOut)));
    let mut later = Scene::new(vec![node("n1")]).slots(&["n1"]);
    later.slots.nodes[0].uid = "uid-of-an-earlier-node".into();
    assert_eq!(later.given("n1"), None, "the slot was another Node's");
}

#[test]
fn a_holder_is_retargeted_at_once_and_at_no_cost() {
    // while the limit is used up, and though it is Degraded.
    for holder in [updating("n1", B), NodeView { desired: Some(B.into()), ..node("n1") }, degraded("n1", B, "failed")] {
        let away = NodeView { ready: false, ..node("n2") };
        let scene = Scene::new(vec![holder, away]).slots(&["n1"]).target(C);
        assert_eq!(scene.given("n1"), Some(to(C, Kind::Retarget)));
        let back = Scene { slots: scene.slots.clone(), ..scene }.target(A);
        assert_eq!(back.given("n1"), Some(to(A, Kind::Retarget)));
    }
}

#[test]
fn a_paused_pool_gives_nothing_new_and_says_who_waits() {
    let scene = Scene::new(vec![node("n1")]).paused();
    assert!(scene.kept("n1").contains("paused"));
    let under_way = Scene::new(vec![updating("n1", B)]).slots(&["n1"]).target(C).paused();
    assert_eq!(under_way.given("n1"), None, "what is under way is finished");
    let withdrawn = Scene::new(vec![updating("n1", B)]).slots(&["n1"]).target(A).paused();
    assert_eq!(withdrawn.given("n1"), Some(to(A, Kind::Retarget)), "back to its own current");
}

#[test]
fn a_held_node_is_left_alone_and_its_reason_is_shown() {
    let held = |node: NodeView| NodeView { hold: Some("disk is being replaced".to_owned()), ..node };
    assert!(Scene::new(vec![held(node("n1"))]).kept("n1").contains("disk is being replaced"));
    let under_way = Scene::new(vec![held(updating("n1", B))]).slots(&["n1"]);
    assert_eq!(Scene { world: under_way.world.clone(), ..under_way }.target(C).given("n1"), None);
    let withdrawn = Scene::new(vec![held(updating("n1", B))]).slots(&["n1"]).target(A);
    assert_eq!(withdrawn.given("n1"), Some(to(A, Kind::Retarget)));
}

#[test]
fn a_foreign_cordon_is_respected_and_shown() {
    //
    let scene = Scene::new(vec![cordoned(node("n1"))]);
    assert!(scene.kept("n1").contains("not by mcx"));
    assert_eq!(scene.slots(&["n1"]).given("n1"), None, "a node at rest, though it holds a slot");
    let void = NodeView { mark: Some(CordonMark::new(k8s_openapi::jiff::Timestamp::MIN)), ..cordoned(node("n1")) };
    assert!(Scene::new(vec![void]).kept("n1").contains("not by mcx"));
}

#[test]
fn a_node_that_is_about_to_go_is_left_alone() {
    let going = NodeView { deletion: Some("taint ToBeDeletedByClusterAutoscaler".to_owned()), ..node("n1") };
    assert!(Scene::new(vec![going]).kept("n1").contains("ToBeDeletedByClusterAutoscaler"));
}

#[test]
fn a_drifted_node_gets_nothing() {
    let scene = Scene::new(vec![degraded("n1", A, "Drift: /etc/x differs")]);
    assert!(scene.kept("n1").contains(FORCE_FILE));
    let holder = Scene::new(vec![degraded("n1", B, "Drift: /etc/x differs")]).slots(&["n1"]).target(A);
    assert_eq!(holder.given("n1"), None);
}

#[test]
fn nothing_is_handed_out_before_the_policy_is_in_effect() {
    let mut scene = Scene::new(vec![node("n1")]);
    scene.world.policy = None;
    assert!(scene.kept("n1").contains("MachineConfiguration cluster"));
    let withdrawn = Scene::new(vec![updating("n1", B)]).slots(&["n1"]).target(A);
    let world = World { policy: None, ..withdrawn.world.clone() };
    assert_eq!(Scene { world, ..withdrawn }.given("n1"), Some(to(A, Kind::Retarget)), "which costs nothing");
}

#[test]
fn a_config_that_was_deleted_by_hand_is_not_handed_out() {
    let mut scene = Scene::new(vec![node("n1")]);
    scene.world.rendered.remove(B);
    assert!(scene.kept("n1").contains(B));
}

#[test]
fn a_pool_without_target_does_nothing() {
    let scene = Scene::new(vec![node("n1")]).pool(|p| p.spec.configuration = None);
    assert!(scene.kept("n1").contains("no rendered config"));
}

#[test]
fn a_failed_rendering_does_not_stop_the_rollout_of_the_target() {
    let mut scene = Scene::new(vec![node("n1")]);
    let rendering = crate::pool::world::Rendering { no_sources: true, ..Default::default() };
    scene.world.rendering.insert(label::WORKER.into(), rendering);
    assert_eq!(scene.granted(), ["n1"]);
}

#[test]
fn a_limit_that_is_none_stops_hand_outs_and_is_named() {
    let scene = Scene::new(vec![node("n1")]).limit(-1);
    assert!(scene.kept("n1").contains("spec.maxUnavailable: `-1`"));
    assert!(scene.slots(&["n1"]).given("n1").is_none());
    let asks = Scene::new(vec![asking("n1")]).limit(-1);
    assert_eq!(asks.granted(), [""; 0]);
    let retarget = Scene::new(vec![updating("n1", B)]).slots(&["n1"]).target(C).limit(-1);
    assert_eq!(retarget.given("n1"), Some(to(C, Kind::Retarget)), "which costs nothing");
}

#[test]
fn a_slot_is_not_used_when_others_failed_since_it_was_given() {
    // Hole B10, for updates that need no drain and so no recount at the cordon.
    let away = NodeView { ready: false, ..node("n2") };
    let scene = Scene::new(vec![node("n1"), away]).slots(&["n1"]).recovered();
    assert_eq!(scene.given("n1"), None);
    assert_eq!(scene.gives_back(), ["n1"], "and does not block the others either");
    let lowered = Scene::new(vec![node("n1"), node("n2")]).slots(&["n1", "n2"]);
    assert_eq!(lowered.given("n1"), Some(to(B, Kind::HandOut)));
    assert_eq!(lowered.given("n2"), None, "the limit was lowered: the earlier holder goes first");
}

#[test]
fn a_slot_that_is_about_to_be_used_is_not_given_back() {
    let scene = Scene::new(vec![node("n1")]).slots(&["n1"]).recovered();
    assert_eq!(scene.gives_back(), [""; 0]);
    assert_eq!(scene.paused().gives_back(), ["n1"], "one that cannot be used is");
}

#[test]
fn a_slot_is_given_back_by_a_node_that_serves_again() {
    let done = NodeView { desired: Some(B.into()), current: Some(B.into()), ..node("n1") };
    let back = |node: NodeView| Scene::new(vec![node]).slots(&["n1"]).recovered().gives_back();
    assert_eq!(back(done.clone()), ["n1"]);
    assert_eq!(back(NodeView { ready: false, ..done.clone() }), [""; 0], "R-062");
    assert_eq!(back(cordoned(done.clone())), [""; 0]);
    assert_eq!(back(updating("n1", B)), [""; 0]);
    assert_eq!(back(degraded("n1", B, "x")), [""; 0]);
    assert_eq!(Scene::new(vec![done]).slots(&["n1"]).gives_back(), [""; 0], "its kubelet has not proved itself");
}

#[test]
fn a_slot_of_a_node_without_desired_is_given_back() {
    // Hole B12a: it never is "Done at its desired".
    let joins = NodeView { desired: None, current: None, ..node("n1") };
    assert_eq!(Scene::new(vec![joins]).slots(&["n1"]).recovered().paused().gives_back(), ["n1"]);
}

#[test]
fn the_slot_of_a_node_that_is_gone_or_came_back_as_another_is_given_back() {
    assert_eq!(Scene::new(vec![]).slots(&["n1"]).gives_back(), ["n1"]);
    let mut again = node("n1");
    again.uid = "uid-later".into();
    let scene = Scene::new(vec![again, node("n2")]).slots(&["n1"]);
    assert_eq!(scene.gives_back(), ["n1"]);
    assert_eq!(scene.granted(), ["n1"], "and it waits like any other");
}

#[test]
fn a_slot_is_given_back_whatever_pool_the_node_is_in_by_then() {
    let moved = infra(NodeView { desired: Some(B.into()), current: Some(B.into()), ..node("n1") });
    assert_eq!(Scene::new(vec![moved]).with_infra().slots(&["n1"]).recovered().gives_back(), ["n1"]);
}

#[test]
fn a_node_that_moved_before_it_claimed_goes_back_to_its_own_config() {
    let unclaimed = NodeView { desired: Some(C.into()), ..node("n1") };
    assert_eq!(Scene::new(vec![unclaimed.clone()]).given("n1"), Some(to(A, Kind::Back)));
    assert_eq!(Scene::new(vec![updating("n1", C)]).given("n1"), None, "what is claimed is finished");
    let joined = NodeView { current: None, ..unclaimed.clone() };
    assert_eq!(Scene::new(vec![joined]).given("n1"), Some(Give { to: None, kind: Kind::Back }));
    // It lost its pool, or two custom pools select it.
    let mut lost = unclaimed;
    lost.labels.clear();
    let scene = Scene::new(vec![lost]).slots(&["n1"]);
    assert_eq!(scene.given("n1"), Some(to(A, Kind::Back)));
    assert_eq!(scene.plan().give, ["n1"]);
}

#[test]
fn a_node_that_changed_pool_finishes_first_and_then_needs_a_slot_of_the_new_one() {
    let elsewhere = Slots { epoch: "e".into(), nodes: vec![SlotHolder { name: "n1".into(), uid: "uid-n1".into() }] };
    let with_slot_of_infra = |node: NodeView| {
        let mut scene = Scene::new(vec![node]).with_infra();
        let infra = Arc::make_mut(scene.world.pools.get_mut("infra").unwrap());
        let text = serde_json::to_string(&elsewhere).unwrap();
        infra.metadata.annotations.get_or_insert_default().insert(annotation::SLOTS.to_owned(), text);
        scene
    };
    let finishing = with_slot_of_infra(updating("n1", C));
    assert_eq!(finishing.granted(), [""; 0]);
    assert!(matches!(finishing.why("n1"), Why::Progress(text) if text.contains(C)));
    let failed = with_slot_of_infra(degraded("n1", C, "x"));
    assert_eq!(failed.granted(), ["n1"], "then it holds slots of two pools");
    assert_eq!(failed.given("n1"), None, "the slot of the other pool does not count here");
    let asks = with_slot_of_infra(asking("n1"));
    assert_eq!(asks.granted(), [""; 0], "its drain goes on with the slot that it has");
}

#[test]
fn a_forced_node_gets_a_slot_first_and_by_the_limit() {
    assert_eq!(Scene::new(vec![asking("n1")]).granted(), ["n1"]);
    let full = Scene::new(vec![asking("n1"), updating("n2", B)]).slots(&["n2"]);
    assert_eq!(full.granted(), [""; 0]);
    assert_eq!(full.why("n1"), Why::Turn);
    // Hole B10: its own claim makes it no node that is away already.
    let away = NodeView { ready: false, ..node("n2") };
    assert_eq!(Scene::new(vec![asking("n1"), away]).target(A).granted(), [""; 0]);
}

#[test]
fn a_drain_is_served_though_the_pool_is_paused_or_the_node_is_held() {
    assert_eq!(Scene::new(vec![asking("n1")]).paused().granted(), ["n1"]);
    let held = NodeView { hold: Some("x".to_owned()), ..asking("n1") };
    assert_eq!(Scene::new(vec![held]).granted(), ["n1"]);
    let mut lost = asking("n1");
    lost.labels.clear();
    assert_eq!(Scene::new(vec![lost]).granted(), ["n1"], "a node that lost its pool, by the limit of that");
}

#[test]
fn a_fulfilled_request_asks_for_nothing() {
    let mut done = asking("n1");
    done.applied_drain.clone_from(&done.desired_drain);
    assert_eq!(Scene::new(vec![done]).granted(), [""; 0]);
    let mut at_rest = asking("n1");
    at_rest.state = Some(NodeState::Done);
    let scene = Scene::new(vec![at_rest]).target(A);
    assert_eq!(scene.granted(), [""; 0], "an unclaimed request would get a slot and give it back in circles");
}

#[test]
fn slots_stay_within_what_an_annotation_can_hold() {
    let nodes: Vec<NodeView> = (0..600).map(|i| node(&format!("n{i}"))).collect();
    let scene = Scene::new(nodes).limit(10_000);
    assert_eq!(scene.granted().len(), Slots::LIMIT);
}

#[test]
fn nodes_of_a_refused_pool_keep_what_they_have() {
    let mut scene = Scene::new(vec![node("n1")]);
    let pool = Arc::make_mut(scene.world.pools.get_mut(label::WORKER).unwrap());
    let selector = serde_json::json!({"matchExpressions": [{"key": "a", "operator": "Inn", "values": ["b"]}]});
    pool.spec.node_selector = Some(serde_json::from_value(selector).unwrap());
    assert!(scene.kept("n1").contains("spec.nodeSelector"));
}

#[test]
fn whoever_is_not_at_the_target_is_named() {
    let mut draining = asking("n1");
    draining.desired = Some(B.into());
    let request = draining.desired_drain.as_ref().unwrap().to_string();
    draining.drain_status = Some(crate::api::protocol::DrainStatus {
        request,
        waiting: vec!["Pod a/b (PodDisruptionBudget c)".to_owned()],
        waiting_count: 1,
        ..Default::default()
    });
    let scene = Scene::new(vec![draining, degraded("n2", B, "x"), node("n3")]).slots(&["n1", "n2"]).limit(2);
    let plan = scene.plan();
    assert_eq!(plan.waiting.len(), 3, "{plan:?}");
    assert!(matches!(scene.why("n1"), Why::Kept(text) if text.contains("PodDisruptionBudget c")));
    assert!(matches!(scene.why("n2"), Why::Kept(text) if text.contains("Degraded")));
    assert_eq!(scene.why("n3"), Why::Turn);
    assert_eq!(plan.waiting.iter().map(|w| w.moving).collect::<Vec<_>>(), [true, false, false]);
}
