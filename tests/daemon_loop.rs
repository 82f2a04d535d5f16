//! The daemon on a node's root, against an API server in memory: join, update, drift, force, outage, crash.
//! No service manager runs in the root, so actions are skipped; the rig runs them for real.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_api.rs"]
mod node_api;
#[path = "support/node_root.rs"]
mod node_root;

use mcx::api::NodeName;
use mcx::node::cluster::Cluster;
use mcx::node::daemon::{self, Metrics, Options};
use mcx::node::disk::Disk;
use mcx::node::host::Host;
use node_api::NodeApi;
use node_root::{Node, config, file};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const FORCE: &str = "/run/machine-config-daemon-force";

/// A daemon that runs beside the test.
struct Running {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn start(node: &Node, api: &NodeApi) -> Running {
    let (root, client) = (node.root().to_owned(), api.client());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = tokio::spawn(async move {
        let host = Host::open(&root).unwrap().with_program(PathBuf::from(env!("CARGO_BIN_EXE_mcx")));
        let disk = Disk::open(Arc::new(host), Duration::from_secs(10)).await.unwrap();
        let cluster = Cluster::new(client, NodeName::from("n1"));
        let options = Options { watch_time: Duration::from_millis(100), ..Options::default() };
        let ready = Arc::new(AtomicBool::new(false));
        daemon::run(disk, cluster, options, Metrics::default(), ready, stopped).await.unwrap();
    });
    Running { stop, task }
}

impl Running {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// Ended at whatever point it is.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Waits until `is` holds, serving drains as the controller does.
async fn until(api: &NodeApi, what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        api.serve_drains();
        assert!(
            start.elapsed() < Duration::from_mins(1),
            "{what} never came; {:?}, {:?}",
            api.state().node,
            api.state().story
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn done_at<'a>(api: &'a NodeApi, config: &'a str) -> impl Fn() -> bool + 'a {
    move || api.annotation("state") == "Done" && api.annotation("currentConfig") == config
}

fn hello(text: &str) -> Value {
    config(&[file("/etc/hello.conf", text, 0o644)], &[], None)
}

/// Files cost a reboot under this policy.
fn reboot_policy() -> Value {
    json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfiguration",
        "metadata": {"name": "cluster", "generation": 2}, "spec": {},
        "status": {"observedGeneration": 2, "nodeDisruptionPolicyStatus": {
            "clusterPolicies": {"files": [{"path": "/etc/hello.conf", "actions": [{"type": "Reboot"}]}]},
            "defaultActions": {"files": [{"type": "None"}], "units": [{"type": "Reboot"}]}}}})
}

/// A node that has joined and is Done without a config.
async fn joined(node: &Node) -> (NodeApi, Running) {
    let api = NodeApi::new();
    api.config("rendered-w-1", &hello("one\n"));
    api.config("rendered-w-2", &hello("two\n"));
    let running = start(node, &api);
    until(&api, "Done", done_at(&api, "")).await;
    (api, running)
}

/// Runs a test on the kind of runtime that the daemon has.
fn run(test: impl AsyncFnOnce(&Node)) {
    if std::env::var_os("RUST_LOG").is_some() {
        // For whoever looks into a failure; a second test of the process finds it set up.
        let _ = mcx::logging::init(&mcx::logging::Args {
            format: mcx::logging::Format::Text,
            filter: std::env::var("RUST_LOG").ok(),
        });
    }
    let Some(node) = Node::lasting() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test(&node));
}

#[test]
fn an_update_without_actions_neither_cordons_nor_drains_and_withdrawing_gives_back() {
    run(async |node| {
        let (api, running) = joined(node).await;
        api.annotate("desiredConfig", "rendered-w-1");
        let start = Instant::now();
        until(&api, "the file", done_at(&api, "rendered-w-1")).await;
        assert_eq!(node.read("/etc/hello.conf"), "one\n");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        assert_eq!(api.annotation("desiredDrain"), "");
        assert_eq!(api.annotation("phase"), "");
        let story = api.state().story.clone();
        assert_eq!(story, ["Done", "Claimed", "Applying", "Done"]);
        api.config("rendered-w-0", &config(&[], &[], None));
        api.annotate("desiredConfig", "rendered-w-0");
        until(&api, "the withdrawal", done_at(&api, "rendered-w-0")).await;
        assert!(!node.at("/etc/hello.conf").exists());
        running.stop().await;
    });
}

#[test]
fn drift_is_told_within_a_second_and_healed_by_hand_without_anything_else() {
    run(async |node| {
        let (api, running) = joined(node).await;
        api.annotate("desiredConfig", "rendered-w-1");
        until(&api, "the file", done_at(&api, "rendered-w-1")).await;
        node.write("/etc/hello.conf", "by hand\n", 0o644);
        let start = Instant::now();
        until(&api, "drift", || api.annotation("reason").starts_with("Drift:")).await;
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert_eq!(api.annotation("state"), "Degraded");
        assert_eq!(api.annotation("currentConfig"), "rendered-w-1");
        assert!(api.annotation("reason").contains("/etc/hello.conf"), "{}", api.annotation("reason"));
        assert_eq!(node.read("/etc/hello.conf"), "by hand\n", "nothing is overwritten");
        api.annotate("desiredConfig", "rendered-w-2");
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(node.read("/etc/hello.conf"), "by hand\n", "nor is a new config taken");
        api.annotate("desiredConfig", "rendered-w-1");
        node.write("/etc/hello.conf", "one\n", 0o644);
        until(&api, "healed", done_at(&api, "rendered-w-1")).await;
        assert_eq!(api.annotation("desiredDrain"), "");
        let events = api.state().events.clone();
        assert!(events.iter().any(|e| e == "ConfigDriftDetected") && events.iter().any(|e| e == "ConfigDriftHealed"));
        running.stop().await;
    });
}

/// Waits for the reboot that is asked for and lets it happen.
async fn boot(node: &Node, api: &NodeApi, running: Running, boot_id: &str) -> Running {
    until(api, "the reboot", || api.annotation("phase").starts_with("Rebooting")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_ne!(api.annotation("state"), "Done");
    assert!(api.is_cordoned(), "rebooted undrained");
    running.kill().await;
    node.write("/proc/sys/kernel/random/boot_id", boot_id, 0o444);
    let _ = std::fs::remove_file(node.at(FORCE));
    start(node, api)
}

#[test]
fn a_reboot_is_drained_proven_verified_uncordoned_and_only_then_done() {
    run(async |node| {
        let (api, running) = joined(node).await;
        api.state().policy = Some(reboot_policy());
        api.annotate("desiredConfig", "rendered-w-1");
        let running = boot(node, &api, running, "boot-2").await;
        until(&api, "Done", done_at(&api, "rendered-w-1")).await;
        assert!(!api.is_cordoned());
        assert_eq!(api.annotation("desiredDrain"), "uncordon-rendered-w-1-2");
        let story = api.state().story.clone();
        let expected = ["Done", "Claimed", "Draining", "Applying", "Rebooting", "Verifying", "Uncordoning", "Done"];
        assert_eq!(story, expected, "seven writes for a whole update");
        running.stop().await;
    });
}

#[test]
fn without_a_changed_boot_id_a_restarted_daemon_never_says_done() {
    run(async |node| {
        let (api, running) = joined(node).await;
        api.state().policy = Some(reboot_policy());
        api.annotate("desiredConfig", "rendered-w-1");
        let boot_id = node.read("/proc/sys/kernel/random/boot_id");
        let running = boot(node, &api, running, &boot_id).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(api.annotation("state"), "Working");
        assert_eq!(api.annotation("currentConfig"), "");
        assert!(api.is_cordoned());
        running.stop().await;
    });
}

#[test]
fn the_force_file_reapplies_what_drifted_with_a_reboot_and_goes() {
    run(async |node| {
        let (api, running) = joined(node).await;
        api.annotate("desiredConfig", "rendered-w-1");
        until(&api, "the file", done_at(&api, "rendered-w-1")).await;
        node.write("/etc/hello.conf", "by hand\n", 0o600);
        until(&api, "drift", || api.annotation("state") == "Degraded").await;
        node.write(FORCE, "", 0o644);
        until(&api, "the reboot", || api.annotation("phase").starts_with("Rebooting")).await;
        assert_eq!(node.read("/etc/hello.conf"), "one\n");
        assert!(!node.at(FORCE).exists(), "removed before the reboot");
        let running = boot(node, &api, running, "boot-2").await;
        until(&api, "Done", done_at(&api, "rendered-w-1")).await;
        assert!(!api.is_cordoned());
        running.stop().await;
    });
}

#[test]
fn with_the_api_away_nothing_is_begun_and_a_waiting_node_catches_up() {
    run(async |node| {
        let (api, running) = joined(node).await;
        api.state().cut = true;
        api.annotate("desiredConfig", "rendered-w-1");
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!node.at("/etc/hello.conf").exists());
        api.state().cut = false;
        until(&api, "the file", done_at(&api, "rendered-w-1")).await;
        running.stop().await;
    });
}

#[test]
fn an_obstacle_is_told_and_the_update_goes_on_by_itself_once_it_is_gone() {
    run(async |node| {
        let (api, running) = joined(node).await;
        std::fs::create_dir_all(node.at("/etc/hello.conf/full")).unwrap();
        api.annotate("desiredConfig", "rendered-w-1");
        until(&api, "the obstacle", || api.annotation("state") == "Degraded").await;
        let reason = api.annotation("reason");
        assert!(reason.contains("/etc/hello.conf") && !reason.starts_with("Drift:"), "{reason}");
        assert_eq!(api.annotation("desiredDrain"), "", "found before the drain");
        std::fs::remove_dir_all(node.at("/etc/hello.conf")).unwrap();
        until(&api, "the file", done_at(&api, "rendered-w-1")).await;
        assert_eq!(api.annotation("reason"), "");
        running.stop().await;
    });
}

#[test]
fn killed_at_any_moment_the_update_ends_right() {
    run(async |node| {
        let (api, mut running) = joined(node).await;
        for round in 0..40_u64 {
            let target = if round % 2 == 0 { "rendered-w-1" } else { "rendered-w-2" };
            api.annotate("desiredConfig", target);
            tokio::time::sleep(Duration::from_millis(round * 3 % 70)).await;
            running.kill().await;
            running = start(node, &api);
            until(&api, target, done_at(&api, target)).await;
            let expected = if round % 2 == 0 { "one\n" } else { "two\n" };
            assert_eq!(node.read("/etc/hello.conf"), expected, "round {round}");
        }
        running.stop().await;
    });
}

#[test]
fn a_node_that_was_registered_again_says_what_it_has() {
    run(async |node| {
        let (api, running) = joined(node).await;
        api.annotate("desiredConfig", "rendered-w-1");
        until(&api, "the file", done_at(&api, "rendered-w-1")).await;
        api.register();
        until(&api, "the new Node", done_at(&api, "rendered-w-1")).await;
        assert_eq!(api.annotation("desiredConfig"), "");
        running.stop().await;
    });
}

#[test]
fn a_missing_policy_generation_is_waited_for() {
    run(async |node| {
        let (api, running) = joined(node).await;
        let mut policy = reboot_policy();
        policy["metadata"]["generation"] = json!(3);
        api.state().policy = Some(policy.clone());
        api.annotate("desiredConfig", "rendered-w-1");
        until(&api, "the claim", || api.annotation("state") == "Working").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!node.at("/etc/hello.conf").exists(), "R-164: acted on the policy of before");
        policy["status"]["observedGeneration"] = json!(3);
        api.state().policy = Some(policy);
        let running = boot(node, &api, running, "boot-2").await;
        until(&api, "Done", done_at(&api, "rendered-w-1")).await;
        running.stop().await;
    });
}

#[test]
fn damaged_state_is_a_reason_that_names_the_file_and_nothing_is_touched_until_it_is_put_right() {
    for (name, newer) in [("journal.json", false), ("current.json", true)] {
        run(async |node| {
            let (api, running) = joined(node).await;
            api.annotate("desiredConfig", "rendered-w-1");
            until(&api, "the file", done_at(&api, "rendered-w-1")).await;
            running.stop().await;
            let path = format!("/var/lib/mcx/{name}");
            let whole = std::fs::read_to_string(node.at("/var/lib/mcx/current.json")).unwrap();
            let damaged =
                if newer { whole.replacen("\"version\":1", "\"version\":9", 1) } else { whole[..40].to_owned() };
            std::fs::write(node.at(&path), damaged).unwrap();
            let tree = node.tree();
            let running = start(node, &api);
            api.annotate("desiredConfig", "rendered-w-2");
            until(&api, &path, || api.annotation("reason").contains(&path)).await;
            assert_eq!(api.annotation("state"), "Degraded");
            let said = if newer { "was written by a newer mcx (form 9" } else { "is damaged (cut off); move it away" };
            assert!(api.annotation("reason").contains(said), "{}", api.annotation("reason"));
            assert!(node.tree() == tree, "{path}: something was touched");
            if name == "current.json" {
                std::fs::write(node.at(&path), whole).unwrap();
            } else {
                // The way out that the reason tells.
                std::fs::remove_file(node.at(&path)).unwrap();
            }
            until(&api, "the next config", done_at(&api, "rendered-w-2")).await;
            assert_eq!(node.read("/etc/hello.conf"), "two\n");
            running.stop().await;
        });
    }
}
