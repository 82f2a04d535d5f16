//! How the bytes of a file are best written into `contents`: readable where the format allows it, short where not.

use crate::yaml::Form;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::io::Write as _;

/// Longest `data:` URL on one line, in bytes, of a file of one line: with its indentation it fits a terminal of 100 columns.
const ONE_LINE: usize = 80;
/// Longest file that is written out, in bytes; of a longer one nobody reads the escapes.
const WRITTEN_OUT: usize = 4 << 10;
/// Longest line of such a file, in bytes as written.
const WRITTEN_LINE: usize = 160;
/// Of so many bytes at most one may need an escape, or the text is no longer readable.
const BYTES_PER_ESCAPE: usize = 4;
/// Smallest file that is packed, in bytes: below it the packed form saves little and hides what changes.
const PACKED_FROM: usize = 4 << 10;

/// What may not stand in the data of a URL as it is; and everything that is not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The `contents` of a file with these bytes.
pub(super) fn form(bytes: &[u8]) -> Form {
    let text = std::str::from_utf8(bytes).ok().filter(|text| is_text(text));
    if let Some(url) = text.and_then(written_out) {
        return Form::Fields(vec![("source", url)]);
    }
    if let Some(packed) = packed(bytes) {
        let source = format!("data:;base64,{}", STANDARD.encode(packed));
        return Form::Fields(vec![("compression", Form::Text("gzip".to_owned())), ("source", Form::Text(source))]);
    }
    let kind = if text.is_some() { "text/plain" } else { "" };
    Form::Fields(vec![("source", Form::Text(format!("data:{kind};base64,{}", STANDARD.encode(bytes))))])
}

fn is_text(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
}

/// The percent-encoded URL, a line of it for each line of the file; none when that would not be readable.
fn written_out(text: &str) -> Option<Form> {
    if text.len() > WRITTEN_OUT {
        return None;
    }
    let lines: Vec<String> = text.split_inclusive('\n').map(|l| utf8_percent_encode(l, ESCAPED).to_string()).collect();
    let written: usize = lines.iter().map(String::len).sum();
    // Each escape is two bytes longer than what it stands for. Those at the ends of lines are in nobody's way.
    let escapes = (written.saturating_sub(text.len()) / 2).saturating_sub(text.matches('\n').count());
    if escapes * BYTES_PER_ESCAPE > text.len() || lines.iter().any(|line| line.len() > WRITTEN_LINE) {
        return None;
    }
    if lines.len() <= 1 && "data:,".len() + written <= ONE_LINE {
        return Some(Form::Text(format!("data:,{}", lines.concat())));
    }
    Some(Form::Parts(std::iter::once("data:,".to_owned()).chain(lines).collect()))
}

/// The bytes as gzip, where that takes a quarter off. The same bytes give the same gzip: it holds no time.
fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < PACKED_FROM {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    let packed = encoder.finish().ok()?;
    (packed.len() <= bytes.len() / 4 * 3).then_some(packed)
}
