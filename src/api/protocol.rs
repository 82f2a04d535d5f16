//! The values that controller and daemon exchange through annotations: parsing and printing, no rules.
//!
//! A value that does not parse is treated as absent by its reader, which then writes its own: annotations can be
//! edited by hand, and none of them may stop a controller or a daemon.

use super::name::{ConfigName, Epoch, NodeName, Uid};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the daemon says of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// The disk is at `currentConfig`, verified, and nothing is under way.
    Done,
    /// An update is under way.
    Working,
    /// A person must act; `reason` says why and how.
    Degraded,
}

impl NodeState {
    /// The annotation's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Working => "Working",
            Self::Degraded => "Degraded",
        }
    }
}

/// A text that is no value of its annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a value of this annotation")]
pub struct Unknown(pub String);

impl FromStr for NodeState {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        match text {
            "Done" => Ok(Self::Done),
            "Working" => Ok(Self::Working),
            "Degraded" => Ok(Self::Degraded),
            other => Err(Unknown(other.to_owned())),
        }
    }
}

/// How far the update of a Working node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// The daemon has taken the desired config; nothing is touched yet.
    Claimed,
    /// It waits for its drain.
    Draining,
    /// It changes the disk.
    Applying,
    /// It runs the actions of the policy.
    Restarting,
    /// It has asked for a reboot.
    Rebooting,
    /// It compares the disk with the new config.
    Verifying,
    /// It waits for its uncordon.
    Uncordoning,
}

impl Phase {
    /// The word in the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "Claimed",
            Self::Draining => "Draining",
            Self::Applying => "Applying",
            Self::Restarting => "Restarting",
            Self::Rebooting => "Rebooting",
            Self::Verifying => "Verifying",
            Self::Uncordoning => "Uncordoning",
        }
    }
}

/// Value of annotation `phase`: `<Phase> <RFC 3339 time>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseSince {
    /// The phase.
    pub phase: Phase,
    /// When it began, by the node's clock.
    pub since: Timestamp,
}

impl fmt::Display for PhaseSince {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.0}", self.phase.as_str(), self.since)
    }
}

impl FromStr for PhaseSince {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let unknown = || Unknown(text.to_owned());
        let (word, since) = text.split_once(' ').ok_or_else(unknown)?;
        let phase = match word {
            "Claimed" => Phase::Claimed,
            "Draining" => Phase::Draining,
            "Applying" => Phase::Applying,
            "Restarting" => Phase::Restarting,
            "Rebooting" => Phase::Rebooting,
            "Verifying" => Phase::Verifying,
            "Uncordoning" => Phase::Uncordoning,
            _ => return Err(unknown()),
        };
        Ok(Self { phase, since: since.parse().map_err(|_| unknown())? })
    }
}

/// What a daemon asks of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DrainKind {
    /// Cordon the node and evict its pods.
    Drain,
    /// Lift the cordon, if it is ours.
    Uncordon,
}

/// Value of `desiredDrain` and `lastAppliedDrain`: `drain-<config>-<attempt>` or `uncordon-<config>-<attempt>`.
///
/// Read from the right, since pool names contain `-`. No request is ever repeated on a Node: the attempt is one more
/// than in the request that is there, whatever its config and kind (see [`DrainRequest::next`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainRequest {
    /// Drain or uncordon.
    pub kind: DrainKind,
    /// The config for which it is asked; tells people, decides nothing.
    pub config: ConfigName,
    /// Counts all requests of this Node.
    pub attempt: u64,
}

impl DrainRequest {
    /// The request that follows `previous`, the value that is on the Node (absent or unreadable: the first).
    pub fn next(previous: Option<&Self>, kind: DrainKind, config: &ConfigName) -> Self {
        let attempt = previous.map_or(1, |p| p.attempt.saturating_add(1));
        Self { kind, config: config.clone(), attempt }
    }
}

impl fmt::Display for DrainRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DrainKind::Drain => "drain",
            DrainKind::Uncordon => "uncordon",
        };
        write!(f, "{kind}-{}-{}", self.config, self.attempt)
    }
}

impl FromStr for DrainRequest {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let unknown = || Unknown(text.to_owned());
        let (rest, attempt) = text.rsplit_once('-').ok_or_else(unknown)?;
        let (kind, config) = rest.split_once('-').ok_or_else(unknown)?;
        let kind = match kind {
            "drain" => DrainKind::Drain,
            "uncordon" => DrainKind::Uncordon,
            _ => return Err(unknown()),
        };
        Ok(Self { kind, config: config.into(), attempt: attempt.parse().map_err(|_| unknown())? })
    }
}

/// Value of `drainStatus`, as JSON: how the controller gets on with a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainStatus {
    /// The request it speaks of, as printed.
    pub request: String,
    /// When the controller took it up; kept over restarts, so that the threshold is too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// True when an administrator uncordoned the node, which ends this attempt; the daemon asks with the next one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Why it waits: pods with their budgets, a foreign cordon, a missing slot. The first ten.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
    /// How many there are in all.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting_count: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Value of `cordonedBy`: `mcx`, and the `timeAdded` of the taint that was put on with the cordon.
///
/// The time tells our cordon from a later one: an uncordon takes the taint away, and a mark whose time is another than the
/// taint's is void. Cordon, taint and mark are one write, so that Kubernetes' node controller never has to add the taint:
/// it writes a taint with a new time twice when its cache is late, and our own cordon would look like somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CordonMark {
    /// `timeAdded` of the taint [`UNSCHEDULABLE_TAINT`], in whole seconds as the API keeps it.
    at: Timestamp,
}

/// Taint of cordoned nodes. Kubernetes' node controller removes it with the cordon, and adds it where it is missing.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

impl CordonMark {
    /// Of a cordon that is set at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { at: Timestamp::from_second(now.as_second()).unwrap_or(now) }
    }

    /// When the cordon was set, in whole seconds.
    pub fn at(self) -> Timestamp {
        self.at
    }
}

impl fmt::Display for CordonMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mcx {}", self.at)
    }
}

impl FromStr for CordonMark {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let time = text.strip_prefix("mcx ").and_then(|time| time.parse().ok());
        time.map(Self::new).ok_or_else(|| Unknown(text.to_owned()))
    }
}

/// Value of the pool's `slots`, as JSON: who may hand out, and the nodes that were handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Slots {
    /// Of the leader that took over last. A leader that reads another stops.
    pub epoch: Epoch,
    /// Holders, in the order in which they were added. At most [`Slots::LIMIT`].
    #[serde(default)]
    pub nodes: Vec<SlotHolder>,
}

/// A node that holds a slot: by name and UID, so that a later node of that name does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SlotHolder {
    /// Name of the Node.
    pub name: NodeName,
    /// UID of the Node.
    pub uid: Uid,
}

impl Slots {
    /// Most holders at a time: the annotation stays far below its 256 KiB.
    pub const LIMIT: usize = 500;

    /// Whether this very node holds a slot.
    pub fn holds(&self, name: &NodeName, uid: &Uid) -> bool {
        self.nodes.iter().any(|h| h.name == *name && h.uid == *uid)
    }
}

/// First words of a `reason` that speaks of drift, and of no other.
pub const DRIFT_PREFIX: &str = "Drift:";
/// In the `reason` of a node that undid an update after which its kubelet did not come back.
pub const NO_KUBELET: &str = "the kubelet was not healthy";
/// In the `reason` of a node that undid an update after which it had no answer of the API server.
pub const NO_API: &str = "the API server did not answer";

/// How many items a message names before it only counts.
pub const NAMED: usize = 10;

/// `a, b, c and 4 more`: the first [`NAMED`] of `items`, and how many there are beyond.
pub fn first_and_count<S: AsRef<str>>(items: &[S], separator: &str) -> String {
    let named: Vec<&str> = items.iter().take(NAMED).map(AsRef::as_ref).collect();
    let text = named.join(separator);
    match items.len().saturating_sub(NAMED) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_request_is_read_from_the_right() {
        let text = "uncordon-rendered-my-odd-7-pool-00ff-12";
        let request: DrainRequest = text.parse().unwrap();
        assert_eq!(request.kind, DrainKind::Uncordon);
        assert_eq!(request.config, "rendered-my-odd-7-pool-00ff");
        assert_eq!(request.attempt, 12);
        assert_eq!(request.to_string(), text);
    }

    #[test]
    fn no_drain_request_is_ever_repeated_on_a_node() {
        let (a, b) = (ConfigName::from("rendered-a-1"), ConfigName::from("rendered-b-2"));
        let mut seen = std::collections::BTreeSet::new();
        let mut last = None;
        for (kind, config) in
            [(DrainKind::Drain, &b), (DrainKind::Uncordon, &a), (DrainKind::Drain, &b), (DrainKind::Uncordon, &a)]
        {
            let next = DrainRequest::next(last.as_ref(), kind, config);
            assert!(seen.insert(next.to_string()), "{next} was asked twice");
            last = Some(next);
        }
    }

    #[test]
    fn values_survive_print_and_parse() {
        let phase: PhaseSince = "Draining 2026-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(phase.to_string(), "Draining 2026-01-02T03:04:05Z");
        let mark = "mcx 2026-01-02T03:04:05Z";
        assert_eq!(mark.parse::<CordonMark>().unwrap().to_string(), mark);
        assert!("somebody".parse::<CordonMark>().is_err());
        assert!("drain-x".parse::<DrainRequest>().is_err());
        for state in [NodeState::Done, NodeState::Working, NodeState::Degraded] {
            assert_eq!(state.as_str().parse::<NodeState>().unwrap(), state);
        }
    }

    #[test]
    fn a_message_names_ten_and_counts_the_rest() {
        let items: Vec<String> = (0..13).map(|n| format!("n{n}")).collect();
        assert_eq!(first_and_count(&items, ", "), "n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 3 more");
        assert_eq!(first_and_count(&items[..2], ", "), "n0, n1");
    }
}
