//! systemd's own ways with enablement and masks, as they were found by trying (L-10 to L-17), on real `systemctl`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/programs.rs"]
mod programs;

use mcx::node::journal::Stage;
use node_root::{Node, assert_same, config, empty, file};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const BODY: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";

fn units(units: &[Value]) -> Value {
    config(&[], units, None)
}

fn with_alias(name: &str) -> Value {
    json!({"name": name, "enabled": true, "contents": format!("{BODY}Alias=shared.service\n")})
}

#[test]
fn r153_every_way_of_a_mask_ends_in_the_right_state_and_back() {
    let body = "[Service]\nExecStart=/bin/false\n";
    let masks = [
        json!({"name": "X", "mask": true}),
        json!({"name": "X", "mask": true, "contents": body}),
        json!({"name": "X", "mask": false}),
        json!({"name": "X", "mask": false, "contents": body}),
        json!({"name": "X", "contents": body}),
        json!({"name": "X", "enabled": false}),
    ];
    // A vendor's unit, one of the administrator's, one that is masked already, a template, and none at all.
    for name in ["vendor.service", "local.service", "masked.service", "inst@.service", "inst@x.service", "none.service"]
    {
        let Some(node) = Node::new() else { return };
        node.write("/etc/systemd/system/local.service", BODY, 0o600);
        node.link("/dev/null", "/etc/systemd/system/masked.service");
        node.vendor("masked.service", BODY);
        let bare = node.tree();
        for first in &masks {
            for second in &masks {
                let named = |unit: &Value| {
                    let mut unit = unit.clone();
                    unit["name"] = json!(name);
                    units(&[unit])
                };
                let (first, second) = (named(first), named(second));
                let node = node.copy();
                node.update(&empty(), &first);
                node.update(&first, &second);
                node.update(&second, &empty());
                assert_same(&node.tree(), &bare, &format!("{first} then {second}"));
            }
        }
    }
}

#[test]
fn l11_r254_a_body_is_kept_aside_while_its_unit_is_masked() {
    let Some(node) = Node::new() else { return };
    let open = units(&[json!({"name": "app.service", "contents": BODY, "enabled": true})]);
    let masked = units(&[json!({"name": "app.service", "contents": BODY, "mask": true, "enabled": false})]);
    node.update(&empty(), &open);
    node.update(&open, &masked);
    assert_eq!(node.systemctl(&["is-enabled", "app.service"]), "masked");
    // Disabled before it was masked: afterwards `disable` would do nothing.
    assert!(!node.at(WANTS).join("app.service").is_symlink());
    node.update(&masked, &open);
    assert_eq!(node.systemctl(&["is-enabled", "app.service"]), "enabled");
}

#[test]
fn l11_links_under_a_mask_are_removed_when_it_goes() {
    let Some(node) = Node::new() else { return };
    let before = node.tree();
    let masked = units(&[json!({"name": "chronyd.service", "mask": true})]);
    let off = units(&[json!({"name": "chronyd.service", "enabled": false})]);
    node.update(&empty(), &masked);
    node.update(&masked, &off);
    assert_eq!(node.systemctl(&["is-enabled", "chronyd.service"]), "disabled");
    node.update(&off, &empty());
    assert_same(&node.tree(), &before, "withdrawn");
}

#[test]
fn l10_r152_a_dangling_alias_of_ours_does_not_block_its_successor() {
    let Some(node) = Node::new() else { return };
    let (first, second) = (units(&[with_alias("a.service")]), units(&[with_alias("b.service")]));
    node.update(&empty(), &first);
    assert!(node.at("/etc/systemd/system/shared.service").is_symlink());
    node.update(&first, &second);
    assert_eq!(
        fs::read_link(node.at("/etc/systemd/system/shared.service")).unwrap().to_str(),
        Some("/etc/systemd/system/b.service")
    );
    // Its file went by another's hand, so that nothing disabled it; then the force file.
    fs::remove_file(node.at("/etc/systemd/system/b.service")).unwrap();
    let disk = node.disk();
    let mut journal = Node::open_as(&disk, &second, &first, true);
    node.runtime.block_on(disk.forward(&mut journal)).unwrap();
    assert_eq!(node.deviations(&disk, &first), Vec::<String>::new());
}

#[test]
fn l10_r253_g06_links_of_a_failed_enable_are_undone() {
    let Some(node) = Node::new() else { return };
    node.vendor("taken.service", &format!("{BODY}Alias=shared.service\n"));
    node.systemctl(&["enable", "taken.service"]);
    let old = units(&[json!({"name": "vendor.service", "enabled": true})]);
    node.update(&empty(), &old);
    let before = node.tree();
    let new = units(&[with_alias("a.service"), json!({"name": "vendor.service", "enabled": false})]);
    let disk = node.disk();
    let mut journal = Node::open(&disk, &old, &new);
    let error = node.runtime.block_on(disk.forward(&mut journal)).unwrap_err().to_string();
    assert!(error.starts_with("`systemctl enable --no-reload -- a.service` failed: exit status 1: "), "{error}");
    assert_eq!(journal.stage, Stage::Switching);
    node.runtime.block_on(disk.back(&mut journal)).unwrap();
    disk.close().unwrap();
    assert_same(&node.tree(), &before, "undone");
}

#[test]
fn l13_links_of_an_install_section_that_changed_are_replaced() {
    let Some(node) = Node::new() else { return };
    let to = |target: &str| {
        units(&[
            json!({"name": "app.service", "enabled": true, "contents": format!("[Service]\nExecStart=/bin/true\n[Install]\nWantedBy={target}\n")}),
        ])
    };
    node.update(&empty(), &to("multi-user.target"));
    node.update(&to("multi-user.target"), &to("other.target"));
    assert!(!node.at(WANTS).join("app.service").is_symlink());
    assert!(node.at("/etc/systemd/system/other.target.wants/app.service").is_symlink());
}

#[test]
fn l13_a_file_that_replaces_an_enabled_unit_s_is_enabled_as_it_says_itself() {
    let Some(node) = Node::new() else { return };
    node.systemctl(&["enable", "vendor.service"]);
    let before = node.tree();
    let other = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=other.target\n";
    let to = units(&[json!({"name": "vendor.service", "enabled": true, "contents": other})]);
    node.update(&empty(), &to);
    assert!(!node.at(WANTS).join("vendor.service").is_symlink());
    assert!(node.at("/etc/systemd/system/other.target.wants/vendor.service").is_symlink());
    node.update(&to, &empty());
    assert_same(&node.tree(), &before, "withdrawn");
}

#[test]
fn l15_a_sibling_that_is_disabled_along_is_enabled_again() {
    let Some(node) = Node::new() else { return };
    node.vendor("main.service", &format!("{BODY}Also=vendor.service\n"));
    let both = |main: bool| {
        units(&[json!({"name": "main.service", "enabled": main}), json!({"name": "vendor.service", "enabled": true})])
    };
    node.update(&empty(), &both(true));
    node.update(&both(true), &both(false));
    assert_eq!(node.systemctl(&["is-enabled", "vendor.service"]), "enabled");
}

#[test]
fn l15_a_sibling_that_the_config_disables_is_not_enabled_along() {
    let Some(node) = Node::new() else { return };
    let before = node.tree();
    let main = json!({"name": "main.service", "enabled": true, "contents": format!("{BODY}Also=chronyd.service\n")});
    let to = units(&[main, json!({"name": "chronyd.service", "enabled": false})]);
    node.update(&empty(), &to);
    assert_eq!(node.systemctl(&["is-enabled", "chronyd.service"]), "disabled");
    node.update(&to, &empty());
    assert_same(&node.tree(), &before, "withdrawn");
}

#[test]
fn a_sibling_is_given_back_as_it_was_before_the_unit_that_enabled_it_along() {
    let main = json!({"name": "main.service", "enabled": true, "contents": format!("{BODY}Also=vendor.service\n")});
    let sibling = json!({"name": "vendor.service", "enabled": true});
    let (one, both, other) = (units(std::slice::from_ref(&main)), units(&[main, sibling.clone()]), units(&[sibling]));
    for way in [[&one, &both, &other], [&other, &both, &one], [&one, &both, &one], [&other, &both, &other]] {
        let Some(node) = Node::new() else { return };
        let before = node.tree();
        let mut at = empty();
        for next in way {
            node.update(&at, next);
            at = next.clone();
        }
        node.update(&at, &empty());
        assert_same(&node.tree(), &before, "withdrawn");
    }
}

#[test]
fn l15_instances_of_a_template_that_goes_leave_no_links() {
    let Some(node) = Node::new() else { return };
    let template = units(&[json!({"name": "mine@.service", "contents": BODY})]);
    node.update(&empty(), &template);
    node.systemctl(&["enable", "mine@a.service"]);
    node.update(&template, &empty());
    assert!(!node.at(WANTS).join("mine@a.service").is_symlink(), "a link leads nowhere");
}

#[test]
fn r157_a_unit_of_ours_that_somebody_enabled_leaves_no_links_and_a_vendor_s_keeps_them() {
    let Some(node) = Node::new() else { return };
    let bodies =
        units(&[json!({"name": "app.service", "contents": BODY}), json!({"name": "vendor.service", "contents": BODY})]);
    node.update(&empty(), &bodies);
    node.systemctl(&["enable", "app.service", "vendor.service"]);
    node.update(&bodies, &empty());
    assert!(!node.at(WANTS).join("app.service").is_symlink());
    assert!(node.at(WANTS).join("vendor.service").is_symlink(), "how it is enabled was not ours to change");
}

#[test]
fn l16_a_unit_without_install_is_as_enabled_as_it_can_be() {
    let Some(node) = Node::new() else { return };
    let to = units(&[json!({"name": "static.service", "enabled": true})]);
    let before = node.tree();
    node.update(&empty(), &to);
    assert_same(&node.tree(), &before, "there is nothing to enable");
}

#[test]
fn r154_dropins_go_one_by_one_and_their_folder_with_the_last() {
    let Some(node) = Node::new() else { return };
    let dropin = |name: &str, text: &str| json!({"name": name, "contents": text});
    let with = |dropins: &[Value]| units(&[json!({"name": "vendor.service", "dropins": dropins})]);
    let two = with(&[dropin("a.conf", "[Unit]\n"), dropin("b.conf", "[Unit]\n")]);
    let one = with(&[dropin("a.conf", ""), dropin("b.conf", "[Unit]\n")]);
    let neither = with(&[dropin("a.conf", ""), dropin("b.conf", "")]);
    node.update(&empty(), &two);
    node.update(&two, &one);
    let dir = node.at("/etc/systemd/system/vendor.service.d");
    assert!(!dir.join("a.conf").exists() && dir.join("b.conf").exists());
    node.update(&one, &neither);
    assert!(!dir.exists());
}

#[test]
fn r149_a_withdrawn_unit_is_enabled_as_it_was() {
    let Some(node) = Node::new() else { return };
    let before = node.tree();
    assert_eq!(node.systemctl(&["is-enabled", "chronyd.service"]), "enabled");
    let off = units(&[
        json!({"name": "chronyd.service", "enabled": false}),
        json!({"name": "vendor.service", "enabled": true}),
    ]);
    node.update(&empty(), &off);
    assert_eq!(node.systemctl(&["is-enabled", "chronyd.service"]), "disabled");
    assert_eq!(node.systemctl(&["is-enabled", "vendor.service"]), "enabled");
    node.update(&off, &empty());
    assert_same(&node.tree(), &before, "withdrawn");
}

/// A file that nobody can replace, until it is dropped.
struct Immutable(std::path::PathBuf);

impl Immutable {
    fn of(path: std::path::PathBuf) -> Option<Self> {
        let set =
            std::process::Command::new("chattr").arg("+i").arg(&path).status().is_ok_and(|status| status.success());
        set.then_some(Self(path))
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = std::process::Command::new("chattr").arg("-i").arg(&self.0).status();
    }
}

#[test]
fn a_file_that_cannot_be_replaced_ends_the_update_by_name_and_all_of_it_is_undone() {
    let Some(node) = Node::lasting() else { return };
    node.write("/etc/m.conf", "immutable\n", 0o644);
    let before = node.tree();
    let to = config(
        &[file("/etc/a.conf", "a\n", 0o644), file("/etc/m.conf", "m\n", 0o644), file("/etc/z.conf", "z\n", 0o644)],
        &[],
        None,
    );
    let disk = node.disk();
    let mut journal = Node::open(&disk, &empty(), &to);
    let Some(immutable) = Immutable::of(node.at("/etc/m.conf")) else {
        eprintln!("skipped: this file system knows no immutable files");
        return;
    };
    let error = node.runtime.block_on(disk.forward(&mut journal)).unwrap_err();
    assert_eq!(error.to_string(), "cannot replace /etc/m.conf");
    assert_eq!(journal.stage, Stage::Switching);
    node.runtime.block_on(disk.back(&mut journal)).unwrap();
    disk.close().unwrap();
    assert_same(&node.tree(), &before, "undone");
    // With the cause gone the same update works.
    drop(immutable);
    drop(disk);
    node.update(&empty(), &to);
}

#[test]
fn an_unwritable_state_folder_stops_before_anything_is_touched() {
    let Some(node) = Node::lasting() else { return };
    let disk = node.disk();
    let to = config(&[file("/etc/a.conf", "a\n", 0o644)], &[], None);
    let mut journal = Node::open(&disk, &empty(), &to);
    let before = node.tree();
    let Some(_immutable) = Immutable::of(node.at("/var/lib/mcx")) else { return };
    node.runtime.block_on(disk.forward(&mut journal)).unwrap_err();
    assert_same(&node.tree(), &before, "nothing was begun");
    assert_eq!(fs::metadata(node.at("/var/lib/mcx")).unwrap().permissions().mode() & 0o777, 0o700);
}

/// `systemctl` ends well, and says `enabled` afterwards, when some of a unit's links could be made.
#[test]
fn an_enabling_that_made_only_some_links_is_no_success_and_one_that_was_cut_off_is_completed() {
    let Some(node) = Node::new() else { return };
    let body = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nRequiredBy=other.target\nAlias=ax.service\n";
    let to = units(&[json!({"name": "a.service", "contents": body, "enabled": true})]);
    let links = ["multi-user.target.wants/a.service", "other.target.requires/a.service", "ax.service"]
        .map(|link| format!("/etc/systemd/system/{link}"));
    // A file where systemd needs a folder.
    node.write("/etc/systemd/system/other.target.requires", "", 0o644);
    let bare = node.tree();
    let disk = node.disk();
    let mut journal = Node::open(&disk, &empty(), &to);
    let error = node.runtime.block_on(disk.forward(&mut journal)).unwrap_err().to_string();
    assert!(error.contains("`systemctl enable a.service` failed") && error.contains(&links[1]), "{error}");
    node.runtime.block_on(disk.back(&mut journal)).unwrap();
    disk.close().unwrap();
    assert_same(&node.tree(), &bare, "undone");
    fs::remove_file(node.at("/etc/systemd/system/other.target.requires")).unwrap();

    for missing in &links {
        let node = node.copy();
        let disk = node.disk();
        let mut journal = Node::open(&disk, &empty(), &to);
        // As a kill in the middle of `systemctl` leaves it.
        let mut cut = |step: &mcx::node::plan::Step| {
            if step.to_string() == "enable a.service" {
                for link in links.iter().filter(|link| *link != missing) {
                    node.link("/etc/systemd/system/a.service", link);
                }
                assert_eq!(node.systemctl(&["is-enabled", "a.service"]), "enabled");
            }
        };
        node.runtime.block_on(disk.forward_observed(&mut journal, &mut cut)).unwrap();
        disk.close().unwrap();
        assert!(links.iter().all(|link| node.at(link).is_symlink()), "{missing} is not made");
    }
}

#[test]
fn l12_a_unit_file_that_is_a_link_stays_whatever_happens_to_its_enablement() {
    let Some(node) = Node::new() else { return };
    node.write("/opt/linked.service", BODY, 0o644);
    node.link("/opt/linked.service", "/etc/systemd/system/linked.service");
    let bare = node.tree();
    let enabled = |on: bool| units(&[json!({"name": "linked.service", "enabled": on})]);
    for (first, second) in [(true, false), (false, true)] {
        let node = node.copy();
        node.update(&empty(), &enabled(first));
        node.update(&enabled(first), &enabled(second));
        assert!(node.at("/etc/systemd/system/linked.service").is_symlink(), "the unit is gone");
        node.update(&enabled(second), &empty());
        assert_same(&node.tree(), &bare, "withdrawn");
    }
    // And of one that was enabled before.
    node.systemctl(&["enable", "linked.service"]);
    let bare = node.tree();
    node.update(&empty(), &enabled(false));
    assert!(!node.at(WANTS).join("linked.service").is_symlink());
    assert!(node.at("/etc/systemd/system/linked.service").is_symlink(), "the unit is gone");
    node.update(&enabled(false), &empty());
    assert_same(&node.tree(), &bare, "withdrawn");
    // A file of ours in the link's place does not write through it.
    let ours = units(&[json!({"name": "linked.service", "enabled": true, "contents": format!("{BODY}# ours\n")})]);
    node.update(&empty(), &ours);
    assert_eq!(node.read("/opt/linked.service"), BODY);
    node.update(&ours, &empty());
    assert_same(&node.tree(), &bare, "withdrawn");
}

#[test]
fn l14_a_unit_without_contents_is_no_empty_file_and_so_no_mask() {
    let Some(node) = Node::new() else { return };
    let bare = node.tree();
    let to = units(&[json!({"name": "vendor.service", "contents": "", "enabled": true})]);
    node.update(&empty(), &to);
    assert!(!node.at("/etc/systemd/system/vendor.service").exists());
    assert_eq!(node.systemctl(&["is-enabled", "vendor.service"]), "enabled");
    // An empty file that somebody else has put there masks it, and is found.
    node.write("/etc/systemd/system/vendor.service", "", 0o644);
    assert_eq!(node.systemctl(&["is-enabled", "vendor.service"]), "masked");
    assert_eq!(node.deviations(&node.disk(), &to), ["vendor.service is masked, expected enabled"]);
    fs::remove_file(node.at("/etc/systemd/system/vendor.service")).unwrap();
    node.update(&to, &empty());
    assert_same(&node.tree(), &bare, "withdrawn");
}

#[test]
fn l15_a_sibling_that_does_not_exist_is_no_error_and_leaves_nothing() {
    let Some(node) = Node::new() else { return };
    let bare = node.tree();
    let to =
        units(&[json!({"name": "app.service", "enabled": true, "contents": format!("{BODY}Also=none.service\n")})]);
    node.update(&empty(), &to);
    assert_eq!(node.systemctl(&["is-enabled", "app.service"]), "enabled");
    node.update(&to, &empty());
    assert_same(&node.tree(), &bare, "withdrawn");
}

#[test]
fn l15_one_unit_that_cannot_be_enabled_keeps_no_other_from_it_and_all_is_undone() {
    let Some(node) = Node::new() else { return };
    let bare = node.tree();
    let bad = "[Service]\nExecStart=/bin/true\n[Install]\nAlias=ntp.service\n";
    let to = units(&[
        json!({"name": "a.service", "enabled": true, "contents": BODY}),
        json!({"name": "b.service", "enabled": true, "contents": bad}),
        json!({"name": "c.service", "enabled": true, "contents": BODY}),
    ]);
    let disk = node.disk();
    let mut journal = Node::open(&disk, &empty(), &to);
    let error = node.runtime.block_on(disk.forward(&mut journal)).unwrap_err().to_string();
    assert!(error.contains("b.service"), "{error}");
    assert!(node.at(WANTS).join("a.service").is_symlink(), "each is a call of its own");
    node.runtime.block_on(disk.back(&mut journal)).unwrap();
    disk.close().unwrap();
    assert_same(&node.tree(), &bare, "undone");
}

#[test]
fn l16_a_directory_with_a_unit_s_name_is_named_and_left() {
    let Some(node) = Node::lasting() else { return };
    fs::create_dir(node.at("/etc/systemd/system/dir.service")).unwrap();
    let bare = node.tree();
    let (_, obstacles) = node.check(&empty(), &units(&[json!({"name": "dir.service", "enabled": true})]), false);
    assert_eq!(
        obstacles,
        ["dir.service cannot be enabled: it does not exist on this node; install it, or give it contents"]
    );
    let (_, obstacles) = node.check(&empty(), &units(&[json!({"name": "dir.service", "contents": BODY})]), false);
    assert!(obstacles.len() == 1 && obstacles[0].contains("an empty directory"), "{obstacles:?}");
    // Nothing is enabled of what is no unit: to have it disabled is no work, and no finding.
    let off = units(&[json!({"name": "dir.service", "enabled": false})]);
    node.update(&empty(), &off);
    node.update(&off, &empty());
    assert_same(&node.tree(), &bare, "withdrawn");
}

#[test]
fn l17_a_unit_that_is_enabled_until_the_next_boot_is_disabled_for_this_one_too() {
    let Some(node) = Node::lasting() else { return };
    // A folder in `/run/systemd` is what a running systemd is known by: `systemctl` is that of the root from then on.
    let mounts = programs::of_this_machine(&node);
    let offline = programs::systemctl(&node, "SYSTEMD_OFFLINE=1 exec /usr/bin/systemctl \"$@\"");
    node.write("/etc/systemd/system/app.service", BODY, 0o644);
    node.systemctl(&["enable", "--runtime", "app.service"]);
    assert_eq!(node.systemctl(&["is-enabled", "app.service"]), "enabled-runtime");
    let (off, on) = (
        units(&[json!({"name": "app.service", "enabled": false})]),
        units(&[json!({"name": "app.service", "enabled": true})]),
    );
    node.update(&empty(), &off);
    assert_eq!(node.systemctl(&["is-enabled", "app.service"]), "disabled");
    node.update(&off, &on);
    assert_eq!(node.systemctl(&["is-enabled", "app.service"]), "enabled");
    // Both, and then neither.
    node.systemctl(&["enable", "--runtime", "app.service"]);
    node.update(&on, &off);
    assert_eq!(node.systemctl(&["is-enabled", "app.service"]), "disabled");
    drop((offline, mounts));
}

/// What `systemctl` says of a unit that somebody else has made: none of it is a reason to do anything, or to fail.
#[test]
fn an_alias_and_an_indirect_unit_are_as_enabled_as_they_can_be() {
    let Some(node) = Node::new() else { return };
    node.vendor("socketed.service", "[Service]\nExecStart=/bin/true\n[Install]\nAlso=vendor.service\n");
    node.link("chronyd.service", "/usr/lib/systemd/system/time.service");
    for name in ["socketed.service", "time.service"] {
        let node = node.copy();
        let bare = node.tree();
        for on in [true, false] {
            let to = units(&[json!({"name": name, "enabled": on})]);
            node.update(&empty(), &to);
            node.update(&to, &empty());
            assert_same(&node.tree(), &bare, &format!("{name} {on} withdrawn"));
        }
    }
}

/// Units of a generator and those of `systemd-run`: there until the next boot or reload, made by somebody else.
#[test]
fn generated_and_transient_units_are_never_enabled_nor_disabled_nor_a_finding() {
    let Some(node) = Node::new() else { return };
    node.write("/run/systemd/generator/made.service", BODY, 0o644);
    node.write("/run/systemd/transient/run.service", BODY, 0o644);
    assert_eq!(node.systemctl(&["is-enabled", "made.service"]), "generated");
    assert_eq!(node.systemctl(&["is-enabled", "run.service"]), "transient");
    let bare = node.tree();
    for name in ["made.service", "run.service"] {
        let off = units(&[json!({"name": name, "enabled": false})]);
        node.update(&empty(), &off);
        node.update(&off, &empty());
        assert_same(&node.tree(), &bare, name);
    }
    let on = units(&[json!({"name": "made.service", "enabled": true})]);
    node.update(&empty(), &on);
    node.update(&on, &empty());
    assert_same(&node.tree(), &bare, "withdrawn");
    // It is gone with the next boot, so there is nothing that could be enabled for good.
    let (_, obstacles) = node.check(&empty(), &units(&[json!({"name": "run.service", "enabled": true})]), false);
    assert_eq!(
        obstacles,
        ["run.service cannot be enabled: it does not exist on this node; install it, or give it contents"]
    );
}

/// A node where things until the next boot can be put, and no service manager is said to run.
fn with_runtime() -> Option<Node> {
    let node = Node::new()?;
    fs::create_dir_all(node.at("/run/systemd/there")).unwrap();
    node.link("there", "/run/systemd/system");
    Some(node)
}

#[test]
fn a_unit_is_enabled_together_with_the_removal_of_its_mask_until_the_next_boot() {
    let Some(node) = with_runtime() else { return };
    node.link("/dev/null", "/run/systemd/there/vendor.service");
    let enabled = units(&[json!({"name": "vendor.service", "enabled": true})]);
    let unmasked = units(&[json!({"name": "vendor.service", "enabled": true, "mask": false})]);
    let (_, obstacles) = node.check(&empty(), &enabled, true);
    assert!(
        obstacles.iter().any(|text| text.starts_with("vendor.service cannot be enabled: it is masked")),
        "{obstacles:?}"
    );
    let (_, obstacles) = node.check(&empty(), &unmasked, true);
    assert!(!obstacles.iter().any(|text| text.contains("vendor.service")), "{obstacles:?}");
    node.update(&empty(), &unmasked);
    assert_eq!(node.systemctl(&["is-enabled", "vendor.service"]), "enabled");
}

#[test]
fn a_file_that_somebody_put_where_no_mask_shall_be_stays_when_that_is_withdrawn() {
    for was_masked in [false, true] {
        let Some(node) = Node::new() else { return };
        if was_masked {
            node.link("/dev/null", "/etc/systemd/system/vendor.service");
        }
        let unmasked = units(&[json!({"name": "vendor.service", "mask": false})]);
        node.update(&empty(), &unmasked);
        node.write("/etc/systemd/system/vendor.service", BODY, 0o640);
        let by_hand = node.tree();
        assert_eq!(node.deviations(&node.disk(), &unmasked), Vec::<String>::new());
        node.update(&unmasked, &empty());
        assert_same(&node.tree(), &by_hand, "withdrawn");
    }
}

#[test]
fn what_hides_a_unit_or_drop_in_is_named_before_and_after_an_update() {
    let Some(node) = Node::new() else { return };
    let dropin = json!([{"name": "10-x.conf", "contents": "[Service]\nNice=1\n"}]);
    let wanted = units(&[
        json!({"name": "vendor.service", "dropins": dropin}),
        json!({"name": "chronyd.service", "mask": true}),
    ]);
    let hides = ["/etc/systemd/system.control/chronyd.service", "/run/systemd/transient/vendor.service.d/10-x.conf"];
    let updated = node.copy();
    updated.update(&empty(), &wanted);
    for path in hides {
        node.write(path, BODY, 0o644);
        updated.write(path, BODY, 0o644);
    }
    let named = [
        format!("chronyd.service is hidden by {}", hides[0]),
        format!("vendor.service.d/10-x.conf is hidden by {}", hides[1]),
    ];
    assert_eq!(updated.deviations(&updated.disk(), &wanted), named);
    let more = units(&[
        json!({"name": "vendor.service", "dropins": dropin}),
        json!({"name": "chronyd.service", "mask": true}),
        json!({"name": "static.service", "mask": true}),
    ]);
    assert_eq!(updated.check(&wanted, &more, false).0, named, "drift in the way of the next update");
    let (drift, obstacles) = node.check(&empty(), &wanted, false);
    assert_eq!(drift, Vec::<String>::new());
    for name in named {
        assert!(obstacles.contains(&format!("{name}; move it away")), "{obstacles:?}");
    }
}
