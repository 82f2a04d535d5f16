//! Races for a folder of a user's. He owns `/home/boot` and swaps what is in it as fast as he can, while the daemon records,
//! writes, compares and withdraws his keys. Whatever becomes of the keys: nothing outside of his folder, and nothing of root's
//! inside of it, is written, removed, given another mode or owner, or copied to where he can read it. And nothing waits.
//!
//! A second or so each; a minute each with `MCX_SOAK=1`.

#![allow(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use mcx::node::disk::Disk;
use nix::fcntl::{AT_FDCWD, OFlag, RenameFlags, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, mkfifoat, setfsgid, setfsuid};
use node_root::{BOOT, Node, Tree, config, empty, items, named};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What only root may read.
const SECRET: &str = "root's secret\n";
/// A round takes some milliseconds; one that waits for somebody takes for ever.
const ROUND: Duration = Duration::from_secs(20);

fn time() -> Duration {
    if std::env::var_os("MCX_SOAK").is_some() { Duration::from_mins(1) } else { Duration::from_millis(1200) }
}

fn keys() -> Value {
    config(&[], &[], Some(&[1]))
}

/// The name of mcx's beside a target.
fn staged(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    digest[..8].iter().fold(".mcx-".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn below(tree: Tree, top: &str) -> Tree {
    tree.into_iter().filter(|(path, _)| path.starts_with(top)).collect()
}

/// The user's home, and what an attack needs to know.
struct Place {
    home: PathBuf,
    ssh: PathBuf,
    keys: PathBuf,
    /// Of root's alone, outside of the home.
    secret: PathBuf,
    escapes: AtomicUsize,
}

/// A file or folder of root's that lies in the user's home. He may move it about and even remove it, since the folder is
/// his; he may not read it.
struct Roots {
    held: File,
    mode: u32,
}

impl Roots {
    fn file(at: &Path) -> Self {
        // The first name is one that nobody races for.
        let made = at.with_extension("made");
        fs::write(&made, SECRET).unwrap();
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600)).unwrap();
        let held = File::open(&made).unwrap();
        let _ = fs::rename(&made, at);
        Self { held, mode: 0o600 }
    }

    fn dir(at: &Path) -> Self {
        let made = at.with_extension("made");
        fs::create_dir(&made).unwrap();
        fs::set_permissions(&made, fs::Permissions::from_mode(0o700)).unwrap();
        let held = File::open(&made).unwrap();
        if fs::rename(&made, at).is_err() {
            fs::remove_dir(&made).unwrap();
        }
        Self { held, mode: 0o700 }
    }

    fn is_gone(&self) -> bool {
        self.held.metadata().unwrap().nlink() == 0
    }

    /// Whether it is still root's alone, wherever it is by now.
    fn is_whole(&self) -> bool {
        let about = self.held.metadata().unwrap();
        let mut text = vec![0; SECRET.len()];
        let is_read = about.is_dir() || (self.held.read_exact_at(&mut text, 0).is_ok() && text == SECRET.as_bytes());
        (about.uid(), about.gid(), about.mode() & 0o7777) == (0, 0, self.mode) && is_read
    }
}

/// Ends the other thread, however this one ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One way to cheat.
struct Attack {
    name: &'static str,
    /// What the user has at first; tried again in each round, whatever is there by then.
    lay: fn(&Place),
    /// Is called over and over in a thread of its own; holds what it needs.
    turn: fn(&Place) -> Box<dyn FnMut() + '_>,
    /// A process of the user's; else of one whom also nothing keeps from making hard links (`fs.protected_hardlinks=0`), and
    /// who can put things of root's into the home.
    is_user: bool,
}

/// Only this thread's file accesses.
fn become_boot() {
    setfsgid(Gid::from_raw(BOOT));
    setfsuid(Uid::from_raw(BOOT));
}

fn give(path: &Path) {
    let _ = lchown(path, Some(BOOT), Some(BOOT));
}

/// Whether the user can read the secret in his home. Those that the attacks put there are root's alone.
fn leaks(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { return false };
        if kind.is_dir() {
            return leaks(&path);
        }
        if !kind.is_file() {
            return false;
        }
        // It may be a pipe by now.
        let flags = (OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits();
        let Ok(mut file) = fs::OpenOptions::new().read(true).custom_flags(flags).open(&path) else { return false };
        let about = file.metadata().unwrap();
        if !about.is_file() || (about.uid() == 0 && about.mode().trailing_zeros() >= 6) {
            return false;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).is_ok() && text.contains(SECRET)
    })
}

/// The daemon's part: the keys come and go. Whether they came, and whether they went.
fn round(node: &Node, disk: &Disk) -> (bool, bool) {
    let (from, to) = (empty(), keys());
    let mut done = [false; 2];
    for (done, (from, to)) in done.iter_mut().zip([(&from, &to), (&to, &from)]) {
        let _ = node.runtime.block_on(disk.check(&items(from), &items(to), false));
        let mut journal = Node::open(disk, from, to);
        *done = node.runtime.block_on(disk.forward(&mut journal)).is_ok();
        if !*done {
            let _ = node.runtime.block_on(disk.back(&mut journal));
        }
        let _ = node.runtime.block_on(disk.compare(&items(&keys())));
    }
    disk.adopt(&named(&empty())).unwrap();
    let _ = disk.close();
    (done[0], done[1])
}

fn race(attack: &Attack) {
    let Some(node) = Node::new() else { return };
    node.write("/etc/secret/authorized_keys", SECRET, 0o600);
    node.write("/etc/secret/x", SECRET, 0o600);
    let before = below(node.tree(), "/etc");
    let home = node.at("/home/boot");
    let place = Place {
        ssh: home.join(".ssh"),
        keys: home.join(".ssh/authorized_keys"),
        secret: node.at("/etc/secret"),
        home,
        escapes: AtomicUsize::new(0),
    };
    (attack.lay)(&place);
    let (stop, turns) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut rounds, mut written, mut withdrawn) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if attack.is_user {
                become_boot();
            }
            let mut turn = (attack.turn)(&place);
            while !stop.load(Ordering::Relaxed) {
                turn();
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _stop = Stop(&stop);
        let disk = node.disk();
        let end = Instant::now() + time();
        while Instant::now() < end {
            let begun = Instant::now();
            (attack.lay)(&place);
            let (came, went) = round(&node, &disk);
            rounds += 1;
            written += usize::from(came);
            withdrawn += usize::from(went);
            if leaks(&place.home) {
                place.escapes.fetch_add(1, Ordering::Relaxed);
            }
            assert!(begun.elapsed() < ROUND, "{}: a round took {:?}", attack.name, begun.elapsed());
        }
    });
    let escapes = place.escapes.load(Ordering::Relaxed);
    println!(
        "{}: {rounds} rounds ({written} written, {withdrawn} withdrawn) against {} turns, {escapes} escapes",
        attack.name,
        turns.load(Ordering::Relaxed),
    );
    assert_eq!(escapes, 0, "{}", attack.name);
    assert!(written > 0 && withdrawn > 0, "{}: the user has won every time: nothing was tried", attack.name);
    node_root::assert_same(&below(node.tree(), "/etc"), &before, attack.name);
}

fn lay_folder(place: &Place) {
    let _ = fs::create_dir(&place.ssh);
    give(&place.ssh);
}

#[test]
fn a_folder_that_is_exchanged_with_a_link_leads_nowhere() {
    race(&Attack {
        name: "folder and link exchanged",
        is_user: true,
        lay: lay_folder,
        turn: |place| {
            let aside = place.home.join("aside");
            Box::new(move || {
                let _ = symlink(&place.secret, &aside);
                let _ = renameat2(AT_FDCWD, &place.ssh, AT_FDCWD, &aside, RenameFlags::RENAME_EXCHANGE);
                let _ = renameat2(AT_FDCWD, &place.ssh, AT_FDCWD, &aside, RenameFlags::RENAME_EXCHANGE);
            })
        },
    });
}

#[test]
fn a_folder_that_goes_and_comes_as_a_link_leads_nowhere() {
    race(&Attack {
        name: "folder gone, link, folder",
        is_user: true,
        lay: |_| {},
        turn: |place| {
            let aside = place.home.join("aside");
            Box::new(move || {
                let _ = fs::rename(&place.ssh, &aside);
                let _ = symlink(&place.secret, &place.ssh);
                let _ = fs::remove_file(&place.ssh);
                let _ = fs::rename(&aside, &place.ssh);
                let _ = fs::remove_dir_all(&aside);
            })
        },
    });
}

#[test]
fn a_key_file_that_becomes_a_link_a_pipe_or_another_file_leads_nowhere() {
    race(&Attack {
        name: "link, hard link, pipe, folder in the key file's place",
        is_user: false,
        lay: lay_folder,
        turn: |place| {
            let next = place.home.join("next");
            let mut count = 0;
            Box::new(move || {
                count += 1;
                let made = match count % 5 {
                    0 => symlink(place.secret.join("authorized_keys"), &next),
                    1 => fs::hard_link(place.secret.join("x"), &next),
                    2 => mkfifoat(AT_FDCWD, &next, Mode::from_bits_truncate(0o666)).map_err(Into::into),
                    3 => fs::write(&next, "his own\n").map(|()| give(&next)),
                    _ => {
                        let _ = fs::remove_file(&place.keys);
                        fs::create_dir(&next)
                    }
                };
                if count % 5 != 1 {
                    give(&next);
                }
                if made.and_then(|()| fs::rename(&next, &place.keys)).is_err() {
                    let _ = fs::remove_file(&next);
                    let _ = fs::remove_dir(&next);
                }
                let _ = fs::remove_dir(&place.keys);
            })
        },
    });
}

/// Things of root's, in the place of what mcx stages and then gives to the user.
fn in_place_of_staged(name: &'static str, lay: fn(&Place)) {
    race(&Attack {
        name,
        is_user: false,
        lay,
        turn: |place| {
            let (of_key, roots_at) = (place.ssh.join(staged("authorized_keys")), place.home.join("roots"));
            let mut roots = Roots::file(&roots_at);
            let mut count = 0;
            Box::new(move || {
                count += 1;
                if count % 2 == 0 {
                    let _ = fs::rename(&roots_at, &of_key);
                    let _ = fs::rename(&of_key, &roots_at);
                } else {
                    let other = place.home.join("other");
                    let _ = fs::hard_link(place.secret.join("x"), &other);
                    let _ = fs::rename(&other, &of_key);
                    let _ = fs::remove_file(&other);
                    let _ = fs::remove_file(&of_key);
                }
                let is_whole = roots.is_whole();
                if !is_whole {
                    place.escapes.fetch_add(1, Ordering::Relaxed);
                }
                if !is_whole || roots.is_gone() {
                    roots = Roots::file(&roots_at);
                }
            })
        },
    });
}

#[test]
fn a_link_that_is_given_back_gives_nothing_else_away() {
    in_place_of_staged("staged link replaced", |place| {
        lay_folder(place);
        let _ = fs::remove_file(&place.keys);
        let _ = symlink("elsewhere", &place.keys);
        give(&place.keys);
    });
}

#[test]
fn a_pipe_that_is_given_back_gives_nothing_else_away() {
    in_place_of_staged("staged pipe replaced", |place| {
        lay_folder(place);
        let _ = fs::remove_file(&place.keys);
        let _ = mkfifoat(AT_FDCWD, &place.keys, Mode::from_bits_truncate(0o600));
        give(&place.keys);
    });
}

#[test]
fn a_folder_that_is_made_gives_no_other_folder_away() {
    race(&Attack {
        name: "staged folder replaced",
        is_user: false,
        lay: |_| {},
        turn: |place| {
            let (of_ssh, roots_at) = (place.home.join(staged(".ssh")), place.home.join("roots"));
            let mut roots = Roots::dir(&roots_at);
            Box::new(move || {
                let _ = fs::rename(&roots_at, &of_ssh);
                let _ = fs::rename(&of_ssh, &roots_at);
                let is_whole = roots.is_whole();
                if !is_whole {
                    place.escapes.fetch_add(1, Ordering::Relaxed);
                }
                if !is_whole || roots.is_gone() {
                    let _ = fs::remove_dir_all(&roots_at);
                    roots = Roots::dir(&roots_at);
                }
            })
        },
    });
}

/// The file has the right size when it is looked at, and eight exbibytes when it is read, or grows while it is.
#[test]
fn a_file_that_looks_endless_is_not_read_to_its_end() {
    let Some(node) = Node::new() else { return };
    node.update(&empty(), &keys());
    let path = node.at("/home/boot/.ssh/authorized_keys");
    let size = fs::metadata(&path).unwrap().len();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            become_boot();
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            while !stop.load(Ordering::Relaxed) {
                file.set_len(1 << 62).unwrap();
                file.set_len(size).unwrap();
            }
        });
        let _stop = Stop(&stop);
        let disk = node.disk();
        let end = Instant::now() + time();
        let (mut rounds, mut different) = (0, 0);
        while Instant::now() < end {
            let begun = Instant::now();
            let found = node.runtime.block_on(disk.compare(&items(&keys()))).unwrap();
            rounds += 1;
            different += usize::from(!found.is_empty());
            assert!(begun.elapsed() < ROUND, "a comparison took {:?}", begun.elapsed());
        }
        println!("endless: {rounds} comparisons, {different} that found it so");
        assert!(different > 0 && different < rounds, "nothing was raced for");
    });
}
