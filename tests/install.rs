//! `make install`: what it puts where, and that it works from there; `make uninstall` leaves nothing.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

use command_line::out;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn make(target: &str, destination: &Path) {
    let output = Command::new("make")
        .args(["--no-print-directory", target, "PREFIX=/usr"])
        .arg(format!("DESTDIR={}", destination.display()))
        .arg(format!("MCX={}", env!("CARGO_BIN_EXE_mcx")))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn files(folder: &Path, at: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{at}{}", entry.file_name().display());
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), &format!("{name}/"), found);
        } else {
            found.push(name);
        }
    }
}

/// Runs an installed program as a shell would find it.
fn run(bin: &Path, program: &str, args: &[&str]) -> Output {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    Command::new(bin.join(program)).args(args).env("PATH", path).output().unwrap()
}

#[test]
fn what_is_installed_works_and_all_of_it_is_removed_again() {
    let folder = tempfile::tempdir().unwrap();
    make("install", folder.path());
    let mut found = Vec::new();
    files(folder.path(), "", &mut found);
    found.sort();
    for file in [
        "usr/bin/kubectl-mcx",
        "usr/bin/kubectl_complete-mcx",
        "usr/bin/mcx",
        "usr/share/bash-completion/completions/mcx",
        "usr/share/fish/vendor_completions.d/mcx.fish",
        "usr/share/man/man1/mcx-new-file.1",
        "usr/share/man/man1/mcx.1",
        "usr/share/zsh/site-functions/_mcx",
    ] {
        assert!(found.iter().any(|found| found == file), "{file} in {found:?}");
    }
    let bin = folder.path().join("usr/bin");
    assert_eq!(fs::read_link(bin.join("kubectl-mcx")).unwrap(), Path::new("mcx"), "it may be moved as a whole");

    let help = run(&bin, "kubectl-mcx", &["render", "--help"]);
    assert!(out(&help).contains("Usage: kubectl mcx render "), "{}", out(&help));
    assert!(out(&help).contains("  kubectl mcx render --pool worker -f examples/"), "{}", out(&help));
    let help = run(&bin, "mcx", &["render", "--help"]);
    assert!(out(&help).contains("Usage: mcx render "), "{}", out(&help));
    let usage = run(&bin, "kubectl-mcx", &["render"]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("Usage: kubectl mcx render "));

    // kubectl asks so on TAB: the words so far, the last of which is completed.
    for (words, proposal) in [
        (&["ren"][..], "render"),
        (&["render", "--po"], "--pool"),
        (&["render", "-o", ""], "json"),
        (&["new", "dro"], "dropin"),
        (&["new", "file", "--ro"], "--role"),
    ] {
        let completed = run(&bin, "kubectl_complete-mcx", words);
        let lines: Vec<&str> = out(&completed).lines().collect();
        assert!(lines.contains(&proposal), "{words:?}: {lines:?} {}", String::from_utf8_lossy(&completed.stderr));
        assert_eq!(lines.last(), Some(&":0"), "{words:?}");
    }
    make("install", folder.path());
    make("uninstall", folder.path());
    let mut left = Vec::new();
    files(folder.path(), "", &mut left);
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn the_list_of_make_targets_names_both() {
    let output = Command::new("make").arg("help").current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    for target in ["  install  ", "  uninstall  "] {
        assert!(out(&output).contains(target), "{}", out(&output));
    }
}
