//! The actions of the policy on running services, and whether they have worked.
//!
//! `systemctl restart` of a simple service says nothing: it returns before the program has run. So all units are
//! watched together for a while after the last action. Each action is noted in the journal before it runs.
//! Drain and reboot are not done here: the controller drains, and the reboot has rules of its own.

use super::disk::Disk;
use super::host::{Error, Host, Output};
use super::journal::{Journal, Stage};
use super::machine::finished_actions;
use super::units::{Body, body};
use crate::change::Action;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time for one action: a stop and a start of 90 s each are systemd's defaults.
const ACTION_TIME: Duration = Duration::from_mins(5);
/// Longest time for a question.
const SHOW_TIME: Duration = Duration::from_secs(30);
/// Between two looks at watched units.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const PROPERTIES: &str = "--property=LoadState,ActiveState,SubState,Result,NRestarts";

/// What came of the actions.
#[derive(Debug)]
pub enum Outcome {
    /// All have worked (or, while undoing, were tried): the journal as it now is on disk.
    Done(Journal),
    /// One has not worked: unit, state and where to look.
    Failed(Journal, String),
    /// The journal could not be written.
    Unrecorded(Journal, Error),
}

/// A unit as systemd shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Unit {
    load: String,
    active: String,
    sub: String,
    result: String,
    restarts: u32,
}

/// What is expected of a unit after its action.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    /// It runs, with no more restarts than it had right after the action, or has ended well.
    Well { restarts: u32 },
    /// It has no unit file any more, or is masked: it was stopped.
    Stopped,
}

/// How a watched unit is.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// On its way.
    Pending,
    Bad(String),
}

/// Runs the actions of `journal` that are not done and watches their units for `watch`.
pub async fn run(disk: &Disk, mut journal: Journal, watch: Duration) -> Outcome {
    let host = disk.host();
    let undoing = journal.stage == Stage::Undone;
    let mut notes: Vec<String> = Vec::new();
    let mut expected: BTreeMap<String, Expected> = BTreeMap::new();
    for i in 0..journal.actions.len() {
        let entry = &mut journal.actions[i];
        if matches!(entry.action, Action::Drain | Action::Reboot) {
            continue;
        }
        if !entry.done {
            entry.begun += 1;
            let action = entry.action.clone();
            if let Err(error) = disk.write_journal(&journal) {
                return Outcome::Unrecorded(journal, error);
            }
            let stopped = match action {
                Action::DaemonReload => stop_what_is_gone(host, &journal).await,
                _ => Ok(()),
            };
            let acted = match stopped {
                Ok(()) => act(host, &action).await,
                Err(text) if undoing => {
                    notes.push(text);
                    act(host, &action).await
                }
                Err(text) => Err(text),
            };
            if let Err(text) = acted {
                if !undoing {
                    return Outcome::Failed(journal, text);
                }
                notes.push(text);
            }
            journal.actions[i].done = true;
        }
        // One that an earlier process has run is watched too: nobody saw its end.
        if let Action::Reload(unit) | Action::Restart(unit) = &journal.actions[i].action {
            match show(host, unit).await {
                Ok(state) => expected.insert(unit.clone(), state.expectation()),
                Err(error) => {
                    notes.push(format!("cannot look at {unit}: {error}"));
                    continue;
                }
            };
        }
    }
    if let Err(text) = watch_units(host, &expected, watch).await {
        if !undoing {
            return Outcome::Failed(journal, text);
        }
        notes.push(text);
    }
    let note = (undoing && !notes.is_empty()).then(|| format!("while undoing: {}", notes.join("; ")));
    let journal = finished_actions(journal, note.as_deref());
    match disk.write_journal(&journal) {
        Ok(()) => Outcome::Done(journal),
        Err(error) => Outcome::Unrecorded(journal, error),
    }
}

/// Stops the units of actions to come whose files are gone, while systemd still knows how: with the daemon-reload it
/// forgets their `ExecStop=`, and what only that takes back (a firewall rule, an address) would stay.
async fn stop_what_is_gone(host: &Host, journal: &Journal) -> Result<(), String> {
    if !host.has_systemd().map_err(|e| one_line(&e))? {
        return Ok(());
    }
    for entry in journal.actions.iter().filter(|entry| !entry.done) {
        if let Action::Reload(unit) | Action::Restart(unit) = &entry.action
            && matches!(body(host.root(), unit, &[]).map_err(|e| one_line(&e))?, Body::Missing | Body::Masked)
        {
            tracing::info!(unit, "its file goes: stopping it first");
            stop(host, unit).await?;
        }
    }
    Ok(())
}

/// Carries out one action. The error is for people.
async fn act(host: &Host, action: &Action) -> Result<(), String> {
    if !host.has_systemd().map_err(|e| one_line(&e))? {
        tracing::info!(%action, "no service manager runs in this root: the action is skipped");
        return Ok(());
    }
    match action {
        Action::DaemonReload => command(host, "daemon-reload", None).await.map(drop).map_err(|e| one_line(&e)),
        Action::Reload(unit) | Action::Restart(unit) => {
            let state = show(host, unit).await.map_err(|e| one_line(&e))?;
            if state.is_without_file() {
                tracing::info!(unit, load = state.load, "it has no unit file any more, or is masked: stopping it");
                stop(host, unit).await
            } else if matches!(action, Action::Reload(_)) {
                if state.active == "inactive" {
                    tracing::info!(unit, "it is not running: there is nothing to reload");
                    return Ok(());
                }
                service(host, "reload", unit).await
            } else {
                service(host, "restart", unit).await
            }
        }
        Action::Drain | Action::Reboot => Ok(()),
    }
}

async fn service(host: &Host, verb: &str, unit: &str) -> Result<(), String> {
    let why = |e: Error| format!("{}; see `journalctl -u {unit}`", one_line(&e));
    command(host, verb, Some(unit)).await.map(drop).map_err(why)
}

/// Stops a unit whose file is gone. systemd has forgotten it when it was not running, and says so as an error.
async fn stop(host: &Host, unit: &str) -> Result<(), String> {
    let stopped = command(host, "stop", Some(unit)).await;
    let state = show(host, unit).await.map_err(|e| one_line(&e))?;
    if state.runs() {
        let why = stopped.err().map_or_else(|| "it still runs".to_owned(), |e| one_line(&e));
        return Err(format!(
            "{unit} has no unit file any more and cannot be stopped: {why}; see `journalctl -u {unit}`"
        ));
    }
    // A failed state of a unit that is gone would stay in `systemctl --failed` for ever.
    let _ = command(host, "reset-failed", Some(unit)).await;
    Ok(())
}

async fn command(host: &Host, verb: &str, unit: Option<&str>) -> Result<Output, Error> {
    let shown: Vec<&str> = ["systemctl", verb].into_iter().chain(unit).collect();
    tracing::info!(command = shown.join(" "), "acting");
    // A unit may begin with a dash, as `-.mount` does.
    let argv: Vec<&str> = ["systemctl", verb].into_iter().chain(unit.is_some().then_some("--")).chain(unit).collect();
    host.run(&argv, ACTION_TIME).await?.ok(&shown)
}

async fn show(host: &Host, unit: &str) -> Result<Unit, Error> {
    if !host.has_systemd()? {
        return Ok(Unit { active: "inactive".into(), ..Unit::default() });
    }
    let argv = ["systemctl", "show", PROPERTIES, "--", unit];
    Ok(Unit::parse(&host.run(&argv, SHOW_TIME).await?.ok(&argv)?.stdout))
}

/// Looks at the units until `time` has passed. A unit on its way then gets as long again.
async fn watch_units(host: &Host, expected: &BTreeMap<String, Expected>, time: Duration) -> Result<(), String> {
    if expected.is_empty() || !host.has_systemd().map_err(|e| one_line(&e))? {
        return Ok(());
    }
    let start = tokio::time::Instant::now();
    loop {
        let left = time.saturating_sub(start.elapsed());
        tokio::time::sleep(left.min(LOOK_EVERY)).await;
        let mut pending = Vec::new();
        for (unit, expected) in expected {
            let state = show(host, unit).await.map_err(|e| one_line(&e))?;
            match expected.judge(&state) {
                Verdict::Good => {}
                Verdict::Pending => pending.push(format!("{unit} is {} ({})", state.active, state.sub)),
                Verdict::Bad(what) => return Err(format!("{unit} {what}; see `journalctl -u {unit}`")),
            }
        }
        let passed = start.elapsed();
        if passed >= time && pending.is_empty() {
            return Ok(());
        }
        if passed >= time.saturating_mul(2) + LOOK_EVERY {
            return Err(format!("{} after its action; see `journalctl -u UNIT`", pending.join(", ")));
        }
        if passed >= time {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Unit {
    fn parse(text: &str) -> Self {
        let mut unit = Self::default();
        for (key, value) in text.lines().filter_map(|l| l.split_once('=')) {
            match key {
                "LoadState" => value.clone_into(&mut unit.load),
                "ActiveState" => value.clone_into(&mut unit.active),
                "SubState" => value.clone_into(&mut unit.sub),
                "Result" => value.clone_into(&mut unit.result),
                // Only services have it.
                "NRestarts" => unit.restarts = value.parse().unwrap_or_default(),
                _ => {}
            }
        }
        unit
    }

    fn is_without_file(&self) -> bool {
        matches!(self.load.as_str(), "not-found" | "masked")
    }

    fn runs(&self) -> bool {
        !matches!(self.active.as_str(), "inactive" | "failed" | "")
    }

    fn expectation(&self) -> Expected {
        if self.is_without_file() { Expected::Stopped } else { Expected::Well { restarts: self.restarts } }
    }
}

impl Expected {
    fn judge(&self, unit: &Unit) -> Verdict {
        let bad = |what: String| Verdict::Bad(what);
        match self {
            Self::Stopped if unit.runs() => bad(format!("has no unit file any more and is {}", unit.active)),
            Self::Stopped => Verdict::Good,
            Self::Well { restarts } if unit.restarts > *restarts => {
                bad(format!("was restarted {} times by systemd after its action", unit.restarts - restarts))
            }
            Self::Well { .. } => match unit.active.as_str() {
                "active" | "reloading" | "refreshing" => Verdict::Good,
                // Ended well, or a condition was not met.
                "inactive" if matches!(unit.result.as_str(), "success" | "") => Verdict::Good,
                "activating" if unit.sub.starts_with("auto-restart") => {
                    bad(format!("ended with result {} and is being restarted by systemd", unit.result))
                }
                "activating" | "deactivating" | "maintenance" => Verdict::Pending,
                other => bad(format!("is {other} (result {})", unit.result)),
            },
        }
    }
}

fn one_line(error: &Error) -> String {
    let cause = std::error::Error::source(error).map(|c| format!(": {c}")).unwrap_or_default();
    format!("{error}{cause}").replace('\n', " ")
}

#[cfg(test)]
mod tests;
