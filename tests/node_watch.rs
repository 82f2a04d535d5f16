//! A change of anything managed is told within a moment; of anything else it is not.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use mcx::node::disk::Disk;
use mcx::render::items::Items;
use node_root::{Node, config, empty, file, items};
use serde_json::json;
use std::fs;
use std::time::{Duration, Instant};

/// Far more than it takes, for a busy machine; a change that is not told fails by it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer than a burst is collected.
const SILENCE: Duration = Duration::from_millis(700);

/// Waits until the watch has nothing to tell.
async fn settle(disk: &Disk, items: &Items) {
    while tokio::time::timeout(SILENCE, disk.changed(items)).await.is_ok() {}
}

/// What is changed, and how.
type Change<'a> = (&'a str, Box<dyn Fn() + 'a>);

#[test]
fn each_change_of_a_managed_thing_is_told() {
    let Some(node) = Node::new() else { return };
    let to = config(
        &[file("/etc/a.conf", "a\n", 0o644), file("/opt/x/y/z.conf", "z\n", 0o644)],
        &[
            json!({"name": "app.service", "dropins": [{"name": "x.conf", "contents": "[Unit]\n"}]}),
            json!({"name": "vendor.service", "enabled": true}),
        ],
        Some(&[1]),
    );
    node.update(&empty(), &to);
    let (disk, items) = (node.disk(), items(&to));
    let changes: Vec<Change> = vec![
        ("bytes", Box::new(|| node.write("/etc/a.conf", "b\n", 0o644))),
        (
            "mode",
            Box::new(|| {
                fs::set_permissions(node.at("/etc/a.conf"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
                    .unwrap();
            }),
        ),
        ("owner", Box::new(|| node.own("/etc/a.conf", 5, 5))),
        (
            // A watch of the file itself would die with it (L-07).
            "renamed over",
            Box::new(|| {
                node.write("/etc/new", "c\n", 0o644);
                fs::rename(node.at("/etc/new"), node.at("/etc/a.conf")).unwrap();
            }),
        ),
        ("after that", Box::new(|| node.write("/etc/a.conf", "d\n", 0o644))),
        ("removed", Box::new(|| fs::remove_file(node.at("/etc/a.conf")).unwrap())),
        ("made again", Box::new(|| node.write("/etc/a.conf", "a\n", 0o644))),
        ("drop-in", Box::new(|| node.write("/etc/systemd/system/app.service.d/x.conf", "", 0o644))),
        ("disabled", Box::new(|| drop(node.systemctl(&["disable", "vendor.service"])))),
        ("enabled", Box::new(|| drop(node.systemctl(&["enable", "vendor.service"])))),
        ("masked", Box::new(|| drop(node.systemctl(&["mask", "vendor.service"])))),
        ("keys", Box::new(|| node.write("/home/boot/.ssh/authorized_keys", "", 0o600))),
        ("force file", Box::new(|| node.write("/run/machine-config-daemon-force", "", 0o644))),
        ("users", Box::new(|| node.write("/etc/passwd", &node.read("/etc/passwd"), 0o644))),
        ("folder swapped", Box::new(|| fs::rename(node.at("/opt/x"), node.at("/opt/old")).unwrap())),
        ("folder made again", Box::new(|| fs::create_dir_all(node.at("/opt/x/y")).unwrap())),
        ("file in the new folder", Box::new(|| node.write("/opt/x/y/z.conf", "z\n", 0o644))),
    ];
    node.runtime.block_on(async {
        for (what, change) in &changes {
            settle(&disk, &items).await;
            let begun = Instant::now();
            change();
            let told = tokio::time::timeout(PATIENCE, disk.changed(&items)).await;
            assert!(told.is_ok(), "{what} was not told");
            told.unwrap().unwrap();
            assert!(begun.elapsed() < Duration::from_secs(5), "{what} took {:?}", begun.elapsed());
        }
    });
}

#[test]
fn changes_of_unmanaged_things_are_not_told() {
    let Some(node) = Node::new() else { return };
    let to = config(&[file("/etc/a.conf", "a\n", 0o644)], &[], None);
    node.update(&empty(), &to);
    let (disk, items) = (node.disk(), items(&to));
    node.runtime.block_on(async {
        settle(&disk, &items).await;
        node.write("/etc/b.conf", "b\n", 0o644);
        node.write("/etc/.mcx-0123456789abcdef", "staged\n", 0o600);
        node.write("/run/other", "", 0o644);
        node.write("/opt/new/file", "", 0o644);
        let told = tokio::time::timeout(SILENCE, disk.changed(&items)).await;
        assert!(told.is_err(), "an unmanaged change was told");
    });
}

#[test]
fn a_file_that_is_written_all_the_time_is_told_a_few_times_a_second_at_most() {
    let Some(node) = Node::new() else { return };
    let to = config(&[file("/etc/a.conf", "a\n", 0o644)], &[], None);
    node.update(&empty(), &to);
    let (disk, items) = (node.disk(), items(&to));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let path = node.at("/etc/a.conf");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs::write(&path, "x").unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let told = node.runtime.block_on(async {
            disk.changed(&items).await.unwrap();
            let end = tokio::time::Instant::now() + Duration::from_secs(2);
            let mut told = 0;
            while let Ok(result) = tokio::time::timeout_at(end, disk.changed(&items)).await {
                result.unwrap();
                told += 1;
            }
            told
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!((1..=6).contains(&told), "{told} times in 2 s");
    });
}

#[test]
fn what_was_not_told_because_nobody_waited_is_told_later() {
    let Some(node) = Node::new() else { return };
    let to = config(&[file("/etc/a.conf", "a\n", 0o644)], &[], None);
    node.update(&empty(), &to);
    let (disk, items) = (node.disk(), items(&to));
    node.runtime.block_on(async {
        settle(&disk, &items).await;
        node.write("/etc/a.conf", "b\n", 0o644);
        // The wait is given up in the middle of the burst.
        let _ = tokio::time::timeout(Duration::from_millis(20), disk.changed(&items)).await;
        tokio::time::timeout(PATIENCE, disk.changed(&items)).await.expect("the change was forgotten").unwrap();
    });
}

#[test]
fn r126_many_configs_take_one_instance() {
    let Some(node) = Node::new() else { return };
    let disk = node.disk();
    let instances = || {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter(|entry| {
                entry.as_ref().is_ok_and(|entry| {
                    fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().contains("inotify"))
                })
            })
            .count()
    };
    let before = instances();
    node.runtime.block_on(async {
        for n in 0..1000 {
            let to = config(&[file(&format!("/etc/{n}/x"), "x\n", 0o644)], &[], None);
            fs::create_dir_all(node.at(&format!("/etc/{n}"))).unwrap();
            disk.changed(&items(&to)).await.unwrap();
        }
    });
    // Other tests of this process have theirs.
    assert!(instances() <= before + 20, "{} instances, {before} before", instances());
}
