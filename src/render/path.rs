//! Field paths as kubectl prints them, `spec.config.storage.files[0].mode`, and JSON pointers.

/// `base` and a key below it. A key that could be misread stands in quotes: `labels["a.b/c"]`.
pub fn key(base: &str, name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '$');
    match (plain, base.is_empty()) {
        (true, true) => name.to_owned(),
        (true, false) => format!("{base}.{name}"),
        (false, _) => format!("{base}[{name:?}]"),
    }
}

/// `base` and an element of the list there.
pub fn index(base: &str, index: usize) -> String {
    format!("{base}[{index}]")
}

/// The field path below `base` of a JSON pointer.
pub fn from_pointer(base: &str, pointer: &str) -> String {
    pointer.split('/').skip(1).fold(base.to_owned(), |path, part| {
        let part = part.replace("~1", "/").replace("~0", "~");
        let is_index = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if is_index && !path.is_empty() { format!("{path}[{part}]") } else { key(&path, &part) }
    })
}

/// The JSON pointer of a field path. What is no field path gives the pointer of its readable beginning.
pub fn to_pointer(path: &str) -> String {
    let mut pointer = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let part;
        if let Some(quoted) = rest.strip_prefix("[\"") {
            let Some(end) = closing_quote(quoted) else { break };
            let Ok(text) = serde_json::from_str::<String>(&format!("\"{}\"", &quoted[..end])) else { break };
            part = text;
            rest = quoted[end..].trim_start_matches('"');
            rest = rest.strip_prefix(']').unwrap_or_default();
        } else if let Some(list) = rest.strip_prefix('[') {
            let Some((number, after)) = list.split_once(']') else { break };
            part = number.to_owned();
            rest = after;
        } else {
            let rest_of_name = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest_of_name.find(['.', '[']).unwrap_or(rest_of_name.len());
            part = rest_of_name[..end].to_owned();
            rest = &rest_of_name[end..];
            if end == 0 {
                break;
            }
        }
        pointer.push('/');
        pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

/// Where the quoted text ends: at a quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes.then_some(at)
    })
}

/// Whether an absolute path is written in the one way that comparing needs: no `//`, `.`, `..`, and no `/` at its end.
pub fn is_clean(path: &str) -> bool {
    path == "/"
        || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// Whether `path` is `parent` or below it; `/etc/foobar` is not below `/etc/foo`.
pub fn is_within(path: &str, parent: &str) -> bool {
    match path.strip_prefix(parent) {
        Some("") => true,
        Some(rest) => parent == "/" || rest.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_pointers_say_the_same() {
        for (path, pointer) in [
            ("spec.config.storage.files[0].mode", "/spec/config/storage/files/0/mode"),
            ("spec", "/spec"),
            ("", ""),
            ("metadata.labels[\"a.b/c\"]", "/metadata/labels/a.b~1c"),
            ("spec[\"\"].x", "/spec//x"),
            ("spec[\"a\\\"]b\"][3]", "/spec/a\"]b/3"),
            ("spec[\"~\"]", "/spec/~0"),
        ] {
            assert_eq!(to_pointer(path), pointer, "{path}");
            assert_eq!(from_pointer("", pointer), path, "{pointer}");
        }
        assert_eq!(from_pointer("spec.config", "/systemd/units/2/name"), "spec.config.systemd.units[2].name");
    }
}
