//! What mcx keeps on the node, `/var/lib/mcx`: `current.json`, `previous.json`, `journal.json`, `failed.json`, `originals/`.

use crate::api::{ConfigName, Uid};
use crate::change::Action;
use crate::render::items::{Items, Measure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Version of the journal's form that this mcx writes; it reads older ones and refuses newer ones.
pub const VERSION: u32 = 1;

/// A rendered config with its name; the empty config has the empty name and `{}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedConfig {
    /// Name; empty for the empty config.
    pub name: ConfigName,
    /// `spec.config`. Shared: the journal is copied at each step, and a config of many files is some megabytes as values.
    pub config: Arc<Value>,
    /// What its contents are, decoded, in the order in which it lists them: whoever reads it need not decode them for that.
    /// Empty where an older mcx wrote it.
    #[serde(default, skip_serializing_if = "no_measures")]
    pub contents: Arc<Vec<Measure>>,
}

impl NamedConfig {
    /// In the form in which it is stored.
    pub fn of(name: ConfigName, items: &Items) -> Self {
        Self { name, config: items.to_config().to_value().into(), contents: items.measures().into() }
    }

    /// The config of nothing.
    pub fn empty() -> Self {
        Self { config: json!({}).into(), ..Self::default() }
    }
}

fn no_measures(contents: &Arc<Vec<Measure>>) -> bool {
    contents.is_empty()
}

/// How far an open transaction is. Later stages compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// Nothing is switched: an interruption undoes.
    Opened,
    /// The first rename may have happened: an interruption rolls forward.
    Switching,
    /// `current.json` holds the new config, durably. Actions may run.
    Written,
    /// The reboot was asked for; `boot_id` is that of before.
    Rebooting,
    /// All actions are done; the disk and the services are to be verified.
    Acted,
    /// It is being undone: old files come back, then the same actions for the old config.
    Undoing,
    /// Old files are back, `current.json` holds the old config; actions for it may run.
    Undone,
}

/// One action of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedAction {
    /// The action.
    pub action: Action,
    /// How often it was begun, noted before it runs. After a daemon restart a noted action is run again at most once.
    pub begun: u32,
    /// It has worked.
    pub done: bool,
}

/// The open transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// Version of this form.
    pub version: u32,
    /// Where it comes from.
    pub from: NamedConfig,
    /// Where it goes to.
    pub to: NamedConfig,
    /// How far it is.
    pub stage: Stage,
    /// The actions, in order.
    pub actions: Vec<NotedAction>,
    /// Generation of the policy that the actions were taken from.
    pub policy_generation: i64,
    /// Boot id when the reboot was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// UID of the Node when the journal was opened; none without a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_uid: Option<Uid>,
    /// The force file asked for it: the disk was not compared first, and it ends with a reboot.
    #[serde(default)]
    pub forced: bool,
    /// Why it is being undone: the reason that the node reports in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What is asked of the node before the transaction is closed; none before that is known, and where nothing is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
}

/// What proves, after actions that can take a node away from its cluster, that it is still part of it. Noted before the
/// first switch, while all is well.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Guard {
    /// For how many seconds the proof is waited for, from the action or the boot on.
    pub patience: u64,
    /// Address at which the kubelet said that it is healthy; none when it did not: then nothing is asked of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<String>,
    /// URLs of the API server. The answer of one is enough.
    pub servers: Vec<String>,
    /// Boot id at that time.
    pub boot_id: String,
    /// The host's unit is in its place, and runs; or there is no service manager that could run it.
    pub left: bool,
    /// The proof was seen.
    #[serde(default)]
    pub proven: bool,
    /// What was missing when the update was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
}

/// What a node was without for so long that its update was undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lost {
    /// A healthy kubelet.
    Kubelet,
    /// An answer of the API server; of the kubelet nothing was missing.
    Api,
}

/// The config that failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// The config.
    pub config: ConfigName,
    /// The reason, as reported.
    pub reason: String,
    /// It failed after a Drain or Reboot, or took the kubelet away: it is not tried again by itself.
    pub disruptive: bool,
    /// How often in a row it was undone because the API server alone did not answer. An outage looks the same as a config
    /// that cuts the node off: after the first time it is tried again by itself all the same, and not after the second.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unanswered: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Everything of mcx on the disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    /// `current.json`; none when the node has no state.
    pub current: Option<NamedConfig>,
    /// `journal.json`; none when no transaction is open.
    pub journal: Option<Journal>,
    /// `failed.json`.
    pub failed: Option<Failed>,
}
