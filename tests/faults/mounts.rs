//! File systems on disks of ours: made, mounted, checked. Needs root, /dev/loop*, /dev/fuse and the packages of
//! `tests/faults/power.sh`.

use super::image::{Event, Image};
use super::nbd::Disk;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for what takes some milliseconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ext4,
    /// Without the heuristic that writes a file's bytes when it is renamed over another: what mcx flushes by itself
    /// must do.
    Ext4Plain,
    Xfs,
    Btrfs,
}

impl Kind {
    /// As small as it can be made: every state is written out once.
    fn size(self) -> u64 {
        match self {
            Self::Ext4 | Self::Ext4Plain | Self::Xfs => 32 << 20,
            Self::Btrfs => 128 << 20,
        }
    }

    /// The block without which the file system cannot be mounted. Against half of it being written none has anything but
    /// its checksum; disks of today write a block whole.
    pub(crate) fn superblock(self) -> u64 {
        if self == Self::Btrfs { 16 } else { 0 }
    }

    /// What it is called where it is mounted.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Ext4Plain => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// The same file system may be mounted from several disks at once here, and writes nothing by itself for a while:
    /// what is on the disk is there because it was asked for, or because the disk chose to.
    fn options(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Btrfs => "commit=300",
            Self::Ext4Plain => "commit=300,noauto_da_alloc",
            Self::Xfs => "nouuid",
        }
    }

    fn make(self, path: &Path, size: u64) {
        fs::File::create(path).unwrap().set_len(size).unwrap();
        match self {
            // Nothing is left for the kernel to make later, by itself.
            Self::Ext4 | Self::Ext4Plain => {
                let all_now = "lazy_itable_init=0,lazy_journal_init=0".as_ref();
                run(
                    "mke2fs",
                    &["-q".as_ref(), "-t".as_ref(), "ext4".as_ref(), "-E".as_ref(), all_now, path.as_os_str()],
                )
            }
            // Told that this is a test, it makes them smaller than anybody should use.
            Self::Xfs => run(
                "env",
                &[
                    "TEST_DIR=1".as_ref(),
                    "TEST_DEV=1".as_ref(),
                    "QA_CHECK_FS=1".as_ref(),
                    "mkfs.xfs".as_ref(),
                    "-q".as_ref(),
                    path.as_os_str(),
                ],
            ),
            Self::Btrfs => run("mkfs.btrfs", &["-q".as_ref(), path.as_os_str()]),
        };
    }

    fn check(self, path: &Path) -> Result<(), String> {
        let path = path.as_os_str();
        match self {
            Self::Ext4 | Self::Ext4Plain => try_run("e2fsck", &["-fn".as_ref(), path]),
            Self::Xfs => try_run("xfs_repair", &["-n".as_ref(), path]),
            Self::Btrfs => try_run("btrfs", &["check".as_ref(), path]),
        }
        .map(|_| ())
    }

    /// Mounts a device; it replays its journal.
    pub(crate) fn mount(self, device: &Device, at: &Path) -> Result<Mount, String> {
        mount(Some(&device.path), at, Some(self.name()), MsFlags::MS_NOATIME, Some(self.options()))
            .map_err(|errno| format!("{self:?} cannot be mounted: {errno}"))?;
        Ok(Mount { kind: self, at: at.to_owned() })
    }
}

/// A block device whose contents are a file's.
///
/// One for many mounts: a device that is made for one mount (`mount -o loop`) outlives it while another thread looks for
/// a free one, and is then taken for the next mount of that file, with all that it remembers of the one before.
pub(crate) struct Device {
    path: PathBuf,
    /// The device goes with the last one who has it open, however this process ends.
    _open: fs::File,
}

impl Device {
    /// `direct`: nothing is kept in memory between the device and the file.
    pub(crate) fn over(file: &Path, direct: bool) -> Self {
        let direct = if direct { "--direct-io=on" } else { "--direct-io=off" };
        let path: PathBuf =
            run("losetup", &["-f".as_ref(), "--show".as_ref(), direct.as_ref(), file.as_os_str()]).into();
        let open = fs::File::open(&path).unwrap();
        run("losetup", &["-d".as_ref(), path.as_os_str()]);
        Self { path, _open: open }
    }

    /// Makes it hold this disk. Through the device: what is remembered of its blocks is right then, too.
    pub(crate) fn put(&self, image: &Image) {
        image.store(&fs::OpenOptions::new().write(true).open(&self.path).unwrap()).unwrap();
    }
}

/// A disk in memory, and where it is mounted: for one thread, and one image after the other.
pub(crate) struct Bench {
    kind: Kind,
    device: Device,
    dir: tempfile::TempDir,
}

impl Bench {
    /// With an empty file system.
    pub(crate) fn new(kind: Kind) -> Self {
        Self::sized(kind, kind.size())
    }

    /// With an empty file system of this size.
    pub(crate) fn sized(kind: Kind, size: u64) -> Self {
        let dir = tempfile::tempdir_in(memory()).unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        let file = dir.path().join("image");
        kind.make(&file, size);
        Self { kind, device: Device::over(&file, false), dir }
    }

    /// Does something where an image is mounted; what it leaves stays on the disk.
    pub(crate) fn with<T>(&self, image: &Image, work: impl FnOnce(&Path) -> T) -> Result<T, String> {
        self.device.put(image);
        let at = self.dir.path().join("root");
        let _mount = self.kind.mount(&self.device, &at)?;
        Ok(work(&at))
    }

    /// What is on the disk now.
    pub(crate) fn image(&self) -> Image {
        Image::load(&self.dir.path().join("image")).unwrap()
    }

    /// What the file system's own checker finds wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.kind.check(&self.dir.path().join("image"))
    }
}

/// A mounted file system; unmounted when dropped.
pub(crate) struct Mount {
    kind: Kind,
    at: PathBuf,
}

impl Drop for Mount {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        let unmounted = loop {
            match umount2(&self.at, MntFlags::empty()) {
                // A program that another thread is just starting has our files open until it runs.
                Err(Errno::EBUSY) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                unmounted => break unmounted,
            }
        };
        if self.kind == Kind::Btrfs {
            // Else the kernel takes the next disk for the same one, gone back in time.
            let _ = try_run("btrfs", &["device".as_ref(), "scan".as_ref(), "--forget".as_ref()]);
        }
        if !std::thread::panicking() {
            unmounted.unwrap();
        }
    }
}

/// Mounts of this thread, and of those that it starts, are its own from now on: they end with the test, however it ends.
pub(crate) fn private_mounts() {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
}

/// A mounted disk whose log is kept.
pub(crate) struct Recorded<M> {
    // In the order in which they must go.
    mount: Option<Mount>,
    client: Child,
    pub(crate) disk: Disk<M>,
    dir: tempfile::TempDir,
}

impl<M: Send + 'static> Recorded<M> {
    /// A disk of ours as a file (nbdfuse), that file as a device, that device mounted: its flushes become ours.
    pub(crate) fn mount(kind: Kind, image: Image) -> Self {
        let dir = tempfile::tempdir_in(memory()).unwrap();
        let (socket, folder, at) = (dir.path().join("nbd"), dir.path().join("device"), dir.path().join("root"));
        fs::create_dir(&folder).unwrap();
        fs::create_dir(&at).unwrap();
        let disk = Disk::serve(image, &socket).unwrap();
        let mut uri = OsString::from("nbd+unix:///?socket=");
        uri.push(&socket);
        // It ends with this process, however that ends: the pipe is closed then. Not as the last one in the namespace of our
        // mounts, which would have the kernel write to the disk while nobody serves it any more, for ever.
        let mut client = Command::new("sh")
            .args(["-c", "nbdfuse \"$1\" \"$2\" & read -r _; kill -9 $! 2>/dev/null; wait", "sh"])
            .args([folder.as_os_str(), &uri])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let file = folder.join("nbd");
        let until = Instant::now() + PATIENCE;
        while !file.exists() {
            assert_eq!(client.try_wait().unwrap(), None, "nbdfuse has ended");
            assert!(Instant::now() < until, "nbdfuse does not show the disk");
            std::thread::sleep(Duration::from_millis(2));
        }
        let device = Device::over(&file, true);
        let mount = Some(kind.mount(&device, &at).unwrap());
        // Its user is the mount now: it goes with it.
        drop(device);
        Self { mount, client, disk, dir }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// What was done to the disk until now; what unmounting does is no part of it.
    pub(crate) fn ended(mut self) -> Vec<Event<M>> {
        let events = self.disk.events();
        self.mount = None;
        run("umount", &[self.dir.path().join("device").as_os_str()]);
        self.client.wait().unwrap();
        let mut log = self.disk.ended().unwrap();
        log.truncate(events);
        log
    }
}

/// Where disks and mount points are: nothing waits for a real disk.
pub(crate) fn memory() -> &'static Path {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm } else { Path::new(env!("CARGO_TARGET_TMPDIR")) }
}

fn run(program: &str, arguments: &[&OsStr]) -> String {
    try_run(program, arguments).unwrap()
}

fn try_run(program: &str, arguments: &[&OsStr]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}: tests/faults/power.sh installs it"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let code = output.status;
    if code.success() { Ok(out.trim().to_owned()) } else { Err(format!("{program} {arguments:?}: {code}: {out}{err}")) }
}
