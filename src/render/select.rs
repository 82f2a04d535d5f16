//! Label selectors, with the full semantics of Kubernetes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// Whether `labels` satisfy `selector`. An empty selector matches everything.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    let mut all = selector.match_labels.iter().flatten().all(|(k, v)| labels.get(k) == Some(v));
    for e in selector.match_expressions.iter().flatten() {
        let (found, values) = (labels.get(&e.key), e.values.as_deref().unwrap_or_default());
        all &= match e.operator.as_str() {
            "In" => found.is_some_and(|v| values.contains(v)),
            "NotIn" => !found.is_some_and(|v| values.contains(v)),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            other => return Err(format!("operator `{other}` of key {} is not known", e.key)),
        };
    }
    Ok(all)
}
