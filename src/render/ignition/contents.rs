//! Contents of a file: `data:` URLs and gzip, decoded exactly and within bounds.

use super::data_url;
use flate2::bufread::MultiGzDecoder;
use std::io::{ErrorKind, Read as _};

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

/// The bytes of `source` (none: empty), unpacked by `compression`; at most `limit` bytes come back.
///
/// Memory is bounded by the length of `source` and `limit`, whatever the data claims: a small gzip may stand for gigabytes.
/// Several gzip members one after the other are one content; anything else behind a member is an error (as for the reference).
pub fn decode(source: Option<&str>, compression: Option<&str>, limit: u64) -> Result<Vec<u8>, Error> {
    let gzip = match compression {
        None | Some("") => false,
        Some("gzip") => true,
        Some(_) => return Err(Error::Compression),
    };
    let Some(source) = source else {
        return Ok(Vec::new());
    };
    // What is packed may be a little larger than what comes out, so its own bound is the source's length.
    let packed_limit = if gzip { u64::MAX } else { limit };
    let data = data_url::decode(source, packed_limit).map_err(|error| match error {
        data_url::Error::Prefix => Error::NotData,
        data_url::Error::TooLarge(limit) => Error::TooLarge { limit },
        error => Error::Malformed(error.to_string()),
    })?;
    if gzip { unpack(&data, limit) } else { Ok(data) }
}

fn unpack(packed: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
    let mut unpacked = Vec::new();
    let read = MultiGzDecoder::new(packed).take(limit.saturating_add(1)).read_to_end(&mut unpacked);
    if unpacked.len() as u64 > limit {
        return Err(Error::TooLarge { limit });
    }
    match read {
        Ok(_) => Ok(unpacked),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(Error::Gzip("it ends too early".to_owned())),
        Err(error) => Err(Error::Gzip(error.to_string())),
    }
}
