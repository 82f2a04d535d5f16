//! What the drain of a node would meet: the pods that go, the budgets that hold them, and what nobody puts back.
//!
//! Which pods go is the drain's own rule; what a budget would answer is read from its status now.

use crate::api::{NodeName, Uid};
use crate::pool::drain::answer::{held_by, several_budgets};
use crate::pool::drain::budgets::Budget;
use crate::pool::drain::pods::{BoundPod, Fate, fate};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What the drain of one node would meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDrain {
    /// The node.
    pub node: NodeName,
    /// How many pods would be evicted.
    pub evictions: usize,
    /// Pods that would not go, with what holds them: the drain does not end before a person or a replacement helps.
    pub blocked: Vec<String>,
    /// Budgets that let pods of the node go only one after the other, as replacements become ready.
    pub slow: Vec<String>,
    /// Pods without a controller: nobody makes them again.
    pub bare: Vec<String>,
    /// Pods with `emptyDir` volumes: what is in those is lost.
    pub empty_dir: Vec<String>,
}

/// The pods of the nodes that are asked for, and what protects them.
#[derive(Debug, Default)]
pub struct Pods {
    namespace: String,
    wanted: BTreeSet<NodeName>,
    by_node: BTreeMap<NodeName, Vec<BoundPod>>,
    budgets: Vec<Budget>,
    daemon_sets: BTreeSet<Uid>,
}

impl Pods {
    /// Of these nodes. `namespace` is that of mcx.
    pub fn of(wanted: BTreeSet<NodeName>, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), wanted, ..Self::default() }
    }

    /// Adds a pod, if it is on one of the nodes.
    pub fn pod(&mut self, pod: &Pod) {
        let node = pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).map(NodeName::from);
        if let Some(node) = node.filter(|node| self.wanted.contains(node)) {
            self.by_node.entry(node).or_default().push(BoundPod::new(pod, &self.namespace));
        }
    }

    /// Adds a budget.
    pub fn budget(&mut self, budget: &PodDisruptionBudget) {
        self.budgets.push(Budget::new(budget));
    }

    /// Adds a DaemonSet: its pods stay. Those of one that is not there go.
    pub fn daemon_set(&mut self, set: &DaemonSet) {
        self.daemon_sets.extend(set.metadata.uid.clone().map(Uid::from));
    }

    /// Takes every pod's DaemonSet to be there: for inputs that hold none.
    pub fn trust_owners(&mut self) {
        let owners = self.by_node.values().flatten().filter_map(|pod| pod.daemon_set.as_ref());
        let owners: BTreeSet<Uid> = owners.map(|(_, uid)| uid.clone()).collect();
        self.daemon_sets.extend(owners);
    }

    /// What the drain of this node would meet.
    pub fn drain(&self, node: &NodeName) -> NodeDrain {
        let here = self.by_node.get(node).into_iter().flatten();
        let mut going: Vec<&BoundPod> = here.filter(|pod| fate(pod, &self.daemon_sets, None) != Fate::Stays).collect();
        going.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let mut drain = NodeDrain {
            node: node.clone(),
            evictions: going.len(),
            blocked: Vec::new(),
            slow: Vec::new(),
            bare: going.iter().filter(|pod| pod.owner.is_none()).map(|pod| pod.title()).collect(),
            empty_dir: going
                .iter()
                .filter(|pod| !pod.empty_dirs.is_empty())
                .map(|pod| format!("{} ({})", pod.title(), pod.empty_dirs.join(", ")))
                .collect(),
        };
        // How many pods of this node use up what each budget allows.
        let mut counted: BTreeMap<String, (usize, &Budget)> = BTreeMap::new();
        for pod in going.iter().filter(|pod| !pod.at_no_cost) {
            let mut protecting: Vec<&Budget> = self.budgets.iter().filter(|budget| budget.protects(pod)).collect();
            protecting.sort_by(|a, b| a.name.cmp(&b.name));
            match protecting.as_slice() {
                [] => {}
                [budget] if !budget.counts(pod) => {}
                [budget] if budget.allowed <= 0 => {
                    drain.blocked.push(held_by(pod, &budget.name, &budget.needed, &budget.healthy));
                }
                [budget] => counted.entry(budget.title()).or_insert((0, budget)).0 += 1,
                several => {
                    let names: Vec<String> = several.iter().map(|budget| budget.title()).collect();
                    drain.blocked.push(several_budgets(pod, &names));
                }
            }
        }
        for (title, (pods, budget)) in counted {
            if usize::try_from(budget.allowed).is_ok_and(|allowed| pods > allowed) {
                drain.slow.push(format!(
                    "PodDisruptionBudget {title} allows {} now, and {pods} of its pods are on the node: \
                     the others go as replacements become ready",
                    budget.allowed
                ));
            }
        }
        drain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, node: &str, extra: &Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "db"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "s", "controller": true}]},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        });
        for (key, value) in extra.as_object().unwrap() {
            let (part, key) = key.split_once('.').unwrap();
            pod[part][key] = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    fn budget(name: &str, allowed: i32) -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": allowed, "desiredHealthy": 2, "currentHealthy": 2 + allowed, "expectedPods": 3}
        }))
        .unwrap()
    }

    fn drain(pods: &[Pod], budgets: &[PodDisruptionBudget]) -> NodeDrain {
        let mut all = Pods::of(BTreeSet::from(["w1".into()]), "mcx-system");
        for p in pods {
            all.pod(p);
        }
        for b in budgets {
            all.budget(b);
        }
        all.drain(&"w1".into())
    }

    #[test]
    fn a_budget_that_allows_nothing_blocks_and_is_named_with_pod_and_numbers() {
        let none = json!({});
        let pods = [pod("db-0", "w1", &none), pod("db-1", "w2", &none)];
        let met = drain(&pods, &[budget("db", 0)]);
        assert_eq!(met.evictions, 1, "pods of other nodes are not looked at");
        assert_eq!(met.blocked, ["pod shop/db-0: PodDisruptionBudget shop/db needs 2 healthy pods and has 2"]);
        assert_eq!(drain(&pods, &[budget("db", 1)]).blocked, Vec::<String>::new());
    }

    #[test]
    fn a_pod_under_two_budgets_blocks_whatever_they_allow() {
        let met = drain(&[pod("db-0", "w1", &json!({}))], &[budget("b", 1), budget("a", 5)]);
        assert!(met.blocked[0].contains("pod shop/db-0") && met.blocked[0].contains("(shop/a, shop/b)"), "{met:?}");
    }

    #[test]
    fn more_pods_on_a_node_than_a_budget_allows_go_one_after_the_other() {
        let pods: Vec<Pod> = (0..3).map(|n| pod(&format!("db-{n}"), "w1", &json!({}))).collect();
        let met = drain(&pods, &[budget("db", 2)]);
        assert!(met.blocked.is_empty() && met.slow.len() == 1, "{met:?}");
        assert!(met.slow[0].contains("shop/db allows 2 now, and 3"), "{met:?}");
        assert!(drain(&pods, &[budget("db", 3)]).slow.is_empty());
    }

    #[test]
    fn pods_that_have_not_begun_or_have_ended_are_held_by_no_budget() {
        for phase in ["Pending", "Succeeded", "Failed"] {
            let met = drain(&[pod("db-0", "w1", &json!({"status.phase": phase}))], &[budget("db", 0)]);
            assert!(met.evictions == 1 && met.blocked.is_empty(), "{phase}: {met:?}");
        }
    }

    #[test]
    fn what_nobody_puts_back_is_named_and_what_stays_is_not() {
        let set = json!({"metadata.ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]});
        let cache = json!({"spec.volumes": [
            {"name": "tmp", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "c"}}, {"name": "data", "emptyDir": {}}]});
        let pods = [
            pod("bare", "w1", &json!({"metadata.ownerReferences": []})),
            pod("cache", "w1", &cache),
            pod("ds", "w1", &set),
        ];
        let mut all = Pods::of(BTreeSet::from(["w1".into()]), "mcx-system");
        for p in &pods {
            all.pod(p);
        }
        assert_eq!(all.drain(&"w1".into()).evictions, 3, "its DaemonSet is gone");
        all.trust_owners();
        let met = all.drain(&"w1".into());
        assert_eq!((met.evictions, met.bare), (2, vec!["pod shop/bare".to_owned()]));
        assert_eq!(met.empty_dir, ["pod shop/cache (tmp, data)"]);
    }
}
