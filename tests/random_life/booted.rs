//! The real thing: a booted node of the rig, with a disk that forgets what was not flushed when the power goes, in a pool of
//! its own of a cluster with mcx in it. It does what a step says, waits for what the model says that comes of it, and
//! compares: the disk as it lies there, what systemd says of each unit, and what the Node says. mcx is asked nothing.

use crate::disk::{self, FORCE};
use crate::harness::{CONFIGS, NODES, NodeView, ROLLOUT, Rig, STEP, text};
use crate::model::{Model, Outcome, Says};
use crate::node_root::{self, Tree, VENDOR_UNITS, assert_same};
use crate::said::Said;
use crate::step::{BODIES, ConfigIs, PolicyIs, Step, UNITS};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The node, its role and its pool.
const NAME: &str = "life";
const SOURCE: &str = "50-life";
const DAEMON: &str = "machine-config-daemon";
const RUNTIME: &str = "/run/systemd/system";
/// Folders that are compared with all that is in them.
const WHOLE: [&str; 8] = [
    "/etc/was",
    "/etc/was-not",
    "/etc/cron.d",
    "/etc/systemd/system",
    "/opt/deep",
    "/home/boot/.ssh",
    "/usr/lib/systemd/system",
    RUNTIME,
];
/// Of these only they themselves are.
const ALONE: [&str; 11] = [
    "/etc",
    "/etc/systemd",
    "/etc/unmanaged.conf",
    "/opt",
    "/home",
    "/home/boot",
    "/usr",
    "/usr/lib",
    "/usr/lib/systemd",
    "/run",
    "/run/systemd",
];
/// What stands there before mcx, as in the folder that is a node.
const BARE: &str = "mkdir -p /etc/was /home/boot/.ssh
    echo was >/etc/was/file; chown 1000:107 /etc/was/file; chmod 4751 /etc/was/file
    ln -s /etc/hosts /etc/was/link; mkfifo -m 600 /etc/was/pipe
    echo mine >/home/boot/.ssh/authorized_keys; chmod 640 /home/boot/.ssh/authorized_keys; chown boot:boot /home/boot/.ssh
    rm -f /etc/systemd/system/multi-user.target.wants/chronyd.service
    chmod 640 /etc/systemd/system/local.service
    systemctl daemon-reload
    systemctl -q enable chronyd.service local.service; systemctl -q mask vendor.service
    systemctl stop chronyd.service; sync";
/// The first call that a daemon is killed before has number 1: here a moment, so much later for each.
const MOMENT: Duration = Duration::from_millis(3);

/// Where the node's paths are for this test.
struct Place {
    root: PathBuf,
    /// Read-only in the node, as on many: packages come from below.
    usr: PathBuf,
}

impl Place {
    fn at(&self, path: &str) -> PathBuf {
        let root = if path.starts_with("/usr/") { &self.usr } else { &self.root };
        root.join(path.trim_start_matches('/'))
    }
}

pub(crate) struct World<'a> {
    rig: &'a Rig,
    bare: Tree,
    model: Model,
    says: Says,
    /// A node that drifted is given nothing: this is for when it has been put right.
    kept_back: Option<ConfigIs>,
    /// Paths that a hand has changed.
    by_hand: BTreeSet<String>,
    has_more_records: bool,
    pub(crate) kills: usize,
    pub(crate) boots: usize,
}

impl<'a> World<'a> {
    /// A new node that has joined and is Done without any item.
    pub(crate) fn new(rig: &'a Rig) -> Self {
        let mut this = Self {
            rig,
            bare: Tree::new(),
            model: Model::new(Tree::new(), RUNTIME),
            says: Says::Done,
            kept_back: None,
            by_hand: BTreeSet::new(),
            has_more_records: false,
            kills: 0,
            boots: 0,
        };
        rig.node(NAME).remove();
        this.policy(PolicyIs { files: false, was: false, units: false, keys: false });
        this.want(&ConfigIs::default());
        rig.join(NAME, Some("DISK=1"));
        let role = json!({format!("node-role.kubernetes.io/{NAME}"): ""});
        rig.patch(&format!("{NODES}/{NAME}"), &json!({"metadata": {"labels": role}}));
        let empty = ConfigIs::default().name(NAME);
        rig.eventually(ROLLOUT, "the node is in its pool", || rig.lacks(NAME, &empty).map_or(Ok(()), Err));
        this.await_daemon("");
        for (unit, body) in VENDOR_UNITS {
            fs::write(this.place().at(&format!("/usr/lib/systemd/system/{unit}")), body).unwrap();
        }
        rig.node(NAME).write("/etc/systemd/system/local.service", BODIES[1].as_bytes());
        rig.node(NAME).sh(BARE);
        this.bare = this.tree();
        this.model = Model::new(this.bare.clone(), RUNTIME);
        this.model.desired = Some(ConfigIs::default());
        this.model.current = Some(ConfigIs::default());
        this
    }

    fn place(&self) -> Place {
        let supervisor = fs::read_to_string(self.rig.path(&format!("pid/{NAME}.super"))).unwrap();
        let below = self.rig.path(&format!("nodes/{NAME}/root"));
        let below = format!("/proc/{}/root{}", supervisor.trim(), below.display());
        let root = format!("/proc/{}/root", self.rig.node(NAME).leader());
        Place { root: root.into(), usr: below.into() }
    }

    fn tree(&self) -> Tree {
        let place = self.place();
        let mut tree = Tree::new();
        for path in WHOLE.into_iter().chain(ALONE) {
            let Some(entry) = node_root::entry_of(&place.at(path)) else { continue };
            if WHOLE.contains(&path) && entry.0 == 'd' {
                let below = node_root::whole_of(&place.at(path));
                tree.extend(below.into_iter().map(|(name, entry)| (format!("{path}{name}"), entry)));
            }
            tree.insert(path.to_owned(), entry);
        }
        tree
    }

    fn policy(&self, is: PolicyIs) {
        let actions = |boots: bool| json!([{"type": if boots { "Reboot" } else { "None" }}]);
        self.rig.set_policy(&json!({
            "defaultNodeDisruptionPolicySpecAction": {"files": actions(is.files), "units": actions(is.units)},
            "nodeDisruptionPolicy": {
                "files": [{"path": "/etc/was", "actions": actions(is.was)}], "sshkey": {"actions": actions(is.keys)},
            },
        }));
    }

    /// Does a step and compares. Whether there was anything to do.
    pub(crate) fn step(&mut self, step: &Step) -> bool {
        let has_drifted = matches!(self.says, Says::Drift(_));
        let is_wish = matches!(step, Step::Config(_) | Step::Withdraw(_) | Step::Killed(..) | Step::Cut(..));
        // Which of two configs it takes when it goes on is chance.
        let by_chance = has_drifted && is_wish && self.model.is_pending();
        if by_chance || (*step == Step::Force && self.kept_back.is_some()) {
            return false;
        }
        let before = self.model.clone();
        if self.model.step(step).is_none() {
            return false;
        }
        let by_hand = self.model.disk.clone();
        let wanted = self.model.desired.clone().unwrap_or_default();
        if has_drifted && is_wish {
            self.kept_back = std::mem::replace(&mut self.model.desired, before.desired.clone());
        }
        let outcome = self.outcome();
        let boot = self.rig.node(NAME).boot_id();
        let mut boots = usize::from(outcome.boots)..=usize::from(outcome.boots);
        match step {
            Step::Config(_) | Step::Withdraw(_) => self.want(&wanted),
            Step::Killed(_, moment) => {
                self.want(&wanted);
                self.killed(*moment);
            }
            Step::Cut(_, moment) => {
                self.want(&wanted);
                self.cut(*moment);
                // Of two boots one may be the other.
                boots = 1..=1 + boots.end();
            }
            Step::Hand(..) | Step::UnitHand(..) | Step::PutRight => self.hand(&before.disk, &by_hand),
            Step::Force => drop(self.rig.node(NAME).sh(&format!("touch {FORCE}"))),
            Step::Boot => {
                self.boot();
                boots = 1 + boots.start()..=1 + boots.end();
            }
            Step::Restart => self.replace_daemon(),
            Step::Policy(policy) => self.policy(*policy),
        }
        if matches!(step, Step::Killed(..) | Step::Cut(..)) {
            self.has_more_records = true;
        } else if self.model.current != before.current {
            self.has_more_records = false;
        }
        self.settle(&outcome, &boot, &boots);
        self.says = outcome.says;
        let units = |model: &Model| model.current.as_ref().map(|current| current.units.clone());
        self.compare(*boots.end() == 0 && units(&before) != units(&self.model));
        true
    }

    /// What comes of it, with what was kept back.
    fn outcome(&mut self) -> Outcome {
        let outcome = self.model.settle();
        if matches!(outcome.says, Says::Drift(_)) || self.kept_back.is_none() {
            return outcome;
        }
        self.model.desired = self.kept_back.take();
        let then = self.model.settle();
        Outcome { boots: outcome.boots || then.boots, ..then }
    }

    /// Returns when the pool wants it.
    fn want(&self, config: &ConfigIs) {
        let label = json!({"machineconfiguration.alauda.io/role": NAME});
        let source = json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfig",
            "metadata": {"name": SOURCE, "labels": label}, "spec": {"config": config.value()}});
        let path = format!("{CONFIGS}/{SOURCE}");
        if self.rig.get(&path).is_some() {
            // A merge would keep what is no longer there.
            self.rig.json_patch(&path, &json!([{"op": "replace", "path": "/spec", "value": source["spec"]}]));
        } else {
            self.rig.create(CONFIGS, &source).unwrap_or_else(|error| panic!("{source}: {error}"));
        }
        let name = config.name(NAME);
        self.rig.eventually(STEP, &format!("pool {NAME} wants {name}"), || match self.rig.target(NAME) {
            target if target == name => Ok(()),
            target => Err(format!("{target}; {:?}", self.rig.condition(NAME, "RenderDegraded"))),
        });
    }

    /// Waits until the node has been told, and for so many moments.
    fn await_moment(&self, moment: usize) {
        let name = self.model.desired.as_ref().map(|desired| desired.name(NAME)).unwrap_or_default();
        self.rig.eventually(STEP, "the node is told of its config", || match self.rig.view(NAME).desired {
            desired if desired == name => Ok(()),
            desired => Err(desired),
        });
        sleep(MOMENT * u32::try_from(moment).unwrap());
    }

    /// The daemon ends at once; the kubelet starts it again.
    fn killed(&mut self, moment: usize) {
        let (pod, container, restarts) = self.await_daemon("");
        let pid = process_of(&container);
        self.await_moment(moment);
        // It may be on its way out with its node.
        if pid.is_some_and(|pid| kill(pid, Signal::SIGKILL).is_ok()) {
            self.kills += 1;
        }
        // The second time the kubelet waits, longer each time.
        if restarts > 0 {
            self.rig.delete(&format!("/api/v1/namespaces/mcx-system/pods/{pod}"));
        }
        self.await_daemon(&container);
    }

    /// The power goes, and with it what was not flushed.
    fn cut(&mut self, moment: usize) {
        let (_, container, _) = self.await_daemon("");
        self.await_moment(moment);
        let node = self.rig.node(NAME);
        if node.crash() {
            node.start();
        } else {
            // It was rebooting at this moment.
            node.heal();
        }
        node.wait();
        self.await_daemon(&container);
    }

    fn boot(&mut self) {
        let (_, container, _) = self.await_daemon("");
        self.rig.node(NAME).reboot();
        self.await_daemon(&container);
    }

    fn replace_daemon(&self) {
        let (pod, container, _) = self.await_daemon("");
        self.rig.delete(&format!("/api/v1/namespaces/mcx-system/pods/{pod}"));
        self.await_daemon(&container);
    }

    /// The pod, the container that runs in it, and how often it was started again.
    fn daemon(&self) -> Option<(String, String, u64)> {
        let pods = self.rig.pods_on(NAME, DAEMON);
        let pod = pods.into_iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_null())?;
        let status = &pod["status"]["containerStatuses"][0];
        let is_up = status["ready"] == true && status["state"]["running"].is_object();
        let id = text(status, "/containerID").strip_prefix("containerd://")?.to_owned();
        let restarts = status["restartCount"].as_u64().unwrap_or_default();
        is_up.then(|| (text(&pod, "/metadata/name"), id, restarts))
    }

    /// Waits for a daemon that is not this one.
    fn await_daemon(&self, other: &str) -> (String, String, u64) {
        self.rig.eventually(ROLLOUT, "a daemon is ready", || match self.daemon() {
            Some(daemon) if daemon.1 != other => Ok(daemon),
            found => Err(format!("{found:?}")),
        })
    }

    /// Brings the disk from one tree to another while the whole node stands still, and flushes it: hands take their time.
    fn hand(&mut self, from: &Tree, to: &Tree) {
        let (node, place) = (self.rig.node(NAME), self.place());
        node.freeze();
        let changed = disk::change(from, to, &|path| place.at(path));
        for path in &changed {
            let at = place.at(path);
            for at in [at.as_path(), at.parent().unwrap()] {
                if at.is_file() || at.is_dir() {
                    // What a link leads to is the host's, and flushed for nothing.
                    File::open(at).unwrap().sync_all().unwrap();
                }
            }
        }
        node.thaw();
        self.by_hand.extend(changed);
    }

    /// Waits for what comes of a step; `boot` was before it.
    fn settle(&mut self, outcome: &Outcome, boot: &str, boots: &RangeInclusive<usize>) {
        let start = Instant::now();
        let mut seen = BTreeSet::from([boot.to_owned()]);
        loop {
            let view = self.rig.view(NAME);
            let says = self.says(&view, outcome);
            seen.insert(view.boot_id);
            if says.is_ok() && seen.len() > *boots.start() {
                break;
            }
            if start.elapsed() > ROLLOUT {
                let why = says.err().unwrap_or_default();
                panic!("{why}; {} boots of {boots:?}\n{}", seen.len() - 1, self.rig.dump());
            }
            sleep(Duration::from_millis(50));
        }
        seen.insert(self.rig.node(NAME).boot_id());
        self.boots += seen.len() - 1;
        assert!(boots.contains(&(seen.len() - 1)), "{} boots of {boots:?}", seen.len() - 1);
    }

    /// Whether the Node says what it shall, and is in service; else what it says instead.
    fn says(&self, view: &NodeView, outcome: &Outcome) -> Result<(), String> {
        let said = Said {
            state: view.state.clone(),
            reason: view.reason.clone(),
            phase: view.phase.clone(),
            current: view.current.clone(),
            asked: view.desired_drain.clone(),
        };
        said.is_as(&self.model, outcome, NAME)?;
        let desired = self.model.desired.as_ref().map(|desired| desired.name(NAME)).unwrap_or_default();
        let in_service = view.ready && !view.unschedulable && view.cordoned_by.is_none();
        if in_service && view.desired == desired { Ok(()) } else { Err(format!("{}, not {desired}", view.line())) }
    }

    /// Disk, state, originals and units are as the model has them. `is_reloaded`: systemd has read all units.
    fn compare(&self, is_reloaded: bool) {
        disk::assert_as(&self.model, &self.tree());
        let folder = self.place().at("/var/lib/mcx");
        let left: BTreeSet<String> = names(&folder).into_iter().collect();
        assert!(!left.contains("journal.json") && !left.contains("failed.json"), "{left:?}");
        let current = fs::read_to_string(folder.join("current.json")).unwrap();
        let current: Value = serde_json::from_str(current.lines().nth(1).unwrap()).unwrap();
        let expected = self.model.current.as_ref().map(|current| current.name(NAME)).unwrap_or_default();
        assert_eq!(current["name"], expected, "current.json");
        disk::assert_originals(&self.model, &folder.join("originals"), self.has_more_records);
        let (enablement, stale) = self.units();
        let expected = UNITS.map(|unit| (unit.to_owned(), self.model.word(unit).to_owned()));
        assert_eq!(enablement, BTreeMap::from(expected), "what systemctl is-enabled says");
        assert!(!is_reloaded || stale.is_empty(), "systemd has not read its files of {stale:?}");
    }

    /// What systemd says of each unit, and of which it has not read what is on the disk.
    fn units(&self) -> (BTreeMap<String, String>, Vec<String>) {
        let line = format!(
            "for u in {}; do echo \"$u $(systemctl is-enabled $u 2>/dev/null || :) \
             $(systemctl show -p NeedDaemonReload --value $u)\"; done",
            UNITS.join(" ")
        );
        let (mut words, mut stale) = (BTreeMap::new(), Vec::new());
        for line in self.rig.node(NAME).sh(&line).lines() {
            let parts: Vec<&str> = line.split_whitespace().collect();
            let (unit, last) = (parts[0].to_owned(), parts[parts.len() - 1]);
            // Of one that it does not find this systemctl has no word.
            let word = if parts.len() == 3 { parts[1] } else { "not-found" };
            // Of a masked one with drop-ins it never says that it has read them.
            if last == "yes" && !word.starts_with("masked") {
                stale.push(unit.clone());
            }
            words.insert(unit, word.to_owned());
        }
        (words, stale)
    }

    /// The end: everything is put right and withdrawn, and what no hand has changed is as it was before mcx.
    pub(crate) fn end(&mut self) {
        self.step(&Step::PutRight);
        self.step(&Step::Withdraw(vec![]));
        let pick = |tree: &Tree| -> Tree {
            let is_foreign = |path: &String| {
                let below = format!("{path}/");
                let is_by_hand =
                    self.by_hand.contains(path) || self.by_hand.iter().any(|hand| hand.starts_with(&below));
                is_by_hand || path.starts_with("/run")
            };
            tree.iter().filter(|(path, _)| !is_foreign(path)).map(|(p, e)| (p.clone(), e.clone())).collect()
        };
        if self.says == Says::Done && !self.model.is_pending() && self.kept_back.is_none() {
            assert_same(&pick(&self.tree()), &pick(&self.bare), "withdrawn");
        }
    }
}

/// Names in a folder.
fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The process of a container, as this machine sees it.
fn process_of(container: &str) -> Option<Pid> {
    names(Path::new("/proc")).iter().filter_map(|name| name.parse().ok()).find_map(|pid: i32| {
        // It may be gone by now.
        let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        cgroups.contains(container).then(|| Pid::from_raw(pid))
    })
}
