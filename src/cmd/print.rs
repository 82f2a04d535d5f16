//! The one place that prints: a closed pipe is no error, one lock per text.

use std::io::{self, Write as _};

/// Writes to standard output. A reader that went away is fine.
pub fn out(text: &str) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes one line to standard error.
pub fn error(text: &str) {
    // Nobody is left to tell when standard error is gone.
    let _ = writeln!(anstream::stderr().lock(), "mcx: {}", text.replace('\n', " "));
}
