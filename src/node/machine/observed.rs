//! What the loop has found out so far, and the little that it remembers between two looks.
//!
//! Observations are caches: each names what it is about, and a decision ignores one that is about something else. A
//! daemon that starts has none of them and makes them again. The memory holds back-off only; losing it costs a wait.

use super::own_node::OwnNode;
use crate::api::ConfigName;
use crate::api::protocol::DrainRequest;
use crate::change::Action;
use crate::node::compare::Deviation;
use crate::node::disk::Check;
use std::time::Duration;

/// A moment of this process: time since it started. Wall clocks jump at boot; these never do.
pub type Moment = Duration;

/// How sure the loop is of the Node that it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Read {
    /// From the watch, or older than the last step: it may have changed.
    #[default]
    Cached,
    /// From an uncached read, and nothing was done since.
    Fresh,
    /// That read was tried and the API did not answer.
    Away {
        /// Since when, without a break.
        since: Moment,
        /// When it was tried last.
        last: Moment,
    },
}

/// The disk compared with a config.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Compared {
    /// With which.
    pub config: ConfigName,
    /// All that differs.
    pub deviations: Vec<Deviation>,
}

/// A rendered config as the API answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetched {
    /// Its name.
    pub name: ConfigName,
    /// What came.
    pub result: Fetch,
    /// How often it was asked for in vain.
    pub tries: u32,
    /// When it was asked for first, and last.
    pub first: Moment,
    /// See `first`.
    pub last: Moment,
}

/// What the API answered to the wish for a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    /// It is there, and the loop holds it.
    Here,
    /// There is none of that name.
    Missing,
    /// It cannot be read: why, on one line.
    Broken(String),
}

/// The actions of an update, from the policy in effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// From which config.
    pub from: ConfigName,
    /// To which.
    pub to: ConfigName,
    /// By the force file.
    pub forced: bool,
    /// The actions, or why there is no policy to take them from.
    pub result: Result<Plan, String>,
    /// How often it was tried in vain.
    pub tries: u32,
    /// When it was tried first, and last.
    pub first: Moment,
    /// See `first`.
    pub last: Moment,
}

/// What an update costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In order.
    pub actions: Vec<Action>,
    /// Of the policy.
    pub generation: i64,
}

/// Whether an update can be carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// From which config.
    pub from: ConfigName,
    /// To which.
    pub to: ConfigName,
    /// By the force file.
    pub forced: bool,
    /// Made while the drain was fulfilled: the check just before the journal is opened.
    pub drained: bool,
    /// What was found.
    pub result: Check,
    /// How often in a row it found something.
    pub tries: u32,
    /// When.
    pub at: Moment,
}

/// Which step did not work, so that its success clears the trouble and nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Reading the state on disk.
    State,
    /// Comparing or checking.
    Look,
    /// Leaving the guard on the host.
    Guard,
    /// Carrying files forward.
    Forward,
    /// Bringing files back.
    Back,
    /// Writing mcx's own state.
    Record,
    /// Asking for the reboot.
    Reboot,
    /// Reading the boot id.
    BootId,
}

/// A step that fails on the node itself, and may work later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Which.
    pub work: Work,
    /// Why, on one line.
    pub text: String,
    /// How often in a row.
    pub count: u32,
    /// When last.
    pub last: Moment,
}

impl Trouble {
    /// Failures in a row before a person is told: a single one may pass.
    pub const TELL: u32 = 3;

    /// When the step may be tried again.
    pub fn retry_at(&self) -> Moment {
        self.last + back_off(Duration::from_secs(1), self.count, Duration::from_mins(1))
    }
}

/// What is remembered within one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// The drain attempt that came to nothing, when that was seen, and how many in a row.
    pub ended: Option<(DrainRequest, Moment, u32)>,
    /// The config that failed, when that was seen, and how often in a row.
    pub failed: Option<(ConfigName, Moment, u32)>,
    /// When this process asked for a reboot.
    pub reboot_asked: Option<Moment>,
    /// The step that did not work last.
    pub trouble: Option<Trouble>,
    /// Those of other kinds that did not work before it, and have not worked since: what fails in turn with something else
    /// is waited out, and told, all the same.
    pub earlier: Vec<Trouble>,
}

/// First wait after a failed update or an ended drain.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(10);
/// Longest wait between two tries of the same (design 7.4).
pub(super) const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// `first`, doubled for each try after the first, at most `longest`. Jitter is the loop's business: one node waits alone.
pub fn back_off(first: Duration, tries: u32, longest: Duration) -> Duration {
    let factor = 1u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

impl Memory {
    /// Takes note of what is newly seen: an ended drain attempt, a failure that an earlier process recorded.
    pub fn observe(&mut self, now: Moment, node: Option<&OwnNode>, failed: Option<&ConfigName>) {
        if let Some(request) = node.and_then(|n| n.desired_drain.as_ref().filter(|r| void(n, r)))
            && self.ended.as_ref().is_none_or(|(seen, ..)| seen != request)
        {
            let count = match &self.ended {
                Some((seen, _, count)) if seen.config == request.config => count + 1,
                _ => 1,
            };
            self.ended = Some((request.clone(), now, count));
        }
        match failed {
            None => self.failed = None,
            Some(config) if self.failed.as_ref().is_none_or(|(seen, ..)| seen != config) => {
                self.failed = Some((config.clone(), now, 1));
            }
            Some(_) => {}
        }
    }

    /// An update to `config` failed just now.
    pub fn note_failure(&mut self, config: &ConfigName, now: Moment) {
        let count = match &self.failed {
            Some((seen, _, count)) if seen == config => count + 1,
            _ => 1,
        };
        self.failed = Some((config.clone(), now, count));
    }

    /// A step failed on the node.
    pub fn note_trouble(&mut self, work: Work, text: String, now: Moment) {
        let count = self.trouble_with(work).map_or(0, |t| t.count) + 1;
        self.earlier.retain(|t| t.work != work);
        self.earlier.extend(self.trouble.take().filter(|t| t.work != work));
        self.trouble = Some(Trouble { work, text, count, last: now });
    }

    /// What is wrong with a kind of step.
    pub fn trouble_with(&self, work: Work) -> Option<&Trouble> {
        self.trouble.iter().chain(&self.earlier).find(|t| t.work == work)
    }

    /// A step of this kind worked.
    pub fn note_success(&mut self, work: Work) {
        self.trouble.take_if(|t| t.work == work);
        self.earlier.retain(|t| t.work != work);
    }
}

/// Whether the drain request `r` of `node` came to nothing: ended by an administrator, or fulfilled and then uncordoned.
pub fn void(node: &OwnNode, r: &DrainRequest) -> bool {
    let drain = r.kind == crate::api::protocol::DrainKind::Drain;
    drain && if node.fulfilled() { !node.cordon_is_ours } else { node.ended.as_ref() == Some(r) }
}
