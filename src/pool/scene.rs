//! Pools and nodes for tests of decisions.

use super::membership::Membership;
use super::rollout::decide::{Case, Fresh, Give, Plan, Why};
use super::rollout::recovery::Recovery;
use super::view::NodeView;
use super::world::World;
use crate::api::machine_config_pool::ConfigurationReference;
use crate::api::protocol::{DrainKind, DrainRequest, NodeState, Phase, PhaseSince, SlotHolder, Slots};
use crate::api::{ConfigName, MachineConfigPool, MachineConfigPoolSpec, label, shipped};
use crate::change::policy::EffectivePolicy;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What nodes have.
pub(crate) const A: &str = "rendered-worker-0000000000000000000000000000000a";
/// The pool's target.
pub(crate) const B: &str = "rendered-worker-0000000000000000000000000000000b";
/// Another config.
pub(crate) const C: &str = "rendered-worker-0000000000000000000000000000000c";

/// A pool `worker` whose target is B, and what surrounds it.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) slots: Slots,
    pub(crate) recovery: Recovery,
}

/// A Node of the pool, Done at A.
pub(crate) fn node(name: &str) -> NodeView {
    let age = name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    NodeView {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        created: Some(Timestamp::from_second(age).unwrap()),
        labels: BTreeMap::from([(label::NODE_ROLE_WORKER.to_owned(), String::new())]),
        ready: true,
        desired: Some(A.into()),
        current: Some(A.into()),
        state: Some(NodeState::Done),
        ..NodeView::default()
    }
}

/// The same, on its way to `to`.
pub(crate) fn updating(name: &str, to: &str) -> NodeView {
    NodeView { desired: Some(to.into()), state: Some(NodeState::Working), ..node(name) }
}

pub(crate) fn degraded(name: &str, desired: &str, reason: &str) -> NodeView {
    let (state, reason) = (Some(NodeState::Degraded), Some(reason.to_owned()));
    NodeView { desired: Some(desired.into()), state, reason, ..node(name) }
}

pub(crate) fn asking(name: &str) -> NodeView {
    let request = DrainRequest::next(None, DrainKind::Drain, &A.into());
    let phase = Some(PhaseSince { phase: Phase::Draining, since: Timestamp::UNIX_EPOCH });
    NodeView { state: Some(NodeState::Working), phase, desired_drain: Some(request), ..node(name) }
}

pub(crate) fn cordoned(node: NodeView) -> NodeView {
    NodeView { cordoned: true, cordoned_at: Some(Timestamp::UNIX_EPOCH), ..node }
}

pub(crate) fn infra(node: NodeView) -> NodeView {
    let mut node = node;
    node.labels.insert("node-role.kubernetes.io/infra".to_owned(), String::new());
    node
}

impl Scene {
    pub(crate) fn new(nodes: Vec<NodeView>) -> Self {
        let policy = EffectivePolicy {
            generation: 1,
            files: vec![],
            units: vec![],
            keys: vec![],
            default_files: vec![],
            default_units: vec![],
        };
        let world = World {
            pools: shipped::pools().into_iter().map(|p| (p.name().into(), Arc::new(p))).collect(),
            nodes: nodes.into_iter().map(|n| (n.name.clone(), Arc::new(n))).collect(),
            rendered: [A, B, C].map(ConfigName::from).into(),
            policy: Some(Arc::new(policy)),
            ..World::default()
        };
        let slots = Slots { epoch: "e".into(), nodes: vec![] };
        Self { world, slots, recovery: Recovery::default() }.target(B)
    }

    pub(crate) fn pool(mut self, change: impl FnOnce(&mut MachineConfigPool)) -> Self {
        change(Arc::make_mut(self.world.pools.get_mut(label::WORKER).unwrap()));
        self
    }

    pub(crate) fn target(self, target: &str) -> Self {
        let reference = ConfigurationReference { name: Some(target.to_owned()), ..ConfigurationReference::default() };
        self.pool(|p| p.spec.configuration = Some(reference))
    }

    pub(crate) fn limit(self, limit: i32) -> Self {
        self.pool(|p| p.spec.max_unavailable = Some(IntOrString::Int(limit)))
    }

    pub(crate) fn paused(self) -> Self {
        self.pool(|p| p.spec.paused = Some(true))
    }

    pub(crate) fn slots(mut self, of: &[&str]) -> Self {
        self.slots.nodes =
            of.iter().map(|n| SlotHolder { name: (*n).into(), uid: format!("uid-{n}").into() }).collect();
        self
    }

    /// Kubelets have renewed their leases since the nodes said Done.
    pub(crate) fn recovered(mut self) -> Self {
        let at = |s| Timestamp::from_second(s).unwrap();
        for (now, lease) in [(100, 90), (110, 105)] {
            let leases = self.world.nodes.keys().map(|n| (n.clone(), at(lease))).collect();
            self.recovery.observe(self.world.nodes.values().map(Arc::as_ref), &leases, at(now));
        }
        self
    }

    pub(crate) fn with_infra(mut self) -> Self {
        let both = serde_json::json!({"matchExpressions": [
            {"key": label::ROLE, "operator": "In", "values": ["worker", "infra"]}]});
        let spec = MachineConfigPoolSpec {
            machine_config_selector: Some(serde_json::from_value(both).unwrap()),
            node_selector: Some(
                serde_json::from_value(serde_json::json!({"matchLabels": {"node-role.kubernetes.io/infra": ""}}))
                    .unwrap(),
            ),
            ..MachineConfigPoolSpec::default()
        };
        self.world.pools.insert("infra".into(), Arc::new(MachineConfigPool::new("infra", spec)));
        self
    }

    pub(crate) fn membership(&self) -> Membership {
        Membership::new(&self.world.pools, &self.world.nodes)
    }

    pub(crate) fn see<T>(&self, look: impl FnOnce(&Case) -> T) -> T {
        let membership = Membership::new(&self.world.pools, &self.world.nodes);
        let fresh = Fresh::new();
        let pool = &self.world.pools[label::WORKER];
        look(&Case::new(&self.world, &membership, &self.recovery, pool, &self.slots, &fresh))
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough in its lifetime")]
    pub(crate) fn plan(&self) -> Plan {
        self.see(|case| case.plan())
    }

    pub(crate) fn granted(&self) -> Vec<String> {
        self.plan().grant.iter().map(|h| h.name.to_string()).collect()
    }

    pub(crate) fn given(&self, name: &str) -> Option<Give> {
        self.see(|case| case.due(&self.world.nodes[name]).ok().flatten())
    }

    pub(crate) fn gives_back(&self) -> Vec<String> {
        self.plan().give_back.iter().map(|h| h.name.to_string()).collect()
    }

    /// What is said of a node that waits.
    pub(crate) fn why(&self, name: &str) -> Why {
        let plan = self.plan();
        let waiting = plan.waiting.iter().find(|w| w.node == name);
        waiting.unwrap_or_else(|| panic!("{name} does not wait: {plan:?}")).why.clone()
    }

    /// That the node gets nothing, and why.
    pub(crate) fn kept(&self, name: &str) -> String {
        let plan = self.plan();
        assert!(plan.grant.is_empty() && plan.give.is_empty(), "{plan:?}");
        match self.why(name) {
            Why::Kept(text) => text,
            other => panic!("{name}: {other:?}"),
        }
    }
}
