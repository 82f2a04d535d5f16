use super::*;
use crate::api::{MachineConfig, MachineConfigPool, shipped};
use crate::render::load::{Input, load};
use crate::render::survey;
use serde_json::{Value, json};

fn cluster(spec: &Value) -> MachineConfiguration {
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.alauda.io/v1alpha1",
        "kind": "MachineConfiguration",
        "metadata": {"name": "cluster"},
        "spec": spec
    }))
    .unwrap()
}

fn policy_of(policy: &Value) -> MachineConfiguration {
    cluster(&json!({"nodeDisruptionPolicy": policy}))
}

/// A source of pool `worker` with one file, `/etc/a/x`, and these units.
fn source(units: &Value) -> MachineConfig {
    serde_json::from_value(json!({
        "metadata": {"name": "10-a", "labels": {"machineconfiguration.alauda.io/role": "worker"}},
        "spec": {"config": {
            "ignition": {"version": "3.4.0"},
            "storage": {"files": [{"path": "/etc/a/x", "contents": {"source": "data:,x"}}]},
            "systemd": {"units": units}
        }}
    }))
    .unwrap()
}

fn lints(pools: &[MachineConfigPool], configs: &[MachineConfig], policies: &[MachineConfiguration]) -> Vec<Finding> {
    lint(&mut survey(pools, configs, &[]), policies)
}

fn said(rule: &str, configs: &[MachineConfig], policy: MachineConfiguration) -> Vec<String> {
    let found = lints(&shipped::pools(), configs, &[policy]);
    found.iter().filter(|f| f.rule == rule).map(|f| format!("{}: {}", f.path, f.message)).collect()
}

fn restart(unit: &str) -> Value {
    json!([{"type": "Restart", "restart": {"serviceName": unit}}])
}

fn reload(unit: &str) -> Value {
    json!([{"type": "Reload", "reload": {"serviceName": unit}}])
}

#[test]
fn an_entry_that_no_item_takes_is_said() {
    let policy = policy_of(&json!({
        "files": [{"path": "/etc/a"}, {"path": "/etc/b"}, {"path": "/etc/a/<file>"}, {"path": "/"}],
        "units": [{"name": "a.service"}, {"name": "b.service"}, {"name": "t@.service"}]
    }));
    let configs = [source(&json!([{"name": "a.service", "enabled": true}, {"name": "t@1.service", "enabled": true}]))];
    assert_eq!(
        said("policy-unused", &configs, policy.clone()),
        [
            "spec.nodeDisruptionPolicy.files[1].path: no source brings a file at or below `/etc/b`",
            "spec.nodeDisruptionPolicy.units[1].name: no source brings unit `b.service`",
            "spec.nodeDisruptionPolicy.units[2].name: no source brings unit `t@.service`",
        ]
    );
    assert_eq!(
        said("placeholder", &configs, policy.clone()),
        ["spec.nodeDisruptionPolicy.files[2].path: still has the placeholder `<file>`"]
    );
    let found = lints(&shipped::pools(), &configs, std::slice::from_ref(&policy));
    assert!(found.iter().any(|f| f.help.ends_with("such as t@1.service")), "{found:#?}");
    assert_eq!(said("policy-unused", &shipped::sources(), policy), [""; 0], "a policy alone says nothing of sources");
}

#[test]
fn defaults_that_leave_the_reboot_of_units_out_are_said() {
    let of = |defaults: Value| {
        said("policy-defaults", &[], cluster(&json!({"defaultNodeDisruptionPolicySpecAction": defaults})))
    };
    for (defaults, text) in [
        (json!({"files": [{"type": "Drain"}]}), "is absent or empty"),
        (json!({"units": []}), "is absent or empty"),
        (json!({"units": [{"type": "None"}]}), "is None"),
    ] {
        assert_eq!(
            of(defaults),
            [format!(
                "spec.defaultNodeDisruptionPolicySpecAction.units: {text}, where Reboot is shipped: a changed unit without \
                 an entry does not take effect"
            )]
        );
    }
    assert_eq!(of(json!({"units": [{"type": "Reboot"}]})), [""; 0], "files are None as shipped");
    assert_eq!(of(json!({"units": [{"type": "DaemonReload"}]})), [""; 0], "something else was chosen");
    assert_eq!(said("policy-defaults", &[], policy_of(&json!({}))), [""; 0], "the shipped defaults hold");
    assert_eq!(said("policy-defaults", &[], shipped::machine_configuration()), [""; 0]);
}

#[test]
fn a_restart_of_a_unit_that_the_pool_switches_off_is_said() {
    let policy = |actions: Value| policy_of(&json!({"files": [{"path": "/etc/a", "actions": actions}]}));
    let at = "spec.nodeDisruptionPolicy.files[0].actions[0]";
    let off = |unit: Value| [source(&Value::Array(vec![unit]))];
    assert_eq!(
        said("policy-restart-off", &off(json!({"name": "a.service", "enabled": false})), policy(restart("a.service"))),
        [format!(
            "{at}.restart.serviceName: restarts `a.service`, which is disabled in pool worker: it would run all the same"
        )]
    );
    assert_eq!(
        said("policy-restart-off", &off(json!({"name": "a.service", "mask": true})), policy(reload("a.service"))),
        [format!(
            "{at}.reload.serviceName: reloads `a.service`, which is masked in pool worker: it is stopped instead"
        )]
    );
    for unit in [
        json!({"name": "a.service", "enabled": true}),
        json!({"name": "a.service", "mask": false}),
        json!({"name": "b.service", "mask": true}),
    ] {
        assert_eq!(said("policy-restart-off", &off(unit), policy(restart("a.service"))), [""; 0]);
    }
    let elsewhere = policy_of(&json!({"files": [{"path": "/etc/b", "actions": restart("a.service")}]}));
    let masked = off(json!({"name": "a.service", "mask": true}));
    assert_eq!(said("policy-restart-off", &masked, elsewhere), [""; 0], "no item of the pool takes the entry");
    let keys = policy_of(&json!({"sshkey": {"actions": restart("a.service")}}));
    assert_eq!(said("policy-restart-off", &masked, keys), [""; 0], "the pool has no keys");
    let all = cluster(&json!({"defaultNodeDisruptionPolicySpecAction": {
        "files": restart("a.service"), "units": [{"type": "Reboot"}]
    }}));
    assert_eq!(said("policy-restart-off", &masked, all).len(), 1);
}

#[test]
fn a_reload_of_a_text_without_exec_reload_is_said() {
    let policy = policy_of(&json!({"files": [{"path": "/etc/a", "actions": reload("a.service")}]}));
    let of = |unit: Value| said("policy-reload", &[source(&Value::Array(vec![unit]))], policy.clone());
    let body = |text: &str| json!({"name": "a.service", "contents": text});
    for text in [
        "[Service]\nExecStart=/bin/true\n",
        "[Unit]\nExecReload=/bin/true\n",
        "[Service]\nExecReload=/bin/true\nExecReload=\n",
        "[Service]\n#ExecReload=/bin/true\nType=notify\n",
    ] {
        assert_eq!(
            of(body(text)),
            [
                "spec.nodeDisruptionPolicy.files[0].actions[0].reload.serviceName: reloads `a.service`, whose text in pool \
              worker has no ExecReload="
            ],
            "{text}"
        );
    }
    assert_eq!(of(body("[Service]\nExecReload=/bin/true\n")), [""; 0]);
    assert_eq!(of(body("[Service]\nType=notify-reload\n")), [""; 0], "reloads by itself");
    assert_eq!(of(json!({"name": "a.service", "enabled": true})), [""; 0], "the operating system's text is not known");
    let dropin = json!([{"name": "x.conf", "contents": "[Service]\nExecReload=/bin/true\n"}]);
    assert_eq!(of(json!({"name": "a.service", "contents": "[Service]\n", "dropins": dropin})), [""; 0]);
}

#[test]
fn a_policy_that_is_not_read_is_not_looked_at() {
    let mut policy = policy_of(&json!({"files": [{"path": "/etc/nowhere"}]}));
    policy.metadata.name = Some("other".to_owned());
    assert_eq!(lints(&shipped::pools(), &[source(&json!([]))], &[policy]), []);
}

#[test]
fn of_the_examples_only_what_they_contradict_each_other_in_is_said() {
    let texts = [
        include_str!("../../../examples/chrony-policy.yaml"),
        include_str!("../../../examples/chrony.yaml"),
        include_str!("../../../examples/disable-chrony.yaml"),
        include_str!("../../../examples/ssh.yaml"),
    ];
    let inputs = |texts: &[&str]| {
        let inputs =
            texts.iter().enumerate().map(|(i, text)| Input { name: i.to_string(), bytes: text.as_bytes().to_vec() });
        load(inputs.collect())
    };
    let all = inputs(&texts);
    let found = lints(&all.known_pools(), &all.configs, &all.policies);
    let rules: Vec<&str> = found.iter().map(|f| f.rule).collect();
    // One of them restarts the chronyd that another disables: they are not meant to be applied together.
    assert_eq!(rules, ["policy-restart-off"], "{found:#?}");
    let without_the_last_two = inputs(&texts[..2]);
    let found =
        lints(&without_the_last_two.known_pools(), &without_the_last_two.configs, &without_the_last_two.policies);
    assert_eq!(found, []);
}
