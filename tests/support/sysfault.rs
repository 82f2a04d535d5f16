//! Runs a program in which one chosen system call goes wrong (`tests/faults/sysfault.c`).
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Which calls count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// Those that change a file system.
    Change,
    /// Those that look and read, too.
    Every,
}

/// What happens at the chosen call, which is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: the calls are only listed.
    None,
    /// The program and all that it has started are killed.
    Kill(usize),
    /// Only the program is: what it has started ends by itself.
    KillFirst(usize),
    /// It succeeds, as far as the program can see.
    Lie(usize),
    /// It fails.
    Error(usize, nix::errno::Errno),
    /// So do all after it.
    ErrorsFrom(usize, nix::errno::Errno),
}

/// A call that counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// As seen from the root.
    pub(crate) path: String,
    /// Of a call that makes something or sets a mode: that mode, before the umask.
    pub(crate) mode: Option<u32>,
}

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// 128 and the signal's number when a signal ended it.
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) calls: Vec<Call>,
}

/// What SIGKILL leaves behind.
pub(crate) const KILLED: i32 = 128 + 9;

/// The tool, built once; none, with a word why, where it cannot be.
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn tool() -> Option<&'static Path> {
    static TOOL: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = TOOL.get_or_init(|| {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            eprintln!("skipped: faults in system calls are made on Linux on x86-64 only");
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/sysfault.c");
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let made = dir.path().join("sysfault");
        let compiler = std::env::var("CC").unwrap_or("cc".into());
        match Command::new(&compiler).args(["-O1", "-Wall", "-Werror", "-o"]).args([&made, &source]).output() {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                eprintln!("skipped: {compiler} cannot be run ({error}), which builds tests/faults/sysfault.c");
                return None;
            }
        }
        // Other test programs may build it at the same time: each puts a whole one there.
        let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sysfault");
        fs::rename(made, &at).unwrap();
        Some(at)
    });
    built.as_deref()
}

/// A command below the tool, with the file that lists its calls.
pub(crate) fn command(tool: &Path, root: &Path, set: Set, fault: Fault, log: &Path) -> Command {
    let (what, at) = match fault {
        Fault::None => ("0".to_owned(), "0".to_owned()),
        Fault::Kill(at) => ("kill".to_owned(), at.to_string()),
        Fault::KillFirst(at) => ("kill-first".to_owned(), at.to_string()),
        Fault::Lie(at) => ("0".to_owned(), at.to_string()),
        Fault::Error(at, errno) => ((errno as i32).to_string(), at.to_string()),
        Fault::ErrorsFrom(at, errno) => ((errno as i32).to_string(), format!("{at}+")),
    };
    let set = if set == Set::Change { "change" } else { "every" };
    let mut command = Command::new(tool);
    command.arg(root).args([set, &what, &at]).arg(log);
    command
}

/// Runs `argv` to its end. The calls that count are those on what is below `root`.
pub(crate) fn run<A: AsRef<OsStr>>(tool: &Path, root: &Path, set: Set, fault: Fault, argv: &[A]) -> Ended {
    let log = tempfile::NamedTempFile::new().unwrap();
    let output = command(tool, root, set, fault, log.path()).args(argv).output().unwrap();
    // The tool ends by a signal itself only when the program hangs.
    assert_eq!(output.status.signal(), None, "{fault:?}: no end: {}", String::from_utf8_lossy(&output.stderr));
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        calls: calls(&fs::read_to_string(log.path()).unwrap(), root),
    }
}

pub(crate) fn calls(log: &str, root: &Path) -> Vec<Call> {
    log.lines().filter_map(|line| call(line, root)).collect()
}

/// One line of the log.
pub(crate) fn call(line: &str, root: &Path) -> Option<Call> {
    let (_, rest) = line.split_once(' ')?;
    let (name, path) = rest.split_once(' ')?;
    let path = path.strip_prefix(root.to_str()?)?;
    let (path, mode) = path.split_once('\t').map_or((path, None), |(path, mode)| (path, Some(mode)));
    let mode = mode.map(|mode| u32::from_str_radix(mode, 8).unwrap());
    Some(Call { name: name.to_owned(), path: if path.is_empty() { "/" } else { path }.to_owned(), mode })
}
