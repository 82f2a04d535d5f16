//! What a node's request needs next. Pure: from a Node that was just read, and from what stands around it.
//!
//! Each rule here is one that broke something when it was missing: an uncordon by hand ends the attempt in the API and
//! not in somebody's memory; a mark made for another cordon is void; a cordon that is not ours is never touched.

use super::pods::BoundPod;
use crate::api::protocol::{CordonMark, DrainKind, DrainRequest, DrainStatus, NAMED};
use crate::api::{annotation, event};
use crate::pool::door::NodeChange;
use crate::pool::view::NodeView;
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

/// A drain says which pods it waits for to end only after this long: an ordinary one is over by then.
const NAME_ENDING_AFTER: Duration = Duration::from_secs(5);

/// An Event to publish on the Node once the write that it speaks of has worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    /// Whether somebody should look.
    pub(super) warning: bool,
    /// One of [`event`].
    pub(super) reason: &'static str,
    /// For people.
    pub(super) note: String,
}

impl Notice {
    fn new(warning: bool, reason: &'static str, note: String) -> Self {
        Self { warning, reason, note }
    }
}

/// The next step for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing is asked, or the attempt is over.
    Nothing,
    /// A guarded write that needs no slot; then look again.
    Write(NodeChange, Option<Notice>),
    /// Cordoned by us for another config, and this request is not taken up yet: it needs a slot, too, then this write.
    Begin(DrainRequest, NodeChange),
    /// The node is schedulable and asks for a drain: it needs a slot and the limit counted again, then [`cordon`].
    Cordon(DrainRequest),
    /// Somebody else must act first: say why.
    Wait(DrainRequest, String),
    /// Cordoned by us: evict, wait, [`fulfil`].
    Empty(Emptying),
}

/// A drain that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Emptying {
    /// What was asked.
    pub(super) request: DrainRequest,
    /// When it was taken up.
    pub(super) started: Timestamp,
    /// When the node was cordoned, in whole seconds.
    pub(super) cordoned: Timestamp,
}

/// The next step for `node`, which was just read.
pub(super) fn next(node: &NodeView, now: Timestamp) -> Next {
    if let Some(step) = lost_mark(node) {
        return step;
    }
    let Some(request) = pending(node) else { return Next::Nothing };
    match request.kind {
        DrainKind::Uncordon => uncordon(node, request),
        DrainKind::Drain => drain(node, request, now),
    }
}

/// The request that is not fulfilled yet.
fn pending(node: &NodeView) -> Option<&DrainRequest> {
    node.desired_drain.as_ref().filter(|r| node.applied_drain.as_ref() != Some(r))
}

/// What was written about this very request.
fn status_of(node: &NodeView, request: &DrainRequest) -> DrainStatus {
    node.drain_status
        .clone()
        .filter(|s| s.request == request.to_string())
        .unwrap_or_else(|| DrainStatus { request: request.to_string(), ..DrainStatus::default() })
}

/// A mark on a schedulable node, or for another cordon than the one that is there: an administrator uncordoned, and
/// maybe cordoned again for reasons of their own. One patch removes the mark and ends the attempt, so that the daemon
/// reads the end in the API and asks anew.
fn lost_mark(node: &NodeView) -> Option<Next> {
    if node.mark.is_none() || node.cordon_is_ours() {
        return None;
    }
    let change = NodeChange::default().remove(annotation::CORDONED_BY);
    Some(match &node.desired_drain {
        Some(request) if request.kind == DrainKind::Drain => {
            let status = DrainStatus { ended: true, waiting: Vec::new(), waiting_count: 0, ..status_of(node, request) };
            let now = if node.cordoned { "It is cordoned by somebody else now." } else { "Pods may be on it again." };
            let words =
                format!("Request {request} ended: the node was uncordoned by hand. {now} The daemon asks again.");
            Next::Write(
                change.set(annotation::DRAIN_STATUS, text(&status)),
                Some(Notice::new(true, event::DRAIN_ENDED, words)),
            )
        }
        _ => match pending(node) {
            Some(request) => Next::Write(answered(node, change, request), None),
            None => Next::Write(change, None),
        },
    })
}

fn uncordon(node: &NodeView, request: &DrainRequest) -> Next {
    if !node.cordon_is_ours() {
        // Not our cordon, or none: fulfilled, and nothing of the node changes.
        return Next::Write(answered(node, NodeChange::default(), request), None);
    }
    // One patch: a crash leaves either all of it to do or nothing.
    let change = NodeChange::default().uncordon();
    let words = format!("Lifted the cordon that mcx had set, for request {request}.");
    Next::Write(answered(node, change, request), Some(Notice::new(false, event::UNCORDONED, words)))
}

/// `change`, with the uncordon `request` fulfilled and nothing left to say about it.
fn answered(node: &NodeView, change: NodeChange, request: &DrainRequest) -> NodeChange {
    let change = change.set(annotation::LAST_APPLIED_DRAIN, request);
    if node.drain_status.is_some() { change.remove(annotation::DRAIN_STATUS) } else { change }
}

fn drain(node: &NodeView, request: &DrainRequest, now: Timestamp) -> Next {
    let status = status_of(node, request);
    if status.ended {
        return Next::Nothing;
    }
    if !node.cordoned {
        return Next::Cordon(request.clone());
    }
    let Some(mark) = &node.mark else {
        return Next::Wait(
            request.clone(),
            "the node was cordoned by somebody else; it is drained once they uncordon it".to_owned(),
        );
    };
    let Some(started) = status.started else {
        // The cordon was kept for another config: a new request, whose time begins now.
        let status = DrainStatus { started: Some(now), waiting: Vec::new(), waiting_count: 0, ..status };
        return Next::Begin(request.clone(), NodeChange::default().set(annotation::DRAIN_STATUS, text(&status)));
    };
    Next::Empty(Emptying { request: request.clone(), started, cordoned: mark.at() })
}

/// Cordon, mark and start time, in one patch. Only after the slot was seen and the limit counted again. `mark` is of the
/// API server's time, to which the times of pods are compared.
pub(super) fn cordon(
    node: &NodeView,
    request: &DrainRequest,
    mark: CordonMark,
    now: Timestamp,
) -> (NodeChange, Notice) {
    let started = status_of(node, request).started.unwrap_or(now);
    let status = DrainStatus { request: request.to_string(), started: Some(started), ..DrainStatus::default() };
    let change = NodeChange::default().cordon(mark).set(annotation::DRAIN_STATUS, text(&status));
    let words = format!("Cordoned; pods are evicted, for request {request}.");
    (change, Notice::new(false, event::DRAIN_STARTED, words))
}

/// The request is fulfilled. To be written under the resourceVersion of the Node that was read before its pods were
/// listed: so it still is cordoned with our mark. `late` is what
/// came or stayed and is not waited for: it is named.
pub(super) fn fulfil(drain: &Emptying, late: &[String], now: Timestamp) -> (NodeChange, Notice) {
    let change = NodeChange::default()
        .set(annotation::LAST_APPLIED_DRAIN, &drain.request)
        .set(annotation::DRAIN_STATUS, text(&waiting_for(&drain.request, Some(drain.started), late)));
    let words = format!(
        "All pods that had to go are gone after {} s, for request {}.",
        now.duration_since(drain.started).as_secs(),
        drain.request
    );
    (change, Notice::new(false, event::DRAINED, words))
}

/// Says why the request waits; none when that is on the Node already.
pub(super) fn say(node: &NodeView, request: &DrainRequest, waiting: &[String]) -> Option<NodeChange> {
    let started = status_of(node, request).started;
    let status = waiting_for(request, started, waiting);
    (node.drain_status.as_ref() != Some(&status))
        .then(|| NodeChange::default().set(annotation::DRAIN_STATUS, text(&status)))
}

fn waiting_for(request: &DrainRequest, started: Option<Timestamp>, waiting: &[String]) -> DrainStatus {
    DrainStatus {
        request: request.to_string(),
        started,
        ended: false,
        waiting: waiting.iter().take(NAMED).cloned().collect(),
        waiting_count: waiting.len(),
    }
}

fn text(status: &DrainStatus) -> String {
    serde_json::to_string(status).unwrap_or_default()
}

/// Whether the drain takes longer than `threshold`. It goes on all the same.
pub(super) fn overdue(drain: &Emptying, threshold: Duration, now: Timestamp) -> bool {
    now > drain.started + threshold
}

/// The Event of an overdue drain.
pub(super) fn overdue_notice(drain: &Emptying, waiting: &[String]) -> Notice {
    let blocked = crate::api::protocol::first_and_count(waiting, "; ");
    let words = format!(
        "Request {} is not fulfilled since {}; it goes on. Waiting for: {blocked}",
        drain.request, drain.started
    );
    Notice::new(true, event::DRAIN_SLOW, annotation::cut(&words, NOTE_LIMIT))
}

/// Longest note of an Event, in bytes: the API server refuses more than 1,024.
const NOTE_LIMIT: usize = 1024;

/// What is said of a pod that was asked to end and has not yet; none while that is nothing unusual.
pub(super) fn ending(pod: &BoundPod, node_ready: bool, drain: &Emptying, now: Timestamp) -> Option<String> {
    let ends_at = pod.ends_at?;
    let title = pod.title();
    if now > ends_at {
        let next = if node_ready {
            "see its finalizers and its kubelet"
        } else {
            "the node is NotReady: its kubelet must come back, or the pod be deleted with --force"
        };
        return Some(format!("{title} should have ended by {ends_at}: {next}"));
    }
    (now > drain.started + NAME_ENDING_AFTER).then(|| format!("{title} is ending, by {ends_at} at the latest"))
}

/// What is said of a pod that came after the cordon.
pub(super) fn late(pod: &BoundPod) -> String {
    format!("{} came after the cordon and is not waited for", pod.title())
}

#[cfg(test)]
mod tests;
