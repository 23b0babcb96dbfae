//! What a line that is neither TOML nor JSON was meant for: slips of people who have just written a declaration.

/// What to write instead, where that can be told from the line.
pub(crate) fn meant(line: &str, is_json: bool) -> Option<String> {
    let line = line.trim().trim_end_matches(',');
    if is_json {
        let (_, value) = line.split_once(':')?;
        return bare_word(value).map(|word| format!("text stands in quotes: `\"{word}\"`"));
    }
    missing_comma(line).or_else(|| {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some((key, value)) = line.split_once('=') {
            let word = bare_word(value)?;
            return Some(format!("text stands in quotes: `{} = \"{word}\"`", key.trim()));
        }
        let (key, value) = line.split_once(':')?;
        is_name(key.trim()).then(|| format!("write `{} = {}`", key.trim(), value.trim()))
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter))
}

/// A value of letters that is none of the words that either format knows.
fn bare_word(value: &str) -> Option<&str> {
    let word = value.trim();
    let is_known = ["true", "false", "null", "inf", "nan"].contains(&word);
    (is_name(word) && word.starts_with(char::is_alphabetic) && !is_known).then_some(word)
}

/// The first key of an inline table that no comma stands in front of.
fn missing_comma(line: &str) -> Option<String> {
    if !line.contains('{') {
        return None;
    }
    let mut between = line.split('=').skip(1).collect::<Vec<_>>();
    between.pop();
    between.into_iter().find_map(|text| {
        let (value, key) = text.trim().rsplit_once(char::is_whitespace)?;
        let is_apart = value.trim().ends_with([',', '{']);
        (is_name(key) && !is_apart).then(|| format!("a comma is missing in front of `{key}`"))
    })
}
