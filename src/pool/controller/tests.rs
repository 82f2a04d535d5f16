use super::*;
use crate::api::machine_config_pool::PoolCondition;
use crate::api::protocol::{SlotHolder, Slots};
use crate::api::{MachineConfigPoolSpec, MachineConfigPoolStatus, annotation};
use crate::pool::view::NodeView;
use crate::pool::world::Rendering;

fn quiet() -> World {
    let mut pool = MachineConfigPool::new("worker", MachineConfigPoolSpec::default());
    let updated = PoolCondition { type_: "Updated".into(), status: "True".into(), ..PoolCondition::default() };
    pool.status =
        Some(MachineConfigPoolStatus { conditions: Some(vec![updated]), ..MachineConfigPoolStatus::default() });
    let config = Some("rendered-worker-1".into());
    let node = NodeView {
        name: "n1".into(),
        state: Some(NodeState::Done),
        desired: config.clone(),
        current: config,
        ..NodeView::default()
    };
    World {
        pools: [("worker".into(), Arc::new(pool))].into(),
        nodes: [("n1".into(), Arc::new(node))].into(),
        ..World::default()
    }
}

fn with_node(change: impl FnOnce(&mut NodeView)) -> World {
    let mut world = quiet();
    change(Arc::make_mut(world.nodes.get_mut("n1").unwrap()));
    world
}

#[test]
fn a_leader_goes_round_every_second_only_while_something_is_under_way() {
    assert!(!is_busy(&quiet()) && !is_busy(&World::default()));
    let mut pending = quiet();
    pending.rendering.insert("worker".into(), Rendering { pending: true, ..Rendering::default() });
    let mut slots = quiet();
    let held = Slots { epoch: "e".into(), nodes: vec![SlotHolder { name: "n1".into(), uid: "u".into() }] };
    let worker = Arc::make_mut(slots.pools.get_mut("worker").unwrap());
    worker.metadata.annotations = Some([(annotation::SLOTS.to_owned(), serde_json::to_string(&held).unwrap())].into());
    let mut new = quiet();
    Arc::make_mut(new.pools.get_mut("worker").unwrap()).status = None;
    for (what, world) in [
        ("a rendering", pending),
        ("a slot", slots),
        ("a pool without status", new),
        ("an update", with_node(|n| n.state = Some(NodeState::Working))),
        ("a hand-out", with_node(|n| n.desired = Some("rendered-worker-2".into()))),
        ("a drain", with_node(|n| n.desired_drain = "drain-rendered-worker-2-1".parse().ok())),
        ("a cordon of ours", with_node(|n| n.mark = "mcx 2026-01-01T00:00:00Z".parse().ok())),
    ] {
        assert!(is_busy(&world), "{what}");
    }
}

fn failed(what: &str) -> Result<(), Error> {
    Err(Error::Timeout { what: what.to_owned() })
}

#[test]
fn a_failing_step_does_not_stop_the_next_and_a_deposed_leader_stops_at_once() {
    let mut errors = Errors::default();
    assert!(errors.take(Ok(())).is_ok());
    assert!(errors.take(failed("first")).is_ok());
    assert!(errors.take(failed("second")).is_ok());
    assert!(errors.first.as_ref().unwrap().to_string().contains("first"));
    let deposed: Result<(), Error> = Err(Error::Deposed { pool: "worker".into() });
    assert!(matches!(errors.take(deposed), Err(Error::Deposed { .. })));
}

#[test]
fn a_fatal_error_is_one_line_that_says_what_to_do() {
    let missing = Fatal::NoCrd { plural: "machineconfigpools".to_owned() }.to_string();
    assert!(missing.contains("machineconfigpools.machineconfiguration.alauda.io") && missing.contains("`mcx crds"));
    assert!(!missing.contains('\n'));
}

mod against_a_server {
    use super::*;
    use crate::pool::fake_api::FakeApi;
    use http::Method;

    #[tokio::test(start_paused = true)]
    async fn missing_crds_end_the_controller_after_a_moment_of_grace() {
        let api = FakeApi::default();
        api.state().refuse = Some((Method::GET, "machineconfigpools", 404));
        let begun = Instant::now();
        let error = installed(&api.client()).await.unwrap_err();
        assert!(matches!(&error, Fatal::NoCrd { plural } if plural == "machineconfigpools"), "{error}");
        assert!(begun.elapsed() >= CRDS_GRACE && begun.elapsed() < CRDS_GRACE * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_identity_is_told_at_once_and_an_absent_server_is_waited_for() {
        let api = FakeApi::default();
        api.state().refuse = Some((Method::GET, "machineconfigs", 403));
        assert!(matches!(installed(&api.client()).await, Err(Fatal::Forbidden { .. })));
        api.state().refuse = Some((Method::GET, "machineconfigs", 503));
        let heal = async {
            sleep(Duration::from_mins(5)).await;
            api.state().refuse = None;
        };
        let client = api.client();
        let (done, ()) = tokio::join!(installed(&client), heal);
        assert!(done.is_ok());
    }
}
