//! What can happen to a node: a small universe of things, and random sequences of what is done to them. A sequence is a
//! value that can be written down and run again.

use crate::node_root::{self, file, owned_file};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Files; what stands at each before mcx is in [`crate::world`].
pub(crate) const FILES: [&str; 7] = [
    "/etc/was/file",
    "/etc/was/link",
    "/etc/was/pipe",
    "/etc/was-not/a/b",
    "/etc/was-not/c",
    "/opt/deep/er/x",
    "/etc/cron.d/job",
];
/// Of the vendor: with an alias, masked, without `[Install]`, an instance; of the administrator; nobody's.
pub(crate) const UNITS: [&str; 6] =
    ["chronyd.service", "vendor.service", "static.service", "inst@a.service", "local.service", "app.service"];
/// Bodies of units, which differ in what enabling them does.
pub(crate) const BODIES: [&str; 4] = [
    "[Service]\nExecStart=/bin/true\n",
    "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
    "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=other.target\nRequiredBy=third.target\n",
    "[Service]\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n",
];
/// Contents of files.
pub(crate) const TEXTS: [&str; 4] = ["", "one\n", "two", "one\ntwo\n"];
pub(crate) const DROPIN: &str = "10-x.conf";
pub(crate) const KEYS: &str = "/home/boot/.ssh/authorized_keys";
/// Never managed.
pub(crate) const OTHERS: [&str; 4] =
    ["/etc/was/other", "/etc/unmanaged.conf", "/etc/systemd/system/app.service.d/20-y.conf", "/home/boot/.ssh/config"];

/// A file of a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIs {
    pub(crate) text: usize,
    pub(crate) mode: u32,
    /// By user `boot` and group 107, else by root.
    pub(crate) owned: bool,
}

/// A unit of a config.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnitIs {
    pub(crate) body: Option<usize>,
    pub(crate) enabled: Option<bool>,
    pub(crate) mask: Option<bool>,
    pub(crate) dropin: Option<u8>,
}

/// A config, as far as the model knows such.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfigIs {
    pub(crate) files: BTreeMap<String, FileIs>,
    pub(crate) units: BTreeMap<String, UnitIs>,
    pub(crate) keys: Option<BTreeSet<u8>>,
}

impl ConfigIs {
    /// As Ignition.
    pub(crate) fn value(&self) -> Value {
        let file = |(path, is): (&String, &FileIs)| {
            if is.owned {
                owned_file(path, TEXTS[is.text], is.mode, json!({"name": "boot"}), json!({"id": 107}))
            } else {
                file(path, TEXTS[is.text], is.mode)
            }
        };
        let files: Vec<Value> = self.files.iter().map(file).collect();
        let units: Vec<Value> = self.units.iter().map(|(name, is)| unit(name, is)).collect();
        let keys: Option<Vec<u8>> = self.keys.as_ref().map(|keys| keys.iter().copied().collect());
        node_root::config(&files, &units, keys.as_deref())
    }

    /// Names it by what it holds, as the rendered config of a pool; the empty one is one too.
    pub(crate) fn name(&self, pool: &str) -> String {
        format!("rendered-{pool}-{}", node_root::items(&self.value()).hash())
    }
}

fn unit(name: &str, is: &UnitIs) -> Value {
    let mut unit = json!({"name": name});
    if let Some(body) = is.body {
        unit["contents"] = json!(BODIES[body]);
    }
    if let Some(enabled) = is.enabled {
        unit["enabled"] = json!(enabled);
    }
    if let Some(mask) = is.mask {
        unit["mask"] = json!(mask);
    }
    if let Some(nice) = is.dropin {
        unit["dropins"] = json!([{"name": DROPIN, "contents": dropin(nice)}]);
    }
    unit
}

pub(crate) fn dropin(nice: u8) -> String {
    format!("[Service]\nNice={nice}\n")
}

/// What somebody's hand leaves at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Hand {
    /// Other contents; mode and owner stay, if there was a file.
    Text(usize),
    /// The same in a new file, of root, as editors and packages write it.
    Replaced(usize, u32),
    Mode(u32),
    Owner(u32, u32),
    Removed,
    Link,
    Dir,
    Fifo,
}

/// What a hand does to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum UnitHand {
    /// Writes its file.
    Body(usize),
    Mode(u32),
    Removed,
    Masked,
    RuntimeMasked,
    RuntimeUnmasked,
    /// By links in this folder of `/etc/systemd/system`.
    Wanted(bool),
    /// All links are removed.
    Unwanted,
    /// Writes the drop-in.
    DropIn(u8),
    DropInRemoved,
    DropInMasked,
    /// The vendor's package brings another file.
    Package(usize),
}

/// Which kinds of item cost a reboot; the others cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each kind of item has its own")]
pub(crate) struct PolicyIs {
    pub(crate) files: bool,
    /// Those below `/etc/was`.
    pub(crate) was: bool,
    pub(crate) units: bool,
    pub(crate) keys: bool,
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Another config is wanted.
    Config(ConfigIs),
    /// The present one without some of its items, by number; without any when none is named.
    Withdraw(Vec<usize>),
    /// Another config is wanted, and the daemon is killed before this call that changes a file.
    Killed(ConfigIs, usize),
    /// The same, and the whole node goes with it and boots anew.
    Cut(ConfigIs, usize),
    Hand(String, Hand),
    UnitHand(String, UnitHand),
    /// Somebody puts right all that was named.
    PutRight,
    /// The force file.
    Force,
    /// The node boots anew.
    Boot,
    /// Another daemon.
    Restart,
    Policy(PolicyIs),
}

fn any_file() -> impl Strategy<Value = (String, FileIs)> {
    let modes = prop::sample::select(vec![0o644, 0o600, 0o4755]);
    (prop::sample::select(FILES.to_vec()), 0..TEXTS.len(), modes, any::<bool>())
        .prop_map(|(path, text, mode, owned)| (path.to_owned(), FileIs { text, mode, owned }))
}

fn any_unit() -> impl Strategy<Value = (String, UnitIs)> {
    let flag = || prop::option::of(any::<bool>());
    let body = prop::option::of(0..BODIES.len());
    (prop::sample::select(UNITS.to_vec()), body, flag(), flag(), prop::option::weighted(0.3, 0..3_u8)).prop_map(
        |(name, body, enabled, mask, dropin)| {
            // Enabled and masked at once is refused.
            let enabled = enabled.filter(|enabled| !(*enabled && mask == Some(true)));
            // A unit of which nothing is said is none.
            let is_empty = body.is_none() && enabled.is_none() && mask.is_none() && dropin.is_none();
            let dropin = if is_empty { Some(0) } else { dropin };
            (name.to_owned(), UnitIs { body, enabled, mask, dropin })
        },
    )
}

fn any_config() -> impl Strategy<Value = ConfigIs> {
    let files = prop::collection::vec(any_file(), 0..5);
    let units = prop::collection::vec(any_unit(), 0..4);
    let keys = prop::option::of(prop::collection::btree_set(1..4_u8, 1..3));
    (files, units, keys).prop_map(|(files, units, keys)| ConfigIs {
        files: files.into_iter().collect(),
        units: units.into_iter().collect(),
        keys,
    })
}

fn any_hand() -> impl Strategy<Value = Step> {
    let paths: Vec<&str> = FILES.iter().chain(&OTHERS).copied().chain([KEYS]).collect();
    let modes = || prop::sample::select(vec![0o644, 0o600, 0o4755, 0o666]);
    let hand = prop_oneof![
        4 => (0..TEXTS.len()).prop_map(Hand::Text),
        3 => (0..TEXTS.len(), modes()).prop_map(|(text, mode)| Hand::Replaced(text, mode)),
        2 => modes().prop_map(Hand::Mode),
        2 => prop::sample::select(vec![(0, 0), (1000, 107), (77, 0)]).prop_map(|(uid, gid)| Hand::Owner(uid, gid)),
        3 => Just(Hand::Removed),
        1 => Just(Hand::Link),
        1 => Just(Hand::Dir),
        1 => Just(Hand::Fifo),
    ];
    (prop::sample::select(paths), hand).prop_map(|(path, hand)| Step::Hand(path.to_owned(), hand))
}

fn any_unit_hand() -> impl Strategy<Value = Step> {
    let hand = prop_oneof![
        3 => (0..BODIES.len()).prop_map(UnitHand::Body),
        1 => Just(UnitHand::Mode(0o600)),
        2 => Just(UnitHand::Removed),
        2 => Just(UnitHand::Masked),
        1 => Just(UnitHand::RuntimeMasked),
        1 => Just(UnitHand::RuntimeUnmasked),
        2 => any::<bool>().prop_map(UnitHand::Wanted),
        2 => Just(UnitHand::Unwanted),
        1 => (0..3_u8).prop_map(UnitHand::DropIn),
        1 => Just(UnitHand::DropInRemoved),
        1 => Just(UnitHand::DropInMasked),
        2 => (0..BODIES.len()).prop_map(UnitHand::Package),
    ];
    (prop::sample::select(UNITS.to_vec()), hand).prop_map(|(unit, hand)| Step::UnitHand(unit.to_owned(), hand))
}

/// One step. Drift keeps configs away, so that hands are rarer than they would be elsewhere, and often put right.
fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => any_config().prop_map(Step::Config),
        10 => prop::collection::vec(0..12_usize, 0..4).prop_map(Step::Withdraw),
        8 => (any_config(), 1..400_usize).prop_map(|(config, call)| Step::Killed(config, call)),
        4 => (any_config(), 1..400_usize).prop_map(|(config, call)| Step::Cut(config, call)),
        16 => any_hand(),
        12 => any_unit_hand(),
        16 => Just(Step::PutRight),
        3 => Just(Step::Force),
        4 => Just(Step::Boot),
        3 => Just(Step::Restart),
        4 => (prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.2), prop::bool::weighted(0.1))
            .prop_map(|(files, was, units, keys)| Step::Policy(PolicyIs { files, was, units, keys })),
    ]
}

/// A life of so many steps.
pub(crate) fn any_life(steps: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(), steps)
}
