//! `mcx diff`: two configs, or a disk and a config, with the lines that differ and an exit code for scripts.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

#[path = "support/node_root.rs"]
mod node_root;

use command_line::{command, err, mcx, out};
use node_root::{Node, config, empty, file, key, named};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

/// The guide's examples in a folder of their own, so that they can be changed.
fn examples() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

fn edit(folder: &tempfile::TempDir, name: &str, from: &str, to: &str) {
    let path = folder.path().join(name);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from} is not in {name}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn path(folder: &tempfile::TempDir) -> &str {
    folder.path().to_str().unwrap()
}

/// As `kubectl get mc NAME -o yaml` would print it.
fn rendered(folder: &str, to: &Path) {
    let output = mcx(&["render", "--pool", "worker", "-f", folder]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    fs::write(to, output.stdout).unwrap();
}

#[test]
fn two_folders_are_compared_by_what_nodes_would_have() {
    let changed = examples();
    edit(&changed, "chrony.yaml", "mode: 0o644", "mode: 0o600");
    edit(&changed, "disable-chrony.yaml", "enabled: false", "enabled: true");
    edit(&changed, "disable-chrony.yaml", "PrivateTmp=yes", "PrivateTmp=no");
    edit(&changed, "ssh.yaml", "- ssh-rsa <ssh-public-key>", "- ssh-rsa other");
    let output = mcx(&["diff", "examples", path(&changed)]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert_eq!(
        out(&output),
        "file /etc/chrony.conf changed: mode 0644 -> 0600\n\
         unit chronyd.service changed: enabled false -> true\n\
         --- a/etc/systemd/system/chronyd.service\n\
         +++ b/etc/systemd/system/chronyd.service\n\
         @@ -11,7 +11,7 @@\n \
         EnvironmentFile=-/etc/sysconfig/chronyd\n \
         ExecStart=/usr/sbin/chronyd $OPTIONS\n \
         ExecStartPost=/usr/libexec/chrony-helper update-daemon\n\
         -PrivateTmp=yes\n\
         +PrivateTmp=no\n \
         ProtectHome=yes\n \
         ProtectSystem=full\n \n\
         keys of boot changed\n\
         --- a/keys of boot\n\
         +++ b/keys of boot\n\
         @@ -1 +1 @@\n\
         -ssh-rsa <ssh-public-key>\n\
         +ssh-rsa other\n"
    );
    assert_eq!(err(&output), "", "what is odd in a source is for validate to say");
    let stat = mcx(&["diff", "--stat", "examples", path(&changed)]);
    assert_eq!(stat.status.code(), Some(1));
    assert_eq!(
        out(&stat),
        "file /etc/chrony.conf  changed  +0 -0    mode\n\
         unit chronyd.service   changed  +1 -1    enabled\n\
         keys of boot           changed  +1 -1\n\
         3 items, +2 -2\n"
    );
}

#[test]
fn other_clothes_are_no_difference() {
    let dressed = examples();
    // Renamed, in another encoding of the mode, and with another name of the source.
    edit(&dressed, "chrony.yaml", "mode: 0o644", "mode: 420");
    edit(&dressed, "chrony.yaml", "name: 99-worker-chrony", "name: 10-time");
    fs::rename(dressed.path().join("chrony.yaml"), dressed.path().join("z.yaml")).unwrap();
    let output = mcx(&["diff", "examples", path(&dressed)]);
    assert_eq!((output.status.code(), out(&output), err(&output)), (Some(0), "", ""));
}

#[test]
fn rendered_configs_are_compared_with_each_other_and_with_sources() {
    let (old, changed) = (examples(), examples());
    edit(&changed, "chrony.yaml", "mode: 0o644", "mode: 0o600");
    let files = tempfile::tempdir().unwrap();
    let (a, b) = (files.path().join("a.yaml"), files.path().join("b.yaml"));
    rendered(path(&old), &a);
    rendered(path(&changed), &b);
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let expected = "file /etc/chrony.conf changed: mode 0644 -> 0600\n";
    assert_eq!(out(&mcx(&["diff", a, b])), expected);
    assert_eq!(out(&mcx(&["diff", a, path(&changed)])), expected);
    assert_eq!(mcx(&["diff", a, path(&old)]).status.code(), Some(0));
    let both = mcx(&["diff", path(&old), files.path().to_str().unwrap()]);
    assert_eq!(both.status.code(), Some(2));
    assert!(err(&both).contains("2 rendered configs of pool worker"), "{}", err(&both));
}

#[test]
fn pools_are_told_apart_where_they_differ_and_together_where_not() {
    let (old, new) = (examples(), examples());
    let pool = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata: {name: infra}
spec:
  machineConfigSelector:
    matchExpressions:
    - {key: machineconfiguration.alauda.io/role, operator: In, values: [worker, infra]}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/infra: ''}}
";
    for folder in [&old, &new] {
        fs::write(folder.path().join("pool.yaml"), pool).unwrap();
    }
    edit(&new, "chrony.yaml", "mode: 0o644", "mode: 0o600");
    let output = mcx(&["diff", path(&old), path(&new)]);
    assert_eq!(out(&output), "pools infra, worker\nfile /etc/chrony.conf changed: mode 0644 -> 0600\n");
    let source = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata: {name: 99-infra, labels: {machineconfiguration.alauda.io/role: infra}}
spec: {config: {ignition: {version: 3.4.0}, storage: {files: [{path: /etc/x, contents: {source: 'data:,x'}}]}}}
";
    fs::write(new.path().join("infra.yaml"), source).unwrap();
    let output = mcx(&["diff", path(&old), path(&new), "--stat"]);
    assert_eq!(
        out(&output),
        "pool infra\n\
         file /etc/chrony.conf  changed  +0 -0    mode\n\
         file /etc/x            added    +1 -0\n\
         2 items, +1 -0\n\
         pool worker\n\
         file /etc/chrony.conf  changed  +0 -0    mode\n\
         1 item, +0 -0\n"
    );
    let one = mcx(&["diff", path(&old), path(&new), "--pool", "worker"]);
    assert_eq!(out(&one), "file /etc/chrony.conf changed: mode 0644 -> 0600\n");
    let json = mcx(&["diff", path(&old), path(&new), "-o", "json"]);
    let value: Value = serde_json::from_str(out(&json)).unwrap();
    assert_eq!(value["different"], true);
    assert_eq!(value["diffs"][0]["pools"], json!(["infra"]));
    assert_eq!(
        value["diffs"][0]["items"][1]["texts"][0]["hunks"],
        json!([{"oldStart": 0, "newStart": 0, "lines": [{"sign": "+", "text": "x"}]}])
    );
    let same = mcx(&["diff", path(&old), path(&old), "-o", "json"]);
    assert_eq!(same.status.code(), Some(0));
    assert_eq!(serde_json::from_str::<Value>(out(&same)).unwrap()["different"], false);
}

#[test]
fn what_cannot_be_compared_is_not_called_different() {
    let bad = examples();
    edit(&bad, "chrony.yaml", "path: /etc/chrony.conf", "path: etc/chrony.conf");
    let none = tempfile::tempdir().unwrap();
    for (args, said) in [
        (&["diff", "examples", path(&bad)][..], "[file-path]"),
        (&["diff", "examples", "no-such-folder"], "cannot read no-such-folder"),
        (&["diff", "examples"], "values required"),
        (
            &["diff", "examples", "examples", "--pool", "infra"],
            "there is no pool \"infra\"; known here: master, worker",
        ),
        (&["diff", "examples", "examples", "--pool", "wroker"], "there is no pool \"wroker\"; did you mean worker?"),
        (&["diff", "examples", "examples", "--config", "x"], "cannot be used with"),
        (&["diff", "--root", path(&none)], "no current config"),
        (&["diff", "--root", path(&none), "--config", "rendered-x"], "it keeps: none"),
        (&["diff", "--root", path(&none), "--context", "x"], "name a rendered config"),
        (
            &["diff", "--root", path(&none), "-f", "examples", "--pool", "infra"],
            "there is no pool \"infra\"; known here: master, worker",
        ),
        (&["diff", "--root", "/no/such/root"], "cannot open the root /no/such/root"),
    ] {
        let output = mcx(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}{}", out(&output), err(&output));
        assert!(err(&output).contains(said), "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{args:?}");
    }
}

fn managed() -> Value {
    config(
        &[file("/etc/chrony.conf", "server a\nserver b\n", 0o644), file("/etc/binary", "\u{0}\u{1}", 0o600)],
        &[
            json!({"name": "app.service", "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
                   "enabled": true, "dropins": [{"name": "10-x.conf", "contents": "[Service]\nNice=1\n"}]}),
            json!({"name": "chronyd.service", "enabled": false}),
        ],
        Some(&[1]),
    )
}

/// All that is below a root, the state of mcx too.
fn everything(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path.clone());
            }
            found.push((path.display().to_string(), fs::read(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

#[test]
fn drift_is_shown_with_its_lines_beside_a_running_daemon() {
    let Some(node) = Node::new() else { return };
    node.update(&empty(), &managed());
    let root = node.root().to_str().unwrap();
    let same = mcx(&["diff", "--root", root]);
    assert_eq!((same.status.code(), out(&same), err(&same)), (Some(0), "", ""));
    node.write("/etc/chrony.conf", "server a\nserver c\n", 0o600);
    node.write("/etc/binary", "\u{0}\u{2}!", 0o600);
    node.write("/etc/systemd/system/app.service.d/10-x.conf", "[Service]\nNice=1", 0o644);
    node.systemctl(&["disable", "app.service"]);
    fs::remove_file(node.at("/home/boot/.ssh/authorized_keys")).unwrap();
    // A daemon holds the lock, and nothing of the disk changes by looking at it.
    let disk = node.disk();
    let before = everything(node.root());
    let output = mcx(&["diff", "--root", root]);
    assert!(everything(node.root()) == before, "something was written");
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let digest = |text: &str| {
        use sha2::Digest as _;
        sha2::Sha256::digest(text).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    };
    let expected = format!(
        "file /etc/binary changed\n  \
           has other contents\n\
         binary a/etc/binary: 3 bytes, sha256 {}\n\
         binary b/etc/binary: 2 bytes, sha256 {}\n\
         file /etc/chrony.conf changed\n  \
           has mode 0600, expected 0644\n  \
           has other contents (first difference in line 2)\n\
         --- a/etc/chrony.conf\n\
         +++ b/etc/chrony.conf\n\
         @@ -1,2 +1,2 @@\n \
         server a\n\
         -server c\n\
         +server b\n\
         unit app.service changed\n  \
           is disabled, expected enabled\n  \
           10-x.conf has other contents (only in blanks or line ends at its end)\n\
         --- a/etc/systemd/system/app.service.d/10-x.conf\n\
         +++ b/etc/systemd/system/app.service.d/10-x.conf\n\
         @@ -1,2 +1,2 @@\n \
         [Service]\n\
         -Nice=1\n\
         \\ No newline at end of file\n\
         +Nice=1\n\
         keys of boot added\n  \
           is missing\n\
         --- /dev/null\n\
         +++ b/home/boot/.ssh/authorized_keys\n\
         @@ -0,0 +1 @@\n\
         +{}\n",
        digest("\0\u{2}!"),
        digest("\0\u{1}"),
        key(1)
    );
    assert_eq!(out(&output), expected);
    // As many findings, in the same words, as the daemon reports.
    let json = mcx(&["diff", "--root", root, "-o", "json"]);
    let value: Value = serde_json::from_str(out(&json)).unwrap();
    let said: Vec<&Value> = value["diffs"][0]["items"].as_array().unwrap().iter().map(|i| &i["deviations"]).collect();
    let count: usize = said.iter().map(|list| list.as_array().unwrap().len()).sum();
    assert_eq!(count, node.deviations(&disk, &managed()).len());
    assert_eq!(value["diffs"][0]["config"], named(&managed()).name.as_str());
}

#[test]
fn what_stands_in_a_file_s_place_is_named_and_not_followed() {
    let Some(node) = Node::new() else { return };
    node.update(&empty(), &managed());
    node.write("/etc/secret", "nobody asked for this\n", 0o600);
    fs::remove_file(node.at("/etc/chrony.conf")).unwrap();
    node.link("/etc/secret", "/etc/chrony.conf");
    let output = mcx(&["diff", "--root", node.root().to_str().unwrap()]);
    assert_eq!(out(&output), "file /etc/chrony.conf changed\n  is a symlink, expected a file\n");
}

#[test]
fn a_disk_is_compared_with_files_and_with_the_configs_it_keeps() {
    let Some(node) = Node::new() else { return };
    let old = config(&[file("/etc/x", "1\n", 0o644)], &[], None);
    let new = config(&[file("/etc/x", "2\n", 0o644)], &[], None);
    node.update(&empty(), &old);
    let root = node.root().to_str().unwrap();
    let source = json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfig",
        "metadata": {"name": "50-x", "labels": {"machineconfiguration.alauda.io/role": "worker"}}, "spec": {"config": new}});
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.json"), source.to_string()).unwrap();
    // The pool is that of the current config.
    let output = mcx(&["diff", "--root", root, "-f", path(&folder)]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(out(&output).ends_with("@@ -1 +1 @@\n-1\n+2\n"), "{}", out(&output));
    // An update that is under way is said, and both of its configs can be named.
    let disk = node.disk();
    Node::open(&disk, &old, &new);
    let current = mcx(&["diff", "--root", root]);
    assert_eq!(current.status.code(), Some(0));
    assert!(err(&current).contains("is under way"), "{}", err(&current));
    let next = mcx(&["diff", "--root", root, "--config", named(&new).name.as_str()]);
    assert_eq!(next.status.code(), Some(1));
    assert!(out(&next).ends_with("-1\n+2\n"), "{}", out(&next));
    let unknown = mcx(&["diff", "--root", root, "--config", "rendered-worker-00"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err(&unknown).contains(named(&old).name.as_str()), "{}", err(&unknown));
}

/// Answers every request with this status and body; a kubeconfig that leads there.
fn server(status: &'static str, body: String) -> tempfile::NamedTempFile {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let request = BufReader::new(stream.try_clone().unwrap());
            let _head = request.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    file.write_all(text.to_string().as_bytes()).unwrap();
    file
}

#[test]
fn a_disk_is_compared_with_a_config_of_a_cluster() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("etc")).unwrap();
    let output = mcx(&["render", "--pool", "worker", "-f", "examples/chrony.yaml", "-o", "json"]);
    let rendered = server("200 OK", out(&output).to_owned());
    let name = serde_json::from_str::<Value>(out(&output)).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let ask = |kubeconfig: &tempfile::NamedTempFile, name: &str| {
        mcx(&["diff", "--root", path(&root), "--config", name, "--kubeconfig", kubeconfig.path().to_str().unwrap()])
    };
    let output = ask(&rendered, &name);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(out(&output).starts_with("file /etc/chrony.conf added\n  is missing\n--- /dev/null\n"), "{}", out(&output));
    let source = json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfig",
        "metadata": {"name": "50-x"}, "spec": {}});
    let output = ask(&server("200 OK", source.to_string()), "50-x");
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("MachineConfig/50-x is a source"), "{}", err(&output));
    let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
        "message": "machineconfigs \"rendered-x\" not found"});
    let output = ask(&server("404 Not Found", gone.to_string()), "rendered-x");
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("not found") && err(&output).lines().count() == 1, "{}", err(&output));
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask() {
    let changed = examples();
    edit(&changed, "chrony.yaml", "mode: 0o644", "mode: 0o600");
    edit(&changed, "ssh.yaml", "- ssh-rsa <ssh-public-key>", "- ssh-rsa other");
    let with = |variable: &str| {
        let output = command(&["diff", "examples", path(&changed)]).env(variable, "1").output().unwrap();
        out(&output).to_owned()
    };
    let forced = with("CLICOLOR_FORCE");
    assert!(forced.contains("\u{1b}[31m-ssh-rsa <ssh-public-key>\u{1b}[0m\n"), "{forced:?}");
    assert!(!with("NO_COLOR").contains('\u{1b}'));
    assert!(!out(&mcx(&["diff", "examples", path(&changed)])).contains('\u{1b}'));
}

#[test]
fn contents_come_out_byte_for_byte_where_no_terminal_reads_them() {
    // What a terminal would obey must not get lost on the way to `patch`.
    let folder = |text: &str| {
        let source = json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfig",
            "metadata": {"name": "50-x", "labels": {"machineconfiguration.alauda.io/role": "worker"}},
            "spec": {"config": config(&[file("/etc/x", text, 0o644)], &[], None)}});
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.json"), source.to_string()).unwrap();
        folder
    };
    let (old, new) = (folder("a\r\n\u{1b}[31mred\n"), folder("a\r\n\u{1b}[32mgreen\n"));
    let output = mcx(&["diff", path(&old), path(&new)]);
    assert!(out(&output).ends_with("@@ -1,2 +1,2 @@\n a\r\n-\u{1b}[31mred\n+\u{1b}[32mgreen\n"), "{:?}", out(&output));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let changed = examples();
    edit(&changed, "chrony.yaml", "mode: 0o644", "mode: 0o600");
    let mut child =
        command(&["diff", "examples", path(&changed)]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(1), "it is still different");
}
