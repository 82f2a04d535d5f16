//! Which known word was probably meant by one that is not known: for help in findings and errors.

/// The known word that is nearest to `name`, if one is near enough to be a slip of it.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong; case is the commonest slip and counts nothing.
    let most = (name.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|k| (distance(&name.to_lowercase(), &k.to_lowercase()), k))
        .filter(|(d, _)| *d <= most)
        .min()
        .map(|(_, k)| k)
}

/// Edit distance in which a swap of neighbours counts as one edit.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Far longer than every known key: whatever it is, it is no slip. Also bounds the work.
    if a.len() > 64 {
        return usize::MAX;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_key_and_another_word_finds_none() {
        let known = ["path", "mode", "contents", "overwrite", "sshAuthorizedKeys"];
        for (name, key) in [
            ("Mode", Some("mode")),
            ("content", Some("contents")),
            ("contnets", Some("contents")),
            ("sshAuthorisedKeys", Some("sshAuthorizedKeys")),
            ("sshauthorizedkeys", Some("sshAuthorizedKeys")),
            ("pth", Some("path")),
            ("permissions", None),
            ("x", None),
        ] {
            assert_eq!(nearest(name, known), key, "{name}");
        }
    }
}
