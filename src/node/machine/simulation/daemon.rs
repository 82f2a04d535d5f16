//! The daemon's half of the model: what it sees of its Node, and what each step of the machine does to the model's disk,
//! host and API, with crashes and late patches. What everybody else does is the other half.

use super::*;

impl World {
    pub(super) fn watch(&mut self) {
        let hears = !self.is_away() && !self.alone;
        if let Some(p) = &mut self.process
            && hears
        {
            p.node.clone_from(&self.api);
        }
    }

    pub(super) fn daemon(&mut self, faults: bool) {
        self.clock += Duration::from_millis(100);
        let starts = self.has_kubelet() && (!self.is_away() || self.known_in == self.boots);
        if self.process.is_none() && !starts {
            return;
        }
        let mut p = self.process.take().unwrap_or_default();
        if !self.alone {
            self.known_in = self.boots;
        }
        p.now = self.clock;
        p.force = self.force;
        p.boot_id = Some(self.boot_id());
        let failed = p.held.as_ref().and_then(|h| h.failed.as_ref()).map(|f| f.config.clone());
        p.memory.observe(p.now, p.node.as_ref(), failed.as_ref());
        let step = next(&p);
        if !matches!(step, Step::Wait { .. }) {
            self.say(format!("daemon: {step:?}"));
        }
        if faults && self.rng.one_in(40) {
            self.say("daemon: killed before it");
            self.alone = false;
            return;
        }
        let fresh = matches!(step, Step::ReadNode);
        let alive = self.execute(&mut p, step, faults);
        if !fresh && p.read == Read::Fresh {
            p.read = Read::Cached;
        }
        if !alive || (faults && self.rng.one_in(40)) {
            self.say("daemon: killed after it");
            self.alone = false;
            return;
        }
        if self.alone && self.disk.held.journal.as_ref().is_none_or(|j| j.failure.is_none()) {
            self.say("guard: ends");
            self.alone = false;
            return;
        }
        self.process = Some(p);
    }

    pub(super) fn save(&mut self, p: &mut Situation, journal: Option<Journal>) {
        self.disk.held.journal = journal;
        p.held = Some(self.disk.held.clone());
    }

    fn patch(&mut self, p: &mut Situation, test: Test, faults: bool, f: impl FnOnce(&mut OwnNode) + 'static) {
        let Some(of) = p.node.clone() else { return };
        let late = Late { of, test, change: Box::new(f) };
        if faults && self.late.is_none() && self.rng.one_in(12) {
            self.say("it is not answered");
            self.late = Some(late);
        } else if !self.is_away() && self.api.as_ref().is_some_and(|n| late.fits(n)) {
            (late.change)(self.api.as_mut().unwrap());
            self.touch();
            p.node.clone_from(&self.api);
        } else {
            self.watch_into(p);
        }
    }

    /// What was given up arrives.
    pub(super) fn arrive(&mut self) {
        let Some(late) = self.late.take_if(|_| self.api.is_some()) else { return };
        let node = self.api.as_mut().unwrap();
        if !late.fits(node) {
            return self.say("late patch: refused");
        }
        let before = node.state;
        (late.change)(node);
        let (state, current) = (node.state, node.current.clone().unwrap_or_default());
        self.touch();
        self.say(format!("late patch: {state:?} {current}"));
        let held = &self.disk.held;
        let moved = held.journal.is_some() || held.current.as_ref().is_some_and(|held| *held != current);
        if state == Some(NodeState::Done) && before != state && (moved || self.needs_boot) {
            self.fail("a late patch says Done at what is no more");
        }
    }

    fn disrupts(&self, what: &str, j: &Journal) {
        let drained = j.actions.iter().any(|a| matches!(a.action, Action::Drain | Action::Reboot));
        // The guard of the host has nobody whom it could ask.
        let blind = self.is_away() || self.alone;
        if drained && self.pods && !self.excused && !blind && self.api.is_some() {
            self.fail(&format!("{what} with pods on the node"));
        }
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each step")]
    fn execute(&mut self, p: &mut Situation, step: Step, faults: bool) -> bool {
        let config = |name: &ConfigName| NamedConfig { name: name.clone(), ..NamedConfig::default() };
        let journal = self.disk.held.journal.clone();
        let now = p.now;
        match step {
            Step::Wait { until, .. } => {
                p.read = if matches!(p.read, Read::Fresh) { Read::Cached } else { p.read };
                if let Some(until) = until {
                    self.clock = self.clock.max(until.min(self.clock + Duration::from_mins(1)));
                }
                if p.node.is_none() || until.is_none() {
                    self.watch_into(p);
                }
            }
            Step::ReadState => {
                p.held = Some(self.disk.held.clone());
                if self.disk.held.journal.is_none() {
                    self.guard = None;
                }
            }
            Step::LeaveGuard => {
                let guard = Guard {
                    patience: 10,
                    kubelet: self.has_kubelet().then(|| "127.0.0.1:10248".to_owned()),
                    boot_id: self.boot_id(),
                    left: true,
                    ..Guard::default()
                };
                self.guard = Some((Seen::default(), self.clock));
                if faults && self.rng.one_in(10) {
                    return false;
                }
                self.save(p, Some(Journal { guard: Some(guard), ..journal.unwrap() }));
            }
            Step::Look => p.watched = p.watched.and(self.health(now)),
            Step::Lose(missing) => {
                let j = lost(journal.unwrap(), missing, &self.boot_id());
                self.save(p, Some(j));
            }
            Step::ReadBootId => {}
            Step::ReadNode => {
                if self.is_away() || self.alone {
                    let since = if let Read::Away { since, .. } = p.read { since } else { now };
                    p.read = Read::Away { since, last: now };
                } else {
                    p.node.clone_from(&self.api);
                    p.read = Read::Fresh;
                }
            }
            Step::Fetch(name) => {
                if !self.is_away() {
                    let fetched = Fetched { name: name.clone(), result: Fetch::Here, tries: 0, first: now, last: now };
                    p.fetched.insert(name, fetched);
                }
            }
            Step::Compare(name) => {
                let same = self.disk_is(&name);
                let deviations =
                    if same { vec![] } else { vec![Deviation { item: "/f".into(), what: "differs".into() }] };
                p.compared = Some(Compared { config: name, deviations });
            }
            Step::Plan { to, forced } => {
                let from = self.disk.held.current.clone().unwrap();
                let list = if forced { vec![Action::Reboot] } else { actions(from.as_str(), to.as_str()) };
                let result = Ok(Plan { actions: list, generation: 1 });
                p.planned = Some(Planned { from, to, forced, result, tries: 0, first: now, last: now });
            }
            Step::Check { to, forced, drained } => {
                let from = self.disk.held.current.clone().unwrap();
                let fine = self.disk_is(&from) || self.disk_is(&to);
                let drift = if !forced && !fine {
                    vec![Deviation { item: "/f".into(), what: "differs".into() }]
                } else {
                    vec![]
                };
                let tries = u32::from(!drift.is_empty());
                let result = Check { drift, ..Check::default() };
                p.checked = Some(Checked { from, to, forced, drained, result, tries, at: now });
            }
            Step::Adopt(name) => {
                self.disk.held.current = Some(name);
                p.held = Some(self.disk.held.clone());
            }
            Step::ForgetFailure => {
                if self.force {
                    // Taken, for good: a boot may remove the file before it has had its effect.
                    self.gave_up = None;
                }
                self.disk.held.failed = None;
                p.held = Some(self.disk.held.clone());
            }
            Step::Report { state, reason, current } => {
                if state == NodeState::Done && !self.is_away() {
                    self.check_done(p, &current);
                }
                self.patch(p, Test::Version, faults, move |n| {
                    if state == NodeState::Done {
                        n.current = (!current.is_empty()).then_some(current);
                    }
                    n.state = Some(state);
                    n.reason = reason;
                    n.phase = None;
                });
            }
            Step::Claim { desired, quiet } => {
                self.patch(p, Test::Desired(desired), faults, move |n| {
                    n.phase = Some(PhaseSince { phase: Phase::Claimed, since: Timestamp::default() });
                    if !quiet {
                        n.state = Some(NodeState::Working);
                        n.reason = None;
                    }
                });
                p.planned = None;
            }
            Step::Ask { request, .. } => {
                self.patch(p, Test::Version, faults, move |n| n.desired_drain = Some(request));
            }
            Step::OpenJournal { to, actions, generation, uid, forced } => {
                if self.gave_up.as_ref() == Some(&to) && !forced {
                    self.fail("what failed after a drain is tried again by itself");
                }
                let actions = actions.into_iter().map(|action| NotedAction { action, begun: 0, done: false }).collect();
                let journal = Journal {
                    version: 1,
                    from: config(self.disk.held.current.as_ref().unwrap()),
                    to: config(&to),
                    stage: Stage::Opened,
                    actions,
                    policy_generation: generation,
                    boot_id: None,
                    node_uid: Some(uid),
                    forced,
                    failure: None,
                    guard: None,
                };
                p.watched = Watched::default();
                self.save(p, Some(journal));
            }
            Step::Abandon => return self.closed(p, faults),
            Step::Forward => {
                let mut j = journal.unwrap();
                if j.stage == Stage::Opened {
                    self.disrupts("first switch", &j);
                }
                j.stage = Stage::Switching;
                self.disk.drift = false;
                self.disk.files = "half".into();
                self.needs_boot |= j.actions.iter().any(|a| a.action == Action::Reboot);
                self.save(p, Some(j.clone()));
                if faults && self.rng.one_in(10) {
                    return false;
                }
                if faults && self.rng.one_in(15) {
                    p.memory.note_trouble(Work::Forward, "no space".into(), now);
                    let trouble = p.memory.trouble.clone().unwrap();
                    let step = after_failed_forward(j.stage, j.to.name.as_str(), &trouble);
                    self.say(format!("forward does not work: {step:?}"));
                    p.memory.note_success(Work::Forward);
                    return self.execute(p, step, faults);
                }
                j.stage = Stage::Written;
                self.disk.files = j.to.name.clone();
                self.disk.held.current = Some(j.to.name.clone());
                self.save(p, Some(j));
                p.compared = None;
            }
            Step::RemoveForceFile => self.force = false,
            Step::AdoptUid(uid) => {
                let mut j = journal.unwrap();
                j.node_uid = Some(uid);
                self.save(p, Some(j));
            }
            Step::RunActions => {
                let mut j = journal.unwrap();
                self.disrupts("actions", &j);
                p.compared = None;
                let undoing = j.stage == Stage::Undone;
                for i in 0..j.actions.len() {
                    if j.actions[i].done || j.actions[i].action == Action::Reboot {
                        continue;
                    }
                    j.actions[i].begun += 1;
                    if j.actions[i].begun > if undoing { UNDO_LIMIT } else { ACTION_LIMIT } {
                        self.fail("an action is run too often");
                    }
                    self.save(p, Some(j.clone()));
                    if matches!(j.actions[i].action, Action::Restart(_)) {
                        self.running = self.disk.files.clone();
                    }
                    if faults && self.rng.one_in(10) {
                        return false;
                    }
                    if !undoing && j.to.name == "bad-restart" && matches!(j.actions[i].action, Action::Restart(_)) {
                        return self.execute(p, Step::Fail("restart failed".into()), faults);
                    }
                    j.actions[i].done = true;
                    self.save(p, Some(j.clone()));
                }
                self.save(p, Some(finished_actions(j, None)));
            }
            Step::SkipActions(note) => {
                let j = skipped_actions(journal.unwrap(), &note);
                self.save(p, Some(j));
            }
            Step::Reboot => {
                let j = next_reboot(journal.unwrap(), &self.boot_id());
                self.disrupts("reboot", &j);
                self.save(p, Some(j));
                p.memory.reboot_asked = Some(now);
                if faults && self.rng.one_in(8) {
                    self.say("the reboot does not happen");
                } else {
                    self.power_cut();
                    return false;
                }
            }
            Step::Rebooted => {
                let mut j = finished_reboot(journal.unwrap(), None);
                if j.to.name == "bad-reboot" && j.stage == Stage::Acted {
                    // The disk does not verify.
                    self.disk.files = "half".into();
                }
                j.version = 1;
                self.save(p, Some(j));
            }
            Step::NoReboot(note) => {
                let j = finished_reboot(journal.unwrap(), Some(&note));
                self.needs_boot = false;
                self.save(p, Some(j));
            }
            Step::Fail(reason) => {
                let j = failing(journal.unwrap(), &reason, Some(&self.boot_id()));
                self.save(p, Some(j));
            }
            Step::Back => {
                let mut j = journal.unwrap();
                let rebooted = j.actions.iter().any(|a| a.action == Action::Reboot && !a.done);
                if j.stage != Stage::Opened {
                    self.disk.files = j.from.name.clone();
                }
                self.needs_boot = rebooted;
                self.disk.held.current = Some(j.from.name.clone());
                j.stage = Stage::Undone;
                self.save(p, Some(j));
                p.compared = None;
            }
            Step::Close => {
                let j = journal.unwrap();
                if self.disk.held.failed.as_ref().is_some_and(|f| f.config == j.to.name) {
                    self.disk.held.failed = None;
                }
                if self.running != self.disk.files && j.actions.iter().any(|a| a.action != Action::Drain) {
                    self.fail("closed before the config had its effect");
                }
                return self.closed(p, faults);
            }
            Step::CloseFailed => {
                let j = journal.unwrap();
                if let Some(failed) = failed(&j, self.disk.held.failed.as_ref()) {
                    p.memory.note_failure(&j.to.name, now);
                    let for_good = failed.disruptive && failed.unanswered != 1;
                    if for_good && self.api.as_ref().is_some_and(|n| n.desired.as_ref() == Some(&j.to.name)) {
                        self.gave_up = Some(j.to.name.clone());
                    }
                    self.disk.held.failed = Some(failed);
                    if faults && self.rng.one_in(10) {
                        return false;
                    }
                }
                return self.closed(p, faults);
            }
        }
        true
    }

    fn watch_into(&mut self, p: &mut Situation) {
        if !self.is_away() && !self.alone {
            p.node.clone_from(&self.api);
            if matches!(p.read, Read::Away { .. }) {
                p.read = Read::Cached;
            }
        }
    }

    fn check_done(&self, p: &Situation, current: &ConfigName) {
        let held = &self.disk.held;
        if held.journal.is_some() {
            self.fail("Done with an open transaction");
        }
        if held.current.as_ref() != Some(current) || !self.disk_is(current) {
            self.fail("Done at a config that is not on the disk");
        }
        if self.needs_boot {
            self.fail("Done before the boot");
        }
        let same = p.node.as_ref().map(|n| &n.uid) == self.api.as_ref().map(|n| &n.uid);
        if same && self.cordoned && self.mark {
            self.fail("Done with our cordon");
        }
    }

    /// The empty config manages nothing, so nothing differs from it.
    pub(super) fn disk_is(&self, config: &ConfigName) -> bool {
        config.is_empty() || (self.disk.files == *config && !self.disk.drift)
    }
}
