//! Tokens as a message shows them, and what values that cannot be read were meant for.

use moe_model_core::Key;
use moe_model_core::misread::{Alias, nearest, one_of, percent_meant, shortened, whole, without_quotes, word_of_group};
use moe_model_core::spec::{Kind, StageList, Word};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Expr, Lit};

/// Tokens as they were written, without the spaces that printing puts between them; braces without what is in them.
pub(crate) fn outline(tokens: &[TokenTree]) -> String {
    let (mut text, mut end) = (String::new(), None);
    for token in tokens {
        if end.is_some_and(|end| end != token.span().start()) {
            text.push(' ');
        }
        text += &match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => shown(token),
            other => other.span().source_text().unwrap_or_else(|| other.to_string()),
        };
        end = Some(token.span().end());
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn outline_of(tokens: &TokenStream) -> String {
    outline(&tokens.clone().into_iter().collect::<Vec<_>>())
}

/// A token as a message shows it: a group only by its brackets.
pub(crate) fn shown(token: &TokenTree) -> String {
    match token {
        TokenTree::Group(group) => match group.delimiter() {
            Delimiter::Parenthesis => "( … )".to_owned(),
            Delimiter::Brace => "{ … }".to_owned(),
            Delimiter::Bracket => "[ … ]".to_owned(),
            Delimiter::None => group.stream().to_string(),
        },
        other => other.to_string(),
    }
}

/// What is no word or kind of a key, and what to write in its place.
pub(crate) fn no_choice(key: Key, at: &TokenStream, words: &'static [Word], kinds: &'static [Kind]) -> String {
    let written = outline_of(at);
    let help = choice_help(key, &written, words, kinds).map(|help| format!("\n= help: {help}"));
    let help = help.unwrap_or_else(|| format!("{}\n= help: write {}", constant_note(at), choices(key, words, kinds)));
    format!("`{}` cannot be `{}`{help}", key.path(), shortened(&written))
}

/// What was meant, if that can be told.
fn choice_help(key: Key, written: &str, words: &'static [Word], kinds: &'static [Kind]) -> Option<String> {
    let names = || words.iter().map(|word| word.word).chain(kinds.iter().map(|kind| kind.word));
    if kinds.iter().any(|kind| kind.word == written) {
        return Some(format!("write its keys in braces: `{written} {{ … }}`"));
    }
    if key == Key::Stages && StageList::read(written).is_ok() {
        return Some(format!("write it in quotes: `\"{written}\"`"));
    }
    if let Some(alias) = Alias::of(written, &names()) {
        return Some(alias.help().to_string());
    }
    if let Some(name) = nearest(written, names()) {
        return Some(format!("did you mean `{}`?", choice(name, words)));
    }
    let (kind, key, word) = word_of_group(written, kinds)?;
    Some(format!("write `{} {{ {}: {word} }}`", kind.word, key.name()))
}

/// A word, or a kind with braces.
fn choice(name: &str, words: &[Word]) -> String {
    if words.iter().any(|word| word.word == name) { name.to_owned() } else { format!("{name} {{ … }}") }
}

fn choices(key: Key, words: &[Word], kinds: &[Kind]) -> String {
    let is_word = |kind: &&Kind| words.iter().any(|word| word.word == kind.word);
    let kinds = kinds.iter().filter(|kind| !is_word(kind)).map(|kind| choice(kind.word, words));
    let names: Vec<String> = words.iter().map(|word| word.word.to_owned()).chain(kinds).collect();
    let names = one_of(names.iter().map(String::as_str));
    if key == Key::Stages { format!("{names}, or a layout string in quotes") } else { names.to_string() }
}

/// What is said of constants and macros of the crate, which are known to the compiler alone.
pub(crate) fn constant_note(tokens: &TokenStream) -> &'static str {
    let is_constant = match syn::parse2(tokens.clone()) {
        Ok(Expr::Macro(_)) => true,
        Ok(Expr::Path(path)) => {
            path.path.segments.last().is_some_and(|name| !name.ident.to_string().contains(char::is_lowercase))
        }
        _ => false,
    };
    if is_constant { "\n= note: constants are not read here" } else { "" }
}

/// What is said of tokens that are no expression. A comma ends a value, also that of `f::<1, 2>()`.
pub(crate) fn no_expression(tokens: &TokenStream, error: &syn::Error) -> String {
    let help = if tokens.to_string().contains('<') {
        "\n= help: put an expression that holds commas in parentheses"
    } else {
        ""
    };
    format!("\n= note: this is no expression: {error}{help}")
}

/// What to write in place of a literal that is no number, if that can be told.
pub(crate) fn literal_help(literal: &Lit, is_number: impl Fn(&str) -> bool) -> String {
    let help = match literal {
        Lit::Str(text) if is_number(&text.value()) => without_quotes(&text.value()).to_string(),
        Lit::Float(number) => match whole(number.base10_digits()) {
            Some(number) => format!("write `{number}`"),
            None => return String::new(),
        },
        _ => return String::new(),
    };
    format!("\n= help: {help}")
}

/// `percent(10)`, as far as what was written tells the number.
pub(crate) fn percent_help(tokens: &TokenStream) -> String {
    format!("write `percent({})`", percent_meant(&outline_of(tokens).replace('_', "")).unwrap_or(10))
}
