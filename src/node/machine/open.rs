//! A transaction is open: carry it forward, run its actions, prove its reboot, verify, close; or undo it.
//!
//! Before the first switch the Node is read once more, uncached: the claim, the drain and the UID must hold then.
//! From the first switch on the API decides nothing any more, with one exception: a Node that was registered again is
//! schedulable and may have pods, so it is claimed and drained before anything happens to running services.

use super::observed::{Moment, Read, Trouble, Work, back_off};
use super::{
    ACTION_LIMIT, Drain, NEW_NODE_PATIENCE, REBOOT_LIMIT, REBOOT_PATIENCE, Situation, Step, UNDO_LIMIT, Waiting, drain,
    needs_drain, reason,
};
use crate::api::protocol::NodeState;
use crate::change::Action;
use crate::node::guard::rule::{Verdict, is_guarded, judge};
use crate::node::journal::{Failed, Journal, Lost, NotedAction, Stage};
use std::time::Duration;

/// Where to look when a reboot does not come.
pub const NO_REBOOT: &str = "see `systemctl list-jobs` and `systemd-inhibit --list`";
/// Between two reads of a Node whose API does not answer.
const READ_AGAIN: Duration = Duration::from_secs(5);
/// A look at a drain on a Node that was registered again, so that an API that goes away meanwhile is noticed.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

pub(super) fn next(s: &Situation, j: &Journal) -> Step {
    if j.failure.is_some() && j.stage < Stage::Undoing {
        return Step::Back;
    }
    match j.stage {
        Stage::Opened => opened(s, j),
        Stage::Switching => Step::Forward,
        Stage::Written if j.forced && s.force => Step::RemoveForceFile,
        Stage::Written => written(s, j),
        Stage::Rebooting => reboot(s, j),
        Stage::Acted => verify(s, j),
        Stage::Undoing => Step::Back,
        Stage::Undone => undone(s, j),
    }
}

/// Nothing is switched yet, and nothing shall be unless all that was agreed still holds.
fn opened(s: &Situation, j: &Journal) -> Step {
    let mut ahead = [Work::Forward, Work::Guard].into_iter().filter_map(|work| s.memory.trouble_with(work));
    if let Some(trouble) = ahead.find(|trouble| trouble.count >= Trouble::TELL) {
        return Step::Fail(reason::one_line(&format!("update to {} failed: {}", j.to.name, trouble.text)));
    }
    // From the first switch on a power cut can bring the node up with new files, so the guard is there before; and it must
    // know the boot of the old ones.
    if is_guarded(j) {
        let Some(boot_id) = &s.boot_id else { return Step::ReadBootId };
        if !j.guard.as_ref().is_some_and(|guard| guard.left && guard.boot_id == *boot_id) {
            return Step::LeaveGuard;
        }
    }
    match s.read {
        Read::Cached => return Step::ReadNode,
        Read::Away { last, .. } => return read_again(s, last),
        Read::Fresh => {}
    }
    let Some(node) = &s.node else { return Step::Wait { why: Waiting::Api, until: None } };
    let wanted = *node.desired.as_ref().unwrap_or(&j.from.name) == j.to.name;
    let same = j.node_uid.as_ref().is_none_or(|uid| *uid == node.uid);
    let drained = !needs_drain(&list(j)) || matches!(drain(s, node, &j.to.name), Drain::Ready);
    if wanted && same && drained { Step::Forward } else { Step::Abandon }
}

/// What to do when [`Step::Forward`] did not work, after the trouble was noted. Before the first switch everything is
/// as before: the update is checked again, and only what fails again and again has failed. After it, it is undone.
pub fn after_failed_forward(stage: Stage, to: &str, trouble: &Trouble) -> Step {
    if stage == Stage::Opened && trouble.count < Trouble::TELL {
        return Step::Abandon;
    }
    Step::Fail(reason::one_line(&format!("update to {to} failed: {}", trouble.text)))
}

fn list(j: &Journal) -> Vec<Action> {
    j.actions.iter().map(|a| a.action.clone()).collect()
}

fn read_again(s: &Situation, last: Moment) -> Step {
    let until = last + READ_AGAIN;
    if s.now >= until { Step::ReadNode } else { Step::Wait { why: Waiting::Api, until: Some(until) } }
}

/// The files are there and `current.json` says so: the actions.
fn written(s: &Situation, j: &Journal) -> Step {
    if let Some(done) = pending_reboot(j) {
        return if done { verify(s, j) } else { reboot(s, j) };
    }
    if let Some(action) = worn_out(j) {
        return Step::Fail(reason::one_line(&format!(
            "update to {} failed: the daemon was ended twice while it ran `{}`",
            j.to.name,
            name(&action.action)
        )));
    }
    let service = |a: &NotedAction| !matches!(a.action, Action::Drain | Action::Reboot);
    if !j.actions.iter().any(service) {
        return verify(s, j);
    }
    guarded(s, j).unwrap_or(Step::RunActions)
}

/// Whether there is a reboot among the actions, and if so whether it is done.
fn pending_reboot(j: &Journal) -> Option<bool> {
    j.actions.iter().find(|a| a.action == Action::Reboot).map(|a| a.done)
}

/// How often an action is begun. Those of an undo are the way back of a node that may be cut off: nobody tries after us.
fn limit(j: &Journal) -> u32 {
    if j.stage == Stage::Undone && j.guard.is_some() { UNDO_LIMIT } else { ACTION_LIMIT }
}

/// An action that was interrupted as often as it may be.
fn worn_out(j: &Journal) -> Option<&NotedAction> {
    j.actions.iter().find(|a| is_worn_out(a, limit(j)))
}

fn is_worn_out(a: &NotedAction, limit: u32) -> bool {
    a.action != Action::Reboot && !a.done && a.begun >= limit
}

/// As an operator would type it.
fn name(action: &Action) -> String {
    match action {
        Action::DaemonReload => "systemctl daemon-reload".into(),
        Action::Reload(unit) => format!("systemctl reload {unit}"),
        Action::Restart(unit) => format!("systemctl restart {unit}"),
        Action::Drain => "drain".into(),
        Action::Reboot => "systemctl reboot".into(),
    }
}

/// What comes before anything that running services notice, when the Node is not the one that was drained (hole 5).
/// None: go on.
fn guarded(s: &Situation, j: &Journal) -> Option<Step> {
    let uid = j.node_uid.as_ref()?;
    if j.actions.iter().all(|a| a.done || matches!(a.action, Action::DaemonReload | Action::Drain)) {
        return None;
    }
    let other = s.node.as_ref().filter(|n| n.uid != *uid);
    match s.read {
        Read::Cached => return Some(Step::ReadNode),
        // Carried through without the API; but if it was seen that the Node is another, one lost answer is no reason.
        Read::Away { since, last } => {
            let patient = other.is_some() && s.now.saturating_sub(since) < NEW_NODE_PATIENCE;
            return patient.then(|| read_again(s, last));
        }
        Read::Fresh => {}
    }
    let node = other?;
    if node.state != Some(NodeState::Working) {
        return Some(Step::Claim { desired: node.desired.clone(), quiet: false });
    }
    Some(match drain(s, node, &j.to.name) {
        Drain::Ask(request) => Step::Ask { request, phase: Some(crate::api::protocol::Phase::Draining) },
        Drain::Wait(Step::Wait { why, until }) => {
            let look = s.now + LOOK_AGAIN;
            Step::Wait { why, until: Some(until.map_or(look, |u| u.min(look))) }
        }
        Drain::Wait(step) => step,
        Drain::Ready => Step::AdoptUid(node.uid.clone()),
    })
}

/// How often the reboot was asked for.
pub fn reboots_asked(j: &Journal) -> u32 {
    j.actions.iter().find(|a| a.action == Action::Reboot).map_or(0, |a| a.begun)
}

/// How a reboot stands, going by the boot id alone: being ended by one's own reboot proves nothing.
fn reboot(s: &Situation, j: &Journal) -> Step {
    let Some(boot_id) = &s.boot_id else { return Step::ReadBootId };
    let begun = reboots_asked(j);
    let ask = || guarded(s, j).unwrap_or(Step::Reboot);
    let Some(before) = j.boot_id.as_ref().filter(|_| begun > 0) else { return ask() };
    if before != boot_id {
        return Step::Rebooted;
    }
    let until = match s.memory.reboot_asked {
        // After asking: nothing but waiting for the end. No checks, no drift.
        Some(asked) => asked + REBOOT_PATIENCE,
        // A daemon that starts may just have been started by a system on its way down, or the asking did not work.
        None => back_off(Duration::from_secs(5), begun, Duration::from_mins(5)),
    };
    if s.now < until {
        return Step::Wait { why: Waiting::End, until: Some(until) };
    }
    if begun < REBOOT_LIMIT {
        return ask();
    }
    let text = reason::one_line(&format!("the node was asked {begun} times to reboot and did not: {NO_REBOOT}"));
    if j.stage == Stage::Undone {
        Step::NoReboot(text)
    } else {
        Step::Fail(format!("update to {} failed: {text}", j.to.name))
    }
}

/// The actions are done: the disk must be as the config says. What changes it back on its own has made the update fail;
/// called drift, it could never be withdrawn.
fn verify(s: &Situation, j: &Journal) -> Step {
    let Some(compared) = s.compared.as_ref().filter(|c| c.config == j.to.name) else {
        return Step::Compare(j.to.name.clone());
    };
    if compared.deviations.is_empty() {
        proven(s, j)
    } else {
        Step::Fail(reason::unverified(&j.to.name, &compared.deviations))
    }
}

/// The disk is as it shall be: what acted on the node must not have taken it away from its cluster. A journal of an mcx
/// that knew no guard has nothing to ask.
fn proven(s: &Situation, j: &Journal) -> Step {
    let Some(guard) = j.guard.as_ref().filter(|_| is_guarded(j)) else { return Step::Close };
    match judge(guard, &s.watched, s.now) {
        Verdict::Proven => Step::Close,
        Verdict::Look => Step::Look,
        Verdict::Wait(until) => Step::Wait { why: Waiting::Proof, until: Some(until) },
        Verdict::Lost(lost) => Step::Lose(lost),
    }
}

/// The old files are back: the same actions for the old config.
fn undone(s: &Situation, j: &Journal) -> Step {
    if pending_reboot(j) == Some(false) {
        return reboot(s, j);
    }
    if let Some(action) = worn_out(j) {
        let (times, name) = (limit(j), name(&action.action));
        return Step::SkipActions(format!("while undoing, the daemon was ended {times} times in `{name}`"));
    }
    if j.actions.iter().any(|a| !a.done) {
        return guarded(s, j).unwrap_or(Step::RunActions);
    }
    // The admin asked once; the answer is in the reason. A file that stayed would ask again and again.
    if j.forced && s.force { Step::RemoveForceFile } else { Step::CloseFailed }
}

/// The journal of an update that failed with `reason`: what its undo has to do. Only what was begun has touched a
/// running service and is done again for the old config; a reboot only if it took place. A boot that came unasked in the
/// middle has started everything with the new files.
pub fn failing(mut j: Journal, reason: &str, boot_id: Option<&str>) -> Journal {
    let switched = j.stage > Stage::Opened;
    let differs = |before: &str| boot_id.is_some_and(|now| now != before);
    let rebooted = j.boot_id.as_deref().is_some_and(differs);
    let booted = rebooted || (switched && j.guard.as_ref().is_some_and(|guard| differs(&guard.boot_id)));
    for a in &mut j.actions {
        a.done = match a.action {
            Action::DaemonReload => !switched,
            Action::Drain => true,
            Action::Reboot => !booted,
            Action::Reload(_) | Action::Restart(_) => a.begun == 0 && !booted,
        };
        a.begun = 0;
    }
    j.boot_id = None;
    j.failure = Some(reason::one_line(reason));
    j
}

/// The journal of an update after which the node was without its kubelet or the API server for too long.
pub fn lost(mut j: Journal, lost: Lost, boot_id: &str) -> Journal {
    let patience = j.guard.as_ref().map_or(0, |guard| guard.patience);
    if let Some(guard) = &mut j.guard {
        guard.lost = Some(lost);
    }
    let reason = reason::lost(&j.to.name, lost, Duration::from_secs(patience));
    failing(j, &reason, Some(boot_id))
}

/// What is to be remembered of an update that was undone; `earlier` is what is remembered so far. None: nothing, as it
/// was the config that the node has anyway.
pub fn failed(j: &Journal, earlier: Option<&Failed>) -> Option<Failed> {
    if j.from.name == j.to.name {
        return None;
    }
    let lost = j.guard.as_ref().and_then(|guard| guard.lost);
    let before = earlier.filter(|f| f.config == j.to.name).map_or(0, |f| f.unanswered);
    let unanswered = if lost == Some(Lost::Api) { before + 1 } else { 0 };
    Some(Failed {
        config: j.to.name.clone(),
        reason: reason::unanswered(j.failure.as_deref().unwrap_or_default(), unanswered),
        disruptive: needs_drain(&list(j)) || lost.is_some(),
        unanswered,
    })
}

/// The journal whose service actions are all done: forward they are followed by verification. A `note` tells what did
/// not work while undoing.
pub fn finished_actions(mut j: Journal, note: Option<&str>) -> Journal {
    for a in j.actions.iter_mut().filter(|a| a.action != Action::Reboot) {
        a.done = true;
    }
    match (j.stage, note) {
        (Stage::Undone, Some(note)) => add(&mut j, note),
        (Stage::Undone, None) => {}
        _ => j.stage = Stage::Acted,
    }
    j
}

/// The journal of an undo in which an action was interrupted too often: that one counts as done, with a note.
pub fn skipped_actions(mut j: Journal, note: &str) -> Journal {
    let limit = limit(&j);
    for a in j.actions.iter_mut().filter(|a| is_worn_out(a, limit)) {
        a.done = true;
    }
    add(&mut j, note);
    j
}

/// The journal after the boot id changed, or, with a note, of an undo whose reboot does not happen.
pub fn finished_reboot(mut j: Journal, note: Option<&str>) -> Journal {
    for a in j.actions.iter_mut().filter(|a| a.action == Action::Reboot) {
        a.done = true;
    }
    if let Some(note) = note {
        add(&mut j, note);
    } else if j.stage != Stage::Undone {
        j.stage = Stage::Acted;
    }
    j
}

fn add(j: &mut Journal, note: &str) {
    let failure = j.failure.take().unwrap_or_default();
    j.failure = Some(reason::one_line(&format!("{failure}; {note}")));
}

/// The journal just before a reboot is asked for: one more try, under this boot id.
pub fn next_reboot(mut j: Journal, boot_id: &str) -> Journal {
    for a in j.actions.iter_mut().filter(|a| a.action == Action::Reboot) {
        a.begun += 1;
    }
    j.boot_id = Some(boot_id.to_owned());
    if j.stage == Stage::Written {
        j.stage = Stage::Rebooting;
    }
    j
}
