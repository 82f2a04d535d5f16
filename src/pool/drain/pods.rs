//! Which pods of a node go and which stay. Pure: who lives is an argument.
//!
//! Exceptions are by kind of pod, never by namespace: what a DaemonSet, the kubelet or mcx's own Deployment
//! would put back, or what does the draining, stays; all else goes, bare pods, `emptyDir` and finished ones too.

use crate::api::{Uid, label};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A pod created within this long after the cordon is still waited for: the scheduler may have placed it before it saw
/// the cordon, and the two times are whole seconds of two processes.
pub(in crate::pool) const LATE_AFTER: Duration = Duration::from_secs(5);

/// Annotation of a pod that only mirrors a manifest of the kubelet's.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod bound to the node, as the drain sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pool) struct BoundPod {
    /// Namespace.
    pub(in crate::pool) namespace: String,
    /// Name.
    pub(in crate::pool) name: String,
    /// UID: a later pod of the same name, such as a `StatefulSet`'s, is another pod.
    pub(in crate::pool) uid: Uid,
    /// When it was created.
    pub(in crate::pool) created: Option<Timestamp>,
    /// When its grace period ends; none while nobody has asked it to end.
    pub(in crate::pool) ends_at: Option<Timestamp>,
    /// Whether its containers are ready: a budget protects it also when they are not.
    pub(in crate::pool) ready: bool,
    /// The DaemonSet that owns it: name and UID.
    pub(in crate::pool) daemon_set: Option<(String, Uid)>,
    /// UID of the controller that owns it, whatever its kind.
    pub(in crate::pool) owner: Option<Uid>,
    /// Names of its `emptyDir` volumes: what is in them goes with the pod.
    pub(in crate::pool) empty_dirs: Vec<String>,
    /// Whether it has not begun, has ended, or is ending: no budget holds such a pod.
    pub(in crate::pool) at_no_cost: bool,
    /// Labels, by which budgets select.
    pub(in crate::pool) labels: BTreeMap<String, String>,
    /// The mirror of a static pod, or one of mcx's own controller pods.
    stays: bool,
}

impl BoundPod {
    /// Reads a Pod. `namespace` is that of mcx.
    pub(in crate::pool) fn new(pod: &Pod, namespace: &str) -> Self {
        let meta = &pod.metadata;
        let owner = meta.owner_references.iter().flatten().find(|o| o.controller == Some(true));
        let labelled = meta.labels.as_ref().and_then(|l| l.get(label::COMPONENT)).map(String::as_str);
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default().into(),
            created: meta.creation_timestamp.as_ref().map(|t| t.0),
            ends_at: meta.deletion_timestamp.as_ref().map(|t| t.0),
            ready: pod
                .status
                .iter()
                .flat_map(|s| s.conditions.iter().flatten())
                .any(|c| c.type_ == "Ready" && c.status == "True"),
            daemon_set: owner
                .filter(|o| o.kind == "DaemonSet" && o.api_version.starts_with("apps/"))
                .map(|o| (o.name.clone(), o.uid.clone().into())),
            owner: owner.map(|o| o.uid.clone().into()),
            empty_dirs: pod
                .spec
                .iter()
                .flat_map(|s| s.volumes.iter().flatten())
                .filter(|v| v.empty_dir.is_some())
                .map(|v| v.name.clone())
                .collect(),
            at_no_cost: meta.deletion_timestamp.is_some()
                || pod
                    .status
                    .as_ref()
                    .and_then(|s| s.phase.as_deref())
                    .is_some_and(|phase| ["Pending", "Succeeded", "Failed"].contains(&phase)),
            labels: meta.labels.clone().unwrap_or_default(),
            stays: meta.annotations.as_ref().is_some_and(|a| a.contains_key(MIRROR))
                || (meta.namespace.as_deref() == Some(namespace) && labelled == Some(crate::api::DEPLOYMENT)),
        }
    }

    /// `pod namespace/name`, as messages name it.
    pub(in crate::pool) fn title(&self) -> String {
        format!("pod {}/{}", self.namespace, self.name)
    }
}

/// What becomes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pool) enum Fate {
    /// It is left alone.
    Stays,
    /// It is evicted and waited for.
    Goes,
    /// It came after the cordon, past the scheduler: evicted once, named, not waited for.
    Late,
}

/// What becomes of `pod` when the node was cordoned at `cordoned`. `daemon_sets` are the UIDs of those that exist: the
/// pod of a DaemonSet that is gone is nobody's and goes.
pub(in crate::pool) fn fate(pod: &BoundPod, daemon_sets: &BTreeSet<Uid>, cordoned: Option<Timestamp>) -> Fate {
    let owned = pod.daemon_set.as_ref().is_some_and(|(_, uid)| daemon_sets.contains(uid));
    if owned || pod.stays {
        return Fate::Stays;
    }
    match (pod.created, cordoned) {
        (Some(created), Some(cordoned)) if created > cordoned + LATE_AFTER => Fate::Late,
        _ => Fate::Goes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(extra: &serde_json::Value) -> BoundPod {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "kube-system", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        let (Some(meta), Some(extra)) = (pod["metadata"].as_object_mut(), extra.as_object()) else { unreachable!() };
        meta.extend(extra.clone());
        BoundPod::new(&serde_json::from_value(pod).unwrap(), "mcx-system")
    }

    fn owner(kind: &str, uid: &str) -> serde_json::Value {
        json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": uid, "controller": true}]})
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn exceptions_are_by_kind_and_never_by_namespace_r216() {
        let sets = BTreeSet::from([Uid::from("ds")]);
        let controller = |ns: &str| json!({"namespace": ns, "labels": {label::COMPONENT: crate::api::DEPLOYMENT}});
        for (what, extra, expected) in [
            ("bare pod in kube-system", json!({}), Fate::Goes),
            ("pod of a Deployment", owner("ReplicaSet", "rs"), Fate::Goes),
            ("pod of a DaemonSet", owner("DaemonSet", "ds"), Fate::Stays),
            ("pod of a DaemonSet that is gone", owner("DaemonSet", "deleted"), Fate::Goes),
            ("static pod", json!({"annotations": {MIRROR: "x"}}), Fate::Stays),
            ("controller of mcx", controller("mcx-system"), Fate::Stays),
            ("a pod that only bears its label", controller("default"), Fate::Goes),
        ] {
            assert_eq!(fate(&pod(&extra), &sets, Some(at("2026-01-01T00:01:00Z"))), expected, "{what}");
        }
    }

    #[test]
    fn a_finished_pod_goes_too_r086() {
        let value = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "status": {"phase": "Succeeded"}});
        let pod = BoundPod::new(&serde_json::from_value(value).unwrap(), "mcx-system");
        assert_eq!(fate(&pod, &BTreeSet::new(), None), Fate::Goes);
    }

    #[test]
    fn only_pods_created_well_after_the_cordon_are_late_r089() {
        let pod = pod(&json!({}));
        for (cordoned, expected) in [
            (Some(at("2026-01-01T00:01:00Z")), Fate::Goes),
            (Some(at("2026-01-01T00:00:00Z")), Fate::Goes),
            (Some(at("2025-12-31T23:59:55Z")), Fate::Goes),
            (Some(at("2025-12-31T23:59:54Z")), Fate::Late),
            (None, Fate::Goes),
        ] {
            assert_eq!(fate(&pod, &BTreeSet::new(), cordoned), expected, "{cordoned:?}");
        }
    }
}
