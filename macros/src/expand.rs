//! The items of a model: its type, its architecture, one plan for each layout. They exist whatever is wrong, so
//! that one wrong number does not produce an error at every use; then the plans are those of the smallest model.

use crate::judge::{Warning, is_silencing};
use crate::lower::{Model, NamedLayout, Part};
use crate::report::Report;
use crate::typed;
use moe_model_core::law::{BUDGET_LAWS, LAWS, Law, Rule, When};
use moe_model_core::verdict::LawSet;
use moe_model_core::{Key, KeySet};
use proc_macro2::{Delimiter, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use std::collections::HashSet;
use std::fmt::Write as _;
use syn::ext::IdentExt;

/// The whole expansion.
pub(crate) fn expand(model: &Model, warnings: &[Warning], report: Report) -> TokenStream {
    if report.is_empty() {
        let laws = deferred_laws(model, true);
        let (items, typed) = (items(model, true, warnings), typed::items(model, true));
        let warnings = warnings.iter().map(warning);
        return quote!(#items #typed #laws #(#warnings)*);
    }
    let errors = report.into_errors();
    let (items, typed) = (items(model, false, warnings), typed::items(model, false));
    // What only the compiler knows is judged all the same: one error never hides another.
    let laws = deferred_laws(model, false);
    quote!(#errors #items #typed #laws)
}

/// A warning on stable Rust: the use of something deprecated, whose note is the text. What the layouts that it concerns
/// allow is allowed here.
fn warning(warning: &Warning) -> TokenStream {
    let Warning { id, text, place, attrs, .. } = warning;
    let (first, last) = ends(place);
    let name = Ident::new(&id.replace('-', "_"), first);
    let parens = parens(last);
    let unread = beside_editors(&quote! {
        #[deprecated(note = #text)]
        const fn #name() {}
        #name #parens
    });
    quote! {
        #(#attrs)*
        #unread
    }
}

/// What is for the compiler alone: its functions stand at the user's numbers, where an editor would find them instead
/// of what the user means.
fn beside_editors(block: &TokenStream) -> TokenStream {
    quote! {
        #[allow(unexpected_cfgs)]
        const _: () = {
            #[cfg(not(rust_analyzer))]
            {
                #block
            }
        };
    }
}

/// The type with its constants; those of the smallest model where something is wrong.
fn items(model: &Model, valid: bool, warnings: &[Warning]) -> TokenStream {
    let Model { attrs, vis, name, architecture, layouts, file, .. } = model;
    let literal = if valid { architecture.literal.clone() } else { quote!(::moe_model::spec::Architecture::DEFAULT) };
    // Beside an error the architecture as written serves only the laws that wait for the compiler.
    let written = (!valid && !architecture.broken).then(|| {
        let literal = &architecture.literal;
        quote! {
            #[doc(hidden)]
            pub const __ARCHITECTURE: ::moe_model::spec::Architecture = #literal;
        }
    });
    let constants = layouts.iter().map(|layout| {
        // What is expected of a layout is expected where it is warned of; beside an error it is not.
        let warned = !valid || warnings.iter().any(|warning| warning.layouts.contains(&layout.name));
        let attrs =
            layout.attrs.iter().filter(|attr| !(warned && attr.path().is_ident("expect") && is_silencing(attr)));
        layout_constants(name, layout, &quote!(#(#attrs)*), valid)
    });
    let entries = layouts.iter().map(|layout| {
        let text = layout.name.unraw().to_string();
        let spec = spec_name(layout);
        let spec = if valid { quote!(Self::#spec) } else { quote!(*::moe_model::Plan::HUSK.spec()) };
        quote!((#text, #spec))
    });
    let text = name.unraw().to_string();
    // The build follows the file from here; an unused constant is not in the binary.
    let file = file.iter().map(|path| {
        quote!(
            const _: &[::core::primitive::u8] = ::core::include_bytes!(#path);
        )
    });
    quote! {
        #(#file)*
        #(#attrs)*
        #vis struct #name;

        #[automatically_derived]
        #[allow(dead_code, deprecated, clippy::needless_update, clippy::unreadable_literal)]
        impl #name {
            /// The declared architecture.
            pub const ARCHITECTURE: ::moe_model::spec::Architecture = #literal;
            #written
            #(#constants)*
        }

        #[automatically_derived]
        #[allow(deprecated)]
        impl ::moe_model::Model for #name {
            const NAME: &'static ::core::primitive::str = #text;
            const ARCHITECTURE: ::moe_model::spec::Architecture = <#name>::ARCHITECTURE;
            const LAYOUTS: &'static [(&'static ::core::primitive::str, ::moe_model::spec::Spec)] = &[#(#entries),*];
        }
    }
}

/// The Spec of one layout as written, if it can be read, and its Plan.
fn layout_constants(model: &Ident, layout: &NamedLayout, attrs: &TokenStream, valid: bool) -> TokenStream {
    let (constant, name) = (&layout.constant, spec_name(layout));
    let doc = format!("Layout `{}` of [`{model}`].", layout.name);
    let broken = broken_name(layout);
    let (architecture, plan) = if valid {
        (quote!(Self::ARCHITECTURE), quote!(::moe_model::Plan::or_husk(Self::#name, Self::#broken)))
    } else {
        (quote!(Self::__ARCHITECTURE), quote!(::moe_model::Plan::HUSK))
    };
    // What the macro could judge, it has.
    let breaches = if layout.part.unknown == KeySet::EMPTY {
        quote!(::moe_model::__private::__LawSet::NONE)
    } else {
        let waiting = set_bits(waiting(&layout.part, true).fold(LawSet::NONE, LawSet::with).bits());
        let unknown = key_bits(written_unknown(&layout.part));
        quote!(::moe_model::__private::__LawSet::of(#waiting).broken(&Self::#name, #unknown))
    };
    let spec = (!layout.part.broken).then(|| {
        let spec = spec_of(&architecture, &layout.part.literal);
        quote! {
            #[doc(hidden)]
            pub const #name: ::moe_model::spec::Spec = #spec;
            #[doc(hidden)]
            pub const #broken: ::moe_model::__private::__LawSet = #breaches;
        }
    });
    quote! {
        #spec
        #attrs
        #[doc = #doc]
        pub const #constant: ::moe_model::Plan = #plan;
    }
}

fn spec_of(architecture: &TokenStream, layout: &TokenStream) -> TokenStream {
    quote!(::moe_model::spec::Spec { architecture: #architecture, layout: #layout })
}

fn spec_name(layout: &NamedLayout) -> Ident {
    format_ident!("__SPEC_{}", layout.constant, span = Span::call_site())
}

fn broken_name(layout: &NamedLayout) -> Ident {
    format_ident!("__BROKEN_{}", layout.constant, span = Span::call_site())
}

/// The keys that were written and that only the compiler knows.
fn written_unknown(part: &Part) -> KeySet {
    part.unknown.common(part.places.written())
}

/// A set of keys as the core's functions take it.
fn key_bits(keys: KeySet) -> TokenStream {
    set_bits(keys.bits())
}

/// A set of keys or laws as the core's functions take it.
fn set_bits(bits: [u128; 2]) -> TokenStream {
    let [low, high] = bits.map(Literal::u128_unsuffixed);
    quote!([#low, #high])
}

/// The places of the laws that wait for the compiler, those of budgets apart.
fn waiting(part: &Part, has_layout: bool) -> impl Iterator<Item = usize> {
    let laws = LAWS.iter().enumerate().take(LAWS.len().saturating_sub(BUDGET_LAWS));
    laws.filter(move |(_, law)| waits(law, part, has_layout)).map(|(index, _)| index)
}

/// The laws that only the compiler can judge, of each layout, or of the architecture where there is none.
fn deferred_laws(model: &Model, valid: bool) -> TokenStream {
    // Layouts built on one another share tokens; a law whose keys all stand at the same tokens is judged once.
    let mut judged = HashSet::new();
    let name = &model.name;
    if model.layouts.is_empty() {
        if model.architecture.broken {
            return TokenStream::new();
        }
        let architecture = if valid { quote!(<#name>::ARCHITECTURE) } else { quote!(<#name>::__ARCHITECTURE) };
        let spec = spec_of(&architecture, &quote!(::moe_model::spec::Layout::DEFAULT));
        let bits = set_bits(waiting(&model.architecture, false).fold(LawSet::NONE, LawSet::with).bits());
        let unknown = key_bits(written_unknown(&model.architecture));
        let broken = quote!(__LawSet::of(#bits).broken(S, #unknown));
        return deferred(&model.architecture, false, &quote!(&#spec), &broken, &mut judged);
    }
    let blocks = model.layouts.iter().filter(|layout| !layout.part.broken).map(|layout| {
        let (spec, broken) = (spec_name(layout), broken_name(layout));
        deferred(&layout.part, true, &quote!(&<#name>::#spec), &quote!(<#name>::#broken), &mut judged)
    });
    blocks.collect()
}

/// The laws that wait for the compiler: one constant for those that share two places, since rustc shows two, the call
/// and the body that failed. Constants fail one by one, so all breaches are reported.
fn deferred(
    part: &Part,
    has_layout: bool,
    spec: &TokenStream,
    broken: &TokenStream,
    judged: &mut HashSet<String>,
) -> TokenStream {
    let mut groups: Vec<Group> = Vec::new();
    let mut budgets = TokenStream::new();
    for (index, law) in LAWS.iter().enumerate().filter(|(_, law)| waits(law, part, has_layout)) {
        if index + BUDGET_LAWS >= LAWS.len() {
            let place = part.places.at(Key::Device);
            budgets.extend(constant_at(&place, &quote!(__enforce_budget(#index, B, S))));
            continue;
        }
        if !judged.insert(format!("{} {}", law.id, stand(law.keys(), part))) {
            continue;
        }
        let (at, with) = blamed(law, part);
        match groups.iter_mut().find(|group| group.at == at && group.with == with) {
            Some(group) => group.laws = group.laws.with(index),
            None => groups.push(Group { at, with, name: law.id, laws: LawSet::NONE.with(index) }),
        }
    }
    // Each number that only the compiler knows is judged for its range, with the first of its laws or alone.
    for key in Key::ALL.iter().copied().filter(|key| part.unknown.has(*key) && part.places.has(*key)) {
        if judged.insert(format!("number-range {}", stand(KeySet::EMPTY.with(key), part))) {
            match groups.iter_mut().find(|group| group.at == key) {
                Some(group) => group.laws = group.laws.with_range(),
                None => {
                    groups.push(Group { at: key, with: key, name: "number-range", laws: LawSet::NONE.with_range() });
                }
            }
        }
    }
    if groups.is_empty() && budgets.is_empty() {
        return TokenStream::new();
    }
    let enforced = groups.iter().map(|Group { at, with, name, laws }| {
        let key = Literal::u8_unsuffixed(*at as u8);
        let laws = set_bits(laws.bits());
        let call = quote!(e(#key, #laws));
        if at == with {
            return constant_at(&part.places.at(*at), &call);
        }
        constant(&part.places.at(*at), &part.places.at(*with), name, &call)
    });
    let written = key_bits(part.places.written());
    // Short names and few tokens, for the compiler's sake: nothing of the user's stands in here but the type's name. The
    // arguments' names are long, since a constant of the same name would be a pattern there.
    beside_editors(&quote! {
        use ::moe_model::__private::*;
        const S: &__Spec = #spec;
        const B: __LawSet = #broken;
        #[track_caller]
        const fn e(__at: ::core::primitive::usize, __laws: [::core::primitive::u128; 2]) {
            __enforce(__at, __laws, B, #written, S)
        }
        #(#enforced)*
        #budgets
    })
}

/// Where keys stand, and what they are where they do not: the same of two layouts if they are the same there.
fn stand(keys: KeySet, part: &Part) -> String {
    let numbers = part.spec.numbers();
    let mut text = String::new();
    for key in Key::ALL.iter().copied().filter(|key| keys.has(*key)) {
        let place = if part.places.has(key) { start(&part.places.at(key)) } else { None };
        let _ = write!(text, "{} {:?} {:?};", key.path(), place, numbers.get(key));
    }
    text
}

/// Laws that share two places.
struct Group {
    at: Key,
    with: Key,
    /// The first of them.
    name: &'static str,
    laws: LawSet,
}

/// Whether the compiler must judge a law.
fn waits(law: &Law, part: &Part, has_layout: bool) -> bool {
    // A law that applies only where an optional key is given says so by the key being written or not.
    let given = match law.when {
        When::Given(key) => part.places.has(key),
        _ => true,
    };
    // What does not fit in 64 bits does not fit on a device either.
    let needless = matches!(law.rule, Rule::Fits64Bits) && part.places.has(Key::Device);
    let in_place = has_layout || !law.keys().has_layout();
    given && !needless && in_place && law.waits(&part.spec.numbers(), part.unknown)
}

/// The two keys whose places a law has, among those that it may blame: the first that only the compiler knows, and
/// another one that is written.
fn blamed(law: &Law, part: &Part) -> (Key, Key) {
    let written = || law.at.iter().copied().filter(|key| part.places.has(*key));
    let first = law.at.first().copied().unwrap_or(Key::Mesh);
    let at = written().find(|key| part.unknown.has(*key)).or_else(|| written().next()).unwrap_or(first);
    // Of the others the largest tells most: a degree of 1 is rarely what does not divide.
    let numbers = part.spec.numbers();
    let with = written().rev().filter(|key| *key != at).max_by_key(|key| numbers.of(*key)).unwrap_or(at);
    (at, with)
}

/// `const _: () = { const fn name() { call } name() };`, where the call is underlined as one place and the body as
/// the other.
fn constant(at: &TokenStream, with: &TokenStream, name: &str, call: &TokenStream) -> TokenStream {
    let (first, last) = ends(at);
    let (with_first, with_last) = ends(with);
    let name = name.replace('-', "_");
    let (at_name, name) = (Ident::new(&name, first), Ident::new(&name, with_first));
    let parens = parens(last);
    let call = respanned(call, with_first, with_last);
    let body = quote_spanned!(with_first=> { #call });
    quote! {
        const _: () = {
            const fn #name() #body
            #at_name #parens
        };
    }
}

/// The parentheses of a call without arguments.
fn parens(span: Span) -> TokenTree {
    let mut parens = proc_macro2::Group::new(Delimiter::Parenthesis, TokenStream::new());
    parens.set_span(span);
    TokenTree::Group(parens)
}

/// `const _: () = call;`, where the call is underlined as one place.
fn constant_at(at: &TokenStream, call: &TokenStream) -> TokenStream {
    let (first, last) = ends(at);
    let call = respanned(call, first, last);
    quote!(const _: () = #call;)
}

/// The tokens of a call, its path at one span and its arguments' parentheses at another, so that the whole is
/// underlined from the first to the last.
fn respanned(call: &TokenStream, first: Span, last: Span) -> TokenStream {
    let mut tokens: Vec<TokenTree> = call.clone().into_iter().collect();
    let count = tokens.len();
    for (i, token) in tokens.iter_mut().enumerate() {
        token.set_span(if i + 1 == count { last } else { first });
    }
    tokens.into_iter().collect()
}

/// The first and the last span of some tokens, resolved as generated code is.
fn ends(tokens: &TokenStream) -> (Span, Span) {
    let spans: Vec<Span> = tokens.clone().into_iter().map(|token| token.span()).collect();
    let resolved = |span: Option<&Span>| span.copied().unwrap_or_else(Span::call_site).resolved_at(Span::call_site());
    (resolved(spans.first()), resolved(spans.last()))
}

fn start(tokens: &TokenStream) -> Option<(usize, usize)> {
    tokens.clone().into_iter().next().map(|token| {
        let start = token.span().start();
        (start.line, start.column)
    })
}
