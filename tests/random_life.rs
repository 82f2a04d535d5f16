//! Random life: a model of the node beside the real thing. Configs come and go, hands edit, daemons are killed at a random
//! system call, nodes boot, policies change; after every step disk, originals, state and what the node says are as the
//! model has them. A sequence that fails is made small, printed, and kept in `tests/data/random-life`.
//!
//! A sample by default; 10,000 steps with `MCX_SOAK=1`; `MCX_SEED=N` begins with another life.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "random_life/disk.rs"]
mod disk;
#[path = "random_life/life.rs"]
mod life;
#[path = "random_life/model.rs"]
mod model;
#[path = "support/node_api.rs"]
mod node_api;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "random_life/said.rs"]
mod said;
#[path = "random_life/shrink.rs"]
mod shrink;
#[path = "random_life/step.rs"]
mod step;
#[path = "support/sysfault.rs"]
mod sysfault;
#[path = "random_life/world.rs"]
mod world;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use step::Step;
use world::World;

fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/random-life")
}

#[derive(Default)]
struct Counts {
    steps: AtomicUsize,
    kills: AtomicUsize,
}

/// Lives it; an error says at which step it went wrong, and how. False where it cannot be run.
fn live(steps: &[Step], counts: &Counts) -> Result<bool, String> {
    let at = AtomicUsize::new(0);
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let Some(mut world) = World::new() else { return false };
        for (number, step) in steps.iter().enumerate() {
            at.store(number, Ordering::Relaxed);
            if world.step(step) {
                counts.steps.fetch_add(1, Ordering::Relaxed);
            }
        }
        at.store(steps.len(), Ordering::Relaxed);
        counts.kills.fetch_add(world.end(), Ordering::Relaxed);
        true
    }));
    lived.map_err(|panic| life::told(steps, at.load(Ordering::Relaxed), panic.as_ref()))
}

#[test]
#[allow(clippy::print_stdout, reason = "the figures are what a soak is run for")]
fn after_every_step_of_a_random_life_the_node_is_as_the_model_has_it() {
    let (first, wanted) = life::asked((0, 150), (0, 10_000));
    let (counts, next, failed) = (Counts::default(), AtomicU64::new(first), Mutex::new(Vec::new()));
    // Most of the time each waits for something to settle.
    let threads = std::thread::available_parallelism().map_or(2, usize::from) * 2;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while counts.steps.load(Ordering::Relaxed) < wanted && failed.lock().unwrap().is_empty() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let steps = life::of(number);
                    match live(&steps, &counts) {
                        // A long run says how far it is.
                        Ok(true) => println!("random life: {} steps so far", counts.steps.load(Ordering::Relaxed)),
                        Ok(false) => return,
                        Err(why) => {
                            failed.lock().unwrap().push(());
                            let (steps, why) =
                                shrink::shrink(steps, why, |steps| live(steps, &Counts::default()).err());
                            let text = serde_json::to_string_pretty(&steps).unwrap();
                            let at = kept().join(format!("life-{number}.json"));
                            fs::create_dir_all(kept()).unwrap();
                            fs::write(&at, format!("{text}\n")).unwrap();
                            println!("life {number} failed {why}\nkept as {}:\n{text}", at.display());
                        }
                    }
                }
            });
        }
    });
    let (steps, lives) = (counts.steps.load(Ordering::Relaxed), next.load(Ordering::Relaxed) - first);
    println!("random life: {steps} steps in {lives} lives, {} daemons killed", counts.kills.load(Ordering::Relaxed));
    assert!(failed.into_inner().unwrap().is_empty(), "a life failed; the smallest one is above");
}

#[test]
fn lives_that_failed_once_do_not_any_more() {
    let Ok(files) = fs::read_dir(kept()) else { return };
    for file in files {
        let path = file.unwrap().path();
        let steps: Vec<Step> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        if let Err(why) = live(&steps, &Counts::default()) {
            panic!("{}: {why}", path.display());
        }
    }
}
