//! Power cuts in `mcx apply`, which is the daemon's transaction, on ext4, xfs and btrfs: the disk below loses, reorders
//! and tears what was not flushed (`tests/faults`).
//!
//! Each run is recorded once, with what it was promised by the system, and then cut after any event: the disk that is
//! left is mounted, and every path must be wholly old or wholly new, as the records say; nothing that was promised is
//! lost; the next run ends where it should; and withdrawing gives everything back.
//!
//! A sample by default; all with `MCX_SOAK=1` (`make soak`), every fifth event and fewer updates with `MCX_SOAK=5`.

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stderr, reason = "test code, which tells its figures")]

mod faults;
#[path = "support/node_api.rs"]
mod node_api;
#[path = "support/node_lives.rs"]
mod node_lives;
#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/sysfault.rs"]
mod sysfault;

use faults::daemon;
use faults::image::{Event, Image, Loss, Random};
use faults::mounts::{Bench, Kind, private_mounts};
use faults::recording::{Bare, Life, Mark, Neighbour, Point, Recording, Wish, node_at};
use faults::verdict::{Known, Tally, Violation, judge};
use node_lives::{new, old};
use node_root::{config, file};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Whether more than a sample is wanted, and of how many events one.
fn soak() -> Option<usize> {
    std::env::var("MCX_SOAK").ok().map(|stride| stride.parse().unwrap_or(1))
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
    let first: Vec<&str> = tally.violations.iter().take(5).map(|violation| violation.text.as_str()).collect();
    assert!(tally.violations.is_empty(), "{tally}; the first of them:\n{}", first.join("\n"));
}

/// Cuts an update and its withdrawal after every event; the sample, after `sample` events.
fn sweep(kind: Kind, sample: usize) {
    let _one = begin();
    let since = Instant::now();
    let bare = Bare::new(kind);
    let start = bare.after(&[Wish::config(&old())]);
    let runs = vec![Wish::config(&new()), Wish::withdraw()];
    let recording = Recording::new(kind, start, vec![], runs, Neighbour::Quiet, None);
    let stride = soak().unwrap_or(recording.log.len() / sample);
    let tally =
        judge(&recording, &bare.tree, &Known::default(), recording.states(strided(&recording, 0, stride)), false);
    let events = recording.log.len();
    let flushes = recording.log.iter().filter(|event| matches!(event, Event::Flush)).count();
    eprintln!("{kind:?}: {events} events, {flushes} flushes, each {stride}th: {tally}, {:.0?}", since.elapsed());
    expect_none(&tally);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn an_update_and_its_withdrawal_are_whole_after_any_power_cut_on_ext4() {
    sweep(Kind::Ext4, 5);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn an_update_and_its_withdrawal_are_whole_after_any_power_cut_on_xfs() {
    sweep(Kind::Xfs, 3);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn an_update_and_its_withdrawal_are_whole_after_any_power_cut_on_btrfs() {
    sweep(Kind::Btrfs, 4);
}

/// The daemon's own update, which is guarded: binary, unit and link of the guard come before it and go after it.
fn guarded(kind: Kind, sample: usize) {
    let _one = begin();
    let since = Instant::now();
    let bare = Bare::with(kind, daemon::with_systemd);
    let [_, old, new] = daemon::CONFIGS.map(Wish::Daemon);
    let start = bare.after(&[old]);
    let recording = Recording::new(kind, start, vec![], vec![new], Neighbour::Quiet, None).guarded();
    let events = recording.log.len();
    let stride = soak().unwrap_or(events / sample);
    let states = recording.states(strided(&recording, 0, stride));
    let tally = judge(&recording, &bare.tree, &Known::default(), states, false);
    eprintln!("{kind:?}, guarded: {events} events, each {stride}th: {tally}, {:.0?}", since.elapsed());
    expect_none(&tally);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn a_guarded_update_of_the_daemon_is_whole_after_any_power_cut_on_ext4() {
    guarded(Kind::Ext4, 2);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn a_guarded_update_of_the_daemon_is_whole_after_any_power_cut_on_xfs() {
    guarded(Kind::Xfs, 1);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn a_guarded_update_of_the_daemon_is_whole_after_any_power_cut_on_btrfs() {
    guarded(Kind::Btrfs, 2);
}

/// No test: the process that the tests of guarded updates record.
#[test]
#[ignore = "is started by other tests"]
fn a_daemon_for_the_other_tests() {
    daemon::serve();
}

/// An update that a power cut ends before anything is switched is undone, and another power cut follows.
fn undone(kind: Kind) {
    let _one = begin();
    let bare = Bare::new(kind);
    let update = vec![Wish::config(&new())];
    let recording = Recording::new(kind, bare.image.clone(), vec![], update, Neighbour::Quiet, None);
    let is_journal =
        |call: &sysfault::Call| call.name.starts_with("rename") && call.path == "/var/lib/mcx/journal.json";
    let begins_to_switch = recording.calls[0].iter().enumerate().filter(|(_, call)| is_journal(call)).nth(1).unwrap().0;
    let at = recording.event_of(0, begins_to_switch);
    let cut = |recording: &Recording, at| {
        recording.states(vec![Point { at, loss: Loss::All, seed: 0 }]).next().unwrap().image
    };
    let life = |image: &Image| Bench::new(kind).with(image, |at| Life::of(&node_at(at))).unwrap().unwrap();
    let left = cut(&recording, at);
    let staged = life(&left);
    assert_eq!(staged.stage.as_deref(), Some("Opened"));
    assert!(staged.tree.keys().any(|path| node_lives::is_staged(path)), "something is staged, durably");

    let undo = Recording::new(kind, left, vec![staged.tree], vec![Wish::withdraw()], Neighbour::Quiet, None);
    let found = life(&cut(&undo, undo.log.len()));
    node_root::assert_same(&found.tree, &bare.tree, "undone, and the power gone");
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn what_was_staged_for_an_update_that_was_undone_does_not_come_back_on_ext4() {
    undone(Kind::Ext4);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn what_was_staged_for_an_update_that_was_undone_does_not_come_back_on_xfs() {
    undone(Kind::Xfs);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn what_was_staged_for_an_update_that_was_undone_does_not_come_back_on_btrfs() {
    undone(Kind::Btrfs);
}

/// A config of some items, of every kind.
fn any_config(random: &mut Random) -> Value {
    let mut files = Vec::new();
    for path in ["/etc/a.conf", "/etc/b.conf", "/etc/pipe", "/etc/setuid", "/etc/new/dir/c.conf", "/opt/d/e", "/etc/f"]
    {
        if random.below(5) < 3 {
            let sizes = [0, 10, 600, 4096, 9000];
            let text = format!("{:016x}", random.next()).repeat(sizes[random.below(sizes.len())] / 16 + 1);
            files.push(file(path, &text, [0o644, 0o600, 0o755][random.below(3)]));
        }
    }
    let mut units = Vec::new();
    if random.below(2) == 0 {
        let contents =
            format!("[Service]\nExecStart=/bin/echo {}\n[Install]\nWantedBy=multi-user.target\n", random.below(9));
        units.push(json!({"name": "app.service", "contents": contents, "enabled": random.below(2) == 0}));
    }
    if random.below(2) == 0 {
        let dropin = json!({"name": "10-x.conf", "contents": format!("[Service]\nNice={}\n", random.below(9))});
        units.push(json!({"name": "static.service", "dropins": [dropin]}));
    }
    if random.below(2) == 0 {
        units.push(json!({"name": "chronyd.service", "mask": true}));
    }
    if random.below(2) == 0 {
        units.push(json!({"name": "vendor.service", "mask": false, "enabled": true}));
    }
    let keys: Vec<u8> = (0..u8::try_from(random.below(3)).unwrap()).collect();
    config(&files, &units, (random.below(2) == 0).then_some(keys.as_slice()))
}

/// Cuts random updates at random points; what some of the cuts leave is where the next updates start.
fn random_cuts(kind: Kind, rounds: usize, sample: usize) {
    let _one = begin();
    let since = Instant::now();
    let bare = Bare::new(kind);
    let (rounds, cuts) = soak().map_or((sample, 8), |stride| (rounds.div_ceil(stride), 25));
    let mut sum = Tally::default();
    let mut left: Option<(Image, Vec<node_root::Tree>)> = None;
    for round in 0..rounds {
        let mut random = Random::new(round as u64);
        let (start, earlier) = left.take().unwrap_or_else(|| (bare.image.clone(), vec![]));
        let mut runs: Vec<Wish> = (0..2).map(|_| Wish::config(&any_config(&mut random))).collect();
        runs.push(Wish::withdraw());
        let neighbour = [Neighbour::Quiet, Neighbour::Flushing][round % 2];
        let recording = Recording::new(kind, start, earlier, runs, neighbour, None);
        let any_loss = |random: &mut Random| [Loss::All, Loss::Blocks, Loss::Sectors][random.below(3)];
        let mut points: Vec<Point> = (0..cuts)
            .map(|_| Point {
                at: random.below(recording.log.len() + 1),
                loss: any_loss(&mut random),
                seed: random.next(),
            })
            .collect();
        points.sort_by_key(|point| point.at);
        let tally = judge(&recording, &bare.tree, &Known::default(), recording.states(points.clone()), false);
        sum.add(&format!("round {round}, {neighbour:?}"), tally);
        if let Some(cut) = recording.states(points).nth(random.below(cuts)).filter(|cut| cut.run < recording.runs.len())
        {
            let life = Bench::new(kind).with(&cut.image, |at| Life::of(&node_at(at))).unwrap().unwrap();
            let mut earlier = recording.earlier.clone();
            earlier.extend(
                [&recording.lives[cut.run], &recording.lives[cut.run + 1], &life].map(|life| life.tree.clone()),
            );
            left = life.stage.is_some().then_some((cut.image, earlier));
        }
    }
    eprintln!("{kind:?}: {rounds} rounds of three runs: {sum}, {:.0?}", since.elapsed());
    expect_none(&sum);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn random_updates_are_whole_after_random_power_cuts_on_ext4() {
    random_cuts(Kind::Ext4, 14, 1);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn random_updates_are_whole_after_random_power_cuts_on_xfs() {
    random_cuts(Kind::Xfs, 13, 1);
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn random_updates_are_whole_after_random_power_cuts_on_btrfs() {
    random_cuts(Kind::Btrfs, 13, 1);
}

/// Leaves each wanted flush of an update and its withdrawal out: of each, what it is, and what was found wrong then.
fn left_out(kind: Kind, wanted: &dyn Fn(&str) -> bool) -> Vec<(String, Option<Violation>)> {
    let bare = Bare::new(kind);
    let (update, withdrawal) = (|| Wish::config(&small("new")), Wish::withdraw);
    let (old, new) = (bare.after(&[Wish::config(&small("old"))]), bare.after(&[Wish::config(&small("old")), update()]));
    let runs: [(&str, Image, &dyn Fn() -> Wish); 2] = [("update", old, &update), ("withdrawal", new, &withdrawal)];
    let mut found = Vec::new();
    for (name, start, wish) in runs {
        let record = |lie| Recording::new(kind, start.clone(), vec![], vec![wish()], Neighbour::Quiet, lie);
        let contents = Known::default();
        let honest = flushes(name, &record(None).calls[0]);
        for (what, at) in honest.iter().filter(|(what, _)| wanted(what)) {
            let recording = record(Some((0, at + 1)));
            assert!(flushes(name, &recording.calls[0]).contains(&(what.clone(), *at)), "{what}: the runs differ");
            let states = recording.states(soon_after(&recording, recording.event_of(0, *at)));
            let tally = judge(&recording, &bare.tree, &contents, states, true);
            let first = tally.violations.first().map_or("", |violation| &violation.text);
            eprintln!("{kind:?}, {what}: {tally} {first:.200}");
            found.push((what.clone(), tally.violations.into_iter().next()));
        }
    }
    found
}

/// The flushes of a run, and which calls they are: of each folder and file the first, the second, ….
fn flushes(name: &str, calls: &[sysfault::Call]) -> Vec<(String, usize)> {
    let mut counts = BTreeMap::<&str, usize>::new();
    let all = calls.iter().enumerate().filter(|(_, call)| ["fsync", "fdatasync"].contains(&call.name.as_str()));
    all.map(|(at, call)| {
        let count = counts.entry(&call.path).or_default();
        *count += 1;
        (format!("{name}, flush {count} of {}", call.path), at)
    })
    .collect()
}

/// Points where a flush that was left out at event `first` is missed most: soon, before another flush does its work, and
/// when a run has ended. What is not missed then is looked for now and then until the end.
fn soon_after(recording: &Recording, first: usize) -> Vec<Point> {
    const SOON: usize = 40;
    const NOW_AND_THEN: usize = 25;
    let mut points = Vec::new();
    for at in first..=recording.log.len() {
        let has_ended = at > 0 && matches!(recording.log[at - 1], Event::Mark(Mark::Ended));
        let seed = at as u64;
        if has_ended || at <= first + SOON || at % NOW_AND_THEN == 0 {
            points.push(Point { at, loss: Loss::All, seed });
        }
        if at <= first + SOON {
            points.push(Point { at, loss: Loss::Blocks, seed });
        }
    }
    points
}

/// One item of each kind that is flushed in a way of its own: a file that is replaced, one where a link was, which the
/// withdrawal gives back, one where nothing was, one in a folder that is made, a unit that is enabled, one that is masked.
fn small(text: &str) -> Value {
    let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let mut files = vec![file("/etc/a.conf", &text.repeat(2000), 0o644)];
    if text == "new" {
        files.extend(["/etc/b.conf", "/etc/fresh.conf", "/opt/d/e"].map(|path| file(path, text, 0o644)));
    }
    let app = json!({"name": "app.service", "contents": unit, "enabled": text == "new"});
    let masked = json!({"name": "static.service", "mask": text == "new"});
    config(&files, &[app, masked], None)
}

#[test]
#[ignore = "needs root, loop devices and FUSE: tests/faults/power.sh"]
fn a_flush_that_is_left_out_is_found() {
    let _one = begin();
    let since = Instant::now();
    let mut silent: Option<BTreeSet<String>> = None;
    let mut all = 0;
    for kind in kinds() {
        // On one it must be noticed: which of them need it is their makers' business.
        let is_wanted = |what: &str| {
            silent
                .as_ref()
                .map_or(soak().is_some() || what.ends_with(SWITCHED), |silent: &BTreeSet<String>| silent.contains(what))
        };
        let found = left_out(kind, &is_wanted);
        all = all.max(found.len());
        let left: BTreeSet<String> =
            found.iter().filter(|(_, violation)| violation.is_none()).map(|(what, _)| what.clone()).collect();
        eprintln!(
            "{kind:?}: {} flushes left out one by one, {} not noticed, {:.0?}",
            found.len(),
            left.len(),
            since.elapsed()
        );
        silent = Some(left);
    }
    let silent = silent.unwrap();
    eprintln!("{all} flushes, {} on no file system noticed:", silent.len());
    for what in &silent {
        eprintln!("{what}: {}", FREE.iter().find(|(free, _)| free == what).map_or("it should be", |(_, why)| *why));
    }
    let unknown: Vec<&String> = silent.iter().filter(|what| FREE.iter().all(|(free, _)| free != what)).collect();
    assert!(all > 1 && unknown.is_empty(), "{unknown:?}");
}

/// Flushes that mcx makes for what is promised by the system, and that none of these file systems needs.
const FREE: [(&str, &str); 6] = [
    ("update, flush 1 of /.mcx-5f44712b7d71ded7", "an empty folder's own, which comes with the one that it is in"),
    ("update, flush 1 of /opt/.mcx-18ac3e7343f01689", "an empty folder's own, which comes with the one that it is in"),
    ("update, flush 1 of /opt/d", "a file that was flushed is found by its new name, in a folder that was"),
    ("withdrawal, flush 2 of /", "the same folder is flushed after the last switch"),
    ("withdrawal, flush 3 of /var/lib/mcx/originals", "a record that goes with the others right after"),
    ("withdrawal, flush 4 of /var/lib/mcx", "the same folder is flushed with the journal that relies on it"),
];

/// What the flush of the directory in which files were switched is called.
const SWITCHED: &str = " of /etc";

/// Those on which flushes are left out, each looks at what those before it hide; btrfs hides the fewest.
fn kinds() -> Vec<Kind> {
    let chosen = std::env::var("MCX_POWER_KIND").ok();
    let is_chosen = |kind: &Kind| chosen.as_ref().is_none_or(|chosen| format!("{kind:?}") == *chosen);
    let all = if soak().is_some() { vec![Kind::Btrfs, Kind::Ext4Plain, Kind::Xfs] } else { vec![Kind::Btrfs] };
    all.into_iter().filter(is_chosen).collect()
}
