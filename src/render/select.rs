//! Label selectors, and which sources a pool takes by them.
//!
//! Which nodes a pool takes uses the same [`matches()`]; what follows from it is the controller's.

use super::finding::Finding;
use super::{nearest, rule};
use crate::api::{MachineConfig, MachineConfigPool, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// Why a selector cannot be read. The API server does not check selectors inside custom resources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Not one of the four operators.
    #[error("matchExpressions[{index}].operator: `{operator}` is not one of In, NotIn, Exists, DoesNotExist")]
    Operator {
        /// Position in `matchExpressions`.
        index: usize,
        /// What stands there.
        operator: String,
    },
    /// `In` or `NotIn` without values.
    #[error("matchExpressions[{index}].values: {operator} needs at least one value")]
    NoValues {
        /// Position in `matchExpressions`.
        index: usize,
        /// What stands there.
        operator: String,
    },
    /// `Exists` or `DoesNotExist` with values.
    #[error("matchExpressions[{index}].values: {operator} takes no values")]
    Values {
        /// Position in `matchExpressions`.
        index: usize,
        /// What stands there.
        operator: String,
    },
    /// A key that no object can carry as a label.
    #[error("{at}: `{}` is no label key (an optional DNS name and /, then at most 63 letters, digits, - _ .)", .key.escape_debug())]
    Key {
        /// Field within the selector.
        at: String,
        /// What stands there.
        key: String,
    },
    /// A value that no label can have.
    #[error("{at}: `{}` is no label value (at most 63 letters, digits, - _ ., beginning and ending with a letter or digit)", .value.escape_debug())]
    Value {
        /// Field within the selector.
        at: String,
        /// What stands there.
        value: String,
    },
}

impl SelectorError {
    /// The field within the selector that is wrong, `matchExpressions[0].operator`.
    pub fn field(&self) -> String {
        match self {
            Self::Operator { index, .. } => format!("matchExpressions[{index}].operator"),
            Self::NoValues { index, .. } | Self::Values { index, .. } => format!("matchExpressions[{index}].values"),
            Self::Key { at, .. } | Self::Value { at, .. } => at.clone(),
        }
    }
}

/// Whether `selector` selects an object with these labels: absent selects none, `{}` all. `NotIn` also selects objects
/// without the key. A selector that cannot be read is an error whatever the labels are.
pub fn matches(selector: Option<&LabelSelector>, labels: &BTreeMap<String, String>) -> Result<bool, SelectorError> {
    let Some(selector) = selector else { return Ok(false) };
    check(selector)?;
    let exact = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let expressions = selector.match_expressions.iter().flatten().all(|e| {
        let found = labels.get(&e.key);
        let listed = |value: &String| e.values.iter().flatten().any(|v| v == value);
        match e.operator.as_str() {
            "In" => found.is_some_and(listed),
            "NotIn" => !found.is_some_and(listed),
            "Exists" => found.is_some(),
            // `check` has let no other operator pass.
            _ => found.is_none(),
        }
    });
    Ok(exact && expressions)
}

/// Reads a selector without applying it.
pub fn check(selector: &LabelSelector) -> Result<(), SelectorError> {
    for (key, value) in selector.match_labels.iter().flatten() {
        is_key(key, || format!("matchLabels.{}", key.escape_debug()))?;
        is_value(value, || format!("matchLabels.{}", key.escape_debug()))?;
    }
    for (index, e) in selector.match_expressions.iter().flatten().enumerate() {
        is_key(&e.key, || format!("matchExpressions[{index}].key"))?;
        let values = e.values.as_deref().unwrap_or_default();
        let operator = e.operator.clone();
        match e.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => return Err(SelectorError::NoValues { index, operator }),
            "In" | "NotIn" => {
                for (i, value) in values.iter().enumerate() {
                    is_value(value, || format!("matchExpressions[{index}].values[{i}]"))?;
                }
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => return Err(SelectorError::Values { index, operator }),
            "Exists" | "DoesNotExist" => {}
            _ => return Err(SelectorError::Operator { index, operator }),
        }
    }
    Ok(())
}

fn is_key(key: &str, at: impl Fn() -> String) -> Result<(), SelectorError> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fits = prefix.is_none_or(is_dns_name);
    if prefix_fits && !name.is_empty() && is_label_text(name) {
        return Ok(());
    }
    Err(SelectorError::Key { at: at(), key: key.to_owned() })
}

fn is_value(value: &str, at: impl Fn() -> String) -> Result<(), SelectorError> {
    if is_label_text(value) { Ok(()) } else { Err(SelectorError::Value { at: at(), value: value.to_owned() }) }
}

/// At most 63 letters, digits, `-_.`, with a letter or digit at both ends; or nothing.
pub(super) fn is_label_text(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let end = |c: char| c.is_ascii_alphanumeric();
    text.is_empty() || (text.len() <= 63 && text.chars().all(inner) && text.starts_with(end) && text.ends_with(end))
}

/// A DNS subdomain, as object names are: at most 253 bytes of lower-case labels with dots between.
pub(super) fn is_dns_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|label| {
            label.starts_with(inner) && label.ends_with(inner) && label.chars().all(|c| inner(c) || c == '-')
        })
}

/// Whether the pool is neither `master` nor `worker`.
pub fn is_custom(pool: &MachineConfigPool) -> bool {
    pool.name() != label::MASTER && pool.name() != label::WORKER
}

/// Whether a custom pool takes the sources of `worker`: its selector matches the label set {role: worker}.
pub fn inherits_worker(pool: &MachineConfigPool) -> Result<bool, SelectorError> {
    let worker = BTreeMap::from([(label::ROLE.to_owned(), label::WORKER.to_owned())]);
    matches(pool.spec.machine_config_selector.as_ref(), &worker)
}

/// The control-plane role label that a pool's `nodeSelector` asks for, if it does.
///
/// It asks for one when a node must carry it to be selected: by `matchLabels`, `In` or `Exists`. A wider selector (`{}`,
/// another label) may select control-plane nodes, too; that is no fault, since those are in `master` whatever else selects them.
pub fn asks_for_masters(pool: &MachineConfigPool) -> Option<&'static str> {
    let selector = pool.spec.node_selector.as_ref()?;
    [label::NODE_ROLE_MASTER, label::NODE_ROLE_CONTROL_PLANE].into_iter().find(|role| {
        let exact = selector.match_labels.iter().flatten().any(|(key, _)| key == role);
        let asked = |operator: &str| operator == "In" || operator == "Exists";
        exact || selector.match_expressions.iter().flatten().any(|e| e.key == *role && asked(&e.operator))
    })
}

/// Whether a pool selects a source. Not asked of rendered configs, which are never sources.
pub fn selects(pool: &MachineConfigPool, source: &MachineConfig) -> Result<bool, SelectorError> {
    let none = BTreeMap::new();
    matches(pool.spec.machine_config_selector.as_ref(), source.metadata.labels.as_ref().unwrap_or(&none))
}

/// The sources that a pool selects, in order of merge: byte order of their names. Rendered configs are left out.
pub fn sources<'a>(
    pool: &MachineConfigPool,
    all: &'a [MachineConfig],
) -> Result<Vec<&'a MachineConfig>, SelectorError> {
    selected(pool, all, |config| config)
}

/// As [`sources`], of anything that has a `MachineConfig`.
pub(super) fn selected<'a, T>(
    pool: &MachineConfigPool,
    all: &'a [T],
    config: impl Fn(&T) -> &MachineConfig,
) -> Result<Vec<&'a T>, SelectorError> {
    if let Some(selector) = &pool.spec.machine_config_selector {
        // Also without any source: a slip must not wait for the first one to show.
        check(selector)?;
    }
    let mut selected = Vec::new();
    for source in all.iter().filter(|s| !config(s).is_rendered()) {
        if selects(pool, config(source))? {
            selected.push(source);
        }
    }
    selected.sort_by(|a, b| config(a).name().as_bytes().cmp(config(b).name().as_bytes()));
    Ok(selected)
}

/// Sources that none of `pools` selects: written for nobody, or with a slip in a label.
pub fn unselected(pools: &[MachineConfigPool], all: &[MachineConfig]) -> Vec<Finding> {
    // A selector that cannot be read is a finding of its pool.
    let taken = |source: &MachineConfig| pools.iter().any(|p| selects(p, source) == Ok(true));
    let mut found: Vec<Finding> = all
        .iter()
        .filter(|c| !c.is_rendered() && !taken(c))
        .map(|c| {
            let object = format!("MachineConfig/{}", c.name());
            let mut finding =
                rule::SOURCE_UNSELECTED.finding(&object, "metadata.labels", "no pool selects these labels");
            finding.help = role_meant(pools, c).unwrap_or(finding.help);
            finding
        })
        .collect();
    found.sort_by(|a, b| a.object.cmp(&b.object));
    found
}

/// What the role of a source was probably meant to be: another spelling of a pool's, or the same under another key.
fn role_meant(pools: &[MachineConfigPool], source: &MachineConfig) -> Option<String> {
    let labels = source.metadata.labels.as_ref()?;
    if let Some(role) = labels.get(label::ROLE) {
        let near = nearest::nearest(role, pools.iter().map(MachineConfigPool::name))?;
        return Some(nearest::meant(&format!("{}: {near}", label::ROLE)));
    }
    let is_pool = |value: &String| pools.iter().any(|p| p.name() == value);
    let (key, role) = labels.iter().find(|(key, value)| key.ends_with("/role") && is_pool(value))?;
    Some(format!("write {}: {role} for {}", label::ROLE, key.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn selector(value: &Value) -> LabelSelector {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn pool(name: &str, spec: &Value) -> MachineConfigPool {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_source_that_no_pool_selects_is_told_what_its_role_was_meant_to_be() {
        let pools = crate::api::shipped::pools();
        let help = |key: &str, role: &str| {
            let config = MachineConfig {
                metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                    name: Some("10-a".to_owned()),
                    labels: Some(labels(&[(key, role)])),
                    ..Default::default()
                },
                ..MachineConfig::default()
            };
            unselected(&pools, &[config]).into_iter().map(|f| f.help).next()
        };
        assert_eq!(help(label::ROLE, "worker"), None);
        assert_eq!(help(label::ROLE, "wroker"), Some(format!("did you mean {}: worker?", label::ROLE)));
        assert_eq!(
            help("machineconfiguration.openshift.io/role", "worker"),
            Some(format!("write {}: worker for machineconfiguration.openshift.io/role", label::ROLE))
        );
        assert_eq!(help(label::ROLE, "infra"), Some(rule::SOURCE_UNSELECTED.fix.to_owned()));
        assert_eq!(help("a/role", "b"), Some(rule::SOURCE_UNSELECTED.fix.to_owned()));
    }

    #[test]
    fn selectors_mean_what_kubernetes_means() {
        let a1 = labels(&[("a", "1")]);
        let none = labels(&[]);
        for (text, with, without) in [
            (json!({}), true, true),
            (json!({"matchLabels": {}}), true, true),
            (json!({"matchExpressions": []}), true, true),
            (json!({"matchLabels": {"a": "1"}}), true, false),
            (json!({"matchLabels": {"a": ""}}), false, false),
            (json!({"matchLabels": {"a": "2"}}), false, false),
            (json!({"matchLabels": {"a": "1", "b": "1"}}), false, false),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["0", "1"]}]}), true, false),
            (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false, true),
            (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["2"]}]}), true, true),
            (json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), true, false),
            (json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), false, true),
            (
                json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}),
                false,
                false,
            ),
        ] {
            let selector = selector(&text);
            assert_eq!(matches(Some(&selector), &a1), Ok(with), "{text} with a=1");
            assert_eq!(matches(Some(&selector), &none), Ok(without), "{text} without labels");
        }
        assert_eq!(matches(None, &a1), Ok(false), "an absent selector selects nothing");
    }

    #[test]
    fn a_selector_that_cannot_be_read_is_an_error_for_every_object() {
        for (text, field) in [
            (json!([{"key": "a", "operator": "Equals", "values": ["1"]}]), "matchExpressions[0].operator"),
            (json!([{"key": "a", "operator": "in", "values": ["1"]}]), "matchExpressions[0].operator"),
            (json!([{"key": "a", "operator": "In"}]), "matchExpressions[0].values"),
            (json!([{"key": "a", "operator": "NotIn", "values": []}]), "matchExpressions[0].values"),
            (json!([{"key": "a", "operator": "Exists", "values": ["1"]}]), "matchExpressions[0].values"),
            (json!([{"key": "", "operator": "Exists"}]), "matchExpressions[0].key"),
            (json!([{"key": "a/b/c", "operator": "Exists"}]), "matchExpressions[0].key"),
            (json!([{"key": "a", "operator": "In", "values": ["ok", "no good"]}]), "matchExpressions[0].values[1]"),
        ] {
            // The first requirement already fails: the second is read all the same.
            let selector = selector(&json!({"matchLabels": {"x": "y"}, "matchExpressions": text}));
            let error = matches(Some(&selector), &labels(&[])).unwrap_err();
            assert_eq!(error.field(), field, "{text}");
            assert!(error.to_string().starts_with(field) && !error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_custom_pool_must_take_the_sources_of_worker() {
        let role = label::ROLE;
        for (selector, inherits) in [
            (json!({"matchExpressions": [{"key": role, "operator": "In", "values": ["worker", "infra"]}]}), true),
            (json!({"matchLabels": {role: "infra"}}), false),
            (json!({"matchLabels": {role: "worker"}}), true),
            (json!({}), true),
        ] {
            let pool = pool("infra", &json!({"machineConfigSelector": selector}));
            assert_eq!(inherits_worker(&pool), Ok(inherits), "{selector}");
        }
        assert_eq!(inherits_worker(&pool("infra", &json!({}))), Ok(false));
    }

    #[test]
    fn a_custom_pool_that_asks_for_control_plane_nodes_is_seen() {
        for (selector, role) in [
            (json!({"matchLabels": {label::NODE_ROLE_MASTER: ""}}), Some(label::NODE_ROLE_MASTER)),
            (
                json!({"matchExpressions": [{"key": label::NODE_ROLE_CONTROL_PLANE, "operator": "Exists"}]}),
                Some(label::NODE_ROLE_CONTROL_PLANE),
            ),
            (json!({"matchExpressions": [{"key": label::NODE_ROLE_CONTROL_PLANE, "operator": "DoesNotExist"}]}), None),
            (json!({"matchLabels": {"node-role.kubernetes.io/infra": ""}}), None),
            (json!({}), None),
        ] {
            assert_eq!(asks_for_masters(&pool("infra", &json!({"nodeSelector": selector}))), role, "{selector}");
        }
    }

    #[test]
    fn sources_come_in_byte_order_and_never_include_rendered_ones() {
        let config = |name: &str, extra: &Value| -> MachineConfig {
            let mut object = json!({"metadata": {"name": name, "labels": {label::ROLE: "worker"}}});
            for (key, value) in extra.as_object().unwrap() {
                object["metadata"][key] = value.clone();
            }
            serde_json::from_value(object).unwrap()
        };
        let all = [
            config("99-b", &json!({})),
            config("100-a", &json!({})),
            config(
                "rendered-worker-x",
                &json!({"ownerReferences": [
                {"apiVersion": "x/v1", "kind": "MachineConfigPool", "name": "worker", "uid": "1"}]}),
            ),
            config("99-B", &json!({})),
            config("other", &json!({"labels": {label::ROLE: "master"}})),
        ];
        let worker = pool("worker", &json!({"machineConfigSelector": {"matchLabels": {label::ROLE: "worker"}}}));
        let names: Vec<&str> = sources(&worker, &all).unwrap().iter().map(|c| c.name()).collect();
        assert_eq!(names, ["100-a", "99-B", "99-b"]);
    }
}
