//! Power cuts of a virtual machine: systemd, `mcx daemon` as its service, and the root that the daemon changes on a disk of
//! ours, which loses, reorders and tears what was not flushed (`tests/faults`).
//!
//! At a random write of an update or a withdrawal the power goes. What is left is mounted: the file system is clean, each
//! path wholly old or wholly new, as the records say, and what the daemon has told the API server is there. Then the machine
//! is switched on again, with that disk, and by itself comes to the config that is wanted. There the next update begins.
//!
//! A few cuts by default; `MCX_SOAK=1` (`make soak-power`) is many.

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

use faults::daemon::CONFIGS;
use faults::image::{Cached, Image, Loss, Random};
use faults::mounts::{Bench, Kind, private_mounts};
use faults::recording::Life;
use faults::verdict::{Kind as Fault, Tally, Violation, Wrong, against_records, differ, unguarded};
use faults::vm::{Machine, Site};
use node_root::{Entry, Tree, part_of};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Where the configs have their items, and mcx its state.
const FOLDERS: [&str; 3] = ["/etc", "/home", "/var/lib/mcx"];
/// Each from the one before.
const WISHES: [usize; 3] = [1, 2, 0];
/// For how long an update that is done is left alone before the power goes.
const LINGER: Duration = Duration::from_millis(300);

/// One at a time: a machine needs a processor of its own.
fn begin() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    private_mounts();
    one
}

fn is_soak() -> bool {
    std::env::var_os("MCX_SOAK").is_some()
}

/// What files cost in an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cost {
    Nothing,
    /// Of a service: such an update is guarded.
    Restart,
    Reboot,
}

impl Cost {
    const EACH: [Self; 3] = [Self::Nothing, Self::Restart, Self::Reboot];

    fn actions(self) -> Value {
        match self {
            Self::Nothing => json!([{"type": "None"}]),
            Self::Restart => json!([{"type": "Restart", "restart": {"serviceName": "payload.service"}}]),
            Self::Reboot => json!([{"type": "Reboot"}]),
        }
    }
}

/// What the machine is when no power goes.
struct Known {
    /// With each of the configs.
    lives: Vec<Life>,
    /// The files of the guard, in the order in which they come.
    guard: Vec<(String, Entry)>,
    /// What the disk is asked for in an update to each config that costs nothing.
    events: [usize; 3],
    /// How much more that is when the update is guarded.
    of_guard: usize,
}

impl Known {
    /// Lives each update to its end.
    fn learn(site: &Site) -> Self {
        let bench = site.bench();
        let mut machine = site.join(false).unwrap();
        let first = life(&bench, &machine.durable()).unwrap();
        let mut known = Self { lives: vec![first; 3], guard: Vec::new(), events: [0; 3], of_guard: 0 };
        site.api.state().policy = Some(node_api::policy(&Cost::Nothing.actions()));
        for to in WISHES {
            let before = machine.events();
            site.want(to);
            machine.until_at_rest().unwrap();
            known.events[to] = machine.events() - before;
            let found = life(&bench, &machine.durable()).unwrap();
            if to == 0 {
                node_root::assert_same(&found.tree, &known.lives[0].tree, "withdrawn");
            }
            known.lives[to] = found;
        }
        site.api.state().policy = Some(node_api::policy(&Cost::Restart.actions()));
        let before = machine.events();
        site.want(1);
        machine.until("restarts a service", |_| site.said()[1] == "Restarting").unwrap();
        known.guard = life(&bench, &machine.durable()).unwrap().guard();
        machine.until_at_rest().unwrap();
        known.of_guard = (machine.events() - before).saturating_sub(known.events[1]);
        let again = life(&bench, &machine.durable()).unwrap();
        node_root::assert_same(&again.tree, &known.lives[1].tree, "the same config again");
        known
    }
}

/// A site with a machine of this kind, and what is known of that: once for all tests.
fn learned(kind: Kind) -> &'static (Site, Known) {
    static LEARNED: [OnceLock<(Site, Known)>; 4] = [const { OnceLock::new() }; 4];
    LEARNED[kind as usize].get_or_init(|| {
        let since = Instant::now();
        let site = Site::new(kind);
        let known = Known::learn(&site);
        let (events, more) = (known.events, known.of_guard);
        eprintln!(
            "{kind:?}: {events:?} requests to the disk in an update, {more} more in a guarded one, {:.0?}",
            since.elapsed()
        );
        (site, known)
    })
}

/// What is at a node whose disk this is.
fn life(bench: &Bench, image: &Image) -> Result<Life, Wrong> {
    let tree = bench.with(image, |at| {
        let there: Vec<&str> = FOLDERS.into_iter().filter(|path| at.join(&path[1..]).exists()).collect();
        part_of(at, &there)
    });
    let tree = tree.and_then(|tree| tree.map_err(|error| format!("it cannot be read: {error}")));
    let tree = tree.map_err(|error| Wrong(Fault::Unclean, error))?;
    bench.check().map_err(|error| Wrong(Fault::Unclean, error))?;
    Life::in_tree(tree).map_err(|error| Wrong(Fault::Torn, error))
}

/// What is wrong with a machine at rest.
fn at_rest(found: &Life, expected: &Life) -> Vec<Wrong> {
    let mut wrong: Vec<String> = differ(&found.tree, &expected.tree).collect();
    let left = found.state.keys().filter(|path| !expected.state.contains_key(*path));
    wrong.extend(left.map(|path| format!("{path} is left")));
    if found.current != expected.current || found.stage.is_some() {
        wrong.push(format!("current.json names {}, the journal is {:?}", found.current, found.stage));
    }
    wrong.into_iter().map(|text| Wrong(Fault::Stuck, format!("at rest: {text}"))).collect()
}

/// What is wrong with what a cut of the update from `from` to `to` has left, when the node had said `said`.
fn judge(found: &Life, known: &Known, [from, to]: [usize; 2], said: &[String; 3]) -> Vec<Wrong> {
    let (before, after) = (&known.lives[from], &known.lives[to]);
    let guard: Tree = known.guard.iter().cloned().collect();
    let torn = node_lives::torn(&found.tree, &[&before.tree, &after.tree, &guard]).into_iter();
    let mut wrong: Vec<Wrong> = torn.map(|path| Wrong(Fault::Torn, format!("neither old nor new: {path}"))).collect();
    match against_records([before, after], &known.guard, true, found) {
        Ok((_, against)) => wrong.extend(against),
        Err(against) => wrong.push(against),
    }
    wrong.extend(unguarded(&known.guard, found));
    let [state, phase, current] = said;
    let is_done = state == "Done" && *current == CONFIGS[to];
    if is_done || *current == CONFIGS[to] || ["Restarting", "Rebooting", "Verifying"].contains(&phase.as_str()) {
        let of_guard = |text: &String| known.guard.iter().any(|(path, _)| text.starts_with(path.as_str()));
        let mut lost: Vec<String> =
            differ(&found.tree, &after.tree).filter(|text| is_done || !of_guard(text)).collect();
        if found.current != CONFIGS[to] || (is_done && found.stage.is_some()) {
            lost.push(format!("current.json names {}, the journal is {:?}", found.current, found.stage));
        }
        wrong.extend(lost.into_iter().map(|text| Wrong(Fault::Lost, format!("it was told: {text}"))));
    }
    wrong
}

/// Begins an update, and takes the power away after that many requests to the disk, or soon after it is done.
fn update_until(
    mut machine: Machine<'_>,
    site: &Site,
    to: usize,
    cost: Cost,
    at: usize,
) -> (Cached, Result<(), String>) {
    site.api.state().policy = Some(node_api::policy(&cost.actions()));
    let last = machine.events() + at;
    machine.end_after(last);
    site.want(to);
    let done = Cell::new(None);
    let told = machine.until("ends the update", |machine| {
        if done.get().is_none() && site.is_done() {
            done.set(Some(Instant::now()));
        }
        machine.events() >= last || done.get().is_some_and(|since: Instant| since.elapsed() > LINGER)
    });
    (machine.end(), told)
}

/// Cuts the power that many times.
fn cut(kind: Kind, cuts: usize) {
    let _one = begin();
    let (site, known) = learned(kind);
    let (bench, since, mut random) = (site.bench(), Instant::now(), Random::new(kind as u64));
    let mut tally = Tally::default();
    let (mut disks, mut contents) = (BTreeSet::new(), BTreeSet::new());
    let mut withdrawals = 0;
    let mut machine = site.join(false).unwrap();
    let mut from = 0;
    for number in 0..cuts {
        let to = WISHES[(WISHES.iter().position(|wish| *wish == from).unwrap() + 1) % 3];
        let cost = Cost::EACH[(number + number / 3) % 3];
        let loss = [Loss::All, Loss::Blocks, Loss::Sectors][random.below(3)];
        // The boot is a part of it when there is one.
        let expected = match cost {
            Cost::Nothing => known.events[to],
            Cost::Restart => known.events[to] + known.of_guard,
            Cost::Reboot => 2 * (known.events[to] + known.of_guard),
        };
        let at = random.below(expected) + 1;
        let begun = Instant::now();
        let (cached, told) = update_until(machine, site, to, cost, at);
        let said = site.said();
        let image = cached.cut(loss, random.next());
        let mut wrong = told.err().map_or_else(Vec::new, |error| vec![Wrong(Fault::Stuck, error)]);
        disks.insert(image.digest());
        match life(&bench, &image) {
            Ok(found) => {
                contents.insert(found.digest);
                wrong.extend(judge(&found, known, [from, to], &said));
            }
            Err(error) => wrong.push(error),
        }
        let mut again = Machine::start(site, image, false);
        match again
            .until_at_rest()
            .map_err(|error| Wrong(Fault::Stuck, error))
            .and_then(|()| life(&bench, &again.durable()))
        {
            Ok(found) => wrong.extend(at_rest(&found, &known.lives[to])),
            Err(error) => wrong.push(error),
        }
        let cut = format!(
            "{kind:?}, cut {number}: {from} to {to}, {cost:?}, after {at} of {expected}, {loss:?}, said {}",
            said.join(" ")
        );
        eprintln!("{cut}: {} wrong, {:.0?}", wrong.len(), begun.elapsed());
        withdrawals += usize::from(to == 0);
        (machine, from) = if wrong.is_empty() {
            (again, to)
        } else {
            let violation = Violation::new(&cut, &wrong);
            eprintln!("{}", violation.text);
            tally.violations.push(violation);
            drop(again);
            (site.join(false).unwrap(), 0)
        };
        tally.states += 1;
    }
    (tally.disks, tally.contents) = (disks.len(), contents.len());
    let each = since.elapsed() / u32::try_from(cuts).unwrap();
    eprintln!("{kind:?}, virtual machine: {tally}; {withdrawals} of withdrawals; {each:.1?} each");
    assert!(tally.violations.is_empty(), "{tally}");
}

#[test]
#[ignore = "needs root, loop devices and QEMU: tests/faults/vm.sh"]
fn a_machine_is_whole_and_ends_its_update_after_any_power_cut_on_ext4() {
    cut(Kind::Ext4, if is_soak() { 40 } else { 3 });
}

#[test]
#[ignore = "needs root, loop devices and QEMU: tests/faults/vm.sh"]
fn a_machine_is_whole_and_ends_its_update_after_any_power_cut_on_xfs() {
    cut(Kind::Xfs, if is_soak() { 15 } else { 1 });
}

#[test]
#[ignore = "needs root, loop devices and QEMU: tests/faults/vm.sh"]
fn a_machine_is_whole_and_ends_its_update_after_any_power_cut_on_btrfs() {
    cut(Kind::Btrfs, if is_soak() { 15 } else { 1 });
}

/// The judge is not blind: what a disk loses that answers flushes and does nothing about them is missed.
fn lie(kind: Kind) {
    let _one = begin();
    let site = Site::new(kind);
    let bench = site.bench();
    let (cached, told) = update_until(site.join(true).unwrap(), &site, 1, Cost::Nothing, usize::MAX / 2);
    told.unwrap();
    let said = site.said();
    // The end of a program alone takes nothing: what it is then is what it should be.
    let lives = [&site.start, &cached.cut(Loss::Nothing, 0)].map(|image| life(&bench, image).unwrap());
    let known = Known { lives: lives.into(), guard: Vec::new(), events: [0; 3], of_guard: 0 };
    let noticed = Loss::EACH.into_iter().filter(|loss| {
        let wrong = match life(&bench, &cached.cut(*loss, 1)) {
            Ok(found) => judge(&found, &known, [0, 1], &said),
            Err(error) => vec![error],
        };
        eprintln!(
            "{kind:?}, {loss:?} of what was not flushed: {:.1000}",
            Violation::new("a disk that lies", &wrong).text
        );
        assert_eq!(wrong.is_empty(), *loss == Loss::Nothing, "{loss:?}");
        !wrong.is_empty()
    });
    eprintln!("{kind:?}, a disk that lies: {} of {} cuts noticed", noticed.count(), Loss::EACH.len());
}

#[test]
#[ignore = "needs root, loop devices and QEMU: tests/faults/vm.sh"]
fn a_disk_that_only_says_that_it_has_flushed_is_found_out_on_ext4() {
    lie(Kind::Ext4);
}

#[test]
#[ignore = "needs root, loop devices and QEMU: tests/faults/vm.sh"]
fn a_disk_that_only_says_that_it_has_flushed_is_found_out_on_xfs() {
    lie(Kind::Xfs);
}

#[test]
#[ignore = "needs root, loop devices and QEMU: tests/faults/vm.sh"]
fn a_disk_that_only_says_that_it_has_flushed_is_found_out_on_btrfs() {
    lie(Kind::Btrfs);
}
