//! Power cuts in `mcx apply`, which is the daemon's transaction, on ext4, xfs and btrfs: the disk below loses, reorders
//! and tears what was not flushed (`tests/faults`).
//!
//! Each run is recorded once, with what it was promised by the system, and then cut after any event: the disk that is
//! left is mounted, and every path must be wholly old or wholly new, as the records say; nothing that was promised is
//! lost; the next run ends where it should; and withdrawing gives everything back.
//!
//! A sample by default; all with `MCX_SOAK=1` (`make soak`).

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stderr, reason = "test code, which tells its figures")]

mod faults;
#[path = "support/node_lives.rs"]
mod node_lives;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/sysfault.rs"]
mod sysfault;

use faults::image::{Event, Loss, Random};
use faults::mounts::{Kind, private_mounts};
use faults::recording::{Bare, Life, Mark, Neighbour, Point, Recording, Wish};
use faults::verdict::{Bench, Tally, judge};
use node_lives::{new, old};
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Whether all is wanted.
fn soak() -> bool {
    std::env::var_os("MCX_SOAK").is_some()
}

/// One at a time: all of them need all processors.
fn begin() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    private_mounts();
    one
}

/// Points after every `stride`th event, each with all losses.
fn strided(recording: &Recording, first: usize, stride: usize) -> Vec<Point> {
    let at = (first..=recording.log.len()).step_by(stride);
    at.flat_map(|at| Loss::EACH.map(|loss| Point { at, loss, seed: at as u64 })).collect()
}

fn expect_none(tally: &Tally) {
    let first: Vec<&str> = tally.violations.iter().take(5).map(String::as_str).collect();
    assert!(tally.violations.is_empty(), "{tally}; the first of them:\n{}", first.join("\n"));
}

/// Cuts an update and its withdrawal after every `stride`th event; the sample, after `sample` events.
fn sweep(kind: Kind, stride: usize, sample: usize) {
    let _one = begin();
    let since = Instant::now();
    let bare = Bare::new(kind);
    let start = bare.after(&Wish::config(&old()));
    let runs = vec![Wish::config(&new()), Wish::withdraw()];
    let recording = Recording::new(kind, start, vec![], runs, Neighbour::Quiet, None);
    let stride = if soak() { stride } else { recording.log.len() / sample };
    let tally = judge(&recording, &bare.tree, recording.states(strided(&recording, 0, stride)), false);
    let events = recording.log.len();
    let flushes = recording.log.iter().filter(|event| matches!(event, Event::Flush)).count();
    eprintln!("{kind:?}: {events} events, {flushes} flushes, each {stride}th: {tally}, {:.0?}", since.elapsed());
    expect_none(&tally);
}

#[test]
#[ignore = "needs root, loop devices, FUSE and the packages of tests/faults/packages.sh"]
fn an_update_and_its_withdrawal_are_whole_after_any_power_cut_on_ext4() {
    sweep(Kind::Ext4, 1, 12);
}

#[test]
#[ignore = "needs root, loop devices, FUSE and the packages of tests/faults/packages.sh"]
fn an_update_and_its_withdrawal_are_whole_after_any_power_cut_on_xfs() {
    sweep(Kind::Xfs, 3, 4);
}

#[test]
#[ignore = "needs root, loop devices, FUSE and the packages of tests/faults/packages.sh"]
fn an_update_and_its_withdrawal_are_whole_after_any_power_cut_on_btrfs() {
    sweep(Kind::Btrfs, 3, 6);
}
