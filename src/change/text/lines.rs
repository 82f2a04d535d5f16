//! Two texts as the hunks of a unified diff. Pure and bounded: how far it looks follows from the sizes alone.

use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};
use std::collections::BTreeMap;

/// Unchanged lines around a change, as `diff -u` shows them.
const CONTEXT: usize = 3;

/// Beyond this product of the lines that differ, all of them are shown as replaced, since the search takes more time the
/// larger it is and nobody reads a diff of that size line by line. Chosen by size and not by a clock: what is printed must
/// not depend on how fast a machine is. 100,000 lines against as many are a matter of seconds in the worst order.
const SEARCH_LIMIT: usize = 10_000_000_000;

/// What a line of a hunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Sign {
    /// In both texts.
    #[serde(rename = " ")]
    Context,
    /// Only in the old text.
    #[serde(rename = "-")]
    Removed,
    /// Only in the new text.
    #[serde(rename = "+")]
    Added,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// What it is.
    pub sign: Sign,
    /// The line with its line end; only the last line of a text may lack one.
    pub text: String,
}

/// Lines that differ, with some around them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// Index of its first line in the old text, from 0.
    pub old_start: usize,
    /// Index of its first line in the new text, from 0.
    pub new_start: usize,
    /// The lines, in order.
    pub lines: Vec<Line>,
}

impl Hunk {
    /// How many of its lines the old text has.
    pub fn old_lines(&self) -> usize {
        self.lines.iter().filter(|l| l.sign != Sign::Added).count()
    }

    /// How many of its lines the new text has.
    pub fn new_lines(&self) -> usize {
        self.lines.iter().filter(|l| l.sign != Sign::Removed).count()
    }

    /// `@@ -1,3 +1,4 @@`: lines from 1; where there is none, the line before which it would stand.
    pub fn header(&self) -> String {
        let range = |start: usize, count: usize| match count {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            _ => format!("{},{count}", start + 1),
        };
        format!("@@ -{} +{} @@", range(self.old_start, self.old_lines()), range(self.new_start, self.new_lines()))
    }
}

/// The hunks that make `new` of `old`; none when they are equal.
pub(super) fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let (old_middle, new_middle) = (&old_rest[..old_rest.len() - after], &new_rest[..new_rest.len() - after]);
    if old_middle.is_empty() && new_middle.is_empty() {
        return Vec::new();
    }
    let mut ops = vec![DiffOp::Equal { old_index: 0, new_index: 0, len: before }];
    if old_middle.len().saturating_mul(new_middle.len()) > SEARCH_LIMIT {
        ops.push(DiffOp::Replace {
            old_index: before,
            old_len: old_middle.len(),
            new_index: before,
            new_len: new_middle.len(),
        });
    } else {
        ops.extend(search(old_middle, new_middle).into_iter().map(|op| shifted(op, before)));
    }
    ops.push(DiffOp::Equal { old_index: old.len() - after, new_index: new.len() - after, len: after });
    ops.retain(|op| !op.old_range().is_empty() || !op.new_range().is_empty());
    group_diff_ops(ops, CONTEXT).iter().filter_map(|group| hunk(group, &old, &new)).collect()
}

fn search(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    // Numbers compare faster than lines.
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut a, mut b) = (Vec::with_capacity(old.len()), Vec::with_capacity(new.len()));
    for (lines, to) in [(old, &mut a), (new, &mut b)] {
        for line in lines {
            let next = numbers.len();
            to.push(*numbers.entry(line).or_insert(next));
        }
    }
    capture_diff_slices(Algorithm::Myers, &a, &b)
}

/// An operation on the middle of two texts as one on the whole of them.
fn shifted(op: DiffOp, by: usize) -> DiffOp {
    match op {
        DiffOp::Equal { old_index, new_index, len } => {
            DiffOp::Equal { old_index: old_index + by, new_index: new_index + by, len }
        }
        DiffOp::Delete { old_index, old_len, new_index } => {
            DiffOp::Delete { old_index: old_index + by, old_len, new_index: new_index + by }
        }
        DiffOp::Insert { old_index, new_index, new_len } => {
            DiffOp::Insert { old_index: old_index + by, new_index: new_index + by, new_len }
        }
        DiffOp::Replace { old_index, old_len, new_index, new_len } => {
            DiffOp::Replace { old_index: old_index + by, old_len, new_index: new_index + by, new_len }
        }
    }
}

fn hunk(group: &[DiffOp], old: &[&str], new: &[&str]) -> Option<Hunk> {
    let first = group.first()?;
    let mut lines = Vec::new();
    let mut push = |sign: Sign, from: &[&str]| {
        lines.extend(from.iter().map(|line| Line { sign, text: (*line).to_owned() }));
    };
    for op in group {
        if op.tag() == DiffTag::Equal {
            push(Sign::Context, &old[op.old_range()]);
        } else {
            push(Sign::Removed, &old[op.old_range()]);
            push(Sign::Added, &new[op.new_range()]);
        }
    }
    Some(Hunk { old_start: first.old_range().start, new_start: first.new_range().start, lines })
}

/// What `patch` does: the new text, if the hunks fit the old one.
#[cfg(test)]
pub(super) fn applied(old: &str, hunks: &[Hunk]) -> Option<String> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut at, mut new) = (0, Vec::new());
    for hunk in hunks {
        new.extend_from_slice(old.get(at..hunk.old_start)?);
        at = hunk.old_start;
        if new.len() != hunk.new_start {
            return None;
        }
        for line in &hunk.lines {
            if line.sign != Sign::Added {
                if *old.get(at)? != line.text {
                    return None;
                }
                at += 1;
            }
            if line.sign != Sign::Removed {
                new.push(&line.text);
            }
        }
    }
    new.extend_from_slice(old.get(at..)?);
    Some(new.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(old: &str, new: &str) -> String {
        let mut text = String::new();
        for hunk in hunks(old, new) {
            text.push_str(&hunk.header());
            for line in &hunk.lines {
                text.push('|');
                text.push_str(match line.sign {
                    Sign::Context => " ",
                    Sign::Removed => "-",
                    Sign::Added => "+",
                });
                text.push_str(line.text.trim_end());
            }
            text.push(';');
        }
        text
    }

    fn numbered(numbers: &mut dyn Iterator<Item = usize>) -> String {
        let lines: Vec<String> = numbers.map(|n| format!("{n}\n")).collect();
        lines.concat()
    }

    #[test]
    fn hunks_are_counted_as_diff_counts_them() {
        for (old, new, expected) in [
            ("", "", ""),
            ("a\n", "a\n", ""),
            ("", "a\n", "@@ -0,0 +1 @@|+a;"),
            ("", "a\nb\n", "@@ -0,0 +1,2 @@|+a|+b;"),
            ("a\n", "", "@@ -1 +0,0 @@|-a;"),
            ("a\nb\n", "a\nc\n", "@@ -1,2 +1,2 @@| a|-b|+c;"),
            ("a", "a\n", "@@ -1 +1 @@|-a|+a;"),
            ("1\n2\n3\n4\n5\n", "1\n2\n3\n4\n6\n", "@@ -2,4 +2,4 @@| 2| 3| 4|-5|+6;"),
            ("1\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n", "@@ -3,3 +3,4 @@| 3| 4| 5|+6;"),
        ] {
            assert_eq!(printed(old, new), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old = numbered(&mut (0..100));
        let new = old.replace("\n10\n", "\nten\n").replace("\n90\n", "\n");
        assert_eq!(
            printed(&old, &new),
            "@@ -8,7 +8,7 @@| 7| 8| 9|-10|+ten| 11| 12| 13;@@ -88,7 +88,6 @@| 87| 88| 89|-90| 91| 92| 93;"
        );
    }

    #[test]
    fn what_is_too_large_to_search_is_replaced_as_a_whole() {
        // Reversed, so that the search would not end soon, with a line in front and one at the end that stay.
        let lines = 101_000;
        let text = |numbers: &mut dyn Iterator<Item = usize>| format!("first\n{}last\n", numbered(numbers));
        let (old, new) = (text(&mut (0..lines)), text(&mut (0..lines).rev()));
        let found = hunks(&old, &new);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].lines.len(), 2 * lines + 2, "and no line between them was searched for");
        assert_eq!(applied(&old, &found).as_deref(), Some(new.as_str()));
    }

    /// Few different lines, so that many are alike; the last with or without a line end.
    fn text() -> impl Strategy<Value = String> {
        (proptest::collection::vec("[abc]{0,2}\r?", 0..40), any::<bool>())
            .prop_map(|(lines, ends)| lines.join("\n") + if ends { "\n" } else { "" })
    }

    proptest! {
        #[test]
        fn applied_to_the_old_text_they_give_the_new_one(old in text(), new in text()) {
            let found = hunks(&old, &new);
            prop_assert_eq!(applied(&old, &found), Some(new.clone()));
            prop_assert_eq!(found.is_empty(), old == new);
            for hunk in &found {
                prop_assert!(hunk.lines.iter().any(|l| l.sign != Sign::Context));
            }
        }

        #[test]
        fn they_are_the_same_each_time(old in text(), new in text()) {
            // The crate that searches uses maps whose order differs from one to the next.
            prop_assert_eq!(hunks(&old, &new), hunks(&old, &new));
        }
    }
}
