//! Did you mean.

/// What nobody mistypes for a key is not worth a table: longer words, in bytes, are near nothing.
const LONGEST: usize = 64;

/// What was written as names are: in lower case, with `_` for `-`, without quotes, spaces, and Rust's `r#`.
pub(crate) fn letters(written: &str) -> impl Iterator<Item = char> + Clone {
    let letters = written.strip_prefix("r#").unwrap_or(written).chars();
    let letters = letters.filter(|letter| !letter.is_whitespace() && !matches!(letter, '"' | '\''));
    letters.map(|letter| if letter == '-' { '_' } else { letter.to_ascii_lowercase() })
}

/// The known name closest to what was written, if it is close enough to be meant.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be off, and one in short names.
    let limit = (letters(written).count() / 3).max(1);
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

/// Edits of one letter between two words, case aside, a swap of neighbours counting as one (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    if a.len() > LONGEST || b.len() > LONGEST {
        return usize::MAX;
    }
    let mut places = ['\0'; LONGEST];
    let len = letters(b).zip(&mut places).map(|(letter, place)| *place = letter).count();
    let b = &places[..len];
    // Rows of the table: of the letters of `a` up to the one before last, the last, and this one.
    let mut before = [0; LONGEST + 1];
    let mut last: [usize; LONGEST + 1] = core::array::from_fn(|j| j);
    let mut previous = None;
    for (i, x) in letters(a).enumerate() {
        let mut row = [i + 1; LONGEST + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if j > 0 && x == b[j - 1] && previous == Some(y) {
                cost = cost.min(before[j - 1] + 1);
            }
            row[j + 1] = cost;
        }
        (before, last, previous) = (last, row, Some(x));
    }
    last[len]
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
        assert_eq!(nearest("r#tp", keys), Some("tp"));
        assert_eq!(nearest("GPipe", ["gpipe", "zb_v"]), Some("gpipe"));
        assert_eq!(nearest("zb - v", ["zb_h1", "zb_v"]), Some("zb_v"));
        assert_eq!(nearest("größen", ["größe"]), Some("größe"));
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest(&"x".repeat(64), keys), None);
        assert_eq!(nearest(&"x".repeat(10_000), keys), None);
    }
}
