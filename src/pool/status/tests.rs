use super::*;
use crate::api::annotation::REASON_LIMIT;
use crate::api::{ConfigName, label};
use crate::pool::rollout::decide::Fresh;
use crate::pool::scene::{A, B, C, Scene, asking, cordoned, degraded, infra, node, updating};
use crate::render::finding::{Finding, Severity};
use std::sync::Arc;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn done(name: &str) -> NodeView {
    NodeView { desired: Some(B.into()), current: Some(B.into()), ..node(name) }
}

fn after(scene: &Scene, previous: Option<&MachineConfigPoolStatus>, now: Timestamp) -> MachineConfigPoolStatus {
    let (membership, fresh) = (scene.membership(), Fresh::new());
    let pool = &scene.world.pools[label::WORKER];
    let case = Case::new(&scene.world, &membership, &scene.recovery, pool, &scene.slots, &fresh);
    let plan = case.plan();
    compute(&Input { world: &scene.world, membership: &membership, pool, case: &case, plan: &plan, previous, now })
}

fn of(scene: &Scene) -> MachineConfigPoolStatus {
    after(scene, None, at(0))
}

/// `status/reason` of a condition.
fn is(status: &MachineConfigPoolStatus, type_: &str) -> String {
    let condition = get(status, type_);
    format!("{}/{}", condition.status, condition.reason)
}

fn get<'a>(status: &'a MachineConfigPoolStatus, type_: &str) -> &'a PoolCondition {
    status.conditions.as_ref().unwrap().iter().find(|c| c.type_ == type_).unwrap()
}

fn message<'a>(status: &'a MachineConfigPoolStatus, type_: &str) -> &'a str {
    &get(status, type_).message
}

fn rendering(scene: Scene, rendering: Rendering) -> Scene {
    let mut scene = scene;
    scene.world.rendering.insert(label::WORKER.into(), rendering);
    scene
}

fn finding(object: &str, rule: &'static str) -> Finding {
    Finding {
        severity: Severity::Error,
        rule,
        object: object.to_owned(),
        path: "spec.config".to_owned(),
        file: None,
        line: None,
        column: None,
        message: "is wrong".to_owned(),
        help: "do this".to_owned(),
    }
}

#[test]
fn counts_are_those_of_the_columns() {
    let scene = Scene::new(vec![
        done("n1"),
        cordoned(done("n2")),
        NodeView { ready: false, ..done("n3") },
        updating("n4", B),
        degraded("n5", B, "x"),
        node("n6"),
    ])
    .limit(3)
    .slots(&["n4", "n5"])
    .pool(|p| p.metadata.generation = Some(7));
    let status = of(&scene);
    assert_eq!(status.machine_count, Some(6));
    assert_eq!(status.updated_machine_count, Some(3));
    assert_eq!(status.ready_machine_count, Some(1));
    assert_eq!(status.unavailable_machine_count, Some(4));
    assert_eq!(status.degraded_machine_count, Some(1));
    assert_eq!(status.observed_generation, Some(7));
}

#[test]
fn all_conditions_are_always_there_with_a_reason() {
    for scene in [
        Scene::new(vec![]),
        Scene::new(vec![done("n1")]),
        Scene::new(vec![node("n1")]).paused(),
        Scene::new(vec![node("n1")]).pool(|p| p.spec.configuration = None),
    ] {
        let status = of(&scene);
        let types: Vec<&str> = status.conditions.as_ref().unwrap().iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(types, ["Updated", "Updating", "Degraded", "NodeDegraded", "RenderDegraded"]);
        for condition in status.conditions.as_ref().unwrap() {
            assert!(condition.reason.chars().all(char::is_alphanumeric) && !condition.reason.is_empty());
            assert!(condition.last_transition_time.is_some());
        }
    }
}

#[test]
fn a_pool_is_updated_when_every_node_is_done_at_the_target() {
    let scene = Scene::new(vec![done("n1"), done("n2")]);
    let status = of(&scene);
    assert_eq!(is(&status, condition::UPDATED), "True/AllNodesUpdated");
    assert_eq!(is(&status, condition::UPDATING), "False/AllNodesUpdated");
    assert_eq!(is(&status, condition::DEGRADED), "False/AsExpected");
    assert_eq!(status.configuration.unwrap().name.as_deref(), Some(B));
    assert_eq!(is(&of(&Scene::new(vec![])), condition::UPDATED), "True/AllNodesUpdated", "an empty pool");
}

#[test]
fn configuration_moves_only_when_every_node_is_updated() {
    let earlier = of(&Scene::new(vec![node("n1"), node("n2")]).target(A));
    assert_eq!(earlier.configuration.as_ref().unwrap().name.as_deref(), Some(A));
    let scene = Scene::new(vec![done("n1"), updating("n2", B)]).slots(&["n2"]);
    let status = after(&scene, Some(&earlier), at(1));
    assert_eq!(status.configuration, earlier.configuration);
    assert_eq!(is(&status, condition::UPDATED), "False/NodesUpdating");
    assert_eq!(is(&status, condition::UPDATING), "True/NodesUpdating");
    assert!(message(&status, condition::UPDATING).contains("n2"), "{status:?}");
}

#[test]
fn an_edit_withdraws_updated_at_once() {
    // Or `kubectl wait` right after an edit returns early.
    let earlier = of(&Scene::new(vec![done("n1")]));
    let scene = rendering(Scene::new(vec![done("n1")]), Rendering { pending: true, ..Rendering::default() });
    let status = after(&scene, Some(&earlier), at(1));
    assert_eq!(is(&status, condition::UPDATED), "False/Rendering");
    assert!(withdraws_updated(Some(&earlier), &status));
    assert!(!withdraws_updated(Some(&status), &status));
    assert!(!withdraws_updated(None, &status));
}

#[test]
fn sources_that_are_refused_are_named_and_the_target_stays() {
    let refused = Rendering { errors: vec![finding("MachineConfig/99-x", "bad")], ..Rendering::default() };
    let status = of(&rendering(Scene::new(vec![done("n1")]), refused));
    assert_eq!(is(&status, condition::RENDER_DEGRADED), "True/InvalidSources");
    assert_eq!(is(&status, condition::DEGRADED), "True/InvalidSources");
    assert_eq!(is(&status, condition::UPDATED), "False/InvalidSources");
    assert_eq!(is(&status, condition::NODE_DEGRADED), "False/AsExpected");
    let text = message(&status, condition::RENDER_DEGRADED);
    for part in ["MachineConfig/99-x", "spec.config", "is wrong", "do this"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(message(&status, condition::UPDATED).contains(B));
    assert_eq!(status.configuration, None, "it does not move while the rendering fails");
}

#[test]
fn each_cause_of_a_failed_rendering_has_its_reason() {
    let error = |object: &str, rule| Rendering { errors: vec![finding(object, rule)], ..Rendering::default() };
    for (rendering_is, reason) in [
        (error("MachineConfigPool/worker", "x"), "InvalidPool"),
        (error("MachineConfigPool/worker", rule::RENDERED_SIZE.id), "TooLarge"),
        (Rendering { no_sources: true, ..Rendering::default() }, "NoSources"),
        (Rendering { write_error: Some("x".to_owned()), ..Rendering::default() }, "WriteFailed"),
    ] {
        let status = of(&rendering(Scene::new(vec![done("n1")]), rendering_is));
        assert_eq!(is(&status, condition::RENDER_DEGRADED), format!("True/{reason}"));
        assert_eq!(is(&status, condition::UPDATED), format!("False/{reason}"));
    }
}

#[test]
fn a_paused_pool_says_how_many_wait() {
    let nodes = (1..=3).map(|i| node(&format!("n{i}"))).chain([done("n4")]).collect();
    let status = of(&Scene::new(nodes).paused());
    assert_eq!(is(&status, condition::UPDATED), "False/Paused");
    assert_eq!(is(&status, condition::UPDATING), "False/Paused");
    let text = message(&status, condition::UPDATED);
    assert!(text.contains("1 of 4 nodes") && text.contains("3 wait") && text.contains("spec.paused"), "{text}");
}

#[test]
fn whoever_waits_is_named_ten_and_a_count() {
    let nodes = (10..40).map(|i| cordoned(node(&format!("n{i}")))).collect();
    let status = of(&Scene::new(nodes));
    assert_eq!(is(&status, condition::UPDATED), "False/NodesWaiting");
    let text = message(&status, condition::UPDATED);
    assert!(text.contains("n10, ") && text.contains("and 20 more: it is cordoned"), "{text}");
    assert!(!text.contains("n21"), "{text}");
}

#[test]
fn who_uses_up_the_limit_is_named() {
    let scene = Scene::new(vec![NodeView { ready: false, ..done("n1") }, node("n2")]);
    let status = of(&scene);
    let text = message(&status, condition::UPDATED);
    assert!(
        text.contains("n2: waiting for a turn") && text.contains("allows 1") && text.contains("n1 (NotReady)"),
        "{text}"
    );
    assert_eq!(is(&status, condition::UPDATING), "False/NodesWaiting");
}

#[test]
fn a_degraded_node_is_named_with_its_reason() {
    let status = of(&Scene::new(vec![degraded("n1", B, "Drift: /etc/x\ndiffers"), done("n2")]));
    assert_eq!(is(&status, condition::NODE_DEGRADED), "True/NodesDegraded");
    assert_eq!(is(&status, condition::DEGRADED), "True/NodesDegraded");
    let text = message(&status, condition::NODE_DEGRADED);
    assert_eq!(text, "1 of 2 nodes: Node n1: Drift: /etc/x differs");
}

#[test]
fn messages_stay_bounded_however_much_nodes_say() {
    let nodes = (0..200).map(|i| degraded(&format!("n{i}"), B, &"é".repeat(REASON_LIMIT))).collect();
    let status = of(&Scene::new(nodes));
    let text = message(&status, condition::NODE_DEGRADED);
    assert!(text.len() <= MESSAGE_LIMIT && text.contains("and 190 more"), "{} bytes", text.len());
}

#[test]
fn both_causes_of_degraded_are_told() {
    let refused = Rendering { errors: vec![finding("MachineConfig/99-x", "bad")], ..Rendering::default() };
    let status = of(&rendering(Scene::new(vec![degraded("n1", B, "it failed")]), refused));
    let text = message(&status, condition::DEGRADED);
    assert!(text.contains("99-x") && text.contains("it failed"), "{text}");
}

#[test]
fn a_limit_that_is_none_is_named_with_its_field() {
    // R-056, also while there is nothing to hand out.
    let status = of(&Scene::new(vec![done("n1")]).limit(-1));
    assert_eq!(is(&status, condition::NODE_DEGRADED), "True/InvalidMaxUnavailable");
    assert!(message(&status, condition::DEGRADED).contains("spec.maxUnavailable: `-1`"));
    let waits = of(&Scene::new(vec![node("n1")]).limit(-1));
    assert_eq!(is(&waits, condition::UPDATED), "False/InvalidMaxUnavailable");
}

#[test]
fn a_node_in_two_custom_pools_is_named_by_both() {
    let mut scene = Scene::new(vec![infra(node("n1"))]).with_infra();
    let mut other = (*scene.world.pools["infra"]).clone();
    other.metadata.name = Some("gpu".to_owned());
    scene.world.pools.insert("gpu".into(), Arc::new(other));
    let (membership, fresh) = (scene.membership(), Fresh::new());
    for name in ["infra", "gpu"] {
        let pool = &scene.world.pools[name];
        let case = Case::new(&scene.world, &membership, &scene.recovery, pool, &scene.slots, &fresh);
        let plan = case.plan();
        let status = compute(&Input {
            world: &scene.world,
            membership: &membership,
            pool,
            case: &case,
            plan: &plan,
            previous: None,
            now: at(0),
        });
        assert_eq!(is(&status, condition::NODE_DEGRADED), "True/AmbiguousNodes");
        let text = message(&status, condition::DEGRADED);
        assert!(text.contains("n1") && text.contains("gpu") && text.contains("infra"), "{text}");
        assert_eq!(status.machine_count, Some(0));
    }
    assert_eq!(is(&of(&scene), condition::NODE_DEGRADED), "False/AsExpected");
}

#[test]
fn the_policy_that_is_awaited_or_refused_is_said() {
    let mut scene = Scene::new(vec![node("n1")]);
    scene.world.policy = None;
    assert_eq!(is(&of(&scene), condition::UPDATED), "False/PolicyNotReady");
    assert_eq!(is(&of(&scene), condition::DEGRADED), "False/AsExpected");
    scene.world.policy_problem = Some("MachineConfiguration cluster: spec.x is wrong".to_owned());
    assert_eq!(is(&of(&scene), condition::NODE_DEGRADED), "True/InvalidPolicy");
}

#[test]
fn an_unchanged_world_gives_an_identical_status() {
    // then nothing is written, and the time of transition stands.
    for scene in [
        Scene::new(vec![done("n1"), updating("n2", B), node("n3"), degraded("n4", B, "x")]).slots(&["n2"]).limit(2),
        Scene::new(vec![done("n1")]),
        Scene::new(vec![asking("n1")]).paused(),
    ] {
        let first = after(&scene, None, at(0));
        assert_eq!(after(&scene, Some(&first), at(500)), first);
    }
}

#[test]
fn the_time_of_transition_moves_only_with_the_status() {
    let time =
        |status: &MachineConfigPoolStatus, type_: &str| get(status, type_).last_transition_time.clone().unwrap().0;
    let first = after(&Scene::new(vec![updating("n1", B), node("n2")]).slots(&["n1"]), None, at(0));
    let second = after(&Scene::new(vec![done("n1"), updating("n2", B)]).slots(&["n2"]), Some(&first), at(10));
    assert_ne!(message(&first, condition::UPDATED), message(&second, condition::UPDATED));
    assert_eq!(time(&second, condition::UPDATED), at(0), "only the message changed");
    let third = after(&Scene::new(vec![done("n1"), done("n2")]), Some(&second), at(20));
    assert_eq!(time(&third, condition::UPDATED), at(20));
    assert_eq!(time(&third, condition::DEGRADED), at(0));
}

#[test]
fn the_first_rendering_is_awaited() {
    let status = of(&Scene::new(vec![node("n1")]).pool(|p| p.spec.configuration = None));
    assert_eq!(is(&status, condition::UPDATED), "False/Rendering");
    assert_eq!(status.updated_machine_count, Some(0));
}

#[test]
fn a_drain_that_is_blocked_is_said_in_the_pool() {
    let mut blocked = asking("n1");
    blocked.desired = Some(ConfigName::from(C));
    blocked.drain_status = Some(crate::api::protocol::DrainStatus {
        request: blocked.desired_drain.as_ref().unwrap().to_string(),
        waiting: vec!["Pod a/b, kept by PodDisruptionBudget a/c".to_owned()],
        waiting_count: 1,
        ..Default::default()
    });
    let status = of(&Scene::new(vec![blocked]).target(C).slots(&["n1"]));
    assert!(message(&status, condition::UPDATED).contains("PodDisruptionBudget a/c"), "{status:?}");
    assert_eq!(is(&status, condition::UPDATING), "True/NodesUpdating");
}
