//! Makes a failing sequence small: steps go, then items of configs, as long as it still fails.

use crate::step::{ConfigIs, Step};

/// Runs of a life that are spent on it.
const RUNS: usize = 150;

/// The smallest that was found, and why it fails. `fails` says why a sequence fails.
pub(crate) fn shrink(steps: Vec<Step>, why: String, fails: impl Fn(&[Step]) -> Option<String>) -> (Vec<Step>, String) {
    let mut best = (steps, why);
    let mut runs = 0;
    let mut is_better = |steps: Vec<Step>, best: &mut (Vec<Step>, String)| {
        runs += 1;
        if runs > RUNS {
            return false;
        }
        fails(&steps).map(|why| *best = (steps, why)).is_some()
    };
    let mut chunk = best.0.len();
    while chunk > 0 {
        let mut at = 0;
        while at < best.0.len() {
            let mut fewer = best.0.clone();
            fewer.drain(at..(at + chunk).min(fewer.len()));
            if !is_better(fewer, &mut best) {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    for at in 0..best.0.len() {
        let mut number = 0;
        while let Some(smaller) = smaller(&best.0[at], number) {
            let mut steps = best.0.clone();
            steps[at] = smaller;
            if !is_better(steps, &mut best) {
                number += 1;
            }
        }
    }
    best
}

/// The step with something left out; none when there are no more ways.
fn smaller(step: &Step, number: usize) -> Option<Step> {
    match step {
        Step::Config(config) => config_without(config, number).map(Step::Config),
        Step::Killed(config, _) if number == 0 => Some(Step::Config(config.clone())),
        Step::Cut(config, call) if number == 0 => Some(Step::Killed(config.clone(), *call)),
        Step::Cut(config, call) => config_without(config, number - 1).map(|config| Step::Cut(config, *call)),
        Step::Killed(config, call) => config_without(config, number - 1).map(|config| Step::Killed(config, *call)),
        _ => None,
    }
}

fn config_without(config: &ConfigIs, number: usize) -> Option<ConfigIs> {
    let mut ways = Vec::new();
    for path in config.files.keys() {
        let mut less = config.clone();
        less.files.remove(path);
        ways.push(less);
    }
    for (unit, is) in &config.units {
        let mut less = config.clone();
        less.units.remove(unit);
        ways.push(less);
        let parts: [fn(&mut crate::step::UnitIs); 4] =
            [|unit| unit.body = None, |unit| unit.enabled = None, |unit| unit.mask = None, |unit| unit.dropin = None];
        for part in parts {
            let mut smaller = *is;
            part(&mut smaller);
            if smaller != *is && smaller != crate::step::UnitIs::default() {
                let mut less = config.clone();
                less.units.insert(unit.clone(), smaller);
                ways.push(less);
            }
        }
    }
    if config.keys.is_some() {
        ways.push(ConfigIs { keys: None, ..config.clone() });
    }
    ways.into_iter().nth(number)
}
