//! Which pool a node is in: exactly one, or none, by a fixed rule.
//!
//! A node with the role label `master` or `control-plane` is in pool `master`; else it is in its one custom pool; else
//! in `worker` if that selects it. A node that two custom pools select is in neither, and a node that none selects is
//! left alone. Pure; what follows from membership is decided elsewhere.

use super::view::NodeView;
use crate::api::{ConfigName, MachineConfigPool, NodeName, PoolName, label};
use crate::render::select;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All pools of a cluster, by name.
pub type Pools = BTreeMap<PoolName, Arc<MachineConfigPool>>;

/// Where one node belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this pool.
    In(PoolName),
    /// In none, since these custom pools all select it.
    Ambiguous(Vec<PoolName>),
    /// In none, since no pool selects it.
    Unmanaged,
}

/// Where all nodes belong.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Membership {
    /// Nodes of every pool, in the order of a rollout: creation time, then name. Each node is in one list at most.
    pub by_pool: BTreeMap<PoolName, Vec<NodeName>>,
    /// Nodes that several custom pools select, with those pools.
    pub ambiguous: BTreeMap<NodeName, Vec<PoolName>>,
    /// Nodes that no pool selects.
    pub unmanaged: Vec<NodeName>,
    /// Pools that are refused, and why. Their nodes stay in them and keep what they have.
    pub refused: BTreeMap<PoolName, String>,
    /// Control-plane nodes that a custom pool selects too, which counts for nothing.
    pub ignored: BTreeMap<PoolName, Vec<NodeName>>,
    by_node: BTreeMap<NodeName, PoolName>,
}

impl Membership {
    /// Of all nodes.
    pub fn new(pools: &Pools, nodes: &BTreeMap<NodeName, Arc<NodeView>>) -> Self {
        let mut all = Self {
            by_pool: pools.keys().map(|name| (name.clone(), Vec::new())).collect(),
            refused: pools.iter().filter_map(|(name, pool)| Some((name.clone(), refusal(pool)?))).collect(),
            ..Self::default()
        };
        let mut ordered: Vec<&NodeView> = nodes.values().map(Arc::as_ref).collect();
        ordered.sort_by(|a, b| rank(a).cmp(&rank(b)));
        for node in ordered {
            match place(pools, node) {
                Place::In(pool) => {
                    if is_control_plane(node) {
                        for custom in custom_pools(pools, node) {
                            all.ignored.entry(custom).or_default().push(node.name.clone());
                        }
                    }
                    all.by_node.insert(node.name.clone(), pool.clone());
                    all.by_pool.entry(pool).or_default().push(node.name.clone());
                }
                Place::Ambiguous(of) => {
                    all.ambiguous.insert(node.name.clone(), of);
                }
                Place::Unmanaged => all.unmanaged.push(node.name.clone()),
            }
        }
        all
    }

    /// The pool that `node` is in.
    pub fn pool_of(&self, node: &NodeName) -> Option<&PoolName> {
        self.by_node.get(node)
    }

    /// What is said of a node that several custom `pools` select.
    pub fn ambiguity(pools: &[PoolName]) -> String {
        let of: Vec<&str> = pools.iter().map(PoolName::as_str).collect();
        format!("is selected by custom pools {}: it gets no new config until its labels fit one", of.join(", "))
    }

    /// Nodes of `pool`, in the order of a rollout.
    pub fn nodes_of(&self, pool: &PoolName) -> &[NodeName] {
        self.by_pool.get(pool).map_or(&[], Vec::as_slice)
    }
}

/// Place of a node in the order of a rollout: oldest first, then by name.
pub fn rank(node: &NodeView) -> impl Ord + use<'_> {
    (node.created, &node.name)
}

/// Where `node` belongs.
pub fn place(pools: &Pools, node: &NodeView) -> Place {
    if is_control_plane(node) {
        let master = pools.contains_key(label::MASTER).then(|| Place::In(label::MASTER.into()));
        return master.unwrap_or(Place::Unmanaged);
    }
    let mut custom = custom_pools(pools, node);
    match custom.len() {
        0 => match pools.get(label::WORKER) {
            Some(worker) if selects(worker, node) => Place::In(label::WORKER.into()),
            _ => Place::Unmanaged,
        },
        1 => Place::In(custom.remove(0)),
        _ => Place::Ambiguous(custom),
    }
}

/// The pool that a rendered config was made for, by its name.
pub fn pool_of_config(config: &ConfigName) -> Option<PoolName> {
    config.pool().map(PoolName::from)
}

fn is_control_plane(node: &NodeView) -> bool {
    [label::NODE_ROLE_MASTER, label::NODE_ROLE_CONTROL_PLANE].iter().any(|role| node.labels.contains_key(*role))
}

fn custom_pools(pools: &Pools, node: &NodeView) -> Vec<PoolName> {
    let selecting = pools.values().filter(|pool| select::is_custom(pool) && selects(pool, node));
    selecting.map(|pool| pool.name().into()).collect()
}

/// Absent selects nothing, `{}` everything. A selector that cannot be read goes on selecting the nodes that
/// have the pool's config: a slip in it must not throw them into another pool.
fn selects(pool: &MachineConfigPool, node: &NodeView) -> bool {
    let Some(selector) = &pool.spec.node_selector else { return false };
    select::matches(Some(selector), &node.labels).unwrap_or_else(|_| {
        let has = node.desired.as_ref().or(node.current.as_ref()).and_then(pool_of_config);
        has.is_some_and(|has| has == *pool.name())
    })
}

/// Why a pool is refused; none when it is not. Says field and next step.
fn refusal(pool: &MachineConfigPool) -> Option<String> {
    if let Some(Err(error)) = pool.spec.node_selector.as_ref().map(select::check) {
        return Some(format!("spec.nodeSelector.{error}; its nodes keep what they have until it is corrected"));
    }
    if !select::is_custom(pool) {
        return None;
    }
    match select::inherits_worker(pool) {
        Err(error) => return Some(format!("spec.machineConfigSelector.{error}; correct it")),
        Ok(false) => {
            return Some(format!(
                "spec.machineConfigSelector: does not select the sources of pool worker, which a custom pool inherits; \
                 select {} In (worker, {})",
                label::ROLE,
                pool.name()
            ));
        }
        Ok(true) => {}
    }
    let role = select::asks_for_masters(pool)?;
    Some(format!(
        "spec.nodeSelector: requires {role}, and a custom pool cannot be for control-plane nodes: they stay in pool \
         master; select worker nodes, or put the sources into pool master"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{MachineConfigPoolSpec, shipped};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
    use k8s_openapi::jiff::Timestamp;
    use proptest::prelude::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        }
    }

    fn custom(name: &str, nodes: LabelSelector) -> MachineConfigPool {
        let sources = LabelSelector {
            match_expressions: Some(vec![requirement(label::ROLE, "In", &["worker", name])]),
            match_labels: None,
        };
        let spec = MachineConfigPoolSpec {
            machine_config_selector: Some(sources),
            node_selector: Some(nodes),
            ..MachineConfigPoolSpec::default()
        };
        MachineConfigPool::new(name, spec)
    }

    fn role(name: &str) -> LabelSelector {
        let labels = BTreeMap::from([(format!("{}{name}", label::NODE_ROLE_PREFIX), String::new())]);
        LabelSelector { match_labels: Some(labels), match_expressions: None }
    }

    fn pools(more: Vec<MachineConfigPool>) -> Pools {
        shipped::pools().into_iter().chain(more).map(|p| (p.name().into(), Arc::new(p))).collect()
    }

    fn node(name: &str, roles: &[&str]) -> NodeView {
        let labels = roles.iter().map(|r| (format!("{}{r}", label::NODE_ROLE_PREFIX), String::new())).collect();
        NodeView { name: name.into(), uid: name.into(), labels, ..NodeView::default() }
    }

    fn nodes(all: Vec<NodeView>) -> BTreeMap<NodeName, Arc<NodeView>> {
        all.into_iter().map(|n| (n.name.clone(), Arc::new(n))).collect()
    }

    #[test]
    fn every_node_has_one_place() {
        let all = pools(vec![custom("infra", role("infra")), custom("gpu", role("gpu"))]);
        let place_of = |roles: &[&str]| place(&all, &node("n", roles));
        let cases: [(&[&str], Place); 9] = [
            (&["master"], Place::In("master".into())),
            (&["control-plane"], Place::In("master".into())),
            (&["control-plane", "worker"], Place::In("master".into())),
            (&["control-plane", "infra", "gpu"], Place::In("master".into())),
            (&["worker"], Place::In("worker".into())),
            (&["worker", "infra"], Place::In("infra".into())),
            (&["infra"], Place::In("infra".into())),
            (&["worker", "infra", "gpu"], Place::Ambiguous(vec!["gpu".into(), "infra".into()])),
            (&[], Place::Unmanaged),
        ];
        for (roles, expected) in cases {
            assert_eq!(place_of(roles), expected, "{roles:?}");
        }
    }

    #[test]
    fn a_control_plane_node_without_pool_master_is_in_none_rather_than_in_worker() {
        let mut all = pools(vec![custom("infra", role("infra"))]);
        all.remove(label::MASTER);
        assert_eq!(place(&all, &node("n", &["control-plane", "worker", "infra"])), Place::Unmanaged);
    }

    #[test]
    fn a_custom_label_on_a_control_plane_node_is_named_and_counts_for_nothing() {
        //
        let all = pools(vec![custom("infra", role("infra"))]);
        let membership = Membership::new(&all, &nodes(vec![node("m", &["master", "infra"])]));
        assert_eq!(membership.nodes_of(&"master".into()), ["m"]);
        assert_eq!(membership.ignored[&PoolName::from("infra")], ["m"]);
    }

    #[test]
    fn absent_selects_none_and_empty_selects_all() {
        //
        let mut none = custom("none", LabelSelector::default());
        none.spec.node_selector = None;
        let every = custom("every", LabelSelector::default());
        assert_eq!(place(&pools(vec![none]), &node("n", &[])), Place::Unmanaged);
        assert_eq!(place(&pools(vec![every]), &node("n", &[])), Place::In("every".into()));
    }

    #[test]
    fn a_custom_pool_that_does_not_inherit_worker_is_refused_and_keeps_its_nodes() {
        // R-037, by labels and by expressions.
        let by_label = LabelSelector {
            match_labels: Some(BTreeMap::from([(label::ROLE.to_owned(), "infra".to_owned())])),
            match_expressions: None,
        };
        let by_expression = LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![requirement(label::ROLE, "NotIn", &["worker"])]),
        };
        for selector in [Some(by_label), Some(by_expression), None] {
            let mut pool = custom("infra", role("infra"));
            pool.spec.machine_config_selector = selector;
            let membership = Membership::new(&pools(vec![pool]), &nodes(vec![node("n", &["worker", "infra"])]));
            assert!(membership.refused[&PoolName::from("infra")].starts_with("spec.machineConfigSelector"));
            assert_eq!(membership.nodes_of(&"infra".into()), ["n"]);
            assert!(membership.nodes_of(&"worker".into()).is_empty());
        }
    }

    #[test]
    fn a_custom_pool_over_masters_is_refused() {
        let by_expression = LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![requirement(label::NODE_ROLE_CONTROL_PLANE, "Exists", &[])]),
        };
        for selector in [role("master"), by_expression] {
            let membership =
                Membership::new(&pools(vec![custom("mine", selector)]), &nodes(vec![node("m", &["master"])]));
            let why = &membership.refused[&PoolName::from("mine")];
            assert!(why.starts_with("spec.nodeSelector:") && why.contains("control-plane"), "{why}");
            assert_eq!(membership.nodes_of(&"master".into()), ["m"]);
        }
        let without = LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![requirement(label::NODE_ROLE_CONTROL_PLANE, "DoesNotExist", &[])]),
        };
        assert!(Membership::new(&pools(vec![custom("mine", without)]), &BTreeMap::new()).refused.is_empty());
        assert!(Membership::new(&pools(vec![]), &BTreeMap::new()).refused.is_empty());
    }

    #[test]
    fn a_slip_in_a_node_selector_does_not_throw_nodes_into_worker() {
        let mut slip = role("infra");
        slip.match_expressions = Some(vec![requirement("zone", "Inn", &["a"])]);
        let mut has_it = node("a", &["worker", "infra"]);
        has_it.desired = Some(ConfigName::from("rendered-infra-0123456789abcdef0123456789abcdef"));
        let other = node("b", &["worker"]);
        let membership = Membership::new(&pools(vec![custom("infra", slip)]), &nodes(vec![has_it, other]));
        assert_eq!(membership.nodes_of(&"infra".into()), ["a"]);
        assert_eq!(membership.nodes_of(&"worker".into()), ["b"]);
        assert!(membership.refused[&PoolName::from("infra")].contains("spec.nodeSelector"));
    }

    #[test]
    fn the_oldest_node_is_first_and_ties_go_by_name() {
        //
        let at = |seconds| Some(Timestamp::from_second(seconds).unwrap());
        let aged = |name: &str, created| NodeView { created, ..node(name, &["worker"]) };
        let all = nodes(vec![aged("a", at(30)), aged("b", at(20)), aged("d", at(10)), aged("c", at(10))]);
        let membership = Membership::new(&pools(vec![]), &all);
        assert_eq!(membership.nodes_of(&"worker".into()), ["c", "d", "b", "a"]);
    }

    #[test]
    fn the_pool_of_a_config_is_read_from_the_right() {
        let config = |text: &str| pool_of_config(&ConfigName::from(text));
        assert_eq!(config("rendered-my-odd-7-pool-0123456789abcdef0123456789abcdef"), Some("my-odd-7-pool".into()));
        for text in ["rendered-worker-00ff", "00-worker", "rendered--0123456789abcdef0123456789abcdef"] {
            assert_eq!(config(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn counts_add_up_to_the_number_of_nodes(labels in prop::collection::vec(prop::collection::vec(0..5_usize, 0..4), 0..12)) {
            // a node is counted exactly once.
            let roles = ["master", "control-plane", "worker", "infra", "gpu"];
            let all: Vec<NodeView> = labels
                .iter()
                .enumerate()
                .map(|(i, of)| node(&format!("n{i}"), &of.iter().map(|r| roles[*r]).collect::<Vec<_>>()))
                .collect();
            let count = all.len();
            let every = pools(vec![custom("infra", role("infra")), custom("gpu", role("gpu"))]);
            let membership = Membership::new(&every, &nodes(all));
            let members: usize = membership.by_pool.values().map(Vec::len).sum();
            prop_assert_eq!(members + membership.ambiguous.len() + membership.unmanaged.len(), count);
            prop_assert_eq!(membership.by_node.len(), members);
        }
    }
}
