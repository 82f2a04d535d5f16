//! The form of a state file: one line of JSON that says what it is, one that is it. Pure.
//!
//! A damaged file must never be taken for an absent one, and an older mcx must not guess what a newer one
//! wrote: the first line carries the kind, the version of the form, and the digest of the second.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The version that is written; older ones are read, newer ones refused.
pub(super) const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Header {
    mcx: String,
    version: u32,
    sha256: String,
}

/// Why a state file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("is damaged ({0})")]
    Damaged(String),
    #[error("was written by a newer mcx (form {0}, this one knows {VERSION}); run that version on this node")]
    Newer(u32),
}

/// The bytes of a state file.
pub(super) fn encode<T: Serialize>(kind: &str, value: &T) -> serde_json::Result<Vec<u8>> {
    let body = serde_json::to_vec(value)?;
    let mut bytes =
        serde_json::to_vec(&Header { mcx: kind.to_owned(), version: VERSION, sha256: hex(&Sha256::digest(&body)) })?;
    bytes.push(b'\n');
    bytes.extend_from_slice(&body);
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads what [`encode`] wrote.
pub(super) fn decode<T: DeserializeOwned>(kind: &str, bytes: &[u8]) -> Result<T, Damage> {
    let damaged = |why: &str| Damage::Damaged(why.to_owned());
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged("cut off"))?;
    let (head, body) = (&bytes[..end], &bytes[end + 1..]);
    let header: Header = serde_json::from_slice(head).map_err(|_| damaged("its first line cannot be read"))?;
    if header.version > VERSION {
        return Err(Damage::Newer(header.version));
    }
    let body = body.strip_suffix(b"\n").ok_or_else(|| damaged("cut off"))?;
    if header.mcx != kind {
        return Err(damaged("it is another kind of file"));
    }
    if hex(&Sha256::digest(body)) != header.sha256 {
        return Err(damaged("its checksum differs"));
    }
    // Position only: the body holds contents of files.
    serde_json::from_slice(body).map_err(|error| Damage::Damaged(format!("unreadable at column {}", error.column())))
}

/// Lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What [`hex`] wrote.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        encode("current", &vec!["a".to_owned(), "b\nc".to_owned()]).unwrap()
    }

    #[test]
    fn r101_every_prefix_and_every_flipped_bit_is_noticed() {
        let whole = sample();
        assert_eq!(decode::<Vec<String>>("current", &whole).unwrap(), ["a", "b\nc"]);
        for end in 0..whole.len() {
            assert!(decode::<Vec<String>>("current", &whole[..end]).is_err(), "cut at {end}");
        }
        for at in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            if let Ok(read) = decode::<Vec<String>>("current", &flipped) {
                // A flip in the header that changes nothing: an older version, or a digit's case.
                assert_eq!(read, ["a", "b\nc"], "bit {at}");
            }
        }
        assert!(decode::<Vec<String>>("journal", &whole).is_err());
        assert!(decode::<Vec<String>>("current", &vec![0; whole.len()]).is_err());
    }

    #[test]
    fn a_newer_form_is_refused_and_called_so() {
        let text = String::from_utf8(sample()).unwrap().replace("\"version\":1", "\"version\":2");
        let refused = decode::<Vec<String>>("current", text.as_bytes()).unwrap_err();
        assert_eq!(refused, Damage::Newer(2));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<serde_json::Value>("current", &bytes);
        }

        #[test]
        fn hex_goes_there_and_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        }
    }
}
