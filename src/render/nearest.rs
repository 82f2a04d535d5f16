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

/// Help for a word that is not known, if one is near: `did you mean X?`.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(meant)
}

/// The same, once the word is found.
pub fn meant(near: &str) -> String {
    format!("did you mean {near}?")
}

/// What to say when something is asked for by a name that nothing has: which one is meant, or else all there are.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let near = hint(name, known.clone());
    let all = || format!("known here: {}", known.into_iter().collect::<Vec<_>>().join(", "));
    format!("there is no {what} {name:?}; {}", near.unwrap_or_else(all))
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
    fn an_unknown_name_is_told_the_one_that_is_meant_or_all() {
        let pools = ["master", "worker"];
        assert_eq!(unknown("pool", "mastr", pools), "there is no pool \"mastr\"; did you mean master?");
        assert_eq!(unknown("pool", "workers", pools), "there is no pool \"workers\"; did you mean worker?");
        assert_eq!(unknown("pool", "infra", pools), "there is no pool \"infra\"; known here: master, worker");
    }

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
