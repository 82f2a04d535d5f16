//! `data:` URLs as the reference reads them. General URL libraries differ here: they drop what follows `#`, forgive spaces and
//! bad escapes, or turn `+` into a space (R-022, L-02, L-04), so the grammar is written out.
//!
//! `data:[type/subtype](;name=value)*[;base64],data`

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use std::io::{self, BufRead, Read};

/// Why a text is no `data:` URL. Positions are byte offsets into the URL, from 0; content is never quoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("it does not begin with data:")]
    Prefix,
    #[error("there is no comma before the data")]
    Comma,
    #[error("the media type is malformed at offset {0}")]
    MediaType(usize),
    #[error("the media type must be text, image, audio, video, application, message, multipart or x-…")]
    UnknownType,
    #[error("a parameter is malformed at offset {0}")]
    Parameter(usize),
    #[error("a parameter without a value can only be ;base64, last and in lower case (offset {0})")]
    NotBase64(usize),
    #[error("the character at offset {0} must be percent-encoded")]
    Character(usize),
    #[error("the percent-encoding at offset {0} is incomplete")]
    Percent(usize),
    #[error("the base64 is malformed at offset {0}")]
    Base64(usize),
    #[error("the base64 ends without its padding")]
    Padding,
    #[error("the data is larger than {0} bytes")]
    TooLarge(u64),
}

/// Padding is required; unused bits of the last character are ignored, as in the reference.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// A URL taken apart.
struct Parts<'a> {
    base64: bool,
    data: &'a str,
    /// Where `data` begins in the URL.
    offset: usize,
}

/// Checks without decoding.
pub(super) fn check(url: &str) -> Result<(), Error> {
    let parts = parse(url)?;
    if parts.base64 { check_base64(&parts).map(|_| ()) } else { check_plain(&parts).map(|_| ()) }
}

/// The data, to be read in parts; at most `limit` bytes.
pub(super) fn open(url: &str, limit: u64) -> Result<Data<'_>, Error> {
    let parts = parse(url)?;
    let (length, coding) = if parts.base64 {
        let shape = check_base64(&parts)?;
        (shape.bytes, if shape.line_breaks { Coding::BrokenBase64 } else { Coding::Base64 })
    } else {
        (check_plain(&parts)?, Coding::Percent)
    };
    if length as u64 > limit {
        return Err(Error::TooLarge(limit));
    }
    Ok(Data { rest: parts.data.as_bytes(), coding, length, buffer: Vec::new(), at: 0 })
}

/// How data stands in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Percent,
    Base64,
    /// With line breaks in it.
    BrokenBase64,
}

/// Digits of base64 that are decoded at once: whole groups of four.
const DIGITS: usize = 8 << 10;
/// Bytes that these give.
const PART: usize = DIGITS / 4 * 3;

/// Data that was checked, decoded in parts while it is read.
pub(super) struct Data<'a> {
    /// What is not decoded yet.
    rest: &'a [u8],
    coding: Coding,
    /// Bytes of all of it.
    length: usize,
    /// The part that is decoded; read up to `at`.
    buffer: Vec<u8>,
    at: usize,
}

impl Data<'static> {
    /// Of no bytes.
    pub(super) fn empty() -> Self {
        Self { rest: &[], coding: Coding::Percent, length: 0, buffer: Vec::new(), at: 0 }
    }
}

impl Data<'_> {
    /// Bytes of all of it.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Decodes the next part.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.resize(PART.min(self.length.next_multiple_of(3)), 0);
        self.at = 0;
        let size = match self.coding {
            Coding::Percent => unescape(&mut self.rest, &mut self.buffer),
            Coding::Base64 => {
                let (digits, rest) = self.rest.split_at(self.rest.len().min(DIGITS));
                self.rest = rest;
                base64_part(digits, &mut self.buffer)?
            }
            Coding::BrokenBase64 => {
                let mut digits = Vec::with_capacity(DIGITS);
                while let Some((byte, rest)) = self.rest.split_first()
                    && digits.len() < DIGITS
                {
                    self.rest = rest;
                    if !matches!(byte, b'\n' | b'\r') {
                        digits.push(*byte);
                    }
                }
                base64_part(&digits, &mut self.buffer)?
            }
        };
        self.buffer.truncate(size);
        Ok(())
    }
}

/// Whole groups of digits.
fn base64_part(digits: &[u8], to: &mut [u8]) -> io::Result<usize> {
    // The check has seen all that can be wrong.
    BASE64.decode_slice(digits, to).map_err(|_| io::Error::other(Error::Padding))
}

impl BufRead for Data<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // Line breaks alone are no part.
        while self.at == self.buffer.len() && !self.rest.is_empty() {
            self.fill()?;
        }
        Ok(&self.buffer[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

impl Read for Data<'_> {
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(part)?;
        self.consume(count);
        Ok(count)
    }
}

fn parse(url: &str) -> Result<Parts<'_>, Error> {
    let mut at = Scanner { text: url, at: 0 };
    if !url.starts_with("data:") {
        return Err(Error::Prefix);
    }
    at.at = "data:".len();
    match at.peek() {
        None => return Err(Error::Comma),
        Some(b',' | b';') => {}
        Some(_) => media_type(&mut at)?,
    }
    let mut base64 = false;
    while at.peek() == Some(b';') {
        at.at += 1;
        base64 = parameter(&mut at)?;
        if base64 {
            break;
        }
    }
    match at.peek() {
        Some(b',') => {}
        None => return Err(Error::Comma),
        Some(_) => return Err(Error::Parameter(at.at)),
    }
    Ok(Parts { base64, data: &url[at.at + 1..], offset: at.at + 1 })
}

fn media_type(at: &mut Scanner<'_>) -> Result<(), Error> {
    const KNOWN: [&str; 7] = ["text", "image", "audio", "video", "application", "message", "multipart"];
    let name = at.token();
    if at.peek() != Some(b'/') || name.is_empty() {
        return Err(Error::MediaType(at.at));
    }
    // By prefix, as the reference does: `textual/x` passes.
    let known = KNOWN.iter().any(|known| name.starts_with(known)) || name.starts_with("x-") || name.starts_with("X-");
    if !known {
        return Err(Error::UnknownType);
    }
    at.at += 1;
    at.token();
    match at.peek() {
        Some(b',' | b';') => Ok(()),
        _ => Err(Error::MediaType(at.at)),
    }
}

/// One parameter, behind its semicolon; true for `base64`, which must stand before the comma.
fn parameter(at: &mut Scanner<'_>) -> Result<bool, Error> {
    let start = at.at;
    let name = at.token();
    if name.is_empty() {
        return Err(Error::Parameter(start));
    }
    match at.peek() {
        Some(b',') if name == "base64" => return Ok(true),
        Some(b',') => return Err(Error::NotBase64(start)),
        Some(b'=') => at.at += 1,
        _ => return Err(Error::Parameter(at.at)),
    }
    if at.peek() == Some(b'"') {
        at.at += 1;
        at.quoted()?;
    } else if at.token().is_empty() {
        return Err(Error::Parameter(at.at));
    }
    Ok(false)
}

/// Checks percent-encoded data and counts its bytes.
fn check_plain(parts: &Parts<'_>) -> Result<usize, Error> {
    let bytes = parts.data.as_bytes();
    let (mut i, mut length) = (0, 0);
    while let Some(byte) = bytes.get(i) {
        if STANDS_FOR_ITSELF[usize::from(*byte)] {
            i += 1;
        } else if *byte == b'%' {
            let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
            if !(hex(i + 1) && hex(i + 2)) {
                return Err(Error::Percent(parts.offset + i));
            }
            i += 3;
        } else {
            return Err(Error::Character(parts.offset + i));
        }
        length += 1;
    }
    Ok(length)
}

/// Bytes that need no percent-encoding. A table, since every byte of every file is looked at.
static STANDS_FOR_ITSELF: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        table[byte] = true;
        byte += 1;
    }
    let others = b"%<>#\"{}|\\^[]`";
    let mut i = 0;
    while i < others.len() {
        table[others[i] as usize] = false;
        i += 1;
    }
    table
};

/// Decodes percent-encoded data that was checked, as much as there is room for; how many bytes that is.
fn unescape(from: &mut &[u8], to: &mut [u8]) -> usize {
    let digit = |byte: Option<&u8>| match byte {
        Some(byte @ b'0'..=b'9') => byte - b'0',
        Some(byte) => (byte | 0x20).wrapping_sub(b'a').wrapping_add(10),
        None => 0,
    };
    let (data, mut at, mut size) = (*from, 0, 0);
    for byte in to {
        *byte = match data.get(at) {
            Some(b'%') => {
                at += 2;
                digit(data.get(at - 1)) << 4 | digit(data.get(at))
            }
            Some(byte) => *byte,
            None => break,
        };
        at += 1;
        size += 1;
    }
    *from = data.get(at..).unwrap_or_default();
    size
}

/// What base64 data amounts to.
struct Shape {
    bytes: usize,
    line_breaks: bool,
}

/// Checks base64 data: the standard alphabet in groups of four, padding at the end only. Line breaks are skipped (L-03).
fn check_base64(parts: &Parts<'_>) -> Result<Shape, Error> {
    let (mut digits, mut padding, mut line_breaks) = (0_usize, 0_usize, false);
    for (i, byte) in parts.data.bytes().enumerate() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => digits += 1,
            b'=' if padding < 2 && digits % 4 >= 2 && (digits + padding) % 4 != 0 => padding += 1,
            b'\n' | b'\r' => line_breaks = true,
            _ => return Err(Error::Base64(parts.offset + i)),
        }
    }
    if (digits + padding) % 4 != 0 {
        return Err(Error::Padding);
    }
    Ok(Shape { bytes: (digits + padding) / 4 * 3 - padding, line_breaks })
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The longest token (RFC 2045) from here, perhaps empty.
    fn token(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(b)).count();
        self.at += length;
        &rest[..length]
    }

    /// Behind the opening quote: up to and over the closing one.
    fn quoted(&mut self) -> Result<(), Error> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') if self.text.as_bytes().get(self.at + 1).is_some_and(u8::is_ascii) => self.at += 2,
                Some(byte) if byte.is_ascii() && byte != b'\\' => self.at += 1,
                _ => return Err(Error::Parameter(self.at)),
            }
        }
    }
}
