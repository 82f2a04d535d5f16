//! A line of an input as it can be shown: cut to a width around one column, harmless to a terminal, without secrets.

use std::ops::Range;
use unicode_width::UnicodeWidthChar as _;

/// Least room for an excerpt, in columns: below it nothing can be made out.
const LEAST: usize = 20;

/// Columns that a tab takes.
const TAB: usize = 4;

/// The key of a password hash.
const PASSWORD: &str = "passwordHash";

/// A line, and where the caret goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) text: String,
    /// Columns before the caret.
    pub(super) before: usize,
}

/// A character as it is shown, with the columns that it takes.
struct Cell {
    text: String,
    width: usize,
}

/// `line` in at most `room` columns, so that its character at `column`, from 1, is seen.
pub(super) fn excerpt(line: &str, column: usize, room: usize) -> Excerpt {
    let room = room.max(LEAST);
    let at = line.char_indices().nth(column.saturating_sub(1)).map_or(line.len(), |(at, _)| at);
    // Each character takes a column at least: no more of them than there is room for can be seen at either side.
    let start = line[..at].char_indices().rev().take(room + 1).last().map_or(at, |(start, _)| start);
    let end = line[at..].char_indices().nth(room + 1).map_or(line.len(), |(end, _)| at + end);
    let hidden = hidden(&line[..end]);
    let mut cells = Vec::new();
    let mut caret = None;
    let mut behind = start;
    for (i, c) in line[start..end].char_indices().map(|(i, c)| (start + i, c)) {
        if i >= at && caret.is_none() {
            caret = Some(cells.len().saturating_sub(usize::from(i < behind)));
        }
        if i < behind {
            continue;
        }
        match hidden.iter().find(|range| range.contains(&i)) {
            Some(range) => {
                cells.push(Cell { text: "…".to_owned(), width: 1 });
                behind = range.end;
            }
            None => cells.push(cell(c)),
        }
    }
    let caret = caret.unwrap_or(cells.len());
    fit(&cells, caret, room, start > 0, end < line.len())
}

/// Those of `cells` that fit, with `…` where there is more of the line.
fn fit(cells: &[Cell], caret: usize, room: usize, more_before: bool, more_behind: bool) -> Excerpt {
    let width = |cells: &[Cell]| cells.iter().map(|c| c.width).sum::<usize>();
    let mut before = width(&cells[..caret]);
    if !more_before && !more_behind && width(cells) <= room {
        return Excerpt { text: cells.iter().map(|c| c.text.as_str()).collect(), before };
    }
    let mut first = 0;
    // What stands at the column matters more than what leads there.
    while first < caret && before > room * 2 / 3 {
        before -= cells[first].width;
        first += 1;
    }
    let mut text = String::new();
    let mut left = room;
    if more_before || first > 0 {
        text.push('…');
        before += 1;
        left -= 1;
    }
    let all = !more_behind && width(&cells[first..]) <= left;
    for cell in &cells[first..] {
        if !all && cell.width >= left {
            text.push('…');
            break;
        }
        text.push_str(&cell.text);
        left -= cell.width;
    }
    Excerpt { text, before }
}

/// What a terminal would act on, or draw over its neighbour, is written as an escape.
fn cell(c: char) -> Cell {
    let text = match c {
        '\t' => " ".repeat(TAB),
        '\'' | '"' | '\\' => c.to_string(),
        _ => c.escape_debug().to_string(),
    };
    let width = text.chars().map(|c| c.width().unwrap_or(1)).sum();
    Cell { text, width }
}

/// Parts of a line that are nobody's business but the node's: the data of `data:` URLs, and password hashes.
fn hidden(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = line[from..].find("data:").map(|at| from + at) {
        let is_quote = |c: &char| matches!(c, '\'' | '"');
        let header = line[at..].find(',').map(|comma| &line[at..=at + comma]);
        let Some(header) = header.filter(|h| !h.contains(|c: char| c.is_whitespace() || is_quote(&c))) else {
            from = at + "data:".len();
            continue;
        };
        let start = at + header.len();
        // Only in quotes can anything follow on the line.
        let quote = line[..at].chars().next_back().filter(is_quote);
        let end = quote.and_then(|quote| line[start..].find(quote)).map_or(line.len(), |length| start + length);
        if start < end {
            found.push(start..end);
        }
        from = end;
    }
    if let Some(at) = line.find(PASSWORD).map(|at| at + PASSWORD.len()) {
        let start = line.len() - line[at..].trim_start_matches(['"', '\'', ':', ' ']).len();
        if start < line.len() {
            found.push(start..line.len());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The excerpt, with the caret's line.
    fn shown(line: &str, column: usize, room: usize) -> (String, String) {
        let Excerpt { text, before } = excerpt(line, column, room);
        (text, format!("{}^", " ".repeat(before)))
    }

    fn columns(text: &str) -> usize {
        text.chars().map(|c| c.width().unwrap_or(1)).sum()
    }

    #[test]
    fn a_line_that_fits_is_shown_whole() {
        assert_eq!(shown("    mode: \"0644\"", 5, 80), ("    mode: \"0644\"".into(), "    ^".into()));
        assert_eq!(shown("", 1, 80), (String::new(), "^".into()));
        assert_eq!(shown("ab", 9, 80), ("ab".into(), "  ^".into()), "a column behind the end is at the end");
        assert_eq!(shown("ab", 0, 80), ("ab".into(), "^".into()));
        let exact = "x".repeat(80);
        assert_eq!(shown(&exact, 80, 80), (exact.clone(), format!("{}^", " ".repeat(79))));
    }

    #[test]
    fn a_long_line_is_cut_around_its_column() {
        let line: String = ('a'..='z').chain('A'..='Z').collect();
        assert_eq!(shown(&line, 1, 20), ("abcdefghijklmnopqrs…".into(), "^".into()));
        assert_eq!(shown(&line, 26, 20), ("…mnopqrstuvwxyzABCD…".into(), "              ^".into()));
        assert_eq!(shown(&line, 52, 20), ("…MNOPQRSTUVWXYZ".into(), "              ^".into()));
        // In any line, at any column and width: nothing is wider than the room, and the caret is below its character.
        for room in [20, 21, 33, 80] {
            for column in 1..=52 {
                let (text, caret) = shown(&line, column, room);
                assert!(columns(&text) <= room, "{text}");
                let below = text.chars().nth(caret.len() - 1);
                assert_eq!(below, line.chars().nth(column - 1), "{column} in {room}: {text}");
            }
        }
        // No more of it is looked at than can be seen.
        let endless = "x".repeat(20 << 20);
        let begun = std::time::Instant::now();
        for column in [1, 10 << 20, 20 << 20] {
            assert!(columns(&shown(&endless, column, 100).0) <= 100);
        }
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }

    #[test]
    fn tabs_and_wide_and_control_characters_keep_the_caret_in_its_place() {
        assert_eq!(shown("\tab", 2, 80), ("    ab".into(), "    ^".into()));
        assert_eq!(shown("漢字: x", 3, 80), ("漢字: x".into(), "    ^".into()));
        assert_eq!(shown("é: x", 2, 80), ("é: x".into(), " ^".into()));
        // A terminal would change colour, go back, or turn the direction of writing.
        for (odd, escaped) in [
            ('\u{1b}', "\\u{1b}"),
            ('\r', "\\r"),
            ('\0', "\\0"),
            ('\u{202e}', "\\u{202e}"),
            ('\u{9b}', "\\u{9b}"),
            ('\u{301}', "\\u{301}"),
        ] {
            let (text, caret) = shown(&format!("a{odd}b"), 3, 80);
            assert_eq!(text, format!("a{escaped}b"));
            assert_eq!(caret.len(), text.len());
        }
        let wide = "漢".repeat(100);
        let (text, caret) = shown(&wide, 50, 31);
        assert!(columns(&text) <= 31 && caret.len() <= 31, "{text}");
    }

    #[test]
    fn contents_of_files_and_password_hashes_are_not_shown() {
        for (line, text) in [
            ("source: data:;base64,c2VjcmV0", "source: data:;base64,…"),
            ("source: 'data:,secret' # why", "source: 'data:,…' # why"),
            ("{\"source\":\"data:,secret\",\"mode\":1}", "{\"source\":\"data:,…\",\"mode\":1}"),
            ("source: 'data:,'", "source: 'data:,'"),
            ("a: 'data:,secret', b: 'data:,secret'", "a: 'data:,…', b: 'data:,…'"),
            ("# data: x, y", "# data: x, y"),
            ("data:", "data:"),
            ("passwordHash: $6$secret", "passwordHash: …"),
            ("{\"passwordHash\": \"$6$secret\"}", "{\"passwordHash\": \"…"),
            ("passwordHash:", "passwordHash:"),
        ] {
            assert_eq!(excerpt(line, 1, 80).text, text);
        }
        // Neither when the column is behind them, nor in them.
        let line = format!("{{\"source\":\"data:,{}\",\"mode\":1}}", "s".repeat(500));
        let mode = line.find("\"mode").unwrap() + 1;
        for column in [mode, 100, 400] {
            let (text, caret) = shown(&line, column, 60);
            assert!(!text.contains("ss"), "{text}");
            let below = text.chars().nth(caret.len() - 1);
            assert_eq!(below, Some(if column == mode { '"' } else { '…' }), "{text}");
        }
    }
}
