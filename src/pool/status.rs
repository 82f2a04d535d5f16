//! A pool's counts and conditions. Pure: an unchanged world gives an identical status, so that nothing is written.

use super::membership::Membership;
use super::rollout::decide::{Case, Plan, Why};
use super::view::NodeView;
use super::world::{Rendering, World};
use crate::api::condition::{self, Reason};
use crate::api::machine_config_pool::{ConfigurationReference, PoolCondition};
use crate::api::protocol::{NodeState, first_and_count};
use crate::api::{MachineConfigPool, MachineConfigPoolStatus, NodeName, PoolName, annotation};
use crate::render::rule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// Longest `reason` of one node inside a pool's condition, in bytes; the whole of it is on the Node.
const NODE_REASON_LIMIT: usize = 600;

/// Longest message of a condition, in bytes; Kubernetes allows 32 KiB.
const MESSAGE_LIMIT: usize = 16 << 10;

/// What a status is made from.
pub struct Input<'a> {
    /// The caches.
    pub world: &'a World,
    /// Made from them.
    pub membership: &'a Membership,
    /// The pool as it was read last.
    pub pool: &'a MachineConfigPool,
    /// The pool and its surroundings.
    pub case: &'a Case<'a>,
    /// Made from that.
    pub plan: &'a Plan,
    /// The status that was written last: keeps the times of transition and the last configuration.
    pub previous: Option<&'a MachineConfigPoolStatus>,
    /// By the controller's clock.
    pub now: Timestamp,
}

/// A condition before it has a time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    is: bool,
    reason: Reason,
    message: String,
}

impl Said {
    fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self { is: true, reason, message: message.into() }
    }

    fn no(reason: Reason, message: impl Into<String>) -> Self {
        Self { is: false, reason, message: message.into() }
    }
}

/// The status of a pool.
pub fn compute(input: &Input) -> MachineConfigPoolStatus {
    let members = input.case.members();
    let updated = members.iter().filter(|n| input.case.is_updated(n)).count();
    let ready = members.iter().filter(|n| input.case.is_updated(n) && n.ready && !n.cordoned).count();
    let unavailable = members.iter().filter(|n| input.case.counts(n)).count();
    let degraded = members.iter().filter(|n| n.state == Some(NodeState::Degraded)).count();

    let render = render_degraded(input);
    let node = node_degraded(input);
    let (updated_said, updating_said) = progress(input, &render, updated);
    let all_updated = updated_said.is;
    let said = [
        (condition::UPDATED, updated_said),
        (condition::UPDATING, updating_said),
        (condition::DEGRADED, sum(&node, &render)),
        (condition::NODE_DEGRADED, node),
        (condition::RENDER_DEGRADED, render),
    ];
    MachineConfigPoolStatus {
        conditions: Some(said.into_iter().map(|(type_, said)| stamped(input, type_, said)).collect()),
        configuration: configuration(input, all_updated),
        degraded_machine_count: Some(count(degraded)),
        machine_count: Some(count(members.len())),
        observed_generation: input.pool.metadata.generation,
        pool_synchronizers_status: input.previous.and_then(|p| p.pool_synchronizers_status.clone()),
        ready_machine_count: Some(count(ready)),
        unavailable_machine_count: Some(count(unavailable)),
        updated_machine_count: Some(count(updated)),
    }
}

/// Whether `next` withdraws `Updated`: then it must be written at once, or `kubectl wait` after an edit returns early.
pub fn withdraws_updated(previous: Option<&MachineConfigPoolStatus>, next: &MachineConfigPoolStatus) -> bool {
    is_updated(previous) && !is_updated(Some(next))
}

/// Whether the status says that the pool is updated.
pub fn is_updated(status: Option<&MachineConfigPoolStatus>) -> bool {
    let mut conditions = status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.any(|c| c.type_ == condition::UPDATED && c.status == "True")
}

/// Moves only when every node is updated: the config that all nodes had last.
fn configuration(input: &Input, all: bool) -> Option<ConfigurationReference> {
    if all { input.pool.spec.configuration.clone() } else { input.previous.and_then(|p| p.configuration.clone()) }
}

/// `Updated` and `Updating`.
fn progress(input: &Input, render: &Said, updated: usize) -> (Said, Said) {
    let size = input.case.members().len();
    let Some(target) = input.case.target() else {
        let said = match render {
            Said { is: true, reason, message } => Said::no(*reason, message.clone()),
            _ => Said::no(Reason::Rendering, "the first rendered config is being made"),
        };
        return (said.clone(), said);
    };
    let all = updated == size;
    let moving = input.plan.waiting.iter().any(|w| w.moving);
    let waiting = waiting(input);
    let state = match (all, waiting.is_empty()) {
        (true, true) => format!("all {} have {target}", nodes(size)),
        (true, false) => format!("all {} have {target}; {waiting}", nodes(size)),
        (false, _) => {
            let idle = input.plan.waiting.iter().filter(|w| !w.moving).count();
            format!("{updated} of {} have {target}, {idle} wait; {waiting}", nodes(size))
        }
    };
    let state = annotation::cut(&state, MESSAGE_LIMIT);
    let reason = match input.case.block() {
        _ if all => Reason::AllNodesUpdated,
        Some(block) => block.reason,
        None if input.case.limit().is_err() => Reason::InvalidMaxUnavailable,
        None if moving => Reason::NodesUpdating,
        None => Reason::NodesWaiting,
    };
    let said = if render.is {
        let text = format!("the pool keeps {target}, since its rendering failed: {}", render.message);
        Said::no(render.reason, annotation::cut(&text, MESSAGE_LIMIT))
    } else if is_pending(input) {
        Said::no(Reason::Rendering, "a source or the pool changed; the new rendered config is being made")
    } else {
        Said { is: all, reason, message: state.clone() }
    };
    let updating = if moving { Said::yes(Reason::NodesUpdating, state) } else { Said::no(reason, state) };
    (said, updating)
}

fn is_pending(input: &Input) -> bool {
    input.world.rendering.get(&PoolName::from(input.pool.name())).is_some_and(|r| r.pending)
}

/// What keeps which nodes: those that need somebody first, then those on their way, then those that wait their turn.
fn waiting(input: &Input) -> String {
    let all = &input.plan.waiting;
    let mut parts = Vec::new();
    let mut kept: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut turn: Vec<&str> = Vec::new();
    for progress in [false, true] {
        for waiting in all {
            match &waiting.why {
                Why::Kept(text) if !progress => group(&mut kept, text, &waiting.node),
                Why::Progress(text) if progress => group(&mut kept, text, &waiting.node),
                Why::Turn if progress => turn.push(waiting.node.as_str()),
                _ => {}
            }
        }
    }
    for (text, nodes) in kept.iter().take(crate::api::protocol::NAMED) {
        parts.push(format!("{}: {text}", first_and_count(nodes, ", ")));
    }
    let unnamed: usize = kept.iter().skip(crate::api::protocol::NAMED).map(|(_, nodes)| nodes.len()).sum();
    if unnamed > 0 {
        parts.push(format!("{unnamed} more wait for other reasons"));
    }
    if !turn.is_empty() {
        let why = input.case.why_turn(&input.plan.in_the_way);
        parts.push(format!("{}: {why}", first_and_count(&turn, ", ")));
    }
    parts.join("; ")
}

fn group<'a>(groups: &mut Vec<(&'a str, Vec<&'a str>)>, text: &'a str, node: &'a NodeName) {
    match groups.iter_mut().find(|(known, _)| *known == text) {
        Some((_, nodes)) => nodes.push(node.as_str()),
        None => groups.push((text, vec![node.as_str()])),
    }
}

fn node_degraded(input: &Input) -> Said {
    let name = PoolName::from(input.pool.name());
    let mut reason = None;
    let mut parts = Vec::new();
    let mut add = |why: Reason, text: String| {
        reason.get_or_insert(why);
        parts.push(text);
    };
    if let Err(invalid) = input.case.limit() {
        add(Reason::InvalidMaxUnavailable, format!("no node is given a new config: {invalid}"));
    }
    if let Some(problem) = &input.world.policy_problem {
        add(Reason::InvalidPolicy, problem.clone());
    }
    let degraded: Vec<&&NodeView> =
        input.case.members().iter().filter(|n| n.state == Some(NodeState::Degraded)).collect();
    if !degraded.is_empty() {
        let told: Vec<String> = degraded.iter().map(|node| complaint(node)).collect();
        let text =
            format!("{} of {}: {}", degraded.len(), nodes(input.case.members().len()), first_and_count(&told, "; "));
        add(Reason::NodesDegraded, text);
    }
    let ambiguous: Vec<String> = input
        .membership
        .ambiguous
        .iter()
        .filter(|(_, pools)| pools.contains(&name))
        .map(|(node, pools)| {
            let pools: Vec<&str> = pools.iter().map(PoolName::as_str).collect();
            format!("Node {node} is selected by custom pools {}", first_and_count(&pools, ", "))
        })
        .collect();
    if !ambiguous.is_empty() {
        let text = first_and_count(&ambiguous, "; ");
        add(Reason::AmbiguousNodes, format!("{text}; each keeps what it has until its labels fit one custom pool"));
    }
    match reason {
        Some(reason) => Said::yes(reason, annotation::cut(&parts.join("; "), MESSAGE_LIMIT)),
        None => Said::no(Reason::AsExpected, ignored(input, &name)),
    }
}

/// What a node says about itself, in one line.
fn complaint(node: &NodeView) -> String {
    let reason = node.reason.as_deref().unwrap_or("it gives no reason; see the log of its daemon");
    let line: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("Node {}: {}", node.name, annotation::cut(&line, NODE_REASON_LIMIT))
}

/// Control-plane nodes that a custom pool selects: nothing is wrong, and nothing happens either.
fn ignored(input: &Input, name: &PoolName) -> String {
    let Some(nodes) = input.membership.ignored.get(name) else { return String::new() };
    let nodes: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    format!("control-plane nodes that spec.nodeSelector matches stay in pool master: {}", first_and_count(&nodes, ", "))
}

fn render_degraded(input: &Input) -> Said {
    let name = PoolName::from(input.pool.name());
    let failed = input.world.rendering.get(&name).and_then(|r| rendering_error(r, input.pool));
    if let Some(said) = failed {
        return said;
    }
    match input.membership.refused.get(&name) {
        Some(why) => Said::yes(Reason::InvalidPool, why.clone()),
        None => Said::no(Reason::AsExpected, ""),
    }
}

fn rendering_error(rendering: &Rendering, pool: &MachineConfigPool) -> Option<Said> {
    if let Some(first) = rendering.errors.first() {
        let reason = if first.rule == rule::RENDERED_SIZE.id {
            Reason::TooLarge
        } else if first.object == format!("MachineConfigPool/{}", pool.name()) {
            Reason::InvalidPool
        } else {
            Reason::InvalidSources
        };
        let told: Vec<String> = rendering.errors.iter().map(ToString::to_string).collect();
        return Some(Said::yes(reason, annotation::cut(&first_and_count(&told, "; "), MESSAGE_LIMIT)));
    }
    if rendering.no_sources {
        let text =
            "spec.machineConfigSelector: selects no MachineConfig; correct it, or label a source so that it does";
        return Some(Said::yes(Reason::NoSources, text));
    }
    rendering.write_error.as_ref().map(|error| {
        Said::yes(
            Reason::WriteFailed,
            format!("the rendered config could not be written, which is tried again: {error}"),
        )
    })
}

fn sum(node: &Said, render: &Said) -> Said {
    match (render.is, node.is) {
        (true, true) => {
            let message = format!("{}; {}", render.message, node.message);
            Said::yes(render.reason, annotation::cut(&message, MESSAGE_LIMIT))
        }
        (true, false) => render.clone(),
        (false, true) => node.clone(),
        (false, false) => Said::no(Reason::AsExpected, ""),
    }
}

/// With the time at which its status changed last: only that moves it.
fn stamped(input: &Input, type_: &str, said: Said) -> PoolCondition {
    let status = if said.is { "True" } else { "False" };
    let before = input.previous.and_then(|p| p.conditions.iter().flatten().find(|c| c.type_ == type_));
    let kept = before.filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
    // Whole seconds, as the API prints them: what is read back is what was written.
    let now = Timestamp::from_second(input.now.as_second()).unwrap_or(input.now);
    PoolCondition {
        last_transition_time: Some(kept.unwrap_or(Time(now))),
        message: said.message,
        reason: said.reason.as_str().to_owned(),
        status: status.to_owned(),
        type_: type_.to_owned(),
    }
}

fn nodes(n: usize) -> String {
    if n == 1 { "1 node".to_owned() } else { format!("{n} nodes") }
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
