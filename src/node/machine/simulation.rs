//! The machine against a model of everything around it: a controller, an administrator, a disk, and crashes at any
//! point. Every run is a fixed seed, so a failure names the run to look at, with its whole story.
//!
//! A patch that the daemon has given up may arrive later all the same.
//! Checked at each step: Done is never wrong, nothing is disrupted undrained, what failed after a drain is not tried
//! again by itself. Checked at the end: left alone, the node comes to the target, schedulable, and its guard is gone.
//! Some configs take the kubelet or the network away, so that no daemon runs or none is heard: nobody but the node helps.

mod daemon;

use super::*;
use crate::api::protocol::PhaseSince;
use crate::node::compare::Deviation;
use crate::node::disk::Check;
use crate::node::guard::course::{self, Next, Seen};
use crate::node::guard::rule::Look;
use crate::node::journal::{Guard, NamedConfig, NotedAction, Stage};
use k8s_openapi::jiff::Timestamp;

/// Configs: b reboots; c restarts; a and d cost nothing; `bad-restart` and `bad-reboot` fail; after a boot with
/// `bad-kubelet` there is no kubelet; once `bad-network` has had an effect, the API server is not reached.
const CONFIGS: [&str; 8] = ["a", "b", "c", "d", "bad-restart", "bad-reboot", "bad-kubelet", "bad-network"];

fn actions(from: &str, to: &str) -> Vec<Action> {
    let cost = |c: &str| match c {
        "" | "a" | "d" => 0,
        "c" | "bad-restart" | "bad-network" => 1,
        _ => 2,
    };
    match cost(from).max(cost(to)) {
        0 => vec![],
        1 => vec![Action::DaemonReload, Action::Restart("x.service".into())],
        _ => vec![Action::Reboot],
    }
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What a patch relies on besides the UID.
#[derive(Clone, PartialEq)]
enum Test {
    Desired(Option<ConfigName>),
    Version,
}

/// A patch that was given up and is on its way.
struct Late {
    of: OwnNode,
    test: Test,
    change: Box<dyn FnOnce(&mut OwnNode)>,
}

impl Late {
    fn fits(&self, node: &OwnNode) -> bool {
        let tested = match &self.test {
            Test::Desired(desired) => node.desired == *desired,
            Test::Version => node.resource_version == self.of.resource_version,
        };
        node.uid == self.of.uid && tested
    }
}

/// The disk: what survives a crash.
#[derive(Default)]
struct Disk {
    files: ConfigName,
    drift: bool,
    held: Held,
}

#[allow(clippy::struct_excessive_bools, reason = "a world is full of yes and no")]
struct World {
    rng: Rng,
    log: Vec<String>,
    api: Option<OwnNode>,
    uids: u32,
    cordoned: bool,
    /// Our mark; void when an administrator cordons anew.
    mark: bool,
    pods: bool,
    target: &'static str,
    disk: Disk,
    force: bool,
    boots: u32,
    api_away: bool,
    /// An administrator let pods back in, or the Node was replaced: what follows is theirs until the next drain.
    excused: bool,
    /// The files were switched by an update that needs a boot which has not happened.
    needs_boot: bool,
    /// The config that failed after a drain, until somebody asks for something else.
    gave_up: Option<ConfigName>,
    process: Option<Situation>,
    /// The process is the host's guard, finishing an undo.
    alone: bool,
    /// The boot in which a daemon has run: the kubelet knows of it without the API server.
    known_in: u32,
    /// The config that what runs was started with.
    running: ConfigName,
    /// The host's guard is in its place; what it has seen, and since when it runs.
    guard: Option<(Seen, Moment)>,
    late: Option<Late>,
    clock: Moment,
    budget: u32,
    edits: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let node = OwnNode {
            name: "n".into(),
            uid: "u1".into(),
            resource_version: "1".into(),
            has_annotations: true,
            desired: Some("a".into()),
            current: Some("a".into()),
            state: Some(NodeState::Done),
            ..OwnNode::default()
        };
        let held = Held { current: Some("a".into()), ..Held::default() };
        Self {
            rng: Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1),
            log: vec![],
            api: Some(node),
            uids: 1,
            cordoned: false,
            mark: false,
            pods: true,
            target: "a",
            disk: Disk { files: "a".into(), drift: false, held },
            force: false,
            boots: 1,
            api_away: false,
            excused: false,
            needs_boot: false,
            gave_up: None,
            process: None,
            alone: false,
            known_in: 0,
            running: "a".into(),
            guard: None,
            late: None,
            clock: Duration::ZERO,
            budget: 14,
            edits: 3,
        }
    }

    fn say(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.log.push(text);
    }

    fn fail(&self, text: &str) -> ! {
        panic!("{text}\n{}", self.log.join("\n"))
    }

    fn touch(&mut self) {
        let ours = self.cordoned && self.mark;
        if let Some(n) = &mut self.api {
            n.cordon_is_ours = ours;
            let version: u64 = n.resource_version.parse().unwrap();
            n.resource_version = (version + 1).to_string();
        }
    }

    fn has_kubelet(&self) -> bool {
        self.running != "bad-kubelet"
    }

    fn is_away(&self) -> bool {
        self.api_away || self.running == "bad-network"
    }

    fn health(&self, at: Moment) -> Look {
        Look { at, kubelet: self.has_kubelet(), api: !self.is_away() }
    }

    fn boot_id(&self) -> String {
        format!("boot-{}", self.boots)
    }

    // ---- what others do

    fn controller(&mut self) {
        let Some(n) = self.api.clone() else { return };
        let drifted = n.reason.as_deref().is_some_and(|r| r.starts_with("Drift:"));
        let target = ConfigName::from(self.target);
        let holds = n.state == Some(NodeState::Working) || n.desired != n.current;
        if n.desired.as_ref() != Some(&target) && n.state.is_some() && !drifted && (holds || !self.cordoned) {
            self.say(format!("controller: desired {target}"));
            self.gave_up = None;
            self.api.as_mut().unwrap().desired = Some(target);
            return self.touch();
        }
        if self.mark && !self.cordoned {
            self.say("controller: removes the mark");
            self.mark = false;
            if n.desired_drain.as_ref().is_some_and(|r| r.kind == DrainKind::Drain) && !n.fulfilled() {
                self.api.as_mut().unwrap().ended = n.desired_drain;
            }
            return self.touch();
        }
        let Some(request) = n.desired_drain.clone().filter(|_| !n.fulfilled()) else { return };
        match request.kind {
            DrainKind::Drain if n.ended.as_ref() == Some(&request) => {}
            DrainKind::Drain if !self.cordoned => {
                self.say(format!("controller: cordons for {request}"));
                (self.cordoned, self.mark) = (true, true);
                self.touch();
            }
            DrainKind::Drain if self.mark && self.pods => {
                self.say("controller: evicts");
                self.pods = false;
            }
            DrainKind::Drain if self.mark => {
                self.say(format!("controller: {request} is fulfilled"));
                self.excused = false;
                self.api.as_mut().unwrap().applied_drain = Some(request);
                self.touch();
            }
            DrainKind::Drain => {}
            DrainKind::Uncordon => {
                self.say(format!("controller: {request} is fulfilled"));
                if self.mark {
                    (self.cordoned, self.mark, self.pods) = (false, false, true);
                }
                self.api.as_mut().unwrap().applied_drain = Some(request);
                self.touch();
            }
        }
    }

    fn environment(&mut self) {
        if self.budget == 0 {
            return;
        }
        self.budget -= 1;
        match self.rng.below(13) {
            0 | 1 if self.edits > 0 => {
                self.edits -= 1;
                let pick = self.rng.below(CONFIGS.len() as u64);
                self.target = CONFIGS[usize::try_from(pick).unwrap()];
                self.say(format!("user: target {}", self.target));
            }
            2 if self.cordoned => {
                self.say("admin: uncordons");
                (self.cordoned, self.pods, self.excused) = (false, true, true);
                self.touch();
            }
            3 if !self.cordoned => {
                self.say("admin: cordons");
                // The taint's time is another: a mark that is still there is void.
                (self.cordoned, self.mark) = (true, false);
                self.touch();
            }
            4 if self.process.is_some() => {
                self.say("daemon: killed");
                (self.process, self.alone) = (None, false);
            }
            5 => self.power_cut(),
            6 if self.disk.held.journal.is_none() => {
                self.say("drift");
                self.disk.drift = true;
                self.disk_event();
            }
            7 => {
                self.say("force file");
                self.force = true;
                self.gave_up = None;
                self.disk_event();
            }
            8 if self.api.is_some() => {
                self.say("Node deleted");
                self.api = None;
                (self.cordoned, self.mark) = (false, false);
                // The gap between the last read and the first switch cannot be closed.
                self.excused = self.disk.held.journal.as_ref().is_some_and(|j| j.stage <= Stage::Switching);
                if let Some(p) = &mut self.process {
                    p.node = None;
                }
            }
            9 => {
                self.api_away = !self.api_away;
                let away = self.api_away;
                self.say(format!("API away: {away}"));
            }
            10 if self.disk.drift => {
                self.say("drift is repaired");
                self.disk.drift = false;
                self.disk_event();
            }
            11 if self.disk.held.journal.is_none() => {
                self.say("daemon killed, its state lost");
                (self.process, self.alone) = (None, false);
                self.disk.held.current = None;
            }
            _ => {}
        }
    }

    fn power_cut(&mut self) {
        self.boots += 1;
        self.say(format!("power cut, boot {}", self.boots));
        self.force = false;
        if self.disk.held.journal.as_ref().is_none_or(|j| j.boot_id.is_some()) {
            self.needs_boot = false;
        }
        // What a half switched disk brings up is as bad as the new config.
        let to = self.disk.held.journal.as_ref().map(|j| j.to.name.clone());
        self.running = if self.disk.files == "half" { to.unwrap_or_default() } else { self.disk.files.clone() };
        (self.process, self.alone) = (None, false);
        if let Some((seen, since)) = &mut self.guard {
            (*seen, *since) = (Seen::default(), self.clock);
        }
    }

    /// The host's guard, for about a second.
    fn guards(&mut self) {
        let Some((mut seen, since)) = self.guard.take() else { return };
        self.clock += Duration::from_secs(1);
        let journal = self.disk.held.journal.clone();
        if let Some(j) = &journal {
            seen.observe(j);
        }
        let now = self.clock.saturating_sub(since);
        let step = course::next(journal.as_ref(), &self.boot_id(), &seen.watched, now);
        let locked = self.process.is_some();
        match step {
            Next::Look => seen.watched = seen.watched.and(self.health(now)),
            Next::Remove if !locked => return self.say("guard: goes"),
            Next::StandDown if !locked => {
                self.say("guard: stands down");
                if !self.has_kubelet() {
                    self.fail("the guard stands down on a node without a kubelet");
                }
                self.disk.held.journal.as_mut().and_then(|j| j.guard.as_mut()).unwrap().proven = true;
                return;
            }
            Next::Undo(_) | Next::Finish if !locked => {
                self.say(format!("guard: {step:?}"));
                if let Next::Undo(missing) = step {
                    if self.running != journal.as_ref().unwrap().to.name {
                        self.fail("an update is undone that has had no effect");
                    }
                    self.disk.held.journal = Some(lost(journal.unwrap(), missing, &self.boot_id()));
                }
                let read = Read::Away { since: Moment::ZERO, last: Moment::ZERO };
                (self.process, self.alone) = (Some(Situation { read, ..Situation::default() }), true);
            }
            _ => {}
        }
        self.guard = Some((seen, since));
    }

    /// The transaction is closed; a daemon that is killed just then leaves the guard behind.
    fn closed(&mut self, p: &mut Situation, faults: bool) -> bool {
        self.save(p, None);
        if faults && self.rng.one_in(10) {
            return false;
        }
        self.guard = None;
        true
    }

    fn register(&mut self) {
        if self.api.is_none() && self.has_kubelet() && !self.is_away() {
            self.uids += 1;
            self.pods = true;
            // Registered between the last read and the act: that gap cannot be closed either.
            self.excused = self.process.as_ref().is_some_and(|p| p.read == Read::Fresh);
            let uid = format!("u{}", self.uids);
            self.say(format!("kubelet registers the Node again: {uid}"));
            self.api =
                Some(OwnNode { name: "n".into(), uid: uid.into(), resource_version: "1".into(), ..OwnNode::default() });
        }
    }

    /// The admin lifts own cordons, and the API comes back: nobody may wait for these for ever.
    fn calm(&mut self) {
        if self.cordoned && !self.mark {
            (self.cordoned, self.pods) = (false, true);
            self.touch();
        }
        self.api_away = false;
        // Drift is put right by hand, also that of a disk whose state was lost.
        let held = &self.disk.held;
        if let (Some(current), None) = (held.current.clone(), &held.journal)
            && !self.disk_is(&current)
        {
            (self.disk.files, self.disk.drift) = (current, false);
            self.disk_event();
        }
        self.register();
    }

    fn disk_event(&mut self) {
        if let Some(p) = &mut self.process {
            p.compared = None;
            p.checked = None;
        }
    }

    fn settled(&self) -> bool {
        let target = ConfigName::from(self.target);
        self.api.as_ref().is_some_and(|n| {
            n.state == Some(NodeState::Done)
                && n.current.as_ref() == Some(&target)
                && n.desired.as_ref() == Some(&target)
        }) && !self.cordoned
            && !self.force
            && self.guard.is_none()
            && self.disk.held.journal.is_none()
            && self.disk.files == target
    }
}

fn run(seed: u64) {
    let mut w = World::new(seed);
    for _ in 0..400 {
        match w.rng.below(10) {
            0 => w.environment(),
            1 | 2 => w.controller(),
            3 => {
                w.watch();
                w.guards();
            }
            4 => {
                if w.rng.one_in(5) {
                    w.register();
                }
                if w.rng.one_in(3) {
                    w.arrive();
                }
            }
            _ => w.daemon(true),
        }
    }
    w.log.push("---- calm".into());
    w.arrive();
    for _ in 0..3000 {
        // What failed is withdrawn: that alone must heal the node.
        if w.target.starts_with("bad") || w.disk.held.failed.as_ref().is_some_and(|f| f.config == w.target) {
            w.target = if w.target == "d" { "a" } else { "d" };
        }
        w.calm();
        w.controller();
        w.watch();
        w.guards();
        w.daemon(false);
        if w.settled() {
            return;
        }
    }
    w.fail(&format!("seed {seed}: the node does not come to rest at {}; {:?}", w.target, w.api));
}

#[test]
fn under_random_crashes_the_node_converges_and_done_is_never_wrong() {
    for seed in 0..3000 {
        run(seed);
    }
}
