//! URLs as the reference reads them: the grammar of Go's `net/url`, and what each scheme asks for.
//!
//! mcx itself fetches nothing; this is here so that a config is judged as the specification says, before mcx refuses every
//! scheme but `data:`.

use super::data_url;
use std::net::Ipv6Addr;

/// What is wrong with a URL. Never quotes it: it may hold a password, or a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("unable to parse the URL")]
    Unparseable,
    #[error("the URL scheme must be http, https, tftp, gs, s3, arn or data")]
    Scheme,
    #[error("the versionId of an S3 object must not be empty")]
    VersionId,
    #[error("the ARN does not name an S3 object")]
    Arn,
    #[error(transparent)]
    Data(#[from] data_url::Error),
}

/// The parts that the rules look at.
struct Parts<'a> {
    /// Lower case; empty for a relative URL.
    scheme: String,
    /// What follows the scheme, when it does not begin with `/`.
    opaque: &'a str,
    query: &'a str,
}

/// Checks the source of a resource.
pub(super) fn check(url: &str) -> Result<(), Error> {
    let parts = parse(url)?;
    match parts.scheme.as_str() {
        "http" | "https" | "tftp" | "gs" => Ok(()),
        "s3" => version_id(parts.query),
        "arn" => {
            s3_arn(parts.opaque)?;
            version_id(parts.query)
        }
        "data" => Ok(data_url::check(url)?),
        _ => Err(Error::Scheme),
    }
}

/// The scheme, in lower case.
pub(super) fn scheme(url: &str) -> Result<String, Error> {
    parse(url).map(|parts| parts.scheme)
}

fn version_id(query: &str) -> Result<(), Error> {
    let first = query
        .split('&')
        // Go drops pairs with a raw `;`, and pairs that do not unescape.
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, value)| escapes_complete(name) && escapes_complete(value))
        .find(|(name, _)| unescape_query(name) == b"versionId");
    match first {
        Some((_, "")) => Err(Error::VersionId),
        _ => Ok(()),
    }
}

fn unescape_query(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(&text.replace('+', " ")).collect()
}

/// `arn:partition:service:region:account:resource`, of which the service and the shape of the resource are checked.
fn s3_arn(opaque: &str) -> Result<(), Error> {
    let mut sections = opaque.splitn(5, ':').skip(1);
    let (Some(service), Some(_), Some(_), Some(resource)) =
        (sections.next(), sections.next(), sections.next(), sections.next())
    else {
        return Err(Error::Arn);
    };
    let slashes = if resource.starts_with("accesspoint/") { 2 } else { 1 };
    if service == "s3" && opaque.matches('/').count() >= slashes { Ok(()) } else { Err(Error::Arn) }
}

fn parse(url: &str) -> Result<Parts<'_>, Error> {
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    if !escapes_complete(fragment) || url.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err(Error::Unparseable);
    }
    if url == "*" {
        return Ok(Parts { scheme: String::new(), opaque: "", query: "" });
    }
    let (scheme, rest) = split_scheme(url)?;
    let scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            return Ok(Parts { scheme, opaque: rest, query });
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err(Error::Unparseable);
        }
    }
    let mut path = rest;
    if (!scheme.is_empty() || !rest.starts_with("///"))
        && let Some(authority) = rest.strip_prefix("//")
    {
        let end = authority.find('/').unwrap_or(authority.len());
        check_authority(&scheme, &authority[..end])?;
        path = &authority[end..];
    }
    if !escapes_complete(path) {
        return Err(Error::Unparseable);
    }
    Ok(Parts { scheme, opaque: "", query })
}

/// The scheme and what follows its colon; an empty scheme when there is none.
fn split_scheme(url: &str) -> Result<(&str, &str), Error> {
    for (i, byte) in url.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err(Error::Unparseable),
            b':' => return Ok((&url[..i], &url[i + 1..])),
            _ => break,
        }
    }
    Ok(("", url))
}

fn check_authority(scheme: &str, authority: &str) -> Result<(), Error> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", authority),
    };
    let user_ok =
        escapes_complete(user) && user.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b));
    if user_ok && host_ok(scheme, host) { Ok(()) } else { Err(Error::Unparseable) }
}

fn host_ok(scheme: &str, host: &str) -> bool {
    match host.rfind('[') {
        Some(0) => {
            let Some((address, port)) = host[1..].rsplit_once(']') else { return false };
            port_ok(port) && ip_literal_ok(address)
        }
        Some(_) => false,
        None => {
            // Only http and https insist on a single colon; databases list several hosts.
            let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
            colon.is_none_or(|colon| port_ok(&host[colon..])) && host_escapes_ok(host)
        }
    }
}

/// An IPv6 address, which may have a zone behind `%25`.
fn ip_literal_ok(literal: &str) -> bool {
    let (address, zone) = match literal.find("%25") {
        Some(at) => (&literal[..at], Some(&literal[at..])),
        None => (literal, None),
    };
    // Escaped bytes (only non-ASCII ones may be) are never part of an address.
    host_escapes_ok(address)
        && address.parse::<Ipv6Addr>().is_ok()
        && zone.is_none_or(|zone| zone.len() > 3 && zone_escapes_ok(zone))
}

fn port_ok(port: &str) -> bool {
    port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Bytes that stand for themselves in a host.
fn host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

/// In a host only non-ASCII bytes may be escaped, and `%25`.
fn host_escapes_ok(host: &str) -> bool {
    escapes_ok(host, |byte| byte >= 0x80 || byte == b'%') && plain_host_bytes(host)
}

/// In a zone also those that could stand there themselves, and the space.
fn zone_escapes_ok(zone: &str) -> bool {
    escapes_ok(zone, |byte| byte == b'%' || byte == b' ' || host_byte(byte)) && plain_host_bytes(zone)
}

fn plain_host_bytes(text: &str) -> bool {
    text.bytes().all(|b| b >= 0x80 || b == b'%' || host_byte(b))
}

fn escapes_complete(text: &str) -> bool {
    escapes_ok(text, |_| true)
}

/// Whether each `%` is followed by two hex digits, and stands for an allowed byte.
fn escapes_ok(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] != b'%' {
            i += 1;
            continue;
        }
        let digit = |at: usize| bytes.get(at).and_then(|b| (*b as char).to_digit(16));
        let (Some(high), Some(low)) = (digit(i + 1), digit(i + 2)) else { return false };
        if !u8::try_from(high * 16 + low).is_ok_and(&allowed) {
            return false;
        }
        i += 3;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_judged_as_by_the_reference() {
        let fine = [
            "http://h",
            "http:",
            "http:foo",
            "HTTP://H/x y",
            "https://u:p@h:8080/a?b=c#d",
            "tftp://h/x",
            "gs://b/k",
            "s3://b/k",
            "s3://b/k?versionId=1",
            "s3://b/k?versionid=",
            "arn:aws:s3:::bucket/key",
            "ARN:aws:s3:::b/k",
            "arn:aws:s3:r:1:accesspoint/a/object/k",
            "http://[::1]:80/",
            "http://[fe80::1%25en0]/",
            "http://h:/",
            "http://%e4/",
            "tftp://a:1,b:2/",
        ];
        for url in fine {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        let wrong = [
            ("", Error::Scheme),
            ("/x", Error::Scheme),
            ("ftp://h", Error::Scheme),
            ("*", Error::Scheme),
            (":x", Error::Unparseable),
            ("://h", Error::Unparseable),
            (" http://h", Error::Unparseable),
            ("1http://h", Error::Unparseable),
            ("1.2.3.4:80", Error::Unparseable),
            ("http://h h/", Error::Unparseable),
            ("http://h:x/", Error::Unparseable),
            ("http://a:1:2/", Error::Unparseable),
            ("http://h/%4", Error::Unparseable),
            ("http://h/%zz", Error::Unparseable),
            ("http://h#%zz", Error::Unparseable),
            ("http://h/\n", Error::Unparseable),
            ("http://[::1/", Error::Unparseable),
            ("http://[1.2.3.4]/", Error::Unparseable),
            ("http://a[::1]/", Error::Unparseable),
            ("http://[fe80::1%25]/", Error::Unparseable),
            ("http://%41/", Error::Unparseable),
            ("http://u\"@h/", Error::Unparseable),
            ("s3://b/k?versionId=", Error::VersionId),
            ("s3://b/k?a=b&versionId", Error::VersionId),
            ("arn:aws:s3:::bucket/key?versionId=", Error::VersionId),
            ("arn:aws:ec2:::b/k", Error::Arn),
            ("arn:aws:s3:::bucket", Error::Arn),
            ("arn:aws:s3", Error::Arn),
            ("arn:aws:s3:::accesspoint/a", Error::Arn),
            ("arn://b/k", Error::Arn),
        ];
        for (url, error) in wrong {
            assert_eq!(check(url), Err(error), "{url}");
        }
    }

    #[test]
    fn an_error_never_quotes_the_url() {
        for url in ["http://user:s3cret@h h/", "data:,s3cret ", "s3cret://"] {
            let message = check(url).unwrap_err().to_string();
            assert!(!message.contains("s3cret"), "{message}");
        }
    }
}
