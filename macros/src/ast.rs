//! A declaration as written: entries of keys and values, cut at commas so that a bad one does not take the next
//! with it.

use crate::report::Report;
use crate::source;
use crate::written::{outline, shown};
use moe_model_core::Key;
use moe_model_core::misread::{one_of, shortened};
use moe_model_core::spec::{self, Spec};
use proc_macro2::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};
use std::iter;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Token, Visibility};

/// One `moe_model!` invocation.
pub(crate) struct Declaration {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) name: Ident,
    /// Keys of the architecture.
    pub(crate) entries: Vec<Entry>,
    pub(crate) layouts: Vec<LayoutItem>,
    pub(crate) smokes: Vec<SmokeItem>,
    /// Whether a key could not be read.
    pub(crate) broken: bool,
}

/// `smoke Name: smoke { … }`: tests of a layout, and what is smaller where they compute.
pub(crate) struct SmokeItem {
    /// The layout.
    pub(crate) layout: Ident,
    /// Keys of the architecture and of the layout.
    pub(crate) entries: Vec<Entry>,
}

/// `layout Name: layout { … }`.
pub(crate) struct LayoutItem {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) name: Ident,
    pub(crate) entries: Vec<Entry>,
    /// `..Other`, the layout that this one is built on.
    pub(crate) base: Option<Ident>,
    /// Whether what stands behind the name, a key, or the layout that this one is built on could not be read.
    pub(crate) broken: bool,
}

/// `key: value`.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) key: Ident,
    pub(crate) value: Value,
    /// Whether a comma stands behind it.
    pub(crate) comma: bool,
}

/// What stands behind a colon.
#[derive(Clone)]
pub(crate) enum Value {
    /// `kind { … }`; what is inside is read when the key turns out to take a kind.
    Kind { word: Ident, body: Group },
    /// Anything else; what it may be depends on the key.
    Tokens(TokenStream),
    /// Nothing that can be read: reported already.
    Broken,
    /// Nothing, not even a colon: to be reported if the key is one.
    Missing,
}

/// The tokens up to a comma.
struct Chunk {
    tokens: Vec<TokenTree>,
    /// Whether it ends at a comma: not the last, nor one that lacks its comma.
    comma: bool,
}

/// The head, which syn reads; the rest is cut up by hand.
struct Head {
    attrs: Vec<Attribute>,
    vis: Visibility,
    name: Ident,
    rest: TokenStream,
}

const USAGE: &str = "a declaration begins with a name, then lists keys: `pub struct Name; hidden: 7168, …`";

impl Parse for Head {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if !input.peek(Token![struct]) {
            return Err(input.error(USAGE));
        }
        let keyword = input.parse::<Token![struct]>()?;
        if input.is_empty() {
            return Err(syn::Error::new_spanned(keyword, USAGE));
        }
        let name: Ident = input.parse()?;
        if !input.peek(Token![;]) {
            // At the end of the input syn would underline the whole invocation.
            let at = if input.is_empty() { name.span() } else { input.span() };
            return Err(syn::Error::new(at, "a semicolon follows the name: `pub struct Name;`"));
        }
        input.parse::<Token![;]>()?;
        Ok(Self { attrs, vis, name, rest: input.parse()? })
    }
}

/// Reads a declaration; `None` if there is no name to make items of.
pub(crate) fn parse(input: TokenStream, report: &mut Report) -> Option<Declaration> {
    if input.is_empty() {
        report.error_at(Span::call_site(), USAGE);
        return None;
    }
    let head: Head = match syn::parse2(input) {
        Ok(head) => head,
        Err(error) => {
            report.push(error);
            return None;
        }
    };
    let (mut entries, mut layouts, mut smokes, mut broken) = (Vec::new(), Vec::new(), Vec::new(), false);
    for mut chunk in chunks(head.rest, report) {
        mend_keyword(&mut chunk.tokens, report);
        if is_smoke_item(&chunk.tokens) {
            smokes.extend(smoke_item(&chunk.tokens, report));
        } else if is_layout_item(&chunk.tokens) {
            layouts.extend(layout_item(&chunk.tokens, report));
        } else {
            broken |= read_entry(chunk, &mut entries, report);
        }
    }
    Some(Declaration { attrs: head.attrs, vis: head.vis, name: head.name, entries, layouts, smokes, broken })
}

/// Reports a layout whose keyword is misspelt or missing, and puts it there: `Name: layout { … }` is one all the same.
fn mend_keyword(chunk: &mut Vec<TokenTree>, report: &mut Report) {
    let begin = attributes_length(chunk);
    let (name, length) = match &chunk[begin..] {
        [TokenTree::Ident(word), TokenTree::Ident(name), rest @ ..] if word != "layout" && is_layout_body(rest) => {
            report.error(word, format!("`{word}` stands where `layout` is expected{}", keyword_help(name)));
            (name, 1)
        }
        [TokenTree::Ident(name), rest @ ..] if is_layout_body(rest) => {
            report.error(name, format!("a layout begins with the word `layout`{}", keyword_help(name)));
            (name, 0)
        }
        _ => return,
    };
    let keyword = TokenTree::Ident(Ident::new("layout", name.span()));
    chunk.splice(begin..begin + length, [keyword]);
}

fn is_layout_body(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [colon, TokenTree::Ident(kind), TokenTree::Group(_)] if is_punct(colon, ':') && kind == "layout")
}

fn keyword_help(name: &Ident) -> String {
    format!("\n= help: write `layout {name}: layout {{ … }}`")
}

/// Whether a chunk is `layout Name…`, or lacks the name, behind any attributes.
fn is_layout_item(chunk: &[TokenTree]) -> bool {
    let behind = &chunk[attributes_length(chunk)..];
    matches!(behind, [TokenTree::Ident(keyword), TokenTree::Ident(_) | TokenTree::Group(_), ..] if keyword == "layout")
}

/// Reads `layout Name: layout { … }`; a broken one is reported, and has its name all the same.
fn layout_item(chunk: &[TokenTree], report: &mut Report) -> Option<LayoutItem> {
    let (attrs, tokens) = attributes(chunk, report);
    let [TokenTree::Ident(_), TokenTree::Ident(name), rest @ ..] = tokens else {
        report.error(tokens.first(), "a layout has a name: `layout Name: layout { … }`");
        return None;
    };
    let body = match rest {
        [colon, TokenTree::Ident(kind), TokenTree::Group(body)]
            if is_punct(colon, ':') && kind == "layout" && body.delimiter() == Delimiter::Brace =>
        {
            body
        }
        _ => {
            report.error(name, format!("a layout is written `layout {name}: layout {{ … }}`"));
            return Some(LayoutItem { attrs, name: name.clone(), entries: Vec::new(), base: None, broken: true });
        }
    };
    if let Some(cfg) = attrs.iter().find(|attr| is_conditional(attr)) {
        report.error(cfg, "a layout is not conditional: put the attribute on the whole `moe_model!`");
    }
    let (entries, base, broken) = layout_body(body, report);
    Some(LayoutItem { attrs, name: name.clone(), entries, base, broken })
}

/// Whether a chunk is `smoke Name…`.
fn is_smoke_item(chunk: &[TokenTree]) -> bool {
    matches!(chunk, [TokenTree::Ident(keyword), TokenTree::Ident(_), ..] if keyword == "smoke")
}

/// Reads `smoke Name: smoke { … }`; a broken one is reported.
fn smoke_item(chunk: &[TokenTree], report: &mut Report) -> Option<SmokeItem> {
    let [TokenTree::Ident(_), TokenTree::Ident(layout), rest @ ..] = chunk else { return None };
    match rest {
        [colon, TokenTree::Ident(kind), TokenTree::Group(body)]
            if is_punct(colon, ':') && kind == "smoke" && body.delimiter() == Delimiter::Brace =>
        {
            let (entries, _) = entries(body, report);
            Some(SmokeItem { layout: layout.clone(), entries })
        }
        _ => {
            let help = "where the braces hold what is smaller: keys of the architecture and of the layout";
            report.error(layout, format!("tests of a layout are written `smoke {layout}: smoke {{ … }}`, {help}"));
            None
        }
    }
}

/// How many tokens the attributes in front take.
fn attributes_length(chunk: &[TokenTree]) -> usize {
    let mut length = 0;
    while let [hash, TokenTree::Group(_), ..] = &chunk[length..] {
        if !is_punct(hash, '#') {
            break;
        }
        length += 2;
    }
    length
}

/// Doc comments and other attributes in front, and what stands behind them.
fn attributes<'a>(chunk: &'a [TokenTree], report: &mut Report) -> (Vec<Attribute>, &'a [TokenTree]) {
    let length = attributes_length(chunk);
    let (attrs, rest) = chunk.split_at(length);
    let attrs: TokenStream = attrs.iter().cloned().collect();
    let parsed = syn::parse::Parser::parse2(Attribute::parse_outer, attrs).unwrap_or_else(|error| {
        report.push(error);
        Vec::new()
    });
    (parsed, rest)
}

/// The entries of a layout, the layout that it is built on, and whether any of it could not be read.
fn layout_body(body: &Group, report: &mut Report) -> (Vec<Entry>, Option<Ident>, bool) {
    let (mut entries, mut base, mut broken) = (Vec::new(), None, false);
    for chunk in chunks(body.stream(), report) {
        match &chunk.tokens[..] {
            [first, second, rest @ ..] if is_punct(first, '.') && is_punct(second, '.') => match rest {
                [TokenTree::Ident(name)] if base.is_none() => base = Some(name.clone()),
                _ => {
                    broken = true;
                    let at = chunk.tokens.iter().cloned().collect::<TokenStream>();
                    report.error(at, "a layout is built on one other by its name: `..Base`");
                }
            },
            _ => broken |= read_entry(chunk, &mut entries, report),
        }
    }
    (entries, base, broken)
}

/// The entries inside the braces of a kind, and whether any key could not be read.
pub(crate) fn entries(body: &Group, report: &mut Report) -> (Vec<Entry>, bool) {
    let (mut entries, mut broken) = (Vec::new(), false);
    for chunk in chunks(body.stream(), report) {
        broken |= read_entry(chunk, &mut entries, report);
    }
    (entries, broken)
}

/// Cuts tokens at commas, and at semicolons in their place; these and empty pieces, but for the last, are reported.
fn chunks(tokens: TokenStream, report: &mut Report) -> Vec<Chunk> {
    let (mut chunks, mut chunk) = (Vec::new(), Vec::new());
    for token in tokens {
        let is_semicolon = is_punct(&token, ';');
        if is_semicolon {
            report.error(&token, "keys are separated by commas, not semicolons");
        }
        if !is_semicolon && !is_punct(&token, ',') {
            chunk.push(token);
        } else if chunk.is_empty() && is_semicolon {
            // Said already.
        } else if chunk.is_empty() {
            report.error(token, "a key is missing before this comma");
        } else {
            chunks.push(Chunk { tokens: std::mem::take(&mut chunk), comma: !is_semicolon });
        }
    }
    if !chunk.is_empty() {
        chunks.push(Chunk { tokens: chunk, comma: false });
    }
    chunks.into_iter().flat_map(|chunk| at_missing_commas(chunk, report)).collect()
}

/// Cuts `tp: 2 pp: 16` where the comma is missing, and says so.
fn at_missing_commas(chunk: Chunk, report: &mut Report) -> Vec<Chunk> {
    let Chunk { tokens: mut rest, mut comma } = chunk;
    let starts: Vec<usize> = (1..rest.len()).filter(|&i| starts_entry(&rest, i)).collect();
    let mut pieces = Vec::new();
    for start in starts.into_iter().rev() {
        let tokens = rest.split_off(start);
        if let Some(token) = tokens.first() {
            let what = match token {
                TokenTree::Punct(hash) if hash.as_char() == '#' => "this".to_owned(),
                TokenTree::Punct(_) => format!("`{}`", outline(&tokens)),
                _ => format!("`{token}`"),
            };
            report.error(token, format!("a comma is missing before {what}"));
        }
        pieces.push(Chunk { tokens, comma });
        comma = false;
    }
    pieces.push(Chunk { tokens: rest, comma });
    pieces.reverse();
    pieces
}

/// Whether an entry starts at a token in the middle of a chunk: a key and a colon, a layout, or `..Base`, behind what may
/// end a value; comments may stand in front. A name behind another may be the value that a colon is missing before: there
/// it is known, or stands behind a whole entry.
fn starts_entry(chunk: &[TokenTree], i: usize) -> bool {
    let is_behind_entry = i >= attributes_length(chunk) + 3;
    let (ends_value, may_be_any) = match &chunk[i - 1] {
        TokenTree::Literal(_) => (true, is_behind_entry),
        TokenTree::Group(group) => (group.delimiter() != Delimiter::Bracket, is_behind_entry),
        TokenTree::Ident(word) => (true, is_behind_entry && word != "layout" && word != "smoke"),
        TokenTree::Punct(_) => (false, false),
    };
    let is_key = |written: &Ident| *written == source::KEY || Key::ALL.iter().any(|key| *written == key.name());
    let is_colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ':' && p.spacing() == Spacing::Alone);
    let begins = match &chunk[i + attributes_length(&chunk[i..])..] {
        [TokenTree::Ident(item), TokenTree::Ident(_), colon, ..] if item == "layout" || item == "smoke" => {
            is_colon(colon)
        }
        [TokenTree::Ident(key), colon, ..] => is_colon(colon) && (may_be_any || is_key(key)),
        [first, second, TokenTree::Ident(_)] => is_punct(first, '.') && is_punct(second, '.'),
        _ => false,
    };
    ends_value && begins
}

/// Reads an entry, if there is one; whether its key could not be read.
fn read_entry(chunk: Chunk, entries: &mut Vec<Entry>, report: &mut Report) -> bool {
    let before = report.len();
    let read = entry(chunk, report);
    let broken = read.is_none() && report.len() > before;
    entries.extend(read);
    broken
}

/// Reads `key: value`; a key that cannot be read is reported and left out.
fn entry(chunk: Chunk, report: &mut Report) -> Option<Entry> {
    let Chunk { tokens: chunk, comma } = chunk;
    // Comments on keys are for readers of the declaration; nothing else has a place there.
    let comments = attributes_length(&chunk);
    for attr in attributes(&chunk, report).0.iter().filter(|attr| !attr.path().is_ident("doc")) {
        report.error(attr, "a key takes no attribute but a comment");
    }
    if let [first, second, ..] = &chunk[comments..]
        && is_punct(first, '.')
        && is_punct(second, '.')
    {
        let at = chunk[comments..].iter().cloned().collect::<TokenStream>();
        report.error(at, "only a layout is built on another: this stands among the keys of a layout");
        return None;
    }
    let mut tokens = chunk.into_iter().skip(comments);
    let key = match tokens.next()? {
        TokenTree::Ident(key) => key,
        other => {
            report.error(&other, format!("a key is expected here, found `{}`", shown(&other)));
            return None;
        }
    };
    let value = match tokens.next() {
        Some(colon) if is_punct(&colon, ':') => value(&key, colon.span(), tokens.collect(), report),
        Some(other) => {
            let help = with_colon(&key, &other, tokens.collect());
            report.error(&other, format!("a colon is expected behind `{key}`, found `{}`{help}", shown(&other)));
            Value::Broken
        }
        None => Value::Missing,
    };
    Some(Entry { key, value, comma })
}

/// What was meant where a colon is missing: `hidden = 7168`, `mesh { … }`.
fn with_colon(key: &Ident, found: &TokenTree, rest: Vec<TokenTree>) -> String {
    let is_assigned = |token: &TokenTree| is_punct(token, '=') || is_punct(token, '>');
    let written: Vec<TokenTree> = iter::once(found.clone()).chain(rest).skip_while(is_assigned).collect();
    let known = Key::ALL.iter().find(|known| !known.path().contains('.') && *key == known.path());
    let examples = match (&written[..], known.and_then(|known| Spec::field(*known)).map(|field| &field.value)) {
        ([] | [TokenTree::Punct(_), ..], _) => return String::new(),
        ([TokenTree::Group(group)], Some(spec::Value::Choice { kinds, .. }))
            if group.delimiter() == Delimiter::Brace =>
        {
            kinds.iter().map(|kind| format!("{key}: {} {{ … }}", kind.word)).collect()
        }
        _ => vec![format!("{key}: {}", shortened(&outline(&written)))],
    };
    format!("\n= help: write {}", one_of(examples.iter().map(String::as_str)))
}

fn value(key: &Ident, colon: Span, mut tokens: Vec<TokenTree>, report: &mut Report) -> Value {
    // A piece that another macro passed on stands in a group without brackets.
    while let [TokenTree::Group(group)] = &tokens[..]
        && group.delimiter() == Delimiter::None
    {
        tokens = group.stream().into_iter().collect();
    }
    match &tokens[..] {
        [] => {
            report.error_at(colon, format!("`{key}` has no value behind its colon"));
            Value::Broken
        }
        [TokenTree::Ident(word), TokenTree::Group(group)] if group.delimiter() == Delimiter::Brace => {
            Value::Kind { word: word.clone(), body: group.clone() }
        }
        _ => Value::Tokens(tokens.into_iter().collect()),
    }
}

fn is_conditional(attr: &Attribute) -> bool {
    attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr")
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if Punct::as_char(punct) == char)
}
