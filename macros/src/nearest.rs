//! Did you mean.

/// The known name closest to what was written, if it is close enough to be meant.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be off, and one in short names.
    let limit = (written.len() / 3).max(1);
    known
        .into_iter()
        .map(|name| (distance(written, name), name))
        .filter(|(distance, name)| *distance <= limit || is_word_of(written, name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `dense_layers` for `dense`: one is a whole word of the other.
fn is_word_of(written: &str, name: &str) -> bool {
    let holds = |long: &str, short: &str| long.split('_').any(|word| word == short);
    holds(written, name) || holds(name, written)
}

/// Edits of one letter between two words, a swap of neighbours counting as one (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    // What nobody mistypes for a key is not worth a table.
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_what_was_meant() {
        let keys = ["dp", "tp", "pp", "sequence_parallel", "heads", "dense"];
        assert_eq!(nearest("sequence_paralel", keys), Some("sequence_parallel"));
        assert_eq!(nearest("haeds", keys), Some("heads"));
        assert_eq!(nearest("dense_layers", keys), Some("dense"));
        assert_eq!(nearest("microbatch", keys), None);
        assert_eq!(nearest(&"x".repeat(10_000), keys), None);
    }
}
