//! What a real API server says of objects of the three resources: refused by it, or accepted. What is accepted here and
//! still wrong is refused by validation, which names it in a condition.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod cluster;

use cluster::{admin, custom, install, object};
use kube::api::PostParams;
use serde_json::{Value, json};

/// What an object gets.
enum Gets {
    Accepted,
    /// With these words in the reason.
    Refused(&'static str),
}
use Gets::{Accepted, Refused};

fn actions(list: &Value) -> Value {
    json!({"nodeDisruptionPolicy": {"sshkey": {"actions": list}}})
}

fn service(name: &str) -> Value {
    actions(&json!([{"type": "Restart", "restart": {"serviceName": name}}]))
}

fn unit(name: &str) -> Value {
    json!({"nodeDisruptionPolicy": {"units": [{"name": name, "actions": [{"type": "None"}]}]}})
}

fn files(count: usize) -> Value {
    let list: Vec<Value> =
        (0..count).map(|n| json!({"path": format!("/etc/{n}"), "actions": [{"type": "None"}]})).collect();
    json!({"nodeDisruptionPolicy": {"files": list}})
}

fn pool(max_unavailable: &Value) -> Value {
    json!({"maxUnavailable": max_unavailable})
}

/// What is tried, kind, spec (null: none), what it gets.
fn table() -> Vec<(&'static str, &'static str, Value, Gets)> {
    const POLICY: &str = "MachineConfiguration";
    const POOL: &str = "MachineConfigPool";
    const CONFIG: &str = "MachineConfig";
    let reload = json!({"serviceName": "a.service"});
    let with_reload = |type_: &str| actions(&json!([{"type": type_, "reload": reload}]));
    let with_restart = |type_: &str| actions(&json!([{"type": type_, "restart": reload}]));
    let same_path_twice = json!({"nodeDisruptionPolicy": {"files": [
        {"path": "/a", "actions": []}, {"path": "/a", "actions": []}
    ]}});
    vec![
        (
            "every action but Reboot and None together",
            POLICY,
            actions(&json!([
                {"type": "Drain"}, {"type": "Reload", "reload": reload}, {"type": "Restart", "restart": reload},
                {"type": "DaemonReload"}
            ])),
            Accepted,
        ),
        ("Reboot alone", POLICY, actions(&json!([{"type": "Reboot"}])), Accepted),
        ("None alone", POLICY, actions(&json!([{"type": "None"}])), Accepted),
        ("no action", POLICY, actions(&json!([])), Accepted),
        (
            "Reboot beside another",
            POLICY,
            actions(&json!([{"type": "Reboot"}, {"type": "Drain"}])),
            Refused("Reboot stands alone"),
        ),
        (
            "None beside another",
            POLICY,
            actions(&json!([{"type": "None"}, {"type": "Drain"}])),
            Refused("None stands alone"),
        ),
        ("Reload with reload", POLICY, with_reload("Reload"), Accepted),
        ("Reload without reload", POLICY, actions(&json!([{"type": "Reload"}])), Refused("reload is required")),
        ("Reload with restart", POLICY, with_restart("Reload"), Refused("reload is required")),
        ("Restart without restart", POLICY, actions(&json!([{"type": "Restart"}])), Refused("restart is required")),
        ("None with reload", POLICY, with_reload("None"), Refused("reload is required with type Reload")),
        ("Drain with restart", POLICY, with_restart("Drain"), Refused("restart is required with type Restart")),
        ("an unknown action", POLICY, actions(&json!([{"type": "Halt"}])), Refused("Unsupported value")),
        ("an action of status only", POLICY, actions(&json!([{"type": "Special"}])), Refused("Unsupported value")),
        ("eleven actions", POLICY, actions(&Value::from(vec![json!({"type": "Drain"}); 11])), Refused("at most 10")),
        ("keys without actions", POLICY, json!({"nodeDisruptionPolicy": {"sshkey": {}}}), Refused("actions: Required")),
        (
            "the default list without units",
            POLICY,
            json!({"defaultNodeDisruptionPolicySpecAction": {"files": []}}),
            Refused("units: Required"),
        ),
        ("a service", POLICY, service("chronyd.service"), Accepted),
        ("an instance of a template", POLICY, service("a@b.service"), Accepted),
        ("a timer", POLICY, service("a.timer"), Accepted),
        ("a service without suffix", POLICY, service("chronyd"), Refused("must end in .service")),
        ("a service with another suffix", POLICY, service("chronyd.conf"), Refused("must end in .service")),
        ("a suffix without a name", POLICY, service(".service"), Refused("the part before the suffix")),
        ("a space in the name", POLICY, service("a b.service"), Refused("the part before the suffix")),
        ("a name of 256 characters", POLICY, service(&format!("{}.service", "a".repeat(248))), Refused("255 bytes")),
        ("a name of 255 characters", POLICY, service(&format!("{}.service", "a".repeat(247))), Accepted),
        ("a unit", POLICY, unit("chronyd.service"), Accepted),
        ("an instance as a unit", POLICY, unit("a@b.service"), Accepted),
        ("a unit without suffix", POLICY, unit("chronyd"), Refused("must end in .service")),
        ("50 files", POLICY, files(50), Accepted),
        ("51 files", POLICY, files(51), Refused("at most 50")),
        ("one path twice", POLICY, same_path_twice, Refused("Duplicate value")),
        ("an empty spec", POLICY, json!({}), Accepted),
        ("no spec", POLICY, Value::Null, Refused("spec: Required")),
        ("no maxUnavailable", POOL, json!({}), Accepted),
        ("maxUnavailable 0", POOL, pool(&json!(0)), Accepted),
        ("maxUnavailable 0%", POOL, pool(&json!("0%")), Accepted),
        ("maxUnavailable -1: validation's", POOL, pool(&json!(-1)), Accepted),
        ("maxUnavailable 150%", POOL, pool(&json!("150%")), Accepted),
        ("maxUnavailable abc: validation's", POOL, pool(&json!("abc")), Accepted),
        ("maxUnavailable true", POOL, pool(&json!(true)), Refused("maxUnavailable")),
        ("maxUnavailable 1.5", POOL, pool(&json!(1.5)), Refused("maxUnavailable")),
        ("paused as text", POOL, json!({"paused": "yes"}), Refused("paused")),
        ("a pool without spec", POOL, Value::Null, Refused("spec: Required")),
        ("a source without spec", CONFIG, Value::Null, Accepted),
        ("a source with an empty config", CONFIG, json!({"config": {}}), Accepted),
        ("a source with anything in it: validation's", CONFIG, json!({"config": {"what": [{"ever": 1}]}}), Accepted),
        ("kernelArguments null", CONFIG, json!({"kernelArguments": null}), Accepted),
        ("kernelArguments that are no list", CONFIG, json!({"kernelArguments": "quiet"}), Refused("kernelArguments")),
        ("a config that is text", CONFIG, json!({"config": "ignition"}), Refused("config")),
    ]
}

#[tokio::test]
#[ignore = "needs a cluster: set MCX_RIG_KUBECONFIG"]
async fn each_object_gets_what_it_should() {
    install();
    let client = admin().await;
    // Nothing is stored, so nothing has to be cleaned up and a running mcx sees none of it.
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let mut wrong = Vec::new();
    for (n, (what, kind, spec, gets)) in table().into_iter().enumerate() {
        let answer = custom(&client, kind).create(&dry, &object(kind, &format!("test-{n}"), &spec)).await;
        match (answer, gets) {
            (Ok(_), Accepted) => {}
            (Err(kube::Error::Api(status)), Refused(words)) if status.code == 422 && status.message.contains(words) => {
            }
            (answer, Accepted) => wrong.push(format!("{what}: accepted was expected: {answer:?}")),
            (answer, Refused(words)) => wrong.push(format!("{what}: refused with `{words}` was expected: {answer:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
#[ignore = "needs a cluster: set MCX_RIG_KUBECONFIG"]
async fn a_second_machine_configuration_is_accepted_since_the_published_schema_does() {
    install();
    let client = admin().await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let second = object("MachineConfiguration", "cluster-2", &json!({}));
    custom(&client, "MachineConfiguration").create(&dry, &second).await.expect("refusing it is validation's part");
}

#[tokio::test]
#[ignore = "needs a cluster: set MCX_RIG_KUBECONFIG"]
async fn what_is_free_is_kept_and_what_nobody_knows_is_dropped() {
    install();
    let client = admin().await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let spec = json!({"config": {"ignition": {"version": "3.4.0"}, "x": {"y": [1, "2", null]}}, "colour": "red"});
    let stored = custom(&client, "MachineConfig").create(&dry, &object("MachineConfig", "test-free", &spec)).await;
    let stored = stored.expect("accepted").data;
    assert_eq!(stored["spec"]["config"], spec["config"]);
    assert_eq!(stored["spec"].get("colour"), None);
}
