//! The daemon's state machine: from what is known of the node to the one next step. Pure.
//!
//! Level-triggered: a decision is made from a [`Situation`] alone, never from the steps before it, so a daemon that
//! was killed at any instruction goes on from what is on the disk and on the Node. Only back-off is remembered
//! ([`Memory`]), and losing it costs a wait. Looking is a step too: what a decision needs and does not know, it asks for.
//!
//! | file | knows |
//! |---|---|
//! | `own_node` | the own Node as values |
//! | `observed` | what was found out, and the memory |
//! | `resting` | no transaction is open: adopt, report, or begin an update |
//! | `open` | a transaction is open: carry it forward, or undo it |
//! | `reason` | what `reason` says |
//!
//! The protocol with the controller (claim, drain, attempts, UID) is the one that was model-checked; each rule here has
//! a test named after what breaks without it.

mod observed;
mod open;
mod own_node;
mod reason;
mod resting;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use observed::{
    Checked, Compared, Fetch, Fetched, Memory, Moment, Plan, Planned, Read, Trouble, Work, back_off, void,
};
pub use open::{
    NO_REBOOT, after_failed_forward, failed, failing, finished_actions, finished_reboot, lost, next_reboot,
    reboots_asked, skipped_actions,
};
pub use own_node::OwnNode;
pub use reason::{drift as drift_reason, one_line};

use super::guard::rule::Watched;
use super::journal::{Failed, Journal, Lost};
use crate::api::protocol::{DrainKind, DrainRequest, NodeState, Phase};
use crate::api::{ConfigName, Uid};
use crate::change::Action;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How long a missing config or policy is waited for in silence before the node says Degraded: the controller
/// puts such things back within a second or two.
pub const GRACE: Duration = Duration::from_secs(15);
/// How long after asking for a reboot it is asked for again: a shutdown may wait for pods and inhibitors.
pub const REBOOT_PATIENCE: Duration = Duration::from_mins(10);
/// How often a reboot is asked for before it has failed.
pub const REBOOT_LIMIT: u32 = 5;
/// How often an action is begun: once, and once more when the daemon was ended in its middle.
pub const ACTION_LIMIT: u32 = 2;
/// The same in an undo that is guarded.
pub const UNDO_LIMIT: u32 = 5;
/// How long a daemon that knows that its Node was registered again waits for the API before it goes on without it.
pub const NEW_NODE_PATIENCE: Duration = Duration::from_mins(2);

/// State on disk as the machine needs it. The current config's body stays where it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Held {
    /// Name of the config in `current.json`; none when the node has no state, empty for the empty config.
    pub current: Option<ConfigName>,
    /// The open transaction.
    pub journal: Option<Journal>,
    /// The config that failed.
    pub failed: Option<Failed>,
}

/// All that a decision is made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Situation {
    /// Now.
    pub now: Moment,
    /// The own Node; none when there is none, or none was seen yet.
    pub node: Option<OwnNode>,
    /// How sure that is.
    pub read: Read,
    /// State on disk; none before it was read.
    pub held: Option<Held>,
    /// The disk, compared with a config.
    pub compared: Option<Compared>,
    /// Rendered configs that were asked for.
    pub fetched: BTreeMap<ConfigName, Fetched>,
    /// What the update costs.
    pub planned: Option<Planned>,
    /// Whether the update can be carried out.
    pub checked: Option<Checked>,
    /// The force file is there.
    pub force: bool,
    /// Boot id of the running system; none when it could not be read.
    pub boot_id: Option<String>,
    /// What was seen of the node's health since the actions of the open update.
    pub watched: Watched,
    /// Back-off.
    pub memory: Memory,
}

/// What a wait is for: for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing is to be done.
    News,
    /// The API, or a Node in it.
    Api,
    /// The rendered config.
    Target,
    /// The policy in effect.
    Policy,
    /// The controller drains the node.
    Drain,
    /// A drain was ended by an administrator; the next attempt comes later.
    NextDrain,
    /// The controller lifts the cordon.
    Uncordon,
    /// The next try of what did not work.
    Retry,
    /// The proof that the node is still part of its cluster.
    Proof,
    /// The system goes down.
    End,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::News => "nothing to do",
            Self::Api => "waiting for the API server and a Node of this name",
            Self::Target => "waiting for the rendered config",
            Self::Policy => "waiting for the policy to be in effect",
            Self::Drain => "waiting for the controller to drain this node",
            Self::NextDrain => "an administrator uncordoned this node: waiting before the next drain is asked for",
            Self::Uncordon => "waiting for the controller to lift the cordon",
            Self::Retry => "waiting before the next try",
            Self::Proof => "waiting for the kubelet to be healthy and the API server to answer",
            Self::End => "waiting for the system to go down",
        })
    }
}

/// The next thing to do. One at a time; then the situation is looked at again.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing until something changes, or until then.
    Wait {
        /// For what.
        why: Waiting,
        /// At the latest until.
        until: Option<Moment>,
    },
    /// Read the state on disk.
    ReadState,
    /// Read the boot id.
    ReadBootId,
    /// Read the own Node uncached.
    ReadNode,
    /// Read a rendered config.
    Fetch(ConfigName),
    /// Compare the disk with the config of this name: current, fetched, or in the journal.
    Compare(ConfigName),
    /// Read the policy and work out the actions.
    Plan {
        /// To which config; from current.
        to: ConfigName,
        /// By the force file: a reboot, whatever the policy says.
        forced: bool,
    },
    /// Check whether the update can be carried out.
    Check {
        /// To which config; from current.
        to: ConfigName,
        /// By the force file: the disk is not compared.
        forced: bool,
        /// Note that the drain was fulfilled.
        drained: bool,
    },
    /// Make this config the current one without touching anything; an empty name is the empty config.
    Adopt(ConfigName),
    /// Remove `failed.json`.
    ForgetFailure,
    /// Say what is true: the last write of an update.
    Report {
        /// Done or Degraded.
        state: NodeState,
        /// With Degraded.
        reason: Option<String>,
        /// What `currentConfig` becomes, with Done; empty: none.
        current: ConfigName,
    },
    /// Claim the update: a patch that tests `desiredConfig` and the UID.
    Claim {
        /// The value that is tested; none: there is none, and the object's version is tested.
        desired: Option<ConfigName>,
        /// Leave `state` and `reason` as they are: it is a retry.
        quiet: bool,
    },
    /// Ask for a drain or an uncordon.
    Ask {
        /// The request.
        request: DrainRequest,
        /// The phase it begins; none on a Degraded node.
        phase: Option<Phase>,
    },
    /// Open the transaction, durably. From here on `desired` is looked at once more, before the first switch.
    OpenJournal {
        /// To which config; from current.
        to: ConfigName,
        /// In order.
        actions: Vec<Action>,
        /// Of the policy.
        generation: i64,
        /// Of the Node that was claimed.
        uid: Uid,
        /// By the force file.
        forced: bool,
    },
    /// Nothing was switched and it is no longer wanted: remove what was staged, close.
    Abandon,
    /// Leave the guard on the host, and note what it looks at.
    LeaveGuard,
    /// Carry the files forward.
    Forward,
    /// Look at the kubelet and at the API server.
    Look,
    /// Note that the node was without one of them for too long, durably, and what the undo has to do.
    Lose(Lost),
    /// Remove the force file: its effect is durable, or has failed for good.
    RemoveForceFile,
    /// Go on under the UID of the Node that was registered again.
    AdoptUid(Uid),
    /// Run the actions that are not done, and watch their units.
    RunActions,
    /// An action of an undo was interrupted too often: note it as done, and why.
    SkipActions(String),
    /// Record the boot id, durably, and ask for a reboot.
    Reboot,
    /// The boot id has changed: note it.
    Rebooted,
    /// Of an undo: the reboot does not happen. Note it as done, and why.
    NoReboot(String),
    /// Note why the update failed, durably, and what the undo has to do.
    Fail(String),
    /// Bring the old files back.
    Back,
    /// The update has worked: close the transaction.
    Close,
    /// The update was undone: remember that it failed, then close the transaction.
    CloseFailed,
}

impl Step {
    /// What kind of work on the node it is; none: it only talks to the API, or waits.
    pub fn work(&self) -> Option<Work> {
        match self {
            Self::ReadState => Some(Work::State),
            Self::ReadBootId => Some(Work::BootId),
            Self::Compare(_) | Self::Check { .. } => Some(Work::Look),
            Self::LeaveGuard => Some(Work::Guard),
            Self::Forward => Some(Work::Forward),
            Self::Abandon | Self::Back => Some(Work::Back),
            Self::Reboot => Some(Work::Reboot),
            Self::Adopt(_)
            | Self::ForgetFailure
            | Self::OpenJournal { .. }
            | Self::RemoveForceFile
            | Self::AdoptUid(_)
            | Self::SkipActions(_)
            | Self::Rebooted
            | Self::NoReboot(_)
            | Self::Fail(_)
            | Self::Lose(_)
            | Self::Close
            | Self::CloseFailed
            // A failed action is a failed update, no trouble that may pass; that it cannot be noted is one.
            | Self::RunActions => Some(Work::Record),
            Self::Look
            | Self::Wait { .. }
            | Self::ReadNode
            | Self::Fetch(_)
            | Self::Plan { .. }
            | Self::Report { .. }
            | Self::Claim { .. }
            | Self::Ask { .. } => None,
        }
    }
}

/// The next step.
pub fn next(s: &Situation) -> Step {
    let step = match &s.held {
        None => Step::ReadState,
        Some(Held { journal: Some(journal), .. }) => open::next(s, journal),
        Some(held) => resting::next(s, held),
    };
    let Some(trouble) = step.work().and_then(|work| s.memory.trouble_with(work)) else { return step };
    let journal = s.held.as_ref().and_then(|h| h.journal.as_ref());
    let told = (trouble.count >= Trouble::TELL)
        .then(|| resting::degraded_now(s, &reason::trouble(trouble, journal)))
        .flatten();
    match told {
        Some(report) => report,
        None if s.now < trouble.retry_at() => Step::Wait { why: Waiting::Retry, until: Some(trouble.retry_at()) },
        None => step,
    }
}

/// Whether the drain for `config` is fulfilled and still holds.
enum Drain {
    Ask(DrainRequest),
    Wait(Step),
    Ready,
}

/// How far the drain of the own node is, for an update to `config`.
///
/// A fulfilment holds only while the node is cordoned with our mark. A request for another config, or one that came to
/// nothing, is followed by the next attempt; the latter after a back-off, so that an administrator is not overruled at once.
fn drain(s: &Situation, node: &OwnNode, config: &ConfigName) -> Drain {
    let ask = || Drain::Ask(DrainRequest::next(node.desired_drain.as_ref(), DrainKind::Drain, config));
    let Some(request) = node.desired_drain.as_ref().filter(|r| r.kind == DrainKind::Drain && r.config == *config)
    else {
        return ask();
    };
    if void(node, request) {
        let (seen, count) = match &s.memory.ended {
            Some((ended, seen, count)) if ended == request => (*seen, *count),
            _ => (s.now, 1),
        };
        let until = seen + back_off(observed::FIRST_WAIT, count, observed::LONGEST_WAIT);
        return if s.now < until {
            Drain::Wait(Step::Wait { why: Waiting::NextDrain, until: Some(until) })
        } else {
            ask()
        };
    }
    if node.fulfilled() { Drain::Ready } else { Drain::Wait(Step::Wait { why: Waiting::Drain, until: None }) }
}

/// Whether an update with these actions needs a drain.
fn needs_drain(actions: &[Action]) -> bool {
    actions.iter().any(|a| matches!(a, Action::Drain | Action::Reboot))
}
