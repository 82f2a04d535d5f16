//! Why a node does not get the target, or does not have it yet: for the decision, and in the words of the pool's status.

use super::{Block, Case, TEXT_LIMIT, Why};
use crate::api::condition::Reason;
use crate::api::protocol::{NodeState, SlotHolder, first_and_count};
use crate::api::{DAEMONSET, FORCE_FILE, annotation};
use crate::pool::view::NodeView;

/// What to look at where no daemon answers.
pub(super) fn no_daemon(what: &str) -> String {
    format!("{what}: check its pod of DaemonSet {DAEMONSET}")
}

impl Case<'_> {
    /// What keeps the whole pool from handing out; none when nothing does.
    pub fn block(&self) -> Option<Block> {
        let block = |reason, text: String| Some(Block { reason, text });
        if let Some(refused) = self.refused {
            return block(Reason::InvalidPool, format!("the pool is refused: {refused}"));
        }
        if self.pool.is_paused() {
            return block(Reason::Paused, "the pool is paused (spec.paused)".to_owned());
        }
        let Some(target) = &self.target else {
            return block(Reason::Rendering, "the pool has no rendered config yet".to_owned());
        };
        if !self.world.rendered.contains(target) {
            let text = format!("MachineConfig {target} is missing; mcx puts it back");
            return block(Reason::Rendering, text);
        }
        if self.world.policy.is_none() {
            let text =
                "the policy of MachineConfiguration cluster is not in effect yet: its status is older than its spec";
            return block(Reason::PolicyNotReady, text.to_owned());
        }
        None
    }

    /// Why this node may not be sent to the target, slot or no slot; none when it may.
    pub(super) fn obstacle(&self, node: &NodeView) -> Option<String> {
        if node.state.is_none() {
            return Some(no_daemon("no daemon has reported on it"));
        }
        if node.drifted() {
            return Some(format!("it drifted: put it right by hand, or create {FORCE_FILE} on it"));
        }
        let at_rest = node.settled();
        if !at_rest && node.current == self.target {
            // What is under way is withdrawn: allowed whatever is paused or held, since it disrupts nothing.
            return None;
        }
        if let Some(block) = self.block() {
            return Some(block.text);
        }
        if let Some(hold) = &node.hold {
            let why = annotation::cut(hold, TEXT_LIMIT / 4);
            return Some(format!("an administrator holds it (annotation {}: {why})", annotation::HOLD));
        }
        if let Some(deletion) = &node.deletion {
            return Some(format!("it is about to go: {deletion}"));
        }
        if at_rest {
            return self.rest_is_respected(node);
        }
        None
    }

    /// Why a node at rest is not disturbed; none when it may be.
    fn rest_is_respected(&self, node: &NodeView) -> Option<String> {
        if !self.has_daemon(node) {
            return Some(no_daemon("its daemon is not Ready"));
        }
        if node.cordoned && !node.cordon_is_ours() {
            return Some("it is cordoned, and not by mcx: it is updated once it is uncordoned".to_owned());
        }
        if let Err(invalid) = &self.limit {
            return Some(invalid.to_string());
        }
        None
    }

    /// Why a node that asks for a drain gets no slot for it, limit apart. Neither `paused` nor `hold` is a reason: what
    /// is under way is finished.
    pub(super) fn drain_obstacle(&self, node: &NodeView) -> Option<String> {
        if !self.has_daemon(node) {
            return Some(no_daemon("its daemon is not Ready"));
        }
        if node.cordoned && !node.cordon_is_ours() {
            return Some("it asks for a drain and is cordoned, and not by mcx: uncordon it".to_owned());
        }
        self.limit.as_ref().err().map(ToString::to_string)
    }

    /// How far a node is that shall have the target; none when it has it and nothing is left.
    pub(super) fn progress(&self, node: &NodeView) -> Option<Why> {
        if self.is_updated(node) {
            let rest = if !node.ready {
                "NotReady"
            } else if node.cordoned {
                "cordoned"
            } else if !self.recovery.has_recovered(node) {
                "waiting for its kubelet to renew its lease"
            } else {
                return None;
            };
            return self.holds(node).then(|| Why::Progress(format!("it has the config and is {rest}")));
        }
        let to = |text: String| annotation::cut(&text, TEXT_LIMIT);
        Some(match node.state {
            None => Why::Kept(no_daemon("no daemon has reported on it")),
            Some(NodeState::Degraded) => Why::Kept("it is Degraded".to_owned()),
            Some(NodeState::Done) if !self.has_daemon(node) => Why::Kept(no_daemon("its daemon is not Ready")),
            Some(NodeState::Done) => Why::Progress("it has not begun yet".to_owned()),
            Some(NodeState::Working) => {
                let phase = match &node.phase {
                    Some(phase) => format!("{} since {:.0}", phase.phase.as_str(), phase.since),
                    None => "Working".to_owned(),
                };
                let waits = node.drain_status.as_ref().filter(|status| {
                    !status.waiting.is_empty()
                        && node.desired_drain.as_ref().is_some_and(|r| r.to_string() == status.request)
                });
                match waits {
                    Some(status) => {
                        let blocked = first_and_count(&status.waiting, ", ");
                        Why::Kept(to(format!("{phase}, which waits for {blocked}")))
                    }
                    None => Why::Progress(phase),
                }
            }
        })
    }

    /// What is said of nodes that could be updated if others did not use up the limit.
    pub fn why_turn(&self, in_the_way: &[String]) -> String {
        let limit = self.limit.clone().unwrap_or_default();
        let used = first_and_count(in_the_way, ", ");
        format!("waiting for a turn, since spec.maxUnavailable allows {limit} and is used up by {used}")
    }

    /// What uses up the limit.
    pub(super) fn in_the_way(&self) -> Vec<String> {
        let members = self.members.iter().filter(|node| self.counts(node)).map(|node| {
            let why = match node.state {
                _ if !node.ready => "NotReady",
                _ if node.cordoned && node.cordon_is_ours() => "being drained or updated",
                _ if node.cordoned => "cordoned",
                Some(NodeState::Degraded) => "Degraded",
                _ => "updating",
            };
            format!("{} ({why})", node.name)
        });
        let is_here = |h: &&SlotHolder| self.inside.contains(&(&h.name, &h.uid));
        let gone =
            self.slots.nodes.iter().filter(|h| !is_here(h)).map(|h| format!("{} (no longer in the pool)", h.name));
        members.chain(gone).collect()
    }
}
