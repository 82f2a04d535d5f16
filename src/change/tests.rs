use super::*;
use crate::api::machine_configuration::{FilePolicy, PolicyAction, ServiceName, UnitPolicy};
use crate::render::items::{Content, FileItem, Items, Owner, UnitItem};
use policy::EffectivePolicy;
use proptest::prelude::*;

fn file(bytes: &str) -> FileItem {
    FileItem { content: Content::of(bytes.as_bytes()), mode: 0o644, user: Owner::Id(0), group: Owner::Id(0) }
}

fn files(list: &[(&str, &str)]) -> Items {
    Items { files: list.iter().map(|(path, bytes)| ((*path).to_owned(), file(bytes))).collect(), ..Items::default() }
}

fn unit(name: &str, item: UnitItem) -> Items {
    Items { units: BTreeMap::from([(name.to_owned(), item)]), ..Items::default() }
}

fn body(text: &str) -> UnitItem {
    UnitItem { contents: Some(text.to_owned()), ..UnitItem::default() }
}

/// `Restart a.service` and so on, as actions print.
fn written(text: &str) -> PolicyAction {
    let (type_, service) = text.split_once(' ').map_or((text, None), |(t, s)| (t, Some(s.to_owned())));
    let name =
        |wanted: &str| service.clone().filter(|_| type_ == wanted).map(|service_name| ServiceName { service_name });
    PolicyAction { type_: type_.to_owned(), reload: name("Reload"), restart: name("Restart") }
}

fn list(texts: &[&str]) -> Vec<PolicyAction> {
    texts.iter().map(|t| written(t)).collect()
}

fn policy(entries: &[(&str, &[&str])]) -> EffectivePolicy {
    let mut policy = EffectivePolicy::shipped();
    for (key, texts) in entries {
        let actions = list(texts);
        match *key {
            "keys" => policy.keys = actions,
            "default files" => policy.default_files = actions,
            "default units" => policy.default_units = actions,
            path if path.starts_with('/') => policy.files.push(FilePolicy { path: path.to_owned(), actions }),
            name => policy.units.push(UnitPolicy { name: name.to_owned(), actions }),
        }
    }
    policy
}

fn cost(old: &Items, new: &Items, policy: &EffectivePolicy) -> String {
    actions(&ChangeSet::between(old, new), policy).to_string()
}

#[test]
fn a_change_set_says_what_was_added_changed_and_removed() {
    let mut old = files(&[("/etc/a", "1"), ("/etc/b", "1"), ("/etc/c", "1")]);
    old.units.insert("x.service".to_owned(), body("x"));
    let mut new = files(&[("/etc/a", "1"), ("/etc/b", "2"), ("/etc/d", "1")]);
    new.keys = Some(vec!["ssh-ed25519 A".to_owned()]);
    let change = ChangeSet::between(&old, &new);
    assert_eq!(change.to_string(), "1 file added, 1 file changed, 1 file removed, 1 unit removed, keys added");
    assert_eq!(change.files["/etc/b"], Difference::Changed);
    assert_eq!(ChangeSet::default().to_string(), "nothing");
}

#[test]
fn other_clothes_are_no_change() {
    // the same bytes, encoded in another way.
    let plain = Items { files: BTreeMap::from([("/etc/a".to_owned(), file("x"))]), ..Items::default() };
    let mut other = plain.clone();
    other.keys = Some(vec!["b".to_owned(), "a".to_owned()]);
    let mut sorted = plain;
    sorted.keys = Some(vec!["a".to_owned(), "b".to_owned()]);
    assert!(ChangeSet::between(&other, &sorted).is_empty());
}

#[test]
fn every_field_of_an_item_counts() {
    let base = file("x");
    let changed = [
        FileItem { content: Content::of(b"y"), ..base.clone() },
        FileItem { mode: 0o600, ..base.clone() },
        FileItem { user: Owner::Id(1), ..base.clone() },
        FileItem { group: Owner::Name("root".to_owned()), ..base },
    ];
    let old = files(&[("/etc/a", "x")]);
    for item in changed {
        let new = Items { files: BTreeMap::from([("/etc/a".to_owned(), item)]), ..Items::default() };
        assert_eq!(ChangeSet::between(&old, &new).to_string(), "1 file changed");
        assert_ne!(old.hash(), new.hash());
    }
    let old = unit("a.service", body("x"));
    for item in [
        body("y"),
        UnitItem { enabled: Some(false), ..body("x") },
        UnitItem { mask: Some(false), ..body("x") },
        UnitItem { dropins: BTreeMap::from([("a.conf".to_owned(), "x".to_owned())]), ..body("y") },
    ] {
        let new = unit("a.service", item);
        assert_eq!(ChangeSet::between(&old, &new).to_string(), "1 unit changed");
        assert_ne!(old.hash(), new.hash());
    }
}

#[test]
fn where_only_drop_ins_of_a_unit_differ_they_are_named_and_not_the_unit() {
    let with = |base: UnitItem, dropins: &[(&str, &str)]| {
        let dropins = dropins.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        unit("a.service", UnitItem { dropins, ..base })
    };
    let nothing = UnitItem::default;
    let (old, new) =
        (with(nothing(), &[("1.conf", "x"), ("2.conf", "x")]), with(nothing(), &[("2.conf", "y"), ("3.conf", "x")]));
    for (old, new, line, items) in [
        (&Items::default(), &with(nothing(), &[("1.conf", "x")]), "1 drop-in added", "drop-in a.service/1.conf added"),
        (
            &with(nothing(), &[("1.conf", "x")]),
            &Items::default(),
            "1 drop-in removed",
            "drop-in a.service/1.conf removed",
        ),
        (
            &old,
            &new,
            "1 drop-in added, 1 drop-in changed, 1 drop-in removed",
            "drop-in a.service/1.conf removed, drop-in a.service/2.conf changed, drop-in a.service/3.conf added",
        ),
        (
            &unit("a.service", body("x")),
            &with(body("x"), &[("1.conf", "x")]),
            "1 drop-in added",
            "drop-in a.service/1.conf added",
        ),
        // With anything of the unit itself they are a part of it.
        (&Items::default(), &with(body("x"), &[("1.conf", "x")]), "1 unit added", "unit a.service added"),
        (&with(nothing(), &[("1.conf", "x")]), &with(body("x"), &[]), "1 unit changed", "unit a.service changed"),
    ] {
        let change = ChangeSet::between(old, new);
        assert_eq!(change.to_string(), line);
        let named: Vec<String> = change.items().map(|(item, kind)| format!("{item} {kind}")).collect();
        assert_eq!(named.join(", "), items);
        // The policy knows units only.
        assert_eq!(change.units.keys().collect::<Vec<_>>(), ["a.service"]);
        assert_eq!(actions(&change, &EffectivePolicy::shipped()).to_string(), "Reboot");
    }
}

#[test]
fn nothing_but_none_costs_nothing() {
    let (old, new) = (Items::default(), files(&[("/etc/a", "1")]));
    assert_eq!(cost(&old, &new, &EffectivePolicy::shipped()), "None");
    assert_eq!(cost(&new, &new, &policy(&[("default files", &["Reboot"])])), "None", "no change at all");
    let actions = actions(&ChangeSet::between(&old, &new), &EffectivePolicy::shipped());
    assert!(!actions.needs_drain() && !actions.is_disruptive());
    assert_eq!(actions.causes[0].to_string(), "file /etc/a: None (default)");
}

#[test]
fn the_guides_chrony_example_restarts_once() {
    let policy = policy(&[("/etc/chrony.conf", &["DaemonReload", "Restart chronyd.service"])]);
    let (old, new) = (Items::default(), files(&[("/etc/chrony.conf", "1")]));
    assert_eq!(cost(&old, &new, &policy), "DaemonReload, Restart chronyd.service");
}

#[test]
fn an_unlisted_unit_reboots_as_shipped() {
    let (old, new) = (Items::default(), unit("a.service", body("x")));
    let change = ChangeSet::between(&old, &new);
    let actions = actions(&change, &EffectivePolicy::shipped());
    assert_eq!(actions.to_string(), "Reboot");
    assert!(actions.needs_drain() && actions.reboots());
}

#[test]
fn one_reboot_makes_the_list_exactly_reboot() {
    let policy =
        policy(&[("/etc/a", &["Reboot"]), ("/etc/b", &["Drain", "Restart b.service"]), ("keys", &["DaemonReload"])]);
    let mut new = files(&[("/etc/a", "1"), ("/etc/b", "1")]);
    new.keys = Some(vec!["k".to_owned()]);
    new.units.insert("u.service".to_owned(), body("x"));
    assert_eq!(cost(&Items::default(), &new, &policy), "Reboot");
}

#[test]
fn actions_come_in_the_order_of_the_policy_not_of_the_paths() {
    // S-12: the order in the list matters.
    let policy = policy(&[
        ("/etc/z", &["Restart z.service", "Restart shared.service"]),
        ("/etc/a", &["Restart a.service", "Restart shared.service", "Drain"]),
        ("u.service", &["Restart u.service"]),
        ("default files", &["Restart rest.service"]),
        ("keys", &["Restart sshd.service", "Drain"]),
    ]);
    let mut new = files(&[("/etc/a", "1"), ("/etc/m", "1"), ("/etc/z", "1")]);
    new.units.insert("u.service".to_owned(), UnitItem { enabled: Some(true), ..UnitItem::default() });
    new.keys = Some(vec!["k".to_owned()]);
    assert_eq!(
        cost(&Items::default(), &new, &policy),
        "DaemonReload, Restart z.service, Restart shared.service, Restart a.service, Drain, Restart rest.service, \
         Restart u.service, Restart sshd.service"
    );
}

#[test]
fn restart_swallows_reload_of_the_same_service_in_either_order() {
    // the peer let a later, weaker reload replace a restart.
    let pairs: [(&[&str], &[&str], &str); 6] = [
        (&["Reload a.service"], &["Restart a.service"], "Restart a.service"),
        (&["Restart a.service"], &["Reload a.service"], "Restart a.service"),
        (&["Reload a.service"], &["Restart b.service"], "Reload a.service, Restart b.service"),
        (&["Reload a.service"], &["Reload a.service"], "Reload a.service"),
        (&["Restart a.service"], &["None"], "Restart a.service"),
        (&["None"], &["None"], "None"),
    ];
    for (first, second, expected) in pairs {
        let policy = policy(&[("/etc/a", first), ("/etc/b", second)]);
        let new = files(&[("/etc/a", "1"), ("/etc/b", "1")]);
        assert_eq!(cost(&Items::default(), &new, &policy), expected, "{first:?} {second:?}");
    }
}

#[test]
fn the_one_daemon_reload_stands_before_any_reload_or_restart() {
    let new = files(&[("/etc/a", "1")]);
    for (entry, expected) in [
        (&["Restart a.service", "DaemonReload"][..], "DaemonReload, Restart a.service"),
        (&["Drain", "Reload a.service", "DaemonReload"][..], "Drain, DaemonReload, Reload a.service"),
        (&["DaemonReload", "Drain"][..], "DaemonReload, Drain"),
        (&["Drain", "DaemonReload"][..], "Drain, DaemonReload"),
        (&["Restart a.service"][..], "Restart a.service"),
    ] {
        assert_eq!(cost(&Items::default(), &new, &policy(&[("/etc/a", entry)])), expected);
    }
}

#[test]
fn a_written_unit_file_is_always_read_by_systemd() {
    // R-256, and the policy None of a unit: without the reload its new text never takes effect.
    let none = policy(&[("a.service", &["None"])]);
    let restart = policy(&[("a.service", &["Restart a.service"])]);
    let nothing = Items::default();
    let with_body = unit("a.service", body("x"));
    let dropin = UnitItem { dropins: BTreeMap::from([("x.conf".to_owned(), "y".to_owned())]), ..UnitItem::default() };
    let masked = UnitItem { mask: Some(true), ..UnitItem::default() };
    let enabled = UnitItem { enabled: Some(true), ..UnitItem::default() };
    for (old, new, policy, expected) in [
        (&nothing, &with_body, &none, "DaemonReload"),
        (&with_body, &nothing, &none, "DaemonReload"),
        (&nothing, &unit("a.service", dropin), &none, "DaemonReload"),
        (&nothing, &unit("a.service", masked), &none, "DaemonReload"),
        (&nothing, &unit("a.service", enabled), &none, "DaemonReload"),
        (&nothing, &with_body, &restart, "DaemonReload, Restart a.service"),
        (&nothing, &with_body, &EffectivePolicy::shipped(), "Reboot"),
        (&nothing, &files(&[("/etc/systemd/system/b.service.d/x.conf", "y")]), &none, "DaemonReload"),
    ] {
        assert_eq!(cost(old, new, policy), expected, "{new:?}");
    }
    let found = actions(&ChangeSet::between(&nothing, &with_body), &none);
    assert!(!found.is_disruptive(), "a daemon-reload stops no service");
    assert_eq!(
        found.causes.iter().map(Cause::to_string).collect::<Vec<_>>(),
        ["unit a.service: None (a.service)", "unit a.service: DaemonReload (unit file)"]
    );
}

#[test]
fn a_template_instance_takes_the_entry_of_its_own_name() {
    let policy = policy(&[("a@b.service", &["Restart a@b.service"]), ("a@.service", &["Drain"])]);
    let new = unit("a@b.service", UnitItem { enabled: Some(true), ..UnitItem::default() });
    assert_eq!(cost(&Items::default(), &new, &policy), "DaemonReload, Restart a@b.service");
}

#[test]
fn the_longest_path_alone_decides() {
    let policy = policy(&[("/", &["Reboot"]), ("/etc", &["Drain"]), ("/etc/foo", &["None"])]);
    for (path, expected) in
        [("/etc/foo/x", "None"), ("/etc/foobar", "Drain"), ("/etc/foo", "None"), ("/opt/x", "Reboot")]
    {
        assert_eq!(cost(&Items::default(), &files(&[(path, "1")]), &policy), expected, "{path}");
    }
}

#[test]
fn an_empty_list_is_none_and_an_unreadable_action_reboots() {
    let new = files(&[("/etc/a", "1")]);
    assert_eq!(cost(&Items::default(), &new, &policy(&[("/etc/a", &[])])), "None");
    assert_eq!(cost(&Items::default(), &new, &policy(&[("/etc/a", &["Special"])])), "Reboot");
    assert_eq!(cost(&Items::default(), &new, &policy(&[("/etc/a", &["Restart"])])), "Reboot");
}

fn any_items() -> impl Strategy<Value = Items> {
    let owner = prop_oneof![Just(Owner::Id(0)), Just(Owner::Id(7)), Just(Owner::Name("adm".to_owned()))];
    let mode = prop_oneof![Just(0o644u32), Just(0o600)];
    let item = ("[ab]?", mode, owner.clone(), owner).prop_map(|(bytes, mode, user, group)| FileItem {
        content: Content::of(bytes.as_bytes()),
        mode,
        user,
        group,
    });
    let flag = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    let dropins = prop::collection::btree_map("[xy]\\.conf", "[ab]", 0..2);
    let unit = (prop::option::of("[ab]"), dropins, flag.clone(), flag)
        .prop_map(|(contents, dropins, enabled, mask)| UnitItem { contents, dropins, enabled, mask })
        .prop_filter("not ours", |u| !u.is_empty());
    (
        prop::collection::btree_map("/etc/[abc]", item, 0..3),
        prop::collection::btree_map("[abc]\\.service", unit, 0..3),
        prop::option::of(prop::collection::btree_set("[abc]", 1..3)),
    )
        .prop_map(|(files, units, keys)| Items { files, units, keys: keys.map(|k| k.into_iter().collect()) })
}

fn any_policy() -> impl Strategy<Value = EffectivePolicy> {
    let action = prop_oneof![
        Just("None"),
        Just("Drain"),
        Just("DaemonReload"),
        Just("Reboot"),
        Just("Reload a.service"),
        Just("Restart a.service"),
        Just("Reload b.service"),
        Just("Restart b.service")
    ];
    let actions = || prop::collection::vec(action.clone(), 0..4).prop_map(|texts| list(&texts));
    (
        prop::collection::btree_map("/(etc(/[ab])?)?", actions(), 0..3),
        prop::collection::btree_map("[abc]\\.service", actions(), 0..3),
        actions(),
        actions(),
        actions(),
    )
        .prop_map(|(files, units, keys, default_files, default_units)| EffectivePolicy {
            generation: 1,
            files: files.into_iter().map(|(path, actions)| FilePolicy { path, actions }).collect(),
            units: units.into_iter().map(|(name, actions)| UnitPolicy { name, actions }).collect(),
            keys,
            default_files,
            default_units,
        })
}

/// Does to `node` what is said of each item, and nothing else; what is said must fit what is there.
fn apply<T: Clone>(said: &BTreeMap<String, Difference>, node: &mut BTreeMap<String, T>, new: &BTreeMap<String, T>) {
    for (name, difference) in said {
        let there = match difference {
            Difference::Removed => node.remove(name).is_some(),
            Difference::Added => node.insert(name.clone(), new[name].clone()).is_none(),
            Difference::Changed => node.insert(name.clone(), new[name].clone()).is_some(),
        };
        assert!(there, "{name} is said to be {difference}");
    }
}

proptest! {
    #[test]
    fn no_change_is_empty_and_costs_nothing(items in any_items(), policy in any_policy()) {
        let change = ChangeSet::between(&items, &items.clone());
        prop_assert!(change.is_empty());
        prop_assert_eq!(actions(&change, &policy), Actions::default());
    }

    #[test]
    fn the_name_changes_exactly_when_something_differs(a in any_items(), b in any_items()) {
        let same = ChangeSet::between(&a, &b).is_empty();
        prop_assert_eq!(same, a == b);
        prop_assert_eq!(same, a.hash() == b.hash());
    }

    /// The change set names all that differs: changing just that gives the new config.
    #[test]
    fn applying_the_change_gives_the_new_config(a in any_items(), b in any_items()) {
        let change = ChangeSet::between(&a, &b);
        let mut node = a;
        apply(&change.files, &mut node.files, &b.files);
        apply(&change.units, &mut node.units, &b.units);
        if let Some(difference) = change.keys {
            prop_assert_eq!(difference == Difference::Added, node.keys.is_none());
            prop_assert_eq!(difference == Difference::Removed, b.keys.is_none());
            node.keys.clone_from(&b.keys);
        }
        prop_assert_eq!(node, b);
    }

    #[test]
    fn the_way_back_names_the_same_items(a in any_items(), b in any_items()) {
        let (there, back) = (ChangeSet::between(&a, &b), ChangeSet::between(&b, &a));
        prop_assert_eq!(there.files.keys().collect::<Vec<_>>(), back.files.keys().collect::<Vec<_>>());
        prop_assert_eq!(there.units.keys().collect::<Vec<_>>(), back.units.keys().collect::<Vec<_>>());
        prop_assert_eq!(there.keys.is_some(), back.keys.is_some());
    }

    #[test]
    fn every_list_of_actions_is_in_its_combined_form(a in any_items(), b in any_items(), policy in any_policy()) {
        let change = ChangeSet::between(&a, &b);
        let list = actions(&change, &policy).list;
        if list.contains(&Action::Reboot) {
            prop_assert_eq!(list.len(), 1);
        }
        for (i, action) in list.iter().enumerate() {
            prop_assert!(!list[..i].contains(action), "{:?} twice", action);
            if let Action::Reload(unit) = action {
                prop_assert!(!list.contains(&Action::Restart(unit.clone())));
            }
            if matches!(action, Action::Reload(_) | Action::Restart(_)) {
                prop_assert!(!list[i..].contains(&Action::DaemonReload));
            }
        }
        // Each changed item has at least one cause, and no other item has any.
        let items: BTreeSet<String> = actions(&change, &policy).causes.into_iter().map(|c| c.item).collect();
        prop_assert_eq!(items.len(), change.files.len() + change.units.len() + usize::from(change.keys.is_some()));
    }
}

#[test]
fn findings_of_a_policy_with_a_broken_name_stay_on_one_line() {
    let cluster: crate::api::MachineConfiguration = serde_json::from_value(serde_json::json!({
        "apiVersion": "v1", "kind": "x", "metadata": {"name": "clu\nster"}, "spec": {},
    }))
    .unwrap();
    let found = crate::change::policy::findings(&cluster);
    assert!(!found.is_empty());
    assert!(found.iter().all(|f| !f.to_string().contains('\n')), "{found:?}");
}
