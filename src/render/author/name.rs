//! What a source is called when nobody says.

use crate::api::label;

/// `99-ROLE-BASE`, where BASE is the last part of `of` without its extension, in letters that a name may have.
///
/// 99: laid over what the distribution and the installation bring.
pub fn default_name(role: &str, of: &str) -> String {
    let last = of.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let stem = match last.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => last,
    };
    let mut base = String::new();
    for c in stem.chars() {
        let c = c.to_ascii_lowercase();
        let fits = c.is_ascii_lowercase() || c.is_ascii_digit();
        match (fits, base.ends_with('-')) {
            (true, _) => base.push(c),
            (false, false) if !base.is_empty() => base.push('-'),
            _ => {}
        }
    }
    let base = base.trim_end_matches('-');
    let role = if role.is_empty() { label::WORKER } else { role };
    let base = if base.is_empty() { "files" } else { base };
    format!("99-{}-{base}", role.to_ascii_lowercase())
}
