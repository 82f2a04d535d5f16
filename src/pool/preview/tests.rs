use super::*;
use crate::api::machine_configuration::{FilePolicy, PolicyAction, UnitPolicy};
use crate::pool::scene::{A, B, C, Scene, node};
use crate::render::items::{Content, FileItem, Owner, UnitItem};
use proptest::prelude::*;

fn file(text: &str) -> FileItem {
    FileItem { content: Content::of(text.as_bytes()), mode: 0o644, user: Owner::Id(0), group: Owner::Id(0) }
}

fn action(kind: &str) -> PolicyAction {
    let service =
        (kind == "Restart").then(|| serde_json::from_value(serde_json::json!({"serviceName": "a.service"})).unwrap());
    PolicyAction { type_: kind.to_owned(), reload: None, restart: service }
}

fn any_items() -> impl Strategy<Value = Items> {
    let files = prop::collection::btree_map("/etc/[a-c]/[a-c]", "[xy]", 0..4);
    let units = prop::collection::btree_map("[a-c]\\.service", prop::option::of(any::<bool>()), 0..3);
    (files, units, prop::option::of("[xy]")).prop_map(|(files, units, key)| Items {
        files: files.into_iter().map(|(path, text)| (path, file(&text))).collect(),
        units: units
            .into_iter()
            .map(|(name, enabled)| {
                (name, UnitItem { enabled, contents: Some("[Unit]\n".to_owned()), ..UnitItem::default() })
            })
            .collect(),
        keys: key.map(|key| vec![key]),
    })
}

fn any_policy() -> impl Strategy<Value = EffectivePolicy> {
    let kind = || prop::sample::select(vec!["None", "Drain", "Restart", "DaemonReload", "Reboot"]).prop_map(action);
    let list = move || prop::collection::vec(kind(), 0..3);
    let files = prop::collection::btree_map("/etc(/[a-c])?", list(), 0..3);
    let units = prop::collection::btree_map("[a-c]\\.service", list(), 0..2);
    (files, units, list(), list()).prop_map(|(files, units, default_files, default_units)| EffectivePolicy {
        files: files.into_iter().map(|(path, actions)| FilePolicy { path, actions }).collect(),
        units: units.into_iter().map(|(name, actions)| UnitPolicy { name, actions }).collect(),
        default_files,
        default_units,
        ..EffectivePolicy::shipped()
    })
}

fn question(scene: &Scene, configs: [(&str, Items); 2], effective: EffectivePolicy) -> Question {
    Question {
        world: scene.world.clone(),
        before: BTreeMap::from([("worker".into(), Some(A.into()))]),
        configs: configs.into_iter().map(|(name, items)| (name.into(), Arc::new(items))).collect(),
        policy: Policy { effective, origin: "the test".to_owned() },
        only: BTreeSet::from(["worker".into()]),
        deleted: Vec::new(),
    }
}

proptest! {
    #[test]
    fn a_plan_says_the_actions_that_the_node_takes(old in any_items(), new in any_items(), policy in any_policy()) {
        let changes = ChangeSet::between(&old, &new);
        let taken = actions(&changes, &policy);
        let scene = Scene::new(vec![node("n1")]);
        let plan = plan(question(&scene, [(A, old), (B, new)], policy));
        let update = &plan.pools[0].updates[0];
        let change = update.change.as_ref().unwrap();
        prop_assert_eq!(&change.changes, &changes);
        prop_assert_eq!(&change.actions, &taken);
        prop_assert_eq!(plan.cost >= Cost::Drain, taken.needs_drain());
        prop_assert_eq!(plan.cost == Cost::Reboot, taken.reboots());
        prop_assert_eq!(plan.cost == Cost::Nothing, changes.is_empty());
        let json = serde_json::to_value(&plan).unwrap();
        let said: Vec<String> = taken.list.iter().map(ToString::to_string).collect();
        prop_assert_eq!(&json["pools"][0]["updates"][0]["actions"], &serde_json::json!(said));
    }
}

#[test]
fn nodes_with_another_config_have_a_way_of_their_own() {
    let unknown = NodeView { desired: Some(C.into()), current: Some(C.into()), ..node("n2") };
    let fresh = NodeView { desired: None, current: None, ..node("n3") };
    let scene = Scene::new(vec![node("n1"), unknown, fresh]);
    let unit = Items {
        units: BTreeMap::from([("a.service".to_owned(), UnitItem { enabled: Some(true), ..UnitItem::default() })]),
        ..Items::default()
    };
    let plan = plan(question(&scene, [(A, unit.clone()), (B, unit)], EffectivePolicy::shipped()));
    let said: Vec<(Option<&str>, &str, Option<Cost>)> = plan.pools[0]
        .updates
        .iter()
        .map(|u| (u.from.as_ref().map(ConfigName::as_str), u.nodes[0].as_str(), u.change.as_ref().map(|c| c.cost)))
        .collect();
    // What has the pool's own config has it in another name, at no cost; what joins reboots; of C nothing is known.
    assert_eq!(said, [(Some(A), "n1", Some(Cost::Nothing)), (None, "n3", Some(Cost::Reboot)), (Some(C), "n2", None)]);
    assert_eq!(plan.cost, Cost::Reboot);
    assert_eq!(plan.draining(), BTreeSet::from(["n3".into()]));
}

#[test]
fn nodes_in_no_pool_are_named() {
    let mut lone = node("n1");
    lone.labels.clear();
    let scene = Scene::new(vec![lone]);
    let plan = plan(question(&scene, [(A, Items::default()), (B, Items::default())], EffectivePolicy::shipped()));
    assert_eq!(plan.without_pool.len(), 1);
    assert!(plan.without_pool[0].why.contains("is selected by no pool"), "{plan:?}");
}
