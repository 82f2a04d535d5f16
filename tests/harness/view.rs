//! A Node as tests look at it: what the parts of mcx wrote there, and whether it is in service.

use serde_json::Value;
use std::collections::BTreeMap;

const PREFIX: &str = "machineconfiguration.alauda.io/";

/// The text at a JSON pointer; empty if there is none, other scalars printed.
pub fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// What a Node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    pub uid: String,
    pub created: String,
    /// It has the worker's role label and no control plane's.
    pub is_worker: bool,
    pub ready: bool,
    pub unschedulable: bool,
    pub boot_id: String,
    pub desired: String,
    pub current: String,
    pub state: String,
    pub reason: String,
    /// The word of `phase`, without the time.
    pub phase: String,
    pub desired_drain: String,
    pub last_applied_drain: String,
    pub drain_status: String,
    /// `cordonedBy`; none without it.
    pub cordoned_by: Option<String>,
    /// All annotations of mcx, without the prefix.
    pub annotations: BTreeMap<String, String>,
}

impl NodeView {
    pub fn from_json(node: &Value) -> Self {
        let map = |pointer: &str| -> BTreeMap<String, String> {
            let map = node.pointer(pointer).and_then(Value::as_object);
            map.into_iter().flatten().map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect()
        };
        let labels = map("/metadata/labels");
        let role = |name: &str| labels.contains_key(&format!("node-role.kubernetes.io/{name}"));
        let annotations: BTreeMap<String, String> = map("/metadata/annotations")
            .into_iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), value)))
            .collect();
        let word = |key: &str| annotations.get(key).cloned().unwrap_or_default();
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
        Self {
            name: text(node, "/metadata/name"),
            uid: text(node, "/metadata/uid"),
            created: text(node, "/metadata/creationTimestamp"),
            is_worker: role("worker") && !role("master") && !role("control-plane"),
            ready: conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True"),
            unschedulable: node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)),
            boot_id: text(node, "/status/nodeInfo/bootID"),
            desired: word("desiredConfig"),
            current: word("currentConfig"),
            state: word("state"),
            reason: word("reason"),
            phase: word("phase").split(' ').next().unwrap_or_default().to_owned(),
            desired_drain: word("desiredDrain"),
            last_applied_drain: word("lastAppliedDrain"),
            drain_status: word("drainStatus"),
            cordoned_by: annotations.get("cordonedBy").cloned(),
            annotations,
        }
    }

    /// It has been given a config that it does not have yet.
    pub fn behind(&self) -> bool {
        !self.desired.is_empty() && self.desired != self.current
    }

    /// It cannot take work, or counts as if it could not: the pool's `maxUnavailable` is about these.
    pub fn unavailable(&self) -> bool {
        !self.ready || self.unschedulable || self.behind() || !matches!(self.state.as_str(), "" | "Done")
    }

    /// All in one line.
    pub fn line(&self) -> String {
        format!(
            "{}: {} {} desired {} current {}{}{}{}{}",
            self.name,
            if self.state.is_empty() { "(no state)" } else { &self.state },
            self.phase,
            self.desired,
            self.current,
            if self.ready { "" } else { ", not Ready" },
            if self.unschedulable { ", cordoned" } else { "" },
            if self.cordoned_by.is_some() { " by mcx" } else { "" },
            if self.reason.is_empty() { String::new() } else { format!(", reason: {}", self.reason) },
        )
    }
}
