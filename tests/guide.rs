//! The examples are the guide's objects word for word: what a reader copies from there works here.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use serde_json::json;
use std::fs;

fn example(name: &str) -> serde_json::Value {
    let text = fs::read_to_string(format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))).expect("an example");
    let documents = mcx::yaml::documents(&text).expect("YAML");
    assert_eq!(documents.len(), 1);
    documents[0].value.clone()
}

#[test]
fn chrony_is_written_and_restarted_once() {
    use mcx::change::{ChangeSet, actions, policy::EffectivePolicy};
    use mcx::render::{items::Items, render};
    let source = serde_json::from_value(example("chrony.yaml")).unwrap();
    let policy = serde_json::from_value(example("chrony-policy.yaml")).unwrap();
    assert_eq!(mcx::change::policy::problems(&policy), Vec::<String>::new());
    let pools = mcx::api::shipped::pools();
    let worker = pools.iter().find(|p| p.name() == "worker").unwrap();
    let items = render(worker, &[source]).rendered.unwrap().items;
    let file = &items.files["/etc/chrony.conf"];
    assert_eq!(file.mode, 0o644);
    assert_eq!(
        String::from_utf8(file.content.decode().unwrap()).unwrap(),
        "server 0.centos.pool.ntp.org iburst\nserver 1.centos.pool.ntp.org iburst\nmakestep 1.0 3\nrtcsync\nlogdir /var/log/chrony\n"
    );
    let change = ChangeSet::between(&Items::default(), &items);
    let cost = actions(&change, &EffectivePolicy::from_spec(&policy));
    assert_eq!(cost.to_string(), "DaemonReload, Restart chronyd.service");
    assert!(!cost.needs_drain());
}

#[test]
fn disabling_chrony_reboots() {
    use mcx::change::{ChangeSet, actions, policy::EffectivePolicy};
    use mcx::render::{items::Items, render};
    let source = serde_json::from_value(example("disable-chrony.yaml")).unwrap();
    let pools = mcx::api::shipped::pools();
    let worker = pools.iter().find(|p| p.name() == "worker").unwrap();
    let items = render(worker, &[source]).rendered.unwrap().items;
    assert_eq!(items.units["chronyd.service"].enabled, Some(false));
    let change = ChangeSet::between(&Items::default(), &items);
    let policy = serde_json::from_value(example("chrony-policy.yaml")).unwrap();
    let cost = actions(&change, &EffectivePolicy::from_spec(&policy));
    assert!(cost.reboots(), "the policy has no entry for the unit, and the shipped default is Reboot");
}

#[test]
fn both_spellings_of_the_user_are_one() {
    // S-01
    let mut object = example("ssh.yaml");
    assert_eq!(object["spec"]["config"]["passwd"]["users"][0]["user"], "boot");
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk";
    let pools = mcx::api::shipped::pools();
    let worker = pools.iter().find(|p| p.name() == "worker").unwrap();
    let mut names = Vec::new();
    for user in
        [json!({"user": "boot", "sshAuthorizedKeys": [key]}), json!({"name": "boot", "sshAuthorizedKeys": [key]})]
    {
        object["spec"]["config"]["passwd"]["users"][0] = user;
        let outcome = mcx::render::render(worker, &[serde_json::from_value(object.clone()).unwrap()]);
        assert!(outcome.findings.is_empty(), "{:?}", outcome.findings);
        let rendered = outcome.rendered.unwrap();
        assert_eq!(rendered.config.to_value()["passwd"]["users"][0]["name"], "boot", "written as Ignition spells it");
        names.push(rendered.name);
    }
    assert_eq!(names[0], names[1]);
}
