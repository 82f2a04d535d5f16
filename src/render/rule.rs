//! The rules of validation: one table. Ids are stable: people silence, search and document by them.
//!
//! What breaks each of them is in [`examples`]. What a rule looks at is in `validate`, `load`, `merge` and `size`; here is what it means and what to do.

pub mod examples;

use super::finding::{Finding, Severity};
use examples::Example;
use std::fmt::Write as _;

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// Stable id, in kebab-case.
    pub id: &'static str,
    /// Whether it refuses.
    pub severity: Severity,
    /// What it says, one sentence.
    pub meaning: &'static str,
    /// What to do, as help of its findings unless they know better.
    pub fix: &'static str,
}

macro_rules! rules {
    ($($name:ident = $severity:ident $id:literal: $meaning:literal, $fix:literal;)*) => {
        $(
            #[doc = $meaning]
            pub static $name: Rule =
                Rule { id: $id, severity: Severity::$severity, meaning: $meaning, fix: $fix };
        )*
        /// All rules, in the order in which a document is read.
        pub static RULES: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    // The text.
    INPUT_SIZE = Error "input-size": "An input is larger than 32 MiB.", "split it into files";
    INPUT_ENCODING = Error "input-encoding": "An input is not UTF-8 text.", "save it as UTF-8";
    YAML = Error "yaml": "A text is not YAML or JSON.", "correct the syntax";
    NOT_AN_OBJECT = Error "not-an-object": "A document is no Kubernetes object.", "give it apiVersion, kind and metadata";
    KIND = Error "kind": "An object's group is ours, its kind is not.",
        "use MachineConfig, MachineConfigPool or MachineConfiguration";
    API_VERSION = Error "api-version": "An object's kind is ours, its apiVersion is not.",
        "write machineconfiguration.alauda.io/v1alpha1";
    OBJECT_NAME = Error "object-name": "An object has no name, or one that Kubernetes refuses.",
        "name it with lower-case letters, digits, dashes and dots";
    DUPLICATE_OBJECT = Error "duplicate-object": "Two objects of one kind have the same name.", "keep one";
    NAMESPACE = Warning "namespace": "An object has a namespace; all three kinds are cluster-wide, and it is ignored.",
        "remove it";
    UNKNOWN_KEY = Error "unknown-key": "A key is not known at its place and would be ignored.", "remove it";
    FIELD_TYPE = Error "field-type": "A value has the wrong type.", "correct the type";
    SEPARATOR = Error "missing-separator": "A second object begins in the middle of a document: the first would be lost, as with kubectl.",
        "put a line --- between the two";
    DUPLICATE_KEY = Warning "duplicate-key": "A key is there twice; the last one counts, as for kubectl.", "keep one";

    // The config as a whole.
    KERNEL_ARGUMENTS = Error "kernel-arguments": "spec.kernelArguments is not served yet.", "remove the arguments";
    IGNITION_VERSION = Error "ignition-version": "Only Ignition 3.4.0 is read.", "write version: 3.4.0";
    UNSUPPORTED = Error "unsupported": "A section of Ignition that mcx does not apply is used.", "remove it";
    IGNITION = Error "ignition": "A rule of the Ignition specification is broken.", "see the Ignition 3.4.0 specification";
    IGNITION_HINT = Warning "ignition-hint": "The Ignition specification warns of this.", "";
    DUPLICATE_ITEM = Error "duplicate-item": "One source names an item twice.", "keep one";

    // Files.
    FILE_PATH = Error "file-path": "A path is not absolute and clean, or holds control characters.",
        "write an absolute path without //, ., .. and a / at its end";
    FILE_ROOT = Error "file-root": "A file would lie directly in /.", "put it into a directory such as /etc";
    FILE_VOLATILE = Error "file-volatile": "A path is on a file system that is empty after each boot.",
        "use a lasting path; for /run and /tmp write a tmpfiles.d entry into /etc/tmpfiles.d";
    FILE_STATE = Error "file-state": "A path belongs to mcx itself.", "use another path";
    FILE_PARENT = Error "file-parent": "A path lies below another path that is a file.", "move one of the two";
    FILE_MODE = Error "file-mode": "A mode is outside 0 to 0o7777.", "write permission bits in octal, such as 0o644";
    FILE_OWNER = Error "file-owner": "An owner is no valid id or name, or both are given.",
        "give either id (0 to 4294967294) or name";
    MODE_DECIMAL = Warning "mode-decimal": "A mode looks like octal and is decimal.", "write it with 0o in front";
    MODE_SPECIAL = Warning "mode-special": "A mode has the setuid, setgid or sticky bit.",
        "make sure that it is meant";
    OVERWRITE = Warning "overwrite": "overwrite: false is not obeyed: mcx replaces what is there, and gives it back on withdrawal.",
        "remove it";
    FILE_EMPTY = Warning "file-empty": "A file has no contents in any source and will be empty.",
        "write source: 'data:,' if that is meant";
    SECRET_READABLE = Warning "secret-readable": "A private key, token or password lies where everybody on the node may read it.",
        "set mode: 0o600; sources are readable in the cluster, too";
    PLACEHOLDER = Warning "placeholder": "A placeholder in angle brackets is left from an example.",
        "put the real value in its place, without the brackets";
    CRLF = Warning "crlf": "The lines of a text end in CR LF: programs on a node take the CR for a part of the line.",
        "save it with LF line ends, for example with dos2unix";
    LINE_ENDS_ONLY = Warning "line-ends-only": "Two sources bring the same text, with other line ends or another end of the file.",
        "make both texts equal, or keep one";
    ITEM_SHADOWED = Warning "item-shadowed": "A later source of the same pool replaces an item of an earlier one; not said of a custom pool's own source over one of worker, which is what custom pools are for.",
        "remove the one that is not wanted; the source whose name sorts last wins";

    // Contents.
    SOURCE = Error "contents-source": "Contents are not a data: URL.", "put the content into the config as a data: URL";
    CONTENTS = Error "contents": "Contents cannot be decoded.", "encode them anew, for example with base64 -w0";
    CONTENTS_SIZE = Error "contents-size": "Contents are larger than 64 MiB a file or 1 GiB a config, decoded.",
        "bring large files onto nodes in another way";
    CONTENTS_HASH = Error "contents-hash": "Contents do not have the digest that verification.hash gives.",
        "correct the contents or the hash";

    // Units.
    UNIT_NAME = Error "unit-name": "A unit's name is not one that systemd reads.", "write NAME.service or another kind";
    DROPIN_NAME = Error "dropin-name": "A drop-in's name is not one that systemd reads.", "write NAME.conf";
    UNIT_BODY = Error "unit-body": "A unit's text holds a NUL character.", "remove it";
    UNIT_FILE = Error "unit-file": "A file and a unit of one config write the same path.",
        "keep the unit and remove the file";
    UNIT_MASKED = Error "unit-masked": "A unit is to be enabled and masked: systemd can only do one.",
        "set enabled: false beside mask: true";
    UNIT_TEMPLATE = Error "unit-template": "A template is to be enabled without an instance, and has no `DefaultInstance`.",
        "enable an instance, NAME@INSTANCE.service, or write DefaultInstance= into [Install]";
    UNIT_SYNTAX = Error "unit-syntax": "A unit's text breaks the syntax of unit files, so that it would not be read to its end.",
        "correct the line; sections are [Name], all else is Name=Value or begins with #";
    UNIT_SECTION = Warning "unit-section": "A section is none of this kind of unit: systemd ignores all that is in it.",
        "write [Unit], [Install] or the section of the kind, such as [Service]; what is for others begins with X-";
    UNIT_OUTSIDE = Warning "unit-outside-section": "A line of a unit stands before any section: systemd ignores it.",
        "put a section such as [Unit] or [Service] above it";
    UNIT_LINE = Warning "unit-line": "A line of a unit is neither a section nor Name=Value: systemd ignores it.",
        "write Name=Value; put # before a comment, and a backslash at the end of a line that goes on";
    UNIT_KEY = Warning "unit-key": "A key of a unit stands in a section that does not have it: systemd ignores it.",
        "move it to the section that has it";
    UNIT_INSTALL = Warning "unit-install": "A unit is to be enabled and has no `[Install]`: enabling it does nothing.",
        "add [Install] with WantedBy=multi-user.target to its contents, or remove enabled";

    UNIT_AS_FILE = Warning "unit-as-file": "A unit or drop-in is brought as a plain file: a change of it costs what one of a file costs, by default nothing, so that what runs does not take it up.",
        "write it under systemd.units";
    DROPIN_UNIT = Warning "dropin-unit": "A drop-in belongs to a unit that no source defines and that is no well-known unit of an operating system.",
        "check the unit's name; nothing is wrong if the nodes' operating system brings it";
    KUBELET_DROPIN = Warning "kubelet-dropin": "A drop-in of kubelet.service is not numbered 10 to 49, the range for those of MachineConfigs.",
        "name it NN-NAME.conf with NN from 10 to 49";

    // Keys.
    USER = Error "user": "A user other than boot is configured.", "only the SSH keys of boot are managed; remove the user";
    USER_FIELD = Error "user-field": "A field of user boot other than its SSH keys is configured.",
        "remove it; mcx creates and changes no users";
    KEY_LINE = Error "key-line": "An SSH key is not exactly one line of text.", "write each key as its own list item";
    KEY_FORM = Warning "key-form": "An SSH key is not one that sshd reads: the line will be ignored.",
        "paste the line of the .pub file";
    KEYS_FILE = Error "keys-file": "A file and the SSH keys of one config write the same path.",
        "keep the keys in passwd.users and remove the file";

    // Sources and pools.
    SOURCE_NUMBER = Warning "source-number": "A source's name does not begin with a number, and names decide the order.",
        "begin the name with two digits, such as 50-";
    SOURCE_UNSELECTED = Warning "source-unselected": "No pool selects a source.",
        "label it with machineconfiguration.alauda.io/role: worker or another pool's role";
    SOURCE_ORDER = Warning "source-order": "A source's name sorts where its number or pool would not have it: names are compared byte by byte.",
        "write all numbers with two digits";
    SOURCE_SIZE = Warning "source-size": "A source is too large for `kubectl apply`, which keeps a copy of it in an annotation of at most 256 KiB.",
        "use kubectl apply --server-side, or split the source";
    POOL_NAME = Error "pool-name": "A pool's name is too long for the labels and names made from it.",
        "use a name of at most 63 letters, digits, dashes and dots";
    POOL_SELECTOR = Error "pool-selector": "A label selector of a pool cannot be read.", "correct the selector";
    POOL_WORKER = Error "pool-worker": "A custom pool does not take the sources of worker.",
        "let machineConfigSelector match machineconfiguration.alauda.io/role In [worker, POOL]";
    POOL_MASTER = Error "pool-master": "A custom pool asks for control-plane nodes.",
        "use the pool master for them";
    NO_SOURCES = Error "no-sources": "A pool selects no source at all.",
        "correct machineConfigSelector or the labels of the sources";
    MAX_UNAVAILABLE = Error "max-unavailable": "A pool's maxUnavailable is no limit: no node of the pool is given a new config.",
        "write a number of nodes, or a percentage such as \"20%\"";
    MAX_UNAVAILABLE_ALL = Warning "max-unavailable-all": "A pool's maxUnavailable lets all its nodes be unavailable at once.",
        "write less than the number of nodes, or less than 100%";
    POLICY = Error "policy": "A node disruption policy cannot be put into effect.", "correct the field";
    POLICY_UNUSED = Warning "policy-unused": "An entry of a policy applies to nothing that any source brings.",
        "correct the path or name, or remove the entry";
    POLICY_DEFAULTS = Warning "policy-defaults": "A policy replaces the shipped default for units, Reboot, by nothing: changed units do not take effect until something restarts them.",
        "add units with type: Reboot to the defaults, or an entry for each unit";
    POLICY_OFF = Warning "policy-restart-off": "A policy restarts or reloads a unit that the same pool disables or masks.",
        "remove the action, or enable the unit";
    POLICY_RELOAD = Warning "policy-reload": "A policy reloads a unit whose text has no `ExecReload`: the reload fails.",
        "use Restart, or add ExecReload= to [Service]";
    RENDERED_SIZE = Error "rendered-size": "A rendered config is too large for the API server.",
        "compress contents with gzip, or bring large files onto nodes in another way";
    RENDERED_NEAR = Warning "rendered-near-limit": "A rendered config is near the limit of the API server.",
        "compress contents with gzip";
}

impl Rule {
    /// A finding of this rule.
    pub fn finding(&'static self, object: &str, path: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding {
            severity: self.severity,
            rule: self.id,
            object: object.to_owned(),
            path: path.into(),
            file: None,
            line: None,
            column: None,
            message: message.into(),
            help: self.fix.to_owned(),
        }
    }
}

impl Rule {
    /// What `mcx explain --rule` prints and the reference holds: id, severity, meaning, what breaks it, and what to do.
    pub fn page(&self) -> String {
        let mut page = format!("{} ({})\n\n{}\n", self.id, self.severity, self.meaning);
        // Writing to a String does not fail.
        match examples::of(self.id) {
            Some(Example::Words(words)) => {
                let _ = write!(page, "\nExample: {words}.\n");
            }
            Some(Example::Input(text)) => {
                page.push_str("\nExample:\n\n");
                for line in text.lines() {
                    let _ = writeln!(page, "    {line}");
                }
            }
            None => {}
        }
        if !self.fix.is_empty() {
            let _ = write!(page, "\nFix: {}.\n", self.fix);
        }
        page
    }
}

/// The rule of this id.
pub fn by_id(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.id == id).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_rule_has_its_own_id_in_kebab_case() {
        let ids: BTreeSet<&str> = RULES.iter().map(|r| r.id).collect();
        assert_eq!(ids.len(), RULES.len());
        for rule in RULES {
            assert!(rule.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.id);
            assert!(rule.meaning.ends_with('.') && !rule.meaning.contains('\n'), "{}", rule.id);
            assert!(!rule.fix.ends_with('.') && !rule.fix.contains('\n'), "{}", rule.id);
            assert_eq!(by_id(rule.id).map(|r| r.id), Some(rule.id));
        }
    }

    #[test]
    fn a_page_says_what_breaks_the_rule_and_what_to_do() {
        assert_eq!(
            FILE_EMPTY.page(),
            "file-empty (warning)\n\n\
             A file has no contents in any source and will be empty.\n\n\
             Example:\n\n    \
             apiVersion: machineconfiguration.alauda.io/v1alpha1\n    \
             kind: MachineConfig\n    \
             metadata:\n      \
             name: 99-worker-example\n      \
             labels:\n        \
             machineconfiguration.alauda.io/role: worker\n    \
             spec:\n      \
             config:\n        \
             ignition:\n          \
             version: 3.4.0\n        \
             storage:\n          \
             files:\n            \
             - path: /etc/example.conf\n              \
             mode: 0o644\n\n\
             Fix: write source: 'data:,' if that is meant.\n"
        );
        assert_eq!(
            INPUT_SIZE.page(),
            "input-size (error)\n\nAn input is larger than 32 MiB.\n\nExample: a file of 33 MiB.\n\nFix: split it into files.\n"
        );
    }
}
