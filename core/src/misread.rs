//! What is said of a declaration that cannot be read, in tokens or in a file: its words, and what they need to know of
//! the table of keys.

pub use crate::nearest::nearest;

use crate::key::Key;
use crate::spec::{Architecture, Kind, Layout, Value};
use crate::text::Text;

/// How much of what was written a line of a message has room for, in characters.
const ROOM: usize = 40;

/// `` `mesh` has no key `tpp` ``; the owner is named as the sentence needs it.
#[must_use]
pub fn has_no_key(owner: &str, written: &str) -> Text {
    Text::new().str(owner).str(" has no key `").text(&shortened(written)).str("`")
}

/// Where a key belongs that its owner does not have, if it is one of exactly one group; else what it was meant for: the
/// name nearest to it among those that the owner has, or any of them. The owner is a group, or `None` for what groups
/// stand in.
#[must_use]
pub fn key_help<'a>(owner: Option<Key>, written: &str, names: impl Iterator<Item = &'a str> + Clone) -> Text {
    let is_key_of = Text::new().str("`").str(written).str("` is a key of ");
    match (holder(written), nearest(written, names.clone())) {
        (Some((group, kind)), _) if Some(group) == owner => is_key_of.str("the kind `").str(kind.word).str("`"),
        (Some((group, _)), _) => is_key_of.str("`").str(group.path()).str("`"),
        (None, Some(name)) => did_you_mean(name),
        (None, None) => Text::new().str("its keys are ").text(&listed(names)),
    }
}

/// `` did you mean `tp`? ``
#[must_use]
pub fn did_you_mean(name: &str) -> Text {
    Text::new().str("did you mean `").str(name).str("`?")
}

/// `` `mesh` lacks `dp` and `tp` ``, or nothing if nothing is missing.
#[must_use]
pub fn lacks<'a>(owner: &str, missing: impl IntoIterator<Item = &'a str>) -> Option<Text> {
    let names = listed(missing);
    if names.is_empty() { None } else { Some(Text::new().str(owner).str(" lacks ").text(&names)) }
}

/// `` `mesh.tp` is given twice ``
#[must_use]
pub fn given_twice(key: Key) -> Text {
    Text::new().str("`").str(key.path()).str("` is given twice")
}

/// `` `mesh.tp` = 99999999999999999999 does not fit in 64 bits ``
#[must_use]
pub fn outgrows_64_bits(key: Key, digits: &str) -> Text {
    Text::new().str("`").str(key.path()).str("` = ").text(&shortened(digits)).str(" does not fit in 64 bits")
}

/// The group that a key belongs to, if it is one of exactly one, and the first kind that has it.
fn holder(written: &str) -> Option<(Key, &'static Kind)> {
    let groups = || Architecture::FIELDS.iter().chain(Layout::FIELDS);
    let has_it = |kind: &&Kind| kind.fields.iter().any(|field| field.key.name() == written);
    let mut holders = groups().filter_map(|field| match &field.value {
        Value::Choice { kinds, .. } => Some((field.key, kinds.iter().find(has_it)?)),
        _ => None,
    });
    let is_top = groups().any(|field| field.key.name() == written);
    match (holders.next(), holders.next()) {
        (Some(holder), None) if !is_top => Some(holder),
        _ => None,
    }
}

/// `1.25` as 1250, if it has at most three places.
#[must_use]
pub fn thousandths(digits: &str) -> Option<u64> {
    // `parse` would take a sign.
    if digits.contains(['+', '-']) {
        return None;
    }
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = match part.len() {
        0 => return whole.parse::<u64>().ok()?.checked_mul(1000),
        1 => 100,
        2 => 10,
        3 => 1,
        _ => return None,
    };
    let part = part.parse::<u64>().ok()? * scale;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

/// What was written, as far as a line of a message has room for it, and without what would break the line.
#[must_use]
pub fn shortened(written: &str) -> Text {
    let mut text = Text::new();
    for (i, letter) in written.chars().enumerate() {
        if i == ROOM {
            return text.str("…");
        }
        text = if letter.is_control() {
            letter.escape_default().fold(text, with_letter)
        } else {
            with_letter(text, letter)
        };
    }
    text
}

fn with_letter(text: Text, letter: char) -> Text {
    text.str(letter.encode_utf8(&mut [0; 4]))
}

/// `` `a`, `b` and `c` ``.
#[must_use]
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> Text {
    joined(names, " and ")
}

/// Many names, behind `= help: ` and a word or two; in as many lines as they take, one under the other.
#[must_use]
pub fn listed_in_lines<'a>(names: impl IntoIterator<Item = &'a str>) -> Text {
    const WIDTH: usize = 76;
    let (mut text, mut column, mut names) = (Text::new(), 0, names.into_iter().peekable());
    while let Some(name) = names.next() {
        if !text.is_empty() {
            let is_full = column + name.len() > WIDTH;
            text = text.str(if names.peek().is_some() { "," } else { " and" });
            text = text.str(if is_full { "\n        " } else { " " });
            column = if is_full { 0 } else { column };
        }
        text = text.str("`").str(name).str("`");
        column += name.len() + 4;
    }
    text
}

/// `` `a`, `b` or `c` ``.
#[must_use]
pub fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> Text {
    joined(names, " or ")
}

fn joined<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> Text {
    let (mut text, mut names) = (Text::new(), names.into_iter().peekable());
    while let Some(name) = names.next() {
        let between = if text.is_empty() {
            ""
        } else if names.peek().is_some() {
            ", "
        } else {
            last
        };
        text = text.str(between).str("`").str(name).str("`");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{holder, key_help, listed, listed_in_lines, one_of, shortened, thousandths};
    use crate::key::Key;
    use alloc::string::ToString;

    #[test]
    fn names_are_joined() {
        assert_eq!(listed([]).as_str(), "");
        assert_eq!(listed(["a"]).as_str(), "`a`");
        assert_eq!(listed(["a", "b"]).as_str(), "`a` and `b`");
        assert_eq!(one_of(["a", "b", "c"]).as_str(), "`a`, `b` or `c`");
        assert_eq!(listed_in_lines(["a", "b", "c"]).as_str(), "`a`, `b` and `c`");
        let many = listed_in_lines(["a_long_name"; 8]);
        assert_eq!(many.as_str().matches(",\n        `a_long_name`").count(), 1, "{many}");
        assert!(many.as_str().ends_with("` and `a_long_name`"), "{many}");
    }

    #[test]
    fn a_key_belongs_to_one_group_or_to_none() {
        let group = |written| holder(written).map(|(key, _)| key);
        assert_eq!(group("skew"), Some(Key::Routing));
        assert_eq!(group("heads"), Some(Key::Attention));
        assert_eq!(group("ffn"), None, "of layers and experts");
        assert_eq!(group("mesh"), None);
    }

    #[test]
    fn an_unknown_key_is_helped() {
        let help = |owner, written| key_help(owner, written, ["dp", "tp"].into_iter()).to_string();
        assert_eq!(help(Some(Key::Mesh), "tpp"), "did you mean `tp`?");
        assert_eq!(help(Some(Key::Mesh), "hidden"), "its keys are `dp` and `tp`");
        assert_eq!(help(None, "kv_heads"), "`kv_heads` is a key of `attention`");
        assert_eq!(help(Some(Key::Attention), "kv_heads"), "`kv_heads` is a key of the kind `gqa`");
    }

    #[test]
    fn decimals_have_at_most_three_places() {
        let read = ["1", "1.", "1.2", "1.25", "0.001", "18446744073709551.615"].map(thousandths);
        let expected = [1000, 1000, 1200, 1250, 1, u64::MAX].map(Some);
        assert_eq!(read, expected);
        for wrong in ["", "1.2345", "-1", "1.-2", "1.+2", "NaN", "18446744073709551.616"] {
            assert_eq!(thousandths(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_written_stays_on_its_line() {
        assert_eq!(shortened("a\nb\u{1b}[1m").as_str(), "a\\nb\\u{1b}[1m");
        assert_eq!(shortened(&"ü".repeat(50)).as_str().chars().count(), 41);
    }
}
