//! Contents of files, decoded once for all checks.

use super::Report;
use super::secret::{self, Secret};
use crate::render::ignition::contents::Error;
use crate::render::items::{Content, hex};
use crate::render::layer::Contents;
use crate::render::rule;
use sha2::{Digest as _, Sha512};
use std::collections::HashMap;
use std::fmt::Arguments;
use std::io::{BufRead as _, BufReader};

/// Decodes contents, each once: a source's are looked at when it is checked and again in the merged whole.
#[derive(Default)]
pub(in crate::render) struct Decoder {
    /// By place and length of the encoded text, which outlives this: cheaper than by the text itself.
    seen: HashMap<(Option<usize>, usize, bool), Result<Decoded, Error>>,
    /// Secrets are not looked for.
    is_blind: bool,
}

/// What is known of decoded contents.
#[derive(Clone)]
pub(in crate::render) struct Decoded {
    pub(in crate::render) content: Content,
    /// They hold a secret.
    pub(in crate::render) secret: Option<Secret>,
}

impl Decoder {
    /// One that looks for no secrets: of a config that is judged by its errors alone.
    pub(in crate::render) fn blind() -> Self {
        Self { is_blind: true, ..Self::default() }
    }

    pub(in crate::render) fn decode(&mut self, contents: Contents) -> &Result<Decoded, Error> {
        let text = contents.source.unwrap_or_default();
        let gzip = contents.compression == Some("gzip");
        let place = contents.source.map(|text| text.as_ptr().addr());
        self.seen.entry((place, text.len(), gzip)).or_insert_with(|| {
            let compression = contents.compression.filter(|c| !c.is_empty());
            // Without a source there is nothing to unpack, whatever `compression` says.
            let compression = compression.filter(|_| contents.source.is_some());
            if self.is_blind {
                let (content, _) = Content::read(contents.source, contents.shared, compression, Content::PART)?;
                return Ok(Decoded { content, secret: None });
            }
            let (content, head) = Content::read(contents.source, contents.shared, compression, secret::SEARCH)?;
            Ok(Decoded { content, secret: secret::find(&head) })
        })
    }
}

/// Checks the contents of one file, which stand at `field`. Their decoded size; 0 when they cannot be decoded.
pub(super) fn check(contents: Contents, field: Arguments, decoder: &mut Decoder, report: &mut Report) -> u64 {
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
