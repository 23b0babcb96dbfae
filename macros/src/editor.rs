//! The editor's copy of a declaration: Rust by which an editor completes, explains and follows keys and words, also
//! while they are being typed. The compiler never reads it.
//!
//! To complete, an editor expands twice, with and without a mark at the cursor, and looks for the mark's place and for
//! the literal around it by their offsets. So the copy stands before all else, and is of the same length in both but
//! for the mark: it holds what is not finished, and a comma only where the user typed one.

use crate::ast::{self, Declaration, Entry, LayoutItem, SmokeItem, Value};
use crate::lower::{constant, is_string, path};
use crate::report::Report;
use crate::source;
use moe_model_core::Key;
use moe_model_core::spec::{self, Architecture, Field, GROUPS, Kind, Layout};
use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{format_ident, quote};

/// What stands first in an expansion. The tokens go to a macro of their own, which the compiler drops unread: they need
/// not be Rust, and cost next to nothing.
pub(crate) fn copy(input: &TokenStream) -> TokenStream {
    quote! {
        #[allow(unexpected_cfgs)]
        const _: () = {
            #[cfg(rust_analyzer)]
            ::moe_model::__private::__editor!(#input);
        };
    }
}

/// The copy itself: statements that fill the structs of the core's table.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    // What is wrong is reported by the expansion that this copy is part of.
    let Some(declaration) = ast::parse(input, &mut Report::new()) else {
        return TokenStream::new();
    };
    let (architecture, layout) = (path("Architecture"), path("Layout"));
    let entries = &declaration.entries;
    let architecture = literal(&architecture, Architecture::FIELDS, entries, &quote!(#architecture::DEFAULT));
    let layouts = declaration.layouts.iter().map(|item| {
        let base = item.base.as_ref().map_or_else(|| quote!(#layout::DEFAULT), |base| base_of(base, &declaration));
        literal(&layout, Layout::FIELDS, &item.entries, &base)
    });
    let smokes = declaration.smokes.iter().map(smoke);
    let words = words(&declaration.layouts);
    quote! {
        let _ = #architecture;
        #(let _ = #layouts;)*
        #(#smokes)*
        #words
    }
}

/// What is smaller in tests: keys of a layout, and of the architecture, what is still being typed among these.
fn smoke(item: &SmokeItem) -> TokenStream {
    let (architecture, layout) = (path("Architecture"), path("Layout"));
    let is_of_layout = |entry: &Entry| Layout::FIELDS.iter().any(|field| entry.key == field.key.name());
    let (of_layout, others): (Vec<Entry>, Vec<Entry>) = item.entries.iter().cloned().partition(is_of_layout);
    let others = literal(&architecture, Architecture::FIELDS, &others, &quote!(#architecture::DEFAULT));
    let of_layout = literal(&layout, Layout::FIELDS, &of_layout, &quote!(#layout::DEFAULT));
    let name = &item.layout;
    quote! {
        let _ = __words::layouts::#name;
        let _ = #others;
        let _ = #of_layout;
    }
}

/// A struct literal of the entries, and of the rest of `base`, so that what is absent is no error.
fn literal(ty: &TokenStream, fields: &[Field], entries: &[Entry], base: &TokenStream) -> TokenStream {
    let comma = entries.last().is_none_or(|last| last.comma);
    // Where an architecture comes from is no key of it.
    let entries = entries.iter().filter(|entry| entry.key != source::KEY).map(|entry| written(entry, fields));
    // Of the same length, whether the last entry has its comma or not.
    let base = if comma { quote!(..{;#base}) } else { quote!(, ..{#base}) };
    quote!(#ty { #(#entries)* #base })
}

/// One entry, as far as it has been typed.
fn written(Entry { key, value, comma }: &Entry, fields: &[Field]) -> TokenStream {
    let field = fields.iter().find(|field| *key == field.key.name());
    let comma = comma.then(|| quote!(,));
    let list = field.and_then(list);
    let value = match (field.map(|field| &field.value), value) {
        (_, Value::Missing) => return quote!(#key #comma),
        (_, Value::Broken) => quote!(#list),
        (Some(spec::Value::Choice { kinds, .. }), Value::Kind { word, body }) => {
            group(kinds, list.as_ref(), word, body)
        }
        (_, Value::Kind { word, body }) => quote!(#word #body),
        (Some(spec::Value::Decimal | spec::Value::StageList | spec::Value::LayerList), Value::Tokens(tokens)) => {
            of_any_type(tokens)
        }
        // A layout string in the place of its group.
        (_, Value::Tokens(tokens)) if is_string(tokens) => of_any_type(tokens),
        (_, Value::Tokens(tokens)) => quote!(#list #tokens),
    };
    quote!(#key: #value #comma)
}

/// A kind with its keys; those of a kind that is still being typed are left out.
fn group(kinds: &[Kind], list: Option<&TokenStream>, word: &Ident, body: &Group) -> TokenStream {
    let literal = if let Some(kind) = kinds.iter().find(|kind| *word == kind.word) {
        let (base, (entries, _)) = (path(kind.ty), ast::entries(body, &mut Report::new()));
        literal(&quote!(#list #word), kind.fields, &entries, &quote!(#base::DEFAULT))
    } else {
        quote!(#list #word {})
    };
    let is_variant = kinds.iter().any(|kind| !kind.variant.is_empty());
    if is_variant { of_any_type(&literal) } else { literal }
}

/// What an editor reads, but does not compare with the type of the field: `1.25` for a Factor, `mla { … }` for an
/// Attention.
fn of_any_type(value: &TokenStream) -> TokenStream {
    quote!({ let _ = #value; loop {} })
}

/// `__words::schedule::`, in front of what is typed, so that nothing but the key's words is offered.
fn list(field: &Field) -> Option<TokenStream> {
    matches!(field.value, spec::Value::Choice { .. } | spec::Value::Percent).then(|| {
        let list = list_name(field.key);
        quote!(__words::#list::)
    })
}

fn list_name(key: Key) -> Ident {
    format_ident!("{}", key.path().replace('.', "_"))
}

/// The words and kinds of every key, and the layouts, named as in a declaration.
fn words(layouts: &[LayoutItem]) -> TokenStream {
    let lists = GROUPS.iter().copied().flatten().filter_map(|field| {
        let uses: TokenStream = match &field.value {
            spec::Value::Choice { words, kinds } => {
                let words = words.iter().map(|word| import(word.path, word.word));
                words.chain(kinds.iter().map(|kind| import(kind.ty, kind.word))).collect()
            }
            spec::Value::Percent => import("percent", "percent"),
            spec::Value::Number { .. } | spec::Value::Decimal | spec::Value::StageList | spec::Value::LayerList => {
                return None;
            }
        };
        let list = list_name(field.key);
        Some(quote!(pub mod #list { #uses }))
    });
    let (layout, names) =
        (path("Layout"), layouts.iter().map(|layout| format_ident!("{}", layout.name, span = Span::call_site())));
    quote! {
        #[allow(nonstandard_style)]
        mod __words {
            #(#lists)*
            pub mod layouts { #(pub const #names: #layout = #layout::DEFAULT;)* }
        }
    }
}

fn import(item: &str, name: &str) -> TokenStream {
    let (item, name) = (path(item), format_ident!("{name}"));
    quote!(pub use #item as #name;)
}

/// What a layout is built on: its constant, else what is being typed among all names.
fn base_of(base: &Ident, Declaration { name, layouts, .. }: &Declaration) -> TokenStream {
    if layouts.iter().all(|layout| layout.name != *base) {
        return quote!(__words::layouts::#base);
    }
    let constant = constant(base);
    quote!(<#name>::#constant.spec().layout)
}
