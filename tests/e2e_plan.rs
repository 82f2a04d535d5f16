//! Behaviour: what `mcx plan` says before a change is what the nodes then do.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod harness;

use harness::{Observer, ROLLOUT, WORKERS, data, mcx_bin, rig};
use serde_json::{Value, json};
use std::process::Command;

#[test]
#[ignore = "needs the rig: make test"]
fn the_plan_of_the_guides_chrony_example_is_what_the_workers_do() {
    let rig = rig();
    rig.apply(&data("guide/chrony-policy.yaml"));
    rig.policy_in_effect();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("chrony.yaml");
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/chrony.yaml");
    std::fs::copy(examples, &source).unwrap();
    let plan = |exit: i32| -> Value {
        let output = Command::new(mcx_bin())
            .args(["plan", "-o", "json", "--exit-code", "--kubeconfig"])
            .arg(rig.path("admin.kubeconfig"))
            .arg("-f")
            .arg(&source)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let before = rig.target("worker");
    let said = plan(10);
    let worker = said["pools"].as_array().unwrap().iter().find(|p| p["pool"] == "worker").unwrap();
    assert_eq!(worker["updates"].as_array().unwrap().len(), 1, "{worker:#}");
    let update = &worker["updates"][0];
    assert_eq!(update["from"], before.as_str());
    assert_eq!(update["actions"], json!(["DaemonReload", "Restart chronyd.service"]));
    assert_eq!((&update["drain"], &update["reboot"]), (&json!(false), &json!(false)));
    let order: Vec<&str> = worker["waves"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|w| w.as_array().unwrap())
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(order, rig.workers_by_age(), "one at a time, oldest first");
    assert_eq!((&worker["waits"], &worker["underWay"]), (&json!([]), &json!([])));

    let observer = Observer::start(&rig, &WORKERS, 1);
    let starts: Vec<usize> = WORKERS.iter().map(|n| rig.node(n).starts("chronyd.service")).collect();
    rig.apply(&std::fs::read_to_string(&source).unwrap());
    let target = rig.new_target("worker", &before);
    assert_eq!(update["to"], target.as_str(), "the name that the controller gives");
    rig.all_done(ROLLOUT, "worker", &WORKERS, &target);
    for (name, starts) in WORKERS.iter().zip(starts) {
        assert_eq!(rig.node(name).starts("chronyd.service"), starts + 1, "{name}: {}", observer.way(name));
        assert_eq!(observer.boots(name).len(), 1, "{name} was rebooted");
        assert!(!observer.ever(name, |v| v.unschedulable), "{name} was cordoned: {}", observer.way(name));
    }
    assert_eq!(observer.order(&target), order);
    observer.finish();

    // Applied, it is nothing any more.
    assert_eq!(plan(0)["cost"], "nothing");
}
