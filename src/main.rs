//! Parses the command line and runs the command; everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcx::cmd::run(mcx::cmd::parse())
}
