//! What the long-running commands share: the end by a signal, the reason of the end, times in flags.

use anyhow::Context as _;
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Kubernetes shows what stands here as the reason why a container ended.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Cancelled at the first SIGTERM or SIGINT. Must be called inside a runtime.
pub fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        // First of all: whatever becomes of the log line, the process ends.
        cancelled.cancel();
        tracing::info!("asked to stop: ending what is under way");
    });
    Ok(stop)
}

/// Leaves the reason of a failure for Kubernetes to show, and passes the result on.
pub fn last_words<T>(result: anyhow::Result<T>) -> anyhow::Result<T> {
    if let Err(error) = &result {
        leave(Path::new(TERMINATION_LOG), &format!("{error:#}"));
    }
    result
}

/// Only where a container runtime has made the file for it.
#[allow(clippy::disallowed_methods, reason = "the container's own file, not the node's")]
fn leave(path: &Path, text: &str) {
    if path.is_file() {
        // Standard error has it too: nothing is lost when this fails.
        let _ = std::fs::write(path, format!("mcx: {}\n", text.replace('\n', " ")));
    }
}

/// `500ms`, `10s`, `5m`, `1h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is no time; write it as 500ms, 10s, 5m or 1h");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let number: u64 = text[..digits].parse().map_err(|_| expected())?;
    let times = |seconds: u64| number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(expected);
    match &text[digits..] {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => times(1),
        "m" => times(60),
        "h" => times(3600),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit_and_nothing_is_guessed() {
        for (text, time) in [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(time)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "5 s", "1.5s", "1d", "99999999999999999999s", "9999999999999999999h"] {
            assert!(duration(text).unwrap_err().contains("500ms"), "{text}");
        }
    }

    #[test]
    fn last_words_go_only_where_somebody_made_a_place_for_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("termination-log");
        leave(&path, "no");
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        leave(&path, "cannot\nstart");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mcx: cannot start\n");
    }
}
