//! What every command that people use has in common: colour, closed pipes, narrow terminals, help.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

use command_line::command;
use std::fs;
use std::process::{Output, Stdio};

/// Commands of people with output on standard output, each with arguments that work.
const SPEAKING: [&[&str]; 9] = [
    &["render", "--pool", "worker", "-f", "examples/"],
    &["new", "file", "--path", "/etc/a", "--from", "examples/README.md"],
    &["new", "unit", "chronyd.service", "--disable"],
    &["new", "dropin", "chronyd.service", "1.conf", "--from", "examples/README.md"],
    &["apply", "--root", "/tmp", "--pool", "worker", "-f", "examples/chrony.yaml", "--dry-run"],
    &["crds"],
    &["completions", "bash"],
    &["--help"],
    &["--version"],
];

/// Commands that are refused or not understood: they speak on standard error.
const COMPLAINING: [&[&str]; 5] = [
    &["render", "--pool", "worker", "-f", "/nowhere"],
    &["render", "--pool", "none", "-f", "examples/"],
    &["new", "file", "--path", "/motd", "--from", "examples/README.md"],
    &["apply", "--root", "/nowhere", "--withdraw", "--dry-run"],
    &["render"],
];

fn both(output: &Output) -> Vec<u8> {
    [&output.stdout[..], &output.stderr[..]].concat()
}

#[test]
fn nothing_that_is_piped_holds_colour_and_no_color_counts_before_all_else() {
    for args in SPEAKING.iter().chain(&COMPLAINING) {
        for (key, value) in [("TERM", "xterm-256color"), ("NO_COLOR", "1")] {
            let output = command(args).env(key, value).output().unwrap();
            assert!(!both(&output).contains(&0x1b), "{args:?} with {key}");
        }
    }
    // Where colour is asked for it is there, so the above can fail; and NO_COLOR wins over a terminal.
    let forced = command(COMPLAINING[2]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stderr.contains(&0x1b), "{}", String::from_utf8_lossy(&forced.stderr));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for args in SPEAKING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked") && !said.contains("ipe"), "{args:?}: {said}");
    }
    for args in COMPLAINING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let code = command(args).stderr(writer).output().unwrap().status.code();
        assert!(matches!(code, Some(1 | 2)), "{args:?}: {code:?}");
    }
}

#[test]
fn a_disk_that_is_full_is_an_error() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(SPEAKING[0]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every command and subcommand that is shown.
fn commands() -> Vec<Vec<String>> {
    use clap::CommandFactory as _;
    fn walk(command: &clap::Command, above: &[String], found: &mut Vec<Vec<String>>) {
        for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = [above, &[below.get_name().to_owned()]].concat();
            found.push(name.clone());
            walk(below, &name, found);
        }
    }
    let mut found = vec![Vec::new()];
    walk(&mcx::cmd::Cli::command(), &[], &mut found);
    found
}

#[test]
fn help_fits_a_narrow_terminal_and_has_examples() {
    for command in commands() {
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        args.push("--help");
        let output = command_line::command(&args).env("COLUMNS", "60").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(command.is_empty() || text.contains("Examples:\n"), "{args:?}: {text}");
        // Words are not torn, a flag or a path may be longer than the line; nor is the usage, as it is to be typed.
        let is_wide = |line: &&str| line.chars().count() > 60 && line.trim().split(' ').count() > 4;
        let wide: Vec<&str> = text.lines().filter(|line| !line.starts_with("Usage:")).filter(is_wide).collect();
        assert!(wide.is_empty(), "{args:?}: {wide:#?}");
    }
}

#[test]
fn usage_errors_are_exit_2_and_say_where_help_is() {
    for command in commands().into_iter().filter(|command| !command.is_empty()) {
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        args.push("--no-such-flag");
        let output = command_line::command(&args).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--help"), "{args:?}");
    }
}
