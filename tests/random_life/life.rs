//! Lives by their numbers, how many of their steps are wanted, and what is said of one that went wrong.

use crate::step::{Step, any_life};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::any::Any;

/// Steps of one life.
const LIFE: usize = 25;

/// The life of this number.
pub(crate) fn of(number: u64) -> Vec<Step> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    any_life(LIFE).new_tree(&mut runner).expect("a life").current()
}

/// The number of the first life, and how many steps are wanted: `MCX_SEED` and `MCX_STEPS`, else those of a soak
/// (`MCX_SOAK`) or of a sample.
pub(crate) fn asked(sample: (u64, usize), soak: (u64, usize)) -> (u64, usize) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let steps = number("MCX_STEPS").and_then(|steps| usize::try_from(steps).ok());
    let usual = if std::env::var_os("MCX_SOAK").is_some() { soak } else { sample };
    (number("MCX_SEED").unwrap_or(usual.0), steps.unwrap_or(usual.1))
}

/// A life ended so at this step (from 0).
pub(crate) fn told(steps: &[Step], at: usize, panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    let step = steps.get(at).map_or("the end".to_owned(), |step| format!("{step:?}"));
    format!("at step {} ({step}): {}", at + 1, text.unwrap_or_default())
}
