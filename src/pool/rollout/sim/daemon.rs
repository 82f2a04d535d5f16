//! The daemons, as far as the controller can tell: claim, drain, switch, act, uncordon, Done.

use super::cluster::Cluster;
use crate::api::protocol::{DrainKind, DrainRequest, NodeState, Phase, PhaseSince};
use crate::api::{ConfigName, NodeName, Uid};
use crate::pool::view::NodeView;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub(super) struct Daemon {
    /// What the disk has.
    pub(super) current: Option<ConfigName>,
    pub(super) drift: bool,
    pub(super) force: bool,
    pub(super) rebooting: bool,
    pub(super) journal: Option<Journal>,
    pub(super) failed: Option<ConfigName>,
}

#[derive(Debug, Clone)]
pub(super) struct Journal {
    from: Option<ConfigName>,
    to: Option<ConfigName>,
    pub(super) cost: u8,
    pub(super) uid: Uid,
    pub(super) stage: Stage,
    forced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Opened,
    Switched,
    Acted,
}

impl Daemon {
    pub(super) fn is_idle(&self) -> bool {
        self.journal.is_none() && !self.drift && !self.force && !self.rebooting
    }
}

impl Cluster {
    fn daemon(&mut self, name: &NodeName) -> &mut Daemon {
        self.daemons.get_mut(name).unwrap()
    }

    pub(super) fn daemon_step(&mut self, name: &NodeName) {
        let daemon = self.daemons[name].clone();
        let node = self.nodes.get(name).map(|s| Arc::clone(&s.object));
        if daemon.rebooting {
            self.tell(|| format!("{name} has booted"));
            self.daemon(name).rebooting = false;
            self.change_node(name, |n| n.ready = true);
            return;
        }
        match (&daemon.journal, node) {
            (Some(journal), node) => self.carry_on(name, journal.clone(), node.as_deref()),
            (None, Some(node)) => self.look(name, &daemon, &node),
            (None, None) => {}
        }
    }

    fn look(&mut self, name: &NodeName, daemon: &Daemon, node: &NodeView) {
        if node.state.is_none() {
            let current = daemon.current.clone();
            self.change_node(name, |n| (n.state, n.current) = (Some(NodeState::Done), current));
            return;
        }
        let desired = node.desired.clone().or_else(|| daemon.current.clone());
        if daemon.drift && !daemon.force {
            self.leave(name, node, NodeState::Degraded, Some("Drift: x"));
        } else if daemon.force || (desired != daemon.current && daemon.failed != desired) {
            self.update(name, daemon, node, desired.as_ref());
        } else if desired == daemon.current {
            self.leave(name, node, NodeState::Done, None);
        } else {
            self.leave(name, node, NodeState::Degraded, Some("it failed"));
        }
    }

    fn update(&mut self, name: &NodeName, daemon: &Daemon, node: &NodeView, to: Option<&ConfigName>) {
        let phase = |phase, since| Some(PhaseSince { phase, since });
        let now = self.timestamp();
        if node.state != Some(NodeState::Working) {
            self.tell(|| format!("{name} claims {to:?}"));
            self.daemon(name).failed = None;
            self.change_node(name, |n| {
                (n.state, n.reason, n.phase) = (Some(NodeState::Working), None, phase(Phase::Claimed, now));
            });
            return;
        }
        let mut cost = if daemon.force { 2 } else { self.cost(daemon.current.as_ref(), to) };
        if cost > 0 && node.current.as_ref() == to {
            cost = 2;
        }
        let journal = Journal {
            from: daemon.current.clone(),
            to: to.cloned(),
            cost,
            uid: node.uid.clone(),
            stage: Stage::Opened,
            forced: daemon.force,
        };
        if cost < 2 || self.is_drained(name, node, to) {
            self.daemon(name).journal = Some(journal);
        }
    }

    /// Whether the node is drained for this config; asks for what is missing.
    fn is_drained(&mut self, name: &NodeName, node: &NodeView, to: Option<&ConfigName>) -> bool {
        let to = to.cloned().unwrap_or_default();
        let asked = node.desired_drain.as_ref().filter(|r| r.kind == DrainKind::Drain && r.config == to);
        let fulfilled = asked.is_some() && node.desired_drain == node.applied_drain;
        let ended =
            asked.is_some_and(|r| node.drain_status.as_ref().is_some_and(|s| s.ended && s.request == r.to_string()));
        if fulfilled && node.cordon_is_ours() {
            return true;
        }
        if asked.is_none() || fulfilled || ended {
            let next = DrainRequest::next(node.desired_drain.as_ref(), DrainKind::Drain, &to);
            self.tell(|| format!("{name} asks {next}"));
            let now = self.timestamp();
            self.change_node(name, |n| {
                n.desired_drain = Some(next);
                n.phase = Some(PhaseSince { phase: Phase::Draining, since: now });
            });
        }
        false
    }

    /// Asks for the uncordon that is due, then says `state`.
    fn leave(&mut self, name: &NodeName, node: &NodeView, state: NodeState, reason: Option<&str>) {
        match &node.desired_drain {
            Some(request) if request.kind == DrainKind::Drain => {
                let config = request.config.clone();
                let next = DrainRequest::next(Some(request), DrainKind::Uncordon, &config);
                self.change_node(name, |n| n.desired_drain = Some(next));
            }
            Some(request) if node.applied_drain.as_ref() != Some(request) => {}
            _ => {
                let current = self.daemons[name].current.clone();
                let before = self.nodes[name].version;
                self.change_node(name, |n| {
                    n.state = Some(state);
                    n.reason = reason.map(str::to_owned);
                    n.phase = None;
                    if state == NodeState::Done {
                        n.current = current;
                    }
                });
                if self.nodes[name].version != before {
                    self.tell(|| format!("{name} says {state:?}"));
                }
                if state == NodeState::Done {
                    self.daemon(name).failed = None;
                }
            }
        }
    }

    fn carry_on(&mut self, name: &NodeName, journal: Journal, node: Option<&NodeView>) {
        match journal.stage {
            Stage::Opened => self.switch(name, journal, node),
            Stage::Switched => {
                if let Some(node) = node.filter(|n| journal.cost > 0 && n.uid != journal.uid) {
                    // Another Node than the one that was drained: claim it and drain it first.
                    if node.state != Some(NodeState::Working) {
                        self.change_node(name, |n| n.state = Some(NodeState::Working));
                    } else if self.is_drained(name, node, journal.to.as_ref()) {
                        let uid = node.uid.clone();
                        self.daemon(name).journal = Some(Journal { uid, ..journal });
                    }
                    return;
                }
                self.act(name, journal);
            }
            Stage::Acted => self.daemon(name).journal = None,
        }
    }

    fn switch(&mut self, name: &NodeName, journal: Journal, node: Option<&NodeView>) {
        let valid = node.is_some_and(|n| {
            let drained = n.cordon_is_ours()
                && n.desired_drain == n.applied_drain
                && n.desired_drain.as_ref().is_some_and(|r| r.kind == DrainKind::Drain);
            let wanted = n.desired.clone().or_else(|| self.daemons[name].current.clone());
            wanted == journal.to && n.uid == journal.uid && (journal.cost < 2 || drained)
        });
        if !valid || (self.daemons[name].drift && !journal.forced) {
            self.daemon(name).journal = None;
            return;
        }
        self.tell(|| format!("{name} switches to {:?}, cost {}", journal.to, journal.cost));
        if journal.cost == 1 {
            self.takes_away(name, "a restart", false);
        }
        let daemon = self.daemon(name);
        (daemon.drift, daemon.force) = (false, daemon.force && !journal.forced);
        daemon.current.clone_from(&journal.to);
        daemon.journal = Some(Journal { stage: Stage::Switched, ..journal });
    }

    fn act(&mut self, name: &NodeName, journal: Journal) {
        let bad = journal.to.as_ref().is_some_and(|to| self.is_bad(to)) && journal.from != journal.to;
        let daemon = self.daemons.get_mut(name).unwrap();
        if bad {
            daemon.current.clone_from(&journal.from);
            daemon.failed.clone_from(&journal.to);
        }
        let reboots = journal.cost == 2;
        daemon.rebooting = reboots;
        daemon.journal = Some(Journal { stage: Stage::Acted, ..journal });
        if reboots {
            self.change_node(name, |n| n.ready = false);
        }
        self.tell(|| format!("{name} acts{}", if bad { ", which fails" } else { "" }));
    }
}
