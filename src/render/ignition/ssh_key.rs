//! Public keys as `authorized_keys` lists them: `[options] type base64 [comment]`.
//!
//! A key is checked as far as sshd looks at it before a login: one line, the type repeated in the blob, the blob complete.
//! What is left to sshd: options by name, and whether a point lies on its curve.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What sort of key a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A type that current versions of sshd accept.
    Known,
    /// A well-formed key of a type that they may not accept: old (`ssh-dss`), a certificate, or newer than this program.
    Unknown,
}

/// Why a line is no public key. Never holds key material.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing, or a comment.
    #[error("the line holds no key")]
    Empty,
    /// A line break would smuggle in a second key.
    #[error("a key is one line without control characters; give each key as an item of its own")]
    ControlCharacter,
    /// As in the example of a manual.
    #[error("a placeholder such as <ssh-public-key> was left; put the public key there")]
    Placeholder,
    /// `-----BEGIN …`, or another format than OpenSSH's.
    #[error("this is no public key in OpenSSH's format (the line of a .pub file)")]
    Format,
    /// An option's quotation mark is not closed.
    #[error("a quotation mark in the options is not closed")]
    Options,
    /// No `type base64` in the line.
    #[error("a key is written: type, space, base64 (the line of a .pub file)")]
    NoKey,
    /// The second field.
    #[error("the base64 of the key is malformed or cut off")]
    Base64,
    /// The blob names another type than the line.
    #[error("the type before the key is not the type in the key")]
    TypeMismatch,
    /// The blob ends too early, goes on too long, or has parts of the wrong size.
    #[error("the key is damaged: it is cut off, or has parts of the wrong size")]
    Damaged,
    /// sshd refuses these.
    #[error("an RSA key must have at least 1024 bits")]
    Weak,
}

/// The types that current versions of sshd accept.
const KNOWN: [&str; 7] = [
    "ssh-rsa",
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Bytes of an RSA modulus below which sshd refuses a key, whatever its settings.
const MIN_RSA_BYTES: usize = 1024 / 8;

/// Checks one item of `sshAuthorizedKeys`.
pub fn check(line: &str) -> Result<KeyKind, KeyError> {
    // sshd would read the rest as a second line, with a key of its own.
    if line.chars().any(|c| c.is_control() && c != '\t') {
        return Err(KeyError::ControlCharacter);
    }
    let line = line.trim_matches(BLANKS);
    if line.is_empty() || line.starts_with('#') {
        return Err(KeyError::Empty);
    }
    if line.starts_with("-----") || line.starts_with("----") {
        return Err(KeyError::Format);
    }
    match check_fields(line) {
        Ok(kind) => Ok(kind),
        // What does not begin with a key may begin with options.
        Err(error) => match skip_options(line)? {
            Some(rest) if !is_type(line.split(BLANKS).next().unwrap_or_default()) => check_fields(rest),
            _ => Err(error),
        },
    }
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Checks `type base64 [comment]`.
fn check_fields(line: &str) -> Result<KeyKind, KeyError> {
    let mut fields = line.split(BLANKS).filter(|field| !field.is_empty());
    let (Some(name), Some(encoded)) = (fields.next(), fields.next()) else {
        return Err(if line.starts_with('<') { KeyError::Placeholder } else { KeyError::NoKey });
    };
    if name.starts_with('<') || encoded.starts_with('<') {
        return Err(KeyError::Placeholder);
    }
    if !is_type(name) && !encoded.starts_with("AAAA") {
        return Err(KeyError::NoKey);
    }
    let blob = STANDARD.decode(encoded).map_err(|_| KeyError::Base64)?;
    let parts = parts(&blob).ok_or(KeyError::Damaged)?;
    match parts.first() {
        Some(inner) if *inner == name.as_bytes() => check_parts(name, &parts[1..]),
        Some(_) => Err(KeyError::TypeMismatch),
        None => Err(KeyError::Damaged),
    }
}

/// Whether a word looks like the name of a key type rather than like options.
fn is_type(word: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-", "rsa-"].iter().any(|prefix| word.starts_with(prefix))
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-@.".contains(&b))
}

/// The parts of a blob, each with its length before it; none when they do not fill it exactly.
fn parts(mut blob: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !blob.is_empty() {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        parts.push(part);
        blob = rest;
    }
    Some(parts)
}

/// Checks what follows the type in the blob.
fn check_parts(name: &str, parts: &[&[u8]]) -> Result<KeyKind, KeyError> {
    // An uncompressed point: a tag and two coordinates.
    let point = |curve: &str, of: &[u8], point: &[u8]| {
        let coordinate = match curve {
            "nistp256" => 32,
            "nistp384" => 48,
            _ => 66,
        };
        of == curve.as_bytes() && point.len() == 1 + 2 * coordinate && point[0] == 4
    };
    let whole = match (name, parts) {
        ("ssh-rsa", [exponent, modulus]) => {
            let modulus = modulus.strip_prefix(&[0]).unwrap_or(modulus);
            if exponent.is_empty() || modulus.is_empty() {
                return Err(KeyError::Damaged);
            }
            if modulus.len() < MIN_RSA_BYTES || (modulus.len() == MIN_RSA_BYTES && modulus[0] < 0x80) {
                return Err(KeyError::Weak);
            }
            true
        }
        ("ssh-ed25519", [key]) => key.len() == 32,
        ("sk-ssh-ed25519@openssh.com", [key, application]) => key.len() == 32 && !application.is_empty(),
        ("ecdsa-sha2-nistp256", [curve, at]) => point("nistp256", curve, at),
        ("ecdsa-sha2-nistp384", [curve, at]) => point("nistp384", curve, at),
        ("ecdsa-sha2-nistp521", [curve, at]) => point("nistp521", curve, at),
        ("sk-ecdsa-sha2-nistp256@openssh.com", [curve, at, application]) => {
            point("nistp256", curve, at) && !application.is_empty()
        }
        (name, parts) => {
            // A known type with other parts is damaged; an unknown one needs some.
            if KNOWN.contains(&name) || parts.is_empty() {
                return Err(KeyError::Damaged);
            }
            return Ok(KeyKind::Unknown);
        }
    };
    if whole { Ok(KeyKind::Known) } else { Err(KeyError::Damaged) }
}

/// What follows the options: they end at the first blank outside quotation marks. None when nothing follows.
fn skip_options(line: &str) -> Result<Option<&str>, KeyError> {
    let (mut quoted, mut escaped) = (false, false);
    for (i, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ' ' | '\t' if !quoted => {
                return Ok(Some(line[i..].trim_start_matches(BLANKS)).filter(|rest| !rest.is_empty()));
            }
            _ => {}
        }
    }
    if quoted { Err(KeyError::Options) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Made for these tests; nobody has the private parts.
    const ED25519: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPoFJNjfifcNZ/dTRLwdhKtWC0oUksXFROSByoPgXuOb";
    const NISTP256: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBFpg/BXg/nyhvQNzUBKFeXN5G5r6IGU9SZ9HqOIFuE/QY4gHbUKoRky8iIf1wn7tI86Yq0+lylcRk0zyfoNiYoI=";
    const NISTP521: &str = "ecdsa-sha2-nistp521 AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1MjEAAACFBACw/rRXEO9ZHauPoLMnig4b/YacmFJMfMObjHxfB80wdBZqNStrf0Ak5eSGJMTgAzWAIaoNktqWAyjrJsOkrdaiKQAr198kJrk9WmczzotuCr/2dAHKNs/43qLz2lfjr8iSL3vPVUIV/vAmQQKx2P5TZ8LR//R+3UbRIQ/BUpXb9ZDNsA==";
    const RSA1024: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQCmF4cezg6NQrfrztDIoJ4EvrH23sBtD1UdNP0QHwOYMDrQR74qA33wALxaw77UHi31LqaEeEL1rthTmBNohNBgs7JzO1THbT4ccb4uSl9cXNhIFUeRpcYhoS7xmX0Ws+tpDYuqcKNuWPY6OF+oazSyZER4vJaeWmJUUNB071XZ7w==";

    /// A line with a key of `name`, made of these parts.
    fn line(name: &str, parts: &[&[u8]]) -> String {
        let mut blob = Vec::new();
        for part in std::iter::once(&name.as_bytes()).chain(parts) {
            blob.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
            blob.extend(*part);
        }
        format!("{name} {}", STANDARD.encode(blob))
    }

    #[test]
    fn keys_that_ssh_keygen_makes_are_known() {
        for key in [ED25519, NISTP256, NISTP521, RSA1024] {
            for line in [
                key.to_owned(),
                format!("{key} user@host"),
                format!("  {key}\t a comment <with@brackets>  "),
                format!("no-pty,from=\"10.0.0.0/8,host name\",command=\"echo \\\"x y\\\"\" {key} user"),
                format!("restrict {key}"),
            ] {
                assert_eq!(check(&line), Ok(KeyKind::Known), "{line}");
            }
        }
        let token = line("sk-ssh-ed25519@openssh.com", &[&[7; 32], b"ssh:"]);
        assert_eq!(check(&token), Ok(KeyKind::Known));
    }

    #[test]
    fn whole_keys_of_other_types_are_not_refused() {
        for name in ["ssh-dss", "ssh-new@example.org", "ssh-ed25519-cert-v01@openssh.com", "x-next"] {
            assert_eq!(check(&line(name, &[b"one", b"two"])), Ok(KeyKind::Unknown), "{name}");
        }
    }

    #[test]
    fn a_second_key_cannot_be_smuggled_in_by_a_line_break() {
        for odd in ["\n", "\r", "\r\n", "\0", "\u{85}", "\u{b}"] {
            assert_eq!(check(&format!("{ED25519}{odd}{NISTP256}")), Err(KeyError::ControlCharacter), "{odd:?}");
            assert_eq!(check(&format!("{ED25519}{odd}")), Err(KeyError::ControlCharacter), "{odd:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_reason() {
        let blob = ED25519.split_once(' ').unwrap().1;
        let cut = &ED25519[..ED25519.len() - 4];
        for (line, error) in [
            ("", KeyError::Empty),
            ("  \t", KeyError::Empty),
            ("# comment", KeyError::Empty),
            ("ssh-rsa <ssh-public-key>", KeyError::Placeholder),
            ("<ssh-public-key>", KeyError::Placeholder),
            ("ssh-ed25519", KeyError::NoKey),
            ("user@host", KeyError::NoKey),
            ("two words", KeyError::NoKey),
            (blob, KeyError::NoKey),
            ("-----BEGIN OPENSSH PRIVATE KEY-----", KeyError::Format),
            ("---- BEGIN SSH2 PUBLIC KEY ----", KeyError::Format),
            (&format!("from=\"10.0.0.1 {ED25519}"), KeyError::Options),
            (&format!("ssh-rsa {blob}"), KeyError::TypeMismatch),
            (cut, KeyError::Damaged),
            (&ED25519[..ED25519.len() - 1], KeyError::Base64),
            (&ED25519.replace('/', "_"), KeyError::Base64),
            (&line("ssh-ed25519", &[&[7; 31]]), KeyError::Damaged),
            (&line("ssh-ed25519", &[&[7; 32], b"more"]), KeyError::Damaged),
            (&line("ssh-ed25519", &[]), KeyError::Damaged),
            (&line("ssh-new", &[]), KeyError::Damaged),
            (&line("ecdsa-sha2-nistp256", &[b"nistp384", &[4; 65]]), KeyError::Damaged),
            (&line("ecdsa-sha2-nistp256", &[b"nistp256", &[2; 65]]), KeyError::Damaged),
            (&line("ssh-rsa", &[&[1, 0, 1], &[0x7f; 128]]), KeyError::Weak),
            (&line("ssh-rsa", &[b"", b""]), KeyError::Damaged),
        ] {
            assert_eq!(check(line), Err(error), "{line}");
        }
    }

    #[test]
    fn an_error_never_holds_key_material() {
        let error = check(&format!("{ED25519} x\n")).unwrap_err();
        assert!(!error.to_string().contains("AAAA"));
    }

    proptest! {
        #[test]
        fn no_line_makes_the_check_panic(
            line in ".{0,60}",
            odd in "(from=\"[a \\\\\"]{0,4}\"? )?(ssh-rsa|ssh-ed25519|x) (AAAA[A-Za-z0-9+/=]{0,40})?( x)?",
        ) {
            let _ = check(&line);
            let _ = check(&odd);
        }
    }
}
