//! A node from the host's side: commands in it, files on its disk, its power and its way to the API server.

use super::{NodeView, ROLLOUT, Rig, expect, script, script_command};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// systemd's id of the message "unit started", one for each start.
const STARTED: &str = "39f53479d3a045ac8e11786248231fbf";

/// A node of a cluster.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    rig: &'a Rig,
    name: &'a str,
}

/// How an attempt to log in went.
#[derive(Debug, PartialEq, Eq)]
pub enum Login {
    /// As this user.
    As(String),
    /// With sshd's or ssh's words.
    Refused(String),
}

impl<'a> Node<'a> {
    pub(super) fn new(rig: &'a Rig, name: &str) -> Self {
        // Names are few and live as long as the test process.
        Self { rig, name: Box::leak(name.to_owned().into_boxed_str()) }
    }

    pub fn name(&self) -> &str {
        self.name
    }

    /// The Node object as it is now.
    pub fn view(&self) -> NodeView {
        self.rig.view(self.name)
    }

    fn op(&self, op: &str, args: &[&str]) -> Output {
        let mut all = vec![op, self.name];
        all.extend(args);
        let output = script(&self.rig.state, "node.sh", &all);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "node.sh {}: {} {error}", all.join(" "), output.status);
        output
    }

    /// Runs a shell line in the node, as root. Its confinement is not a service's: see the rig's decision record.
    pub fn try_sh(&self, line: &str) -> Output {
        script(&self.rig.state, "node.sh", &["exec", self.name, "sh", "-c", line])
    }

    /// As [`Self::try_sh`], but it must succeed; what it prints, trimmed.
    pub fn sh(&self, line: &str) -> String {
        let output = self.try_sh(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "on {}: {line}: {} {error}", self.name, output.status);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Whether a shell line succeeds.
    pub fn succeeds(&self, line: &str) -> bool {
        self.try_sh(line).status.success()
    }

    /// The bytes of a file; none if there is none.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        let output = self.try_sh(&format!("cat '{path}'"));
        output.status.success().then_some(output.stdout)
    }

    /// A file as text.
    pub fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(&self.read(path).unwrap_or_else(|| panic!("no {path} on {}", self.name))).into_owned()
    }

    /// Replaces the bytes of a file in place, as an editor would.
    pub fn write(&self, path: &str, bytes: &[u8]) {
        let mut child =
            script_command(&self.rig.state, "node.sh", &["exec", self.name, "sh", "-c", &format!("cat >'{path}'")])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        assert!(child.wait().unwrap().success(), "cannot write {path} on {}", self.name);
    }

    /// `mode owner:group type` of a path, as stat prints it: `644 root:root regular file`.
    pub fn stat(&self, path: &str) -> String {
        self.sh(&format!("stat -c '%a %U:%G %F' '{path}'"))
    }

    /// Whether something is at the path, a dangling link included.
    pub fn exists(&self, path: &str) -> bool {
        self.succeeds(&format!("[ -e '{path}' ] || [ -L '{path}' ]"))
    }

    /// How often a unit was started in this boot.
    pub fn starts(&self, unit: &str) -> usize {
        let line = format!("journalctl --sync; journalctl -q -b MESSAGE_ID={STARTED} UNIT={unit} -o cat | wc -l");
        self.sh(&line).parse().expect("a count")
    }

    /// A property of a unit.
    pub fn unit(&self, unit: &str, property: &str) -> String {
        self.sh(&format!("systemctl show -p {property} --value {unit}"))
    }

    /// What `systemctl is-enabled` says.
    pub fn enabled(&self, unit: &str) -> String {
        self.sh(&format!("systemctl is-enabled {unit} || :"))
    }

    /// What `systemctl is-active` says.
    pub fn active(&self, unit: &str) -> String {
        self.sh(&format!("systemctl is-active {unit} || :"))
    }

    /// Id of the boot that runs now.
    pub fn boot_id(&self) -> String {
        String::from_utf8_lossy(&self.op("bootid", &[]).stdout).trim().to_owned()
    }

    /// Waits until the node is Ready and the Node object speaks of this boot.
    pub fn wait(&self) {
        self.op("wait", &["120"]);
    }

    /// An orderly reboot, until Ready again.
    pub fn reboot(&self) {
        let before = self.boot_id();
        self.op("reboot", &["-n"]);
        self.rig.eventually(ROLLOUT, &format!("{} boots", self.name), || {
            let output = script(&self.rig.state, "node.sh", &["bootid", self.name]);
            let now = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if output.status.success() && !now.is_empty() && now != before { Ok(()) } else { Err(now) }
        });
        self.wait();
    }

    /// The node's first process, as this machine sees it: its root is `/proc/PID/root`.
    pub fn leader(&self) -> String {
        String::from_utf8_lossy(&self.op("leader", &[]).stdout).trim().to_owned()
    }

    /// Power loss with all that was not flushed, on a node with `DISK=1`. Then [`Self::start`]. False where there is none:
    /// it was going down.
    pub fn crash(&self) -> bool {
        script(&self.rig.state, "node.sh", &["crash", self.name]).status.success()
    }

    /// Power loss: the guest is gone at once. Then [`Self::start`].
    pub fn kill(&self) {
        self.op("kill", &[]);
    }

    /// Starts a node that is off.
    pub fn start(&self) {
        self.op("start", &[]);
    }

    /// A reboot ends in a node that stays off until [`Self::unhold`].
    pub fn hold(&self) {
        self.op("hold", &[]);
    }

    pub fn unhold(&self) {
        self.op("unhold", &[]);
    }

    /// Its packets to the API server vanish.
    pub fn cut(&self) {
        self.op("cut", &[]);
    }

    /// Its way to the API server is well again.
    pub fn mend(&self) {
        self.op("mend", &[]);
    }

    /// The whole guest stands still.
    pub fn freeze(&self) {
        self.op("freeze", &[]);
    }

    pub fn thaw(&self) {
        self.op("thaw", &[]);
    }

    /// Removes the node for good: guest, disk and Node object.
    pub fn remove(&self) {
        self.op("rm", &[]);
    }

    /// Whatever was done to it is over: thawed, mended, started.
    pub fn heal(&self) {
        self.op("heal", &[]);
    }

    /// Tries an ssh login on the node with the private key in `key`.
    pub fn login(&self, user: &str, key: &std::path::Path) -> Login {
        let output = Command::new("nsenter")
            .args(["-t", &self.leader(), "-n", "ssh", "-i"])
            .arg(key)
            .args(["-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no"])
            .args(["-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=10", "-F", "/dev/null"])
            .arg(format!("{user}@127.0.0.1"))
            .arg("whoami")
            .stdin(Stdio::null())
            .output()
            .expect("ssh");
        if output.status.success() {
            Login::As(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Login::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }

    /// Asks the daemon to apply the config again, as the guide says.
    pub fn force(&self) {
        self.sh("touch /run/machine-config-daemon-force");
    }

    /// Waits until the node is Degraded, and returns the reason.
    pub fn degraded(&self, limit: Duration) -> String {
        self.rig.eventually(limit, &format!("{} is Degraded", self.name), || {
            let view = self.view();
            if view.state == "Degraded" { Ok(view.reason) } else { Err(view.line()) }
        })
    }

    /// Waits until the node is Done and in service.
    pub fn done(&self, limit: Duration) -> NodeView {
        self.rig.eventually(limit, &format!("{} is Done", self.name), || {
            let view = self.view();
            if view.state == "Done" && !view.behind() && !view.unschedulable && view.ready {
                Ok(view)
            } else {
                Err(view.line())
            }
        })
    }
}

/// A fresh key pair of this type in a folder of its own: the folder, and the public line.
pub fn key_pair(kind: &str, comment: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", kind, "-N", "", "-C", comment, "-f"]).arg(folder.path().join("key"));
    expect(&mut keygen, "ssh-keygen");
    let public = std::fs::read_to_string(folder.path().join("key.pub")).unwrap().trim().to_owned();
    (folder, public)
}
