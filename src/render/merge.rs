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
