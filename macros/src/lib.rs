//! `moe_model!`: tokens to a Spec with spans, the core's verdict at the right token, and the expansion. The arithmetic,
//! the laws and their wording are `moe-model-core`'s. Documented where users meet it, in `moe-model`.

mod ast;
mod editor;
mod expand;
mod file;
mod judge;
mod lower;
mod report;
mod source;
#[cfg(test)]
mod tests;
mod typed;
mod written;

use proc_macro2::TokenStream;

/// Declares a model and its layouts. See the crate `moe-model` for the documentation.
#[proc_macro]
pub fn moe_model(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    model(input.into()).into()
}

/// The declaration as editors read it; only expansions of `moe_model!` name this.
#[doc(hidden)]
#[proc_macro]
pub fn editor(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    editor::expand(input.into()).into()
}

/// The editor's copy, which must come first, then the items.
fn model(input: TokenStream) -> TokenStream {
    let mut output = editor::copy(&input);
    output.extend(items(input));
    output
}

/// Parse, lower, judge, expand; each stage goes on after an error, and the items exist in any case.
fn items(input: TokenStream) -> TokenStream {
    let mut report = report::Report::new();
    let Some(declaration) = ast::parse(input, &mut report) else {
        return report.into_errors();
    };
    let model = lower::lower(declaration, &mut report);
    let warnings = judge::judge(&model, &mut report);
    expand::expand(&model, &warnings, report)
}
