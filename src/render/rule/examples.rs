//! For each rule the smallest input that breaks it, as the reference and `mcx explain --rule` show it.
//!
//! They are run: a test gives each to the same functions as `mcx validate` and expects its rule.

use std::fmt::Write as _;

/// What breaks a rule.
#[derive(Debug, Clone, Copy)]
pub enum Example {
    /// What stands beside `ignition` in the config of a source that is right otherwise.
    Config(&'static str),
    /// A whole input.
    Input(&'static str),
    /// Too large to be shown, or no text; said in words.
    Words(&'static str),
}

/// A source up to the rest of its config.
const SOURCE: &str = "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: 99-worker-example
  labels:
    machineconfiguration.alauda.io/role: worker
spec:
  config:
    ignition:
      version: 3.4.0
";

impl Example {
    /// The input, if it can be shown.
    pub fn input(self) -> Option<String> {
        match self {
            Self::Input(text) => Some(text.to_owned()),
            Self::Words(_) => None,
            Self::Config(sections) => {
                let mut text = SOURCE.to_owned();
                for line in sections.lines() {
                    // Writing to a String does not fail.
                    let _ = writeln!(text, "    {line}");
                }
                Some(text)
            }
        }
    }
}

/// The example of a rule.
pub fn of(rule: &str) -> Option<Example> {
    EXAMPLES.iter().find(|(id, _)| *id == rule).map(|(_, example)| *example)
}

use Example::{Config, Input, Words};

/// By rule.
static EXAMPLES: &[(&str, Example)] = &[
    ("input-size", Words("a file of 33 MiB")),
    ("input-encoding", Words("a file that was saved as Latin-1 or UTF-16")),
    (
        "yaml",
        Input(
            "apiVersion: machineconfiguration.alauda.io/v1alpha1\nkind: MachineConfig\nmetadata: {name: 99-worker-example\n",
        ),
    ),
    ("not-an-object", Input("path: /etc/example.conf\nmode: 0o644\n")),
    (
        "kind",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigs
metadata:
  name: 99-worker-example
",
        ),
    ),
    (
        "api-version",
        Input(
            "\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 99-worker-example
",
        ),
    ),
    (
        "object-name",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: 99_Worker
  labels:
    machineconfiguration.alauda.io/role: worker
",
        ),
    ),
    (
        "duplicate-object",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata: {name: 99-worker-example, labels: {machineconfiguration.alauda.io/role: worker}}
---
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata: {name: 99-worker-example, labels: {machineconfiguration.alauda.io/role: worker}}
",
        ),
    ),
    (
        "namespace",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: 99-worker-example
  namespace: default
  labels:
    machineconfiguration.alauda.io/role: worker
",
        ),
    ),
    (
        "unknown-key",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      permissions: 0o644
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "field-type",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      mode: \"0644\"
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "duplicate-key",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      mode: 0o600
      mode: 0o644
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "kernel-arguments",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: 99-worker-example
  labels:
    machineconfiguration.alauda.io/role: worker
spec:
  kernelArguments:
    - quiet
",
        ),
    ),
    (
        "ignition-version",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: 99-worker-example
  labels:
    machineconfiguration.alauda.io/role: worker
spec:
  config:
    ignition:
      version: 3.2.0
",
        ),
    ),
    (
        "unsupported",
        Config(
            "\
storage:
  links:
    - path: /etc/localtime
      target: /usr/share/zoneinfo/UTC
",
        ),
    ),
    (
        "ignition",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      contents:
        source: 'data:,example'
        verification:
          hash: md5-1a79a4d60de6718e8e5b326e338ae533
",
        ),
    ),
    (
        "ignition-hint",
        Config(
            "\
systemd:
  units:
    - name: example.service
      enabled: true
      contents: |
        [Service]
        ExecStart=/usr/bin/true
",
        ),
    ),
    (
        "duplicate-item",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      contents:
        source: 'data:,one'
    - path: /etc/example.conf
      contents:
        source: 'data:,two'
",
        ),
    ),
    (
        "file-path",
        Config(
            "\
storage:
  files:
    - path: etc/example.conf
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "file-root",
        Config(
            "\
storage:
  files:
    - path: /example.conf
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "file-volatile",
        Config(
            "\
storage:
  files:
    - path: /run/example.conf
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "file-state",
        Config(
            "\
storage:
  files:
    - path: /var/lib/mcx/current.json
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "file-parent",
        Config(
            "\
storage:
  files:
    - path: /etc/example
      contents:
        source: 'data:,example'
    - path: /etc/example/main.conf
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "file-mode",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      mode: 0o100644
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "file-owner",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      user:
        id: 0
        name: root
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "mode-decimal",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      mode: 644
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "mode-special",
        Config(
            "\
storage:
  files:
    - path: /usr/local/bin/example
      mode: 0o4755
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "overwrite",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      overwrite: false
      contents:
        source: 'data:,example'
",
        ),
    ),
    (
        "file-empty",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      mode: 0o644
",
        ),
    ),
    (
        "secret-readable",
        Config(
            "\
storage:
  files:
    - path: /etc/pki/example.key
      mode: 0o644
      contents:
        source: 'data:,-----BEGIN%20PRIVATE%20KEY-----'
",
        ),
    ),
    (
        "contents-source",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      contents:
        source: https://example.com/example.conf
",
        ),
    ),
    (
        "contents",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      contents:
        source: 'data:;base64,ZXhhbXBsZQ'
",
        ),
    ),
    ("contents-size", Words("compression: gzip, and a source of 70 KiB that unpacks to 65 MiB")),
    (
        "contents-hash",
        Config(
            "\
storage:
  files:
    - path: /etc/example.conf
      contents:
        source: 'data:,example'
        verification:
          hash: sha256-0000000000000000000000000000000000000000000000000000000000000000
",
        ),
    ),
    (
        "unit-name",
        Config(
            "\
systemd:
  units:
    - name: example
      enabled: true
",
        ),
    ),
    (
        "dropin-name",
        Config(
            "\
systemd:
  units:
    - name: example.service
      dropins:
        - name: 10-example
          contents: |
            [Service]
            Nice=5
",
        ),
    ),
    (
        "unit-body",
        Config(
            "\
systemd:
  units:
    - name: example.service
      contents: \"[Service]\\nExecStart=/usr/bin/true\\0\\n\"
",
        ),
    ),
    (
        "unit-file",
        Config(
            "\
storage:
  files:
    - path: /etc/systemd/system/example.service
      contents:
        source: 'data:,example'
systemd:
  units:
    - name: example.service
      contents: |
        [Service]
        ExecStart=/usr/bin/true
",
        ),
    ),
    (
        "unit-masked",
        Config(
            "\
systemd:
  units:
    - name: example.service
      enabled: true
      mask: true
",
        ),
    ),
    (
        "unit-template",
        Config(
            "\
systemd:
  units:
    - name: example@.service
      enabled: true
      contents: |
        [Service]
        ExecStart=/usr/bin/true
        [Install]
        WantedBy=multi-user.target
",
        ),
    ),
    (
        "user",
        Config(
            "\
passwd:
  users:
    - name: core
",
        ),
    ),
    (
        "user-field",
        Config(
            "\
passwd:
  users:
    - name: boot
      groups:
        - wheel
",
        ),
    ),
    (
        "key-line",
        Config(
            "\
passwd:
  users:
    - name: boot
      sshAuthorizedKeys:
        - |
          ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk one
          ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk two
",
        ),
    ),
    (
        "key-form",
        Config(
            "\
passwd:
  users:
    - name: boot
      sshAuthorizedKeys:
        - ssh-ed25519 AAAA
",
        ),
    ),
    (
        "keys-file",
        Config(
            "\
storage:
  files:
    - path: /home/boot/.ssh/authorized_keys
      contents:
        source: 'data:,example'
passwd:
  users:
    - name: boot
      sshAuthorizedKeys:
        - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk
",
        ),
    ),
    (
        "source-number",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: example
  labels:
    machineconfiguration.alauda.io/role: worker
",
        ),
    ),
    (
        "source-unselected",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: 99-worker-example
  labels:
    machineconfiguration.alauda.io/role: workers
",
        ),
    ),
    (
        "pool-name",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata:
  name: infrastructure-nodes-of-the-second-data-centre-with-large-local-disks
spec:
  machineConfigSelector:
    matchExpressions:
      - {key: machineconfiguration.alauda.io/role, operator: In, values: [worker, infra]}
  nodeSelector:
    matchLabels:
      node-role.kubernetes.io/infra: ''
",
        ),
    ),
    (
        "pool-selector",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata:
  name: infra
spec:
  machineConfigSelector:
    matchExpressions:
      - {key: machineconfiguration.alauda.io/role, operator: Equals, values: [worker]}
",
        ),
    ),
    (
        "pool-worker",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata:
  name: infra
spec:
  machineConfigSelector:
    matchLabels:
      machineconfiguration.alauda.io/role: infra
  nodeSelector:
    matchLabels:
      node-role.kubernetes.io/infra: ''
",
        ),
    ),
    (
        "pool-master",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata:
  name: infra
spec:
  machineConfigSelector:
    matchExpressions:
      - {key: machineconfiguration.alauda.io/role, operator: In, values: [worker, infra]}
  nodeSelector:
    matchLabels:
      node-role.kubernetes.io/control-plane: ''
",
        ),
    ),
    (
        "no-sources",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata:
  name: worker
spec:
  machineConfigSelector:
    matchLabels:
      machineconfiguration.alauda.io/role: workers
",
        ),
    ),
    (
        "policy",
        Input(
            "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfiguration
metadata:
  name: cluster
spec:
  nodeDisruptionPolicy:
    files:
      - path: etc/chrony.conf
        actions:
          - type: None
",
        ),
    ),
    ("rendered-size", Words("sources of a pool with 2 MiB of contents, as they are encoded")),
    ("rendered-near-limit", Words("sources of a pool with 1.3 MiB of contents, as they are encoded")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::rule::RULES;
    use std::collections::BTreeSet;

    #[test]
    fn every_rule_has_an_example_and_every_example_a_rule() {
        let rules: BTreeSet<&str> = RULES.iter().map(|r| r.id).collect();
        let examples: BTreeSet<&str> = EXAMPLES.iter().map(|(id, _)| *id).collect();
        assert_eq!(examples, rules);
        assert_eq!(EXAMPLES.len(), RULES.len(), "each has one");
    }

    #[test]
    fn a_part_of_a_config_is_shown_in_a_whole_source() {
        let text = Config("storage:\n  files: []\n").input().unwrap();
        assert!(text.ends_with("      version: 3.4.0\n    storage:\n      files: []\n"), "{text}");
        let documents = crate::yaml::documents(&text).unwrap();
        assert_eq!(documents[0].value["spec"]["config"]["storage"]["files"], serde_json::json!([]));
    }
}
