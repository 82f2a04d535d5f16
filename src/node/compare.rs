//! What of the disk differs from a config: one comparison for check, drift, verification and `mcx diff`.
//!
//! Nothing is followed: a symlink in a file's place is a finding of its own (G-03). Files are read in parts and compared
//! by digest; the expected bytes are unpacked only to say where they differ.

use super::host::{Accounts, Error, Kind, Root, Seen, is_blocked};
use super::layout::{Bytes, FileWant, Id, Layout, Managed, RUNTIME_UNIT_DIR, Sort, Want};
use super::units;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

/// Files beyond this number are shared between threads.
const ENOUGH_FOR_THREADS: usize = 64;
/// More would only wait for the disk, and each costs memory.
const THREAD_LIMIT: usize = 4;

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
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREAD_LIMIT);
    let each = if all.len() < ENOUGH_FOR_THREADS { all.len() } else { all.len().div_ceil(threads) }.max(1);
    let mut found: Vec<Deviation> = std::thread::scope(|scope| {
        let parts: Vec<_> = all
            .chunks(each)
            .map(|part| {
                scope.spawn(move || {
                    part.iter().try_fold(Vec::new(), |mut found, (path, managed)| {
                        found.extend(place(root, path, managed, accounts)?);
                        let what = rival(root, layout, path)?;
                        found.extend(what.map(|what| Deviation { item: managed.item.clone(), what }));
                        Ok(found)
                    })
                })
            })
            .collect();
        parts.into_iter().try_fold(Vec::new(), |mut found, part| {
            let part: Result<Vec<Deviation>, Error> =
                part.join().map_err(|_| Error::Other("the comparison of the disk broke down".into()))?;
            found.extend(part?);
            Ok::<_, Error>(found)
        })
    })?;
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
    let seen = root.seen(path).map_err(Error::file("look at", path))?;
    Ok(match want {
        Want::Mask => seen.kind == Kind::Link(b"/dev/null".to_vec()),
        Want::NoMask => !is_mask(&seen),
        Want::File(file) => {
            let meta = (Some(seen.uid), Some(seen.gid), seen.mode) == (file.uid.number, file.gid.number, file.mode);
            seen.kind == Kind::File && meta && seen.size == file.bytes.size() && {
                digest(root, path)?.is_some_and(|found| found == file.bytes.sha256())
            }
        }
    })
}

/// SHA-256 of a regular file; none when it has just gone or become something else.
pub(super) fn digest(root: &Root, path: &str) -> Result<Option<[u8; 32]>, Error> {
    let mut file = match root.file(path) {
        Ok((file, _)) => file,
        Err(_) if root.seen(path).is_ok_and(|seen| seen.kind != Kind::File) => return Ok(None),
        Err(error) => return Err(Error::file("read", path)(error)),
    };
    let mut digest = Sha256::new();
    let mut part = vec![0; 128 << 10];
    loop {
        match file.read(&mut part) {
            Ok(0) => return Ok(Some(digest.finalize().into())),
            Ok(count) => digest.update(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::file("read", path)(error)),
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
            Self::Content(content) => {
                content.decode().map_err(|error| Error::Other(format!("contents of {path}: {error}")))
            }
            Self::Text(text) => Ok(text.as_bytes().to_vec()),
        }
    }
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
        if word == units::BAD && units::is_linked(root, unit)? {
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
    let digest = if same_size { digest(root, path)? } else { None };
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
    let expected = want.read(path)?;
    if std::str::from_utf8(&expected).is_err() || expected.contains(&0) {
        return Ok(String::new());
    }
    let Ok((mut file, _)) = root.file(path) else { return Ok(String::new()) };
    let differs = first_difference(&expected, &mut file).map_err(Error::file("read", path))?;
    Ok(match differs {
        // It was put right between the two looks.
        None => String::new(),
        Some(Difference::TrailingSpace) => " (only in blanks or line ends at its end)".into(),
        Some(Difference::Line(line)) => format!(" (first difference in line {line})"),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Difference {
    /// Line number, from 1.
    Line(u64),
    /// Nothing but white space at the end.
    TrailingSpace,
}

fn first_difference(expected: &[u8], found: &mut impl Read) -> io::Result<Option<Difference>> {
    let mut line = 1;
    let mut at = 0;
    let mut differs = false;
    let mut blank = true;
    let mut part = vec![0; 64 << 10];
    loop {
        let count = match found.read(&mut part) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 {
            break;
        }
        for byte in &part[..count] {
            if !differs && expected.get(at) == Some(byte) {
                at += 1;
                line += u64::from(*byte == b'\n');
            } else {
                differs = true;
                blank &= byte.is_ascii_whitespace();
            }
        }
        if !blank {
            break;
        }
    }
    let rest = &expected[at..];
    if !differs && rest.is_empty() {
        return Ok(None);
    }
    let only_space = blank && rest.iter().all(u8::is_ascii_whitespace);
    Ok(Some(if only_space { Difference::TrailingSpace } else { Difference::Line(line) }))
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
                first_difference(expected.as_bytes(), &mut found.as_bytes()).unwrap(),
                difference,
                "{expected:?} {found:?}"
            );
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
