//! When a leader leaves the lead to another replica because its own node is about to stop, and when it stands again.
//!
//! Both look at the same thing, another replica that can lead: so no two replicas hand over in a circle, and the last
//! one carries on through its own reboot.

use super::caches::{PodView, Role};
use super::view::NodeView;
use super::world::World;
use crate::api::NodeName;
use crate::api::protocol::DrainKind;

/// This process, as a pod on a node. Without a node's name (outside of a pod) nothing is ever handed over.
#[derive(Debug, Clone, Default)]
pub struct Myself {
    /// Name of the pod.
    pub pod: String,
    /// Name of the node.
    pub node: Option<NodeName>,
}

/// Whether to give up the lead: our node is drained, and another replica is ready on a node that has no drain request
/// (design section 6) and no foreign cordon: it would not stand there while we can.
pub fn should_hand_over(world: &World, me: &Myself, pods: &[PodView]) -> bool {
    let Some(node) = me.node.as_ref().and_then(|n| world.nodes.get(n)) else { return false };
    let drained = has_drain_request(node) && node.desired_drain == node.applied_drain;
    drained && another_can_lead(world, me, pods)
}

/// Whether to stand for election: our node is schedulable, or nobody else could lead.
pub fn may_stand(world: &World, me: &Myself, pods: &[PodView]) -> bool {
    let Some(node) = me.node.as_ref().and_then(|n| world.nodes.get(n)) else { return true };
    !node.cordoned || !another_can_lead(world, me, pods)
}

fn another_can_lead(world: &World, me: &Myself, pods: &[PodView]) -> bool {
    let others = pods.iter().filter(|p| p.role == Role::Controller && p.ready && p.name != me.pod);
    others.filter(|p| p.node != me.node).any(|pod| {
        let node = pod.node.as_ref().and_then(|n| world.nodes.get(n));
        node.is_some_and(|n| n.ready && !n.cordoned && !has_drain_request(n))
    })
}

fn has_drain_request(node: &NodeView) -> bool {
    node.desired_drain.as_ref().is_some_and(|r| r.kind == DrainKind::Drain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn node(name: &str, desired: &str, applied: &str) -> NodeView {
        NodeView {
            name: name.into(),
            ready: true,
            cordoned: desired.starts_with("drain"),
            desired_drain: desired.parse().ok(),
            applied_drain: applied.parse().ok(),
            ..NodeView::default()
        }
    }

    fn world(nodes: [NodeView; 2]) -> World {
        let nodes = nodes.into_iter().map(|n| (n.name.clone(), Arc::new(n))).collect();
        World { nodes, ..World::default() }
    }

    fn replica(node: &str, ready: bool) -> PodView {
        PodView { name: format!("on-{node}"), role: Role::Controller, node: Some(node.into()), ready }
    }

    fn me(node: &str) -> Myself {
        Myself { pod: format!("on-{node}"), node: Some(node.into()) }
    }

    const D: &str = "drain-rendered-master-1-3";
    const U: &str = "uncordon-rendered-master-1-4";

    #[test]
    fn a_leader_hands_over_only_when_drained_and_only_to_one_that_can_lead() {
        let both = [replica("a", true), replica("b", true)];
        let alone = [replica("a", true), replica("b", false)];
        let same_node = [replica("a", true), PodView { name: "second".into(), ..replica("a", true) }];
        for (what, mine, other, pods, hand_over) in [
            ("drained", node("a", D, D), node("b", "", ""), &both[..], true),
            ("drained, the other was updated before", node("a", D, D), node("b", U, U), &both[..], true),
            ("not drained yet", node("a", D, ""), node("b", "", ""), &both[..], false),
            ("no request", node("a", "", ""), node("b", "", ""), &both[..], false),
            ("updated", node("a", U, U), node("b", "", ""), &both[..], false),
            ("the other drains too", node("a", D, D), node("b", D, ""), &both[..], false),
            ("the other is not ready", node("a", D, D), node("b", "", ""), &alone[..], false),
            ("the other is on this node", node("a", D, D), node("b", "", ""), &same_node[..], false),
            ("nobody else", node("a", D, D), node("b", "", ""), &both[..1], false),
        ] {
            assert_eq!(should_hand_over(&world([mine, other]), &me("a"), pods), hand_over, "{what}");
        }
        let gone = world([node("a", D, D), NodeView { ready: false, ..node("b", "", "") }]);
        assert!(!should_hand_over(&gone, &me("a"), &both), "the other's node is NotReady");
        assert!(!should_hand_over(&world([node("a", D, D), node("b", "", "")]), &Myself::default(), &both));
    }

    #[test]
    fn two_replicas_do_not_hand_over_in_a_circle() {
        let pods = [replica("a", true), replica("b", true)];
        for (a, b) in [(D, ""), (D, D), ("", D), ("", ""), (U, D), (D, U)] {
            let world = world([node("a", a, a), node("b", b, b)]);
            let to_b = should_hand_over(&world, &me("a"), &pods);
            let back = should_hand_over(&world, &me("b"), &pods);
            assert!(!(to_b && back), "{a:?} {b:?}");
            assert!(!(to_b && may_stand(&world, &me("a"), &pods)), "{a:?} {b:?}: stands again at once");
            assert!(may_stand(&world, &me("a"), &pods) || may_stand(&world, &me("b"), &pods), "{a:?} {b:?}: nobody");
        }
    }

    #[test]
    fn somebody_stands_when_a_person_cordoned_the_nodes_of_all_replicas() {
        let pods = [replica("a", true), replica("b", true)];
        let cordoned = |name: &str, request: &str| NodeView { cordoned: true, ..node(name, request, request) };
        for requests in [("", ""), (D, ""), (D, D)] {
            let world = world([cordoned("a", requests.0), cordoned("b", requests.1)]);
            assert!(may_stand(&world, &me("a"), &pods) || may_stand(&world, &me("b"), &pods), "{requests:?}");
            assert!(!should_hand_over(&world, &me("a"), &pods), "{requests:?}");
        }
    }

    #[test]
    fn r_212_a_single_replica_carries_on_and_stands_on_its_cordoned_node() {
        let world = world([node("a", D, D), node("b", "", "")]);
        let alone = [replica("a", true)];
        assert!(!should_hand_over(&world, &me("a"), &alone) && may_stand(&world, &me("a"), &alone));
        assert!(may_stand(&world, &Myself::default(), &[]));
    }
}
