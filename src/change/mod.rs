//! What differs between two configs, and what that costs a node under the policy. Pure.

pub mod policy;

use crate::render::items::Items;
use policy::EffectivePolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How one item differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Difference {
    /// Only in the new config.
    Added,
    /// In both, with another meaning.
    Changed,
    /// Only in the old config.
    Removed,
}

/// What differs between two configs, by meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// By path.
    pub files: BTreeMap<String, Difference>,
    /// By unit name; drop-ins, enablement and mask are part of their unit.
    pub units: BTreeMap<String, Difference>,
    /// Keys of `boot`, compared as a set.
    pub keys: Option<Difference>,
}

/// What the node does beyond writing files. `None` of the policy is the absence of all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Action {
    /// `systemctl daemon-reload`.
    DaemonReload,
    /// `systemctl reload UNIT`.
    Reload(String),
    /// `systemctl restart UNIT`.
    Restart(String),
    /// Drain only: pods leave, nothing else happens.
    Drain,
    /// Drain, then reboot. Always alone.
    Reboot,
}

/// Why an action is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The action that the policy's entry names, `None` included, before combining; as printed: `Restart chronyd.service`.
    pub action: String,
    /// `file /etc/x`, `unit a.service`, `keys of boot`.
    pub item: String,
    /// The policy's entry, `/etc/chrony.conf`, or `default`.
    pub entry: String,
}

/// What a change set costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actions {
    /// In order, each once. Empty: nothing but writing.
    pub list: Vec<Action>,
    /// Why, for people.
    pub causes: Vec<Cause>,
}

impl ChangeSet {
    /// What is different in `new`.
    pub fn between(_old: &Items, _new: &Items) -> Self {
        todo!()
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.units.is_empty() && self.keys.is_none()
    }
}

/// What `change` costs under `policy`. `old` and `new` tell which unit files are written and removed.
pub fn actions(_change: &ChangeSet, _old: &Items, _new: &Items, _policy: &EffectivePolicy) -> Actions {
    todo!()
}

impl Actions {
    /// Whether the node must be drained first.
    pub fn needs_drain(&self) -> bool {
        self.list.iter().any(|a| matches!(a, Action::Drain | Action::Reboot))
    }

    /// Whether the node reboots.
    pub fn reboots(&self) -> bool {
        self.list.contains(&Action::Reboot)
    }

    /// Whether anything happens to running services.
    pub fn is_disruptive(&self) -> bool {
        self.list.iter().any(|a| !matches!(a, Action::DaemonReload))
    }
}
