//! The limit, counted once more just before the cordon of a node that is still schedulable.
//!
//! Between hand-out and cordon another node may fail, the limit be lowered, or the node move to a pool that is full.

use crate::api::NodeName;
use crate::api::protocol::Slots;
use crate::pool::membership::rank;
use crate::pool::view::NodeView;

/// Whether `node` may be cordoned now. `members` are the nodes of the pool that it is in now (itself may be among
/// them), `holders` that pool's slots, `limit` its `maxUnavailable`. The error names what it waits for.
///
/// Counted are the other members that are `NotReady` or cordoned, by whomever, and those that hold a slot of the pool
/// and are before it in the order. The order is needed, or two holders under a lowered limit would wait for each
/// other; so is counting members only, or two nodes that swapped pools would. A slot of this pool is not asked for:
/// a drain that has begun goes on with the slot of the pool that the node was in.
pub fn may_cordon(node: &NodeName, members: &[&NodeView], holders: &Slots, limit: usize) -> Result<(), Vec<String>> {
    let own = members.iter().find(|m| m.name == *node);
    let is_before = |other: &NodeView| own.is_none_or(|own| rank(other) < rank(own));
    let in_the_way: Vec<String> = members
        .iter()
        .filter(|m| m.name != *node)
        .filter_map(|m| {
            if !m.ready {
                Some(format!("{} is NotReady", m.name))
            } else if m.cordoned {
                Some(format!("{} is cordoned", m.name))
            } else if holders.holds(&m.name, &m.uid) && is_before(m) {
                Some(format!("{} goes first", m.name))
            } else {
                None
            }
        })
        .collect();
    if in_the_way.len() < limit { Ok(()) } else { Err(in_the_way) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::protocol::SlotHolder;

    fn node(name: &str) -> NodeView {
        NodeView { name: name.into(), uid: format!("uid-{name}").into(), ready: true, ..NodeView::default() }
    }

    fn slots(of: &[&str]) -> Slots {
        let nodes = of.iter().map(|n| SlotHolder { name: (*n).into(), uid: format!("uid-{n}").into() }).collect();
        Slots { epoch: "e".into(), nodes }
    }

    fn check(of: &str, members: &[NodeView], holders: &[&str], limit: usize) -> Result<(), Vec<String>> {
        may_cordon(&of.into(), &members.iter().collect::<Vec<_>>(), &slots(holders), limit)
    }

    #[test]
    fn a_node_that_failed_after_the_hand_out_keeps_the_next_one_serving() {
        // Hole B10: counted at the hand-out only, the limit is passed here.
        let failed = NodeView { ready: false, ..node("b") };
        assert_eq!(check("a", &[node("a"), failed], &["a"], 1), Err(vec!["b is NotReady".to_owned()]));
        let cordoned = NodeView { cordoned: true, ..node("b") };
        assert_eq!(check("a", &[node("a"), cordoned.clone()], &["a"], 1), Err(vec!["b is cordoned".to_owned()]));
        assert_eq!(check("a", &[node("a"), cordoned], &["a"], 2), Ok(()));
    }

    #[test]
    fn two_holders_under_a_lowered_limit_do_not_wait_for_each_other() {
        // Hole B10: without an order both would be in the other's way for ever.
        let members = [node("a"), node("b")];
        assert_eq!(check("a", &members, &["b", "a"], 1), Ok(()));
        assert_eq!(check("b", &members, &["b", "a"], 1), Err(vec!["a goes first".to_owned()]));
    }

    #[test]
    fn nodes_that_swapped_pools_do_not_wait_for_each_other() {
        // Scenario 53 of the model: `b` holds a slot here, but is in the other pool now.
        assert_eq!(check("a", &[node("a")], &["b"], 1), Ok(()));
    }

    #[test]
    fn a_node_never_counts_against_itself() {
        // Hole A7.
        let own = NodeView { ready: false, cordoned: true, ..node("a") };
        assert_eq!(check("a", &[own], &["a"], 1), Ok(()));
    }

    #[test]
    fn the_slot_of_an_earlier_node_of_that_name_counts_for_nothing() {
        let mut again = node("a");
        again.uid = "uid-later".into();
        assert_eq!(check("b", &[again, node("b")], &["a", "b"], 1), Ok(()));
    }

    #[test]
    fn a_node_that_is_not_yet_seen_in_the_pool_comes_last() {
        assert_eq!(check("c", &[node("a")], &["a"], 1), Err(vec!["a goes first".to_owned()]));
    }
}
