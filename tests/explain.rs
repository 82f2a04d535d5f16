//! `mcx explain` and `mcx render --explain`: every source that speaks of an item, which wins, what comes of it, what it costs.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

use command_line::{err, out, piped};
use serde_json::{Value, json};
use std::process::Output;

fn explain(input: &str, args: &[&str]) -> Output {
    piped(&[&["explain", "-f", "-"], args].concat(), input)
}

fn source(name: &str, role: &str, config: &str) -> String {
    format!(
        "apiVersion: machineconfiguration.alauda.io/v1alpha1\nkind: MachineConfig\n\
         metadata: {{name: {name}, labels: {{machineconfiguration.alauda.io/role: {role}}}}}\n\
         spec: {{config: {{ignition: {{version: 3.4.0}}, {config}}}}}\n---\n"
    )
}

const POLICY: &str = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  nodeDisruptionPolicy:
    files:
    - path: /etc/x
      actions: [{type: Restart, restart: {serviceName: x.service}}]
    sshkey: {actions: [{type: Drain}]}
---
";

/// Sources that replace, repeat and only name things of each other.
fn sources() -> String {
    let unit = |rest: &str| format!("systemd: {{units: [{{name: a.service, {rest}}}]}}");
    let key = |keys: &str| format!("passwd: {{users: [{{name: boot, sshAuthorizedKeys: [{keys}]}}]}}");
    [
        source("10-first", "worker", "storage: {files: [{path: /etc/x, mode: 384, contents: {source: 'data:,one'}}]}"),
        source("20-silent", "worker", "storage: {files: [{path: /etc/x}]}"),
        source(
            "30-clothes",
            "worker",
            "storage: {files: [{path: /etc/x, mode: 420, contents: {source: 'data:;base64,dHdv'}}]}",
        ),
        source(
            "40-last",
            "worker",
            "storage: {files: [{path: /etc/x, user: {name: chrony}, contents: {source: 'data:,two'}}]}",
        ),
        source("50-unit", "worker", &unit("enabled: true, dropins: [{name: 10-x.conf, contents: \"[Service]\\n\"}]")),
        source("60-unit", "worker", &unit("enabled: false, dropins: [{name: 10-x.conf, contents: ''}]")),
        source("70-key", "worker", &key("ssh-rsa A, ssh-rsa B")),
        source("80-key", "worker", &key("ssh-rsa A")),
    ]
    .concat()
}

#[test]
fn every_source_is_named_in_order_with_what_became_of_it() {
    let output = explain(&(sources() + POLICY), &["/etc/x"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(
        out(&output),
        "pool worker\n\
         file /etc/x\n\
         \x20 contents: 3 bytes, sha256 3fc4ccfe7458…\n\
         \x20   10-first is hidden: 3 bytes, sha256 7692c3ad3540…\n\
         \x20   30-clothes says the same\n\
         \x20   40-last wins\n\
         \x20 mode: 0644\n\
         \x20   10-first is hidden: 0600\n\
         \x20   30-clothes wins\n\
         \x20 user: chrony, from 40-last\n\
         \x20 group: 0, no source says\n\
         \x20 20-silent names it and says nothing of it\n\
         a change of it costs: Restart x.service (policy entry: /etc/x)\n"
    );
}

#[test]
fn a_unit_comes_with_its_drop_ins_and_a_drop_in_alone() {
    let unit = explain(&sources(), &["a.service"]);
    assert_eq!(
        out(&unit),
        "pool worker\n\
         unit a.service\n\
         \x20 contents: none, no source says\n\
         \x20 enabled: disabled\n\
         \x20   50-unit is hidden: enabled\n\
         \x20   60-unit wins\n\
         \x20 mask: as the node has it, no source says\n\
         drop-in a.service/10-x.conf\n\
         \x20 contents: none\n\
         \x20   50-unit is hidden: 10 bytes, sha256 40d8baaabac8…\n\
         \x20   60-unit wins\n\
         a change of it costs: Reboot (policy entry: default)\n"
    );
    let dropin = explain(&sources(), &["/etc/systemd/system/a.service.d/10-x.conf"]);
    assert!(
        out(&dropin).contains("drop-in a.service/10-x.conf\n") && !out(&dropin).contains("enabled"),
        "{}",
        out(&dropin)
    );
}

#[test]
fn keys_name_every_source_that_brings_them() {
    let output = explain(&(sources() + POLICY), &["boot"]);
    assert_eq!(
        out(&output),
        "pool worker\n\
         keys of boot\n\
         \x20 key: ssh-rsa A\n\
         \x20   70-key wins\n\
         \x20   80-key says the same\n\
         \x20 key: ssh-rsa B, from 70-key\n\
         a change of it costs: Drain (policy entry: sshkey)\n"
    );
}

#[test]
fn programs_read_the_same_and_contents_are_not_in_it() {
    let output = explain(&sources(), &["/etc/x", "-o", "json"]);
    let value: Value = serde_json::from_str(out(&output)).unwrap();
    let explained = &value["explained"][0];
    assert_eq!(explained["pools"], json!(["worker"]));
    assert_eq!(explained["change"], json!({"entry": "default", "actions": []}));
    assert_eq!(explained["items"][0]["item"], "file /etc/x");
    assert_eq!(explained["items"][0]["silent"], json!(["20-silent"]));
    assert_eq!(
        explained["items"][0]["fields"][1],
        json!({"field": "mode", "value": "0644", "said": [
            {"source": "10-first", "fate": "hidden", "value": "0600"},
            {"source": "30-clothes", "fate": "wins", "value": "0644"}]})
    );
    assert!(!out(&output).contains("two") && !out(&output).contains("dHdv"));
}

#[test]
fn render_explain_tells_the_same_stories() {
    let all = piped(&["render", "--pool", "worker", "-f", "-", "--explain", "-o", "json"], sources());
    let all: Value = serde_json::from_str(out(&all)).unwrap();
    let one = |item: &str| -> Value {
        let output = explain(&sources(), &[item, "-o", "json"]);
        serde_json::from_str::<Value>(out(&output)).unwrap()["explained"][0]["items"].clone()
    };
    let expected: Vec<Value> =
        ["/etc/x", "a.service", "boot"].iter().flat_map(|item| one(item).as_array().unwrap().clone()).collect();
    assert_eq!(all["items"].as_array().unwrap(), &expected);
    assert_eq!(all["pool"], "worker");
    let object = piped(&["render", "--pool", "worker", "-f", "-", "-o", "json"], sources());
    let object: Value = serde_json::from_str(out(&object)).unwrap();
    assert_eq!(all["name"], object["metadata"]["name"]);
    // For people the stories alone, for YAML readers the same as JSON.
    let text = piped(&["render", "--pool", "worker", "-f", "-", "--explain"], sources());
    assert!(out(&text).starts_with("file /etc/x\n  contents: 3 bytes"), "{}", out(&text));
    let yaml = piped(&["render", "--pool", "worker", "-f", "-", "--explain", "-o", "yaml"], sources());
    assert_eq!(mcx::yaml::documents(out(&yaml)).unwrap()[0].value, all);
    let name = piped(&["render", "--pool", "worker", "-f", "-", "--explain", "-o", "name"], sources());
    assert_eq!(name.status.code(), Some(2));
}

#[test]
fn pools_with_one_story_are_told_once() {
    let file = "storage: {files: [{path: /etc/x, contents: {source: 'data:,x'}}]}";
    let pool = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata: {name: infra}
spec:
  machineConfigSelector:
    matchExpressions:
    - {key: machineconfiguration.alauda.io/role, operator: In, values: [worker, infra]}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/infra: ''}}
---
";
    let input = source("50-a", "worker", file) + pool;
    let both = explain(&input, &["/etc/x"]);
    assert!(out(&both).starts_with("pools infra, worker\nfile /etc/x\n"), "{}", out(&both));
    let input = input + &source("60-b", "infra", file);
    let each = explain(&input, &["/etc/x"]);
    assert!(out(&each).starts_with("pool infra\n") && out(&each).contains("\n\npool worker\n"), "{}", out(&each));
    let one = explain(&input, &["/etc/x", "--pool", "worker"]);
    assert!(out(&one).starts_with("pool worker\n") && !out(&one).contains("infra"), "{}", out(&one));
}

#[test]
fn a_rule_is_explained_by_its_id() {
    let page = piped(&["explain", "--rule", "mode-decimal"], "");
    assert_eq!(page.status.code(), Some(0));
    assert!(out(&page).starts_with("mode-decimal (warning)\n"), "{}", out(&page));
    let json = piped(&["explain", "--rule", "mode-decimal", "-o", "json"], "");
    let json: Value = serde_json::from_str(out(&json)).unwrap();
    assert_eq!(json["rule"], "mode-decimal");
    let example = json["example"].as_str().unwrap();
    let broken = piped(&["validate", "-f", "-"], example);
    assert!(out(&broken).contains("mode-decimal"), "{}", out(&broken));
    let slip = piped(&["explain", "--rule", "mode-decimel"], "");
    assert_eq!(slip.status.code(), Some(2));
    assert_eq!(err(&slip), "mcx: there is no rule \"mode-decimel\"; did you mean mode-decimal?\n");
}

#[test]
fn exit_codes_tell_unknown_from_could_not() {
    let refused = source("50-a", "worker", "storage: {files: [{path: etc/x}]}");
    let bad_policy = sources() + &POLICY.replace("path: /etc/x", "path: etc/x");
    for (input, args, code, said) in [
        (sources(), &["/etc/y"][..], 1, "did you mean /etc/x?"),
        (sources(), &["a"], 1, "did you mean a.service?"),
        (sources(), &["nothing.service"], 1, "no source speaks of"),
        (refused, &["/etc/x"], 1, "[file-path]"),
        (bad_policy, &["/etc/x"], 1, "[policy]"),
        (sources(), &["/etc/x", "--pool", "infra"], 2, "known here: master, worker"),
        (sources(), &["/etc/x", "--pool", "wroker"], 2, "there is no pool \"wroker\"; did you mean worker?"),
        (String::new(), &["/etc/x"], 2, "no MachineConfig"),
    ] {
        let output = explain(&input, args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(said), "{args:?}: {}", err(&output));
    }
    for args in [&["explain"][..], &["explain", "/etc/x"], &["explain", "/etc/x", "--rule", "mode-decimal", "-f", "-"]]
    {
        assert_eq!(piped(args, "").status.code(), Some(2), "{args:?}");
    }
    let rendered = piped(&["render", "--pool", "worker", "-f", "examples"], "");
    let output = explain(out(&rendered), &["/etc/chrony.conf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("give the sources"), "{}", err(&output));
}
