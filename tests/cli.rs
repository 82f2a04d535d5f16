//! The command line as people and scripts use it: output, exit codes, pipes.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

use command_line::{command, err, mcx, out, piped};
use std::fs;
use std::path::Path;
use std::process::Stdio;

const RENDER: [&str; 5] = ["render", "--pool", "worker", "-f", "examples/"];

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn the_examples_render() {
    let output = mcx(&RENDER);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    // The one thing to say: the guide's placeholder is no key.
    assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
    assert!(err(&output).contains("examples/ssh.yaml:16:") && err(&output).contains("[key-form]"), "{}", err(&output));
    let text = out(&output);
    for part in [
        "kind: MachineConfig",
        "path: /etc/chrony.conf",
        "mode: 420",
        "overwrite: true",
        "name: chronyd.service",
        "enabled: false",
        "name: boot",
        "machineconfiguration.alauda.io/rendered: worker",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn all_outputs_are_of_one_object() {
    let name = mcx(&[&RENDER[..], &["-o", "name"]].concat());
    let json = mcx(&[&RENDER[..], &["-o", "json"]].concat());
    let yaml = mcx(&[&RENDER[..], &["-o", "yaml"]].concat());
    let object: serde_json::Value = serde_json::from_str(out(&json)).unwrap();
    assert_eq!(format!("{}\n", object["metadata"]["name"].as_str().unwrap()), out(&name));
    let documents = mcx::yaml::documents(out(&yaml)).unwrap();
    assert_eq!(documents[0].value, object);
    assert_eq!(out(&yaml), out(&mcx(&RENDER)), "YAML is the default");
}

#[test]
fn two_hundred_processes_give_one_output() {
    // nothing of a process, its memory layout or its folder order, gets into the result.
    let first = mcx(&RENDER);
    for _ in 0..200 {
        let again = mcx(&RENDER);
        assert_eq!((again.stdout, again.stderr), (first.stdout.clone(), first.stderr.clone()));
    }
}

#[test]
fn yaml_json_standard_input_and_folders_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let expected = mcx(&[&RENDER[..], &["-o", "name"]].concat());
    // As the API serves them: one JSON list, on standard input.
    let mut items = Vec::new();
    for file in ["chrony", "disable-chrony", "ssh"] {
        let text = fs::read_to_string(format!("{}/examples/{file}.yaml", env!("CARGO_MANIFEST_DIR"))).unwrap();
        items.extend(mcx::yaml::documents(&text).unwrap().into_iter().map(|d| d.value));
    }
    items.reverse();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let given = piped(&["render", "--pool", "worker", "-f", "-", "-o", "name"], &list);
    assert_eq!(given.stdout, expected.stdout);
    // One a file, some below, with -R.
    fs::create_dir(folder.path().join("below")).unwrap();
    for (i, item) in items.iter().enumerate() {
        let name = if i == 0 { format!("below/{i}.json") } else { format!("{i}.yml") };
        write(folder.path(), &name, &item.to_string());
    }
    let folder = folder.path().display().to_string();
    let all = mcx(&["render", "--pool", "worker", "-R", "-f", &folder, "-o", "name"]);
    assert_eq!(all.stdout, expected.stdout);
    let without = mcx(&["render", "--pool", "worker", "-f", &folder, "-o", "name"]);
    assert_ne!(without.stdout, expected.stdout);
}

#[test]
fn pools_come_from_the_input_and_two_are_known_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let pool = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata: {name: infra}
spec:
  machineConfigSelector:
    matchExpressions:
    - {key: machineconfiguration.alauda.io/role, operator: In, values: [worker, infra]}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/infra: ''}}
";
    let source = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata: {name: 99-infra, labels: {machineconfiguration.alauda.io/role: infra}}
spec: {config: {ignition: {version: 3.4.0}, storage: {files: [{path: /etc/x, contents: {source: 'data:,x'}}]}}}
";
    let pool = write(folder.path(), "pool.yaml", pool);
    let source = write(folder.path(), "source.yaml", source);
    let infra = mcx(&["render", "--pool", "infra", "-f", "examples", "-f", &pool, "-f", &source]);
    assert_eq!(infra.status.code(), Some(0), "{}", err(&infra));
    assert!(out(&infra).contains("name: rendered-infra-"));
    assert!(out(&infra).contains("/etc/x") && out(&infra).contains("/etc/chrony.conf"), "worker's and its own");
    let worker = mcx(&["render", "--pool", "worker", "-f", "examples", "-f", &pool, "-f", &source]);
    assert!(!out(&worker).contains("/etc/x") && !err(&worker).contains("source-unselected"));
    // Without the pool nobody takes its source.
    let lost = mcx(&["render", "--pool", "worker", "-f", "examples", "-f", &source]);
    assert_eq!(lost.status.code(), Some(0));
    assert!(
        err(&lost).contains("source.yaml:3:")
            && err(&lost).contains("MachineConfig/99-infra: metadata.labels: no pool")
    );
    let master = mcx(&["render", "--pool", "master", "-f", "examples"]);
    assert_eq!(master.status.code(), Some(1));
    assert!(err(&master).contains("MachineConfigPool/master: spec.machineConfigSelector: selects no source"));
    let unknown = mcx(&["render", "--pool", "infra", "-f", "examples"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err(&unknown).contains("known here: master, worker"), "{}", err(&unknown));
}

#[test]
fn a_bad_policy_beside_the_sources_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let policy = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  nodeDisruptionPolicy:
    files:
    - path: etc/chrony.conf
      actions: [{type: None}]
";
    let policy = write(folder.path(), "policy.yaml", policy);
    let output = mcx(&["render", "--pool", "worker", "-f", "examples/chrony.yaml", "-f", &policy]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("policy.yaml:7:7: error: MachineConfiguration/cluster: spec.nodeDisruptionPolicy.files[0].path: `etc/chrony.conf` is not absolute"), "{}", err(&output));
}

#[test]
fn exit_codes_tell_refused_from_could_not() {
    for (args, code) in [
        (&["render", "--pool", "worker", "-f", "no-such-file"][..], 2),
        (&["render", "--pool", "worker", "-f", "src"][..], 2),
        (&["render", "--pool", "worker", "-f", "docs"][..], 2),
        (&["render", "-f", "examples"][..], 2),
        (&["render", "--pool", "worker"][..], 2),
        (&["render", "--pool", "worker", "-f", "-", "-f", "-"][..], 2),
        (&["no-such-command"][..], 2),
        (&[][..], 2),
        (&["--help"][..], 0),
        (&["--version"][..], 0),
    ] {
        let output = mcx(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", err(&output));
    }
    let missing = mcx(&["render", "--pool", "worker", "-f", "no-such-file"]);
    assert_eq!(err(&missing).lines().count(), 1, "{}", err(&missing));
    assert!(err(&missing).starts_with("mcx: cannot read no-such-file: "), "{}", err(&missing));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = command(&RENDER).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn nothing_is_coloured_unless_it_is_read_on_a_terminal() {
    let output = mcx(&RENDER);
    assert!(!out(&output).contains('\u{1b}') && !err(&output).contains('\u{1b}'));
}

#[test]
fn every_command_shows_how_it_is_used() {
    for command in ["cat", "diff", "explain", "render", "crds", "completions", "man"] {
        let output = mcx(&[command, "--help"]);
        assert!(out(&output).contains("Examples:"), "{command}");
    }
}

#[test]
fn shells_and_manuals_are_served() {
    for (shell, mark) in [("bash", "complete -F _mcx"), ("zsh", "#compdef mcx"), ("fish", "complete -c mcx")] {
        let output = mcx(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains(mark) && out(&output).contains("render"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    assert_eq!(mcx(&["man", pages.to_str().unwrap()]).status.code(), Some(0));
    let page = fs::read_to_string(pages.join("mcx-render.1")).unwrap();
    assert!(page.contains("\\-\\-pool"), "{page}");
}

#[test]
fn help_is_there_as_a_command_too() {
    for (asked, flagged) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "validate"], &["validate", "--help"]),
        (&["help", "new", "file"], &["new", "file", "--help"]),
    ] {
        let (asked, flagged) = (mcx(asked), mcx(flagged));
        assert_eq!((asked.status.code(), err(&asked)), (Some(0), ""));
        assert!(out(&asked).contains("Usage: mcx"), "{}", out(&asked));
        assert_eq!(out(&asked), out(&flagged));
    }
    let unknown = mcx(&["help", "valdate"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err(&unknown).contains("validate"), "{}", err(&unknown));
}

#[test]
fn a_file_without_its_flag_is_told_the_flag() {
    for (args, tip) in [
        (&["validate", "chrony.yaml"][..], "tip: files are given with -f: -f chrony.yaml"),
        (&["validate", "-f", "a.yaml", "b.yaml"], "tip: files are given with -f: -f b.yaml"),
        (&["validate", "sources"], "tip: files are given with -f: -f sources"),
        (&["render", "--pool", "worker", "examples/"], "tip: files are given with -f: -f examples/"),
        (&["apply", "--pool", "worker", "chrony.yaml"], "tip: files are given with -f: -f chrony.yaml"),
        (&["cat", "chrony.yaml"], "tip: files are given with -f: -f chrony.yaml"),
        (&["cat", "chrony.yaml", "/etc/chrony.conf"], "tip: files are given with -f: -f chrony.yaml"),
        (&["explain", "/etc/chrony.conf", "chrony.yaml"], "tip: files are given with -f: -f chrony.yaml"),
        (
            &["plan", "chrony.yaml"],
            "tip: files are given with a flag: --to chrony.yaml, or -f chrony.yaml to ask the cluster as well",
        ),
    ] {
        let output = mcx(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(err(&output).contains(tip), "{args:?}: {}", err(&output));
    }
    // What is no file, or stands where files do, is no such slip.
    for args in [
        &["validate", "--strct", "-f", "a.yaml"][..],
        &["cat", "-f", "a.yaml", "/etc/x", "/etc/y"],
        &["diff", "a.yaml"],
        &["new", "file", "a.yaml"],
        &["render", "-f", "a.yaml"],
        &["crds", "a.yaml"],
    ] {
        let output = mcx(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!err(&output).contains("files are given"), "{args:?}: {}", err(&output));
    }
}
