//! SIGTERM ends the controller and the daemon within seconds, whatever else is gone by then.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A kubeconfig of an API server that takes connections and never answers.
fn kubeconfig(dir: &Path, silent: &TcpListener) -> String {
    let path = dir.join("kubeconfig");
    let server = silent.local_addr().unwrap();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"http://{server}\"}}}}]\n\
         users: [{{name: c, user: {{token: none}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: c}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn start(arguments: &[&str]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mcx"))
        .args(arguments)
        .args(["--listen", "127.0.0.1:0", "--log", "debug"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Until it says something, it may not listen for signals yet.
    let mut first = [0];
    let read = std::io::Read::read(child.stderr.as_mut().unwrap(), &mut first).unwrap();
    assert_eq!(read, 1, "it ended before it said a word");
    std::thread::sleep(Duration::from_millis(500));
    child
}

/// The reader of its log goes away first, as on a node that goes down: the container runtime ends before the pods.
fn ends_on_sigterm(mut child: Child) {
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    drop(child.stderr.take());
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let asked = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if asked.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("SIGTERM did not end it");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_controller_without_anybody_to_talk_to_ends() {
    let dir = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    ends_on_sigterm(start(&["controller", "--kubeconfig", &kubeconfig(dir.path(), &silent)]));
}

#[test]
fn a_daemon_without_anybody_to_talk_to_ends() {
    let dir = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("proc/sys/kernel/random")).unwrap();
    std::fs::create_dir_all(root.join("var/lib")).unwrap();
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::create_dir_all(root.join("run")).unwrap();
    std::fs::write(root.join("proc/sys/kernel/random/boot_id"), "b\n").unwrap();
    let (root, config) = (root.display().to_string(), kubeconfig(dir.path(), &silent));
    ends_on_sigterm(start(&["daemon", "--root", &root, "--node-name", "n", "--kubeconfig", &config]));
}
