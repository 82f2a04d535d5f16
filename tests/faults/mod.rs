//! Power cuts without a machine to switch off: a disk that forgets what was not flushed.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod daemon;
pub(crate) mod image;
pub(crate) mod mounts;
pub(crate) mod nbd;
pub(crate) mod recording;
pub(crate) mod verdict;
pub(crate) mod vm;
