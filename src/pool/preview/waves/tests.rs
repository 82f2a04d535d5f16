use super::*;
use crate::api::{annotation, label};
use crate::pool::scene::{A, B, C, Scene, asking, cordoned, degraded, node, updating};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The course of the scene's pool `worker`, and the nodes as they are in the end.
fn course(scene: &Scene, at_once: bool) -> (Course, World) {
    let mut world = scene.world.clone();
    let membership = scene.membership();
    let mut pool = (*world.pools[label::WORKER]).clone();
    let slots = serde_json::to_string(&scene.slots).unwrap();
    pool.metadata.annotations = Some(BTreeMap::from([(annotation::SLOTS.to_owned(), slots)]));
    let course = Simulation::new(&mut world, &membership, &pool).run(at_once);
    (course, world)
}

fn waves(scene: &Scene) -> Vec<String> {
    course(scene, true).0.waves.iter().map(|wave| join(wave)).collect()
}

fn join(nodes: &[NodeName]) -> String {
    nodes.iter().map(NodeName::as_str).collect::<Vec<_>>().join(" ")
}

fn why(scene: &Scene, name: &str) -> String {
    let waits = course(scene, true).0.waits;
    waits.iter().find(|w| w.node == name).unwrap_or_else(|| panic!("{name} does not wait: {waits:?}")).why.clone()
}

#[test]
fn nodes_go_oldest_first_as_many_as_the_limit_allows() {
    let five = || (1..=5).rev().map(|n| node(&format!("n{n}"))).collect();
    assert_eq!(waves(&Scene::new(five())), ["n1", "n2", "n3", "n4", "n5"]);
    assert_eq!(waves(&Scene::new(five()).limit(2)), ["n1 n2", "n3 n4", "n5"]);
    let (course, world) = course(&Scene::new(five()).limit(2), true);
    assert_eq!((course.waits, course.limit), (vec![], Some(2)));
    assert!(world.nodes.values().all(|n| n.settled() && n.current == Some(B.into())));
}

#[test]
fn nodes_that_stay_away_leave_fewer_places_to_the_others() {
    let away = cordoned(node("n2"));
    assert_eq!(waves(&Scene::new(vec![node("n1"), away.clone(), node("n3")]).limit(2)), ["n1", "n3"]);
    let full = Scene::new(vec![node("n1"), away]);
    assert_eq!(waves(&full), Vec::<String>::new());
    assert_eq!(
        why(&full, "n1"),
        "waiting for a turn, since spec.maxUnavailable allows 1 and is used up by n2 (cordoned)"
    );
}

#[test]
fn a_node_that_is_not_ready_gets_the_config_and_keeps_its_place() {
    let down = NodeView { ready: false, ..node("n2") };
    let scene = Scene::new(vec![node("n1"), down, node("n3")]).limit(2);
    assert_eq!(waves(&scene), ["n1 n2", "n3"]);
    assert_eq!(why(&scene, "n2"), "after its wave it has the config and is NotReady");
}

#[test]
fn what_is_under_way_ends_first_and_is_told_apart() {
    let finishes = updating("n1", C);
    let scene = Scene::new(vec![finishes, updating("n2", B), node("n3")]).slots(&["n2"]);
    let (course, _) = course(&scene, true);
    let under_way: Vec<&str> = course.under_way.iter().map(|w| w.node.as_str()).collect();
    assert_eq!(under_way, ["n1", "n2"]);
    assert_eq!(
        course.waves.iter().map(|w| join(w)).collect::<Vec<_>>(),
        ["n1", "n3"],
        "n1 has C then, and goes on to B"
    );
    assert_eq!(course.waits, []);
}

#[test]
fn a_paused_pool_sends_nobody_and_ends_what_is_under_way() {
    let scene = Scene::new(vec![updating("n1", B), node("n2")]).slots(&["n1"]).paused();
    let (course, world) = course(&scene, true);
    assert_eq!((course.under_way.len(), course.waves.len()), (1, 0));
    assert_eq!(course.waits, [Waits { node: "n2".into(), why: "the pool is paused (spec.paused)".to_owned() }]);
    assert_eq!(world.nodes["n1"].current, Some(B.into()));
}

/// Nodes in all states that a rollout tells apart.
fn any_node() -> impl Strategy<Value = NodeView> {
    let states = (0..10_u32, prop::bool::weighted(0.15), prop::bool::weighted(0.15), 0..12_u32);
    states.prop_map(|(state, down, cordon, extra)| {
        let name = "n0";
        let of = match state {
            0 => updating(name, B),
            1 => updating(name, C),
            2 => degraded(name, A, "failed"),
            3 => degraded(name, C, "Drift: /etc/x"),
            4 => asking(name),
            5 => NodeView { desired: Some(C.into()), ..node(name) },
            6 => NodeView { desired: Some(B.into()), current: Some(B.into()), ..node(name) },
            7 => NodeView { state: None, ..node(name) },
            _ => node(name),
        };
        let of = if cordon { cordoned(of) } else { of };
        NodeView {
            ready: !down,
            hold: (extra == 0).then(|| "why".to_owned()),
            deletion: (extra == 1).then(|| "taint".to_owned()),
            mark: (extra < 4 && cordon).then(|| "mcx 1970-01-01T00:00:00Z".parse().unwrap()),
            ..of
        }
    })
}

fn any_scene() -> impl Strategy<Value = Scene> {
    let nodes = prop::collection::vec((any_node(), prop::bool::weighted(0.3)), 0..14);
    (nodes, 0..6_i32, prop::bool::weighted(0.1)).prop_map(|(nodes, limit, paused)| {
        let named = |(i, (of, holds)): (usize, (NodeView, bool))| {
            let own = node(&format!("n{i}"));
            (NodeView { name: own.name, uid: own.uid, created: own.created, ..of }, holds)
        };
        let nodes: Vec<(NodeView, bool)> = nodes.into_iter().enumerate().map(named).collect();
        let holders: Vec<String> = nodes.iter().filter(|(_, holds)| *holds).map(|(n, _)| n.name.to_string()).collect();
        let scene = Scene::new(nodes.into_iter().map(|(n, _)| n).collect()).limit(limit);
        let scene = scene.slots(&holders.iter().map(String::as_str).collect::<Vec<_>>());
        if paused { scene.paused() } else { scene }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whole_waves_are_those_of_the_controller_step_by_step(scene in any_scene()) {
        let (at_once, world) = course(&scene, true);
        let (by_steps, other) = course(&scene, false);
        prop_assert_eq!(at_once, by_steps);
        prop_assert_eq!(world.nodes, other.nodes);
    }

    #[test]
    fn no_wave_takes_more_serving_nodes_than_the_limit_leaves(scene in any_scene()) {
        let (course, _) = course(&scene, true);
        let limit = course.limit.unwrap();
        for wave in &course.waves {
            prop_assert!(wave.len() <= limit, "{:?}, limit {}", wave, limit);
        }
        // In a pool at rest it is the other way round too: nobody is left who could have gone.
        let down = |name: &NodeName| !scene.world.nodes[name].ready;
        let at_rest = scene.world.nodes.values().all(|n| n.settled() && n.state.is_some()) && scene.slots.nodes.is_empty();
        if at_rest {
            let away = scene.world.nodes.values().filter(|n| !n.ready || n.cordoned).count();
            for wave in &course.waves {
                let serving = wave.iter().filter(|n| !down(n) && !scene.world.nodes[*n].cordoned).count();
                let gone: usize = course.waves.iter().take_while(|w| *w != wave).flatten().filter(|n| {
                    let node = &scene.world.nodes[*n];
                    node.ready && node.cordoned
                }).count();
                prop_assert!(serving + away.saturating_sub(gone) <= limit.max(away), "{:?}", course);
            }
        }
    }
}
