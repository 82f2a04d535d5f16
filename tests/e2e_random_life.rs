//! Random life on a booted node: what `tests/random_life.rs` does to a folder, done to a node with systemd, a kubelet and a
//! disk of its own, in a cluster with mcx in it: sources, hand edits, daemons killed, reboots, power cuts, policies. After
//! every step the model of that test and the node agree.
//!
//! A sample by default; 300 steps with `MCX_SOAK=1`; `MCX_SEED=N` begins with another life, `MCX_STEPS=N` are its steps.

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "test code outside of #[test] functions")]

#[path = "random_life/booted.rs"]
mod booted;
#[path = "random_life/disk.rs"]
mod disk;
mod harness;
#[path = "random_life/life.rs"]
mod life;
#[path = "random_life/model.rs"]
mod model;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "random_life/said.rs"]
mod said;
#[path = "random_life/step.rs"]
mod step;

use booted::World;
use harness::{Rig, rig};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// A life that begins with two configs, a kill, a power cut, drift of a unit, its repair, an unmanaged thing, a withdrawal.
const SAMPLE: u64 = 1406;

/// A pool of its own, so that nobody else's node has to follow.
fn make_pool(rig: &Rig) {
    let pool = json!({
        "apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfigPool", "metadata": {"name": "life"},
        "spec": {
            "machineConfigSelector": {"matchExpressions": [
                {"key": "machineconfiguration.alauda.io/role", "operator": "In", "values": ["worker", "life"]}]},
            "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/life": ""}},
        },
    });
    rig.apply(&pool.to_string());
}

#[test]
#[ignore = "needs the rig: make test"]
fn after_every_step_of_a_random_life_a_booted_node_is_as_the_model_has_it() {
    let rig = rig();
    make_pool(&rig);
    let (first, wanted) = life::asked((SAMPLE, 8), (0, 300));
    let (mut lived, mut kills, mut boots, begun) = (0, 0, 0, Instant::now());
    for number in first.. {
        let steps = life::of(number);
        let mut at = 0;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::new(&rig);
            while at < steps.len() && lived < wanted {
                let start = Instant::now();
                if world.step(&steps[at]) {
                    lived += 1;
                    let text = format!("{:?}", steps[at]);
                    println!("{lived}: life {number}, {:.1?}: {text:.110}", start.elapsed());
                }
                at += 1;
            }
            at = steps.len();
            world.end();
            (kills, boots) = (kills + world.kills, boots + world.boots);
        }));
        if let Err(panic) = ended {
            let text = serde_json::to_string(&steps[..steps.len().min(at + 1)]).unwrap();
            panic!("life {number} {}\nits steps: {text}", life::told(&steps, at, panic.as_ref()));
        }
        if lived >= wanted {
            let count = number - first + 1;
            let took = begun.elapsed().as_secs();
            println!(
                "random life on a node: {lived} steps in {count} lives, {kills} daemons killed, {boots} boots, {took} s"
            );
            return;
        }
    }
}
