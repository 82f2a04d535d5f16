//! What `kubectl apply` makes of an object that is there: what is given is laid over it; what an earlier apply gave and this
//! one does not is removed; the rest stays, be it written by the controller or by hand. Lists are replaced as a whole.

use crate::pool::caches::LAST_APPLIED;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// `live` after `given` was applied. What it would be if it could not be read afterwards is `given` itself.
pub fn apply<K: Resource + Serialize + DeserializeOwned + Clone>(live: &K, given: &K) -> K {
    let applied = || {
        let annotations = live.meta().annotations.as_ref();
        let last = annotations.and_then(|a| serde_json::from_str(a.get(LAST_APPLIED)?).ok()).unwrap_or_default();
        let mut given = serde_json::to_value(given).ok()?;
        // Its status is not for apply to write.
        given.as_object_mut()?.remove("status");
        let merged = merged(serde_json::to_value(live).ok()?, &last, given);
        serde_json::from_value(merged).ok()
    };
    applied().unwrap_or_else(|| given.clone())
}

fn merged(live: Value, last: &Value, given: Value) -> Value {
    let (mut live, given) = match (live, given) {
        (Value::Object(live), Value::Object(given)) => (live, given),
        (_, Value::Object(given)) => (Map::new(), given),
        (_, given) => return given,
    };
    if let Some(last) = last.as_object() {
        live.retain(|key, _| given.contains_key(key) || !last.contains_key(key) || is_identity(key));
    }
    for (key, value) in given {
        let before = live.remove(&key).unwrap_or_default();
        live.insert(key.clone(), merged(before, last.get(&key).unwrap_or(&Value::Null), value));
    }
    Value::Object(live)
}

/// Fields by which an object is what it is: types that are read do not carry all of them.
fn is_identity(key: &str) -> bool {
    ["apiVersion", "kind", "name"].contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::MachineConfigPool;
    use serde_json::json;

    fn pool(spec: &Value, last: Option<&Value>) -> MachineConfigPool {
        let mut pool = json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfigPool",
            "metadata": {"name": "infra", "uid": "u"}, "spec": spec});
        if let Some(last) = last {
            let last = json!({"metadata": {"name": "infra"}, "spec": last}).to_string();
            pool["metadata"]["annotations"] = json!({LAST_APPLIED: last});
        }
        serde_json::from_value(pool).unwrap()
    }

    #[test]
    fn what_was_written_by_others_stays_and_what_an_earlier_apply_gave_goes() {
        let live = pool(
            &json!({"paused": true, "maxUnavailable": 3, "configuration": {"name": "x"},
                "nodeSelector": {"matchLabels": {"a": "1", "b": "2"}}}),
            Some(&json!({"maxUnavailable": 3, "nodeSelector": {"matchLabels": {"a": "1"}}})),
        );
        let given = pool(&json!({"nodeSelector": {"matchLabels": {"c": "3"}}}), None);
        let applied = apply(&live, &given);
        assert_eq!(applied.target(), Some("x"));
        assert!(applied.is_paused(), "paused by hand");
        assert_eq!(applied.spec.max_unavailable, None, "given earlier, and no more");
        let labels = applied.spec.node_selector.unwrap().match_labels.unwrap();
        assert_eq!(labels.keys().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(applied.metadata.uid.as_deref(), Some("u"));
    }

    #[test]
    fn what_is_given_again_changes_nothing() {
        let spec = json!({"maxUnavailable": "20%", "machineConfigSelector": {"matchExpressions": [
            {"key": "k", "operator": "In", "values": ["a", "b"]}]}});
        let live = pool(&spec, Some(&spec));
        assert_eq!(apply(&live, &pool(&spec, None)), live);
    }
}
