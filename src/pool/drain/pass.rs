//! One look at one node: read it, do what comes next, until something must be waited for.

use super::decide::{self, Emptying, Next, Notice};
use super::evict::{self, Refusals, Round};
use super::slot::{self, Grant, Surroundings};
use super::volumes;
use crate::api::protocol::{CordonMark, DrainRequest};
use crate::api::{Epoch, NodeName, Uid};
use crate::pool::backoff::elapsed;
use crate::pool::door::{Door, Error, NodeChange};
use crate::pool::view::NodeView;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// `drainStatus` is written at most this often.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Writes in one pass: cordon, mark, fulfilment and what an administrator adds in between. More is a loop.
const WRITES: usize = 6;

/// What a pass needs.
pub(super) struct Work {
    /// The API server.
    pub(super) door: Door,
    /// Of this leadership.
    pub(super) epoch: Epoch,
    /// After this long a drain is overdue.
    pub(super) threshold: Duration,
    /// For how long volumes are waited for.
    pub(super) detach: Duration,
    /// Namespace of mcx.
    pub(super) namespace: String,
    /// The node.
    pub(super) name: NodeName,
    /// What stands around it and the others.
    pub(super) around: Arc<Surroundings>,
}

/// What is kept between the passes of a node. Losing it costs nothing but a repeated Event.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    of: Option<(Uid, DrainRequest)>,
    refusals: Refusals,
    overdue_said: bool,
    said_at: Option<Timestamp>,
    /// Since when the pods are gone. A new leader waits anew.
    emptied: Option<Timestamp>,
}

/// How a pass ended.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// UID of the node; none when it is gone.
    pub(super) uid: Option<Uid>,
    /// What the pass wrote, as Events. Also filled when the pass failed later on.
    pub(super) notices: Vec<Notice>,
    /// Whether the drain is overdue.
    pub(super) overdue: bool,
    /// Whether anything is left to do.
    pub(super) waits: bool,
}

/// One pass. What was written before an error is in `report`.
pub(super) async fn pass(work: &Work, memory: &mut Memory, now: Timestamp, report: &mut Report) -> Result<(), Error> {
    let mut fresh = None;
    for _ in 0..WRITES {
        let node = match fresh.take() {
            Some(node) => Some(node),
            None => work.door.node(&work.name).await?,
        };
        let Some(node) = node else {
            *report = Report::default();
            return Ok(());
        };
        let view = NodeView::new(&node);
        memory.begin(&view);
        report.uid = Some(view.uid.clone());
        report.waits = true;
        let (change, notice) = match decide::next(&view, now) {
            Next::Nothing => {
                report.waits = false;
                return Ok(());
            }
            Next::Write(change, notice) => (change, notice),
            Next::Begin(request, change) => match slot::ask(&work.door, &work.epoch, &view, &work.around).await? {
                Grant::Granted => (change, None),
                Grant::Waits(why) => return say(work, memory, &node, &view, &request, &[why], now).await,
            },
            Next::Cordon(request) => {
                let time = work.door.time(now).await?;
                match slot::ask(&work.door, &work.epoch, &view, &work.around).await? {
                    Grant::Granted => {
                        let (change, notice) = decide::cordon(&view, &request, CordonMark::new(time), now);
                        (change, Some(notice))
                    }
                    Grant::Waits(why) => return say(work, memory, &node, &view, &request, &[why], now).await,
                }
            }
            Next::Wait(request, why) => return say(work, memory, &node, &view, &request, &[why], now).await,
            Next::Empty(drain) => {
                report.overdue = decide::overdue(&drain, work.threshold, now);
                match empty(work, memory, &node, &view, &drain, report, now).await? {
                    Some((change, notice)) => (change, Some(notice)),
                    None => return Ok(()),
                }
            }
        };
        match work.door.change_node(&node, &change).await? {
            // It changed meanwhile: decide again from what is there now.
            None => {}
            Some(written) => {
                report.notices.extend(notice);
                fresh = Some(written);
            }
        }
    }
    Ok(())
}

/// One round of evictions. What to write when the node is empty.
async fn empty(
    work: &Work,
    memory: &mut Memory,
    node: &Node,
    view: &NodeView,
    drain: &Emptying,
    report: &mut Report,
    now: Timestamp,
) -> Result<Option<(NodeChange, Notice)>, Error> {
    let round =
        evict::round(&work.door, &work.name, view.ready, drain, &work.namespace, &mut memory.refusals, now).await?;
    match round {
        Round::Empty { mut late } => {
            let emptied = memory.emptied.get_or_insert(now);
            // A clock that was set back: the volumes get their whole time from now on.
            *emptied = now.min(*emptied);
            let attached =
                if work.detach.is_zero() { Vec::new() } else { volumes::attached(&work.door, &work.name).await? };
            if !attached.is_empty() && elapsed(*emptied, now) < work.detach {
                say(work, memory, node, view, &drain.request, &attached, now).await?;
                return Ok(None);
            }
            late.extend(attached);
            report.overdue = false;
            Ok(Some(decide::fulfil(drain, &late, now)))
        }
        Round::Waiting { named } => {
            if report.overdue && !memory.overdue_said {
                memory.overdue_said = true;
                report.notices.push(decide::overdue_notice(drain, &named));
            }
            say(work, memory, node, view, &drain.request, &named, now).await?;
            Ok(None)
        }
    }
}

/// Writes why it waits, when that is new and not too soon. A conflict is no loss: the next pass says it.
async fn say(
    work: &Work,
    memory: &mut Memory,
    node: &Node,
    view: &NodeView,
    request: &DrainRequest,
    waiting: &[String],
    now: Timestamp,
) -> Result<(), Error> {
    let too_soon = memory.said_at.is_some_and(|at| elapsed(at, now) < SAY_EVERY);
    if let (Some(change), false) = (decide::say(view, request, waiting), too_soon)
        && work.door.change_node(node, &change).await?.is_some()
    {
        memory.said_at = Some(now);
    }
    Ok(())
}

impl Memory {
    /// Another node of the name, or another request: nothing of the old one counts.
    fn begin(&mut self, node: &NodeView) {
        let of = node.desired_drain.clone().map(|request| (node.uid.clone(), request));
        if self.of != of {
            *self = Self { of, said_at: self.said_at, ..Self::default() };
        }
    }
}
