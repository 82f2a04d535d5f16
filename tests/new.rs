//! `mcx new`: plain files become the MachineConfig that brings them to a node.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

use command_line::{command, err, fed, mcx, out};
use mcx::render::items::{Items, UnitItem};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ alice@example";

/// Runs `mcx new` in `folder`.
fn new(folder: &Path, args: &[&str], stdin: &[u8]) -> Output {
    fed(command(&[&["new"], args].concat()).current_dir(folder), stdin)
}

/// A custom pool that takes its own sources beside those of worker.
fn custom_pool(name: &str) -> String {
    format!(
        "---\napiVersion: machineconfiguration.alauda.io/v1alpha1\nkind: MachineConfigPool\n\
         metadata: {{name: {name}}}\nspec:\n  machineConfigSelector:\n    matchExpressions:\n    \
         - {{key: machineconfiguration.alauda.io/role, operator: In, values: [worker, {name}]}}\n  \
         nodeSelector: {{matchLabels: {{node-role.kubernetes.io/{name}: ''}}}}\n"
    )
}

/// What a node of `pool` has of the output alone, by `mcx render`; nothing may be said of it.
fn rendered(folder: &Path, output: &Output, pool: &str) -> Items {
    assert_eq!((output.status.code(), err(output)), (Some(0), ""), "{}", out(output));
    let mut whole = output.stdout.clone();
    if pool != "master" && pool != "worker" {
        whole.extend(custom_pool(pool).into_bytes());
    }
    fs::write(folder.join("made.yaml"), whole).unwrap();
    let made = folder.join("made.yaml").display().to_string();
    let render = mcx(&["render", "--pool", pool, "-f", &made, "-o", "json"]);
    assert_eq!((render.status.code(), err(&render)), (Some(0), ""), "{}", out(output));
    let object: serde_json::Value = serde_json::from_slice(&render.stdout).unwrap();
    Items::from_config(&object["spec"]["config"]).unwrap()
}

fn file(folder: &Path, name: &str, bytes: &[u8], mode: u32) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_comes_to_its_path_with_its_bytes_and_mode() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    file(at, "chrony.conf", b"server 0.pool.ntp.org iburst\n", 0o640);
    let output = new(at, &["file", "--path", "/etc/chrony.conf", "--from", "chrony.conf"], b"");
    assert!(out(&output).contains("\n  name: 99-worker-chrony\n"), "{}", out(&output));
    assert!(out(&output).contains("\n          mode: 0640\n"), "{}", out(&output));
    let items = rendered(at, &output, "worker");
    let item = &items.files["/etc/chrony.conf"];
    assert_eq!((item.mode, item.content.decode().unwrap()), (0o640, b"server 0.pool.ntp.org iburst\n".to_vec()));
    // The mode that is given counts, and so do owner, name and role.
    let args = [
        "file",
        "--path",
        "/etc/app/token",
        "--from",
        "-",
        "--mode",
        "0600",
        "--user",
        "app",
        "--group",
        "107",
        "--name",
        "50-token",
        "--role",
        "infra",
        "-f",
        "infra.yaml",
    ];
    file(at, "infra.yaml", custom_pool("infra").as_bytes(), 0o644);
    let output = new(at, &args, b"\0\xff");
    assert!(out(&output).contains("machineconfiguration.alauda.io/role: infra\n"));
    let items = rendered(at, &output, "infra");
    let item = &items.files["/etc/app/token"];
    assert_eq!((item.mode, item.content.decode().unwrap()), (0o600, b"\0\xff".to_vec()));
    assert_eq!(format!("{:?} {:?}", item.user, item.group), "Name(\"app\") Id(107)");
    // Standard input has no mode.
    let output = new(at, &["file", "--path", "/etc/a", "--from", "-"], b"");
    let items = rendered(at, &output, "worker");
    assert_eq!((items.files["/etc/a"].mode, items.files["/etc/a"].content.size()), (0o644, 0));
}

#[test]
fn each_role_gets_a_config_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let args =
        ["file", "--path", "/etc/motd", "--from", "-", "--role", "master", "--role", "worker", "--role", "master"];
    let output = new(folder.path(), &args, b"hi\n");
    let documents = mcx::yaml::documents(out(&output)).unwrap();
    let names: Vec<&str> = documents.iter().map(|d| d.value["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["99-master-motd", "99-worker-motd"]);
    let one_name = new(folder.path(), &[&args[..], &["--name", "99-motd"]].concat(), b"hi\n");
    assert_eq!(one_name.status.code(), Some(2));
    assert!(err(&one_name).contains("leave --name out"), "{}", err(&one_name));
    assert_eq!(new(folder.path(), &["ssh", "--key", "-", "--role", "a b"], KEY.as_bytes()).status.code(), Some(2));
}

#[test]
fn a_unit_is_enabled_masked_or_given_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let body = "[Unit]\nDescription=x\n\n[Service]\nExecStart=/bin/true\n\n[Install]\nWantedBy=multi-user.target\n";
    file(at, "x.service", body.as_bytes(), 0o755);
    let output = new(at, &["unit", "x.service", "--from", "x.service", "--enable"], b"");
    assert!(out(&output).contains("\n          contents: |\n            [Unit]\n            Description=x\n"));
    let items = rendered(at, &output, "worker");
    assert_eq!(
        (items.units["x.service"].contents.as_deref(), items.units["x.service"].enabled),
        (Some(body), Some(true))
    );
    for (flags, expected) in [
        (&["--disable"][..], UnitItem { enabled: Some(false), ..UnitItem::default() }),
        (&["--mask"], UnitItem { mask: Some(true), ..UnitItem::default() }),
        (&["--disable", "--mask"], UnitItem { enabled: Some(false), mask: Some(true), ..UnitItem::default() }),
        (&["--unmask"], UnitItem { mask: Some(false), ..UnitItem::default() }),
    ] {
        let output = new(at, &[&["unit", "chronyd.service"], flags].concat(), b"");
        assert!(out(&output).contains("name: 99-worker-chronyd\n"), "{}", out(&output));
        assert_eq!(rendered(at, &output, "worker").units["chronyd.service"], expected, "{flags:?}");
    }
    for wrong in [&[][..], &["--enable", "--disable"], &["--mask", "--unmask"]] {
        assert_eq!(new(at, &[&["unit", "a.service"], wrong].concat(), b"").status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_mode_that_is_usual_only_in_decimal_is_refused_with_the_octal_one() {
    let folder = tempfile::tempdir().unwrap();
    let with = |mode: &str| new(folder.path(), &["file", "--path", "/etc/x", "--from", "-", "--mode", mode], b"x");
    let output = with("420");
    assert_eq!((output.status.code(), out(&output)), (Some(2), ""));
    let said = "a mode is octal, and 0420 is hardly meant: write 0644, which is 420 in decimal, or 0o420 if it is";
    assert!(err(&output).contains(said), "{}", err(&output));
    let output = with("493");
    assert!(err(&output).contains("a mode is octal: write 0755, which is 493 in decimal"));
    for (mode, bits) in [("0o420", "0420"), ("644", "0644"), ("0644", "0644")] {
        let output = with(mode);
        assert!(out(&output).contains(&format!("mode: {bits}\n")), "{mode}: {}", out(&output));
    }
}

#[test]
fn a_role_that_no_known_pool_selects_is_said_with_the_one_that_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    let with = |role: &str, more: &[&str]| {
        new(folder.path(), &[&["file", "--path", "/etc/x", "--from", "-", "--role", role], more].concat(), b"x")
    };
    let output = with("workers", &[]);
    assert_eq!(output.status.code(), Some(0), "a pool of the cluster may select it");
    assert!(out(&output).contains("machineconfiguration.alauda.io/role: workers\n"));
    assert_eq!(
        err(&output),
        "warning: MachineConfig/99-workers-x: metadata.labels: only a pool that selects role workers takes it, and master, \
         worker do not; did you mean worker? [source-unselected]\n"
    );
    let output = with("infra", &[]);
    assert!(err(&output).contains("do not; give the file with its pool by -f [source-unselected]"));
    file(folder.path(), "pools/infra.yaml", custom_pool("infra").as_bytes(), 0o644);
    for role in ["infra", "worker", "master"] {
        let output = with(role, &["-f", "pools"]);
        assert_eq!((output.status.code(), err(&output)), (Some(0), ""), "{role}");
    }
    let output = with("infa", &["-f", "pools/infra.yaml"]);
    assert!(err(&output).contains("infra, master, worker do not; did you mean infra?"), "{}", err(&output));
    for (wrong, code) in [("pools/none.yaml", 2), ("-", 2)] {
        let output = with("infra", &["-f", wrong]);
        assert_eq!((output.status.code(), out(&output)), (Some(code), ""), "{wrong}");
    }
    file(folder.path(), "pools/infra.yaml", b"kind: [", 0o644);
    let output = with("infra", &["-f", "pools"]);
    assert_eq!((output.status.code(), out(&output)), (Some(1), ""), "{}", err(&output));
}

#[test]
fn a_unit_that_is_written_as_a_file_is_told_where_it_belongs() {
    let folder = tempfile::tempdir().unwrap();
    let output = new(folder.path(), &["file", "--path", "/etc/systemd/system/x.service", "--from", "-"], b"[Unit]\n");
    assert_eq!(output.status.code(), Some(0));
    assert!(err(&output).contains("[unit-as-file]"), "{}", err(&output));
}

#[test]
fn a_drop_in_and_keys_come_from_files_and_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let output = new(at, &["dropin", "kubelet.service", "20-nice.conf", "--from", "-"], b"[Service]\nNice=-5\n");
    assert!(out(&output).contains("name: 99-worker-kubelet-20-nice\n"), "{}", out(&output));
    let items = rendered(at, &output, "worker");
    assert_eq!(items.units["kubelet.service"].dropins["20-nice.conf"], "[Service]\nNice=-5\n");
    let other = KEY.replace("alice", "bob");
    file(at, "bob.pub", format!("# bob\n{other}\n").as_bytes(), 0o644);
    let output = new(at, &["ssh", "--key", "-", "--key", "bob.pub"], format!("{KEY}\n").as_bytes());
    assert!(out(&output).contains("name: 99-worker-ssh\n"));
    assert_eq!(rendered(at, &output, "worker").keys, Some(vec![KEY.to_owned(), other]));
    assert_eq!(new(at, &["ssh", "--key", "-", "--key", "-"], KEY.as_bytes()).status.code(), Some(2));
}

#[test]
fn a_private_key_is_refused_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let private = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n";
    file(folder.path(), "id", private, 0o600);
    let output = new(folder.path(), &["ssh", "--key", "id"], b"");
    assert_eq!((output.status.code(), out(&output)), (Some(2), ""));
    assert_eq!(err(&output), "mcx: id is a private key; give the .pub file beside it\n");
}

#[test]
fn a_tree_becomes_files_units_and_drop_ins() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    file(at, "root/etc/motd", b"hi\n", 0o644);
    file(at, "root/usr/local/bin/tool", b"#!/bin/sh\n", 0o755);
    file(
        at,
        "root/etc/systemd/system/x.service",
        b"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
        0o644,
    );
    file(at, "root/etc/systemd/system/kubelet.service.d/20-x.conf", b"[Service]\nNice=1\n", 0o600);
    let output = new(at, &["tree", "root/", "--enable", "x.service", "--mask", "y.service"], b"");
    assert!(out(&output).contains("name: 99-worker-root\n"));
    let items = rendered(at, &output, "worker");
    let modes: Vec<(&str, u32)> = items.files.iter().map(|(path, file)| (path.as_str(), file.mode)).collect();
    assert_eq!(modes, [("/etc/motd", 0o644), ("/usr/local/bin/tool", 0o755)]);
    let units: Vec<&str> = items.units.keys().map(String::as_str).collect();
    assert_eq!(units, ["kubelet.service", "x.service", "y.service"]);
    assert_eq!((items.units["x.service"].enabled, items.units["y.service"].mask), (Some(true), Some(true)));
    assert_eq!(new(at, &["tree", "root"], b"").stdout, new(at, &["tree", "./root/"], b"").stdout);
}

#[test]
fn what_a_config_cannot_hold_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for name in ["link", "wants", "pipe", "socket", "empty"] {
        fs::create_dir_all(at.join(name).join("etc/systemd/system")).unwrap();
    }
    symlink("/etc/motd", at.join("link/etc/a")).unwrap();
    symlink("/dev/null", at.join("wants/etc/systemd/system/a.service")).unwrap();
    assert!(Command::new("mkfifo").arg(at.join("pipe/etc/p")).status().unwrap().success());
    let _socket = UnixListener::bind(at.join("socket/etc/s")).unwrap();
    for (tree, said) in [
        ("link", "link/etc/a is a link; a MachineConfig has no links: put the file itself into its place"),
        ("wants", "is a link; a MachineConfig has no links: use --enable UNIT or --mask UNIT for what it does"),
        ("pipe", "pipe/etc/p is a named pipe; a MachineConfig has only files: remove it from the tree"),
        ("socket", "socket/etc/s is a socket; a MachineConfig has only files"),
        ("empty", "empty holds no file; lay it out like a root: etc/motd in it becomes /etc/motd"),
        ("none", "cannot read none: No such file"),
    ] {
        let output = new(at, &["tree", tree], b"");
        assert_eq!((output.status.code(), out(&output)), (Some(2), ""), "{tree}");
        assert!(err(&output).contains(said), "{}", err(&output));
        assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
    }
}

#[test]
fn what_would_be_refused_is_said_as_validation_says_it_and_nothing_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (args, rule) in [
        (&["file", "--path", "etc/motd", "--from", "-"][..], "file-path"),
        (&["file", "--path", "/motd", "--from", "-"], "file-root"),
        (&["file", "--path", "/tmp/motd", "--from", "-"], "file-volatile"),
        (&["file", "--path", "/etc/motd", "--from", "-", "--mode", "17777"], "file-mode"),
        (&["file", "--path", "/etc/motd", "--from", "-", "--name", "A"], "object-name"),
        (&["unit", "chronyd", "--disable"], "unit-name"),
        (&["unit", "x.service", "--enable", "--mask"], "unit-masked"),
    ] {
        let output = new(at, args, b"x");
        assert_eq!((output.status.code(), out(&output)), (Some(1), ""), "{args:?}");
        let said = err(&output);
        assert!(said.starts_with("error: MachineConfig/") && said.contains(&format!("[{rule}]")), "{args:?}: {said}");
    }
    // A warning is said, and the text is there.
    let output = new(at, &["file", "--path", "/etc/x", "--from", "-", "--mode", "4755"], b"x");
    assert_eq!(output.status.code(), Some(0));
    assert!(err(&output).contains("[mode-special]") && out(&output).contains("kind: MachineConfig\n"));
}

#[test]
fn a_policy_says_what_a_change_costs() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let output =
        new(at, &["policy", "--path", "/etc/chrony.conf", "--daemon-reload", "--restart", "chronyd.service"], b"");
    assert_eq!((output.status.code(), err(&output)), (Some(0), ""));
    // The guide's own, but for the keys, which it leaves as they are.
    let guide = fs::read_to_string(format!("{}/examples/chrony-policy.yaml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let guide = guide.split_once("    sshkey:").unwrap().0;
    let guide: Vec<&str> = guide.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(out(&output).lines().skip(1).collect::<Vec<_>>(), guide);
    let both = new(at, &["policy", "--path", "/etc/a", "--path", "/etc/b", "--unit", "a.service", "--none"], b"");
    let documents = mcx::yaml::documents(out(&both)).unwrap();
    let policy = &documents[0].value["spec"]["nodeDisruptionPolicy"];
    assert_eq!(policy["files"][1], serde_json::json!({"path": "/etc/b", "actions": [{"type": "None"}]}));
    assert_eq!(policy["units"][0]["name"], "a.service");
    for (wrong, code) in [
        (&["policy", "--path", "etc", "--none"][..], 1),
        (&["policy", "--path", "/etc/a", "--restart", "chronyd"], 1),
        (&["policy", "--path", "/etc/a", "--none", "--reboot"], 2),
        (&["policy", "--path", "/etc/a"], 2),
        (&["policy", "--none"], 2),
    ] {
        let output = new(at, wrong, b"");
        assert_eq!((output.status.code(), out(&output)), (Some(code), ""), "{wrong:?}");
    }
}

#[test]
fn what_new_prints_can_be_appended_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut all = new(at, &["file", "--path", "/etc/chrony.conf", "--from", "-"], b"pool x iburst\n").stdout;
    all.extend(new(at, &["policy", "--path", "/etc/chrony.conf", "--restart", "chronyd.service"], b"").stdout);
    file(at, "all.yaml", &all, 0o644);
    let output = mcx(&["validate", "-f", &at.join("all.yaml").display().to_string()]);
    assert_eq!((output.status.code(), err(&output)), (Some(0), "no findings in 2 objects\n"));
}
