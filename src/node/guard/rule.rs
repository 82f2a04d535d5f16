//! When an update that can take a node away from its cluster has proven that it did not, and when it is given up. Pure:
//! the daemon and the guard of the host decide by the same rule, each by what it has seen itself.

use crate::change::Action;
use crate::node::journal::{Guard, Journal, Lost, NotedAction, Stage};
use crate::node::machine::Moment;
use std::time::Duration;

/// Between two looks.
pub const EVERY: Duration = Duration::from_secs(1);
/// The most that one gap between two looks counts for: a process that stood still (a frozen or suspended machine, a
/// debugger) has not waited in vain.
const LONGEST_GAP: Duration = Duration::from_secs(15);

/// One look at the node's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// When it was begun.
    pub at: Moment,
    /// The kubelet says that it is healthy.
    pub kubelet: bool,
    /// The API server has answered, whatever it said.
    pub api: bool,
}

/// What was seen since the action, or the boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watched {
    last: Option<Look>,
    /// The API server has answered at least once.
    answered: bool,
    /// How long the proof was looked for in vain.
    vain: Duration,
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The node is part of its cluster.
    Proven,
    /// Look (again).
    Look,
    /// Nothing before then.
    Wait(Moment),
    /// It was waited for long enough: this is missing.
    Lost(Lost),
}

impl Watched {
    /// Takes note of a look.
    #[must_use]
    pub fn and(self, look: Look) -> Self {
        let gap = self.last.map_or(Duration::ZERO, |last| look.at.saturating_sub(last.at).min(LONGEST_GAP));
        Self { last: Some(look), answered: self.answered || look.api, vain: self.vain + gap }
    }
}

/// The rule: the kubelet is healthy now, and the API server has answered since. A kubelet of which nothing was to be had
/// before the update is not asked for.
pub fn judge(guard: &Guard, watched: &Watched, now: Moment) -> Verdict {
    let Some(last) = watched.last.filter(|_| !guard.proven) else {
        return if guard.proven { Verdict::Proven } else { Verdict::Look };
    };
    let healthy = last.kubelet || guard.kubelet.is_none();
    if healthy && watched.answered {
        return Verdict::Proven;
    }
    if watched.vain >= Duration::from_secs(guard.patience) {
        return Verdict::Lost(if healthy { Lost::Api } else { Lost::Kubelet });
    }
    let next = last.at + EVERY;
    if now >= next { Verdict::Look } else { Verdict::Wait(next) }
}

/// Whether an update is guarded: it acts on what runs, and there is something else to go back to.
pub fn is_guarded(j: &Journal) -> bool {
    j.from.name != j.to.name && j.actions.iter().any(acts)
}

/// Whether an action can take anything away that runs. A drain moves pods, and a daemon-reload starts and ends nothing.
fn acts(a: &NotedAction) -> bool {
    matches!(a.action, Action::Reboot | Action::Restart(_) | Action::Reload(_))
}

/// Whether the new files may have had any effect on what runs: they were there when the node booted, or an action was
/// begun.
pub fn is_in_effect(j: &Journal, boot_id: &str) -> bool {
    let booted = j.guard.as_ref().is_some_and(|guard| guard.boot_id != boot_id);
    let service = |a: &NotedAction| a.action != Action::Reboot && acts(a) && a.begun > 0;
    j.stage > Stage::Opened && (booted || j.actions.iter().any(service))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: u64 = 60;

    fn secs(n: u64) -> Moment {
        Duration::from_secs(n)
    }

    fn guard() -> Guard {
        Guard { patience: PATIENCE, kubelet: Some("127.0.0.1:10248".into()), left: true, ..Guard::default() }
    }

    /// Looked at once a second from 0 to `end`.
    fn watched(end: u64, look: impl Fn(u64) -> (bool, bool)) -> Watched {
        (0..=end).fold(Watched::default(), |watched, n| {
            let (kubelet, api) = look(n);
            watched.and(Look { at: secs(n), kubelet, api })
        })
    }

    #[test]
    fn a_healthy_node_is_proven_by_one_look() {
        let seen = watched(0, |_| (true, true));
        assert_eq!(judge(&guard(), &Watched::default(), secs(0)), Verdict::Look, "never without a look");
        assert_eq!(judge(&guard(), &seen, secs(0)), Verdict::Proven);
    }

    #[test]
    fn what_is_missing_for_all_of_the_patience_is_named() {
        let cases = [
            ((false, true), Lost::Kubelet),
            ((false, false), Lost::Kubelet),
            // Of the kubelet nothing is missing: an outage of the API server looks the same.
            ((true, false), Lost::Api),
        ];
        for (look, lost) in cases {
            let early = watched(PATIENCE - 1, |_| look);
            assert_eq!(judge(&guard(), &early, secs(PATIENCE)), Verdict::Look, "{look:?}");
            assert_eq!(judge(&guard(), &watched(PATIENCE, |_| look), secs(PATIENCE)), Verdict::Lost(lost), "{look:?}");
        }
    }

    #[test]
    fn a_slow_boot_within_the_patience_is_no_loss() {
        let seen = watched(PATIENCE - 1, |n| (n >= PATIENCE - 1, n >= PATIENCE - 1));
        assert_eq!(judge(&guard(), &seen, secs(PATIENCE)), Verdict::Proven);
    }

    #[test]
    fn one_answer_of_the_api_server_is_enough_and_the_kubelet_must_be_healthy_now() {
        let answered = watched(10, |n| (n == 10, n == 3));
        assert_eq!(judge(&guard(), &answered, secs(10)), Verdict::Proven);
        let fell = watched(PATIENCE, |n| (n < 3, false));
        assert_eq!(judge(&guard(), &fell, secs(PATIENCE)), Verdict::Lost(Lost::Kubelet));
    }

    #[test]
    fn a_kubelet_that_was_not_healthy_before_is_not_asked_for() {
        let without = Guard { kubelet: None, ..guard() };
        assert_eq!(judge(&without, &watched(0, |_| (false, true)), secs(0)), Verdict::Proven);
        let seen = watched(PATIENCE, |_| (false, false));
        assert_eq!(judge(&without, &seen, secs(PATIENCE)), Verdict::Lost(Lost::Api));
    }

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        // Frozen for a day after the first look; what it sees then is an API server that is not there yet.
        let thawed = watched(0, |_| (true, false)).and(Look { at: secs(86_400), kubelet: true, api: false });
        assert_eq!(judge(&guard(), &thawed, secs(86_401)), Verdict::Look);
        let again = thawed.and(Look { at: secs(86_402), kubelet: true, api: true });
        assert_eq!(judge(&guard(), &again, secs(86_402)), Verdict::Proven);
    }

    #[test]
    fn looks_are_no_closer_than_they_need_be() {
        let seen = watched(3, |_| (false, false));
        assert_eq!(judge(&guard(), &seen, secs(3)), Verdict::Wait(secs(4)));
        assert_eq!(judge(&guard(), &seen, secs(4)), Verdict::Look);
    }

    #[test]
    fn what_was_proven_stays_proven() {
        let proven = Guard { proven: true, ..guard() };
        assert_eq!(judge(&proven, &watched(PATIENCE, |_| (false, false)), secs(PATIENCE)), Verdict::Proven);
    }
}
