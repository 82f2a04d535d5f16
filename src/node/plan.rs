//! The steps of an update, as a function of the two layouts: what is done, in which order. Pure.
//!
//! Each durable step of a transaction is one [`Step`]. A step says what, not how far: whoever carries it out looks at
//! the disk first, so that a list that was cut off anywhere is simply carried out again from its beginning.

use super::layout::{Layout, Sort, Want};
use crate::render::systemd::install::Install;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A durable step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `previous.json` holds the config that is left.
    KeepPrevious,
    /// What stands at a path that was not managed before is kept in `originals/`.
    Record {
        /// The path.
        path: String,
    },
    /// So is the enablement of a unit.
    RecordEnablement {
        /// The unit.
        unit: String,
    },
    /// So are all links that the update may change, as they are just now: undoing makes exactly these again.
    RecordLinks {
        /// The units that are enabled, disabled or given back.
        units: Vec<String>,
    },
    /// What shall stand at a path is written beside it, flushed.
    Stage {
        /// The path.
        path: String,
    },
    /// The journal says that the first switch may have happened: from here on the update is carried forward.
    BeginSwitching,
    /// The journal says that the update is being undone.
    BeginUndoing,
    /// The links that enable a unit are removed, while its old file is there to say which.
    Disable {
        /// The unit.
        unit: String,
    },
    /// What is staged takes its place.
    Switch {
        /// The path.
        path: String,
        /// What kind of thing it is.
        sort: Sort,
    },
    /// A path that is no longer managed gets back what was there before mcx, or nothing.
    GiveBack {
        /// The path.
        path: String,
        /// What kind of thing it is.
        sort: Sort,
    },
    /// A mask that lasts until the next boot is removed.
    UnmaskRuntime {
        /// The unit.
        unit: String,
    },
    /// The links that enable a unit are made.
    Enable {
        /// The unit.
        unit: String,
    },
    /// A unit whose enablement is no longer managed gets back what it had.
    GiveBackEnablement {
        /// The unit.
        unit: String,
    },
    /// The links of before the update are made again, siblings included.
    GiveBackLinks,
    /// What happened to directories is flushed.
    Flush,
    /// `current.json` holds the new config.
    SetCurrent,
    /// The journal says that all is written: actions may run.
    EndSwitching,
    /// The journal says that all is undone.
    EndUndoing,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeepPrevious => write!(f, "keep the previous config"),
            Self::Record { path } => write!(f, "note what is at {path}"),
            Self::RecordEnablement { unit } => write!(f, "note whether {unit} is enabled"),
            Self::RecordLinks { .. } => write!(f, "note the links of units"),
            Self::Stage { path } => write!(f, "stage {path}"),
            Self::BeginSwitching => write!(f, "begin to switch"),
            Self::BeginUndoing => write!(f, "begin to undo"),
            Self::Disable { unit } => write!(f, "disable {unit}"),
            Self::Switch { path, .. } => write!(f, "switch {path}"),
            Self::GiveBack { path, .. } => write!(f, "give back {path}"),
            Self::UnmaskRuntime { unit } => write!(f, "remove the runtime mask of {unit}"),
            Self::Enable { unit } => write!(f, "enable {unit}"),
            Self::GiveBackEnablement { unit } => write!(f, "give back the enablement of {unit}"),
            Self::GiveBackLinks => write!(f, "give back the links of units"),
            Self::Flush => write!(f, "flush directories"),
            Self::SetCurrent => write!(f, "set the current config"),
            Self::EndSwitching => write!(f, "end switching"),
            Self::EndUndoing => write!(f, "end undoing"),
        }
    }
}

/// Sees each step before it is carried out.
pub type Observer<'a> = dyn FnMut(&Step) + Send + 'a;

/// Which way a transaction goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To the new config.
    Forward,
    /// The old files come back. Nothing is recorded: what was there before mcx was recorded on the way forward.
    Back,
}

/// The steps from `old` to `new`. With `all` every managed thing of `new` is looked at, not only what differs: the force
/// file asks for that.
pub(super) fn plan(old: &Layout, new: &Layout, way: Way, all: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let changed: BTreeMap<&String, Sort> = new
        .places
        .iter()
        .filter(|(path, managed)| all || old.places.get(*path).is_none_or(|before| before.want != managed.want))
        .map(|(path, managed)| (path, managed.sort))
        .collect();
    let left: BTreeMap<&String, Sort> = old
        .places
        .iter()
        .filter(|(path, _)| !new.places.contains_key(*path))
        .map(|(path, managed)| (path, managed.sort))
        .collect();
    let units = Units::between(old, new, all);
    // The same set on both ways: what is made again is what was noted.
    let mut touched = units.all();
    touched.extend(Units::between(new, old, all).all());

    match way {
        Way::Back => steps.push(Step::BeginUndoing),
        Way::Forward => {
            steps.push(Step::KeepPrevious);
            // An unmasked path is managed without being ours: what an administrator put there since is noted now.
            let fresh = |path: &String| old.places.get(path).is_none_or(|before| before.want == Want::NoMask);
            steps.extend(new.places.keys().filter(|path| fresh(path)).map(|path| Step::Record { path: path.clone() }));
            // Another `[Install]` may bring siblings along.
            let fresh = new.enablement.iter().filter(|(unit, enabled)| {
                !old.enablement.contains_key(*unit) || (**enabled && install(old, unit) != install(new, unit))
            });
            let fresh = fresh.map(|(unit, _)| unit);
            steps.extend(fresh.map(|unit| Step::RecordEnablement { unit: unit.clone() }));
            if !touched.is_empty() {
                steps.push(Step::RecordLinks { units: touched.iter().map(|unit| (*unit).clone()).collect() });
            }
        }
    }
    steps.extend(changed.keys().chain(left.keys()).map(|path| Step::Stage { path: (*path).clone() }));
    if way == Way::Forward {
        steps.push(Step::BeginSwitching);
    }

    // All disables before all enables: disabling a unit disables its `Also=` siblings too (L-15). And before the switch,
    // while the unit's file is there to say which these are.
    steps.extend(units.disable.iter().map(|unit| Step::Disable { unit: (*unit).clone() }));
    // What acts at the moment it is written comes last, when all that it may need is there.
    let (late, early): (Vec<_>, Vec<_>) = switches(&changed, &left).partition(|(path, _)| acts_at_once(path));
    steps.extend(early.into_iter().map(|(_, step)| step));
    steps.extend(units.unmask_runtime.iter().map(|unit| Step::UnmaskRuntime { unit: (*unit).clone() }));
    steps.extend(units.enable.iter().map(|unit| Step::Enable { unit: (*unit).clone() }));
    steps.extend(units.give_back.iter().map(|unit| Step::GiveBackEnablement { unit: (*unit).clone() }));
    if way == Way::Back && !touched.is_empty() {
        steps.push(Step::GiveBackLinks);
    }
    steps.extend(late.into_iter().map(|(_, step)| step));

    steps.push(Step::Flush);
    steps.push(Step::SetCurrent);
    steps.push(if way == Way::Forward { Step::EndSwitching } else { Step::EndUndoing });
    steps
}

/// Files, drop-ins, units, keys, then what is given back; each in order of path.
fn switches<'a>(
    changed: &BTreeMap<&'a String, Sort>,
    left: &BTreeMap<&'a String, Sort>,
) -> impl Iterator<Item = (&'a String, Step)> + use<'a> {
    let mut order: Vec<(bool, Sort, &String)> = changed.iter().map(|(path, sort)| (false, *sort, *path)).collect();
    order.extend(left.iter().map(|(path, sort)| (true, *sort, *path)));
    order.sort();
    order.into_iter().map(|(is_left, sort, path)| {
        let to = path.clone();
        (path, if is_left { Step::GiveBack { path: to, sort } } else { Step::Switch { path: to, sort } })
    })
}

fn install(layout: &Layout, unit: &str) -> Install {
    layout.units.get(unit).map(Install::of_unit).unwrap_or_default()
}

/// Files that something reads the moment they change: static pods, timers of cron, device rules.
pub(super) fn acts_at_once(path: &str) -> bool {
    ["/etc/kubernetes/manifests/", "/etc/cron", "/var/spool/cron/", "/etc/udev/rules.d/", "/etc/tmpfiles.d/"]
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

/// What happens to the enablement of units.
struct Units<'a> {
    disable: BTreeSet<&'a String>,
    enable: BTreeSet<&'a String>,
    give_back: BTreeSet<&'a String>,
    unmask_runtime: BTreeSet<&'a String>,
}

impl<'a> Units<'a> {
    fn all(&self) -> BTreeSet<&'a String> {
        self.disable.iter().chain(&self.enable).chain(&self.give_back).copied().collect()
    }

    fn between(old: &'a Layout, new: &'a Layout, all: bool) -> Self {
        let mut units = Self {
            disable: BTreeSet::new(),
            enable: BTreeSet::new(),
            give_back: BTreeSet::new(),
            unmask_runtime: BTreeSet::new(),
        };
        for (unit, enabled) in &new.enablement {
            let same = old.enablement.get(unit) == Some(enabled);
            let reinstalled = *enabled && install(old, unit) != install(new, unit);
            if !enabled && (all || !same) {
                units.disable.insert(unit);
            }
            // Links of an `[Install]` that is gone, or of a file that ours replaces, stay unless they are removed first
            // (L-13).
            if reinstalled {
                units.disable.insert(unit);
            }
            if *enabled && (all || !same || reinstalled || old.masks(unit)) {
                units.enable.insert(unit);
            }
        }
        for (unit, enabled) in &old.enablement {
            if !new.enablement.contains_key(unit) {
                units.give_back.insert(unit);
                if *enabled && !new.masks(unit) {
                    units.disable.insert(unit);
                }
            }
        }
        // A unit file that goes takes its links along; whether it goes for good is seen on the disk.
        let has_body =
            |layout: &Layout, unit: &String| layout.units.get(unit).is_some_and(|unit| unit.contents.is_some());
        units
            .disable
            .extend(old.units.keys().filter(|unit| has_body(old, unit) && !has_body(new, unit) && !new.masks(unit)));
        let unmasks =
            |layout: &Layout, unit: &String| layout.units.get(unit).is_some_and(|unit| unit.mask == Some(false));
        units.unmask_runtime.extend(new.units.keys().filter(|unit| unmasks(new, unit) && (all || !unmasks(old, unit))));
        units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::host::Accounts;
    use crate::render::items::Items;
    use serde_json::{Value, json};

    fn layout(config: &Value) -> Layout {
        Layout::of(&Items::from_config(config).unwrap(), &Accounts::default())
    }

    fn file(path: &str, text: &str) -> Value {
        json!({"path": path, "mode": 420, "contents": {"source": format!("data:,{text}")}})
    }

    fn config(files: &[Value], units: &[Value]) -> Value {
        json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}, "systemd": {"units": units}})
    }

    fn steps(old: &Value, new: &Value, way: Way, all: bool) -> Vec<String> {
        plan(&layout(old), &layout(new), way, all).iter().map(ToString::to_string).collect()
    }

    const BODY: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";

    #[test]
    fn the_steps_of_an_update_come_in_the_order_that_keeps_each_of_them_safe() {
        let old = config(
            &[file("/etc/a", "1"), file("/etc/gone", "1"), file("/etc/same", "1")],
            &[
                json!({"name": "b.service", "enabled": true}),
                json!({"name": "m.service", "mask": true}),
                json!({"name": "z.service", "contents": BODY, "enabled": true}),
            ],
        );
        let new = config(
            &[file("/etc/a", "2"), file("/etc/same", "1"), file("/etc/cron.d/x", "1"), file("/etc/new", "1")],
            &[
                json!({"name": "a.service", "contents": BODY, "enabled": true}),
                json!({"name": "b.service", "enabled": false}),
                json!({"name": "m.service", "enabled": false, "mask": false}),
            ],
        );
        assert_eq!(
            steps(&old, &new, Way::Forward, false),
            [
                "keep the previous config",
                "note what is at /etc/cron.d/x",
                "note what is at /etc/new",
                "note what is at /etc/systemd/system/a.service",
                "note whether a.service is enabled",
                "note whether m.service is enabled",
                "note the links of units",
                "stage /etc/a",
                "stage /etc/cron.d/x",
                "stage /etc/new",
                "stage /etc/systemd/system/a.service",
                "stage /etc/systemd/system/m.service",
                "stage /etc/gone",
                "stage /etc/systemd/system/z.service",
                "begin to switch",
                // All disables before all enables (L-15), while the old unit files are there.
                "disable a.service",
                "disable b.service",
                "disable m.service",
                "disable z.service",
                "switch /etc/a",
                "switch /etc/new",
                "switch /etc/systemd/system/a.service",
                "switch /etc/systemd/system/m.service",
                "give back /etc/gone",
                "give back /etc/systemd/system/z.service",
                "remove the runtime mask of m.service",
                "enable a.service",
                "give back the enablement of z.service",
                // What acts at once comes last.
                "switch /etc/cron.d/x",
                "flush directories",
                "set the current config",
                "end switching",
            ]
        );
    }

    #[test]
    fn r151_the_same_config_is_no_work_unless_it_is_forced() {
        let same = config(&[file("/etc/a", "1")], &[json!({"name": "a.service", "contents": BODY, "enabled": true})]);
        let bare = [
            "keep the previous config",
            "begin to switch",
            "flush directories",
            "set the current config",
            "end switching",
        ];
        assert_eq!(steps(&same, &same, Way::Forward, false), bare);
        let forced = steps(&same, &same, Way::Forward, true);
        for step in ["stage /etc/a", "switch /etc/a", "switch /etc/systemd/system/a.service", "enable a.service"] {
            assert!(forced.iter().any(|found| found == step), "{step} is not in {forced:?}");
        }
    }

    #[test]
    fn undoing_touches_what_the_update_touched_and_records_nothing() {
        let old = config(&[file("/etc/a", "1"), file("/etc/gone", "1")], &[]);
        let new = config(&[file("/etc/a", "2"), file("/etc/new", "1")], &[]);
        assert_eq!(
            steps(&new, &old, Way::Back, false),
            [
                "begin to undo",
                "stage /etc/a",
                "stage /etc/gone",
                "stage /etc/new",
                "switch /etc/a",
                "switch /etc/gone",
                "give back /etc/new",
                "flush directories",
                "set the current config",
                "end undoing",
            ]
        );
    }

    #[test]
    fn l13_another_install_section_disables_before_it_enables_and_another_command_does_not() {
        let with = |text: &str| config(&[], &[json!({"name": "a.service", "contents": text, "enabled": true})]);
        let moved = BODY.replace("multi-user", "other");
        let steps_for = |text: &str| {
            let mut found = steps(&with(BODY), &with(text), Way::Forward, false);
            found.retain(|step| step.ends_with("able a.service"));
            found
        };
        assert_eq!(steps_for(&moved), ["disable a.service", "enable a.service"]);
        assert_eq!(steps_for(&BODY.replace("true", "false")), Vec::<String>::new());
    }
}
