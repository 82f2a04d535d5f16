//! The recipes are true: every command of `docs/recipes.md` is run, in order, in one folder. What is said to a cluster goes
//! to a stand-in for kubectl that has an empty one, and looks whether the files are there.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use mcx::render::items::Items;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Answers `get` with an empty list; `apply -f FILE` needs the file.
const KUBECTL: &str = r#"#!/bin/bash
case $1 in
  get) echo '{"apiVersion": "v1", "kind": "List", "items": []}' ;;
  apply) [ "$2" = -f ] && [ -s "$3" ] || { echo "kubectl: no file $3" >&2; exit 1; } ;;
esac
"#;

/// The shell blocks of the page, without the indentation of a list.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in page.lines() {
        let indent = line.len() - line.trim_start().len();
        match (&mut open, line.trim()) {
            (None, "```sh") => open = Some((indent, String::new())),
            (Some(_), "```") => blocks.extend(open.take().map(|(_, text)| text)),
            (Some((indent, text)), _) => {
                text.push_str(line.get(*indent..).unwrap_or_default());
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    assert_eq!(open, None, "a block does not end");
    blocks
}

fn program(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn every_command_of_the_recipes_works() {
    let page = fs::read_to_string(format!("{}/docs/recipes.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= 9, "{} blocks", blocks.len());
    let bin = tempfile::tempdir().unwrap();
    program(bin.path(), "kubectl", KUBECTL);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mcx"), bin.path().join("mcx")).unwrap();
    let has_ssh = Command::new("sh").args(["-c", "command -v ssh-keygen"]).output().unwrap().status.success();
    if !has_ssh {
        // A key of nobody.
        program(
            bin.path(),
            "ssh-keygen",
            "#!/bin/bash\necho 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ alice@example.com' >alice.pub\n",
        );
    }
    let folder = tempfile::tempdir().unwrap();
    for block in &blocks {
        let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", block])
            .env("PATH", path)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}:\n{block}\n{out}\n{err}", output.status);
        assert!(!err.contains("error"), "{block}\n{out}\n{err}");
    }

    // What the nodes then have.
    let render = Command::new(bin.path().join("mcx"))
        .args(["render", "--pool", "worker", "-o", "json", "-f", "after"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let object: serde_json::Value = serde_json::from_slice(&render.stdout).unwrap();
    let items = Items::from_config(&object["spec"]["config"]).unwrap();
    let chrony = fs::read_to_string(folder.path().join("chrony.conf")).unwrap();
    assert_eq!(chrony.lines().count(), 5);
    assert_eq!(items.files["/etc/chrony.conf"].content.decode().unwrap(), chrony.as_bytes());
    assert_eq!(items.files["/etc/sysctl.d/90-map-count.conf"].mode & 0o444, 0o444);
    assert_eq!(items.units["chronyd.service"].enabled, Some(false));
    assert_eq!(items.units["kubelet.service"].dropins.len(), 1);
    assert!(items.keys.unwrap()[0].ends_with("alice@example.com"));
}
