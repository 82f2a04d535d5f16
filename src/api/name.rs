//! Newtypes for names that could be swapped for one another: configs, nodes, pools, UIDs, epochs.
//!
//! They check nothing: the API server has done so by the time mcx sees them.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the text as it is.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether the text is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }
    };
}

name!(
    /// Name of a rendered config, `rendered-<pool>-<32 hex digits>`.
    ConfigName
);
name!(
    /// Name of a Node.
    NodeName
);
name!(
    /// Name of a `MachineConfigPool`.
    PoolName
);
name!(
    /// UID of an object: tells a Node from a later one of the same name.
    Uid
);
name!(
    /// A leader's mark: random, new at each election, compared for equality only.
    Epoch
);

impl ConfigName {
    /// Prefix of every rendered config's name.
    pub const PREFIX: &'static str = "rendered-";
    /// Hex digits of the hash in the name.
    pub const HASH_DIGITS: usize = 32;

    /// The pool that the config was made for; none when this is no name of a rendered config.
    pub fn pool(&self) -> Option<&str> {
        let (pool, hash) = self.0.strip_prefix(Self::PREFIX)?.rsplit_once('-')?;
        let is_hash = hash.len() == Self::HASH_DIGITS && hash.bytes().all(|b| b.is_ascii_hexdigit());
        (is_hash && !pool.is_empty()).then_some(pool)
    }
}
