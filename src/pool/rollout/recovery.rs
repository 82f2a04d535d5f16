//! Whether a node that says Done serves again: its kubelet must have renewed its lease since.
//!
//! An update may have restarted the kubelet, the runtime or the network. Kubernetes notices only after some 40 s that
//! a kubelet is gone, so `Ready` proves nothing at first. What proves it is a renewal that was seen after `Done` was
//! seen. Only what is seen is compared, never the clocks of node and controller. What is remembered here may be lost
//! in a failover: then a node waits for one more renewal.

use crate::api::protocol::DrainRequest;
use crate::api::{ConfigName, NodeName, Uid};
use crate::pool::view::NodeView;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A renewal that arrives this soon after `Done` may have been made before it: the two come by different watches.
const LATE_ARRIVAL: Duration = Duration::from_secs(1);

/// After this long it is worth looking again at a node that has yet to prove itself.
pub const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What is known of the nodes that hold slots, by UID.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovery {
    done: BTreeMap<Uid, Done>,
    untouched: BTreeMap<Uid, Untouched>,
    /// Every node is taken to serve again.
    assumed: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Done {
    at: Option<ConfigName>,
    since: Timestamp,
    lease: Option<Timestamp>,
    renewed: bool,
}

/// Until which config and which request nothing was done to a node's services since it got its slot.
#[derive(Debug, Clone, PartialEq)]
struct Untouched {
    config: Option<ConfigName>,
    request: Option<DrainRequest>,
}

impl Recovery {
    /// For a preview, which has nothing to see: every kubelet is taken to come back.
    pub fn assumed() -> Self {
        Self { assumed: true, ..Self::default() }
    }

    /// Looks at all `holders` of slots. `now` is the controller's clock.
    pub fn observe<'a>(
        &mut self,
        holders: impl Iterator<Item = &'a NodeView>,
        leases: &BTreeMap<NodeName, Timestamp>,
        now: Timestamp,
    ) {
        let mut seen = BTreeSet::new();
        for node in holders {
            seen.insert(node.uid.clone());
            if !node.settled() {
                self.done.remove(&node.uid);
                continue;
            }
            let lease = leases.get(&node.name).copied();
            let first = || Done { at: node.desired.clone(), since: now, lease, renewed: false };
            let done = self.done.entry(node.uid.clone()).or_insert_with(first);
            if done.at != node.desired {
                *done = first();
            }
            // A clock was set back: that of the controller, or of the node. What follows is compared with what it says now.
            done.since = done.since.min(now);
            if lease.is_some() && lease < done.lease {
                done.lease = lease;
            }
            if lease > done.lease {
                if now > done.since + LATE_ARRIVAL {
                    done.renewed = true;
                } else {
                    done.lease = lease;
                }
            }
        }
        self.done.retain(|uid, _| seen.contains(uid));
        self.untouched.retain(|uid, _| seen.contains(uid));
    }

    /// Notes that `node` has a slot and nothing was done to it yet. One that is under way already is not noted.
    pub fn granted(&mut self, node: &NodeView) {
        if node.settled() {
            let untouched = Untouched { config: node.desired.clone(), request: node.desired_drain.clone() };
            self.untouched.insert(node.uid.clone(), untouched);
        }
    }

    /// Notes that `node` was sent to `to`. `harmless`: that does nothing to running services.
    pub fn given(&mut self, node: &NodeView, to: Option<&ConfigName>, harmless: bool) {
        if !harmless {
            self.untouched.remove(&node.uid);
        } else if let Some(untouched) = self.untouched.get_mut(&node.uid) {
            untouched.config = to.cloned();
        }
    }

    /// Whether a settled node serves again, as far as its kubelet is concerned.
    pub fn has_recovered(&self, node: &NodeView) -> bool {
        let untouched = self.untouched.get(&node.uid);
        self.assumed
            || untouched.is_some_and(|u| u.config == node.desired && u.request == node.desired_drain)
            || self.done.get(&node.uid).is_some_and(|d| d.at == node.desired && d.renewed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::protocol::{DrainKind, NodeState};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn done(config: &str) -> NodeView {
        NodeView {
            name: "n".into(),
            uid: "u".into(),
            desired: Some(config.into()),
            current: Some(config.into()),
            state: Some(NodeState::Done),
            ..NodeView::default()
        }
    }

    fn lease(seconds: i64) -> BTreeMap<NodeName, Timestamp> {
        BTreeMap::from([("n".into(), at(seconds))])
    }

    #[test]
    fn done_alone_proves_nothing_while_the_kubelet_may_be_dead() {
        let (mut recovery, node) = (Recovery::default(), done("b"));
        recovery.observe([&node].into_iter(), &lease(0), at(5));
        recovery.observe([&node].into_iter(), &lease(0), at(100));
        assert!(!recovery.has_recovered(&node), "the lease is as old as it was");
        recovery.observe([&node].into_iter(), &lease(9), at(101));
        assert!(recovery.has_recovered(&node));
    }

    #[test]
    fn a_clock_that_is_set_back_by_a_year_holds_no_slot_for_a_year() {
        let year = 365 * 86_400;
        // The node's.
        let (mut recovery, node) = (Recovery::default(), done("b"));
        recovery.observe([&node].into_iter(), &lease(year), at(5));
        recovery.observe([&node].into_iter(), &lease(9), at(14));
        assert!(!recovery.has_recovered(&node), "that one may have been made before Done");
        recovery.observe([&node].into_iter(), &lease(19), at(24));
        assert!(recovery.has_recovered(&node));
        // The controller's.
        let (mut recovery, node) = (Recovery::default(), done("b"));
        recovery.observe([&node].into_iter(), &lease(0), at(year));
        recovery.observe([&node].into_iter(), &lease(0), at(5));
        recovery.observe([&node].into_iter(), &lease(9), at(9));
        assert!(recovery.has_recovered(&node));
    }

    #[test]
    fn a_renewal_that_only_arrives_late_does_not_count() {
        let (mut recovery, node) = (Recovery::default(), done("b"));
        recovery.observe([&node].into_iter(), &lease(0), at(10));
        recovery.observe([&node].into_iter(), &lease(9), at(11));
        recovery.observe([&node].into_iter(), &lease(9), at(30));
        assert!(!recovery.has_recovered(&node), "it may have been made before Done");
        recovery.observe([&node].into_iter(), &lease(19), at(31));
        assert!(recovery.has_recovered(&node));
    }

    #[test]
    fn the_clock_of_the_node_does_not_matter() {
        let (mut recovery, node) = (Recovery::default(), done("b"));
        recovery.observe([&node].into_iter(), &lease(-7200), at(0));
        recovery.observe([&node].into_iter(), &lease(-7190), at(10));
        assert!(recovery.has_recovered(&node));
        let mut recovery = Recovery::default();
        recovery.observe([&node].into_iter(), &lease(7200), at(0));
        recovery.observe([&node].into_iter(), &lease(7200), at(10));
        assert!(!recovery.has_recovered(&node));
    }

    #[test]
    fn another_update_needs_another_renewal() {
        let mut recovery = Recovery::default();
        recovery.observe([&done("b")].into_iter(), &lease(0), at(0));
        recovery.observe([&done("b")].into_iter(), &lease(10), at(10));
        assert!(!recovery.has_recovered(&done("c")));
        recovery.observe([&done("c")].into_iter(), &lease(10), at(11));
        assert!(!recovery.has_recovered(&done("c")));
    }

    #[test]
    fn a_node_to_which_nothing_was_done_need_not_wait() {
        let mut recovery = Recovery::default();
        recovery.granted(&done("a"));
        assert!(recovery.has_recovered(&done("a")), "the slot was never used");
        recovery.given(&done("a"), Some(&"b".into()), true);
        assert!(recovery.has_recovered(&done("b")), "the update did nothing to services");
        recovery.given(&done("b"), Some(&"c".into()), false);
        assert!(!recovery.has_recovered(&done("c")));
    }

    #[test]
    fn a_forced_node_is_not_taken_for_untouched() {
        let mut recovery = Recovery::default();
        recovery.granted(&done("a"));
        let mut forced = done("a");
        forced.desired_drain = Some(DrainRequest::next(None, DrainKind::Uncordon, &"a".into()));
        assert!(!recovery.has_recovered(&forced));
        let mut working = done("a");
        working.state = Some(NodeState::Working);
        let mut recovery = Recovery::default();
        recovery.granted(&working);
        assert!(!recovery.has_recovered(&done("a")));
    }
}
