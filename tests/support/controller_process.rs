//! `mcx controller` as a process of the test's own, looked at through its pages.
#![allow(dead_code, reason = "each test file uses a part of it")]

use mcx::api::NAMESPACE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A controller process; killed when dropped.
pub(crate) struct ControllerProcess {
    pub(crate) process: Child,
    listen: SocketAddr,
}

impl ControllerProcess {
    /// As the pod `pod`, with these flags beside those that it needs.
    pub(crate) fn start(pod: &str, kubeconfig: &Path, flags: &[&str]) -> Self {
        let listen = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
        let process = Command::new(env!("CARGO_BIN_EXE_mcx"))
            .arg("controller")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--namespace", NAMESPACE, "--pod", pod, "--listen", &listen.to_string()])
            .args(flags)
            .stderr(Stdio::null())
            .spawn()
            .expect("mcx starts");
        Self { process, listen }
    }

    /// Status line and body of a page; none when it does not answer.
    pub(crate) fn page(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.listen).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.page("/readyz").is_some_and(|p| p.starts_with("HTTP/1.1 200"))
    }

    /// Whether it says that it leads; none when it does not answer.
    pub(crate) fn says_it_leads(&self) -> Option<bool> {
        let page = self.page("/metrics")?;
        page.lines().find_map(|l| l.strip_prefix("mcx_leading ")).map(|value| value == "1")
    }

    pub(crate) fn leads(&self) -> bool {
        self.says_it_leads() == Some(true)
    }

    /// All counters of writes, as they are shown.
    pub(crate) fn writes(&self) -> Vec<String> {
        let page = self.page("/metrics").unwrap_or_default();
        page.lines().filter(|l| l.starts_with("mcx_api_writes_total")).map(str::to_owned).collect()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).expect("a process id"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the process is there");
    }
}

impl Drop for ControllerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
