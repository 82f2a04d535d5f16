//! Secrets in a text: private keys, tokens, passwords. What is found is named by its kind and never shown.
//!
//! Few false alarms are worth more than finding all: a value must follow a telling name or have a telling form, and look
//! like a value rather than like a word, a path, a reference or a placeholder.

use std::fmt;

/// How far into a text is looked, in bytes: files with secrets are small, and so are files of certificates.
pub(super) const SEARCH: usize = 1 << 20;

/// Shortest password that is taken for one, in characters.
const PASSWORD_MIN: usize = 5;

/// Shortest token that is taken for one, in characters.
const TOKEN_MIN: usize = 16;

/// Values that say whether there is a secret, or what or of which type to put there.
const NOTHING: [&str; 18] = [
    "true", "false", "none", "null", "empty", "yes", "no", "changeme", "password", "secret", "required", "optional",
    "disabled", "enabled", "bool", "bytes", "str", "string",
];

/// In the first line of a private key in PEM or of OpenSSH.
const KEY_MARK: &str = "PRIVATE KEY-----";

/// What kind of secret was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::render) enum Secret {
    /// PEM, OpenSSH or PGP.
    PrivateKey,
    /// Of a service account, or of a service that issues tokens.
    Token,
    /// Behind a name such as `password`, or in a URL.
    Password,
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PrivateKey => "a private key",
            Self::Token => "a token",
            Self::Password => "a password",
        })
    }
}

/// The first kind of secret in these bytes, in the order of [`Secret`].
pub(in crate::render) fn find(bytes: &[u8]) -> Option<Secret> {
    let bytes = &bytes[..bytes.len().min(SEARCH)];
    // What is no text holds neither names nor words. The end may be cut within a character.
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
        Err(_) => return bytes.windows(KEY_MARK.len()).any(|w| w == KEY_MARK.as_bytes()).then_some(Secret::PrivateKey),
    };
    if bytes.contains(&b'-') && (text.contains(KEY_MARK) || text.contains("PRIVATE KEY BLOCK-----")) {
        return Some(Secret::PrivateKey);
    }
    if text.contains('\0') {
        return None;
    }
    let found: Vec<Secret> = telling_lines(text).filter(|line| !is_comment(line)).filter_map(in_line).collect();
    [Secret::Token, Secret::Password].into_iter().find(|kind| found.contains(kind))
}

/// What a byte means to [`telling_lines`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// One of a token.
    Token,
    /// Behind a name, or a login.
    Mark,
    LineEnd,
    Other,
}

static CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if is_token_char(byte as char) {
            classes[byte as usize] = Class::Token;
        }
        byte += 1;
    }
    classes[b'=' as usize] = Class::Mark;
    classes[b':' as usize] = Class::Mark;
    classes[b'@' as usize] = Class::Mark;
    classes[b'\n' as usize] = Class::LineEnd;
    classes
};

/// The lines that are worth a closer look: with characters of a token in a row, enough for the shortest, or with a mark behind
/// a name or a login. In one pass over the bytes: most lines of most files are none.
fn telling_lines(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let begin = at;
            let (mut row, mut tells) = (0, false);
            while let Some(byte) = bytes.get(at) {
                at += 1;
                match CLASSES[usize::from(*byte)] {
                    Class::Token => {
                        row += 1;
                        tells |= row >= SHORTEST_TOKEN;
                    }
                    Class::Mark => (row, tells) = (0, true),
                    Class::Other => row = 0,
                    Class::LineEnd => break,
                }
            }
            if tells {
                let line = &text[begin..at];
                let line = line.strip_suffix('\n').unwrap_or(line);
                return Some(line.strip_suffix('\r').unwrap_or(line));
            }
        }
        None
    })
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start().as_bytes();
    matches!(line, [b'#' | b';', ..] | [b'/', b'/', ..] | [b'-', b'-', ..] | [b'<', b'!', b'-', b'-', ..])
}

fn in_line(line: &str) -> Option<Secret> {
    // Most lines are: no token is as short as the shortest of these.
    if line.len() >= SHORTEST_TOKEN && line.split(|c: char| !is_token_char(c)).any(has_token_form) {
        return Some(Secret::Token);
    }
    let after_name = |at: usize| named(&line[..at], &line[at + 1..]);
    let mark_from = |from: usize| {
        let rest = &line.as_bytes()[from..];
        rest.iter().position(|b| matches!(b, b'=' | b':')).map(|at| from + at)
    };
    let mut marks = std::iter::successors(mark_from(0), |at| mark_from(at + 1));
    let by_name = marks.find_map(after_name);
    by_name.or_else(|| (line.as_bytes().contains(&b'@') && in_url(line)).then_some(Secret::Password))
}

const fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// `xoxb-` and twenty characters, in bytes; a JSON web token is longer.
const SHORTEST_TOKEN: usize = 25;

/// Forms of tokens that nothing else has: a prefix and the length of what follows it, or a JSON web token.
fn has_token_form(word: &str) -> bool {
    const PREFIXES: [(&str, usize); 10] = [
        ("ghp_", 36),
        ("gho_", 36),
        ("ghu_", 36),
        ("ghs_", 36),
        ("ghr_", 36),
        ("github_pat_", 40),
        ("glpat-", 20),
        ("xoxb-", 20),
        ("xoxp-", 20),
        ("hvs.", 24),
    ];
    // Most words are: no token is as short as the shortest of these.
    if word.len() < SHORTEST_TOKEN {
        return false;
    }
    let prefixed = PREFIXES.iter().any(|(prefix, length)| {
        word.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() >= *length && rest.contains(|c: char| c.is_ascii_digit()))
    });
    // Both of the first parts are JSON objects, `{"`, in base64.
    prefixed
        || word.starts_with("eyJ") && {
            let parts: Vec<&str> = word.split('.').collect();
            matches!(parts[..], [header, claims, mark]
            if claims.starts_with("eyJ") && [header, claims, mark].iter().all(|p| p.len() >= 10))
        }
}

/// A secret by the name before `=` or `:`, `before`, and the value behind it.
fn named(before: &str, after: &str) -> Option<Secret> {
    let before = before.trim_end().trim_end_matches(['"', '\'']);
    // All names end in one of these; most others do not.
    if !matches!(before.bytes().last(), Some(b'd' | b'D' | b'e' | b'E' | b'n' | b'N' | b't' | b'T' | b'y' | b'Y')) {
        return None;
    }
    let ends_with = |name: &str| {
        let at = before.len().checked_sub(name.len())?;
        before.get(at..).filter(|end| end.eq_ignore_ascii_case(name)).map(|_| at)
    };
    let is_one_of = |names: &[&str]| names.iter().any(|name| ends_with(name).is_some());
    if is_one_of(&["password", "passphrase", "passwd"]) {
        let value = value(after)?;
        // `passwd: files sss` of nsswitch.conf, and the like.
        let is_word = value.chars().all(|c| c.is_ascii_lowercase()) && ends_with("passwd").is_some();
        return (value.len() >= PASSWORD_MIN && !is_word).then_some(Secret::Password);
    }
    if is_one_of(&["token", "secret", "apikey", "api_key", "api-key", "access_key", "secret_key", "secretkey"]) {
        return value(after).filter(|value| looks_random(value)).map(|_| Secret::Token);
    }
    None
}

/// The value behind an equals sign or a colon; none when it is no value but a word of prose, a path, a reference to where
/// the value is, a variable or a placeholder.
fn value(after: &str) -> Option<&str> {
    let after = after.trim_start();
    let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
    let value = if let Some(quote) = quote { after[1..].split(quote).next()? } else { unquoted(after)? };
    let is_reference = value.starts_with(['/', '$', '<', '%', '{', '*', '[', '@', '~', '!', '&', '|', '>', '.'])
        || ["file:", "env:", "http://", "https://", "vault:"].iter().any(|scheme| value.starts_with(scheme))
        || value.contains("${")
        || value.contains("{{");
    let is_filler = value.chars().all(|c| matches!(c, 'x' | 'X' | '*' | '.' | '-' | '_'));
    let is_nothing = NOTHING.iter().any(|word| value.eq_ignore_ascii_case(word));
    (!value.contains(char::is_whitespace) && !is_reference && !is_filler && !is_nothing).then_some(value)
}

/// The first word, unless it is one of a sentence: what may follow is a further setting or argument.
fn unquoted(after: &str) -> Option<&str> {
    let mut words = after.split_ascii_whitespace();
    let first = words.next()?;
    let is_setting = |word: &str| word.contains(['=', ':', '#']) || word.starts_with('-');
    let value = first.trim_end_matches([',', ';', '"', '\'', '}', ']', ')']);
    // A call or an index is code.
    (words.next().is_none_or(is_setting) && !value.contains(['(', '['])).then_some(value)
}

/// Whether a value is long and has letters and digits mixed, as nobody writes names.
fn looks_random(value: &str) -> bool {
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let letters = value.chars().filter(char::is_ascii_alphabetic).count();
    let longest_word = value.split(|c: char| !c.is_ascii_lowercase()).map(str::len).max().unwrap_or_default();
    let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "+/=_.-~".contains(c));
    value.len() >= TOKEN_MIN && is_plain && digits >= 2 && letters >= 2 && longest_word <= 8
}

/// `https://user:password@host`.
fn in_url(line: &str) -> bool {
    line.match_indices("://").any(|(at, _)| {
        let rest = &line[at + 3..];
        let end = rest.find(|c: char| c.is_whitespace() || "/\"'?#".contains(c)).unwrap_or(rest.len());
        let Some((user, password)) = rest[..end].rsplit_once('@').and_then(|(login, _)| login.split_once(':')) else {
            return false;
        };
        !user.starts_with(['<', '$', '{']) && value(password).is_some_and(|p| p.len() == password.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_keys_are_seen_by_their_mark() {
        for (text, found) in [
            ("x\n-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", Some(Secret::PrivateKey)),
            ("-----BEGIN PRIVATE KEY-----", Some(Secret::PrivateKey)),
            ("-----BEGIN PGP PRIVATE KEY BLOCK-----", Some(Secret::PrivateKey)),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None),
            ("ssh-ed25519 AAAA", None),
            ("-----", None),
            ("", None),
        ] {
            assert_eq!(find(text.as_bytes()), found, "{text}");
        }
        assert_eq!(find(b"\xff\n-----BEGIN PRIVATE KEY-----"), Some(Secret::PrivateKey), "beside what is no text");
        assert_eq!(find(b"\xff\npassword=hunter22\n"), None);
    }

    /// Every line that says something is looked at, and as a line.
    #[test]
    fn no_line_that_tells_is_passed_over() {
        let token = "a".repeat(SHORTEST_TOKEN);
        let almost = "a".repeat(SHORTEST_TOKEN - 1);
        let text = format!("{almost}\n{almost} {almost}\r\n{token}\r\n\n=\nä:\n@\n{almost}ä{almost}\nx {token}");
        let token_behind = format!("x {token}");
        assert_eq!(telling_lines(&text).collect::<Vec<_>>(), [token.as_str(), "=", "ä:", "@", &token_behind]);
        let anything = proptest::string::string_regex("([a-z=:@ ä\r\n]|ghp_[a-z0-9]{36}){0,60}").unwrap();
        proptest::test_runner::TestRunner::default()
            .run(&anything, |text| {
                let slowly: Vec<Secret> = text.lines().filter(|line| !is_comment(line)).filter_map(in_line).collect();
                let quickly: Vec<Secret> =
                    telling_lines(&text).filter(|line| !is_comment(line)).filter_map(in_line).collect();
                proptest::prop_assert_eq!(quickly, slowly);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn tokens_are_seen_by_their_form_or_name() {
        let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJlMTIz";
        for text in [
            format!("    token: {jwt}\n"),
            format!("Authorization: Bearer {jwt}\n"),
            "token = abcdef.0123456789abcdef\n".to_owned(),
            "{\"client_secret\": \"Zk3kd9fjK2mfU77q\"}\n".to_owned(),
            "AWS_SECRET_ACCESS_KEY=wJalrXUtn9FEMI7K7MDENG1bPxRfi".to_owned(),
            format!("x ghp_{} y", "a1B2".repeat(9)),
        ] {
            assert_eq!(find(text.as_bytes()), Some(Secret::Token), "{text}");
        }
    }

    #[test]
    fn passwords_are_seen_by_their_name_or_in_a_url() {
        for text in [
            "password = hunter22\n",
            "  \"bindPassword\": \"s3cr3t!x\",\n",
            "[Service]\nEnvironment=DB_PASSWORD=hunter22\n",
            "Environment=\"DB_PASSWORD=hunter22\" \"A=b\"\n",
            "ExecStart=/bin/x --password=hunter22 --verbose\n",
            "wpa_passphrase=correcthorse\n",
            "HTTPS_PROXY=http://proxy:hunter22@10.0.0.1:3128\n",
        ] {
            assert_eq!(find(text.as_bytes()), Some(Secret::Password), "{text}");
        }
    }

    #[test]
    fn names_without_a_value_of_their_own_are_no_secrets() {
        for text in [
            "# password = hunter22\n",
            "password =\n",
            "password: ''\n",
            "PasswordAuthentication no\n",
            "password    requisite     pam_pwquality.so try_first_pass\n",
            "passwd:     files systemd\n",
            "passwd: files\n",
            "password_file = /etc/x\n",
            "password = /etc/x\n",
            "password: <password>\n",
            "password: ${PASSWORD}\npassword = $PASSWORD\npassword={{ .Password }}\n",
            "password: ********\n",
            "password: xxxxxx\n",
            "Password: the one of the first user\n",
            "tokenFile: /var/run/token\n",
            "token_ttl: 36000000000000000\n",
            "secret: my-registry-secret\n",
            "secretName: a1b2c3d4e5f6a7b8c9d0\n",
            "token: required\n",
            "password = getpass.getpass()\nconnect(password: bytes, x)\n",
            "os.version.10.eyJ eyJx.eyJy.z\nmodule.eyJabcdefghijk.abcdefghijkl\n",
            "server 0.centos.pool.ntp.org iburst\n",
            "proxy = http://proxy.example.com:3128/a@b\n",
            "git = ssh://git@example.com:22/x\n",
            "proxy = http://<user>:<password>@proxy\n",
            "proxy = http://$USER:$PASSWORD@proxy\n",
            "password = hunt\u{0}er22\n",
        ] {
            assert_eq!(find(text.as_bytes()), None, "{text}");
        }
    }
}
