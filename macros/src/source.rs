//! `architecture: preset(name)` and `architecture: file("path")`: where the keys of an architecture come from that a
//! declaration does not write itself.

use crate::ast::{Entry, Value};
use crate::report::Report;
use moe_model_core::misread::{listed_in_lines, nearest, shortened};
use moe_model_core::preset::{PRESETS, Preset};
use moe_model_core::spec::{self, Architecture, Field, Kind, Layout, Spec};
use moe_model_core::{Key, Numbers};
use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::LitStr;

/// The key; it is none of the core's, which know only what it stands for.
pub(crate) const KEY: &str = "architecture";

/// What the key says.
pub(crate) enum Source {
    /// It is not given: every key is written.
    Absent,
    /// It cannot be read, which is reported.
    Broken,
    /// It stands for this architecture.
    Known(Box<Known>),
}

/// An architecture that is not written key by key.
pub(crate) struct Known {
    pub(crate) architecture: Architecture,
    /// The token that stands for each of its numbers.
    pub(crate) place: TokenStream,
    /// The file that it was read from, by its absolute path.
    pub(crate) file: Option<String>,
}

impl Known {
    fn source(architecture: Architecture, place: impl ToTokens, file: Option<String>) -> Source {
        Source::Known(Box::new(Self { architecture, place: place.to_token_stream(), file }))
    }
}

/// Takes the key out of the entries of a declaration, and reads it.
pub(crate) fn take(entries: &mut Vec<Entry>, report: &mut Report) -> Source {
    let (sources, others) = std::mem::take(entries).into_iter().partition(|entry| entry.key == KEY);
    *entries = others;
    let sources: Vec<Entry> = sources;
    let Some((first, more)) = sources.split_first() else {
        // Misspelt it is reported as any unknown key is, and nothing is known to be missing.
        let is_misspelt = |entry: &Entry| nearest(&entry.key.to_string(), [KEY]).is_some();
        return if entries.iter().any(is_misspelt) { Source::Broken } else { Source::Absent };
    };
    if let Some(second) = more.first() {
        let (first, second) = (&first.key, &second.key);
        report.error(quote!(#first #second), format!("`{KEY}` is given twice"));
    }
    read(first, report).unwrap_or(Source::Broken)
}

/// `None` if it cannot be read, which is reported.
fn read(entry: &Entry, report: &mut Report) -> Option<Source> {
    let tokens: TokenStream = match &entry.value {
        Value::Broken => return None,
        Value::Missing => {
            report.error(&entry.key, format!("`{KEY}` has no value: write `{KEY}: …`"));
            return None;
        }
        Value::Kind { word, body } => quote!(#word #body),
        Value::Tokens(tokens) => tokens.clone(),
    };
    let parts: Vec<TokenTree> = tokens.clone().into_iter().collect();
    match &parts[..] {
        [TokenTree::Ident(word), TokenTree::Group(group)]
            if word == "preset" && group.delimiter() == Delimiter::Parenthesis =>
        {
            preset(word, group, report)
        }
        [TokenTree::Ident(word), TokenTree::Group(group)]
            if word == "file" && group.delimiter() == Delimiter::Parenthesis =>
        {
            file(word, group, report)
        }
        _ => {
            not_a_source(&tokens, &parts, report);
            None
        }
    }
}

/// What is neither kind of source; the help is what was probably meant.
fn not_a_source(tokens: &TokenStream, parts: &[TokenTree], report: &mut Report) {
    let written = tokens.to_string();
    let help = match parts {
        [TokenTree::Ident(name)] if Preset::named(&name.to_string()).is_some() => format!("write `preset({name})`"),
        [TokenTree::Literal(path)] if path.to_string().starts_with('"') => format!("write `file({path})`"),
        [TokenTree::Ident(word), ..] if word == "preset" => format!("write `preset({EXAMPLE})`"),
        [TokenTree::Ident(word), ..] if word == "file" => "write `file(\"config.json\")`".to_owned(),
        _ => format!("write `preset({EXAMPLE})`, another preset, or `file(\"config.json\")`"),
    };
    report.error(tokens, format!("`{KEY}` cannot be `{}`\n= help: {help}", shortened(&written)));
}

/// A preset to show how one is written.
const EXAMPLE: &str = "deepseek_v3";

fn preset(word: &Ident, group: &Group, report: &mut Report) -> Option<Source> {
    let parts: Vec<TokenTree> = group.stream().into_iter().collect();
    match &parts[..] {
        [TokenTree::Ident(name)] => {
            let Some(preset) = Preset::named(&name.to_string()) else {
                unknown_preset(name, report);
                return None;
            };
            Some(Known::source(preset.architecture, name, None))
        }
        [] => {
            report.error(quote!(#word #group), format!("a preset has a name\n= help: {}", presets()));
            None
        }
        _ => {
            let stream = group.stream();
            let quoted = syn::parse2::<LitStr>(stream.clone()).map(|name| name.value());
            let help = match quoted {
                Ok(name) if Preset::named(&name).is_some() => format!("write it without quotes: `preset({name})`"),
                _ => presets(),
            };
            report.error(stream, format!("a preset is named by one bare word\n= help: {help}"));
            None
        }
    }
}

fn file(word: &Ident, group: &Group, report: &mut Report) -> Option<Source> {
    let stream = group.stream();
    let Ok(path) = syn::parse2::<LitStr>(stream.clone()) else {
        let bare: String = stream.to_string().split_whitespace().collect();
        let is_path = !bare.is_empty() && bare.chars().all(|c| c.is_alphanumeric() || "./_-".contains(c));
        let example = if is_path { shortened(&bare).to_string() } else { "config.json".to_owned() };
        let message = format!("a file is named by its path in quotes\n= help: write `file(\"{example}\")`");
        let at = if stream.is_empty() { quote!(#word #group) } else { stream };
        report.error(at, message);
        return None;
    };
    let (architecture, file) = crate::file::read(&path, report)?;
    Some(Known::source(architecture, path, Some(file)))
}

fn unknown_preset(name: &Ident, report: &mut Report) {
    let help = match nearest(&name.to_string(), PRESETS.iter().map(|preset| preset.name)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => presets(),
    };
    report.error(name, format!("there is no preset `{name}`\n= help: {help}"));
}

fn presets() -> String {
    format!("presets are {}", listed_in_lines(PRESETS.iter().map(|preset| preset.name)))
}

/// The value of one of an architecture's keys as Rust, and the keys in it, the group's own first.
pub(crate) fn restated(field: &Field, of: &Architecture, numbers: &Numbers, keys: &mut Vec<Key>) -> TokenStream {
    let number = numbers.of(field.key);
    let literal = Literal::u64_unsuffixed(number);
    keys.push(field.key);
    match &field.value {
        spec::Value::Number { .. } => literal.into_token_stream(),
        spec::Value::Decimal => quote!(::moe_model::spec::Factor::thousandths(#literal)),
        spec::Value::Percent => quote!(::moe_model::spec::percent(#literal)),
        spec::Value::LayerList if of.layers.list.is_none() => quote!(::moe_model::spec::LayerList::NONE),
        spec::Value::LayerList => {
            let list = of.layers.list.to_string();
            quote!(::moe_model::spec::LayerList::parse(#list))
        }
        // An architecture has none.
        spec::Value::StageList => TokenStream::new(),
        spec::Value::Choice { words, kinds } => match Kind::chosen(kinds, numbers) {
            Some(kind) => restated_kind(kind, of, numbers, keys),
            None => usize::try_from(number)
                .ok()
                .and_then(|place| words.get(place))
                .map_or_else(TokenStream::new, |word| crate::lower::path(word.path)),
        },
    }
}

fn restated_kind(kind: &Kind, of: &Architecture, numbers: &Numbers, keys: &mut Vec<Key>) -> TokenStream {
    let mut fields = TokenStream::new();
    for field in kind.fields {
        let name = Ident::new(field.key.name(), Span::call_site());
        let value = restated(field, of, numbers, keys);
        fields.extend(quote!(#name: #value,));
    }
    let literal = crate::lower::struct_literal(kind.ty, &fields);
    if kind.variant.is_empty() {
        return literal;
    }
    let variant = crate::lower::path(kind.variant);
    quote!(#variant(#literal))
}

/// Every number of an architecture, by its key.
pub(crate) fn numbers(architecture: &Architecture) -> Numbers {
    Spec { architecture: *architecture, layout: Layout::DEFAULT }.numbers()
}
