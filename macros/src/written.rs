//! Tokens as a message shows them, and what values that cannot be read were meant for.

use moe_model_core::Key;
use moe_model_core::misread::{Alias, nearest, one_of, percent_meant, whole, without_quotes, word_of_group};
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

/// What to write in place of what is no word or kind of a key.
pub(crate) fn choice_help(key: Key, written: &str, words: &'static [Word], kinds: &'static [Kind]) -> String {
    let is_word = |name: &str| words.iter().any(|word| word.word == name);
    let names = || words.iter().map(|word| word.word).chain(kinds.iter().map(|kind| kind.word));
    if kinds.iter().any(|kind| kind.word == written) {
        return format!("write its keys in braces: `{written} {{ … }}`");
    }
    if key == Key::Stages && StageList::read(written).is_ok() {
        return format!("write it in quotes: `\"{written}\"`");
    }
    let braced = |name: &str| if is_word(name) { name.to_owned() } else { format!("{name} {{ … }}") };
    if let Some(alias) = Alias::of(written, names()) {
        return alias.help().to_string();
    }
    if let Some(name) = nearest(written, names()) {
        return format!("did you mean `{}`?", braced(name));
    }
    if let Some((kind, key, word)) = word_of_group(written, kinds) {
        return format!("write `{} {{ {}: {word} }}`", kind.word, key.name());
    }
    let choices = words.iter().map(|word| word.word.to_owned());
    let choices = choices.chain(kinds.iter().filter(|kind| !is_word(kind.word)).map(|kind| braced(kind.word)));
    let choices: Vec<String> = choices.collect();
    let choices = one_of(choices.iter().map(String::as_str));
    if key == Key::Stages {
        format!("write {choices}, or a layout string in quotes")
    } else {
        format!("write {choices}")
    }
}

/// Whether tokens are a constant or a macro of the crate, which are known to the compiler alone.
pub(crate) fn is_constant(tokens: &TokenStream) -> bool {
    match syn::parse2(tokens.clone()) {
        Ok(Expr::Macro(_)) => true,
        Ok(Expr::Path(path)) => {
            path.path.segments.last().is_some_and(|name| !name.ident.to_string().contains(char::is_lowercase))
        }
        _ => false,
    }
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
