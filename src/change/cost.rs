//! What a change of one item would cost a node, whatever the change: for people who ask about an item.

use super::policy::EffectivePolicy;
use super::{Action, Actions, ChangeSet, Difference, actions};
use crate::render::item::Item;
use serde::Serialize;

/// What a change of an item costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// The policy's entry, `/etc/chrony.conf`, `a.service` or `sshkey`; or `default`.
    pub entry: String,
    /// As printed, in order: `Restart chronyd.service`; empty for none.
    pub actions: Vec<String>,
}

/// What it costs when `item` appears, which is what any other change of it costs. A drop-in costs what its unit does.
pub fn cost(item: &Item, policy: &EffectivePolicy) -> Cost {
    let mut change = ChangeSet::default();
    match item {
        Item::File(path) => {
            change.files.insert(path.clone(), Difference::Added);
        }
        Item::Unit(unit) | Item::DropIn { unit, .. } => {
            change.units.insert(unit.clone(), Difference::Added);
        }
        Item::Keys => change.keys = Some(Difference::Added),
    }
    let Actions { list, causes } = actions(&change, policy);
    // That systemd must read a unit file is no entry of a policy.
    let entry = causes.into_iter().map(|cause| cause.entry).find(|entry| entry != super::combine::UNIT_FILE);
    Cost {
        entry: entry.unwrap_or_else(|| super::combine::DEFAULT.to_owned()),
        actions: list.iter().map(Action::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_item_costs_what_its_entry_says_or_the_default() {
        let cluster = serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.alauda.io/v1alpha1",
            "kind": "MachineConfiguration",
            "metadata": {"name": "cluster"},
            "spec": {"nodeDisruptionPolicy": {
                "files": [{"path": "/etc/chrony", "actions": [{"type": "Restart", "restart": {"serviceName": "chronyd.service"}}]}],
                "units": [{"name": "a.service", "actions": [{"type": "None"}]}]
            }}
        }));
        let policy = EffectivePolicy::of(&[cluster.unwrap()]);
        let unit = |name: &str| Item::Unit(name.to_owned());
        for (item, entry, list) in [
            (Item::File("/etc/chrony/a".to_owned()), "/etc/chrony", &["Restart chronyd.service"][..]),
            (Item::File("/etc/x".to_owned()), "default", &[]),
            (unit("a.service"), "a.service", &["DaemonReload"]),
            (unit("b.service"), "default", &["Reboot"]),
            (unit("c.service"), "default", &["Reboot"]),
            (Item::DropIn { unit: "a.service".to_owned(), name: "x.conf".to_owned() }, "a.service", &["DaemonReload"]),
            (Item::Keys, "sshkey", &[]),
        ] {
            let found = cost(&item, &policy);
            assert_eq!(
                (found.entry.as_str(), found.actions),
                (entry, list.iter().map(|a| (*a).to_owned()).collect()),
                "{item}"
            );
        }
    }
}
