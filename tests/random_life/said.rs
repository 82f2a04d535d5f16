//! What a node says of itself, in the model's words. The texts are read, not asked for: a word that changes is seen here.

use crate::model::{Finding, Model, Outcome, Says};
use crate::step::ConfigIs;
use std::collections::BTreeSet;

/// What the annotations of a Node hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) phase: String,
    pub(crate) current: String,
    /// `desiredDrain`.
    pub(crate) asked: String,
}

impl Said {
    /// Whether that is what it shall say when it is at rest; else what it says instead.
    pub(crate) fn is_as(&self, model: &Model, outcome: &Outcome, pool: &str) -> Result<(), String> {
        let Self { state, reason, phase, current, asked } = self;
        let name = |config: Option<&ConfigIs>| config.map(|config| config.name(pool)).unwrap_or_default();
        let expected = name(model.current.as_ref());
        let rests = phase.is_empty() && (asked.is_empty() || asked.starts_with("uncordon"));
        let is = match &outcome.says {
            Says::Done => state == "Done" && reason.is_empty(),
            Says::Drift(found) => state == "Degraded" && drift(reason).as_ref() == Some(found),
            Says::InTheWay(items) => {
                state == "Degraded" && in_the_way(reason, &name(model.desired.as_ref())).as_ref() == Some(items)
            }
        };
        if is && rests && *current == expected {
            return Ok(());
        }
        let said = format!("{state} at {current}, phase {phase:?}, asks {asked:?}: {reason}");
        Err(format!("the node says {said}\nand not {:?} at {expected}", outcome.says))
    }
}

/// The findings of a reason that tells of drift.
fn drift(reason: &str) -> Option<BTreeSet<Finding>> {
    let (head, rest) = reason.strip_prefix("Drift: ")?.split_once(": ")?;
    let (list, _) = rest.split_once(". Put it right by hand, or create ")?;
    let found: BTreeSet<Finding> = list.split("; ").map(finding).collect();
    let count: usize = head.split(' ').next()?.parse().ok()?;
    assert_eq!(count, list.split("; ").count(), "{reason}");
    Some(found)
}

/// One of them: its item, and what of it.
pub(crate) fn finding(text: &str) -> Finding {
    let (item, what) = text
        .strip_prefix("keys of boot ")
        .map(|what| ("keys of boot", what))
        .or_else(|| text.split_once(' '))
        .unwrap_or((text, ""));
    let starts = [
        ("has other contents", "contents"),
        ("has mode", "mode"),
        ("has owner", "owner"),
        ("has group", "group"),
        ("is missing", "missing"),
        ("is not masked, expected masked", "mask"),
        ("is masked, expected not masked", "mask"),
        ("is masked until the next boot, expected not masked", "mask until the next boot"),
        ("is masked, expected enabled", "enablement"),
        ("is masked", "type"),
        ("is a ", "type"),
        ("is disabled, expected enabled", "enablement"),
        ("does not exist, expected enabled", "enablement"),
        ("is enabled", "enablement"),
        ("lacks the link", "enablement"),
    ];
    let kind = starts.iter().find(|(start, _)| what.starts_with(start));
    (item.to_owned(), kind.map_or("something else", |(_, kind)| kind))
}

/// The items and paths that are in the way of a config.
fn in_the_way(reason: &str, to: &str) -> Option<BTreeSet<String>> {
    let list = reason.strip_prefix(&format!("cannot update to {to}: "))?;
    let (list, _) = list.split_once(". It goes on by itself once that is put right")?;
    // What is said of an item may hold a semicolon itself.
    let item = |text: &str| {
        let first = text.split(' ').next().unwrap_or_default();
        (first.starts_with('/') || first.ends_with(".service")).then(|| first.to_owned())
    };
    Some(list.split("; ").filter_map(item).collect())
}
