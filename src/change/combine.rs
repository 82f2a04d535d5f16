//! From the entries that a change takes to one list of actions (design: change sets and actions).
//!
//! The list is built in a fixed order: entries for files as `status` lists them, then the default for files, then the same
//! for units, then keys. Then: any Reboot is exactly Reboot; an action counts where it occurs first; Restart swallows Reload
//! of the same service; the one daemon-reload stands before the first reload or restart.

use super::policy::EffectivePolicy;
use super::{Action, Actions, Cause, ChangeSet, file_item, keys_item, unit_item};
use crate::api::machine_configuration::PolicyAction;

/// Where systemd reads units of the administrator. A *file* item below it is a unit file, too.
const UNIT_DIRECTORY: &str = "/etc/systemd/system/";

/// Name of the default lists in a cause.
pub(super) const DEFAULT: &str = "default";
/// Named in a cause where no policy asks, but systemd must read a unit file.
pub(super) const UNIT_FILE: &str = "unit file";

/// What `change` costs under `policy`.
pub fn actions(change: &ChangeSet, policy: &EffectivePolicy) -> Actions {
    let mut wanted = Wanted::default();
    for entry in &policy.files {
        let taken = change.files.keys().filter(|path| policy.file_entry(path).is_some_and(|e| std::ptr::eq(e, entry)));
        wanted.take(taken.map(|path| file_item(path)), &entry.path, &entry.actions);
    }
    let rest = change.files.keys().filter(|path| policy.file_entry(path).is_none());
    wanted.take(rest.map(|path| file_item(path)), DEFAULT, &policy.default_files);
    for entry in &policy.units {
        let taken = change.units.keys().filter(|name| policy.unit_entry(name).is_some_and(|e| std::ptr::eq(e, entry)));
        wanted.take(taken.map(|name| unit_item(name)), &entry.name, &entry.actions);
    }
    let rest = change.units.keys().filter(|name| policy.unit_entry(name).is_none());
    wanted.take(rest.map(|name| unit_item(name)), DEFAULT, &policy.default_units);
    if change.keys.is_some() {
        wanted.take(std::iter::once(keys_item()), "sshkey", &policy.keys);
    }
    for item in unit_files(change) {
        wanted.unit_file(item);
    }
    wanted.combined()
}

/// Items whose change systemd sees only after it has read its units again: all that is part of a unit, its enablement
/// included (links that are made without telling systemd), and files among its units.
///
/// systemd's own `NeedDaemonReload` stays false for a first drop-in directory, so it is not asked.
fn unit_files(change: &ChangeSet) -> impl Iterator<Item = String> {
    let files = change.files.keys().filter(|path| path.starts_with(UNIT_DIRECTORY));
    files.map(|path| file_item(path)).chain(change.units.keys().map(|name| unit_item(name)))
}

/// All that the entries name, in their order, before combining.
#[derive(Default)]
struct Wanted {
    list: Vec<Action>,
    causes: Vec<Cause>,
    daemon_reload: bool,
}

impl Wanted {
    /// The items that take one entry. The entry's actions count once, whatever number of items take it.
    fn take(&mut self, items: impl Iterator<Item = String>, entry: &str, actions: &[PolicyAction]) {
        let mut any = false;
        for item in items {
            any = true;
            if actions.is_empty() {
                self.cause("None", &item, entry);
            }
            for action in actions {
                self.cause(&printed(action), &item, entry);
            }
        }
        if any {
            self.list.extend(actions.iter().filter_map(action));
        }
    }

    /// A unit file was written: whatever the policy says, systemd must read it.
    fn unit_file(&mut self, item: String) {
        self.daemon_reload = true;
        let told = self.causes.iter().any(|c| c.item == item && c.action == "DaemonReload");
        if !told {
            self.causes.push(Cause { action: "DaemonReload".to_owned(), item, entry: UNIT_FILE.to_owned() });
        }
    }

    fn cause(&mut self, action: &str, item: &str, entry: &str) {
        let cause = Cause { action: action.to_owned(), item: item.to_owned(), entry: entry.to_owned() };
        if !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
    }

    fn combined(self) -> Actions {
        if self.list.contains(&Action::Reboot) {
            return Actions { list: vec![Action::Reboot], causes: self.causes };
        }
        let mut list: Vec<Action> = Vec::new();
        for action in &self.list {
            let swallowed =
                matches!(action, Action::Reload(unit) if self.list.contains(&Action::Restart(unit.clone())));
            if !swallowed && !list.contains(action) {
                list.push(action.clone());
            }
        }
        let before = list.iter().position(|a| matches!(a, Action::Reload(_) | Action::Restart(_)));
        let at = list.iter().position(|a| *a == Action::DaemonReload);
        match (at, before) {
            (Some(at), Some(before)) if at > before => {
                list.remove(at);
                list.insert(before, Action::DaemonReload);
            }
            (None, before) if self.daemon_reload => {
                list.insert(before.unwrap_or(list.len()), Action::DaemonReload);
            }
            _ => {}
        }
        Actions { list, causes: self.causes }
    }
}

/// The action of an entry; none for `None`. What cannot be read costs a reboot: the policy's rules keep it out, and if
/// something slips through, a needless reboot is better than a change that never takes effect.
fn action(written: &PolicyAction) -> Option<Action> {
    let service =
        |s: &Option<crate::api::machine_configuration::ServiceName>| s.as_ref().map(|s| s.service_name.clone());
    Some(match written.type_.as_str() {
        "None" => return None,
        "DaemonReload" => Action::DaemonReload,
        "Drain" => Action::Drain,
        "Reload" => service(&written.reload).map_or(Action::Reboot, Action::Reload),
        "Restart" => service(&written.restart).map_or(Action::Reboot, Action::Restart),
        _ => Action::Reboot,
    })
}

fn printed(written: &PolicyAction) -> String {
    action(written).map_or_else(|| "None".to_owned(), |a| a.to_string())
}
