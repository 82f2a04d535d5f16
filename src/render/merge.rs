//! To be written by the owner of this room.

/// An item of one source that a later source replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowed {
    /// `file /etc/x`, `unit a.service`, `drop-in a.service/10-x.conf`, …
    pub item: String,
    /// Source that holds in the end.
    pub winner: String,
    /// Source whose item is hidden.
    pub loser: String,
}

/// One config on its own: its items, or its errors, one line each.
pub(super) fn single(_config: &serde_json::Value) -> (super::items::Items, Vec<String>) {
    todo!()
}
