//! `mcx apply`: the daemon's transaction on a folder, without a cluster. Most of it needs root, as on a node.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

#[path = "support/node_root.rs"]
mod node_root;

use command_line::{command, err, out};
use mcx::api::NodeName;
use mcx::node::folder;
use mcx::node::host::Host;
use mcx::node::journal::NamedConfig;
use mcx::node::plan::Step;
use node_root::{Node, assert_same, source};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const POLICY: &str = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  nodeDisruptionPolicy:
    files:
      - path: /etc/chrony.conf
        actions:
          - type: Restart
            restart: {serviceName: chronyd.service}
    units:
      - name: chronyd.service
        actions: [{type: None}]
";

fn file(path: &str, text: &str) -> Value {
    json!({"path": path, "mode": 420, "contents": {"source": format!("data:,{text}")}})
}

/// A chrony.conf, a new file, a unit and an enablement, with a policy.
fn chrony(text: &str) -> String {
    let config = json!({
        "storage": {"files": [file("/etc/chrony.conf", text), file("/opt/new/a", "a")]},
        "systemd": {"units": [
            {"name": "chronyd.service", "enabled": false},
            {"name": "x.service", "enabled": true,
             "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"},
        ]},
    });
    POLICY.to_owned() + &source("99-worker-chrony", &config)
}

/// Runs `mcx apply` on a root, with `input` for `-f` unless it is empty.
fn apply(root: &Path, input: &str, flags: &[&str]) -> Output {
    let mut command = command(&["apply", "--root"]);
    command.arg(root).args(flags);
    let folder = tempfile::tempdir().unwrap();
    if !input.is_empty() {
        let at = folder.path().join("in.yaml");
        fs::write(&at, input).unwrap();
        command.args(["--pool", "worker", "-f"]).arg(at);
    }
    command.output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {} {}", out(output), err(output)))
}

/// The lines but for the last, which names root and config.
fn lines(output: &Output) -> Vec<&str> {
    let lines: Vec<&str> = out(output).lines().collect();
    lines.split_last().map(|(_, lines)| lines.to_vec()).unwrap_or_default()
}

#[test]
fn a_folder_becomes_what_a_node_would_have_and_is_given_back() {
    let Some(node) = Node::new() else { return };
    node.write("/etc/chrony.conf", "distribution", 0o600);
    let before = node.tree();
    let output = apply(node.root(), &chrony("one"), &[]);
    assert_eq!((output.status.code(), err(&output)), (Some(0), ""), "{}", out(&output));
    assert_eq!(
        lines(&output),
        [
            "added    /etc/chrony.conf",
            "added    /opt/new/a",
            "added    chronyd.service",
            "added    x.service",
            "not run: Reboot (unit x.service: default)",
        ]
    );
    assert_eq!(node.read("/etc/chrony.conf"), "one");
    assert_eq!(node.systemctl(&["is-enabled", "chronyd.service"]), "disabled");
    assert_eq!(node.systemctl(&["is-enabled", "x.service"]), "enabled");

    // The same again is nothing.
    let applied = node.tree();
    let again = apply(node.root(), &chrony("one"), &[]);
    assert_eq!((again.status.code(), lines(&again)), (Some(0), vec![]), "{}", err(&again));
    assert!(out(&again).ends_with("already: nothing to do\n"), "{}", out(&again));
    assert!(node.tree() == applied);

    // Only what differs is told, with what the policy asks for.
    let changed = apply(node.root(), &chrony("two"), &[]);
    assert_eq!(
        lines(&changed),
        [
            "changed  /etc/chrony.conf",
            "not run: Restart chronyd.service (file /etc/chrony.conf: policy entry /etc/chrony.conf)",
        ]
    );
    let withdrawn = apply(node.root(), "", &["--withdraw"]);
    assert_eq!(withdrawn.status.code(), Some(0), "{}", err(&withdrawn));
    assert!(out(&withdrawn).ends_with("has what it had before mcx\n"), "{}", out(&withdrawn));
    assert_same(&node.tree(), &before, "all is given back");
    assert!(!node.at("/var/lib/mcx").exists());
    let nothing = apply(node.root(), "", &["--withdraw"]);
    assert_eq!(nothing.status.code(), Some(0));
    assert!(out(&nothing).ends_with("already: nothing to do\n"), "{}", out(&nothing));
}

/// Killed in its last steps, a withdrawal has given all back, and leaves what it keeps for itself.
#[test]
fn a_withdrawal_that_was_cut_off_at_its_very_end_is_ended_by_the_next() {
    let Some(node) = Node::new() else { return };
    let bare = node.tree();
    for left in [
        &["/var/lib/mcx/"][..],
        &["/var/lib/mcx/originals/made.json", "/var/lib/mcx/lock"],
        &["/var/lib/mcx/originals/.mcx-0123456789abcdef"],
        // The folder itself was about to be made, at the very beginning.
        &["/var/lib/.mcx-add2952a809c32c6/"],
    ] {
        assert_eq!(apply(node.root(), &chrony("one"), &[]).status.code(), Some(0));
        let made = fs::read(node.at("/var/lib/mcx/originals/made.json")).unwrap();
        assert_eq!(apply(node.root(), "", &["--withdraw"]).status.code(), Some(0));
        for path in left {
            let at = node.at(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            match at.file_name().unwrap().to_str().unwrap() {
                "mcx" | ".mcx-add2952a809c32c6" => fs::create_dir_all(&at).unwrap(),
                "made.json" => fs::write(&at, &made).unwrap(),
                _ => fs::write(&at, "").unwrap(),
            }
        }
        assert_eq!(apply(node.root(), "", &["--withdraw"]).status.code(), Some(0), "{left:?}");
        assert!(!node.at("/var/lib/mcx").exists(), "{left:?}");
        assert_same(&node.tree(), &bare, &format!("{left:?}"));
    }
}

#[test]
fn a_bare_folder_is_bare_again() {
    let Some(node) = Node::new() else { return };
    let root = node.at("/srv/image");
    fs::create_dir_all(&root).unwrap();
    let config = json!({"storage": {"files": [file("/etc/deep/a", "1"), file("/var/lib/a/b", "1")]}});
    for text in ["1", "2"] {
        let mut config = config.clone();
        config["storage"]["files"][0] = file("/etc/deep/a", text);
        let applied = apply(&root, &source("99-worker-a", &config), &[]);
        assert_eq!(applied.status.code(), Some(0), "{}", err(&applied));
        assert_eq!(fs::read_to_string(root.join("etc/deep/a")).unwrap(), text);
    }
    assert_eq!(apply(&root, "", &["--withdraw"]).status.code(), Some(0));
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

#[test]
fn a_dry_run_prints_the_steps_that_are_then_carried_out_and_changes_nothing() {
    let Some(node) = Node::new() else { return };
    let before = node.tree();
    let dry = apply(node.root(), &chrony("one"), &["--dry-run", "-o", "json"]);
    assert_eq!(dry.status.code(), Some(0), "{}", err(&dry));
    assert!(node.tree() == before && !node.at("/var/lib/mcx").exists());
    let shown = apply(node.root(), &chrony("one"), &["--dry-run"]);
    assert!(out(&shown).contains("\nstep: stage /etc/chrony.conf\n"), "{}", out(&shown));
    assert!(out(&shown).ends_with("nothing was changed\n"), "{}", out(&shown));
    let real = apply(node.root(), &chrony("one"), &["-o", "json"]);
    let (dry, real) = (report(&dry), report(&real));
    assert_eq!((&dry["outcome"], &real["outcome"]), (&json!("planned"), &json!("applied")));
    for same in ["steps", "changes", "notRun", "to", "from"] {
        assert_eq!(dry[same], real[same], "{same}");
    }
    assert!(real["steps"].as_array().unwrap().len() > 10);
}

#[test]
fn what_is_in_the_way_is_refused_and_nothing_is_touched() {
    let Some(node) = Node::new() else { return };
    fs::create_dir_all(node.at("/etc/chrony.conf/full")).unwrap();
    let keys = source("99-worker-ssh", &json!({"passwd": {"users": [{"name": "nobody"}]}}));
    let before = node.tree();
    let obstacle = apply(node.root(), &chrony("one"), &[]);
    assert_eq!(obstacle.status.code(), Some(1));
    assert!(err(&obstacle).contains("/etc/chrony.conf is a directory that is not empty"), "{}", err(&obstacle));
    // What validation refuses does not even look at the folder.
    let invalid = apply(node.root(), &keys, &[]);
    assert_eq!((invalid.status.code(), out(&invalid)), (Some(1), ""));
    assert!(err(&invalid).contains("[user]"), "{}", err(&invalid));
    assert!(node.tree() == before && !node.at("/var/lib/mcx").exists());
}

#[test]
fn what_somebody_else_changed_is_drift_and_stays() {
    let Some(node) = Node::new() else { return };
    assert_eq!(apply(node.root(), &chrony("one"), &[]).status.code(), Some(0));
    node.write("/etc/chrony.conf", "by hand", 0o644);
    for output in [
        apply(node.root(), &chrony("one"), &[]),
        apply(node.root(), &chrony("two"), &[]),
        apply(node.root(), "", &["--withdraw"]),
    ] {
        assert_eq!(output.status.code(), Some(1), "{}", out(&output));
        assert!(err(&output).contains("/etc/chrony.conf has other contents"), "{}", err(&output));
        assert_eq!(node.read("/etc/chrony.conf"), "by hand");
    }
}

#[test]
fn a_folder_that_a_daemon_keeps_or_another_run_holds_is_left_alone() {
    let Some(node) = Node::new() else { return };
    let disk = node.disk();
    let held = apply(node.root(), &chrony("one"), &[]);
    assert_eq!(held.status.code(), Some(1));
    assert!(err(&held).contains("holds /var/lib/mcx/lock"), "{}", err(&held));
    disk.keep_for(&NodeName::from("w1")).unwrap();
    drop(disk);
    // The daemon is away, and the node is still its own.
    for flags in [&[][..], &["--dry-run"]] {
        let kept = apply(node.root(), &chrony("one"), flags);
        assert_eq!(kept.status.code(), Some(1), "{}", out(&kept));
        assert!(err(&kept).contains("is kept by the daemon of node w1: change the MachineConfigs"), "{}", err(&kept));
    }
    assert!(!node.at("/etc/chrony.conf").exists());
    fs::remove_file(node.at("/var/lib/mcx/lock")).unwrap();
    // Nor is an update that a daemon has begun taken from it.
    let disk = node.disk();
    let mut journal = Node::open(&disk, &json!({}), &rendered_config(&chrony("two")));
    journal.node_uid = Some("uid-1".into());
    disk.write_journal(&journal).unwrap();
    drop(disk);
    let open = apply(node.root(), &chrony("one"), &[]);
    assert_eq!(open.status.code(), Some(1), "{}", out(&open));
    assert!(err(&open).contains("is in the middle of a daemon's update to rendered-worker-"), "{}", err(&open));
    fs::remove_file(node.at("/var/lib/mcx/journal.json")).unwrap();
    assert_eq!(apply(node.root(), &chrony("one"), &[]).status.code(), Some(0));
}

/// Cuts an update to `one` off before its step `at`, as a power cut would; and how many steps it has.
fn interrupted(at: usize) -> Option<(Node, usize)> {
    let node = Node::new()?;
    node.write("/etc/chrony.conf", "distribution", 0o600);
    let planned = report(&apply(node.root(), &chrony("one"), &["--dry-run", "-o", "json"]));
    let count = planned["steps"].as_array().unwrap().len();
    let to = NamedConfig {
        name: planned["to"].as_str().unwrap().into(),
        config: rendered_config(&chrony("one")).into(),
        ..NamedConfig::default()
    };
    if at < count {
        let disk = node.disk();
        let mut seen = 0;
        // A panic leaves at once, as a kill does: no code of the transaction runs after it.
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let mut observer = |_: &Step| {
                assert!(seen != at, "the power cut");
                seen += 1;
            };
            node.runtime.block_on(folder::update(&disk, &to, &mut observer))
        }));
        assert!(ended.is_err(), "step {at} was not reached");
    }
    Some((node, count))
}

fn rendered_config(input: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("in.yaml");
    fs::write(&at, input).unwrap();
    let output = command(&["render", "--pool", "worker", "-o", "json", "-f"]).arg(at).output().unwrap();
    report(&output)["spec"]["config"].clone()
}

#[test]
fn a_run_that_was_interrupted_anywhere_is_finished_or_undone_by_the_next() {
    let Some((whole, count)) = interrupted(usize::MAX) else { return };
    let before = whole.tree();
    assert_eq!(apply(whole.root(), &chrony("one"), &[]).status.code(), Some(0));
    let after = whole.tree();
    let (mut finished, mut undone) = (0, 0);
    for at in 0..count {
        let Some((node, _)) = interrupted(at) else { return };
        // Half of them want the same again, the others everything back.
        if at % 2 == 0 {
            let output = apply(node.root(), &chrony("one"), &[]);
            assert_eq!(output.status.code(), Some(0), "step {at}: {}{}", out(&output), err(&output));
            assert_same(&node.tree(), &after, &format!("step {at}"));
            finished += 1;
        } else {
            let output = apply(node.root(), "", &["--withdraw"]);
            assert_eq!(output.status.code(), Some(0), "step {at}: {}{}", out(&output), err(&output));
            assert_same(&node.tree(), &before, &format!("step {at}"));
            undone += usize::from(out(&output).contains("was interrupted is undone"));
        }
    }
    assert!(finished > 5 && undone > 1, "{finished} finished, {undone} undone of {count}");
}

#[test]
fn an_update_that_fails_half_way_is_undone() {
    let Some(node) = Node::new() else { return };
    // Enabling x.service fails when its alias is somebody's file, after all files have been switched.
    node.write("/etc/systemd/system/taken.service", "[Service]\nExecStart=/bin/true\n", 0o644);
    node.write("/etc/a", "before", 0o600);
    let config = json!({
        "storage": {"files": [file("/etc/a", "after")]},
        "systemd": {"units": [{"name": "x.service", "enabled": true,
            "contents": "[Service]\nExecStart=/bin/true\n[Install]\nAlias=taken.service\n"}]},
    });
    let before = node.tree();
    let failed = apply(node.root(), &source("99-worker-x", &config), &["-o", "json"]);
    assert_eq!(failed.status.code(), Some(2), "{}", out(&failed));
    let said = report(&failed);
    assert_eq!(said["outcome"], "undone");
    let steps: Vec<&str> = said["steps"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(steps.contains(&"switch /etc/a") && steps.contains(&"begin to undo"), "{steps:?}");
    assert_same(&node.tree(), &before, "after the undo");
    assert!(!node.at("/var/lib/mcx").exists());
    let shown = apply(node.root(), &source("99-worker-x", &config), &[]);
    assert_eq!(lines(&shown), Vec::<&str>::new(), "what was undone is not called a change");
    assert!(err(&shown).contains("failed: `systemctl"), "{}", err(&shown));
}

#[test]
fn beside_a_running_daemon_nothing_is_applied_and_not_after_it_either() {
    let Some(node) = Node::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    // Nobody answers there: the daemon waits for its cluster.
    fs::write(
        &kubeconfig,
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
         clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {}}]}",
    )
    .unwrap();
    let mut daemon = command(&["daemon", "--node-name", "w1", "--listen", "127.0.0.1:0", "--root"])
        .arg(node.root())
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lock = node.at("/var/lib/mcx/lock");
    let until = Instant::now() + Duration::from_secs(30);
    while fs::read_to_string(&lock).unwrap_or_default() != "kept by the daemon of node w1\n" {
        assert!(Instant::now() < until && daemon.try_wait().unwrap().is_none(), "the daemon does not keep its root");
        std::thread::sleep(Duration::from_millis(20));
    }
    let beside = apply(node.root(), &chrony("one"), &[]);
    assert_eq!(beside.status.code(), Some(1));
    assert!(err(&beside).contains("another mcx, a daemon or `mcx apply`, holds"), "{}", err(&beside));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let after = apply(node.root(), &chrony("one"), &[]);
    assert_eq!(after.status.code(), Some(1));
    assert!(err(&after).contains("is kept by the daemon of node w1"), "{}", err(&after));
    assert!(!node.at("/etc/chrony.conf").exists());
}

#[test]
fn enablement_without_systemctl_is_a_clear_error_and_files_do_not_need_it() {
    let Some(node) = Node::new() else { return };
    // A mount namespace in which this machine has no program but mcx.
    let without_programs = |input: &str| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("in.yaml");
        fs::write(&at, input).unwrap();
        let script = "mount -t tmpfs tmpfs /usr/bin && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args([
            "-m",
            "sh",
            "-c",
            script,
            "sh",
            env!("CARGO_BIN_EXE_mcx"),
            "apply",
            "--pool",
            "worker",
            "--root",
        ]);
        command.arg(node.root()).arg("-f").arg(&at).output().unwrap()
    };
    if !Command::new("unshare").args(["-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]).status().unwrap().success() {
        return;
    }
    let only_file = source("99-worker-a", &json!({"storage": {"files": [file("/etc/a", "1")]}}));
    let output = without_programs(&only_file);
    assert_eq!((output.status.code(), err(&output)), (Some(0), ""));
    assert_eq!(node.read("/etc/a"), "1");
    let before = node.tree();
    let output = without_programs(&chrony("one"));
    assert_eq!(output.status.code(), Some(2), "{}", out(&output));
    assert!(err(&output).contains("is changed by `systemctl`, and neither this machine nor"), "{}", err(&output));
    assert_same(&node.tree(), &before, "after the error");
}

#[test]
fn a_user_is_told_how_root_or_a_namespace_does_it_and_may_look_before() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("in.yaml"),
        source("99-worker-a", &json!({"storage": {"files": [file("/etc/a", "1")]}})),
    )
    .unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    for path in [folder.path(), &root, &root.join("etc")] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    // The build's folder may be closed to others.
    let program = folder.path().join("mcx");
    fs::copy(env!("CARGO_BIN_EXE_mcx"), &program).unwrap();
    let run = |flags: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(folder.path()).uid(65534).gid(65534);
        command.args(["apply", "--root", "root", "--pool", "worker", "-f", "in.yaml"]).args(flags).output().unwrap()
    };
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("run it as root, or, for a folder of your own"), "{}", err(&refused));
    assert!(!root.join("var").exists());
    let looked = run(&["--dry-run"]);
    assert_eq!(looked.status.code(), Some(0), "{}", err(&looked));
    assert!(out(&looked).contains("added    /etc/a\n"), "{}", out(&looked));

    // As the message says it; not every machine lets users have namespaces.
    let as_root = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.current_dir(folder.path()).uid(65534).gid(65534).arg("--map-root-user").args(args).output().unwrap()
    };
    if !as_root(&["true"]).status.success() {
        return;
    }
    let applied = as_root(&["./mcx", "apply", "--root", "root", "--pool", "worker", "-f", "in.yaml"]);
    assert_eq!(applied.status.code(), Some(0), "{}", err(&applied));
    assert_eq!(fs::read_to_string(root.join("etc/a")).unwrap(), "1");
    let withdrawn = as_root(&["./mcx", "apply", "--root", "root", "--withdraw"]);
    assert_eq!(withdrawn.status.code(), Some(0), "{}", err(&withdrawn));
    assert!(!root.join("etc/a").exists());
}

#[test]
fn usage_and_what_cannot_be_opened_are_exit_2() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [&[][..], &["--withdraw", "--pool", "worker"], &["--pool", "worker"], &["--withdraw", "-o", "xml"]] {
        assert_eq!(apply(folder.path(), "", flags).status.code(), Some(2), "{flags:?}");
    }
    let none = apply(&folder.path().join("none"), &chrony("one"), &["--dry-run"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(err(&none).contains("cannot open the root"), "{}", err(&none));
    assert!(Host::open(folder.path()).is_ok());
}
