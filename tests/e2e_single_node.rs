//! Behaviour: a cluster of one single node updates itself with drain and reboot, without anybody's help, also when its
//! kubelet delays the shutdown.

mod harness;

use harness::{Observer, ROLLOUT, Rig, file, source};
use serde_json::json;

#[test]
#[ignore = "needs the rig: make test"]
fn a_single_node_drains_reboots_and_is_done() {
    for (number, node) in [(1, "s1:master"), (2, "s1:master:SHUTDOWN_GRACE=30s")] {
        let rig = Rig::start(number, &[node]);
        let files = json!([{"path": "/etc/mcx-test", "actions": [{"type": "Reboot"}]}]);
        rig.set_policy(&json!({"nodeDisruptionPolicy": {"files": files}}));
        let observer = Observer::start(&rig, &["s1"], 1);
        let mut target = rig.target("master");
        // Twice: the second time with what the first has left.
        for text in ["first\n", "second\n"] {
            rig.apply_source(&source("60-single", "master", &file("/etc/mcx-test/single", 0o644, text)));
            target = rig.new_target("master", &target);
            rig.all_done(ROLLOUT, "master", &["s1"], &target);
            assert_eq!(rig.node("s1").text("/etc/mcx-test/single"), text);
        }
        assert_eq!(observer.boots("s1").len(), 3, "{node}: {}", observer.way("s1"));
        let drained = |v: &harness::NodeView| v.unschedulable && v.last_applied_drain.starts_with("drain-");
        assert!(observer.ever("s1", drained), "{node}: never drained: {}", observer.way("s1"));
        observer.finish();
    }
}
