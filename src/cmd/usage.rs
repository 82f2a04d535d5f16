//! The command line as people type it, where clap alone reads another one: `mcx help`, and files without their flag.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::ffi::OsString;
use std::path::Path;

/// `mcx help COMMAND…` is `mcx COMMAND… --help`. A subcommand of clap's would be one of each list of commands, too.
pub(super) fn spelled(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// `error`, with the flag for a file that was given without one.
pub(super) fn with_flag(mut error: Error, command: &Command, args: &[OsString]) -> Error {
    let words: Vec<&str> = args.iter().skip(1).filter_map(|word| word.to_str()).collect();
    if let Some(tip) = tip(&error, command, &words) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn tip(error: &Error, command: &Command, words: &[&str]) -> Option<String> {
    let (name, words) = words.split_first()?;
    let command = command.find_subcommand(name)?;
    let has = |flag: &str| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
    // Of those that are made from files, or compare them, a file is what it was taken for.
    if !has("filename") || ["new", "diff"].contains(name) {
        return None;
    }
    let takes_names = command.get_positionals().next().is_some();
    let unexpected = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => Some(word.as_str()),
        _ => None,
    };
    let is_unexpected = unexpected.filter(|word| !word.starts_with('-') && (!takes_names || is_file(word)));
    let kinds = [
        ErrorKind::UnknownArgument,
        ErrorKind::MissingRequiredArgument,
        ErrorKind::WrongNumberOfValues,
        ErrorKind::TooFewValues,
    ];
    // A file behind a flag is in its place.
    let bare = || {
        let before = std::iter::once("").chain(words.iter().copied());
        before
            .zip(words.iter().copied())
            .find(|(before, word)| !before.starts_with('-') && is_file(word))
            .map(|(_, word)| word)
    };
    let file = is_unexpected.or_else(|| if kinds.contains(&error.kind()) { bare() } else { None })?;
    Some(if has("to") {
        format!("files are given with a flag: --to {file}, or -f {file} to ask the cluster as well")
    } else {
        format!("files are given with -f: -f {file}")
    })
}

/// Whether a word names a file with objects, there or not.
fn is_file(word: &str) -> bool {
    let ending = Path::new(word).extension().and_then(|ending| ending.to_str());
    !word.starts_with('-')
        && (matches!(ending, Some("yaml" | "yml" | "json")) || (word.contains('/') && Path::new(word).is_dir()))
}
