//! What can be done to a managed tree, and what is to be said of it.

use crate::node_root::{BOOT, Node};
use nix::sys::stat::Mode;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

const ETC: &str = "/etc/systemd/system";
/// Where systemd looks first.
const FIRST: [&str; 4] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
];
const KEYS: &str = "/home/boot/.ssh/authorized_keys";

/// Random numbers, the same for the same case.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Findings: item, and a part of what is said.
type Said = BTreeSet<(String, String)>;

/// Makes a change by random choices, and says what must be named.
type Make = dyn Fn(&Node, &mut Dice) -> Said;

pub(crate) struct Change {
    pub(crate) name: &'static str,
    /// Two changes of one subject may take each other back.
    pub(crate) subject: &'static str,
    pub(crate) make: Box<Make>,
}

fn change(subject: &'static str, name: &'static str, make: impl Fn(&Node, &mut Dice) -> Said + 'static) -> Change {
    Change { name, subject, make: Box::new(make) }
}

fn said(item: &str, whats: &[&str]) -> Said {
    whats.iter().map(|what| (item.to_owned(), (*what).to_owned())).collect()
}

fn remove(node: &Node, path: &str) {
    fs::remove_file(node.at(path)).unwrap();
}

fn link(node: &Node, target: &str, path: &str) {
    node.link(target, path);
}

/// Gives a folder another name and leads there by a link.
fn swap(node: &Node, dir: &str, name: &str, owner: u32) {
    fs::rename(node.at(dir), node.at(dir).with_file_name(name)).unwrap();
    symlink(name, node.at(dir)).unwrap();
    lchown(node.at(dir), Some(owner), Some(owner)).unwrap();
}

/// Path and item.
const FILES: [(&str, &str); 8] = [
    ("/etc/chrony.conf", "/etc/chrony.conf"),
    ("/etc/owned.conf", "/etc/owned.conf"),
    ("/etc/binary", "/etc/binary"),
    ("/etc/deep/er/x", "/etc/deep/er/x"),
    ("/opt/tool/bin", "/opt/tool/bin"),
    ("/etc/systemd/system/app.service", "app.service"),
    ("/etc/systemd/system/app.service.d/10-x.conf", "app.service.d/10-x.conf"),
    (KEYS, "keys of boot"),
];

/// Changes of contents, mode, owner and kind, which are alike for all files.
fn of_file(path: &'static str, item: &'static str) -> Vec<Change> {
    let mut all = vec![
        change(path, "other bytes", move |node, dice| {
            let at = node.at(path);
            let mut bytes = fs::read(&at).unwrap();
            let place = dice.below(bytes.len());
            // Never what an [Install] section is told by.
            bytes[place] = if bytes[place] == b'#' { b'%' } else { b'#' };
            fs::write(at, bytes).unwrap();
            said(item, &["has other contents"])
        }),
        change(path, "more bytes", move |node, dice| {
            let at = node.at(path);
            let mut bytes = fs::read(&at).unwrap();
            bytes.extend(std::iter::repeat_n(dice.of(b" \n#x"), 1 + dice.below(9000)));
            fs::write(at, bytes).unwrap();
            said(item, &["has other contents"])
        }),
        change(path, "fewer bytes", move |node, _| {
            let at = node.at(path);
            let bytes = fs::read(&at).unwrap();
            fs::write(at, &bytes[..bytes.len() - 1]).unwrap();
            said(item, &["has other contents"])
        }),
        change(path, "other mode bits", move |node, dice| {
            let at = node.at(path);
            let mode = fs::metadata(&at).unwrap().mode() & 0o7777;
            let other = mode ^ (1 << dice.below(12));
            fs::set_permissions(at, fs::Permissions::from_mode(other)).unwrap();
            said(item, &["has mode"])
        }),
        change(path, "another owner", move |node, dice| {
            let about = fs::metadata(node.at(path)).unwrap();
            let other = [0, 1000, 65534, 4_000_000_000].into_iter().cycle().skip(dice.below(4));
            let other = other.into_iter().find(|uid| *uid != about.uid()).unwrap();
            node.own(path, other, about.gid());
            said(item, &["has owner"])
        }),
        change(path, "another group", move |node, dice| {
            let about = fs::metadata(node.at(path)).unwrap();
            let other = [0, 1000, 107, 4_000_000_000].into_iter().cycle().skip(dice.below(4));
            let other = other.into_iter().find(|gid| *gid != about.gid()).unwrap();
            node.own(path, about.uid(), other);
            said(item, &["has group"])
        }),
        change(path, "written through another hard link", move |node, _| {
            fs::hard_link(node.at(path), node.at("/etc/hard")).unwrap();
            fs::write(node.at("/etc/hard"), "through the other name\n").unwrap();
            remove(node, "/etc/hard");
            said(item, &["has other contents"])
        }),
    ];
    if item != "app.service" {
        // What systemd says of a unit whose file is gone, or something else, is told below.
        all.extend([
            change(path, "moved away", move |node, _| {
                fs::rename(node.at(path), node.at(&format!("{path}.away"))).unwrap();
                said(item, &["is missing"])
            }),
            change(path, "a symlink to the right bytes", move |node, _| {
                fs::rename(node.at(path), node.at(&format!("{path}.away"))).unwrap();
                symlink(format!("{}.away", path.rsplit_once('/').unwrap().1), node.at(path)).unwrap();
                said(item, &["is a symlink"])
            }),
            change(path, "a symlink to nowhere", move |node, _| {
                remove(node, path);
                symlink("/nowhere", node.at(path)).unwrap();
                said(item, &["is a symlink"])
            }),
            change(path, "a folder", move |node, _| {
                remove(node, path);
                fs::create_dir_all(node.at(path).join("below")).unwrap();
                said(item, &["is a directory"])
            }),
            change(path, "a named pipe", move |node, _| {
                remove(node, path);
                nix::unistd::mkfifo(&node.at(path), Mode::from_bits_truncate(0o644)).unwrap();
                said(item, &["is a named pipe"])
            }),
            change(path, "a socket", move |node, _| {
                remove(node, path);
                // The paths of sockets are short: it is made elsewhere.
                let made = node.root().join("s");
                drop(UnixListener::bind(&made).unwrap());
                fs::rename(made, node.at(path)).unwrap();
                said(item, &["is a socket"])
            }),
        ]);
    }
    all
}

/// A unit of a config that is enabled.
fn enablement() -> Vec<Change> {
    let unlinked = |path: &'static str, item: &'static str, what: &'static str| {
        change(item, path, move |node, _| {
            remove(node, path);
            said(item, &[what])
        })
    };
    vec![
        // Ours, by one of three links.
        unlinked("/etc/systemd/system/multi-user.target.wants/app.service", "app.service", "lacks the link"),
        unlinked("/etc/systemd/system/other.target.requires/app.service", "app.service", "lacks the link"),
        unlinked("/etc/systemd/system/app-alias.service", "app.service", "lacks the link"),
        change("app.service", "disabled", |node, _| {
            node.systemctl(&["disable", "app.service"]);
            said("app.service", &["is disabled, expected enabled"])
        }),
        change("app.service", "enabled for another target only", |node, _| {
            node.systemctl(&["disable", "app.service"]);
            link(node, "../app.service", "/etc/systemd/system/third.target.wants/app.service");
            said("app.service", &["lacks the link"])
        }),
        change("app.service", "masked over its file", |node, _| {
            node.systemctl(&["disable", "app.service"]);
            remove(node, "/etc/systemd/system/app.service");
            link(node, "/dev/null", "/etc/systemd/system/app.service");
            said("app.service", &["is masked, expected enabled", "is masked"])
        }),
        change("app.service", "its file is gone", |node, _| {
            remove(node, "/etc/systemd/system/app.service");
            said("app.service", &["is missing", "does not exist, expected enabled"])
        }),
        // A vendor's: only its alias is left.
        unlinked("/etc/systemd/system/multi-user.target.wants/chronyd.service", "chronyd.service", "lacks the link"),
        change("chronyd.service", "disabled", |node, _| {
            node.systemctl(&["disable", "chronyd.service"]);
            said("chronyd.service", &["is disabled, expected enabled"])
        }),
        change("chronyd.service", "masked", |node, _| {
            link(node, "/dev/null", "/etc/systemd/system/chronyd.service");
            said("chronyd.service", &["is masked, expected enabled"])
        }),
        change("chronyd.service", "masked by an empty file", |node, _| {
            node.write("/etc/systemd/system/chronyd.service", "", 0o644);
            said("chronyd.service", &["is masked, expected enabled"])
        }),
        change("chronyd.service", "masked until the next boot", |node, _| {
            link(node, "/dev/null", "/run/systemd/there/chronyd.service");
            said("chronyd.service", &["is masked, expected enabled"])
        }),
        change("chronyd.service", "masked where systemd looks first", |node, _| {
            link(node, "/dev/null", "/etc/systemd/system.control/chronyd.service");
            said("chronyd.service", &["is masked, expected enabled"])
        }),
        change("chronyd.service", "removed", |node, _| {
            remove(node, "/usr/lib/systemd/system/chronyd.service");
            said("chronyd.service", &["does not exist, expected enabled"])
        }),
        change("chronyd.service", "enabled until the next boot only", |node, _| {
            node.systemctl(&["disable", "chronyd.service"]);
            let path = "/run/systemd/there/multi-user.target.wants/chronyd.service";
            link(node, "/usr/lib/systemd/system/chronyd.service", path);
            said("chronyd.service", &["is enabled only until the next boot"])
        }),
        unlinked("/etc/systemd/system/multi-user.target.wants/inst@a.service", "inst@a.service", "is disabled"),
        // One that shall not be enabled, by any folder and name.
        change("vendor.service", "enabled by systemctl", |node, _| {
            node.systemctl(&["enable", "vendor.service"]);
            said("vendor.service", &["is enabled, expected disabled"])
        }),
        change("vendor.service", "enabled by a link", |node, dice| {
            let by = dice.of(&["multi-user.target", "other.service", "a.socket", "b.mount"]);
            let how = dice.of(&["wants", "requires"]);
            let target = dice
                .of(&["/usr/lib/systemd/system/vendor.service", "../../../../usr/lib/systemd/system/vendor.service"]);
            link(node, target, &format!("{ETC}/{by}.{how}/vendor.service"));
            said("vendor.service", &["is enabled, expected disabled"])
        }),
        change("vendor.service", "enabled, with a drop-in that systemd cannot read", |node, dice| {
            node.systemctl(&["enable", "vendor.service"]);
            odd_dropin(node, dice, "vendor.service");
            said("vendor.service", &["is enabled, expected disabled"])
        }),
        change("chronyd.service", "disabled, with a drop-in that systemd cannot read", |node, dice| {
            node.systemctl(&["disable", "chronyd.service"]);
            odd_dropin(node, dice, "chronyd.service");
            said("chronyd.service", &["expected enabled"])
        }),
        change("vendor.service", "enabled until the next boot", |node, dice| {
            let by = dice.of(&["multi-user.target", "other.service"]);
            let path = format!("/run/systemd/there/{by}.wants/vendor.service");
            link(node, "/usr/lib/systemd/system/vendor.service", &path);
            said("vendor.service", &["is enabled until the next boot"])
        }),
    ]
}

fn masks() -> Vec<Change> {
    let own = "/etc/systemd/system/masked.service";
    let not_masked = || said("masked.service", &["is not masked, expected masked"]);
    vec![
        change("masked.service", "its mask is gone", move |node, _| {
            remove(node, own);
            not_masked()
        }),
        change("masked.service", "a file in its mask's place", move |node, dice| {
            remove(node, own);
            node.write(own, dice.of(&["[Service]\nExecStart=/bin/true\n", "x", ""]), 0o644);
            not_masked()
        }),
        change("masked.service", "a link to a unit in its mask's place", move |node, _| {
            remove(node, own);
            link(node, "/usr/lib/systemd/system/other.service", own);
            not_masked()
        }),
        change("static.service", "masked", |node, _| {
            link(node, "/dev/null", "/etc/systemd/system/static.service");
            said("static.service", &["is masked, expected not masked"])
        }),
        change("static.service", "masked by an empty file", |node, _| {
            node.write("/etc/systemd/system/static.service", "", 0o600);
            said("static.service", &["is masked, expected not masked"])
        }),
        change("static.service", "masked until the next boot", |node, _| {
            link(node, "/dev/null", "/run/systemd/there/static.service");
            said("static.service", &["is masked until the next boot"])
        }),
    ]
}

/// What makes the config untrue from another place.
fn from_elsewhere() -> Vec<Change> {
    let hidden = |name: &'static str, item: &'static str, subject: &'static str| {
        change(subject, "hidden where systemd looks first", move |node, dice| {
            let path = format!("{}/{name}", dice.of(&FIRST));
            if dice.below(2) == 0 && Path::new(name).extension().is_some_and(|end| end == "conf") {
                // Which is a mask.
                node.write(&path, "", 0o644);
            } else {
                let text = dice.of(&[
                    "[Service]\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n",
                    "[Service]\nNice=3\n[Install]\nWantedBy=multi-user.target\n",
                ]);
                node.write(&path, text, 0o644);
            }
            said(item, &["is hidden by"])
        })
    };
    vec![
        hidden("app.service.d/10-x.conf", "app.service.d/10-x.conf", "/etc/systemd/system/app.service.d/10-x.conf"),
        hidden("masked.service", "masked.service", "masked.service"),
        change(KEYS, "keys in the other file that the SSH server reads", |node, dice| {
            let path = format!("{KEYS}2");
            match dice.below(2) {
                0 => node.write(&path, "ssh-ed25519 AAAA other\n", 0o600),
                _ => link(node, "/etc/hosts", &path),
            }
            said("keys of boot", &["are not all: the SSH server reads /home/boot/.ssh/authorized_keys2 too"])
        }),
        change(KEYS, "their folder swapped for a link of the user's", |node, _| {
            swap(node, "/home/boot/.ssh", "other", BOOT);
            said("keys of boot", &["is behind a symlink that a user could have made"])
        }),
        change("/etc/deep/er/x", "its folder swapped for a link to another", |node, _| {
            fs::rename(node.at("/etc/deep/er"), node.at("/etc/deep/away")).unwrap();
            fs::create_dir(node.at("/etc/deep/other")).unwrap();
            symlink("other", node.at("/etc/deep/er")).unwrap();
            said("/etc/deep/er/x", &["is missing"])
        }),
        change("/etc/deep/er/x", "its folder swapped for a link to other bytes", |node, _| {
            swap(node, "/etc/deep", "away", 0);
            node.write("/etc/away/er/x", "other\n", 0o644);
            said("/etc/deep/er/x", &["has other contents"])
        }),
        change("/etc/deep/er/x", "its folder swapped for a link to nowhere", |node, _| {
            fs::rename(node.at("/etc/deep"), node.at("/etc/away")).unwrap();
            symlink("/nowhere", node.at("/etc/deep")).unwrap();
            said("/etc/deep/er/x", &["is missing"])
        }),
        change("/etc/deep/er/x", "a file in its folder's place", |node, _| {
            fs::remove_dir_all(node.at("/etc/deep/er")).unwrap();
            node.write("/etc/deep/er", "x", 0o644);
            said("/etc/deep/er/x", &["is missing"])
        }),
        change("/opt/tool/bin", "its folder is gone", |node, _| {
            fs::remove_dir_all(node.at("/opt")).unwrap();
            said("/opt/tool/bin", &["is missing"])
        }),
    ]
}

/// Each is drift.
pub(crate) fn managed_changes() -> Vec<Change> {
    let mut all: Vec<Change> = FILES.iter().flat_map(|(path, item)| of_file(path, item)).collect();
    // Of a unit's file and of its enablement either may be changed in a case.
    for change in &mut all {
        if change.subject.starts_with("/etc/systemd/system/app.service") {
            change.subject = "app.service";
        }
    }
    all.extend(enablement());
    all.extend(masks());
    all.extend(from_elsewhere());
    all
}

fn odd_dropin(node: &Node, dice: &mut Dice, unit: &str) {
    let at = format!("{ETC}/{unit}.d/30-odd.conf");
    fs::create_dir_all(node.at(&at).parent().unwrap()).unwrap();
    match dice.below(3) {
        0 => link(node, "/nowhere", &at),
        1 => nix::unistd::mkfifo(&node.at(&at), Mode::from_bits_truncate(0o644)).unwrap(),
        _ => fs::create_dir(node.at(&at)).unwrap(),
    }
}

/// None is.
#[allow(clippy::too_many_lines, reason = "one table")]
pub(crate) fn other_changes() -> Vec<Change> {
    let other_of = |subject: &'static str, name: &'static str, make: fn(&Node, &mut Dice)| {
        change(subject, name, move |node, dice| {
            make(node, dice);
            Said::new()
        })
    };
    let other = |name: &'static str, make: fn(&Node, &mut Dice)| other_of(name, name, make);
    vec![
        other("a new file", |node, dice| {
            let dir = dice.of(&["/etc", "/opt/tool/beside", "/etc/deep", "/var/lib", "/home/boot", "/usr/lib", "/run"]);
            node.write(&format!("{dir}/new-{}", dice.below(9)), "new\n", 0o666);
        }),
        other("a file beside a managed one", |node, dice| {
            let (path, _) = dice.of(&FILES);
            node.write(&format!("{path}.{}", dice.of(&["bak", "rpmnew", "dpkg-dist", "swp", "~"])), "x", 0o644);
        }),
        other("another hard link of a managed file", |node, dice| {
            let (path, _) = dice.of(&FILES);
            fs::hard_link(node.at(path), node.at("/etc/another")).unwrap();
        }),
        other("the time of a managed file", |node, dice| {
            let (path, _) = dice.of(&FILES);
            let file = fs::File::options().append(true).open(node.at(path)).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }),
        other("a managed file written anew as it was", |node, dice| {
            let (path, _) = dice.of(&FILES);
            let (at, fresh) = (node.at(path), node.at("/etc/fresh"));
            let about = fs::metadata(&at).unwrap();
            fs::copy(&at, &fresh).unwrap();
            lchown(&fresh, Some(about.uid()), Some(about.gid())).unwrap();
            fs::set_permissions(&fresh, about.permissions()).unwrap();
            fs::rename(fresh, at).unwrap();
        }),
        other("mode and owner of a folder", |node, dice| {
            let dir = dice.of(&["/etc/systemd/system/app.service.d", "/opt", "/home/boot"]);
            fs::set_permissions(node.at(dir), fs::Permissions::from_mode(dice.of(&[0o700, 0o711, 0o755]))).unwrap();
        }),
        other_of("/opt/tool/bin", "a folder moved behind a link of root's", |node, _| {
            swap(node, "/opt/tool", "there", 0);
        }),
        // Nothing starts it by that.
        other("another name of a unit", |node, dice| {
            let unit = dice.of(&["vendor.service", "chronyd.service", "masked.service"]);
            link(node, &format!("/usr/lib/systemd/system/{unit}"), "/etc/systemd/system/v.service");
        }),
        other_of("app.service", "a drop-in that systemd cannot read", |node, dice| {
            odd_dropin(node, dice, "app.service");
        }),
        other_of("chronyd.service", "a vendor's drop-in that systemd cannot read", |node, dice| {
            odd_dropin(node, dice, "chronyd.service");
        }),
        other_of(
            "vendor.service",
            "a drop-in that systemd cannot read, of a unit that shall not be enabled",
            |node, dice| {
                odd_dropin(node, dice, "vendor.service");
            },
        ),
        other("another drop-in", |node, dice| {
            let dir = dice.of(&[ETC, "/run/systemd/there", "/usr/lib/systemd/system", "/etc/systemd/system.control"]);
            let unit = dice.of(&["app.service", "chronyd.service", "service", "vendor.service", "masked.service"]);
            let text = dice.of(&["[Service]\nNice=7\n", "[Install]\nWantedBy=fourth.target\n", ""]);
            node.write(&format!("{dir}/{unit}.d/20-mine.conf"), text, 0o600);
        }),
        other("a drop-in of the same name where systemd looks later", |node, dice| {
            let dir = dice.of(&["/run/systemd/there", "/usr/lib/systemd/system"]);
            node.write(&format!("{dir}/app.service.d/10-x.conf"), "[Service]\nNice=9\n", 0o644);
        }),
        other_of("app.service", "a unit of the same name where systemd looks later", |node, dice| {
            let dir = dice.of(&["/run/systemd/there", "/usr/lib/systemd/system"]);
            node.write(&format!("{dir}/app.service"), "[Service]\nExecStart=/bin/false\n", 0o644);
        }),
        other("another unit of the vendor's package", |node, dice| {
            let unit = dice.of(&["chronyd.service", "masked.service", "inst@.service", "other.service"]);
            node.vendor(unit, "[Service]\nExecStart=/bin/sleep 1\n[Install]\nWantedBy=multi-user.target\n");
        }),
        other("another unit enabled, or masked", |node, dice| {
            let how = dice.of(&["enable", "mask"]);
            node.systemctl(&[how, "other.service"]);
        }),
        other("another instance enabled", |node, _| drop(node.systemctl(&["enable", "inst@b.service"]))),
        other_of("app.service", "one more link of an enabled unit of ours", |node, _| {
            link(node, "../app.service", "/etc/systemd/system/fifth.target.wants/app.service");
        }),
        other_of("chronyd.service", "one more link of an enabled unit", |node, _| {
            let path = "/etc/systemd/system/fifth.target.wants/chronyd.service";
            link(node, "/usr/lib/systemd/system/chronyd.service", path);
        }),
        other_of("vendor.service", "a mask of a unit that shall not be enabled", |node, _| {
            link(node, "/dev/null", "/etc/systemd/system/vendor.service");
        }),
        other_of("static.service", "a unit file of the administrator's where there shall be no mask", |node, _| {
            node.write("/etc/systemd/system/static.service", "[Service]\nExecStart=/bin/true\n", 0o600);
        }),
        other("another user", |node, _| {
            node.write(
                "/etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\nboot:x:1000:1000:changed:/home/boot:/bin/bash\nnew:x:1001:1001::/home/new:\n",
                0o644,
            );
            node.write("/home/new/.ssh/authorized_keys", "ssh-ed25519 AAAA other\n", 0o600);
        }),
        other("other files of the SSH client's and server's", |node, dice| {
            let path = dice.of(&["/home/boot/.ssh/config", "/home/boot/.ssh/known_hosts", "/etc/ssh/sshd_config"]);
            node.write(path, "# x\n", 0o600);
        }),
        other_of(KEYS, "an empty second key file", |node, _| node.write(&format!("{KEYS}2"), "", 0o600)),
    ]
}
