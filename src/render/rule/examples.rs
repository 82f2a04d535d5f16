//! For each rule the smallest input that breaks it, as the reference and `mcx explain --rule` show it.
//!
//! They lie in `examples/RULE.yaml` and are run: a test gives each to the same functions as `mcx validate` and expects its
//! rule and no other.

/// What breaks a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Example {
    /// An input.
    Input(&'static str),
    /// Too large to be shown, or no text; said in words.
    Words(&'static str),
}

/// The example of a rule.
pub fn of(rule: &str) -> Option<Example> {
    let input = INPUTS.iter().find(|(id, _)| *id == rule).map(|(_, text)| Example::Input(text));
    input.or_else(|| WORDS.iter().find(|(id, _)| *id == rule).map(|(_, words)| Example::Words(words)))
}

macro_rules! inputs {
    ($($id:literal,)*) => { &[$(($id, include_str!(concat!("examples/", $id, ".yaml")))),*] };
}

/// Inputs, by rule.
static INPUTS: &[(&str, &str)] = inputs![
    "yaml",
    "not-an-object",
    "kind",
    "api-version",
    "object-name",
    "duplicate-object",
    "namespace",
    "unknown-key",
    "field-type",
    "missing-separator",
    "duplicate-key",
    "kernel-arguments",
    "ignition-version",
    "unsupported",
    "ignition",
    "duplicate-item",
    "file-path",
    "file-root",
    "file-volatile",
    "file-state",
    "file-parent",
    "file-mode",
    "file-owner",
    "mode-decimal",
    "mode-special",
    "overwrite",
    "file-empty",
    "secret-readable",
    "contents-source",
    "contents",
    "contents-hash",
    "unit-name",
    "dropin-name",
    "unit-body",
    "unit-file",
    "unit-masked",
    "unit-template",
    "user",
    "user-field",
    "key-line",
    "key-form",
    "keys-file",
    "source-number",
    "source-unselected",
    "pool-name",
    "pool-selector",
    "pool-worker",
    "pool-master",
    "no-sources",
    "policy",
    "placeholder",
    "crlf",
    "line-ends-only",
    "item-shadowed",
    "unit-syntax",
    "unit-section",
    "unit-outside-section",
    "unit-line",
    "unit-key",
    "unit-install",
    "unit-as-file",
    "dropin-unit",
    "kubelet-dropin",
    "source-order",
    "max-unavailable",
    "max-unavailable-all",
    "policy-unused",
    "policy-defaults",
    "policy-restart-off",
    "policy-reload",
];

/// Inputs that are described, by rule.
static WORDS: &[(&str, &str)] = &[
    ("ignition-hint", "no input is known for which no other rule says it better"),
    ("source-size", "a source of 300 KiB"),
    ("input-size", "a file of 33 MiB"),
    ("input-encoding", "a file that was saved as Latin-1 or UTF-16"),
    ("contents-size", "compression: gzip, and a source of 70 KiB that unpacks to 65 MiB"),
    ("rendered-size", "sources of a pool with 2 MiB of contents, as they are encoded"),
    ("rendered-near-limit", "sources of a pool with 1.3 MiB of contents, as they are encoded"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::rule::RULES;
    use std::collections::BTreeSet;

    #[test]
    fn every_rule_has_an_example_and_every_example_a_rule() {
        let rules: BTreeSet<&str> = RULES.iter().map(|r| r.id).collect();
        let examples: BTreeSet<&str> = INPUTS.iter().chain(WORDS).map(|(id, _)| *id).collect();
        assert_eq!(examples, rules);
        assert_eq!(INPUTS.len() + WORDS.len(), RULES.len(), "each has one");
    }

    #[test]
    fn an_example_can_be_read_whole() {
        for (id, text) in INPUTS {
            let lines = text.lines().count();
            assert!(lines <= 25 && text.ends_with('\n') && !text.ends_with("\n\n"), "{id}: {lines} lines");
            assert!(text.lines().all(|line| line.len() <= 100), "{id} is too wide");
        }
    }
}
