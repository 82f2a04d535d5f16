//! Whether the API server can store a rendered config.

use super::finding::Finding;
use super::rule;
use serde::Serialize;
use std::fmt::Write as _;
use std::io;

/// Largest request that etcd takes by default, in bytes.
pub const REQUEST_LIMIT: u64 = 1_572_864;

/// What the API server and etcd add to an object as it is sent, in bytes, rounded up: UID, times, managed fields, key.
pub const ADDED_BY_SERVER: u64 = 4096;

/// Part of the limit from which on there is a warning, in percent.
const WARN_FROM: u64 = 80;

/// How many contributors are named.
const NAMED: usize = 5;

/// Bytes of `value` as JSON.
pub(super) fn of(value: &impl Serialize) -> u64 {
    let mut counter = Counter(0);
    // Counting does not fail, and all that is measured here can be serialized.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Bytes of `value` as JSON the way kubectl writes it, which escapes `<`, `>` and `&`.
pub(super) fn as_go(value: &impl Serialize) -> u64 {
    let mut counter = GoCounter(0);
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct GoCounter(u64);

impl io::Write for GoCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let escaped = bytes.iter().filter(|b| matches!(b, b'<' | b'>' | b'&')).count();
        self.0 += (bytes.len() + escaped * ("\\u003c".len() - 1)) as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is to say of a rendered config of `size` bytes. `weights` are bytes, item and source; most configs never ask for them.
pub(super) fn check(size: u64, weights: impl FnOnce() -> Vec<(u64, String, String)>, object: &str) -> Option<Finding> {
    let size = size + ADDED_BY_SERVER;
    let (rule, limit) = match size {
        _ if size > REQUEST_LIMIT => (&rule::RENDERED_SIZE, "more than"),
        _ if size * 100 >= REQUEST_LIMIT * WARN_FROM => (&rule::RENDERED_NEAR, "near"),
        _ => return None,
    };
    let mut weights = weights();
    weights.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut message = format!("the rendered config has {size} bytes, {limit} the {REQUEST_LIMIT} that fit; biggest:");
    for (i, (bytes, item, source)) in weights.iter().take(NAMED).enumerate() {
        let comma = if i == 0 { "" } else { "," };
        // Writing to a String does not fail.
        let _ = write!(message, "{comma} {item} of {source} ({bytes})");
    }
    Some(rule.finding(object, "", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights() -> Vec<(u64, String, String)> {
        (0..8).map(|i| (i * 1000, format!("file /etc/{i}"), "10-x".to_owned())).collect()
    }

    #[test]
    fn what_does_not_fit_is_refused_and_the_biggest_are_named() {
        let fits = REQUEST_LIMIT - ADDED_BY_SERVER;
        assert_eq!(check(fits, weights, "o").map(|f| f.rule), Some("rendered-near-limit"));
        let found = check(fits + 1, weights, "o").unwrap();
        assert_eq!(found.rule, "rendered-size");
        assert!(found.message.contains("biggest: file /etc/7 of 10-x (7000), file /etc/6"), "{found}");
        assert!(!found.message.contains("/etc/2"), "five are named: {found}");
    }

    #[test]
    fn the_warning_begins_at_80_percent() {
        let at = (REQUEST_LIMIT * 80).div_ceil(100) - ADDED_BY_SERVER;
        assert_eq!(check(at, weights, "o").map(|f| f.rule), Some("rendered-near-limit"));
        assert_eq!(check(at - 1, weights, "o"), None);
    }

    #[test]
    fn bytes_are_counted_as_they_are_sent() {
        let value = serde_json::json!({"a": ["é", 1, null]});
        assert_eq!(of(&value), serde_json::to_vec(&value).unwrap().len() as u64);
    }
}
