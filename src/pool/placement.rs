//! On which nodes a daemon pod is expected: those that the DaemonSet selects. On the others the daemon may be a process of
//! the host, which nothing but the Node's `state` tells of.

use super::view::NodeView;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use std::collections::BTreeMap;

/// What a DaemonSet asks of a node's labels and name. Taints are none of it: ours tolerates all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    labels: BTreeMap<String, String>,
    /// At least one holds; none when the DaemonSet has no required affinity.
    terms: Option<Vec<NodeSelectorTerm>>,
}

impl Placement {
    /// From the template of `set`.
    pub fn new(set: &DaemonSet) -> Self {
        let Some(pod) = set.spec.as_ref().and_then(|s| s.template.spec.as_ref()) else { return Self::default() };
        let affinity = pod.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
        let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        Self {
            labels: pod.node_selector.clone().unwrap_or_default(),
            terms: required.map(|r| r.node_selector_terms.clone()),
        }
    }

    /// Whether a pod is expected on `node`.
    pub fn expects(&self, node: &NodeView) -> bool {
        let named = BTreeMap::from([("metadata.name".to_owned(), node.name.as_str().to_owned())]);
        let holds = |term: &NodeSelectorTerm| {
            let expressions = term.match_expressions.iter().flatten().map(|r| (r, &node.labels));
            let fields = term.match_fields.iter().flatten().map(|r| (r, &named));
            let mut all = expressions.chain(fields).peekable();
            // An empty term matches nothing, as the scheduler has it.
            all.peek().is_some() && all.all(|(requirement, labels)| met(requirement, labels))
        };
        self.labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(holds))
    }
}

fn met(requirement: &NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let listed = || value.is_some_and(|v| requirement.values.iter().flatten().any(|other| other == v));
    let compared = |holds: fn(i64, i64) -> bool| {
        let number = value.and_then(|v| v.parse().ok());
        let bound = requirement.values.iter().flatten().next().and_then(|v| v.parse().ok());
        number.zip(bound).is_some_and(|(number, bound)| holds(number, bound))
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|number, bound| number > bound),
        "Lt" => compared(|number, bound| number < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn placement(pod: &Value) -> Placement {
        let set = json!({"spec": {"selector": {}, "template": {"spec": pod}}});
        let mut set: DaemonSet = serde_json::from_value(set).unwrap_or_else(|error| panic!("{error}"));
        set.metadata.name = Some("machine-config-daemon".into());
        Placement::new(&set)
    }

    fn node() -> NodeView {
        let labels = [("kubernetes.io/os", "linux"), ("generation", "7")];
        NodeView {
            name: "w3".into(),
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..NodeView::default()
        }
    }

    #[test]
    fn a_node_that_the_daemonset_leaves_out_is_not_waited_for() {
        let affinity = |term: Value| {
            json!({"containers": [], "affinity": {"nodeAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
        };
        let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (pod, expected) in [
            (json!({"containers": []}), true),
            (json!({"containers": [], "nodeSelector": {"kubernetes.io/os": "linux"}}), true),
            (json!({"containers": [], "nodeSelector": {"kubernetes.io/os": "windows"}}), false),
            (affinity(expression("kubernetes.io/os", "In", json!(["linux"]))), true),
            (affinity(expression("kubernetes.io/os", "NotIn", json!(["linux"]))), false),
            (affinity(expression("host-daemon", "DoesNotExist", json!([]))), true),
            (affinity(expression("host-daemon", "Exists", json!([]))), false),
            (affinity(expression("generation", "Gt", json!(["6"]))), true),
            (affinity(expression("generation", "Lt", json!(["7"]))), false),
            (
                affinity(json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["w3"]}]})),
                false,
            ),
            (affinity(json!({})), false),
        ] {
            assert_eq!(placement(&pod).expects(&node()), expected, "{pod}");
        }
    }
}
