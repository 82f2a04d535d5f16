//! Carrying out one step of the machine. What a step has changed is read back or known from its answer, never assumed.

use super::{Daemon, TELL_TIME, Trouble, at};
use crate::api::protocol::{DRIFT_PREFIX, NodeState, Phase};
use crate::api::{ConfigName, FORCE_FILE, MachineConfig, STATE_DIR, Uid, annotation, event};
use crate::change::{self, Action, ChangeSet};
use crate::node::cluster::{self, Test};
use crate::node::guard::rule::Watched;
use crate::node::journal::{self, Journal, NamedConfig, NotedAction, Stage};
use crate::node::machine::{self, Checked, Compared, Fetch, Fetched, Held, Plan, Planned, Read, Step, Work};
use crate::node::{actions, disk, host};
use crate::render::items::Items;
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// How long a shutdown command may take to be accepted.
const REBOOT_TIME: Duration = Duration::from_mins(1);

impl Daemon {
    #[allow(clippy::too_many_lines, reason = "one short arm for each step")]
    pub(super) async fn execute(&mut self, step: Step) -> Result<(), Trouble> {
        tracing::debug!(?step, "step");
        match step {
            Step::Wait { .. } => Ok(()),
            Step::ReadState => self.read_state().await,
            Step::ReadBootId => {
                self.s.boot_id = Some(self.disk.host().boot_id().map_err(at(Work::BootId))?);
                Ok(())
            }
            Step::ReadNode => {
                self.read_node().await;
                Ok(())
            }
            Step::Fetch(name) => self.fetch(name).await,
            Step::Compare(name) => self.compare(name).await,
            Step::Plan { to, forced } => self.plan(to, forced).await,
            Step::Check { to, forced, drained } => self.check(to, forced, drained).await,
            Step::Adopt(name) => self.adopt(&name),
            Step::ForgetFailure => {
                self.disk.set_failed(None).map_err(at(Work::Record))?;
                self.held().failed = None;
                Ok(())
            }
            Step::Report { state, reason, current } => self.report(state, reason, &current).await,
            Step::Claim { desired, quiet } => {
                let test = desired.as_ref().map_or(Test::Version, Test::Desired);
                self.patch(test, cluster::claim(quiet, Timestamp::now())).await?;
                // The policy is read when the update begins.
                self.s.planned = None;
                let to = desired.map_or_else(String::new, |d| format!(" to {d}"));
                self.event(false, event::UPDATE_STARTED, &format!("update{to} claimed"));
                Ok(())
            }
            Step::Ask { request, phase } => {
                tracing::info!(%request, "asking the controller");
                let mut changes = vec![(annotation::DESIRED_DRAIN, Some(request.to_string()))];
                changes.extend(phase.map(|p| cluster::phase(p, Timestamp::now())));
                self.patch(Test::Version, changes).await?;
                Ok(())
            }
            Step::OpenJournal { to, actions, generation, uid, forced } => {
                self.open_journal(&to, actions, generation, uid, forced)
            }
            Step::Abandon => {
                let mut journal = self.journal()?;
                tracing::info!(to = %journal.to.name, "nothing was switched and it is no longer wanted: closing");
                self.disk.back(&mut journal).await.map_err(at(Work::Back))?;
                self.close(Work::Back).await
            }
            Step::LeaveGuard => self.leave_guard().await,
            Step::Forward => self.forward().await,
            Step::Look => {
                let look = self.look_at_health().await;
                self.s.watched = self.s.watched.and(look);
                Ok(())
            }
            Step::Lose(lost) => {
                let Some(boot_id) = self.s.boot_id.clone() else { return Ok(()) };
                let journal = machine::lost(self.journal()?, lost, &boot_id);
                tracing::warn!(reason = journal.failure, "the update is undone");
                self.save(journal)
            }
            Step::RemoveForceFile => {
                self.disk.host().remove_force_file().map_err(at(Work::Record))?;
                tracing::info!("{FORCE_FILE} is removed");
                Ok(())
            }
            Step::AdoptUid(uid) => {
                let mut journal = self.journal()?;
                tracing::info!(%uid, "the Node was registered again; it is drained, going on");
                journal.node_uid = Some(uid);
                self.save(journal)
            }
            Step::RunActions => self.run_actions().await,
            Step::SkipActions(note) => {
                let journal = machine::skipped_actions(self.journal()?, &note);
                self.save(journal)
            }
            Step::Reboot => self.reboot().await,
            Step::Rebooted => {
                let journal = machine::finished_reboot(self.journal()?, None);
                tracing::info!("the node has booted");
                self.save(journal)
            }
            Step::NoReboot(note) => {
                let journal = machine::finished_reboot(self.journal()?, Some(&note));
                self.save(journal)
            }
            Step::Fail(reason) => self.fail(&reason),
            Step::Back => {
                let mut journal = self.journal()?;
                let result = self.disk.back(&mut journal).await;
                self.s.compared = None;
                self.s.checked = None;
                let from = journal.from.name.clone();
                let held = self.held();
                if journal.stage == Stage::Undone {
                    held.current = Some(from);
                }
                held.journal = Some(journal);
                result.map_err(at(Work::Back))
            }
            Step::Close => {
                let journal = self.journal()?;
                let to = journal.to.name.clone();
                if self.held().failed.as_ref().is_some_and(|f| f.config == to) {
                    self.disk.set_failed(None).map_err(at(Work::Record))?;
                    self.held().failed = None;
                }
                self.close(Work::Record).await?;
                tracing::info!(config = %to, "the update has worked");
                self.metrics.count("done");
                Ok(())
            }
            Step::CloseFailed => self.close_failed().await,
        }
    }

    /// The state on disk; empty before it was read, which no step that needs it comes before.
    fn held(&mut self) -> &mut Held {
        self.s.held.get_or_insert_default()
    }

    pub(super) fn journal(&self) -> Result<Journal, Trouble> {
        let journal = self.s.held.as_ref().and_then(|h| h.journal.clone());
        journal.ok_or_else(|| Trouble::Node(Work::Record, host::Error::Other("no transaction is open".into())))
    }

    pub(super) fn save(&mut self, journal: Journal) -> Result<(), Trouble> {
        self.disk.write_journal(&journal).map_err(at(Work::Record))?;
        self.held().journal = Some(journal);
        Ok(())
    }

    async fn close(&mut self, work: Work) -> Result<(), Trouble> {
        self.disk.close().map_err(at(work))?;
        self.held().journal = None;
        self.remove_guard().await;
        self.s.planned = None;
        self.s.checked = None;
        self.keep_current();
        Ok(())
    }

    /// Lets go of configs that are not in use: an idle daemon holds one.
    fn keep_current(&mut self) {
        let current = self.s.held.as_ref().and_then(|h| h.current.clone()).unwrap_or_default();
        let desired = self.s.node.as_ref().and_then(|n| n.desired.clone());
        let keep = |name: &ConfigName| *name == current || desired.as_ref() == Some(name);
        self.items.retain(|name, _| keep(name));
        self.bodies.retain(|name, _| *name != current && keep(name));
        let bodies = &self.bodies;
        self.s.fetched.retain(|name, _| bodies.contains_key(name));
    }

    async fn read_state(&mut self) -> Result<(), Trouble> {
        if self.disk.is_lost() {
            self.disk = Arc::new(self.disk.renewed().await.map_err(at(Work::State))?);
        }
        let stored = self.disk.stored().map_err(at(Work::State))?;
        if let Some(current) = &stored.current {
            let items = parse(current).map_err(at(Work::State))?;
            self.items.insert(current.name.clone(), Arc::new(items));
        }
        if let Some(journal) = &stored.journal {
            tracing::info!(from = %journal.from.name, to = %journal.to.name, stage = ?journal.stage, "an update is open");
        } else {
            // Of an update that was closed by somebody who was ended right after it.
            self.remove_guard().await;
        }
        let current = stored.current.map(|c| c.name);
        tracing::info!(current = current.as_ref().map(ConfigName::as_str), "state read");
        self.s.held = Some(Held { current, journal: stored.journal, failed: stored.failed });
        Ok(())
    }

    async fn read_node(&mut self) {
        let read = match self.cluster() {
            Ok(cluster) => cluster.node().await,
            Err(error) => Err(error),
        };
        match read {
            Ok(node) => {
                self.s.node = node;
                self.s.read = Read::Fresh;
                self.api_answered();
            }
            Err(error) => {
                let now = self.now();
                let since = if let Read::Away { since, .. } = self.s.read { since } else { now };
                if since == now {
                    tracing::warn!(%error, "cannot read the Node");
                }
                self.s.read = Read::Away { since, last: now };
            }
        }
    }

    async fn fetch(&mut self, name: ConfigName) -> Result<(), Trouble> {
        let answer = self.cluster()?.config(&name).await?;
        self.api_answered();
        let now = self.now();
        let (tries, first) = self.s.fetched.get(&name).map_or((0, now), |f| (f.tries, f.first));
        let result = match answer {
            None => Fetch::Missing,
            Some(object) => match usable(&name, object) {
                Ok(items) => {
                    self.bodies.insert(name.clone(), NamedConfig::of(name.clone(), &items));
                    self.items.insert(name.clone(), Arc::new(items));
                    Fetch::Here
                }
                Err(why) => Fetch::Broken(why),
            },
        };
        if result != Fetch::Here {
            tracing::warn!(config = %name, ?result, "the rendered config cannot be had");
        }
        self.s.fetched.insert(name.clone(), Fetched { name, result, tries: tries + 1, first, last: now });
        Ok(())
    }

    pub(super) fn items_of(&self, name: &ConfigName) -> Result<Arc<Items>, host::Error> {
        if let Some(items) = self.items.get(name) {
            return Ok(Arc::clone(items));
        }
        let journal = self.s.held.as_ref().and_then(|h| h.journal.as_ref());
        match journal.and_then(|j| [&j.to, &j.from].into_iter().find(|c| c.name == *name)) {
            Some(config) => parse(config).map(Arc::new),
            None if name.is_empty() => Ok(Arc::default()),
            None => Err(host::Error::Other(format!("config {name} is not at hand"))),
        }
    }

    /// As [`Self::items_of`], and keeps it for the next time.
    fn keep_items(&mut self, name: &ConfigName) -> Result<Arc<Items>, host::Error> {
        let items = self.items_of(name)?;
        self.items.insert(name.clone(), Arc::clone(&items));
        Ok(items)
    }

    async fn compare(&mut self, name: ConfigName) -> Result<(), Trouble> {
        let verifying = self.s.held.as_ref().and_then(|h| h.journal.as_ref()).is_some_and(|j| j.stage == Stage::Acted);
        if verifying {
            self.phase(Phase::Verifying).await;
        }
        let items = self.keep_items(&name).map_err(at(Work::Look))?;
        let deviations = self.disk.compare(&items).await.map_err(at(Work::Look))?;
        if self.s.held.as_ref().is_some_and(|h| h.journal.is_none() && h.current.as_ref() == Some(&name)) {
            self.metrics.drift.set(i64::try_from(deviations.len()).unwrap_or(i64::MAX));
            self.swept = self.now();
        }
        self.s.compared = Some(Compared { config: name, deviations });
        Ok(())
    }

    async fn plan(&mut self, to: ConfigName, forced: bool) -> Result<(), Trouble> {
        let from = self.held().current.clone().unwrap_or_default();
        let result = if forced {
            Ok(Plan { actions: vec![Action::Reboot], generation: 0 })
        } else {
            let policy = self.cluster()?.policy().await?;
            self.api_answered();
            let old = self.keep_items(&from).map_err(at(Work::Look))?;
            let new = self.keep_items(&to).map_err(at(Work::Look))?;
            policy.map(|policy| {
                let actions = change::actions(&ChangeSet::between(&old, &new), &policy);
                tracing::info!(%from, %to, %actions, generation = policy.generation, "planned");
                Plan { actions: actions.list, generation: policy.generation }
            })
        };
        let now = self.now();
        let earlier = self.s.planned.take().filter(|p| p.from == from && p.to == to && p.result.is_err());
        let (tries, first) = earlier.map_or((0, now), |p| (p.tries, p.first));
        self.s.planned = Some(Planned { from, to, forced, result, tries: tries + 1, first, last: now });
        Ok(())
    }

    async fn check(&mut self, to: ConfigName, forced: bool, drained: bool) -> Result<(), Trouble> {
        let from = self.held().current.clone().unwrap_or_default();
        let old = self.keep_items(&from).map_err(at(Work::Look))?;
        let new = self.keep_items(&to).map_err(at(Work::Look))?;
        let result = self.disk.check(&old, &new, forced).await.map_err(at(Work::Look))?;
        for warning in &result.warnings {
            tracing::warn!(config = %to, "{warning}");
        }
        let found = !result.drift.is_empty() || !result.obstacles.is_empty();
        let earlier = self.s.checked.take().filter(|c| c.from == from && c.to == to);
        let tries = if found { earlier.map_or(0, |c| c.tries) + 1 } else { 0 };
        self.s.checked = Some(Checked { from, to, forced, drained, result, tries, at: self.now() });
        Ok(())
    }

    fn adopt(&mut self, name: &ConfigName) -> Result<(), Trouble> {
        let config = self
            .bodies
            .get(name)
            .cloned()
            .unwrap_or_else(|| NamedConfig { name: name.clone(), ..NamedConfig::empty() });
        let items = self.keep_items(name).map_err(at(Work::Look))?;
        self.disk.adopt(&config).map_err(at(Work::Record))?;
        if !name.is_empty() {
            let unknown = self.disk.without_original(&items).map_err(at(Work::Look))?;
            tracing::warn!(
                config = %name,
                items = crate::api::protocol::first_and_count(&unknown, ", "),
                "adopted; what stood in the place of these items before mcx is unknown: withdrawn, they are removed"
            );
        }
        self.held().current = Some(name.clone());
        self.keep_current();
        Ok(())
    }

    async fn patch(&mut self, test: Test<'_>, changes: cluster::Changes) -> Result<(), cluster::Error> {
        let Some(node) = self.s.node.clone() else { return Ok(()) };
        self.s.node = self.cluster()?.patch(&node, test, &changes).await?;
        self.api_answered();
        Ok(())
    }

    /// Tells the phase, as far as that goes.
    async fn phase(&mut self, phase: Phase) {
        let told = tokio::time::timeout(TELL_TIME, self.tell(phase)).await;
        let late = || format!("phase {} was not taken within {} s", phase.as_str(), TELL_TIME.as_secs());
        if let Err(error) = told.unwrap_or_else(|_| Err(cluster::Error::Away(late()))) {
            self.ask_later(&error);
        }
    }

    async fn tell(&mut self, phase: Phase) -> Result<(), cluster::Error> {
        // A daemon that has just started may not have seen its Node yet.
        if self.s.node.is_none() && !matches!(self.s.read, Read::Away { .. }) {
            self.read_node().await;
        }
        let Some(node) = &self.s.node else { return Ok(()) };
        let said = node.phase.as_ref().is_some_and(|p| p.phase == phase);
        if said || self.now() < self.api.1 || matches!(self.s.read, Read::Away { .. }) {
            return Ok(());
        }
        self.patch(Test::Uid, vec![cluster::phase(phase, Timestamp::now())]).await
    }

    async fn report(&mut self, state: NodeState, reason: Option<String>, current: &ConfigName) -> Result<(), Trouble> {
        let before = self.s.node.clone().unwrap_or_default();
        // A report that was given up may still be on its way. It must not arrive once anything has changed since.
        self.patch(Test::Version, cluster::report(state, reason.as_deref(), current)).await?;
        let drifted = |r: Option<&str>| r.is_some_and(|r| r.starts_with(DRIFT_PREFIX));
        let text = reason.as_deref().unwrap_or_default();
        tracing::info!(state = state.as_str(), reason = text, %current, "reported");
        match (drifted(before.reason.as_deref()), drifted(reason.as_deref())) {
            (_, true) if before.reason.as_deref() != Some(text) => self.event(true, event::DRIFT, text),
            (true, false) => self.event(false, event::DRIFT_HEALED, "the disk is as the config says again"),
            _ => {}
        }
        if state == NodeState::Done && before.current.as_ref().map_or("", ConfigName::as_str) != current.as_str() {
            self.event(false, event::UPDATE_DONE, &format!("this node has {current}"));
        }
        if state == NodeState::Done {
            self.keep_current();
        }
        Ok(())
    }

    fn event(&self, warning: bool, reason: &'static str, note: &str) {
        if let (Some(node), Some(cluster)) = (&self.s.node, &self.cluster) {
            cluster.event(&node.uid, warning, reason, note);
        }
    }

    fn open_journal(
        &mut self,
        to: &ConfigName,
        actions: Vec<Action>,
        generation: i64,
        uid: Uid,
        forced: bool,
    ) -> Result<(), Trouble> {
        // The machine holds names only; the body is read where it is durable.
        let stored = self.disk.stored().map_err(at(Work::State))?;
        let held = self.held().current.clone();
        if stored.current.as_ref().map(|current| &current.name) != held.as_ref() {
            // From another config than the node has, what only that one brought would stay for ever.
            let why = format!("{STATE_DIR}/current.json was removed or replaced by somebody else: it is read again");
            return Err(Trouble::Node(Work::Record, host::Error::Other(why)));
        }
        let from = stored.current.unwrap_or_else(NamedConfig::empty);
        let to = if *to == from.name {
            from.clone()
        } else {
            self.bodies
                .get(to)
                .cloned()
                .ok_or_else(|| Trouble::Node(Work::Record, host::Error::Other(format!("config {to} is not at hand"))))?
        };
        tracing::info!(from = %from.name, to = %to.name, ?actions, forced, "the update begins");
        if forced {
            self.event(
                true,
                event::FORCED,
                &format!("{FORCE_FILE}: {} is applied without comparing the disk", to.name),
            );
        }
        self.s.watched = Watched::default();
        let actions = actions.into_iter().map(|action| NotedAction { action, begun: 0, done: false }).collect();
        self.save(Journal {
            version: journal::VERSION,
            from,
            to,
            stage: Stage::Opened,
            actions,
            policy_generation: generation,
            boot_id: None,
            node_uid: Some(uid),
            forced,
            failure: None,
            guard: None,
        })
    }

    async fn forward(&mut self) -> Result<(), Trouble> {
        let mut journal = self.journal()?;
        self.phase(Phase::Applying).await;
        let result = self.disk.forward(&mut journal).await;
        self.s.compared = None;
        self.s.checked = None;
        let (stage, to) = (journal.stage, journal.to.name.clone());
        let held = self.held();
        held.journal = Some(journal);
        match result {
            Ok(()) => {
                held.current = Some(to.clone());
                self.keep_items(&to).map_err(at(Work::State))?;
                Ok(())
            }
            Err(error) => self.failed_forward(Work::Forward, &error, stage, &to).await,
        }
    }

    /// Brings an update that did not come further to its undo, or closes one that has touched nothing.
    pub(super) async fn failed_forward(
        &mut self,
        work: Work,
        error: &host::Error,
        stage: Stage,
        to: &ConfigName,
    ) -> Result<(), Trouble> {
        self.node_trouble(work, error);
        let Some(trouble) = self.s.memory.trouble.clone() else { return Ok(()) };
        if let Step::Fail(reason) = machine::after_failed_forward(stage, to.as_str(), &trouble) {
            self.fail(&reason)?;
        } else {
            let mut journal = self.journal()?;
            self.disk.back(&mut journal).await.map_err(at(Work::Back))?;
            self.close(Work::Back).await?;
        }
        // It counts towards the next try, so it must not be forgotten as one that worked.
        Err(Trouble::Noted)
    }

    async fn run_actions(&mut self) -> Result<(), Trouble> {
        let journal = self.journal()?;
        if journal.stage != Stage::Undone {
            self.phase(Phase::Restarting).await;
        }
        self.s.compared = None;
        let outcome = actions::run(&self.disk, journal, self.options.watch_time).await;
        let held = self.held();
        match outcome {
            actions::Outcome::Done(journal) => {
                held.journal = Some(journal);
                Ok(())
            }
            actions::Outcome::Failed(journal, text) => {
                let reason = format!("update to {} failed: {text}", journal.to.name);
                held.journal = Some(journal);
                self.fail(&reason)
            }
            actions::Outcome::Unrecorded(journal, error) => {
                held.journal = Some(journal);
                Err(Trouble::Node(Work::Record, error))
            }
        }
    }

    fn fail(&mut self, reason: &str) -> Result<(), Trouble> {
        tracing::warn!(reason, "the update is undone");
        let journal = machine::failing(self.journal()?, reason, self.s.boot_id.as_deref());
        self.save(journal)
    }

    async fn reboot(&mut self) -> Result<(), Trouble> {
        let Some(boot_id) = self.s.boot_id.clone() else { return Ok(()) };
        let journal = machine::next_reboot(self.journal()?, &boot_id);
        let to = journal.to.name.clone();
        let asked = machine::reboots_asked(&journal);
        self.save(journal)?;
        self.phase(Phase::Rebooting).await;
        if asked > 1 {
            let note = format!(
                "still in the same boot: asking for a reboot for {to}, try {asked} of {}; {}",
                machine::REBOOT_LIMIT,
                machine::NO_REBOOT
            );
            tracing::warn!("{note}");
            self.event(true, event::REBOOT, &note);
        } else {
            self.event(false, event::REBOOT, &format!("rebooting for {to}"));
        }
        tracing::info!(config = %to, "asking for a reboot");
        let argv = ["systemctl", "reboot"];
        let asked = self.disk.host().run(&argv, REBOOT_TIME).await.and_then(|output| output.ok(&argv));
        asked.map_err(at(Work::Reboot))?;
        self.s.memory.reboot_asked = Some(self.now());
        Ok(())
    }

    async fn close_failed(&mut self) -> Result<(), Trouble> {
        let journal = self.journal()?;
        let mut reason = journal.failure.clone().unwrap_or_default();
        if let Some(failed) = machine::failed(&journal, self.held().failed.as_ref()) {
            self.disk.set_failed(Some(&failed)).map_err(at(Work::Record))?;
            let now = self.now();
            self.s.memory.note_failure(&failed.config, now);
            reason.clone_from(&failed.reason);
            self.held().failed = Some(failed);
        }
        self.close(Work::Record).await?;
        self.s.memory.note_success(Work::Forward);
        self.event(true, event::UPDATE_FAILED, &reason);
        self.metrics.count("failed");
        Ok(())
    }
}

fn parse(config: &NamedConfig) -> Result<Items, host::Error> {
    if config.name.is_empty() {
        return Ok(Items::default());
    }
    disk::items(config)
}

/// What a rendered config means. One that was edited by hand does not hash to its name; that can only be told by the version
/// that named it.
fn usable(name: &ConfigName, object: MachineConfig) -> Result<Items, String> {
    let maker = object.metadata.annotations.as_ref().and_then(|a| a.get(annotation::GENERATED_BY)).cloned();
    let body = object.spec.config.unwrap_or_default();
    let items = Items::from_config(&body).map_err(|errors| errors.first().cloned().unwrap_or_default())?;
    if maker.as_deref() == Some(env!("CARGO_PKG_VERSION")) && !name.as_str().ends_with(&items.hash()) {
        return Err("its contents are not those that its name stands for: it was edited".into());
    }
    Ok(items)
}
