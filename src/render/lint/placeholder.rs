//! `<ssh-public-key>`: what an example leaves for its reader to fill in.
//!
//! Angle brackets have many other uses: markup, includes, redirects, addresses, patterns, names of keys. Only what can
//! hardly be one of them is taken for a placeholder.

/// Longest placeholder, in characters between the brackets.
const LENGTH: usize = 40;

/// Most words of a placeholder.
const WORDS: usize = 4;

/// Words in brackets that stand for themselves.
const PLAIN: [&str; 12] =
    ["none", "nil", "null", "empty", "unknown", "default", "unset", "br", "hr", "pre", "code", "html"];

/// The first placeholder of a text, with its line, from 1. Comments are not looked at, nor is a text that is markup or a
/// script, where brackets are syntax.
pub(crate) fn in_text(text: &str) -> Option<(usize, &str)> {
    if !text.contains('<') {
        return None;
    }
    let is_markup = ["</", "/>", "<?", "<!"].iter().any(|mark| text.contains(mark));
    if is_markup || text.starts_with("#!") {
        return None;
    }
    let mut lines = text.lines().enumerate().filter(|(_, line)| !is_comment(line));
    lines.find_map(|(i, line)| Some((i + 1, in_line(line)?)))
}

/// The first placeholder of a single line, such as a path or a key.
pub(crate) fn in_line(line: &str) -> Option<&str> {
    line.match_indices('<').find_map(|(at, _)| {
        let (before, rest) = (line[..at].chars().next_back(), &line[at + 1..]);
        let end = rest.find('>')?;
        let (inside, behind) = (&rest[..end], rest[end + 1..].chars().next());
        // `a<b>c`, `<<EOF>`, `(?<name>…)`, `<Control><Alt>t`, `<in >out`.
        let stands_alone = !before.is_some_and(|c| c.is_alphanumeric() || "<>?&\\".contains(c))
            && !behind.is_some_and(|c| c.is_alphanumeric() || "<>".contains(c));
        (stands_alone && is_name(inside)).then(|| &line[at..at + end + 2])
    })
}

fn is_name(inside: &str) -> bool {
    let ends = |c: char| c.is_alphanumeric();
    (2..=LENGTH).contains(&inside.chars().count())
        && inside.starts_with(char::is_alphabetic)
        && inside.ends_with(ends)
        && inside.chars().all(|c| c.is_alphanumeric() || " -_".contains(c))
        && inside.split_whitespace().count() <= WORDS
        && !PLAIN.iter().any(|word| inside.eq_ignore_ascii_case(word))
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["#", ";", "//", "--", "*", "/*"].iter().any(|mark| line.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_example_leaves_to_fill_in_is_found_with_its_line() {
        for (text, found) in [
            ("ssh-rsa <ssh-public-key>", (1, "<ssh-public-key>")),
            ("# servers\nserver <your NTP server> iburst\n", (2, "<your NTP server>")),
            ("a=1\nurl = https://<host>:8443/x", (2, "<host>")),
            ("node-ip: \"<NODE_IP>\"", (1, "<NODE_IP>")),
            ("/etc/<name>/x", (1, "<name>")),
            ("password=<密码>", (1, "<密码>")),
        ] {
            assert_eq!(in_text(text), Some(found), "{text}");
        }
    }

    #[test]
    fn other_uses_of_angle_brackets_are_not() {
        for text in [
            "<a>x</a>\n<key>\n",
            "<?xml version='1.0'?>\n<config>\n",
            "<VirtualHost>\nA b\n</VirtualHost>\n",
            "#include <stdio.h>\n",
            "#!/bin/sh\necho \"usage: $0 <name>\"\n",
            "# ExecStart=<path>\n",
            "ExecStart=/bin/sh -c 'cat <in >out'\n",
            "ExecStart=/bin/sh -c 'cat <in>out'\n",
            "cat <<EOF>x\n",
            "a <b && c> d\n",
            "if a < b then c > d\n",
            "Someone <someone@example.com>\n",
            "Vec<u8>\n",
            "regex ^(?<name>[a-z]+)\n",
            "'<Control><Alt>t' '<Super>Left'\n",
            "a: <none>\n",
            "<>\n< >\n<-x->\n<1>\n",
            "<14>Oct 11 message\n",
            "a <",
        ] {
            assert_eq!(in_text(text), None, "{text}");
        }
    }
}
