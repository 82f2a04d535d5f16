//! Commands in a node's root, and what a root says of itself.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;
#[path = "support/programs.rs"]
mod programs;

use mcx::node::host::Host;
use node_root::Node;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

fn own() -> (Host, tokio::runtime::Runtime) {
    (Host::open(Path::new("/")).unwrap(), tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap())
}

#[test]
fn a_command_gets_a_clean_environment_no_input_and_no_shell() {
    let (host, runtime) = own();
    let run = |argv: &[&str]| runtime.block_on(host.run(argv, LIMIT)).unwrap();
    let environment = run(&["env"]).stdout;
    let mut names: Vec<&str> = environment.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["LANG", "PATH"]);
    assert_eq!(run(&["cat"]).stdout, "");
    assert_eq!(run(&["pwd"]).stdout, "/\n");
    assert_eq!(run(&["echo", "$HOME; ls *"]).stdout, "$HOME; ls *\n");
    let output = run(&["sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (3, "out\n", "err\n"));
    assert_eq!(run(&["sh", "-c", "kill -9 $$"]).status, 137);
}

#[test]
fn a_failure_is_told_as_an_operator_would_type_it_with_the_end_of_what_it_said() {
    let (host, runtime) = own();
    let argv = ["sh", "-c", "i=0; while [ $i -lt 500 ]; do echo line $i >&2; i=$((i+1)); done; exit 2"];
    let output = runtime.block_on(host.run(&argv, LIMIT)).unwrap();
    assert!(output.stderr.len() <= 1024 && output.stderr.ends_with("line 499\n"), "{}", output.stderr.len());
    let error = output.ok(&["x", "y"]).unwrap_err().to_string();
    assert!(error.starts_with("`x y` failed: exit status 2: ") && error.ends_with("line 499") && !error.contains('\n'));
    let error = runtime.block_on(host.run(&["no-such-command", "x"], LIMIT)).unwrap_err().to_string();
    assert!(error.starts_with("`no-such-command x` failed: No such file"), "{error}");
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_all_its_children() {
    let (host, runtime) = own();
    let node = tempfile::tempdir().unwrap();
    let mark = node.path().join("alive");
    let script = format!("(while :; do touch {0}; sleep 0.05; done) & while :; do sleep 1; done", mark.display());
    let begun = Instant::now();
    let error = runtime.block_on(host.run(&["sh", "-c", &script], Duration::from_millis(500))).unwrap_err().to_string();
    assert!(error.ends_with("failed: no end within 0.5 s, killed"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    std::fs::remove_file(&mark).unwrap();
    std::thread::sleep(Duration::from_millis(400));
    assert!(!mark.exists(), "a child lives on");
}

#[test]
fn something_left_behind_with_the_pipes_does_not_hold_the_caller_up() {
    let (host, runtime) = own();
    let begun = Instant::now();
    let output = runtime.block_on(host.run(&["sh", "-c", "echo done; sleep 30 & exit 0"], LIMIT)).unwrap();
    assert_eq!((output.status, output.stdout.as_str()), (0, "done\n"));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_command_runs_inside_another_root() {
    let Some(node) = Node::lasting() else { return };
    let mounts = programs::of_this_machine(&node);
    let host = node.host();
    let run = |argv: &[&str]| node.runtime.block_on(host.run(argv, LIMIT)).unwrap();
    assert_eq!(run(&["cat", "/etc/group"]).stdout, node.read("/etc/group"));
    assert_eq!(run(&["pwd"]).stdout, "/\n");
    assert_eq!(run(&["sh", "-c", "exit 7"]).status, 7);
    let output = run(&["no-such-command"]);
    assert_eq!(output.status, 127);
    assert!(output.stderr.contains("cannot run no-such-command in "), "{}", output.stderr);
    let environment = run(&["env"]).stdout;
    assert_eq!(environment.lines().count(), 2, "{environment}");
    drop(mounts);
}

#[test]
fn a_root_tells_its_boot_and_its_force_file() {
    let Some(node) = Node::new() else { return };
    let host = node.host();
    assert_eq!(host.boot_id().unwrap(), "11111111-2222-3333-4444-555555555555");
    assert!(!host.has_systemd().unwrap() && !host.force_file());
    host.remove_force_file().unwrap();
    node.write("/run/machine-config-daemon-force", "", 0o644);
    assert!(host.force_file());
    host.remove_force_file().unwrap();
    assert!(!host.force_file() && !node.at("/run/machine-config-daemon-force").exists());
    std::fs::create_dir_all(node.at("/run/systemd/system")).unwrap();
    assert!(host.has_systemd().unwrap());
}
