//! Logs of the controller and the daemon: structured, to standard error, text for people or JSON for programs.

use std::io::{self, IsTerminal as _, Write};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt, registry};

/// What the libraries below say is worth hearing only when it is a warning. That a request got no answer is told by who made
/// it, who knows whether that matters.
const DEFAULT_FILTER: &str = "info,kube=warn,kube_client=warn,kube_client::client::builder=off,kube_runtime=warn,hyper=warn,tower=warn,rustls=warn";

/// How a log line looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Flags that controller and daemon share.
#[derive(Debug, Clone, clap::Args)]
// Flattened into the Args of a command, whose group has that name already.
#[group(skip)]
pub struct Args {
    /// Form of log lines
    #[arg(long = "log-format", value_enum, default_value_t, env = "MCX_LOG_FORMAT")]
    pub format: Format,
    /// What to log: a level, or `module=level` pairs as in `RUST_LOG`
    #[arg(long = "log", value_name = "FILTER", env = "RUST_LOG")]
    pub filter: Option<String>,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter is not one.
    #[error("log filter `{filter}` is not valid: {reason}; use a level such as `debug`, or `mcx=debug,info`")]
    Filter {
        /// As given.
        filter: String,
        /// What the parser says.
        reason: String,
    },
    /// Logging is set up already.
    #[error("logging is set up already")]
    Twice,
}

/// Sends all logs of this process to standard error. Once per process.
pub fn init(args: &Args) -> Result<(), Error> {
    let filter = filter(args.filter.as_deref())?;
    // An error of the writer must not be told either: that would be a panic, when standard error is what is gone.
    let lines = fmt::layer().with_writer(|| Bereft(io::stderr())).log_internal_errors(false);
    let done = match args.format {
        Format::Text => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
            registry().with(lines.with_ansi(colour).with_filter(filter)).try_init()
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
            registry().with(lines.with_filter(filter)).try_init()
        }
    };
    done.map_err(|_| Error::Twice)
}

/// A writer whose failures count as success. While a node goes down, whoever reads a pod's standard error ends before
/// the pod does: the process must still hear its SIGTERM, so nothing may depend on a log line.
struct Bereft<W>(W);

impl<W: Write> Write for Bereft<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.0.write(bytes).unwrap_or(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

// By module and level only: filters by field would bring an engine for regular expressions of their own.
fn filter(text: Option<&str>) -> Result<Targets, Error> {
    let text = text.filter(|t| !t.trim().is_empty()).unwrap_or(DEFAULT_FILTER);
    text.parse::<Targets>().map_err(|e| Error::Filter { filter: text.to_owned(), reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_log_line_that_nobody_reads_is_no_error() {
        let mut writer = Bereft(Gone);
        assert_eq!(writer.write(b"line").unwrap(), 4);
        writer.flush().unwrap();
    }

    #[test]
    fn a_filter_that_is_none_is_refused_with_an_example() {
        assert!(filter(None).is_ok() && filter(Some("")).is_ok() && filter(Some("mcx=debug,info")).is_ok());
        let error = filter(Some("mcx=loud")).unwrap_err().to_string();
        assert!(error.contains("mcx=loud") && error.contains("`debug`"), "{error}");
    }
}
