//! A diff as text: unified, or one line an item. Colours are the command's: each line comes with what it is.

use super::{Diff, FieldDiff, ItemDiff, Sign, TextDiff};
use crate::change::Difference;
use std::fmt::{self, Write as _};

/// What a printed line is, for those who colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `file /etc/x changed: mode 0644 -> 0600`.
    Heading,
    /// What a node would report of it.
    Deviation,
    /// `--- a/etc/x`, `+++ b/etc/x`.
    Name,
    /// `@@ -1 +1 @@`.
    Hunk,
    /// A line that both have.
    Context,
    /// A line of the old side.
    Removed,
    /// A line of the new side.
    Added,
    /// `\ No newline at end of file`.
    Mark,
}

impl Diff {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All lines of the unified form in order, without their line ends. Contents are handed on as they are: control
    /// characters in them, too.
    pub fn lines(&self, mut line: impl FnMut(Part, &str) -> fmt::Result) -> fmt::Result {
        for item in &self.items {
            line(Part::Heading, &item.heading())?;
            for deviation in &item.deviations {
                line(Part::Deviation, &format!("  {deviation}"))?;
            }
            for text in &item.texts {
                text.lines(&mut line)?;
            }
        }
        Ok(())
    }

    /// One line an item, `file /etc/x  changed  +1 -2  mode`, and one with the totals; empty when nothing differs.
    pub fn stat(&self) -> String {
        let mut text = String::new();
        let widest = |width: usize, item: &ItemDiff| width.max(item.item.chars().count());
        let width = self.items.iter().fold(0, widest);
        let (mut added, mut removed) = (0, 0);
        for item in &self.items {
            let count = |of: fn(&TextDiff) -> usize| item.texts.iter().map(of).sum::<usize>();
            let (plus, minus) = (count(|t| t.added), count(|t| t.removed));
            (added, removed) = (added + plus, removed + minus);
            let counts = format!("+{plus} -{minus}");
            let mut line = format!("{:width$}  {:7}  {counts:8}", item.item, item.difference.to_string());
            for word in item.words() {
                let _ = write!(line, " {word}");
            }
            // Writing to a String does not fail.
            let _ = writeln!(text, "{}", line.trim_end());
        }
        match self.items.len() {
            0 => {}
            1 => {
                let _ = writeln!(text, "1 item, +{added} -{removed}");
            }
            n => {
                let _ = writeln!(text, "{n} items, +{added} -{removed}");
            }
        }
        text
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines(|_, text| {
            f.write_str(text)?;
            f.write_char('\n')
        })
    }
}

impl ItemDiff {
    fn heading(&self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|field| field.printed(self.difference)).collect();
        // Contents without a line have no hunk to show.
        let empty = self.texts.iter().any(|t| !t.binary && t.hunks.is_empty()).then(|| "empty".to_owned());
        let said: Vec<String> = fields.into_iter().chain(empty).collect();
        let colon = if said.is_empty() { "" } else { ": " };
        format!("{} {}{colon}{}", self.item, self.difference, said.join(", "))
    }

    /// What differs beside lines, in words. Of an item that only one side has everything does.
    fn words(&self) -> impl Iterator<Item = String> + '_ {
        let fields = self.fields.iter().filter(|_| self.difference == Difference::Changed).map(|f| f.field.clone());
        let binary = self.texts.iter().filter(|t| t.binary).map(|t| {
            let size = |side: &Option<super::Blob>| side.as_ref().map_or(0, |blob| blob.size);
            format!("binary {} -> {} bytes", size(&t.old), size(&t.new))
        });
        let deviations = (!self.deviations.is_empty() && self.texts.is_empty()).then(|| self.deviations.join(", "));
        fields.chain(binary).chain(deviations)
    }
}

impl FieldDiff {
    fn printed(&self, of: Difference) -> String {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        match of {
            Difference::Added => format!("{} {}", self.field, side(&self.new)),
            Difference::Removed => format!("{} {}", self.field, side(&self.old)),
            Difference::Changed => format!("{} {} -> {}", self.field, side(&self.old), side(&self.new)),
        }
    }
}

impl TextDiff {
    fn lines(&self, line: &mut impl FnMut(Part, &str) -> fmt::Result) -> fmt::Result {
        // Keys have no path that a config knows.
        let slash = if self.path.starts_with('/') { "" } else { "/" };
        let (old, new) = (format!("a{slash}{}", self.path), format!("b{slash}{}", self.path));
        if self.binary {
            for (part, name, side) in [(Part::Removed, old, &self.old), (Part::Added, new, &self.new)] {
                if let Some(blob) = side {
                    line(part, &format!("binary {name}: {} bytes, sha256 {}", blob.size, blob.sha256))?;
                }
            }
            return Ok(());
        }
        if self.hunks.is_empty() {
            return Ok(());
        }
        let name = |side: bool, name: String| if side { name } else { "/dev/null".to_owned() };
        line(Part::Name, &format!("--- {}", name(self.old.is_some(), old)))?;
        line(Part::Name, &format!("+++ {}", name(self.new.is_some(), new)))?;
        for hunk in &self.hunks {
            line(Part::Hunk, &hunk.header())?;
            for one in &hunk.lines {
                let (part, sign) = match one.sign {
                    Sign::Context => (Part::Context, ' '),
                    Sign::Removed => (Part::Removed, '-'),
                    Sign::Added => (Part::Added, '+'),
                };
                let text = one.text.strip_suffix('\n');
                line(part, &format!("{sign}{}", text.unwrap_or(&one.text)))?;
                if text.is_none() {
                    line(Part::Mark, "\\ No newline at end of file")?;
                }
            }
        }
        Ok(())
    }
}
