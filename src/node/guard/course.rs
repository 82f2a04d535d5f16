//! What the guard of the host does about an open update. Pure.
//!
//! It looks at the journal alone. Whether a daemon runs is not its question: it acts only when it gets the lock of the
//! state, which a daemon holds as long as it runs.

use super::rule::{Verdict, Watched, is_guarded, is_in_effect, judge};
use crate::change::Action;
use crate::node::journal::{Guard, Journal, Lost, Stage};
use crate::node::machine::Moment;

/// The next thing to do; then the journal is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// No update is open: unit and binary go.
    Remove,
    /// Nothing, for now.
    Rest,
    /// Look at the node's health.
    Look,
    /// Nothing before then.
    Wait(Moment),
    /// The node is part of its cluster, and nothing is left to happen that could change that: note it, then unit and
    /// binary go. What else the update needs a daemon does when it comes.
    StandDown,
    /// Undo the update.
    Undo(Lost),
    /// Go on with an undo that is under way.
    Finish,
}

/// What was seen, and of what: when the update has come further, what was seen before says nothing.
#[derive(Debug, Default)]
pub struct Seen {
    about: Option<(Stage, Vec<u32>, bool)>,
    /// Since then.
    pub watched: Watched,
}

impl Seen {
    /// Takes note of how far the update is.
    pub fn observe(&mut self, j: &Journal) {
        let about = (j.stage, j.actions.iter().map(|a| a.begun).collect(), j.failure.is_some());
        if self.about.as_ref() != Some(&about) {
            *self = Self { about: Some(about), watched: Watched::default() };
        }
    }
}

/// The next thing to do.
pub fn next(journal: Option<&Journal>, boot_id: &str, seen: &Watched, now: Moment) -> Next {
    let Some(j) = journal else { return Next::Remove };
    let Some(guard) = j.guard.as_ref().filter(|_| is_guarded(j)) else { return Next::Rest };
    if j.failure.is_some() {
        if is_paper(j, boot_id) {
            return Next::Finish;
        }
        // That the update had proven itself says nothing about its undo.
        let asked = Guard { proven: false, ..guard.clone() };
        return match judge(&asked, seen, now) {
            Verdict::Proven => Next::Rest,
            Verdict::Look => Next::Look,
            Verdict::Wait(until) => Next::Wait(until),
            Verdict::Lost(_) => Next::Finish,
        };
    }
    if !is_in_effect(j, boot_id) {
        return Next::Rest;
    }
    match judge(guard, seen, now) {
        Verdict::Proven if has_acted(j, boot_id) => Next::StandDown,
        Verdict::Proven => Next::Rest,
        Verdict::Look => Next::Look,
        Verdict::Wait(until) => Next::Wait(until),
        Verdict::Lost(lost) => Next::Undo(lost),
    }
}

/// Whether all that is left of an undo is to write it down: nothing that runs is touched any more.
fn is_paper(j: &Journal, boot_id: &str) -> bool {
    let booted = j.boot_id.as_deref().is_some_and(|before| before != boot_id);
    j.stage == Stage::Undone && j.actions.iter().all(|a| a.done || (a.action == Action::Reboot && booted))
}

/// Whether all actions are behind the update, its reboot too.
fn has_acted(j: &Journal, boot_id: &str) -> bool {
    match j.stage {
        Stage::Acted => true,
        Stage::Rebooting => j.boot_id.as_deref().is_some_and(|before| before != boot_id),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Look;
    use super::*;
    use crate::node::journal::{NamedConfig, NotedAction};
    use std::time::Duration;

    fn named(name: &str) -> NamedConfig {
        NamedConfig { name: name.into(), ..NamedConfig::empty() }
    }

    /// Opened in boot 1.
    fn journal(stage: Stage, actions: &[(Action, u32, bool)]) -> Journal {
        let guard = Guard {
            patience: 10,
            kubelet: Some("127.0.0.1:10248".into()),
            boot_id: "boot-1".into(),
            left: true,
            ..Guard::default()
        };
        Journal {
            version: 1,
            from: named("a"),
            to: named("b"),
            stage,
            actions: actions
                .iter()
                .map(|(a, begun, done)| NotedAction { action: a.clone(), begun: *begun, done: *done })
                .collect(),
            policy_generation: 1,
            boot_id: None,
            node_uid: None,
            forced: false,
            failure: None,
            guard: Some(guard),
        }
    }

    fn restart(begun: u32, done: bool) -> (Action, u32, bool) {
        (Action::Restart("x.service".into()), begun, done)
    }

    /// Looked at for `seconds`, always with the same result.
    fn seen(seconds: u64, kubelet: bool, api: bool) -> Watched {
        (0..=seconds).fold(Watched::default(), |w, n| w.and(Look { at: Duration::from_secs(n), kubelet, api }))
    }

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    #[test]
    fn without_an_open_update_it_goes_whatever_the_node_s_health() {
        for watched in [Watched::default(), seen(100, false, false)] {
            assert_eq!(next(None, "boot-1", &watched, at(100)), Next::Remove);
        }
    }

    #[test]
    fn before_anything_has_happened_it_rests_whatever_the_node_s_health() {
        let dead = seen(100, false, false);
        let mut asked = journal(Stage::Rebooting, &[(Action::Reboot, 1, false)]);
        asked.boot_id = Some("boot-1".into());
        let cases = [
            journal(Stage::Opened, &[(Action::Reboot, 0, false)]),
            journal(Stage::Switching, &[(Action::Reboot, 0, false)]),
            journal(Stage::Written, &[restart(0, false)]),
            asked,
        ];
        for j in cases {
            assert_eq!(next(Some(&j), "boot-1", &dead, at(100)), Next::Rest, "{:?}", j.stage);
        }
        let opened = journal(Stage::Opened, &[(Action::Reboot, 0, false)]);
        assert_eq!(next(Some(&opened), "boot-2", &dead, at(100)), Next::Rest, "a boot with the old files");
    }

    #[test]
    fn a_boot_with_new_files_and_a_begun_action_are_watched() {
        let mut rebooted = journal(Stage::Rebooting, &[(Action::Reboot, 1, false)]);
        rebooted.boot_id = Some("boot-1".into());
        let cases = [
            (rebooted, "boot-2"),
            // Power cuts in the middle: half of the files are new.
            (journal(Stage::Switching, &[(Action::Reboot, 0, false)]), "boot-2"),
            (journal(Stage::Written, &[restart(0, false)]), "boot-2"),
            (journal(Stage::Written, &[restart(1, false)]), "boot-1"),
            (journal(Stage::Acted, &[restart(1, true)]), "boot-1"),
        ];
        for (j, boot) in cases {
            assert_eq!(next(Some(&j), boot, &Watched::default(), at(0)), Next::Look, "{:?}", j.stage);
            assert_eq!(next(Some(&j), boot, &seen(9, false, true), at(10)), Next::Look, "{:?}", j.stage);
            let lost = next(Some(&j), boot, &seen(10, false, true), at(10));
            assert_eq!(lost, Next::Undo(Lost::Kubelet), "{:?}", j.stage);
        }
    }

    #[test]
    fn a_missing_daemon_alone_is_no_reason_and_the_guard_stands_down() {
        let well = seen(3, true, true);
        let mut rebooted = journal(Stage::Rebooting, &[(Action::Reboot, 1, false)]);
        rebooted.boot_id = Some("boot-1".into());
        assert_eq!(next(Some(&rebooted), "boot-2", &well, at(3)), Next::StandDown);
        assert_eq!(next(Some(&journal(Stage::Acted, &[restart(1, true)])), "boot-1", &well, at(3)), Next::StandDown);
        // There is more to come, which may still take the node away: it stays.
        assert_eq!(next(Some(&journal(Stage::Written, &[restart(1, false)])), "boot-1", &well, at(3)), Next::Rest);
        assert_eq!(next(Some(&journal(Stage::Switching, &[restart(0, false)])), "boot-2", &well, at(3)), Next::Rest);
    }

    #[test]
    fn an_undo_is_written_down_after_its_boot_and_else_finished_only_on_a_node_that_is_lost() {
        let mut undone = journal(Stage::Undone, &[(Action::Reboot, 1, false)]);
        (undone.failure, undone.boot_id) = (Some("why".into()), Some("boot-2".into()));
        assert_eq!(next(Some(&undone), "boot-3", &Watched::default(), at(0)), Next::Finish);
        assert_eq!(next(Some(&undone), "boot-2", &seen(3, true, true), at(3)), Next::Rest, "its daemon is at it");
        assert_eq!(next(Some(&undone), "boot-2", &seen(10, false, false), at(10)), Next::Finish);
        let mut proven = undone.clone();
        proven.guard.as_mut().unwrap().proven = true;
        assert_eq!(next(Some(&proven), "boot-2", &seen(10, false, false), at(10)), Next::Finish);
    }

    #[test]
    fn an_update_that_acts_on_nothing_or_has_nothing_to_go_back_to_is_not_its_business() {
        let dead = seen(100, false, false);
        let mut forced = journal(Stage::Rebooting, &[(Action::Reboot, 1, false)]);
        (forced.to, forced.boot_id) = (named("a"), Some("boot-1".into()));
        let quiet = journal(Stage::Acted, &[(Action::Drain, 0, true), (Action::DaemonReload, 1, true)]);
        let mut older = journal(Stage::Acted, &[restart(1, true)]);
        older.guard = None;
        for j in [forced, quiet, older] {
            assert_eq!(next(Some(&j), "boot-2", &dead, at(100)), Next::Rest);
        }
    }

    #[test]
    fn what_was_seen_before_a_further_step_says_nothing() {
        let mut seen = Seen::default();
        let mut j = journal(Stage::Written, &[restart(1, false)]);
        seen.observe(&j);
        seen.watched = seen.watched.and(Look { at: at(1), kubelet: true, api: true });
        let before = seen.watched;
        seen.observe(&j);
        assert_eq!(seen.watched, before);
        j.stage = Stage::Acted;
        seen.observe(&j);
        assert_eq!(seen.watched, Watched::default());
    }
}
