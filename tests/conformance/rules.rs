//! The rules by which mcx differs from the reference on purpose. The reason of each is in
//! `docs/decisions/0010-where-mcx-differs-from-the-reference.md`, under the same words.

/// Types and versions.
pub(crate) const NAMES_FIELDS: &str = "type and version errors name their field, all of them, not the document";
/// The reference's JSON reader.
pub(crate) const CASE: &str = "a key in other letter case is an unknown key, and its value is not used";
pub(crate) const LAST_WINS: &str = "of a repeated key in JSON text the last one counts, as a whole";
pub(crate) const NULL_ITEM: &str = "null is no item of a list";
/// YAML.
pub(crate) const SLASH_ESCAPE: &str = "the YAML escape \\/ is read";
pub(crate) const LINE_BREAKS: &str = "raw U+0085, U+2028 and U+2029 in YAML are refused";
/// Rendering.
pub(crate) const ONLY_3_4_0: &str = "only Ignition 3.4.0 is read";
pub(crate) const EMPTY_CONFIG: &str = "an empty config is none";
pub(crate) const PLAIN_ORDER: &str = "sources are laid over each other in the order of their names alone";
pub(crate) const NO_SOURCES: &str = "no source at all is an error of the pool";
pub(crate) const LABELS: &str = "labels only decide which pool selects a source";
pub(crate) const WHOLE_CONTENTS: &str = "contents are replaced as a whole";
pub(crate) const OVERWRITE: &str = "overwrite is always true in the rendered config";
pub(crate) const SPECIAL_BITS: &str = "setuid, setgid and sticky bits are applied";
pub(crate) const DECODED: &str = "contents are decoded and compared with their hash before any node has them";
pub(crate) const ONE_CONFIG: &str = "the merged result is checked as one config";
pub(crate) const APPLICABLE: &str = "what a node could not carry out is refused";
/// Change sets.
pub(crate) const MEANING: &str = "changes are by meaning";
pub(crate) const OWNERS: &str = "owners are compared";
pub(crate) const ABSOLUTE: &str = "a config is judged by itself, not by what was there before";
pub(crate) const ACTIONS: &str = "actions come in the policy's order, each once";
pub(crate) const DAEMON_RELOAD: &str = "written unit files are read by systemd, whatever the policy says";
pub(crate) const ROOT_ENTRY: &str = "an entry for / applies to all files";
pub(crate) const CLEAN_ENTRY: &str = "a policy with a path that is not clean is refused";

/// All of them.
pub(crate) const ALL: [&str; 24] = [
    NAMES_FIELDS,
    CASE,
    LAST_WINS,
    NULL_ITEM,
    SLASH_ESCAPE,
    LINE_BREAKS,
    ONLY_3_4_0,
    EMPTY_CONFIG,
    PLAIN_ORDER,
    NO_SOURCES,
    LABELS,
    WHOLE_CONTENTS,
    OVERWRITE,
    SPECIAL_BITS,
    DECODED,
    ONE_CONFIG,
    APPLICABLE,
    MEANING,
    OWNERS,
    ABSOLUTE,
    ACTIONS,
    DAEMON_RELOAD,
    ROOT_ENTRY,
    CLEAN_ENTRY,
];
