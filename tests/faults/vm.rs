//! A machine whose disk is one of ours: a virtual one, with systemd, and `mcx daemon` as one of its services.
//!
//! Its API server and its kubelet's answer are this process's. Kernel, root and the binary are given (`tests/faults/vm.sh`):
//! `MCX_VM`, `MCX_VM_ROOT`, `MCX_BINARY`.

use super::daemon::{CONFIGS, Running, kubelet, runtime};
use super::image::{Cached, Event, Image, Loss};
use super::mounts::{Bench, Kind, memory};
use super::nbd::Disk;
use crate::node_api::{NodeApi, kubeconfig};
use crate::node_lives::{before, new, old};
use crate::node_root::{Node, empty};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What its root needs, and as much again.
const SIZE: u64 = 768 << 20;
/// Far longer than an emulated machine takes to come up and to end an update on a busy host.
const PATIENCE: Duration = Duration::from_mins(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// How long what was said before the power went is on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(100);
/// Where the guest finds this host.
const HOST: &str = "10.0.2.2";
/// Where a root says what a boot starts.
const WANTS: [&str; 5] = [
    "usr/lib/systemd/system/sysinit.target.wants",
    "usr/lib/systemd/system/local-fs.target.wants",
    "usr/lib/systemd/system/multi-user.target.wants",
    "usr/lib/systemd/system/timers.target.wants",
    "etc/systemd/system/multi-user.target.wants",
];

/// What a machine stands in, and the disk with which it comes there.
pub(crate) struct Site {
    pub(crate) kind: Kind,
    pub(crate) api: NodeApi,
    /// What its machines have when they come.
    pub(crate) start: Image,
}

impl Site {
    pub(crate) fn new(kind: Kind) -> Self {
        let api = NodeApi::new();
        for (name, config) in CONFIGS.iter().zip([empty(), old(), new()]) {
            api.config(name, &config);
        }
        let server = runtime().block_on(api.serve());
        let bench = Bench::sized(kind, SIZE);
        bench.with(&bench.image(), |at| furnish(at, server)).unwrap();
        Self { kind, api, start: bench.image() }
    }

    /// Where images of these machines are looked at.
    pub(crate) fn bench(&self) -> Bench {
        Bench::sized(self.kind, SIZE)
    }

    /// A machine that nobody has seen, which has come to its cluster and is at rest. `lies`: its disk answers flushes and does
    /// nothing about them.
    pub(crate) fn join(&self, lies: bool) -> Result<Machine<'_>, String> {
        self.api.register();
        self.want(0);
        let mut machine = Machine::start(self, self.start.clone(), lies);
        machine.until_at_rest()?;
        Ok(machine)
    }

    /// Wants one of the configs.
    pub(crate) fn want(&self, config: usize) {
        self.api.annotate("desiredConfig", CONFIGS[config]);
    }

    /// What the node says of itself: state, phase, name of its config.
    pub(crate) fn said(&self) -> [String; 3] {
        let phase = self.api.annotation("phase");
        let word = phase.split(' ').next().unwrap_or_default().to_owned();
        [self.api.annotation("state"), word, self.api.annotation("currentConfig")]
    }

    pub(crate) fn is_done(&self) -> bool {
        let [state, _, current] = self.said();
        state == "Done" && current == self.api.annotation("desiredConfig")
    }
}

/// Makes an empty file system the root of such a machine.
fn furnish(at: &Path, server: SocketAddr) {
    let in_root = |path: &str| at.join(path.trim_start_matches('/'));
    let copy = |from: PathBuf, to: PathBuf| {
        let copied = Command::new("cp").arg("-a").args([&from, &to]).status().unwrap();
        assert!(copied.success(), "{} cannot be copied", from.display());
    };
    copy(given("MCX_VM_ROOT").join("."), at.to_owned());
    calm(at);
    let node = Node::new().expect("root and systemctl");
    before(&node);
    for folder in ["/etc/systemd/system", "/home/boot"] {
        copy(node.at(folder).join("."), in_root(folder));
    }
    let files = ["a.conf", "b.conf", "mode.conf", "setuid", "pipe"].map(|name| format!("/etc/{name}"));
    let units = ["chronyd", "vendor", "static", "inst@"].map(|name| format!("/usr/lib/systemd/system/{name}.service"));
    for path in files.iter().chain(&units) {
        copy(node.at(path), in_root(path));
    }
    let write = |path: &str, text: &str| fs::write(in_root(path), text).unwrap();
    fs::OpenOptions::new().append(true).open(in_root("/etc/group")).unwrap().write_all(b"chrony:x:107:\n").unwrap();
    write("/etc/machine-id", "6d63782076697274756c206d61636869\n");
    write("/etc/hostname", "n1\n");
    write("/usr/lib/systemd/system/payload.service", "[Service]\nExecStart=/bin/sleep infinity\n");
    fs::create_dir(in_root("/opt/mcx")).unwrap();
    copy(given("MCX_BINARY"), in_root("/opt/mcx/mcx"));
    write("/opt/mcx/kubeconfig", &kubeconfig(format_args!("{HOST}:{}", server.port()), ""));
    fs::set_permissions(in_root("/opt/mcx/kubeconfig"), fs::Permissions::from_mode(0o600)).unwrap();
    let command = format!(
        "/opt/mcx/mcx daemon --root / --node-name n1 --kubeconfig /opt/mcx/kubeconfig --listen 0.0.0.0:9081 \
         --watch-time 1s --kubelet-healthz {HOST}:{}",
        kubelet().port()
    );
    write(
        "/etc/systemd/system/mcx.service",
        &format!("[Service]\nExecStart={command}\nRestart=always\nRestartSec=1\nStandardOutput=journal+console\n"),
    );
    symlink("../mcx.service", in_root("/etc/systemd/system/multi-user.target.wants/mcx.service")).unwrap();
}

/// Of what a root starts only the journal is kept, which writes to the disk, too: the rest would only take time.
fn calm(at: &Path) {
    fs::remove_dir_all(at.join("usr/lib/systemd/system-generators")).unwrap();
    fs::create_dir_all(at.join("var/log/journal")).unwrap();
    for link in WANTS.iter().flat_map(|wants| fs::read_dir(at.join(wants)).unwrap()).map(Result::unwrap) {
        if !link.file_name().to_string_lossy().starts_with("systemd-journal") {
            fs::remove_file(link.path()).unwrap();
        }
    }
}

fn given(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: tests/faults/vm.sh does")).into()
}

/// A machine that is switched on.
pub(crate) struct Machine<'a> {
    site: &'a Site,
    running: Running,
    disk: Disk<()>,
    cached: Cached,
    /// How many events of the disk `cached` knows.
    heard: usize,
    lies: bool,
    probes: SocketAddr,
    dir: tempfile::TempDir,
}

impl<'a> Machine<'a> {
    /// Switches one on that has this disk.
    pub(crate) fn start(site: &'a Site, image: Image, lies: bool) -> Self {
        let dir = tempfile::tempdir_in(memory()).unwrap();
        let socket = dir.path().join("nbd");
        let disk = Disk::serve(image.clone(), &socket).unwrap();
        // Free now, and hardly anybody else's a moment later.
        let probes = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let running = Running(emulator(site.kind, &socket, probes, &dir.path().join("console")));
        let cached = Cached::new(image, site.kind.superblock());
        Self { site, running, disk, cached, heard: 0, lies, probes, dir }
    }

    /// What was asked of the disk until now.
    pub(crate) fn events(&self) -> usize {
        self.disk.events()
    }

    /// Takes the power away after that many events of the disk.
    pub(crate) fn end_after(&self, events: usize) {
        self.disk.end_after(events);
    }

    /// What would be left if only what was flushed until now lasted.
    pub(crate) fn durable(&mut self) -> Image {
        self.hear();
        self.cached.cut(Loss::All, 0)
    }

    /// Takes the power away now, if it is not gone. What was said before has come when this returns.
    pub(crate) fn end(mut self) -> Cached {
        self.end_after(0);
        std::thread::sleep(ON_ITS_WAY);
        self.hear();
        drop(self.running);
        self.disk.ended().unwrap();
        self.cached
    }

    fn hear(&mut self) {
        let Self { cached, lies, .. } = self;
        self.heard = self.disk.tell(self.heard, |event| {
            if !(*lies && matches!(event, Event::Flush)) {
                cached.happens(event);
            }
        });
    }

    /// Waits until the daemon knows its node and says that it has what is wanted.
    pub(crate) fn until_at_rest(&mut self) -> Result<(), String> {
        self.until("is at rest", |machine| machine.site.is_done() && machine.is_ready())
    }

    /// Waits for something; what is known about the machine when it does not come.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<(), String> {
        let since = Instant::now();
        while !is_so(self) {
            let ended = self.running.0.try_wait().unwrap();
            if ended.is_some() || since.elapsed() > PATIENCE {
                let reason = self.site.api.annotation("reason");
                let console = fs::read(self.dir.path().join("console")).unwrap_or_default();
                let console = String::from_utf8_lossy(&console[console.len().saturating_sub(2000)..]).into_owned();
                let said = self.site.said().join(" ");
                return Err(format!(
                    "the machine never {what}: {said} {reason}, emulator {ended:?}, console: {console}"
                ));
            }
            self.site.api.serve_drains();
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let asked = || {
            let mut stream = TcpStream::connect_timeout(&self.probes, Duration::from_secs(1))?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n")?;
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).map(|()| answer)
        };
        // Until somebody listens there, connections are taken and dropped.
        asked().is_ok_and(|answer: [u8; 12]| answer.ends_with(b" 200"))
    }
}

/// Starts it; it ends with the thread that has started it, however that ends.
fn emulator(kind: Kind, socket: &Path, probes: SocketAddr, console: &Path) -> std::process::Child {
    let (kernel, accelerator) = (given("MCX_VM"), given("MCX_VM_ACCEL"));
    let words = [
        "-nodefaults -display none -machine q35 -cpu max -smp 1 -m 512".to_owned(),
        format!("-accel {}", accelerator.display()),
        format!("-kernel {0}/vmlinuz -initrd {0}/initrd", kernel.display()),
        format!("-serial file:{}", console.display()),
        format!("-blockdev driver=nbd,node-name=disk,server.type=unix,server.path={}", socket.display()),
        // Not NVMe: on that of QEMU 7 a report was once there before what it reports; whether its writes that must be put
        // down first are, was not looked into.
        "-device virtio-blk-pci,drive=disk,write-cache=on".to_owned(),
        format!("-netdev user,id=net,hostfwd=tcp:{probes}-:9081 -device virtio-net-pci,netdev=net"),
    ]
    .join(" ");
    // What an emulated processor is slow at is left out.
    let line = "console=ttyS0 quiet panic=-1 mitigations=off no5lvl audit=0 guest_options=noatime guest_fs=";
    let line = format!("{line}{}", kind.name());
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"]).args(words.split(' ')).args(["-append", &line]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}
