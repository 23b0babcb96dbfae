//! The typed side of a layout: a type for it, its dimensions as types, each shard proved by multiplication, and with
//! `smoke { … }` the tests that run its step. A layout has it if it counts as the reference step does.

use crate::lower::{Model, NamedLayout, Smoke, capitals};
use moe_model_core::sizes::Dim;
use moe_model_core::spec::{Accounting, Dtype, Precision};
use moe_model_core::{KeySet, Plan};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;

/// What stands beside the items of a model, where the crate's feature `step` is on.
pub(crate) fn items(model: &Model, valid: bool) -> TokenStream {
    let layouts = model.layouts.iter().filter(|layout| is_reference(layout));
    let types: TokenStream = layouts.map(|layout| layout_type(model, layout, valid)).collect();
    let smokes: TokenStream = model.smokes.iter().map(|smoke| smoke_tests(model, smoke, valid)).collect();
    let types = if types.is_empty() { types } else { quote!(::moe_model::__private::__step! { #types }) };
    let smokes = if smokes.is_empty() { smokes } else { quote!(::moe_model::__private::__smoke! { #smokes }) };
    quote!(#types #smokes)
}

/// Whether a layout is one that the reference step runs.
pub(crate) fn is_reference(layout: &NamedLayout) -> bool {
    let spec = &layout.part.spec.layout;
    matches!(spec.accounting, Accounting::Reference(_)) && spec.served().is_none()
}

/// The type of a layout: `DeepSeekV3Paper`.
fn type_name(model: &Ident, layout: &Ident) -> Ident {
    format_ident!("{}{}", model.unraw(), layout.unraw(), span = layout.span())
}

/// A type, and, where all numbers are known, its dimensions and its plan.
fn layout_type(model: &Model, layout: &NamedLayout, valid: bool) -> TokenStream {
    let (vis, name) = (&model.vis, type_name(&model.name, &layout.name));
    let doc = format!(
        "The dimensions of layout `{}` of [`{}`] on a rank, as types, and its reference step.",
        layout.name, model.name
    );
    let (constant, model_name) = (&layout.constant, &model.name);
    let known = layout.part.unknown == KeySet::EMPTY;
    let plan = (valid && known).then(|| Plan::new(layout.part.spec).ok()).flatten();
    let implementation = if known {
        implementation(model_name, &name, plan.as_ref(), &quote!(<#model_name>::#constant))
    } else {
        TokenStream::new()
    };
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug)]
        #vis struct #name;
        #implementation
    }
}

/// `Shapes` and `Reference` of a type. Beside an error, where there is no plan, its dimensions are those of any.
fn implementation(model: &Ident, name: &Ident, plan: Option<&Plan>, constant: &TokenStream) -> TokenStream {
    let (dims, shapes) = plan.map_or_else(dynamic, dims);
    let format = |dtype| if matches!(dtype, Dtype::Fp32) { quote!(f32) } else { quote!(::moe_model::gpu::Bf16) };
    let precision = plan.map_or(Precision::DEFAULT, |plan| plan.spec().layout.precision);
    let (weights, moments) = (format(precision.weights), format(precision.moments));
    quote! {
        #[allow(dead_code, unused_imports, missing_debug_implementations)]
        const _: () = {
            use ::moe_model::gpu::{Dim as __Dim, shapes as __shapes, typenum::{B0 as O, B1 as I, UInt as U, UTerm as T}};
            #dims
            #[automatically_derived]
            impl __shapes::Shapes for #name {
                #shapes
            }
            #[automatically_derived]
            impl ::moe_model::gpu::step::Reference for #name {
                type Model = #model;
                type Weights = #weights;
                type Moments = #moments;
                const PLAN: ::moe_model::Plan = #constant;
            }
        };
    }
}

/// Dimensions that a plan says at run time.
fn dynamic() -> (TokenStream, TokenStream) {
    let names = Plan::HUSK.sizes().named().map(|(name, _)| ident(name));
    let shapes = names.iter().map(|name| quote!(type #name = ::moe_model::gpu::shapes::dynamic::#name;)).collect();
    (TokenStream::new(), shapes)
}

/// A type for each dimension; those that ranks share are proved to be the whole.
fn dims(plan: &Plan) -> (TokenStream, TokenStream) {
    let (mut dims, mut shapes) = (TokenStream::new(), TokenStream::new());
    for (name, dim) in plan.sizes().named() {
        let ident = ident(name);
        dims.extend(dim_type(&ident, dim.local));
        dims.extend(proof(name, dim));
        shapes.extend(quote!(type #ident = #ident;));
    }
    (dims, shapes)
}

fn dim_type(name: &Ident, length: u64) -> TokenStream {
    let size = typenum(length);
    quote! {
        pub struct #name;
        impl __Dim for #name {
            type Size = #size;
        }
    }
}

/// A shard times the ranks is the whole dimension, as types.
fn proof(name: &str, dim: Dim) -> TokenStream {
    let Some(ranks) = dim.global.checked_div(dim.local).filter(|ranks| *ranks > 1) else { return TokenStream::new() };
    let (shard, whole, of) = (ident(name), ident(&format!("All{name}")), ident(&format!("{name}Ranks")));
    let (whole_type, ranks_type) = (dim_type(&whole, dim.global), dim_type(&of, ranks));
    quote! {
        #whole_type
        #ranks_type
        const _: () = __shapes::split::<#shard, #whole, #of>();
    }
}

fn ident(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}

/// A number as a type, bit by bit, the highest first.
fn typenum(number: u64) -> TokenStream {
    let bits = (0..u64::BITS - number.leading_zeros()).rev().map(|bit| number >> bit & 1);
    bits.fold(quote!(T), |higher, bit| if bit == 1 { quote!(U<#higher, I>) } else { quote!(U<#higher, O>) })
}

/// Tests of a layout: as allocations at its own scale, and at a smaller one on the CPU and, with that feature, on CUDA.
fn smoke_tests(model: &Model, smoke: &Smoke, valid: bool) -> TokenStream {
    let Some(small) = smoke.small.layouts.first().filter(|_| valid) else { return TokenStream::new() };
    let own = type_name(&model.name, &smoke.layout);
    let module = format_ident!("{}_smoke", capitals(&own.to_string()).to_lowercase(), span = smoke.layout.span());
    let (architecture, layout) = (&smoke.small.architecture.literal, &small.part.literal);
    let plan = Plan::new(small.part.spec).ok();
    let constant = quote! {
        ::moe_model::Plan::or_husk(
            ::moe_model::spec::Spec { architecture: #architecture, layout: #layout },
            ::moe_model::__private::__LawSet::NONE,
        )
    };
    let small = implementation(&model.name, &ident("Small"), plan.as_ref(), &constant);
    quote! {
        #[cfg(test)]
        #[allow(clippy::needless_update, clippy::unreadable_literal)]
        mod #module {
            use super::*;

            struct Small;
            #small

            #[::core::prelude::v1::test]
            fn on_meta() {
                ::moe_model::gpu::smoke::on_meta::<#own>();
            }

            #[::core::prelude::v1::test]
            fn on_host() {
                ::moe_model::gpu::smoke::on_host::<Small>();
            }

            ::moe_model::__private::__cuda! {
                #[::core::prelude::v1::test]
                fn on_cuda() {
                    ::moe_model::gpu::smoke::on_cuda::<Small>();
                }
            }
        }
    }
}
