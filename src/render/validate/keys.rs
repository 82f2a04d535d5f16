//! Users of one source: only `boot`, only its SSH keys, each key one line.

use super::{Report, duplicates, quoted};
use crate::api::SSH_USER;
use crate::render::layer::UserLayer;
use crate::render::rule;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Types of keys that sshd takes in `authorized_keys`.
const KEY_TYPES: [&str; 14] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ssh-dss",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-ed25519-cert-v01@openssh.com",
    "ssh-rsa-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "ssh-xmss@openssh.com",
];

pub(super) fn check(users: &[UserLayer], report: &mut Report) {
    for (i, user) in users.iter().enumerate() {
        let field = format!("passwd.users[{i}]");
        who(user, &field, report);
        for (j, key) in user.keys.iter().enumerate() {
            self::key(key, &format!("{field}.sshAuthorizedKeys[{j}]"), report);
        }
        let keys = user.keys.iter().enumerate();
        // Keys are public, but long: the place tells which one it is.
        let repeated = keys.filter(|(j, key)| user.keys[..*j].contains(key));
        for (j, key) in repeated {
            let first = user.keys.iter().position(|k| k == key).unwrap_or_default();
            let message = format!("is the same key as sshAuthorizedKeys[{first}]");
            report.add(&rule::DUPLICATE_ITEM, &format!("{field}.sshAuthorizedKeys[{j}]"), message);
        }
    }
    let names = users.iter().enumerate().filter(|(_, u)| u.called() == SSH_USER);
    duplicates(names.map(|(i, u)| (format!("passwd.users[{i}]"), u.called())), "user", report);
}

fn who(user: &UserLayer, field: &str, report: &mut Report) {
    let spelled = if user.name.is_some() { "name" } else { "user" };
    match (user.name, user.alias) {
        (Some(name), Some(alias)) if name != alias => {
            let message = format!("name is {}, user is {}", quoted(name), quoted(alias));
            report.help(&rule::USER, field, message, "keep name: boot");
        }
        (None, None) => {
            report.help(&rule::USER, &format!("{field}.name"), "is missing", format!("write name: {SSH_USER}"));
        }
        _ if user.called() != SSH_USER => {
            let message = format!("found {}, expected {SSH_USER}", quoted(user.called()));
            report.add(&rule::USER, &format!("{field}.{spelled}"), message);
        }
        _ => {}
    }
}

fn key(key: &str, field: &str, report: &mut Report) {
    if key.trim().is_empty() {
        return report.add(&rule::KEY_LINE, field, "is empty");
    }
    // A line break would smuggle a second key in; none of the others belongs into a key.
    if let Some(c) = key.chars().find(|c| c.is_control() && *c != '\t') {
        let help = match key.trim_end_matches(['\n', '\r']) {
            rest if !rest.contains(char::is_control) => "remove the line break at its end; in YAML, write |- for |",
            _ => rule::KEY_LINE.fix,
        };
        return report.help(&rule::KEY_LINE, field, format!("holds {c:?}"), help);
    }
    if let Some(problem) = form_problem(key) {
        report.add(&rule::KEY_FORM, field, problem);
    }
}

/// Why sshd would pass over the line.
fn form_problem(line: &str) -> Option<String> {
    if line.trim_start().starts_with('#') {
        return Some("is a comment".to_owned());
    }
    // Options, if any, stand before the type and may hold blanks in quotes; the type is a known word, so it is looked for.
    let words: Vec<&str> = line.split([' ', '\t']).filter(|w| !w.is_empty()).collect();
    let Some(at) = words.iter().position(|w| KEY_TYPES.contains(w)) else {
        return Some("names no type of key that is known, such as ssh-ed25519".to_owned());
    };
    let (type_, Some(text)) = (words[at], words.get(at + 1)) else {
        return Some(format!("has nothing after {}", words[at]));
    };
    let Ok(blob) = STANDARD.decode(text) else {
        return Some(format!("what follows {type_} is not base64"));
    };
    match blob_fields(&blob) {
        Some(fields) if fields.first() == Some(&type_.as_bytes()) && fields.len() > 1 => None,
        Some(_) => Some(format!("the key is not of type {type_}")),
        None => Some("the key is cut short".to_owned()),
    }
}

/// The length-prefixed fields of a key; none when it ends within one.
fn blob_fields(blob: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = blob;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        fields.push(after.get(..length)?);
        rest = &after[length..];
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIGtjp6lmGJb0Gu3qNXNAEqjKTUWTZPWGCFXLJQmoPJFk";

    #[test]
    fn a_line_that_sshd_ignores_is_seen() {
        for (line, problem) in [
            (format!("ssh-ed25519 {KEY} me@here"), None),
            (format!("ssh-ed25519 {KEY}"), None),
            (format!("from=\"10.0.0.0/8\",command=\"echo 'a b'\" ssh-ed25519 {KEY} me"), None),
            (format!("ssh-rsa {KEY}"), Some("not of type ssh-rsa")),
            (format!("ssh-ed25519 {}", &KEY[..40]), Some("cut short")),
            ("ssh-rsa <ssh-public-key>".to_owned(), Some("not base64")),
            ("ssh-ed25519".to_owned(), Some("nothing after")),
            (KEY.to_owned(), Some("no type of key")),
            (format!("# ssh-ed25519 {KEY}"), Some("comment")),
        ] {
            match (form_problem(&line), problem) {
                (None, None) => {}
                (Some(found), Some(part)) => assert!(found.contains(part), "{line}: {found}"),
                (found, expected) => panic!("{line}: {found:?}, expected {expected:?}"),
            }
        }
    }
}
