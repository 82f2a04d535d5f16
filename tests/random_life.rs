//! Random life: a model of the node beside the real thing. Configs come and go, hands edit, daemons are killed at a random
//! system call, nodes boot, policies change; after every step disk, originals, state and what the node says are as the
//! model has them. A sequence that fails is made small, printed, and kept in `tests/data/random-life`.
//!
//! A sample by default; 10,000 steps with `MCX_SOAK=1`; `MCX_SEED=N` begins with another life.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "random_life/model.rs"]
mod model;
#[path = "support/node_api.rs"]
mod node_api;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "random_life/shrink.rs"]
mod shrink;
#[path = "random_life/step.rs"]
mod step;
#[path = "support/sysfault.rs"]
mod sysfault;
#[path = "random_life/world.rs"]
mod world;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use step::{Step, any_life};
use world::World;

/// Steps of one life.
const LIFE: usize = 25;

fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/random-life")
}

/// The life of this number.
fn life(number: u64) -> Vec<Step> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    any_life(LIFE).new_tree(&mut runner).expect("a life").current()
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
    lived.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let at = at.load(Ordering::Relaxed);
        let step = steps.get(at).map_or("the end".to_owned(), |step| format!("{step:?}"));
        format!("at step {} ({step}): {}", at + 1, text.unwrap_or_default())
    })
}

#[test]
#[allow(clippy::print_stdout, reason = "the figures are what a soak is run for")]
fn after_every_step_of_a_random_life_the_node_is_as_the_model_has_it() {
    let is_soak = std::env::var("MCX_SOAK").is_ok();
    let first: u64 = std::env::var("MCX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let wanted = std::env::var("MCX_STEPS").ok().and_then(|steps| steps.parse().ok());
    let wanted: usize = wanted.unwrap_or(if is_soak { 10_000 } else { 150 });
    let (counts, next, failed) = (Counts::default(), AtomicU64::new(first), Mutex::new(Vec::new()));
    // Most of the time each waits for something to settle.
    let threads = std::thread::available_parallelism().map_or(2, usize::from) * 2;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while counts.steps.load(Ordering::Relaxed) < wanted && failed.lock().unwrap().is_empty() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let steps = life(number);
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
