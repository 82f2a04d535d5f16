//! Real disks that refuse: full, without inodes, read-only in the middle, immutable, busy, layered. What cannot be written
//! is undone or finished later, the error names the path, and all is fine when the disk is.

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "test code outside of #[test] functions")]

#[path = "support/node_lives.rs"]
mod node_lives;
#[path = "support/node_root.rs"]
mod node_root;

use mcx::node::disk::Disk;
use mcx::node::folder::{self, Ended};
use mcx::node::journal::Stage;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use node_lives::{before, new, old};
use node_root::{Node, assert_same, config, empty, file, named};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A mount that goes with the test.
struct Mounted(PathBuf);

impl Mounted {
    /// A file system in memory.
    fn tmpfs(at: PathBuf, options: &str) -> Self {
        fs::create_dir_all(&at).unwrap();
        mount(Some("tmpfs"), &at, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
        Self(at)
    }

    fn bind(from: &Path, at: PathBuf) -> Self {
        mount(Some(from), &at, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        Self(at)
    }

    fn remount(&self, read_only: bool) {
        let flags = if read_only { MsFlags::MS_RDONLY } else { MsFlags::empty() };
        // Of this mount only: the file system may be in use elsewhere.
        mount(None::<&str>, &self.0, None::<&str>, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags, None::<&str>)
            .unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Fills a file system to its last block.
fn fill(dir: &Path) -> PathBuf {
    let at = dir.join("filler");
    let mut size = 1 << 20;
    while size > 0 {
        let held = fs::metadata(&at).map_or(0, |meta| meta.len());
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&at).unwrap();
        if std::io::Write::write_all(&mut file, &vec![b'x'; size]).is_err() {
            size = if fs::metadata(&at).unwrap().len() > held { size } else { size / 2 };
        }
    }
    at
}

/// The next run of `mcx apply`, and its steps; `step` sees each before it is carried out.
fn apply(node: &Node, to: &Value, step: &mut (dyn FnMut(&str) + Send)) -> Result<Ended, String> {
    node.runtime.block_on(async {
        let disk = Disk::open(node.host(), Duration::ZERO).await.map_err(|error| error.to_string())?;
        let mut observer = |of: &mcx::node::plan::Step| step(&of.to_string());
        let to = named(to);
        let ended = async {
            folder::finish(&disk, &to.name, &mut observer).await?;
            if folder::current(&disk)?.name == to.name {
                return Ok(Ended::Done);
            }
            folder::update(&disk, &to, &mut observer).await
        };
        ended.await.map_err(|error: mcx::node::host::Error| error.to_string())
    })
}

fn done(node: &Node, to: &Value, when: &str) {
    assert_eq!(apply(node, to, &mut |_| {}), Ok(Ended::Done), "{when}");
}

fn one(path: &str, size: usize) -> Value {
    config(&[file("/etc/before", "x\n", 0o644), file(path, &"y".repeat(size), 0o644)], &[], None)
}

#[test]
fn a_disk_that_is_full_is_refused_before_and_undone_in_the_middle() {
    for (options, size, filled, word) in [
        ("size=1m", 2 << 20, false, "no space for /etc/small/big"),
        ("size=1m", 64 << 10, true, "cannot write /etc/small/big: No space left on device"),
        ("size=1m,nr_inodes=4", 10, true, "cannot write /etc/small/big: No space left on device"),
    ] {
        let Some(node) = Node::new() else { return };
        let small = Mounted::tmpfs(node.at("/etc/small"), options);
        let tree = node.tree();
        let to = one("/etc/small/big", size);
        let ended = apply(&node, &to, &mut |step| {
            // What was free when it was looked at is not when it is needed.
            if filled && step == "stage /etc/small/big" {
                let mut n = 0;
                while options.contains("inodes") && fs::write(small.0.join(format!("n{n}")), "").is_ok() {
                    n += 1;
                }
                fill_if(&small.0, !options.contains("inodes"));
            }
        });
        let said = match ended {
            Ok(Ended::Refused(check)) if !filled => check.obstacles.join("; "),
            Ok(Ended::Undone(why)) if filled => why,
            other => panic!("{options}: {other:?}"),
        };
        assert!(said.contains(word), "{options}: {said}");
        for entry in fs::read_dir(&small.0).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        assert_same(&node.tree(), &tree, options);
        if filled {
            done(&node, &to, options);
        }
    }
}

fn fill_if(dir: &Path, wanted: bool) {
    if wanted {
        fill(dir);
    }
}

/// A fault that begins before a step and is taken away after the run.
struct Fault<F> {
    /// What is said of it: `full`, `read-only`.
    name: &'static str,
    /// What each error says of it, and of where.
    says: [&'static str; 2],
    /// Lays the place of the fault onto a node.
    on: fn(&Node) -> F,
    begin: fn(&F),
    end: fn(&F),
}

/// The fault before each step of a first update in turn, or before a sample of them: what was done, undone or left open then
/// is whole, and the next run ends the update. How many were undone, and how many left open.
fn before_each_step<F: Sync>(fault: &Fault<F>) -> Option<(usize, usize)> {
    let template = Node::new()?;
    before(&template);
    let bare = template.tree();
    let whole = template.copy();
    let mut steps = Vec::new();
    assert_eq!(apply(&whole, &old(), &mut |step| steps.push(step.to_owned())), Ok(Ended::Done));
    let tree = whole.tree();
    let (mut undone, mut finished, mut open) = (0, 0, 0);
    for (at, step) in steps.iter().enumerate().step_by(if std::env::var_os("MCX_SOAK").is_some() { 1 } else { 9 }) {
        let node = template.copy();
        let place = (fault.on)(&node);
        let mut seen = 0;
        let ended = apply(&node, &old(), &mut |_| {
            if seen == at {
                (fault.begin)(&place);
            }
            seen += 1;
        });
        let when = format!("{} before step {at}, {step}", fault.name);
        let why = match ended {
            Ok(Ended::Done) => {
                assert_same(&node.tree(), &tree, &when);
                finished += 1;
                None
            }
            Ok(Ended::Undone(why)) => {
                assert_same(&node.tree(), &bare, &when);
                undone += 1;
                Some(why)
            }
            Ok(Ended::Refused(check)) => panic!("{when}: {check:?}"),
            Err(why) => {
                open += 1;
                Some(why)
            }
        };
        if let Some(why) = why {
            assert!(fault.says.iter().all(|word| why.contains(word)), "{when}: {why}");
            let torn = node_lives::torn(&node.tree(), &[&bare, &tree]);
            assert!(torn.is_empty(), "{when}: {torn:?}");
            // While the fault is there the next run fails as well, and says so.
            assert!(!matches!(apply(&node, &old(), &mut |_| {}), Ok(Ended::Done)), "{when}");
        }
        (fault.end)(&place);
        done(&node, &old(), &format!("{when}, then not any more"));
        assert_same(&node.tree(), &tree, &format!("{when}, then not any more"));
        done(&node, &empty(), &when);
        assert_same(&node.tree(), &bare, &format!("{when}, then withdrawn"));
    }
    let count = steps.len();
    println!("{}: {count} steps, {undone} undone, {finished} finished, {open} left to the next run", fault.name);
    Some((undone, open))
}

/// `/var/lib/mcx` on a file system of its own, which is full at each step in turn, and then is not.
#[test]
fn a_state_folder_that_is_full_at_any_step_is_undone_or_finished_later() {
    let counts = before_each_step(&Fault {
        name: "full",
        says: ["No space left", "/var/lib/mcx/"],
        on: |node| Mounted::tmpfs(node.at("/var/lib/mcx"), "size=1m"),
        begin: |state| drop(fill(&state.0)),
        end: |state| fs::remove_file(state.0.join("filler")).unwrap(),
    });
    assert!(counts.is_none_or(|(undone, open)| undone + open > 0));
}

/// The file system of most targets becomes read-only before each step in turn. That all of it does, the state included, is
/// part of the error sweep (EROFS from some call on).
#[test]
fn a_disk_that_becomes_read_only_in_the_middle_is_finished_when_it_is_writable() {
    let counts = before_each_step(&Fault {
        name: "read-only",
        says: ["Read-only file system", "/etc/"],
        on: |node| Mounted::bind(&node.at("/etc"), node.at("/etc")),
        begin: |disk| disk.remount(true),
        end: |disk| disk.remount(false),
    });
    assert!(counts.is_none_or(|(undone, open)| undone > 0 && open > 0));
}

#[test]
fn what_is_mounted_on_a_target_is_refused_before_and_never_written_in_the_middle() {
    let Some(node) = Node::new() else { return };
    node.write("/etc/busy", "below\n", 0o644);
    node.write("/srv/over", "over\n", 0o644);
    let to = config(&[file("/etc/a", "a\n", 0o644), file("/etc/busy", "ours\n", 0o644)], &[], None);
    let tree = node.tree();
    let mut mounted = None;
    let ended = apply(&node, &to, &mut |step| {
        if step == "switch /etc/busy" {
            mounted = Some(Mounted::bind(&node.at("/srv/over"), node.at("/etc/busy")));
        }
    });
    let Ok(Ended::Undone(why)) = ended else { panic!("{ended:?}") };
    assert!(why.contains("failed: cannot replace /etc/busy: ") && why.contains("busy"), "{why}");
    assert_eq!((node.read("/etc/busy"), node.read("/srv/over")), ("over\n".into(), "over\n".into()));
    let Ok(Ended::Refused(check)) = apply(&node, &to, &mut |_| {}) else { panic!("not refused") };
    assert!(check.obstacles[0].starts_with("/etc/busy cannot be replaced: something is mounted on it"), "{check:?}");
    drop(mounted);
    assert_same(&node.tree(), &tree, "unmounted");
    done(&node, &to, "unmounted");
    done(&node, &empty(), "unmounted");
    assert_same(&node.tree(), &tree, "withdrawn");
}

fn chattr(flag: &str, at: &Path) -> bool {
    Command::new("chattr").arg(flag).arg(at).output().is_ok_and(|output| output.status.success())
}

/// An immutable thing, changeable again when the test ends.
struct Immutable(PathBuf);

impl Drop for Immutable {
    fn drop(&mut self) {
        chattr("-i", &self.0);
    }
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn an_immutable_file_or_folder_is_named_and_all_else_undone() {
    let Some(node) = Node::lasting() else { return };
    node.write("/etc/fixed", "theirs\n", 0o600);
    fs::create_dir(node.at("/etc/closed")).unwrap();
    let tree = node.tree();
    for (fixed, path, said) in [
        ("/etc/fixed", "/etc/fixed", "cannot replace /etc/fixed: Operation not permitted"),
        ("/etc/closed", "/etc/closed/x", "cannot write /etc/closed/x: Operation not permitted"),
    ] {
        let to = config(&[file("/etc/a", "a\n", 0o644), file(path, "ours\n", 0o644)], &[], None);
        if !chattr("+i", &node.at(fixed)) {
            eprintln!("skipped: this file system has no immutable files");
            return;
        }
        let guard = Immutable(node.at(fixed));
        let ended = apply(&node, &to, &mut |_| {});
        let Ok(Ended::Undone(why)) = ended else { panic!("{fixed}: {ended:?}") };
        assert!(why.contains(said), "{fixed}: {why}");
        assert_same(&node.tree(), &tree, fixed);
        drop(guard);
        done(&node, &to, "changeable again");
        done(&node, &empty(), "changeable again");
        assert_same(&node.tree(), &tree, "withdrawn");
    }
}

/// `/etc` of many an image: lower files are copied up, lower folders cannot be renamed.
#[test]
fn an_etc_in_layers_is_updated_and_given_back() {
    let Some(node) = Node::new() else { return };
    before(&node);
    let layers = Mounted::tmpfs(node.at("/layers"), "size=16m");
    for dir in ["lower", "upper", "work"] {
        fs::create_dir(layers.0.join(dir)).unwrap();
    }
    let copied = Command::new("cp").arg("-a").args([node.at("/etc/."), layers.0.join("lower")]).status().unwrap();
    assert!(copied.success());
    let layer = |name: &str| layers.0.join(name).display().to_string();
    let options = format!("lowerdir={},upperdir={},workdir={}", layer("lower"), layer("upper"), layer("work"));
    mount(Some("overlay"), &node.at("/etc"), Some("overlay"), MsFlags::empty(), Some(options.as_str())).unwrap();
    let overlay = Mounted(node.at("/etc"));
    let tree = |node: &Node| {
        let mut tree = node.tree();
        tree.retain(|path, _| !path.starts_with("/layers"));
        tree
    };
    let bare = tree(&node);
    for to in [old(), new(), old(), empty()] {
        done(&node, &to, "in layers");
    }
    assert_same(&tree(&node), &bare, "withdrawn");
    drop(overlay);
}

#[test]
fn a_file_system_of_its_own_below_a_target_s_folder_is_written_where_it_is() {
    let Some(node) = Node::new() else { return };
    let other = Mounted::tmpfs(node.at("/etc/other"), "size=1m");
    fs::write(other.0.join("there"), "before\n").unwrap();
    let tree = node.tree();
    let to = config(
        &[
            file("/etc/x", "x\n", 0o644),
            file("/etc/other/there", "ours\n", 0o644),
            file("/etc/other/deep/new", "n\n", 0o644),
        ],
        &[],
        None,
    );
    done(&node, &to, "two file systems");
    assert_eq!(fs::read_to_string(other.0.join("there")).unwrap(), "ours\n");
    done(&node, &empty(), "two file systems");
    assert_same(&node.tree(), &tree, "withdrawn");
}

/// An error that passes while the daemon's journal is open is met by going on: forward after the first switch.
#[test]
fn an_error_of_the_disk_in_the_middle_of_switching_is_gone_on_from() {
    let Some(node) = Node::new() else { return };
    before(&node);
    node.update(&empty(), &old());
    let disk = node.disk();
    let mut journal = Node::open(&disk, &old(), &new());
    let mounted = Mounted::bind(&node.at("/etc"), node.at("/etc"));
    let mut block = |step: &mcx::node::plan::Step| {
        if step.to_string() == "switch /etc/mode.conf" {
            mounted.remount(true);
        }
    };
    let error = node.runtime.block_on(disk.forward_observed(&mut journal, &mut block)).unwrap_err();
    assert_eq!(error.to_string(), "cannot replace /etc/mode.conf");
    assert_eq!(journal.stage, Stage::Switching);
    mounted.remount(false);
    node.runtime.block_on(disk.forward(&mut journal)).unwrap();
    disk.close().unwrap();
    assert_eq!(node.deviations(&disk, &new()), Vec::<String>::new());
}

/// What is at a target was small when it was looked at, and is more than the disk has when it is copied aside.
#[test]
fn an_original_that_grows_out_of_the_disk_is_let_go_and_the_update_undone() {
    let Some(node) = Node::new() else { return };
    let state = Mounted::tmpfs(node.at("/var/lib/mcx"), "size=1m");
    node.write("/etc/grows", "small\n", 0o600);
    let tree = node.tree();
    let to = one("/etc/grows", 10);
    let ended = apply(&node, &to, &mut |step| {
        if step == "note what is at /etc/grows" {
            fs::OpenOptions::new().write(true).open(node.at("/etc/grows")).unwrap().set_len(64 << 20).unwrap();
        }
    });
    let Ok(Ended::Undone(why)) = ended else { panic!("{ended:?}") };
    assert!(why.contains("No space left on device") && why.contains("/var/lib/mcx/originals/"), "{why}");
    let left: Vec<_> =
        fs::read_dir(state.0.join("originals")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".mcx-")), "{left:?}");
    fs::write(node.at("/etc/grows"), "small\n").unwrap();
    assert_same(&node.tree(), &tree, "undone");
    done(&node, &to, "small again");
    done(&node, &empty(), "small again");
    assert_same(&node.tree(), &tree, "withdrawn");
}

/// A file system on a loop device, which goes with the test.
struct Quota {
    /// In a folder of its own, since a file cannot be unmounted while it is in use.
    _image: tempfile::TempDir,
    mounted: Mounted,
}

impl Quota {
    /// btrfs with no more than `limit` bytes for the subvolume at `at`. None, with a word why, where there is none.
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn btrfs(at: PathBuf, limit: &str) -> Option<Self> {
        let image = tempfile::tempdir().unwrap();
        let file = image.path().join("image");
        fs::File::create(&file).unwrap().set_len(128 << 20).unwrap();
        fs::create_dir_all(&at).unwrap();
        let script = "set -e; mkfs.btrfs -q \"$1\"; mount -o loop \"$1\" \"$2\"; btrfs quota enable \"$2\"; btrfs qgroup limit -e $3 0/5 \"$2\" || btrfs qgroup limit $3 0/5 \"$2\"";
        let made = Command::new("sh").args(["-c", script, "sh"]).arg(&file).arg(&at).arg(limit).output().unwrap();
        let mounted = Mounted(at);
        if made.status.success() {
            return Some(Self { _image: image, mounted });
        }
        eprintln!("skipped: no btrfs with a quota here: {}", String::from_utf8_lossy(&made.stderr));
        None
    }
}

#[test]
fn a_quota_is_as_no_space() {
    let Some(node) = Node::new() else { return };
    let Some(quota) = Quota::btrfs(node.at("/etc/small"), "4M") else { return };
    let tree = node.tree();
    let to = one("/etc/small/big", 256 << 10);
    let filler = quota.mounted.0.join("filler");
    let ended = apply(&node, &to, &mut |step| {
        if step == "stage /etc/small/big" {
            let mut file = fs::File::create(&filler).unwrap();
            while std::io::Write::write_all(&mut file, &vec![7; 64 << 10]).and_then(|()| file.sync_all()).is_ok() {}
        }
    });
    let Ok(Ended::Undone(why)) = ended else { panic!("{ended:?}") };
    assert!(why.contains("cannot write /etc/small/big: ") && why.to_lowercase().contains("quota"), "{why}");
    fs::remove_file(&filler).unwrap();
    assert!(Command::new("sync").arg("-f").arg(&quota.mounted.0).status().unwrap().success());
    assert_same(&node.tree(), &tree, "undone");
    done(&node, &to, "with space again");
    done(&node, &empty(), "with space again");
    assert_same(&node.tree(), &tree, "withdrawn");
}

#[test]
fn a_lost_state_folder_is_as_none_and_an_unusable_one_is_named() {
    let Some(node) = Node::lasting() else { return };
    let to = one("/etc/x", 10);
    done(&node, &to, "at first");
    let tree = node.tree();
    fs::remove_dir_all(node.at("/var/lib/mcx")).unwrap();
    done(&node, &to, "with no state");
    assert_same(&node.tree(), &tree, "with no state");
    // A file in its place, then a link to somewhere else in it.
    fs::remove_dir_all(node.at("/var/lib/mcx")).unwrap();
    node.write("/var/lib/mcx", "", 0o644);
    let why = apply(&node, &to, &mut |_| {}).unwrap_err();
    assert!(why.contains("/var/lib/mcx"), "{why}");
    fs::remove_file(node.at("/var/lib/mcx")).unwrap();
    node.link("/nowhere/at/all", "/var/lib/mcx");
    let why = apply(&node, &to, &mut |_| {}).unwrap_err();
    assert!(why.contains("/var/lib/mcx"), "{why}");
    assert_same(
        &{
            let mut tree = node.tree();
            tree.remove("/var/lib/mcx");
            tree
        },
        &tree,
        "nothing is touched",
    );
}

/// What it is called, a name, and how it is made.
type Making = (&'static str, &'static str, fn(&Path));

/// A device and a named pipe at managed paths, as drift: named, never opened to wait for somebody, never written.
#[test]
fn a_pipe_a_socket_or_a_device_in_a_managed_file_s_place_is_named_at_once() {
    let Some(node) = Node::new() else { return };
    let to = config(&[file("/etc/a", "a\n", 0o644)], &[], None);
    done(&node, &to, "at first");
    let at = node.at("/etc/a");
    let kinds: [Making; 3] = [
        ("a named pipe", "pipe", |at| {
            nix::unistd::mkfifo(at, nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
        }),
        ("a socket", "socket", |at| drop(std::os::unix::net::UnixListener::bind(at).unwrap())),
        // The null device: what is written to it by mistake is lost without a trace, so it is looked at below.
        ("a device", "device", |at| {
            use nix::sys::stat::{Mode, SFlag, makedev, mknod};
            mknod(at, SFlag::S_IFCHR, Mode::from_bits_truncate(0o644), makedev(1, 3)).unwrap();
        }),
    ];
    for (kind, name, make) in kinds {
        fs::remove_file(&at).unwrap();
        make(&at);
        let begun = std::time::Instant::now();
        let disk = node.disk();
        assert_eq!(node.deviations(&disk, &to), [format!("/etc/a is {kind}, expected a file")]);
        let next = config(&[file("/etc/a", "b\n", 0o644)], &[], None);
        let mut journal = Node::open(&disk, &to, &next);
        node.runtime.block_on(disk.forward(&mut journal)).unwrap_err();
        node.runtime.block_on(disk.back(&mut journal)).unwrap();
        disk.close().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
        assert!(!fs::symlink_metadata(&at).unwrap().is_file(), "{name}: it was replaced");
    }
}
