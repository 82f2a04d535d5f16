//! What of the disk differs from a config: one comparison for check, drift, verification and `mcx diff`.
//!
//! Nothing is followed: a symlink in a file's place is a finding of its own (G-03). Files are read in parts and compared
//! by digest; the expected bytes are unpacked only to say where they differ.

use super::host::{Accounts, Error, Kind, Root, Seen, is_blocked};
use super::layout::{Bytes, FileWant, Id, Layout, Managed, RUNTIME_UNIT_DIR, Sort, Want};
use super::units;
use crate::spread::{processors, spread};
use sha2::{Digest as _, Sha256};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

/// Bytes that are looked at at once.
const PART: usize = 64 << 10;
/// More threads would only wait for the disk, and each costs memory.
const THREAD_LIMIT: usize = 4;
/// Bytes beyond what is expected that are looked at for whether they are only blanks: the file may be endless.
const BLANK_LIMIT: usize = 64 << 10;

/// Something of a managed item that is not as the config says. Printed as one line; never with content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deviation {
    /// `/etc/chrony.conf`, `chronyd.service`, `chronyd.service.d/10-x.conf`, `keys of boot`.
    pub item: String,
    /// `is missing`, `has mode 0600, expected 0644`, `has other contents (first difference in line 3)`, `is a symlink`, …
    pub what: String,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.item, self.what)
    }
}

/// All deviations of the paths of a layout, in order.
pub(super) fn places(root: &Root, layout: &Layout, accounts: &Accounts) -> Result<Vec<Deviation>, Error> {
    let all: Vec<(&String, &Managed)> = layout.places.iter().collect();
    let threads = processors().min(THREAD_LIMIT);
    let found = spread(&all, threads, |(path, managed)| {
        let mut found = place(root, path, managed, accounts)?;
        let what = rival(root, layout, path)?;
        found.extend(what.map(|what| Deviation { item: managed.item.clone(), what }));
        Ok::<_, Error>(found)
    })?;
    let mut found: Vec<Deviation> = found.into_iter().flatten().collect();
    for (unit, _) in layout.units.iter().filter(|(_, unit)| unit.mask == Some(false)) {
        if has_runtime_mask(root, unit)? {
            found.push(Deviation {
                item: unit.clone(),
                what: "is masked until the next boot, expected not masked".into(),
            });
        }
    }
    found.extend(layout.unplaced.iter().cloned());
    found.sort();
    Ok(found)
}

/// What stands elsewhere and makes what the config says of `path` untrue: systemd takes a unit or drop-in from the first of
/// its folders that has one of that name, and the SSH server reads two key files.
pub(super) fn rival(root: &Root, layout: &Layout, path: &str) -> Result<Option<String>, Error> {
    for rival in layout.rivals(path) {
        let seen = match root.seen(&rival) {
            // The place itself is behind it too, and says so.
            Err(error) if is_blocked(&error) => continue,
            seen => seen.map_err(Error::file("look at", &rival))?,
        };
        let is_keys = layout.places.get(path).is_some_and(|managed| managed.sort == Sort::Keys);
        match seen.kind {
            Kind::File if is_keys && seen.size == 0 => {}
            Kind::File | Kind::Link(_) if is_keys => {
                return Ok(Some(format!("are not all: the SSH server reads {rival} too")));
            }
            Kind::File | Kind::Link(_) if !is_keys => return Ok(Some(format!("is hidden by {rival}"))),
            _ => {}
        }
    }
    Ok(None)
}

/// Whether what stands at `path` is what is wanted there.
pub(super) fn is_as_wanted(root: &Root, path: &str, want: &Want) -> Result<bool, Error> {
    Found::new(root, path, root.seen(path).map_err(Error::file("look at", path))?).is(want)
}

/// What was seen at a path; its bytes are read once, however often it is compared.
pub(super) struct Found<'a> {
    root: &'a Root,
    path: &'a str,
    seen: Seen,
    digest: OnceCell<Option<[u8; 32]>>,
}

impl<'a> Found<'a> {
    pub(super) fn new(root: &'a Root, path: &'a str, seen: Seen) -> Self {
        Self { root, path, seen, digest: OnceCell::new() }
    }

    /// Whether it is what is wanted there.
    pub(super) fn is(&self, want: &Want) -> Result<bool, Error> {
        let seen = &self.seen;
        Ok(match want {
            Want::Mask => seen.kind == Kind::Link(b"/dev/null".to_vec()),
            Want::NoMask => !is_mask(seen),
            Want::File(file) => {
                let meta = (Some(seen.uid), Some(seen.gid), seen.mode) == (file.uid.number, file.gid.number, file.mode);
                seen.kind == Kind::File
                    && meta
                    && seen.size == file.bytes.size()
                    && self.digest()?.is_some_and(|found| found == file.bytes.sha256())
            }
        })
    }

    fn digest(&self) -> Result<Option<[u8; 32]>, Error> {
        if let Some(digest) = self.digest.get() {
            return Ok(*digest);
        }
        let found = digest(self.root, self.path, self.seen.size)?;
        Ok(*self.digest.get_or_init(|| found))
    }
}

/// SHA-256 of a regular file of this size; none when it has just gone or become something else. No more is ever read: a
/// file that grows all the time, or was made to look endless, would not end.
pub(super) fn digest(root: &Root, path: &str, size: u64) -> Result<Option<[u8; 32]>, Error> {
    let mut file = match root.file(path) {
        Ok((_, seen)) if seen.size != size => return Ok(None),
        Ok((file, _)) => file.take(size.saturating_add(1)),
        Err(_) if root.seen(path).is_ok_and(|seen| seen.kind != Kind::File) => return Ok(None),
        Err(error) => return Err(Error::file("read", path)(error)),
    };
    let digest = digest_of(&mut file).map_err(Error::file("read", path))?;
    // One byte more was allowed for, and is left when there was none.
    Ok((file.limit() == 1).then_some(digest))
}

/// SHA-256 of what comes.
pub(super) fn digest_of(mut bytes: impl Read) -> io::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    let mut part = vec![0; PART];
    loop {
        match bytes.read(&mut part) {
            Ok(0) => return Ok(digest.finalize().into()),
            Ok(count) => digest.update(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Bytes {
    pub(super) fn sha256(&self) -> [u8; 32] {
        match self {
            Self::Content(content) => *content.sha256(),
            Self::Text(text) => Sha256::digest(text.as_bytes()).into(),
        }
    }

    /// The bytes; of a whole file at once.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        match self {
            Self::Content(content) => content.decode().map_err(|error| undecoded(path, &error)),
            Self::Text(text) => Ok(text.as_bytes().to_vec()),
        }
    }

    /// The bytes, to be read in parts.
    pub(super) fn open(&self, path: &str) -> Result<Box<dyn Read + '_>, Error> {
        Ok(match self {
            Self::Content(content) => Box::new(content.open().map_err(|error| undecoded(path, &error))?),
            Self::Text(text) => Box::new(text.as_bytes()),
        })
    }
}

/// Why the contents of a config cannot be read.
pub(super) fn undecoded(path: &str, error: &dyn fmt::Display) -> Error {
    Error::Other(format!("contents of {path}: {error}"))
}

/// Whether a unit is masked by what stands at its path: a link to `/dev/null`, or an empty file (L-14).
pub(super) fn is_mask(seen: &Seen) -> bool {
    match &seen.kind {
        Kind::Link(target) => target.ends_with(b"/dev/null"),
        Kind::File => seen.size == 0,
        _ => false,
    }
}

/// Whether a unit is masked until the next boot.
pub(super) fn has_runtime_mask(root: &Root, unit: &str) -> Result<bool, Error> {
    let path = format!("{RUNTIME_UNIT_DIR}/{unit}");
    Ok(is_mask(&root.seen(&path).map_err(Error::file("look at", &path))?))
}

/// Whether enablement is not as it shall be, by the word of `systemctl is-enabled`. Words that do not say that the unit
/// will, or will not, be started at boot are no finding (R-128, L-16).
fn enablement(unit: &str, enabled: bool, word: &str) -> Option<Deviation> {
    let what = match (enabled, word) {
        (true, "disabled") => "is disabled, expected enabled",
        (true, "masked" | "masked-runtime") => "is masked, expected enabled",
        (true, "not-found") => "does not exist, expected enabled",
        (true, "enabled-runtime") => "is enabled only until the next boot, expected enabled",
        (false, "enabled") => "is enabled, expected disabled",
        (false, "enabled-runtime") => "is enabled until the next boot, expected disabled",
        _ => return None,
    };
    Some(Deviation { item: unit.to_owned(), what: what.to_owned() })
}

/// What of the enablement of the units of a layout is not as it shall be, by these words, and by the links where one of
/// several is enough for the word.
pub(super) fn enablements(
    root: &Root,
    layout: &Layout,
    words: &BTreeMap<String, String>,
) -> Result<Vec<Deviation>, Error> {
    let mut found = Vec::new();
    for (unit, enabled) in &layout.enablement {
        let mut word = words.get(unit).map(String::as_str).unwrap_or_default();
        if word == units::BAD && units::has_links(root, unit)? {
            word = "enabled";
        }
        found.extend(enablement(unit, *enabled, word));
        if *enabled && matches!(word, "enabled" | "indirect" | units::BAD) {
            let lacking = units::lacking(root, unit, layout.units.get(unit))?;
            let what = lacking.map(|path| format!("lacks the link {path}, expected enabled"));
            found.extend(what.map(|what| Deviation { item: unit.clone(), what }));
        }
    }
    Ok(found)
}

fn place(root: &Root, path: &str, managed: &Managed, accounts: &Accounts) -> Result<Vec<Deviation>, Error> {
    let deviation = |what: String| Deviation { item: managed.item.clone(), what };
    let seen = match root.seen(path) {
        Ok(seen) => seen,
        Err(error) if is_blocked(&error) => {
            let what = format!("is behind a symlink that a user could have made ({path})");
            return Ok(vec![deviation(what)]);
        }
        Err(error) => return Err(Error::file("look at", path)(error)),
    };
    let whats = match &managed.want {
        Want::File(file) => file_differs(root, path, file, &seen, accounts)?,
        Want::Mask if seen.kind == Kind::Link(b"/dev/null".to_vec()) => vec![],
        Want::Mask => vec!["is not masked, expected masked".into()],
        Want::NoMask if is_mask(&seen) => vec!["is masked, expected not masked".into()],
        Want::NoMask => vec![],
    };
    Ok(whats.into_iter().map(deviation).collect())
}

fn file_differs(
    root: &Root,
    path: &str,
    want: &FileWant,
    seen: &Seen,
    accounts: &Accounts,
) -> Result<Vec<String>, Error> {
    let other_kind = match &seen.kind {
        Kind::File => None,
        Kind::Absent => Some("is missing"),
        Kind::Link(target) if target == b"/dev/null" && path.starts_with(super::layout::UNIT_DIR) => Some("is masked"),
        Kind::Link(_) => Some("is a symlink, expected a file"),
        Kind::Dir => Some("is a directory, expected a file"),
        Kind::Fifo => Some("is a named pipe, expected a file"),
        Kind::Socket => Some("is a socket, expected a file"),
        Kind::Device => Some("is a device, expected a file"),
    };
    if let Some(what) = other_kind {
        return Ok(vec![what.to_owned()]);
    }
    let mut whats = Vec::new();
    let same_size = seen.size == want.bytes.size();
    let digest = if same_size { digest(root, path, seen.size)? } else { None };
    if digest != Some(want.bytes.sha256()) {
        whats.push(format!("has other contents{}", where_differs(root, path, &want.bytes)?));
    }
    if seen.mode != want.mode {
        whats.push(format!("has mode {:04o}, expected {:04o}", seen.mode, want.mode));
    }
    for (what, id, found, name) in [
        ("owner", &want.uid, seen.uid, accounts.user_name(seen.uid)),
        ("group", &want.gid, seen.gid, accounts.group_name(seen.gid)),
    ] {
        if id.number.is_some_and(|number| number != found) {
            let found = Id { number: Some(found), name: name.unwrap_or_default().to_owned() };
            whats.push(format!("has {what} {found}, expected {id}"));
        }
    }
    Ok(whats)
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.number, self.name.as_str()) {
            (Some(number), "") => write!(f, "{number}"),
            (Some(number), name) => write!(f, "{name} ({number})"),
            (None, name) => f.write_str(name),
        }
    }
}

/// For people: where a text differs. Empty when that says nothing, as for binary files.
fn where_differs(root: &Root, path: &str, want: &Bytes) -> Result<String, Error> {
    if !is_text(&mut want.open(path)?).map_err(|error| undecoded(path, &error))? {
        return Ok(String::new());
    }
    let Ok((mut file, _)) = root.file(path) else { return Ok(String::new()) };
    let differs = first_difference(&mut want.open(path)?, &mut file).map_err(Error::file("read", path))?;
    Ok(match differs {
        // It was put right between the two looks.
        None => String::new(),
        Some(Difference::TrailingSpace) => " (only in blanks or line ends at its end)".into(),
        Some(Difference::Line(line)) => format!(" (first difference in line {line})"),
    })
}

/// Whether all of it is UTF-8 without NUL.
fn is_text(bytes: &mut impl Read) -> io::Result<bool> {
    let mut part = vec![0; PART];
    // Of a character that began in the last part.
    let mut begun = 0;
    loop {
        let count = match bytes.read(&mut part[begun..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 {
            return Ok(begun == 0);
        }
        let read = &part[..begun + count];
        if read[begun..].contains(&0) {
            return Ok(false);
        }
        let whole = match std::str::from_utf8(read) {
            Ok(_) => read.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Ok(false),
        };
        let end = read.len();
        begun = end - whole;
        part.copy_within(whole..end, 0);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Difference {
    /// Line number, from 1.
    Line(u64),
    /// Nothing but white space at the end.
    TrailingSpace,
}

fn first_difference(expected: &mut impl Read, found: &mut impl Read) -> io::Result<Option<Difference>> {
    let (mut expected, mut found) = (BufReader::with_capacity(PART, expected), BufReader::with_capacity(PART, found));
    let mut line = 1;
    loop {
        let (one, other) = (some(&mut expected)?, some(&mut found)?);
        if one.is_empty() && other.is_empty() {
            return Ok(None);
        }
        let size = one.len().min(other.len());
        let same = one.iter().zip(other).position(|(one, other)| one != other).unwrap_or(size);
        line += one[..same].iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        expected.consume(same);
        found.consume(same);
        if same < size || size == 0 {
            break;
        }
    }
    let only_space = is_blank(&mut expected)? && is_blank(&mut found)?;
    Ok(Some(if only_space { Difference::TrailingSpace } else { Difference::Line(line) }))
}

/// The next bytes; none at the end.
fn some(bytes: &mut impl BufRead) -> io::Result<&[u8]> {
    while bytes.fill_buf().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
    bytes.fill_buf()
}

/// Whether nothing but white space is left, and not too much of it.
fn is_blank(bytes: &mut impl BufRead) -> io::Result<bool> {
    let mut beyond = 0;
    loop {
        let part = some(bytes)?;
        if part.is_empty() {
            return Ok(true);
        }
        let count = part.len();
        beyond += count;
        if beyond > BLANK_LIMIT || !part.iter().all(u8::is_ascii_whitespace) {
            return Ok(false);
        }
        bytes.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r122_r119_a_difference_is_named_by_line_or_as_trailing_space() {
        use Difference::{Line, TrailingSpace};
        let cases: [(&str, &str, Option<Difference>); 10] = [
            ("a\nb\n", "a\nb\n", None),
            ("", "", None),
            ("a\nb\n", "a\nc\n", Some(Line(2))),
            ("a\nb\n", "x\nb\n", Some(Line(1))),
            ("a\nb\n", "a\nb", Some(TrailingSpace)),
            ("a\nb", "a\nb\n\n", Some(TrailingSpace)),
            ("a\n", "", Some(Line(1))),
            ("\n", "", Some(TrailingSpace)),
            ("a\n", "a\n \nb", Some(Line(2))),
            ("a\nb\nc\n", "a\nb\n", Some(Line(3))),
        ];
        for (expected, found, difference) in cases {
            assert_eq!(
                first_difference(&mut expected.as_bytes(), &mut found.as_bytes()).unwrap(),
                difference,
                "{expected:?} {found:?}"
            );
        }
    }

    /// Gives a byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
            let end = part.len().min(1);
            self.0.read(&mut part[..end])
        }
    }

    #[test]
    fn a_difference_is_found_whatever_parts_the_bytes_come_in() {
        let long: Vec<u8> = b"a line of some length\n".repeat(10_000);
        let mut other = long.clone();
        other[5000 * 22] = b'x';
        assert_eq!(first_difference(&mut Slow(&long), &mut long.as_slice()).unwrap(), None);
        assert_eq!(first_difference(&mut long.as_slice(), &mut Slow(&other)).unwrap(), Some(Difference::Line(5001)));
    }

    #[test]
    fn text_is_told_from_binary_whatever_parts_the_bytes_come_in() {
        let whole = "ä€𝄞".repeat(PART);
        for (bytes, is) in [
            (whole.as_bytes(), true),
            (&whole.as_bytes()[..whole.len() - 1], false),
            (b"", true),
            (b"a\0b", false),
            (b"\xff", false),
        ] {
            assert_eq!(is_text(&mut &*bytes).unwrap(), is, "{} bytes", bytes.len());
            assert_eq!(is_text(&mut Slow(bytes)).unwrap(), is, "{} bytes, one by one", bytes.len());
        }
    }

    #[test]
    fn r128_l16_unknown_words_are_no_drift() {
        for word in ["static", "indirect", "generated", "transient", "alias", "linked", "bad", "novelty", ""] {
            assert_eq!(enablement("a.service", true, word), None, "{word}");
            assert_eq!(enablement("a.service", false, word), None, "{word}");
        }
        assert_eq!(enablement("a.service", true, "enabled"), None);
        assert_eq!(enablement("a.service", false, "disabled"), None);
        assert_eq!(enablement("a.service", false, "not-found"), None);
        assert_eq!(enablement("a.service", false, "masked"), None);
        assert_eq!(
            enablement("a.service", true, "disabled").unwrap().to_string(),
            "a.service is disabled, expected enabled"
        );
        assert!(enablement("a.service", false, "enabled-runtime").is_some());
        assert!(enablement("a.service", true, "enabled-runtime").is_some());
    }
}
