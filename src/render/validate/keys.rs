//! Users of one source: only `boot`, only its SSH keys, each key one line.

use super::{Report, duplicates, quoted};
use crate::api::SSH_USER;
use crate::render::ignition::ssh_key::{self, KeyKind};
use crate::render::layer::UserLayer;
use crate::render::rule;
use std::collections::BTreeMap;
use std::fmt::Arguments;

pub(super) fn check(users: &[UserLayer], report: &mut Report) {
    for (i, user) in users.iter().enumerate() {
        let field = format!("passwd.users[{i}]");
        who(user, &field, report);
        for (j, key) in user.keys.iter().enumerate() {
            self::key(key, format_args!("{field}.sshAuthorizedKeys[{j}]"), report);
        }
        // Keys are public, but long: the place tells which one it is.
        let mut seen = BTreeMap::new();
        for (j, key) in user.keys.iter().enumerate() {
            let first = *seen.entry(key).or_insert(j);
            if first != j {
                let message = format!("is the same key as sshAuthorizedKeys[{first}]");
                report.add(&rule::DUPLICATE_ITEM, format_args!("{field}.sshAuthorizedKeys[{j}]"), message);
            }
        }
    }
    let names = users.iter().map(UserLayer::called).enumerate().filter(|(_, name)| *name == SSH_USER);
    duplicates(names, "user", |i| format!("passwd.users[{i}]"), report);
}

fn who(user: &UserLayer, field: &str, report: &mut Report) {
    let spelled = if user.name.is_some() { "name" } else { "user" };
    match (user.name, user.alias) {
        (Some(name), Some(alias)) if name != alias => {
            let message = format!("name is {}, user is {}", quoted(name), quoted(alias));
            report.help(&rule::USER, field, message, "keep name: boot");
        }
        (None, None) => {
            report.help(&rule::USER, format_args!("{field}.name"), "is missing", format!("write name: {SSH_USER}"));
        }
        _ if user.called() != SSH_USER => {
            let message = format!("found {}, expected {SSH_USER}", quoted(user.called()));
            report.add(&rule::USER, format_args!("{field}.{spelled}"), message);
        }
        _ => {}
    }
}

fn key(key: &str, field: Arguments, report: &mut Report) {
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
    match ssh_key::check(key) {
        Ok(KeyKind::Known) => {}
        Ok(KeyKind::Unknown) => {
            let help = "make sure that the node's sshd accepts it; ssh-ed25519 always is";
            report.help(&rule::KEY_FORM, field, "is of a type that sshd may not accept", help);
        }
        Err(error) => report.help(&rule::KEY_FORM, field, error.to_string(), ""),
    }
}
