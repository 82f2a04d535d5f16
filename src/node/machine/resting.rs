//! No transaction is open: adopt what is there, say what is true, or bring an update to the point where one is opened.

use super::observed::{Checked, FIRST_WAIT, Fetch, Fetched, LONGEST_WAIT, Moment, Trouble, back_off};
use super::own_node::OwnNode;
use super::{Drain, GRACE, Held, Situation, Step, Waiting, drain, needs_drain, reason};
use crate::api::ConfigName;
use crate::api::protocol::{DrainKind, DrainRequest, NodeState, Phase};
use crate::change::Action;
use crate::node::compare::Deviation;
use std::time::Duration;

/// First and longest wait between two looks for something that is not there.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// First and longest wait between two checks that found an obstacle.
const CHECK_AGAIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));

pub(super) fn next(s: &Situation, held: &Held) -> Step {
    let Some(current) = &held.current else { return adopt(s) };
    let compared = s.compared.as_ref().filter(|c| c.config == *current);
    let Some(node) = &s.node else {
        // Nobody can be told, but the metric can be right.
        return match compared {
            None => Step::Compare(current.clone()),
            Some(_) => Step::Wait { why: Waiting::Api, until: None },
        };
    };
    let desired = node.desired.as_ref().unwrap_or(current);
    // A Node that was registered again has no desired config yet: that is no new wish.
    if held.failed.as_ref().is_some_and(|f| node.desired.is_some() && f.config != *desired) {
        return Step::ForgetFailure;
    }
    let update = Update { s, held, node, current, desired, forced: s.force, retry: false, drift: &[] };
    if s.force {
        return update.next();
    }
    let Some(compared) = compared else { return Step::Compare(current.clone()) };
    let drift = compared.deviations.as_slice();
    if desired == current {
        let truth = if drift.is_empty() { Truth::Done } else { Truth::AtOnce(reason::drift(current, drift)) };
        return update.rest(&truth, None);
    }
    let Some(failed) = &held.failed else { return Update { drift, ..update }.next() };
    if !drift.is_empty() {
        return update.rest(&Truth::AtOnce(reason::drift(current, drift)), None);
    }
    let (seen, count) = match &s.memory.failed {
        Some((config, seen, count)) if *config == failed.config => (*seen, *count),
        _ => (s.now, 1),
    };
    let retry_at = seen + back_off(FIRST_WAIT, count, LONGEST_WAIT);
    // That the Node is seen says that the API answers.
    let for_good = failed.disruptive && failed.unanswered != 1;
    let until = (!for_good).then_some(retry_at);
    if for_good || s.now < retry_at {
        return update.rest(&Truth::AfterUncordon(reason::one_line(&failed.reason)), until);
    }
    Update { retry: true, ..update }.next()
}

/// The step that says Degraded with `text` now, if the Node does not say so yet and there is one.
pub(super) fn degraded_now(s: &Situation, text: &str) -> Option<Step> {
    let node = s.node.as_ref()?;
    let said = node.state == Some(NodeState::Degraded) && node.reason.as_deref() == Some(text);
    (!said).then(|| Step::Report {
        state: NodeState::Degraded,
        reason: Some(text.to_owned()),
        current: ConfigName::default(),
    })
}

/// The node has no state on disk (design 7.1).
fn adopt(s: &Situation) -> Step {
    let Some(node) = &s.node else { return Step::Wait { why: Waiting::Api, until: None } };
    if let Some(name) = &node.current {
        match found(s, name) {
            Found::Here => return Step::Adopt(name.clone()),
            Found::Look(step) => return step,
            Found::Not { .. } => {}
        }
    }
    // A Working node may have been in the middle of anything: that the disk matches proves nothing about its actions.
    if let Some(name) = &node.desired
        && node.state != Some(NodeState::Working)
    {
        match found(s, name) {
            Found::Look(step) => return step,
            Found::Here => match s.compared.as_ref().filter(|c| c.config == *name) {
                None => return Step::Compare(name.clone()),
                Some(compared) if compared.deviations.is_empty() => return Step::Adopt(name.clone()),
                Some(_) => {}
            },
            Found::Not { .. } => {}
        }
    }
    Step::Adopt(ConfigName::default())
}

/// Whether a rendered config can be had.
enum Found {
    Here,
    /// Ask for it, or wait a little: nobody is told yet.
    Look(Step),
    /// It cannot be had for longer than the grace; it is asked for again then.
    Not {
        why: String,
        until: Moment,
    },
}

fn found(s: &Situation, name: &ConfigName) -> Found {
    let Some(fetched) = s.fetched.get(name) else { return Found::Look(Step::Fetch(name.clone())) };
    let Fetched { result, tries, first, last, .. } = fetched;
    let why = match result {
        Fetch::Here => return Found::Here,
        Fetch::Missing => reason::missing(name),
        Fetch::Broken(why) => reason::broken(name, why),
    };
    let until = *last + back_off(LOOK_AGAIN.0, *tries, LOOK_AGAIN.1);
    if s.now >= until {
        Found::Look(Step::Fetch(name.clone()))
    } else if last.saturating_sub(*first) < GRACE {
        Found::Look(Step::Wait { why: Waiting::Target, until: Some(until) })
    } else {
        Found::Not { why, until }
    }
}

/// What is to be said of a node at rest.
enum Truth {
    Done,
    /// Degraded, and it is said before the cordon is lifted: a blocked uncordon must not hide it.
    AtOnce(String),
    /// Degraded by a failed update: said when the undo is complete, cordon included.
    AfterUncordon(String),
}

/// An update that is wished for, or the node at rest without one.
#[derive(Clone, Copy)]
struct Update<'a> {
    s: &'a Situation,
    held: &'a Held,
    node: &'a OwnNode,
    current: &'a ConfigName,
    desired: &'a ConfigName,
    forced: bool,
    /// It failed before: `state` and `reason` stay until it has worked.
    retry: bool,
    /// What differs from current; the check decides whether that stands in the way.
    drift: &'a [Deviation],
}

impl Update<'_> {
    /// Says the truth, and asks for the uncordon: a node never rests with a request that is not a fulfilled uncordon.
    fn rest(&self, truth: &Truth, until: Option<Moment>) -> Step {
        let node = self.node;
        let report = match truth {
            Truth::Done => {
                let current = (!self.current.is_empty()).then_some(self.current);
                let said = node.state == Some(NodeState::Done)
                    && node.current.as_ref() == current
                    && node.reason.is_none()
                    && node.phase.is_none();
                (!said).then(|| Step::Report { state: NodeState::Done, reason: None, current: self.current.clone() })
            }
            Truth::AtOnce(text) | Truth::AfterUncordon(text) => {
                let said = node.state == Some(NodeState::Degraded)
                    && node.reason.as_deref() == Some(text)
                    && node.phase.is_none();
                (!said).then(|| Step::Report {
                    state: NodeState::Degraded,
                    reason: Some(text.clone()),
                    current: ConfigName::default(),
                })
            }
        };
        let leave = self.leave();
        let (first, second) = match truth {
            Truth::AtOnce(_) => (report, leave),
            Truth::Done | Truth::AfterUncordon(_) => (leave, report),
        };
        first.or(second).unwrap_or(Step::Wait { why: Waiting::News, until })
    }

    /// What is left to do until nothing is asked of the controller.
    fn leave(&self) -> Option<Step> {
        let node = self.node;
        if node.asks_nothing() {
            return None;
        }
        let request = node.desired_drain.as_ref()?;
        if request.kind == DrainKind::Uncordon {
            return Some(Step::Wait { why: Waiting::Uncordon, until: None });
        }
        Some(Step::Ask {
            request: DrainRequest::next(Some(request), DrainKind::Uncordon, self.desired),
            phase: (node.state == Some(NodeState::Working)).then_some(Phase::Uncordoning),
        })
    }

    /// Degraded, unless drift is the better explanation.
    fn blocked(&self, why: String, until: Moment) -> Step {
        let why = if self.drift.is_empty() { why } else { reason::drift(self.current, self.drift) };
        self.rest(&Truth::AtOnce(why), Some(until))
    }

    /// The step that brings the update nearer to an open journal.
    fn next(&self) -> Step {
        let s = self.s;
        if self.desired != self.current {
            match found(s, self.desired) {
                Found::Here => {}
                Found::Look(Step::Wait { until, .. }) if !self.drift.is_empty() => {
                    return self.rest(&Truth::AtOnce(reason::drift(self.current, self.drift)), until);
                }
                Found::Look(step) => return step,
                Found::Not { why, until } => return self.blocked(why, until),
            }
        }
        if let Some(step) = self.check(false) {
            return step;
        }
        let planned =
            s.planned.as_ref().filter(|p| p.from == *self.current && p.to == *self.desired && p.forced == self.forced);
        let plan = Step::Plan { to: self.desired.clone(), forced: self.forced };
        if let Some(planned) = planned
            && let Err(why) = &planned.result
        {
            let until = planned.last + back_off(LOOK_AGAIN.0, planned.tries, LOOK_AGAIN.1);
            return if s.now >= until {
                plan
            } else if planned.last.saturating_sub(planned.first) < GRACE {
                Step::Wait { why: Waiting::Policy, until: Some(until) }
            } else {
                self.blocked(reason::no_policy(why), until)
            };
        }
        if self.forced && self.held.failed.is_some() {
            return Step::ForgetFailure;
        }
        // A retry says nothing until it has worked: its claim is the phase alone.
        let again = self.retry || s.memory.trouble.as_ref().is_some_and(|t| t.count >= Trouble::TELL);
        let quiet = again && self.node.state == Some(NodeState::Degraded);
        let claimed = self.node.state == Some(NodeState::Working) || (quiet && self.node.phase.is_some());
        if !claimed {
            return Step::Claim { desired: self.node.desired.clone(), quiet };
        }
        let Some(Ok(planned)) = planned.map(|p| p.result.as_ref()) else { return plan };
        let mut actions = planned.actions.clone();
        // State on disk is older than the API knows: the slot is long given back, so it comes with a drain.
        let behind = self.desired != self.current && self.node.current.as_ref() == Some(self.desired);
        if behind && !needs_drain(&actions) {
            actions.insert(0, Action::Drain);
        }
        if needs_drain(&actions) {
            match drain(s, self.node, self.desired) {
                Drain::Ask(request) => return Step::Ask { request, phase: Some(Phase::Draining) },
                Drain::Wait(step) => return step,
                Drain::Ready => {}
            }
            if let Some(step) = self.check(true) {
                return step;
            }
        }
        Step::OpenJournal {
            to: self.desired.clone(),
            actions,
            generation: planned.generation,
            uid: self.node.uid.clone(),
            forced: self.forced,
        }
    }

    /// The step that the check asks for: to make it, or to rest because of what it found. None: all is well.
    fn check(&self, drained: bool) -> Option<Step> {
        let s = self.s;
        let made = s.checked.as_ref().filter(|c: &&Checked| {
            c.from == *self.current && c.to == *self.desired && c.forced == self.forced && (c.drained || !drained)
        });
        let look = Step::Check { to: self.desired.clone(), forced: self.forced, drained };
        let Some(made) = made else { return Some(look) };
        let until = made.at + back_off(CHECK_AGAIN.0, made.tries, CHECK_AGAIN.1);
        let truth = if !made.result.drift.is_empty() {
            reason::drift(self.current, &made.result.drift)
        } else if !made.result.obstacles.is_empty() {
            reason::obstacles(self.desired, &made.result.obstacles)
        } else {
            return None;
        };
        Some(if s.now >= until { look } else { self.rest(&Truth::AtOnce(truth), Some(until)) })
    }
}
