//! A small cluster in which everything happens in the worst order: caches that arrive late, two leaders of which one
//! sleeps between its two writes, daemons that claim late, nodes that fail, go, return and move, administrators.
//!
//! The decisions and the order of reads and writes are the real ones; each request to the API server is one step, and
//! anything else may happen between two of them. Checked is that mcx never takes a node away while as many as the limit
//! are away by it already, and that everything ends Done once the faults stop.

mod cluster;
mod daemon;
mod faults;
mod leader;

use cluster::{Cluster, Rng};

/// What a run may contain. Budgets count events of a kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Setting {
    nodes: usize,
    pools: usize,
    limit: u32,
    /// What the configs after the first cost: 0 nothing, 1 a restart, 2 a drain.
    costs: Vec<u8>,
    /// Every third config fails on the nodes.
    bad: bool,
    edits: u32,
    failovers: u32,
    freezes: u32,
    /// Leaders that freeze between two requests of one job while another takes over.
    ambushes: u32,
    admin: u32,
    not_ready: u32,
    deletions: u32,
    moves: u32,
    forces: u32,
    drifts: u32,
    pauses: u32,
    wipes: u32,
    limits: u32,
}

/// Steps with faults in one run.
const STEPS: usize = 400;

/// Steps in which a run must come to rest once the faults have stopped.
const REST: usize = 6000;

fn run(name: &str, seeds: std::ops::Range<u64>, setting: impl Fn(&mut Rng) -> Setting) {
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let setting = setting(&mut rng);
        let mut cluster = Cluster::new(setting.clone(), rng);
        for _ in 0..STEPS {
            cluster.random_step();
            cluster.check(name, seed);
        }
        cluster.stop_faults();
        let mut rest = 0;
        while !cluster.is_at_rest() {
            cluster.fair_step();
            cluster.check(name, seed);
            rest += 1;
            assert!(rest < REST, "{name}, seed {seed}: not at rest\n{setting:?}\n{}", cluster.story());
        }
    }
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len())]
}

fn base(rng: &mut Rng) -> Setting {
    let costs = pick(rng, &[&[1, 1, 1][..], &[2, 2, 2], &[0, 1, 2], &[1, 2, 1]]).to_vec();
    Setting {
        nodes: 2 + rng.below(3),
        pools: 1,
        limit: 1 + u32::from(rng.chance(3)),
        costs,
        edits: 3,
        ..Setting::default()
    }
}

#[test]
fn a_retarget_in_mid_rollout_never_passes_the_limit() {
    run("edits", 0..150, |rng| Setting { bad: rng.chance(2), pauses: 2, ..base(rng) });
}

#[test]
fn a_frozen_leader_that_wakes_between_its_two_writes_is_harmless() {
    run("failover", 0..250, |rng| Setting { ambushes: 4, edits: 5, pauses: 2, failovers: 1, ..base(rng) });
}

#[test]
fn nodes_that_fail_and_administrators_who_cordon_are_counted() {
    run("faults", 0..150, |rng| Setting { admin: 4, not_ready: 3, limits: 2, costs: vec![2, 2], ..base(rng) });
}

#[test]
fn a_node_that_is_deleted_and_returns_does_not_break_the_limit() {
    run("deletion", 0..150, |rng| Setting { deletions: 2, freezes: 1, failovers: 1, ..base(rng) });
}

#[test]
fn nodes_that_change_pool_finish_and_follow() {
    run("moves", 0..150, |rng| Setting { pools: 2, moves: 2, bad: rng.chance(2), costs: vec![2, 2], ..base(rng) });
}

#[test]
fn forced_and_drifted_nodes_wait_for_a_slot() {
    run("force", 0..150, |rng| Setting { forces: 3, drifts: 2, not_ready: 1, pauses: 1, ..base(rng) });
}

#[test]
fn slots_that_somebody_deletes_are_rebuilt_without_passing_the_limit() {
    run("wipe", 0..150, |rng| Setting { wipes: 2, ambushes: 2, failovers: 1, ..base(rng) });
}

#[test]
fn everything_at_once_comes_to_rest() {
    run("all", 0..150, |rng| Setting {
        pools: 1 + rng.below(2),
        bad: rng.chance(3),
        failovers: 2,
        freezes: 2,
        admin: 2,
        not_ready: 2,
        deletions: 1,
        moves: 1,
        forces: 1,
        drifts: 1,
        pauses: 1,
        wipes: 1,
        costs: vec![2, 2, 2],
        ..base(rng)
    });
}
