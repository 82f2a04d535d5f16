//! Commands in the node's root: argv only, a clean environment, no shell, no input, an end.

use super::{Error, Output};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::CString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::task::JoinHandle;

/// Most bytes of standard output that are kept.
const STDOUT_LIMIT: usize = 1 << 20;
/// Bytes of standard error that are kept: the last ones say why.
const STDERR_LIMIT: usize = 1 << 10;
/// How long output is read after the command has ended: something it left behind may hold the pipes for ever.
const AFTERGLOW: Duration = Duration::from_millis(500);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs `argv`, called `shown` in messages.
pub(super) async fn run(argv: &[&str], shown: &[&str], limit: Duration) -> Result<Output, Error> {
    let command = shown.join(" ");
    let failed = |detail: String| Error::Command { command: command.clone(), detail };
    let Some((program, rest)) = argv.split_first() else { return Err(failed("no command".into())) };
    tracing::debug!(%command, "run");
    let mut child = Command::new(program)
        .args(rest)
        .env_clear()
        .env("PATH", PATH)
        .env("LANG", "C.UTF-8")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut group = Group::of(&child);
    let stdout = child.stdout.take().map(|pipe| Kept::read(pipe, STDOUT_LIMIT, false));
    let stderr = child.stderr.take().map(|pipe| Kept::read(pipe, STDERR_LIMIT, true));
    let Ok(status) = tokio::time::timeout(limit, child.wait()).await else {
        group.kill();
        // A killed process ends at once, unless it hangs in the kernel: then it is left to its end.
        let _ = tokio::time::timeout(AFTERGLOW, child.wait()).await;
        return Err(failed(format!("no end within {} s, killed", limit.as_secs_f32())));
    };
    let status = status.map_err(|error| failed(error.to_string()))?;
    group.0 = None;
    let stdout = Kept::text(stdout).await;
    let stderr = Kept::text(stderr).await;
    let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(Output { status, stdout, stderr })
}

/// The process group of a running command: killed as a whole when it takes too long or nobody waits any more.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &tokio::process::Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    fn kill(&mut self) {
        if let Some(pid) = self.0.take() {
            // It may have ended just now.
            let _ = killpg(pid, Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What is kept of a pipe while it is read to its end.
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl Kept {
    /// Keeps the first `limit` bytes, or the last ones.
    fn read(mut pipe: impl AsyncRead + Send + Unpin + 'static, limit: usize, last: bool) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let task = tokio::spawn(async move {
            let mut part = vec![0; 8 << 10];
            while let Ok(count @ 1..) = pipe.read(&mut part).await {
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&part[..count]);
                let over = kept.len().saturating_sub(limit);
                if last {
                    kept.drain(..over);
                } else {
                    kept.truncate(limit);
                }
            }
        });
        Self { bytes, task }
    }

    async fn text(this: Option<Self>) -> String {
        let Some(mut kept) = this else { return String::new() };
        if tokio::time::timeout(AFTERGLOW, &mut kept.task).await.is_err() {
            kept.task.abort();
        }
        let bytes = kept.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Makes `root` this process's root and becomes `argv` there. Comes back only with what went wrong.
///
/// For a process of one thread that does nothing else: `mcx host-exec`. The daemon itself never changes its root.
pub fn enter(root: &Path, argv: &[String]) -> std::io::Error {
    let words: Result<Vec<CString>, _> = argv.iter().map(|word| CString::new(word.as_str())).collect();
    let Ok(words) = words else { return std::io::Error::other("an argument holds a NUL") };
    let Some(program) = words.first() else { return std::io::Error::other("no command") };
    let entered = nix::unistd::chroot(root).and_then(|()| nix::unistd::chdir("/"));
    match entered.and_then(|()| nix::unistd::execvp(program, &words)) {
        Ok(never) => match never {},
        Err(errno) => errno.into(),
    }
}
