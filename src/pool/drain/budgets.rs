//! Which `PodDisruptionBudgets` protect a pod, and how much they allow. Pure.
//!
//! A drain asks the API server and takes its answer; what is foretold here is what that answer would be now.

use super::pods::BoundPod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::{Selector, SelectorExt as _};

/// A budget with what its status says of its pods.
#[derive(Debug, Clone)]
pub(in crate::pool) struct Budget {
    /// Namespace.
    pub(in crate::pool) namespace: String,
    /// Name.
    pub(in crate::pool) name: String,
    /// None selects nothing: absent, or it cannot be read.
    selector: Option<Selector>,
    /// Pods that may be evicted now.
    pub(in crate::pool) allowed: i32,
    /// Pods that must stay healthy.
    pub(in crate::pool) needed: i32,
    /// Pods that are healthy.
    pub(in crate::pool) healthy: i32,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    always_allow: bool,
}

impl Budget {
    /// Reads a budget. One without a status allows nothing, as for the API server.
    pub(in crate::pool) fn new(budget: &PodDisruptionBudget) -> Self {
        let (spec, status) = (budget.spec.as_ref(), budget.status.as_ref());
        Self {
            namespace: budget.metadata.namespace.clone().unwrap_or_default(),
            name: budget.metadata.name.clone().unwrap_or_default(),
            selector: spec.and_then(|s| s.selector.clone()).and_then(|s| Selector::try_from(s).ok()),
            allowed: status.map_or(0, |s| s.disruptions_allowed),
            needed: status.map_or(0, |s| s.desired_healthy),
            healthy: status.map_or(0, |s| s.current_healthy),
            always_allow: spec.and_then(|s| s.unhealthy_pod_eviction_policy.as_deref()) == Some("AlwaysAllow"),
        }
    }

    /// `namespace/name`.
    pub(in crate::pool) fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether the budget selects the pod.
    pub(in crate::pool) fn protects(&self, pod: &BoundPod) -> bool {
        self.namespace == pod.namespace && self.selector.as_ref().is_some_and(|s| s.matches(&pod.labels))
    }

    /// Whether an eviction of this pod, which the budget protects, uses up what it allows. A pod that is not Ready goes
    /// at no cost where the policy says so, or while enough others are healthy.
    pub(in crate::pool) fn counts(&self, pod: &BoundPod) -> bool {
        pod.ready || !(self.always_allow || (self.healthy >= self.needed && self.needed > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(namespace: &str, ready: bool) -> BoundPod {
        let status = if ready { "True" } else { "False" };
        let value = json!({
            "metadata": {"name": "db-0", "namespace": namespace, "labels": {"app": "db"}},
            "status": {"conditions": [{"type": "Ready", "status": status}]}
        });
        BoundPod::new(&serde_json::from_value(value).unwrap(), "mcx-system")
    }

    fn budget(spec: &serde_json::Value, healthy: i32) -> Budget {
        let status =
            json!({"currentHealthy": healthy, "desiredHealthy": 2, "disruptionsAllowed": 0, "expectedPods": 3});
        let value = json!({"metadata": {"name": "b", "namespace": "shop"}, "spec": spec, "status": status});
        Budget::new(&serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_budget_protects_what_it_selects_in_its_namespace() {
        for (selector, protects) in [
            (json!({"selector": {"matchLabels": {"app": "db"}}}), true),
            (json!({"selector": {}}), true),
            (json!({}), false),
            (json!({"selector": {"matchLabels": {"app": "web"}}}), false),
        ] {
            assert_eq!(budget(&selector, 2).protects(&pod("shop", true)), protects, "{selector}");
            assert!(!budget(&selector, 2).protects(&pod("other", true)), "{selector}");
        }
    }

    #[test]
    fn a_pod_that_is_not_ready_is_held_only_while_too_few_are_healthy() {
        let usual = json!({"selector": {}});
        let always = json!({"selector": {}, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
        assert!(budget(&usual, 3).counts(&pod("shop", true)));
        assert!(!budget(&usual, 2).counts(&pod("shop", false)));
        assert!(budget(&usual, 1).counts(&pod("shop", false)), "R-077");
        assert!(!budget(&always, 1).counts(&pod("shop", false)));
    }
}
