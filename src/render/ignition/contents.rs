//! Contents of a file: `data:` URLs and gzip, decoded exactly and within bounds.

/// Why contents cannot be decoded. Never holds content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a `data:` URL.
    #[error("only data: URLs are supported")]
    NotData,
    /// Not a well-formed `data:` URL.
    #[error("malformed data URL: {0}")]
    Malformed(String),
    /// The data is no gzip.
    #[error("malformed gzip: {0}")]
    Gzip(String),
    /// Unknown compression.
    #[error("compression must be gzip or absent")]
    Compression,
    /// Larger than the limit when decoded.
    #[error("decoded contents exceed {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
}

/// The bytes of `source` (none: empty), unpacked by `compression`; at most `limit` bytes are ever held.
pub fn decode(_source: Option<&str>, _compression: Option<&str>, _limit: u64) -> Result<Vec<u8>, Error> {
    todo!()
}
