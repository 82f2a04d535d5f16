//! What of the disk differs from a config: one comparison for check, drift, verification and `mcx diff`.

use std::fmt;

/// Something of a managed item that is not as the config says. Printed as one line; never with content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deviation {
    /// `/etc/chrony.conf`, `chronyd.service`, `chronyd.service.d/10-x.conf`, `keys of boot`.
    pub item: String,
    /// `is missing`, `has mode 0600, expected 0644`, `has other contents (first difference in line 3)`, `is a symlink`, …
    pub what: String,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.item, self.what)
    }
}
