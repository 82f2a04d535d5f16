//! Contents of files, decoded once for all checks.

use super::Report;
use super::secret::{self, Secret};
use crate::render::ignition::contents::Error;
use crate::render::items::{Content, hex};
use crate::render::layer::{Contents, FileLayer};
use crate::render::rule;
use crate::spread::{MANY, processors, spread};
use sha2::{Digest as _, Sha512};
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::{self, Arguments};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{BufRead as _, BufReader};
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Decodes contents, each once: a source's are looked at when it is checked, in the merged whole, and by lints.
#[derive(Default)]
pub(in crate::render) struct Decoder<'a> {
    seen: HashMap<Key, Result<Decoded, Error>, BuildHasherDefault<PlaceHasher>>,
    /// The texts outlive this, so that no other text is at the place of one of them.
    texts: PhantomData<&'a str>,
    /// Neither secrets nor what lints look for is looked for.
    is_blind: bool,
}

/// Place and length of the encoded text, and how it is packed: cheaper than the text itself.
type Key = (usize, usize, Packing);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Packing {
    None,
    Gzip,
    /// One that is refused.
    Unknown,
}

/// For places, which nobody chooses: one multiplication spreads them well enough.
#[derive(Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2⁶⁴ by the golden ratio.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

/// What is known of decoded contents.
#[derive(Clone)]
pub(in crate::render) struct Decoded {
    pub(in crate::render) content: Content,
    /// They hold a secret.
    pub(in crate::render) secret: Option<Secret>,
    /// They are seen to end in one line end and to hold no carriage return and no `<`, as nearly all texts: lints of texts
    /// look for no more.
    pub(in crate::render) plain: bool,
}

impl fmt::Debug for Decoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({} contents)", self.seen.len())
    }
}

impl<'a> Decoder<'a> {
    /// One that looks for no secrets: of a config that is judged by its errors alone.
    pub(in crate::render) fn blind() -> Self {
        Self { is_blind: true, ..Self::default() }
    }

    pub(in crate::render) fn decode(&mut self, contents: Contents<'a>) -> &Result<Decoded, Error> {
        self.seen.entry(key(contents)).or_insert_with(|| read(contents, self.is_blind))
    }

    /// Decodes those of many files by all processors, so that [`Decoder::decode`] only looks them up. What comes out is the
    /// same. Stops when they are more than a config may have.
    pub(super) fn prepare(&mut self, files: &[FileLayer<'a>]) {
        if files.len() >= MANY {
            self.seen.extend(read_each(files, self.is_blind, processors(), Content::CONFIG_LIMIT));
        }
    }

    /// What is known of contents that were decoded already.
    pub(in crate::render) fn known(&self, contents: Contents<'a>) -> Option<&Result<Decoded, Error>> {
        self.seen.get(&key(contents))
    }
}

/// What is known of each, until they have more than `limit` bytes together.
fn read_each(files: &[FileLayer], is_blind: bool, threads: usize, limit: u64) -> Vec<(Key, Result<Decoded, Error>)> {
    let size = AtomicU64::new(0);
    let one = |file: &FileLayer| -> Result<_, Infallible> {
        Ok((size.load(Relaxed) <= limit).then(|| {
            let found = read(file.contents, is_blind);
            size.fetch_add(found.as_ref().map_or(0, |found| found.content.size()), Relaxed);
            (key(file.contents), found)
        }))
    };
    let Ok(found) = spread(files, threads, one);
    found.into_iter().flatten().collect()
}

fn read(contents: Contents, is_blind: bool) -> Result<Decoded, Error> {
    let head = if is_blind { Content::PART } else { secret::SEARCH };
    let (content, first) = Content::read(contents.source, contents.shared, compression(contents), head)?;
    if is_blind {
        return Ok(Decoded { content, secret: None, plain: false });
    }
    let is_whole = content.size() == first.len() as u64;
    Ok(Decoded { content, secret: secret::find(&first), plain: is_whole && is_plain(&first) })
}

/// Without a source there is nothing to unpack, whatever `compression` says.
fn compression(contents: Contents<'_>) -> Option<&str> {
    contents.compression.filter(|c| !c.is_empty() && contents.source.is_some())
}

fn key(contents: Contents) -> Key {
    let packing = match compression(contents) {
        None => Packing::None,
        Some("gzip") => Packing::Gzip,
        Some(_) => Packing::Unknown,
    };
    // No text is at place 0.
    let (place, length) = contents.source.map_or((0, 0), |text| (text.as_ptr().addr(), text.len()));
    (place, length, packing)
}

fn is_plain(bytes: &[u8]) -> bool {
    let ends_once = bytes.strip_suffix(b"\n").is_some_and(|rest| !rest.ends_with(b"\n"));
    ends_once && !bytes.contains(&b'\r') && !bytes.contains(&b'<')
}

/// Checks the contents of one file, which stand at `field`. Their decoded size; 0 when they cannot be decoded.
pub(super) fn check<'a>(
    contents: Contents<'a>,
    field: Arguments,
    decoder: &mut Decoder<'a>,
    report: &mut Report,
) -> u64 {
    let source_field = format_args!("{field}.source");
    if contents.compression.is_some_and(|c| !c.is_empty() && c != "gzip") {
        report.help(
            &rule::CONTENTS,
            format_args!("{field}.compression"),
            "is not gzip",
            "write compression: gzip, or remove it",
        );
        return 0;
    }
    match contents.source {
        None => return 0,
        // a slip in the indentation ends like this.
        Some("") => {
            let help = "write source: 'data:,' for an empty file";
            report.help(&rule::SOURCE, source_field, "is empty, expected a data: URL", help);
            return 0;
        }
        Some(source) if !source.starts_with("data:") => {
            let scheme = source.split_once(':').map_or("", |(scheme, _)| scheme);
            let short = scheme.len() <= 10 && scheme.chars().all(|c| c.is_ascii_alphanumeric());
            let found = if short && !scheme.is_empty() { format!("found {scheme}:, ") } else { String::new() };
            report.add(&rule::SOURCE, source_field, format!("{found}expected a data: URL; nothing is fetched"));
            return 0;
        }
        Some(_) => {}
    }
    match decoder.decode(contents) {
        Ok(found) => {
            let content = found.content.clone();
            if let Some(hash) = contents.hash {
                verify(&content, hash, field, report);
            }
            content.size()
        }
        Err(error) => {
            let (rule, part) = match error {
                Error::NotData => (&rule::SOURCE, "source"),
                Error::TooLarge { .. } => (&rule::CONTENTS_SIZE, "source"),
                Error::Malformed(_) | Error::Gzip(_) => (&rule::CONTENTS, "source"),
                Error::Compression => (&rule::CONTENTS, "compression"),
            };
            let help = match error {
                Error::Gzip(_) => "encode the output of gzip -n, or remove compression",
                _ => rule.fix,
            };
            report.help(rule, format_args!("{field}.{part}"), error.to_string(), help);
            0
        }
    }
}

/// Whether a `data:` URL that can be decoded is a URL beyond doubt. The specification's grammar of URLs is stricter than that of
/// `data:` URLs in what stands before the comma, and knows no line breaks.
pub(super) fn is_plain_url(source: &str) -> bool {
    let (header, data) = source.split_once(',').unwrap_or((source, ""));
    let is_plain = header.bytes().all(|b| b.is_ascii_graphic() && b != b'#' && b != b'"');
    is_plain && !(header.ends_with(";base64") && data.contains(['\n', '\r']))
}

/// Compares with `verification.hash`, which describes the decoded bytes. A malformed one is the specification's to refuse.
fn verify(content: &Content, hash: &str, field: Arguments, report: &mut Report) {
    let Some((function, expected)) = hash.split_once('-') else { return };
    let found = match function {
        "sha256" if expected.len() == 64 => hex(content.sha256()),
        "sha512" if expected.len() == 128 => match sha512(content) {
            Ok(digest) => digest,
            Err(_) => return,
        },
        _ => return,
    };
    if !found.eq_ignore_ascii_case(expected) {
        let message = format!("the contents have another digest: {function}-{found}");
        report.add(&rule::CONTENTS_HASH, format_args!("{field}.verification.hash"), message);
    }
}

fn sha512(content: &Content) -> Result<String, Error> {
    let mut reader = BufReader::new(content.open()?);
    let mut digest = Sha512::new();
    loop {
        let count = match reader.fill_buf().map_err(Error::of)? {
            [] => return Ok(hex(&digest.finalize())),
            part => {
                digest.update(part);
                part.len()
            }
        };
        reader.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents<'a>(source: &'a str, compression: Option<&'a str>) -> Contents<'a> {
        Contents { source: Some(source), compression, ..Contents::default() }
    }

    /// "hi", packed.
    const PACKED: &str = "data:;base64,H4sIAAAAAAACA8vIBACsKpPYAgAAAA==";

    #[test]
    fn one_text_is_decoded_anew_for_each_way_of_packing() {
        let ways = [None, Some("gzip"), Some("xz"), Some("")];
        for first in ways {
            let mut decoder = Decoder::default();
            let _ = decoder.decode(contents(PACKED, first));
            let mut size = |way| decoder.decode(contents(PACKED, way)).as_ref().ok().map(|found| found.content.size());
            assert_eq!(ways.map(&mut size), [Some(22), Some(2), None, Some(22)], "after {first:?}");
        }
    }

    fn files(texts: &[String]) -> Vec<FileLayer<'_>> {
        texts.iter().map(|text| FileLayer { contents: contents(text, None), ..FileLayer::default() }).collect()
    }

    #[test]
    fn what_threads_decode_is_what_one_would() {
        // Every seventh is refused.
        let texts: Vec<String> = (0..3 * MANY).map(|n| format!("data:,{n}{}", "%".repeat(n % 7 / 6))).collect();
        let files = files(&texts);
        let found = read_each(&files, false, 4, Content::CONFIG_LIMIT);
        assert_eq!(found.len(), files.len());
        let prepared = Decoder { seen: found.into_iter().collect(), ..Decoder::default() };
        let mut alone = Decoder::default();
        for file in &files {
            let known = prepared.known(file.contents).unwrap().clone().map(|found| found.content);
            assert_eq!(known, alone.decode(file.contents).clone().map(|found| found.content));
        }
    }

    #[test]
    fn no_more_is_decoded_ahead_than_a_config_may_have() {
        let texts: Vec<String> = (0..MANY).map(|n| format!("data:,{n:010}")).collect();
        for threads in 1..4 {
            let found = read_each(&files(&texts), true, threads, 200);
            assert!((21..21 + threads).contains(&found.len()), "{} by {threads}", found.len());
        }
    }

    #[test]
    fn texts_that_begin_at_one_place_are_told_apart() {
        let text = "data:,abc";
        let mut decoder = Decoder::default();
        for (length, size) in [(text.len(), 3), (text.len() - 1, 2), (text.len(), 3)] {
            let found = decoder.decode(contents(&text[..length], None)).as_ref().unwrap();
            assert_eq!(found.content.size(), size);
        }
        assert!(decoder.known(contents(&text[..7], None)).is_none());
    }
}
