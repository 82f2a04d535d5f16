//! Contents of a file: `data:` URLs and gzip, decoded exactly and within bounds.

use super::data_url::{self, Data};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, ErrorKind, Read};

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

impl Error {
    /// Why a [`Reader`] could not go on.
    pub fn of(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => error,
            Err(error) => Self::Gzip(error.to_string()),
        }
    }
}

/// The bytes of contents, decoded while they are read: what is in memory at a time is a fixed amount, however many they are.
pub struct Reader<'a> {
    body: Body<'a>,
    limit: u64,
    /// Bytes that may still come.
    left: u64,
}

enum Body<'a> {
    Plain(Data<'a>),
    /// Boxed: it has a window of 32 KiB.
    Gzip(Box<MultiGzDecoder<Data<'a>>>),
}

/// Begins to read the bytes of `source` (none: empty), unpacked by `compression`; more than `limit` bytes are an error, at
/// once or when they come.
///
/// Several gzip members one after the other are one content; anything else behind a member is an error (as for the reference).
pub fn open<'a>(source: Option<&'a str>, compression: Option<&str>, limit: u64) -> Result<Reader<'a>, Error> {
    let gzip = match compression {
        None | Some("") => false,
        Some("gzip") => true,
        Some(_) => return Err(Error::Compression),
    };
    let Some(source) = source else {
        return Ok(Reader { body: Body::Plain(Data::empty()), limit, left: limit });
    };
    // What is packed may be a little larger than what comes out, so its own bound is the source's length.
    let packed_limit = if gzip { u64::MAX } else { limit };
    let data = data_url::open(source, packed_limit).map_err(|error| match error {
        data_url::Error::Prefix => Error::NotData,
        data_url::Error::TooLarge(limit) => Error::TooLarge { limit },
        error => Error::Malformed(error.to_string()),
    })?;
    let body = if gzip { Body::Gzip(Box::new(MultiGzDecoder::new(data))) } else { Body::Plain(data) };
    Ok(Reader { body, limit, left: limit })
}

impl Reader<'_> {
    /// How many bytes will come, as far as that is known.
    pub fn expected(&self) -> usize {
        match &self.body {
            Body::Plain(data) => data.length(),
            Body::Gzip(_) => 0,
        }
    }
}

impl Read for Reader<'_> {
    /// An error is an [`Error`]: see [`Error::of`].
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.body {
            Body::Plain(data) => data.read(part),
            Body::Gzip(unpacked) => unpacked.read(part),
        };
        let count = read.map_err(|error| {
            let is_cut = error.kind() == ErrorKind::UnexpectedEof;
            io::Error::other(Error::Gzip(if is_cut { "it ends too early".to_owned() } else { error.to_string() }))
        })?;
        let left = self.left.checked_sub(count as u64);
        self.left = left.ok_or_else(|| io::Error::other(Error::TooLarge { limit: self.limit }))?;
        Ok(count)
    }
}

/// All bytes at once: for who needs them all, such as a line by line difference. See [`open`].
pub fn decode(source: Option<&str>, compression: Option<&str>, limit: u64) -> Result<Vec<u8>, Error> {
    let mut reader = open(source, compression, limit)?;
    let mut bytes = Vec::with_capacity(reader.expected());
    reader.read_to_end(&mut bytes).map_err(Error::of)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write as _;

    const LIMIT: u64 = 1 << 20;

    fn plain(source: &str) -> Result<Vec<u8>, Error> {
        decode(Some(source), None, LIMIT)
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn gunzip(packed: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
        decode(Some(&format!("data:;base64,{}", STANDARD.encode(packed))), Some("gzip"), limit)
    }

    #[test]
    fn every_byte_of_a_data_url_counts() {
        // R-022, L-02, L-04: what general URL libraries drop, forgive or change.
        for (source, bytes) in [
            ("data:,", &b""[..]),
            ("data:,a+b", b"a+b"),
            ("data:,%00%ff", b"\0\xff"),
            ("data:,a,b;base64,c", b"a,b;base64,c"),
            ("data:,100%25", b"100%"),
            ("data:,?a=b&c", b"?a=b&c"),
            ("data:text/plain;charset=utf-8,x", b"x"),
            ("data:text/,x", b"x"),
            ("data:x-a/b,x", b"x"),
            ("data:;a=\"b;c\\\",d\";base64,eA==", b"x"),
            ("data:;charset=base64,eA==", b"eA=="),
            ("data:text/plain;base64,aGk=", b"hi"),
            ("data:;base64,aGl=", b"hi"),
            ("data:;base64,aG\nk\r\n=\n", b"hi"),
            ("data:;base64,", b""),
        ] {
            assert_eq!(plain(source).as_deref(), Ok(bytes), "{source}");
        }
        for source in [
            "data:",
            "data:x",
            "data:text,x",
            "data:font/woff,x",
            "data:TEXT/plain,x",
            "data:;,x",
            "data:;base64",
            "data:;BASE64,eA==",
            "data:;base64;a=b,eA==",
            "data:;a=,x",
            "data:;a=\"b,x",
            "data:;a=\"b\"c,x",
            "data:,a b",
            "data:,a#b",
            "data:,a[b",
            "data:,a]b",
            "data:,a\"b",
            "data:,{",
            "data:,a\nb",
            "data:,ü",
            "data:,\u{7f}",
            "data:,100%",
            "data:,%4",
            "data:,%zz",
            "data:;base64,aGk",
            "data:;base64,aGk%3D",
            "data:;base64,a-_k",
            "data:;base64,aG k=",
            "data:;base64,a===",
            "data:;base64,=",
            "data:;base64,aGk=aGk=",
            "data:;base64,aGk==",
        ] {
            assert!(matches!(plain(source), Err(Error::Malformed(_))), "{source}: {:?}", plain(source));
        }
        for source in ["", "DATA:,x", " data:,x", "http://h/x", "/etc/passwd"] {
            assert_eq!(plain(source), Err(Error::NotData), "{source}");
        }
    }

    #[test]
    fn a_malformed_url_says_where_and_not_what() {
        assert_eq!(
            plain("data:,s3cret#").unwrap_err().to_string(),
            "malformed data URL: the character at offset 12 must be percent-encoded"
        );
    }

    #[test]
    fn gzip_is_unpacked_whole_or_not_at_all() {
        let (one, two) = (gzip(b"one"), gzip(b"two"));
        assert_eq!(gunzip(&one, LIMIT).as_deref(), Ok(&b"one"[..]));
        assert_eq!(gunzip(&[one.clone(), two].concat(), LIMIT).as_deref(), Ok(&b"onetwo"[..]));
        for wrong in [
            [&one[..], b"x"].concat(),
            [&one[..], &[0; 16]].concat(),
            one[..one.len() - 1].to_vec(),
            one[..10].to_vec(),
            b"hello".to_vec(),
            Vec::new(),
            [&one[..one.len() - 5], &[one[one.len() - 5] ^ 1], &one[one.len() - 4..]].concat(),
        ] {
            assert!(matches!(gunzip(&wrong, LIMIT), Err(Error::Gzip(_))), "{wrong:?}");
        }
        assert_eq!(decode(None, Some("gzip"), LIMIT), Ok(Vec::new()));
        assert_eq!(decode(Some("data:,hi"), Some(""), LIMIT).as_deref(), Ok(&b"hi"[..]));
        for unknown in ["xz", "GZIP", "gzip "] {
            assert_eq!(decode(Some("data:,hi"), Some(unknown), LIMIT), Err(Error::Compression));
        }
    }

    #[test]
    fn no_more_than_the_limit_is_unpacked() {
        let bomb = gzip(&vec![0; 40 << 20]);
        assert!(bomb.len() < 64 << 10);
        assert_eq!(gunzip(&bomb, LIMIT), Err(Error::TooLarge { limit: LIMIT }));
        // Hundreds of members, a few kilobytes each: gigabytes in all.
        assert_eq!(gunzip(&bomb.repeat(100), LIMIT), Err(Error::TooLarge { limit: LIMIT }));
        assert_eq!(gunzip(&gzip(b"12345"), 5).as_deref(), Ok(&b"12345"[..]));
        assert_eq!(gunzip(&gzip(b"123456"), 5), Err(Error::TooLarge { limit: 5 }));
        assert_eq!(decode(Some("data:,12345"), None, 5).as_deref(), Ok(&b"12345"[..]));
        assert_eq!(decode(Some("data:,1234%35"), None, 4), Err(Error::TooLarge { limit: 4 }));
        assert_eq!(decode(Some("data:;base64,MTIzNDU="), None, 4), Err(Error::TooLarge { limit: 4 }));
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let escaped: String = data.iter().fold(String::new(), |to, byte| to + &format!("%{byte:02X}"));
            let encoded = STANDARD.encode(&data);
            prop_assert_eq!(plain(&format!("data:,{escaped}")), Ok(data.clone()));
            let unknown_type = plain(&format!("data:a/b;base64,{encoded}"));
            prop_assert!(unknown_type.is_err());
            prop_assert_eq!(plain(&format!("data:text/b;base64,{encoded}")), Ok(data.clone()));
            prop_assert_eq!(gunzip(&gzip(&data), LIMIT), Ok(data));
        }

        #[test]
        fn no_source_makes_decoding_panic(
            source in ".{0,40}",
            odd in "data:[a-z/;=\",%+\\\\# ]{0,20}",
            data in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let _ = plain(&source);
            let _ = decode(Some(&odd), Some("gzip"), 10);
            let _ = gunzip(&data, 10);
            let _ = gunzip(&[&[0x1f, 0x8b, 8, 0][..], &data].concat(), 10);
        }

        #[test]
        fn what_validates_decodes(odd in "data:(text/x)?(;a=[a\"]{1,3}|;base64){0,2},[a-zA-Z0-9+/=% \n]{0,12}") {
            prop_assert_eq!(super::super::data_url::check(&odd).is_ok(), plain(&odd).is_ok(), "{}", odd);
        }
    }
}
