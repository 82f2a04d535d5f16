//! What is nobody's business: state and staged files are root's alone from the moment they are made, and no content is told.
//! And what is none of ours: the environment of the process does not matter.

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "test code outside of #[test] functions")]

#[path = "support/node_api.rs"]
mod node_api;
#[path = "support/node_lives.rs"]
mod node_lives;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/sweep.rs"]
mod sweep;
#[path = "support/sysfault.rs"]
mod sysfault;

use base64::Engine as _;
use node_api::NodeApi;
use node_lives::is_staged;
use node_root::{Node, assert_same, config, file, key};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use sweep::Scenario;
use sysfault::{Call, Fault, Set};

fn is_state(path: &str) -> bool {
    path == "/var/lib/mcx" || path.starts_with("/var/lib/mcx/")
}

/// What others could have read at some moment.
fn open_to_others(calls: &[Call]) -> Vec<String> {
    let mut wrong = Vec::new();
    // Staged files that have a mode by which others can read them: they must be whole by then.
    let mut open: BTreeMap<&str, u32> = BTreeMap::new();
    for call in calls.iter().filter(|call| is_state(&call.path) || is_staged(&call.path)) {
        let shown = || format!("{} {} {:04o}", call.name, call.path, call.mode.unwrap_or_default());
        let is_open = call.mode.is_some_and(|mode| mode & 0o077 != 0);
        match call.name.as_str() {
            "fchmod" | "fchmodat" if is_staged(&call.path) && !is_state(&call.path) => {
                open.insert(&call.path, call.mode.unwrap());
            }
            "unlinkat" | "renameat" | "renameat2" => drop(open.remove(call.path.as_str())),
            "write" if open.get(call.path.as_str()).is_some_and(|mode| mode & 0o077 != 0) => wrong.push(shown()),
            _ if is_open => wrong.push(shown()),
            _ => {}
        }
    }
    wrong
}

#[test]
fn what_is_staged_or_kept_is_never_readable_by_others_from_the_moment_it_is_made() {
    let call = |name: &str, path: &str, mode| Call { name: name.into(), path: path.into(), mode };
    // The judge sees what it is there to see.
    for bad in [
        vec![call("openat", "/etc/.mcx-1", Some(0o644))],
        vec![call("mkdirat", "/var/lib/mcx", Some(0o755))],
        vec![call("fchmod", "/var/lib/mcx/.mcx-1", Some(0o640))],
        vec![call("fchmod", "/etc/.mcx-1", Some(0o644)), call("write", "/etc/.mcx-1", None)],
    ] {
        assert_eq!(open_to_others(&bad).len(), 1, "{bad:?}");
    }
    let mut made = 0;
    for scenario in Scenario::all() {
        let node = scenario.template.copy();
        let mut argv: Vec<PathBuf> = ["sh", "-c", "umask 000; exec \"$@\"", "sh"].map(PathBuf::from).into();
        argv.extend(scenario.argv(&node, scenario.wish));
        let ended = sysfault::run(scenario.tool, node.root(), Set::Change, Fault::None, &argv);
        assert_eq!(open_to_others(&ended.calls), Vec::<String>::new(), "{}", scenario.name);
        assert_same(&node.tree(), &scenario.to, scenario.name);
        let makes = |call: &&Call| call.mode.is_some() && (is_state(&call.path) || is_staged(&call.path));
        made += ended.calls.iter().filter(makes).count();
    }
    println!("{made} calls that make something or set a mode, under umask 000");
    assert!(made > 100 || sysfault::tool().is_none());
}

#[test]
fn environment_working_directory_and_umask_do_not_matter() {
    for scenario in Scenario::all() {
        let odd = [
            ("PATH", ""),
            ("HOME", "/nowhere"),
            ("TMPDIR", "/nowhere"),
            ("LC_ALL", "tr_TR.UTF-8"),
            ("LANG", "ja_JP.eucJP"),
            ("LANGUAGE", "de"),
            ("SYSTEMD_COLORS", "1"),
            ("SYSTEMD_LOG_LEVEL", "debug"),
            ("SYSTEMD_UNIT_PATH", "/nowhere"),
            ("SYSTEMD_PAGER", "false"),
            ("TZ", "Pacific/Kiritimati"),
            ("LD_LIBRARY_PATH", "/nowhere"),
        ];
        for (variables, umask) in [(&[][..], "022"), (&odd[..], "777"), (&odd[..], "000")] {
            let node = scenario.template.copy();
            let gone = tempfile::tempdir().unwrap();
            let mut command = Command::new("/bin/sh");
            // The folder that it is in is gone, and it has no input.
            command.args(["-c", &format!("/bin/rmdir \"$PWD\"; umask {umask}; exec \"$@\" <&-"), "sh"]);
            command.args(scenario.argv(&node, scenario.wish)).current_dir(gone.path());
            command.env_clear().envs(variables.iter().copied());
            let output = command.output().unwrap();
            let expected = if scenario.wish == sweep::Wish::Failing { 2 } else { 0 };
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(expected), "{}, umask {umask}: {said}", scenario.name);
            assert_same(&node.tree(), &scenario.to, &format!("{}, umask {umask}", scenario.name));
        }
    }
}

/// In each item, and in what a person writes over it.
const CANARY: &str = "canary-7f3a";

/// A daemon below the tool, which does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(tool: &Path, node: &Node, dir: &Path, server: std::net::SocketAddr) -> Running {
    let kubeconfig = dir.join("kubeconfig");
    fs::write(&kubeconfig, node_api::kubeconfig(server, &format!("token: {CANARY}-token"))).unwrap();
    let log = fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
    let child = sysfault::command(tool, node.root(), Set::Change, Fault::None, &dir.join("calls"))
        .arg(env!("CARGO_BIN_EXE_mcx"))
        .args(["daemon", "--node-name", "n1", "--listen", "127.0.0.1:0", "--watch-time", "10ms", "--log", "trace"])
        .arg("--root")
        .arg(node.root())
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .env("SYSFAULT_EXECS", dir.join("execs"))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    Running(child)
}

fn until(api: &NodeApi, what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        api.serve_drains();
        assert!(start.elapsed() < Duration::from_secs(90), "{what} never came: {:?}", api.state().node);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn with_canaries(which: &str, alias: &str) -> Value {
    let text = format!("{CANARY} {which}\n");
    let unit = format!(
        "[Service]\nExecStart=/bin/true\nEnvironment=PASSWORD={CANARY}-{which}\n[Install]\nWantedBy=multi-user.target\n{alias}"
    );
    let dropin = format!("[Service]\nEnvironment=TOKEN={CANARY}-{which}\n");
    config(
        &[file("/etc/secret.conf", &text, 0o600), file("/etc/bad.conf", &text, 0o644)],
        &[
            json!({"name": "app.service", "enabled": true, "contents": unit, "dropins": [{"name": "x.conf", "contents": dropin}]}),
        ],
        Some(&[7]),
    )
}

#[test]
fn no_content_is_in_logs_events_reasons_arguments_or_the_environment() {
    let (Some(node), Some(tool)) = (Node::lasting(), sysfault::tool()) else { return };
    node.write("/etc/secret.conf", &format!("{CANARY} of before\n"), 0o600);
    node.vendor(
        "taken.service",
        &format!("[Service]\nExecStart=/bin/true\n# {CANARY}\n[Install]\nAlias=shared.service\n"),
    );
    node.systemctl(&["enable", "taken.service"]);
    let api = NodeApi::new();
    api.state().policy = Some(node_api::policy_of_no_cost());
    api.config("rendered-w-1", &with_canaries("one", ""));
    // It fails in the middle, when the alias turns out to be taken, and is undone.
    api.config("rendered-w-2", &with_canaries("two", "Alias=shared.service\n"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(api.serve());
    let dir = tempfile::tempdir().unwrap();
    let running = start(tool, &node, dir.path(), server);
    until(&api, "the first Done", || api.annotation("state") == "Done");
    api.annotate("desiredConfig", "rendered-w-1");
    until(&api, "the update", || {
        api.annotation("currentConfig") == "rendered-w-1" && api.annotation("state") == "Done"
    });

    let paths = [
        "/etc/secret.conf",
        "/etc/bad.conf",
        "/etc/systemd/system/app.service",
        "/etc/systemd/system/app.service.d/x.conf",
        "/home/boot/.ssh/authorized_keys",
    ];
    for path in paths {
        let before = fs::read(node.at(path)).unwrap();
        fs::write(node.at(path), format!("{CANARY} by hand\n")).unwrap();
        until(&api, "drift", || api.annotation("reason").starts_with("Drift:"));
        fs::write(node.at(path), before).unwrap();
        until(&api, "healed", || api.annotation("state") == "Done");
    }
    api.annotate("desiredConfig", "rendered-w-2");
    until(&api, "the failure", || api.annotation("reason").contains("app.service"));
    // The state is damaged, and read again.
    drop(running);
    let journal = node.at("/var/lib/mcx/current.json");
    let damaged = fs::read_to_string(&journal).unwrap().replacen("ignition", "ignitiom", 1);
    fs::write(&journal, damaged).unwrap();
    let running = start(tool, &node, dir.path(), server);
    until(&api, "the damage", || api.annotation("reason").contains("current.json"));
    drop(running);

    let blob = key(7).split(' ').nth(1).unwrap().to_owned();
    let encoded = base64::engine::general_purpose::STANDARD.encode(CANARY);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let said = api.state().said.clone();
    assert!(said.iter().any(|text| text.contains("Drift:")) && said.iter().any(|text| text.contains("UpdateFailed")));
    let execs = read("execs");
    assert!(execs.lines().filter(|line| line.starts_with("systemctl")).count() > 3, "{execs}");
    for (where_, text) in [("the log", read("log")), ("arguments or environment", execs), ("the API", said.join("\n"))]
    {
        assert!(text.len() > 1000, "{where_} says nothing");
        for word in [CANARY, &blob[30..], &encoded[..12]] {
            let found = text.lines().find(|line| line.contains(word));
            assert_eq!(found, None, "{where_} holds {word}");
        }
        println!("{where_}: {} bytes, no content", text.len());
    }
    // It is where it belongs.
    assert!(node.tree().into_iter().any(|(_, entry)| String::from_utf8_lossy(&entry.4).contains(CANARY)));
}
