//! State files that are cut off, zeroed, flipped, or of a newer form: each is named with the way out, nothing is touched,
//! and when it is put right all goes on. A sample by default, every prefix of each with `MCX_SOAK=1`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_lives.rs"]
mod node_lives;
#[path = "support/node_root.rs"]
mod node_root;

use mcx::node::disk::Disk;
use mcx::node::folder::{self, Ended};
use mcx::node::host::Error;
use mcx::node::journal::Failed;
use node_lives::{at_old, before, new, old};
use node_root::{Node, assert_same, empty, named};
use std::fs;
use std::time::Duration;

const STATE: &str = "/var/lib/mcx";

/// A file in other bytes, and what that is called.
struct Damage {
    what: String,
    bytes: Vec<u8>,
    /// What the error says besides the path.
    says: &'static str,
}

fn soak() -> bool {
    std::env::var_os("MCX_SOAK").is_some()
}

/// Prefixes, zeroes, flips and a newer form. A copy of somebody's file has no form, and no version.
fn damages(whole: &[u8], has_form: bool, prefixes: usize, flips: usize) -> Vec<Damage> {
    let damage = |what: String, bytes: Vec<u8>| Damage { what, bytes, says: "is damaged (" };
    let step = if soak() { 1 } else { whole.len().div_ceil(prefixes).max(1) };
    let mut all: Vec<Damage> =
        (0..whole.len()).step_by(step).map(|end| damage(format!("cut at {end}"), whole[..end].to_vec())).collect();
    all.push(damage("zeroed".into(), vec![0; whole.len()]));
    // Spread over the file, and the same in each run.
    for n in 0..if soak() { flips * 20 } else { flips } {
        let at = n * 7919 % (whole.len() * 8);
        let mut bytes = whole.to_vec();
        bytes[at / 8] ^= 1 << (at % 8);
        all.push(Damage { what: format!("bit {at} flipped"), bytes, says: "" });
    }
    if has_form {
        let text = String::from_utf8(whole.to_vec()).unwrap().replacen("\"version\":1", "\"version\":9", 1);
        all.push(Damage {
            what: "a newer form".into(),
            bytes: text.into_bytes(),
            says: "was written by a newer mcx (form 9",
        });
    }
    all
}

/// What the next run of `mcx apply` does with the folder.
fn apply(node: &Node, to: &serde_json::Value) -> Result<Ended, Error> {
    node.runtime.block_on(async {
        let disk = Disk::open(node.host(), Duration::ZERO).await?;
        let to = named(to);
        folder::finish(&disk, &to.name, &mut |_| {}).await?;
        if folder::current(&disk)?.name == to.name {
            return Ok(Ended::Done);
        }
        folder::update(&disk, &to, &mut |_| {}).await
    })
}

/// One line that names the file; none when the damage has changed nothing that counts.
fn complaint(result: Result<Ended, Error>) -> Option<String> {
    match result {
        Ok(Ended::Done) => None,
        Ok(Ended::Undone(why)) => Some(why),
        Ok(Ended::Refused(check)) => Some(format!("refused: {check:?}")),
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn a_damaged_config_or_journal_is_named_and_nothing_is_touched() {
    let Some(node) = at_old() else { return };
    let disk = node.disk();
    let mut journal = Node::open(&disk, &old(), &new());
    disk.set_failed(Some(&Failed { config: "x".into(), reason: "y".into(), disruptive: true, unanswered: 0 })).unwrap();
    drop(disk);
    let steps = node.until(&mut journal, false, usize::MAX).len();
    let node = at_old().unwrap();
    let mut journal = Node::open(&node.disk(), &old(), &new());
    node.disk()
        .set_failed(Some(&Failed { config: "x".into(), reason: "y".into(), disruptive: true, unanswered: 0 }))
        .unwrap();
    // In the middle of switching.
    node.until(&mut journal, false, steps * 2 / 3);
    let (tree, mut cases, mut same) = (node.tree(), 0, 0);
    for name in ["current.json", "journal.json", "failed.json"] {
        let path = format!("{STATE}/{name}");
        let whole = fs::read(node.at(&path)).unwrap();
        let disk = node.disk();
        let stored = disk.stored().unwrap();
        for damage in damages(&whole, true, 200, 200) {
            fs::write(node.at(&path), &damage.bytes).unwrap();
            cases += 1;
            match disk.stored() {
                Ok(read) => {
                    assert!(damage.says.is_empty(), "{path} {}: taken for whole", damage.what);
                    assert_eq!(read, stored, "{path} {}", damage.what);
                    same += 1;
                }
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.starts_with(&format!("{path} {}", damage.says)), "{path} {}: {error}", damage.what);
                    let way_out = error.contains("move it away") || error.contains("run that version on this node");
                    assert!(way_out && !error.contains('\n'), "{path} {}: {error}", damage.what);
                }
            }
        }
        // What would go on does not.
        drop(disk);
        for damage in damages(&whole, true, 3, 0) {
            fs::write(node.at(&path), &damage.bytes).unwrap();
            let said = complaint(apply(&node, &new())).unwrap();
            assert!(said.contains(&path) && said.contains(damage.says), "{path} {}: {said}", damage.what);
            assert_same(&node.tree(), &tree, &format!("{path} {}", damage.what));
        }
        fs::write(node.at(&path), &whole).unwrap();
    }
    assert_eq!(complaint(apply(&node, &new())), None);
    assert_eq!(complaint(apply(&node, &empty())), None);
    let bare = Node::new().unwrap();
    before(&bare);
    assert_same(&node.tree(), &bare.tree(), "put right and withdrawn");
    println!("damaged state: {cases} cases, {same} without effect");
}

#[test]
fn the_config_that_is_left_is_never_needed() {
    let Some(node) = at_old() else { return };
    let mut journal = Node::open(&node.disk(), &old(), &new());
    node.until(&mut journal, false, 20);
    fs::write(node.at("/var/lib/mcx/previous.json"), "damaged").unwrap();
    assert_eq!(complaint(apply(&node, &new())), None);
    assert!(!node.at("/var/lib/mcx/previous.json").exists());
}

#[test]
fn a_damaged_original_is_named_and_the_withdrawal_touches_nothing() {
    let Some(template) = at_old() else { return };
    template.update(&old(), &new());
    let tree = template.tree();
    let bare = Node::new().unwrap();
    before(&bare);
    let bare = bare.tree();
    let originals = format!("{STATE}/originals");
    let mut names: Vec<String> = fs::read_dir(template.at(&originals))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let first = |kind: &str| names.iter().find(|name| name.starts_with(kind)).cloned();
    let kinds =
        ["p-", "u-", "b-", "made.json"].map(|kind| first(kind).unwrap_or_else(|| panic!("no {kind} in {names:?}")));
    if !soak() {
        names = kinds.to_vec();
    }
    let (mut cases, mut same) = (0, 0);
    for name in &names {
        let path = format!("{originals}/{name}");
        let whole = fs::read(template.at(&path)).unwrap();
        let is_copy = name.starts_with("b-");
        for damage in damages(&whole, !is_copy, 2, 1) {
            let node = template.copy();
            fs::write(node.at(&path), &damage.bytes).unwrap();
            cases += 1;
            let when = format!("{path} {}", damage.what);
            let Some(said) = complaint(apply(&node, &empty())) else {
                assert!(damage.says.is_empty(), "{when}: taken for whole");
                assert_same(&node.tree(), &bare, &when);
                same += 1;
                continue;
            };
            assert!(said.contains(&path) && said.contains(damage.says), "{when}: {said}");
            assert!(said.contains("away") || said.contains("run that version on this node"), "{when}: {said}");
            assert_same(&node.tree(), &tree, &when);
            fs::write(node.at(&path), &whole).unwrap();
            assert_eq!(complaint(apply(&node, &empty())), None, "{when}, put right");
            assert_same(&node.tree(), &bare, &format!("{when}, put right"));
        }
    }
    println!("damaged originals: {cases} cases of {} files, {same} without effect", names.len());
}
