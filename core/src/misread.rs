//! What is said of a declaration that cannot be read, in tokens or in a file: its words, and what they need to know of
//! the table of keys.

pub use crate::aliases::Alias;
pub use crate::digits::{decimal, negative, outgrows_64_bits, percent_meant, thousandths, whole, without_quotes};
pub use crate::nearest::nearest;

use crate::key::Key;
use crate::nearest::letters;
use crate::spec::{Architecture, Field, Kind, Layout, Value};
use crate::text::Text;

/// How much of what was written a line of a message has room for, in characters.
const ROOM: usize = 40;

/// `` `mesh` has no key `tpp` ``; the owner is named as the sentence needs it.
#[must_use]
pub fn has_no_key(owner: &str, written: &str) -> Text {
    Text::new().str(owner).str(" has no key `").text(&shortened(written)).str("`")
}

/// Where a key belongs that its owner does not have, if it is one of exactly one group; else what it was meant for among
/// the names that the owner has, or all of them. The owner is a group, or `None` for what groups stand in.
#[must_use]
pub fn key_help<'a>(owner: Option<Key>, written: &str, names: impl Iterator<Item = &'a str> + Clone) -> Text {
    let is_key_of = Text::new().str("`").str(written).str("` is a key of ");
    let own = groups().find(|field| Some(field.key) == owner).into_iter().flat_map(|field| kinds_with(field, written));
    let own = own.map(|kind| kind.word);
    match own.clone().count() {
        0 => {}
        1 => return is_key_of.str("the kind ").text(&listed(own)),
        _ => return is_key_of.str("the kinds ").text(&listed(own)),
    }
    match holder(written) {
        Some((group, _)) => is_key_of.str("`").str(group.path()).str("`"),
        None => name_help(written, names.clone())
            .or_else(|| elsewhere(written))
            .unwrap_or_else(|| Text::new().str("its keys are ").text(&listed(names))),
    }
}

/// `tensor_parallel` outside `mesh`.
fn elsewhere(written: &str) -> Option<Text> {
    let name = Alias::of(written, &Key::ALL.iter().map(|key| key.name()))?.name();
    let (group, _) = holder(name)?;
    Some(Text::new().str("write `").str(name).str("`, a key of `").str(group.path()).str("`"))
}

/// The key that one which its owner does not have was meant for, as [`key_help`] says.
#[must_use]
pub fn key_meant<'a>(written: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    if holder(written).is_some() { None } else { meant(written, names) }
}

/// The name that was meant among those that are known.
#[must_use]
pub fn meant<'a>(written: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    Alias::of(written, &names).map(Alias::name).or_else(|| nearest(written, names))
}

/// What to write in place of a name, if one that is known was meant.
#[must_use]
pub fn name_help<'a>(written: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<Text> {
    Alias::of(written, &names).map(Alias::help).or_else(|| nearest(written, names).map(did_you_mean))
}

/// The kind, its key and that key's word, where a word stands in the place of the group: `precision: bf16`. Switches and
/// `none` could be of any key.
#[must_use]
pub fn word_of_group(written: &str, kinds: &'static [Kind]) -> Option<(&'static Kind, Key, &'static str)> {
    let word_of = |field: &'static Field| {
        let Value::Choice { words, .. } = &field.value else { return None };
        let names = || words.iter().map(|word| word.word).filter(|word| !["none", "off", "on"].contains(word));
        let same = names().find(|name| letters(written).eq(name.chars()));
        let word = same.or_else(|| Alias::of(written, &names()).map(Alias::name))?;
        Some((field.key, word))
    };
    kinds.iter().find_map(|kind| kind.fields.iter().find_map(word_of).map(|(key, word)| (kind, key, word)))
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

/// `` `accounting` is not read beside `serving` ``, and what to do; `batch` a law speaks of, number by number.
#[must_use]
pub fn unread_in_serving() -> [Text; 2] {
    let [accounting, serving] = [Key::Accounting, Key::Serving].map(Key::path);
    let message = Text::new().str("`").str(accounting).str("` is not read beside `").str(serving).str("`");
    [message, Text::new().str("leave it out: what is worked on without a backward needs no rules of a framework")]
}

/// `` `mesh.tp` is given twice ``
#[must_use]
pub fn given_twice(key: Key) -> Text {
    Text::new().str("`").str(key.path()).str("` is given twice")
}

/// The group that a key belongs to, if it is one of exactly one, and the first kind that has it. What takes the place of
/// attention shares keys with it, and attention is what most models have.
fn holder(written: &str) -> Option<(Key, &'static Kind)> {
    let is_top = groups().any(|field| field.key.name() == written);
    let mut holders = groups().filter_map(|field| Some((field.key, kinds_with(field, written).next()?)));
    let mixer = holders.clone().find(|(key, _)| *key == Key::Mixer);
    let mut others = holders.by_ref().filter(|(key, _)| *key != Key::Mixer);
    match (others.next(), others.next()) {
        (Some(holder), None) if !is_top => Some(holder),
        (None, None) if !is_top => mixer,
        _ => None,
    }
}

fn groups() -> impl Iterator<Item = &'static Field> + Clone {
    Architecture::FIELDS.iter().chain(Layout::FIELDS)
}

/// The kinds of a group that have a key of this name.
fn kinds_with(field: &'static Field, written: &str) -> impl Iterator<Item = &'static Kind> + Clone {
    let kinds: &[Kind] = if let Value::Choice { kinds, .. } = &field.value { kinds } else { &[] };
    kinds.iter().filter(move |kind| kind.fields.iter().any(|field| field.key.name() == written))
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
    use super::{holder, key_help, key_meant, listed, listed_in_lines, one_of, shortened, word_of_group};
    use crate::key::Key;
    use crate::spec::{Spec, Value};
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
        assert_eq!(group("bias"), None, "of attention and experts");
        assert_eq!(group("conv"), Some(Key::Mixer));
        assert_eq!(group("mesh"), None);
    }

    #[test]
    fn an_unknown_key_is_helped() {
        let help = |owner, written| key_help(owner, written, ["dp", "tp"].into_iter()).to_string();
        assert_eq!(help(Some(Key::Mesh), "tpp"), "did you mean `tp`?");
        assert_eq!(help(Some(Key::Mesh), "hidden"), "its keys are `dp` and `tp`");
        assert_eq!(help(None, "tensor_parallel"), "did you mean `tp`?");
        assert_eq!(help(None, "expert_parallel"), "write `ep`, a key of `mesh`");
        assert_eq!(help(None, "kv_heads"), "`kv_heads` is a key of `attention`");
        assert_eq!(help(Some(Key::Attention), "kv_heads"), "`kv_heads` is a key of the kind `gqa`");
        assert_eq!(help(Some(Key::Mixer), "kv_heads"), "`kv_heads` is a key of the kind `gqa`");
        assert_eq!(
            help(Some(Key::Mixer), "heads"),
            "`heads` is a key of the kinds `gqa`, `kda`, `lightning` and `mamba2`"
        );
        assert_eq!(help(Some(Key::Mixer), "kv_rank"), "`kv_rank` is a key of `attention`");
    }

    #[test]
    fn a_key_is_meant_or_is_none() {
        let meant = |written| key_meant(written, ["hidden", "tp", "context", "cp"].into_iter());
        assert_eq!(meant("hidden_size"), Some("hidden"));
        assert_eq!(meant("context_parallel"), Some("cp"));
        assert_eq!(meant("skew"), None, "of another group");
        assert_eq!(meant("offload"), None);
    }

    #[test]
    fn a_word_of_a_key_stands_for_its_group() {
        let found = |group: Key, written| match Spec::field(group).map(|field| &field.value) {
            Some(Value::Choice { kinds, .. }) => word_of_group(written, kinds).map(|(_, key, word)| (key, word)),
            _ => None,
        };
        assert_eq!(found(Key::Precision, "bfloat16"), Some((Key::PrecisionWeights, "bf16")));
        assert_eq!(found(Key::Accounting, "flash"), Some((Key::AccountingKernel, "flash")));
        assert_eq!(found(Key::Precision, "none"), None);
    }

    #[test]
    fn what_was_written_stays_on_its_line() {
        assert_eq!(shortened("a\nb\u{1b}[1m").as_str(), "a\\nb\\u{1b}[1m");
        assert_eq!(shortened(&"ü".repeat(50)).as_str().chars().count(), 41);
    }
}
