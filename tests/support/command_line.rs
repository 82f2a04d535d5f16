//! The built binary as people and scripts call it, and what it answers.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// `mcx` with these arguments, in the root of the repository. Whether there are colours is for the test to say.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcx"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

/// What `mcx` answers with nothing on standard input.
pub(crate) fn mcx(args: &[&str]) -> Output {
    command(args).stdin(Stdio::null()).output().expect("mcx runs")
}

/// What `mcx` answers with `input` on standard input.
pub(crate) fn piped(args: &[&str], input: impl AsRef<[u8]>) -> Output {
    fed(&mut command(args), input)
}

/// What a command answers with `input` on standard input.
pub(crate) fn fed(command: &mut Command, input: impl AsRef<[u8]>) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("mcx starts");
    // It may end before it has read all, or without reading any.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_ref());
    child.wait_with_output().expect("mcx ends")
}

/// Its standard output.
pub(crate) fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

/// Its standard error.
pub(crate) fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

/// Its exit code.
pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("an end of its own")
}
