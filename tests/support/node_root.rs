//! A folder that is a node's root: accounts, vendor units, things that were there before mcx. Needs root, as the daemon
//! does, since owners are part of what is tested.
#![allow(dead_code, reason = "each test file uses a part of it")]

use base64::Engine as _;
use mcx::node::disk::Disk;
use mcx::node::host::Host;
use mcx::node::journal::{Journal, NamedConfig, Stage};
use mcx::node::plan::Step;
use mcx::render::items::Items;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The user `boot` of the root.
pub(crate) const BOOT: u32 = 1000;

/// A node.
pub(crate) struct Node {
    dir: tempfile::TempDir,
    pub(crate) runtime: tokio::runtime::Runtime,
}

/// What stands at a path: type, mode, owner, group, bytes or target.
pub(crate) type Entry = (char, u32, u32, u32, Vec<u8>);

/// A whole tree, the state of mcx apart.
pub(crate) type Tree = BTreeMap<String, Entry>;

/// Units that the vendor brings: with an alias, usual, static, a template.
pub(crate) const VENDOR_UNITS: [(&str, &str); 4] = [
    ("chronyd.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nAlias=ntp.service\n"),
    ("vendor.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"),
    ("static.service", "[Service]\nExecStart=/bin/true\n"),
    ("inst@.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"),
];

impl Node {
    /// A root in memory, where nothing waits for a disk. None, with a word why, when this machine cannot run such tests.
    pub(crate) fn new() -> Option<Self> {
        let shm = Path::new("/dev/shm");
        Self::below(if shm.is_dir() { shm } else { Path::new(env!("CARGO_TARGET_TMPDIR")) })
    }

    /// A root on the file system of the build, which lasts.
    pub(crate) fn lasting() -> Option<Self> {
        Self::below(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn below(parent: &Path) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: needs root, to give files to other users");
            return None;
        }
        if !Path::new("/usr/bin/systemctl").exists() {
            eprintln!("skipped: needs systemctl (Debian: apt-get install systemd)");
            return None;
        }
        let dir = tempfile::tempdir_in(parent).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let node = Self { dir, runtime: runtime() };
        node.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nboot:x:1000:1000::/home/boot:/bin/sh\n", 0o644);
        node.write("/etc/group", "root:x:0:\nboot:x:1000:\nchrony:x:107:\n", 0o644);
        node.write("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n", 0o444);
        for dir in ["/etc/systemd/system", "/run", "/home/boot", "/var/lib"] {
            fs::create_dir_all(node.at(dir)).unwrap();
        }
        chown(node.at("/home/boot"), Some(BOOT), Some(BOOT)).unwrap();
        for (unit, text) in VENDOR_UNITS {
            node.vendor(unit, text);
        }
        node.vendor("multi-user.target", "[Unit]\nDescription=x\n");
        node.systemctl(&["enable", "chronyd.service"]);
        Some(node)
    }

    /// A node that is just so. Files, folders and links only.
    pub(crate) fn of(tree: &Tree) -> Option<Self> {
        let node = Self::new()?;
        fs::remove_dir_all(node.root()).unwrap();
        fs::create_dir(node.root()).unwrap();
        for (path, (kind, mode, uid, gid, bytes)) in tree {
            let at = node.at(path);
            match kind {
                'd' => fs::create_dir(&at).unwrap(),
                'f' => fs::write(&at, bytes).unwrap(),
                'l' => symlink(std::str::from_utf8(bytes).unwrap(), &at).unwrap(),
                other => panic!("{path} is {other}"),
            }
            node.own(path, *uid, *gid);
            if *kind != 'l' {
                fs::set_permissions(&at, fs::Permissions::from_mode(*mode)).unwrap();
            }
        }
        Some(node)
    }

    /// Another node that is the same.
    pub(crate) fn copy(&self) -> Self {
        let dir = tempfile::tempdir_in(self.root().parent().unwrap()).unwrap();
        let from = self.root().join(".");
        let copied = std::process::Command::new("cp").arg("-a").args([&from, dir.path()]).status().unwrap();
        assert!(copied.success());
        Self { dir, runtime: runtime() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn write(&self, path: &str, text: &str, mode: u32) {
        let at = self.at(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(&at, text).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn own(&self, path: &str, uid: u32, gid: u32) {
        std::os::unix::fs::lchown(self.at(path), Some(uid), Some(gid)).unwrap();
    }

    pub(crate) fn link(&self, target: &str, path: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        symlink(target, self.at(path)).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    pub(crate) fn vendor(&self, unit: &str, text: &str) {
        self.write(&format!("/usr/lib/systemd/system/{unit}"), text, 0o644);
    }

    pub(crate) fn systemctl(&self, args: &[&str]) -> String {
        let root = format!("--root={}", self.root().display());
        let output = std::process::Command::new("systemctl").arg(root).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn host(&self) -> Arc<Host> {
        let host = Host::open(self.root()).unwrap().with_program(env!("CARGO_BIN_EXE_mcx").into());
        Arc::new(host)
    }

    /// Takes the lock until the disk is dropped.
    pub(crate) fn disk(&self) -> Disk {
        self.runtime.block_on(Disk::open(self.host(), Duration::from_secs(5))).unwrap()
    }

    /// Opens a transaction.
    pub(crate) fn open(disk: &Disk, from: &Value, to: &Value) -> Journal {
        Self::open_as(disk, from, to, false)
    }

    pub(crate) fn open_as(disk: &Disk, from: &Value, to: &Value, forced: bool) -> Journal {
        let journal = Journal {
            version: mcx::node::journal::VERSION,
            from: named(from),
            to: named(to),
            stage: Stage::Opened,
            actions: vec![],
            policy_generation: 1,
            boot_id: None,
            node_uid: None,
            forced,
            failure: None,
            guard: None,
        };
        disk.write_journal(&journal).unwrap();
        journal
    }

    /// A whole update.
    pub(crate) fn update(&self, from: &Value, to: &Value) {
        let disk = self.disk();
        let mut journal = Self::open(&disk, from, to);
        self.runtime.block_on(disk.forward(&mut journal)).unwrap();
        assert_eq!(journal.stage, Stage::Written);
        assert_eq!(self.deviations(&disk, to), Vec::<String>::new(), "after the update");
        disk.close().unwrap();
        assert_eq!(disk.stored().unwrap().current, Some(named(to)));
        assert_eq!(disk.stored().unwrap().journal, None);
    }

    pub(crate) fn deviations(&self, disk: &Disk, config: &Value) -> Vec<String> {
        let found = self.runtime.block_on(disk.compare(&items(config))).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    /// Whether the update is possible: drift, then obstacles.
    pub(crate) fn check(&self, from: &Value, to: &Value, forced: bool) -> (Vec<String>, Vec<String>) {
        let disk = self.disk();
        let found = self.runtime.block_on(disk.check(&items(from), &items(to), forced)).unwrap();
        (found.drift.iter().map(ToString::to_string).collect(), found.obstacles)
    }

    /// Carries a journal forward (or back) until just before its step `stop`, as a kill would end it. Returns the steps
    /// that were begun.
    pub(crate) fn until(&self, journal: &mut Journal, back: bool, stop: usize) -> Vec<Step> {
        let disk = self.disk();
        let mut steps = Vec::new();
        // A panic leaves at once, as a kill does: no code of the transaction runs after it.
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let mut observer = |step: &Step| {
                assert!(steps.len() < stop, "the crash");
                steps.push(step.clone());
            };
            self.runtime.block_on(async {
                if back {
                    disk.back_observed(journal, &mut observer).await
                } else {
                    disk.forward_observed(journal, &mut observer).await
                }
            })
        }));
        if let Ok(result) = ended {
            result.unwrap();
        }
        steps
    }

    /// All that is there but the state of mcx.
    pub(crate) fn tree(&self) -> Tree {
        tree_of(self.root())
    }

    /// All that is there.
    pub(crate) fn whole(&self) -> Tree {
        whole_of(self.root())
    }
}

/// All that is in a root but the state of mcx.
pub(crate) fn tree_of(root: &Path) -> Tree {
    let mut tree = whole_of(root);
    tree.retain(|path, _| !is_state(path));
    tree
}

/// Whether a path is mcx's own.
pub(crate) fn is_state(path: &str) -> bool {
    path == "/var/lib/mcx" || path.starts_with("/var/lib/mcx/")
}

/// All that is in a root.
pub(crate) fn whole_of(root: &Path) -> Tree {
    let mut tree = Tree::new();
    walk(root, root, &mut tree).unwrap();
    tree
}

/// What is in some of its folders; an error when its file system is damaged.
pub(crate) fn part_of(root: &Path, folders: &[&str]) -> std::io::Result<Tree> {
    let mut tree = Tree::new();
    for folder in folders {
        walk(root, &root.join(folder.trim_start_matches('/')), &mut tree)?;
    }
    Ok(tree)
}

fn walk(root: &Path, dir: &Path, tree: &mut Tree) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = format!("/{}", path.strip_prefix(root).unwrap().display());
        let found = read_entry(&path)?;
        let is_dir = found.0 == 'd';
        tree.insert(name, found);
        if is_dir {
            walk(root, &path, tree)?;
        }
    }
    Ok(())
}

/// What stands at a path of this machine; none when nothing does.
pub(crate) fn entry_of(path: &Path) -> Option<Entry> {
    fs::symlink_metadata(path).is_ok().then(|| read_entry(path).unwrap())
}

fn read_entry(path: &Path) -> std::io::Result<Entry> {
    let meta = fs::symlink_metadata(path)?;
    let (kind, bytes) = if meta.is_dir() {
        ('d', vec![])
    } else if meta.is_symlink() {
        ('l', fs::read_link(path)?.into_os_string().into_encoded_bytes())
    } else if meta.is_file() {
        ('f', fs::read(path)?)
    } else {
        ('o', vec![])
    };
    Ok((kind, meta.mode() & 0o7777, meta.uid(), meta.gid(), bytes))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Says where two trees differ, rather than printing both.
pub(crate) fn assert_same(found: &Tree, expected: &Tree, when: &str) {
    let paths: std::collections::BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let differ: Vec<String> = paths
        .into_iter()
        .filter(|path| found.get(*path) != expected.get(*path))
        .map(|path| format!("{path}: found {}, expected {}", shown(found.get(path)), shown(expected.get(path))))
        .collect();
    assert!(differ.is_empty(), "{when}: the trees differ:\n{}", differ.join("\n"));
}

pub(crate) fn shown(entry: Option<&Entry>) -> String {
    entry.map_or("nothing".into(), |(kind, mode, uid, gid, bytes)| {
        format!("{kind} {mode:04o} {uid}:{gid} {:?}", String::from_utf8_lossy(bytes))
    })
}

pub(crate) fn items(config: &Value) -> Items {
    Items::from_config(config).unwrap()
}

/// Names a config by what it holds.
pub(crate) fn named(config: &Value) -> NamedConfig {
    let name = if *config == json!({}) { String::new() } else { format!("rendered-worker-{}", items(config).hash()) };
    NamedConfig { name: name.into(), config: config.clone().into(), ..NamedConfig::default() }
}

/// A config from its files, units and keys.
pub(crate) fn config(files: &[Value], units: &[Value], keys: Option<&[u8]>) -> Value {
    let mut config = json!({"ignition": {"version": "3.4.0"}});
    if !files.is_empty() {
        config["storage"] = json!({ "files": files });
    }
    if !units.is_empty() {
        config["systemd"] = json!({ "units": units });
    }
    if let Some(keys) = keys {
        let keys: Vec<String> = keys.iter().map(|seed| key(*seed)).collect();
        config["passwd"] = json!({"users": [{"name": "boot", "sshAuthorizedKeys": keys}]});
    }
    config
}

pub(crate) fn file(path: &str, text: &str, mode: u32) -> Value {
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": data_url(text)}})
}

pub(crate) fn owned_file(path: &str, text: &str, mode: u32, user: Value, group: Value) -> Value {
    let mut file = file(path, text, mode);
    file["user"] = user;
    file["group"] = group;
    file
}

pub(crate) fn data_url(text: &str) -> String {
    format!("data:;base64,{}", base64::engine::general_purpose::STANDARD.encode(text))
}

/// A well-formed ed25519 key.
pub(crate) fn key(seed: u8) -> String {
    let mut blob = vec![0, 0, 0, 11];
    blob.extend_from_slice(b"ssh-ed25519");
    blob.extend_from_slice(&[0, 0, 0, 32]);
    blob.extend_from_slice(&[seed; 32]);
    format!("ssh-ed25519 {} k{seed}", base64::engine::general_purpose::STANDARD.encode(blob))
}

/// The YAML of a `MachineConfig` of pool `worker`.
pub(crate) fn source(name: &str, config: &Value) -> String {
    let mut config = config.clone();
    config["ignition"] = json!({"version": "3.4.0"});
    let object = json!({"apiVersion": "machineconfiguration.alauda.io/v1alpha1", "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.alauda.io/role": "worker"}},
        "spec": {"config": config}});
    format!("---\n{object}\n")
}

pub(crate) fn empty() -> Value {
    json!({})
}
