//! Behaviour: actions and enablement on a systemd that runs, with units of every kind. This program is copied into a booted
//! node of the rig, without a cluster, and runs there as the daemon's library does.

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "test code outside of #[test] functions")]

use mcx::change::Action;
use mcx::node::actions::{self, Outcome};
use mcx::node::disk::Disk;
use mcx::node::host::Host;
use mcx::node::journal::{Journal, NamedConfig, NotedAction, Stage, VERSION};
use mcx::render::items::Items;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Set for the copy inside the node.
const INSIDE: &str = "MCX_TEST_INSIDE";
const NODE: &str = "systemd1";

/// The rig's script for nodes.
fn node(op: &[&str]) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rig/node.sh");
    let rig = std::env::var("MCX_RIG").expect("MCX_RIG: the folder of a rig");
    let output = Command::new(script).args(op).env("RIG", rig).env("BARE", "1").output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// A booted node that goes with the test.
struct Booted;

impl Booted {
    fn start() -> Self {
        node(&["rm", NODE]);
        let this = Self;
        for op in [&["start", NODE][..], &["wait", NODE, "120"]] {
            let (is_well, said) = node(op);
            assert!(is_well, "{op:?}: {said}");
        }
        this
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        node(&["rm", NODE]);
    }
}

#[test]
#[ignore = "needs the rig: make test"]
fn units_of_every_kind_are_acted_on_as_said() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let _booted = Booted::start();
    let shared = Path::new(&std::env::var("MCX_RIG").unwrap()).join("nodes").join(NODE).join("rig");
    fs::copy(std::env::current_exe().unwrap(), shared.join("test")).unwrap();
    let set = format!("{INSIDE}=1");
    let (is_well, said) = node(&["exec", NODE, "env", &set, "/rig/test", "--ignored", "--nocapture"]);
    println!("{said}");
    assert!(is_well, "{said}");
}

fn systemctl(args: &[&str]) -> String {
    let output = Command::new("systemctl").args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

struct Here {
    disk: Disk,
    runtime: tokio::runtime::Runtime,
}

fn named(config: &Value) -> NamedConfig {
    let name = if *config == json!({}) {
        String::new()
    } else {
        format!("rendered-worker-{}", Items::from_config(config).unwrap().hash())
    };
    NamedConfig { name: name.into(), config: config.clone().into(), ..NamedConfig::default() }
}

fn units(units: &[Value]) -> Value {
    json!({"ignition": {"version": "3.4.0"}, "systemd": {"units": units}})
}

impl Here {
    /// An update with its actions; undone when they do not work. What was said then.
    fn update(&self, from: &Value, to: &Value, list: &[Action]) -> Result<Journal, String> {
        let noted = |action: &Action| NotedAction { action: action.clone(), begun: 0, done: false };
        let mut journal = Journal {
            version: VERSION,
            from: named(from),
            to: named(to),
            stage: Stage::Opened,
            actions: list.iter().map(noted).collect(),
            policy_generation: 1,
            boot_id: None,
            node_uid: None,
            forced: false,
            failure: None,
            guard: None,
        };
        self.disk.write_journal(&journal).unwrap();
        self.runtime.block_on(async {
            self.disk.forward(&mut journal).await.map_err(|error| error.to_string())?;
            match actions::run(&self.disk, journal, Duration::from_secs(2)).await {
                Outcome::Done(journal) => {
                    self.disk.close().unwrap();
                    Ok(journal)
                }
                Outcome::Failed(mut journal, text) => {
                    // Without a bus an undo waits until there is one again.
                    mend_bus();
                    self.disk.back(&mut journal).await.unwrap();
                    journal.actions.iter_mut().for_each(|action| action.done = false);
                    let undone = actions::run(&self.disk, journal, Duration::from_secs(1)).await;
                    assert!(matches!(undone, Outcome::Done(_)), "{undone:?}");
                    self.disk.close().unwrap();
                    Err(text)
                }
                Outcome::Unrecorded(_, error) => panic!("{error}"),
            }
        })
    }
}

const BODY: &str = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

fn inside() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let host = Arc::new(Host::open(Path::new("/")).unwrap());
    let disk = runtime.block_on(Disk::open(host, Duration::from_secs(5))).unwrap();
    let here = Here { disk, runtime };
    starts(&here);
    others(&here);
    no_bus(&here);
    enablement(&here);
}

/// Units of the config that start, or do not.
fn starts(here: &Here) {
    let cases = [
        ("runs", "[Service]\nExecStart=/bin/sleep infinity\n", None),
        ("ends well", "[Service]\nType=oneshot\nExecStart=/bin/true\n", None),
        ("is not met", "[Unit]\nConditionPathExists=/nowhere\n[Service]\nExecStart=/bin/sleep infinity\n", None),
        ("fails", "[Service]\nType=oneshot\nExecStart=/bin/false\n", Some("`systemctl restart t.service` failed")),
        ("fails later", "[Service]\nExecStart=/bin/sh -c 'sleep 0.5; exit 3'\n", Some("t.service is failed")),
        (
            "fails again and again",
            "[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=100ms\n",
            Some("t.service"),
        ),
        (
            "hangs in its start",
            "[Service]\nType=notify\nExecStart=/bin/sleep infinity\nTimeoutStartSec=2\n",
            Some("`systemctl restart t.service` failed"),
        ),
        ("is no program", "[Service]\nExecStart=/no/such/program\n", Some("t.service")),
        ("is no unit", "[Service]\n", Some("`systemctl restart t.service` failed")),
        ("needs what fails", "[Unit]\nRequires=none.service\n[Service]\nExecStart=/bin/sleep 99\n", Some("t.service")),
    ];
    for (what, body, expected) in cases {
        let to = units(&[json!({"name": "t.service", "contents": body})]);
        let list = [Action::DaemonReload, Action::Restart("t.service".into())];
        let begun = Instant::now();
        let ended = here.update(&json!({}), &to, &list);
        println!("a unit that {what}: {:.1?}, {:?}", begun.elapsed(), ended.as_ref().err());
        match (ended, expected) {
            (Ok(journal), None) => {
                assert!(journal.actions.iter().all(|action| action.done && action.begun == 1), "{what}: {journal:?}");
                here.update(&to, &json!({}), &list).unwrap();
            }
            (Err(text), Some(said)) => assert!(text.contains(said) && text.contains("journalctl -u"), "{what}: {text}"),
            (ended, _) => panic!("{what}: {ended:?}"),
        }
        assert!(!Path::new("/etc/systemd/system/t.service").exists(), "{what}");
        assert_ne!(systemctl(&["is-active", "t.service"]), "active", "{what}: it still runs");
        assert_eq!(systemctl(&["--failed", "--no-legend", "--plain", "list-units", "t.service"]), "", "{what}");
    }
}

/// Units that are somebody else's.
fn others(here: &Here) {
    fs::write("/etc/systemd/system/own.service", format!("{BODY}Alias=other-name.service\n")).unwrap();
    fs::write("/etc/systemd/system/inst@.service", "[Service]\nExecStart=/bin/sleep infinity\n").unwrap();
    systemctl(&["daemon-reload"]);
    systemctl(&["enable", "--now", "own.service"]);
    systemctl(&["mask", "--runtime", "none-masked.service"]);
    Command::new("systemd-run").args(["--unit=passing", "sleep", "infinity"]).output().unwrap();
    let mut at = json!({});
    for (n, (unit, restarts)) in [
        ("none.service", false),
        ("none-masked.service", false),
        ("own.service", true),
        ("other-name.service", true),
        ("inst@a.service", true),
        ("systemd-journald.service", true),
        ("-.mount", false),
    ]
    .into_iter()
    .enumerate()
    {
        let to = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/mcx-test.conf",
            "mode": 420, "overwrite": true, "contents": {"source": format!("data:,{n}")}}]}});
        let before = systemctl(&["show", "--value", "-p", "InvocationID", unit]);
        let ended = here.update(&at, &to, &[Action::Restart(unit.into())]);
        let is_new = systemctl(&["show", "--value", "-p", "InvocationID", unit]) != before;
        println!("restart of {unit}: {:?}, started anew: {is_new}", ended.as_ref().err());
        // The root's mount is one that systemd refuses to restart.
        assert_eq!(ended.is_ok(), unit != "-.mount", "{unit}: {ended:?}");
        assert_eq!(is_new, restarts, "{unit}");
        if ended.is_ok() {
            at = to;
        }
    }
    // One that is gone as soon as it is stopped cannot be started again: that is said, and no more.
    let to = json!({"ignition": {"version": "3.4.0"}});
    let ended = here.update(&at, &to, &[Action::Restart("passing.service".into())]);
    println!("restart of a transient unit: {ended:?}");
    if ended.is_ok() {
        at = to;
    }
    here.update(&at, &json!({}), &[]).unwrap();
    for unit in ["own.service", "inst@a.service"] {
        systemctl(&["disable", "--now", unit]);
    }
    systemctl(&["unmask", "--runtime", "none-masked.service"]);
}

/// Where `systemctl` is answered, and where that is put aside.
const BUS: [(&str, &str); 2] = [
    ("/run/systemd/private", "/run/systemd/private.aside"),
    ("/run/dbus/system_bus_socket", "/run/dbus/system_bus_socket.aside"),
];

fn mend_bus() {
    for (at, aside) in BUS {
        let _ = fs::rename(aside, at);
    }
}

/// Nobody answers `systemctl`.
fn no_bus(here: &Here) {
    for (at, aside) in BUS {
        // There need not be a D-Bus daemon.
        let _ = fs::rename(at, aside);
    }
    let to = units(&[json!({"name": "t.service", "contents": BODY})]);
    let begun = Instant::now();
    let ended = here.update(&json!({}), &to, &[Action::DaemonReload, Action::Restart("t.service".into())]);
    mend_bus();
    let text = ended.unwrap_err();
    println!("no bus: {:.1?}, {text}", begun.elapsed());
    assert!(text.contains("systemctl daemon-reload") && text.contains("connect"), "{text}");
    assert!(!Path::new("/etc/systemd/system/t.service").exists());
}

/// Links and masks, by a `systemctl` that asks the systemd that runs.
fn enablement(here: &Here) {
    fs::write("/etc/linked.service", BODY).unwrap();
    let link = Path::new("/etc/systemd/system/linked.service");
    std::os::unix::fs::symlink("/etc/linked.service", link).unwrap();
    systemctl(&["daemon-reload"]);
    systemctl(&["enable", "--runtime", "linked.service"]);
    let reload = [Action::DaemonReload];
    let set = |on: bool| units(&[json!({"name": "linked.service", "enabled": on})]);
    here.update(&json!({}), &set(true), &reload).unwrap();
    assert_eq!(systemctl(&["is-enabled", "linked.service"]), "enabled");
    here.update(&set(true), &set(false), &reload).unwrap();
    let word = systemctl(&["is-enabled", "linked.service"]);
    assert!(link.is_symlink() && ["linked", "disabled"].contains(&word.as_str()), "{word}");
    let masked = units(&[json!({"name": "linked.service", "mask": true})]);
    here.update(&set(false), &masked, &reload).unwrap();
    assert_eq!(systemctl(&["is-enabled", "linked.service"]), "masked");
    here.update(&masked, &json!({}), &reload).unwrap();
    assert_eq!(fs::read_link(link).unwrap(), Path::new("/etc/linked.service"));
    println!("links, runtime links and masks are as they were");
}
