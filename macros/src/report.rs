//! All that is wrong, gathered: one error never hides another.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::Error;

/// The errors found so far.
pub(crate) struct Report {
    errors: Vec<Error>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { errors: Vec::new() }
    }

    /// An error that underlines these tokens.
    pub(crate) fn error(&mut self, at: impl ToTokens, message: impl Into<String>) {
        self.errors.push(Error::new_spanned(at, indented(&message.into())));
    }

    /// An error at one span.
    pub(crate) fn error_at(&mut self, span: Span, message: impl Into<String>) {
        self.errors.push(Error::new(span, indented(&message.into())));
    }

    pub(crate) fn push(&mut self, error: Error) {
        self.errors.push(error);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.errors.len()
    }

    /// One `compile_error!` for each.
    pub(crate) fn into_errors(self) -> TokenStream {
        self.errors.iter().map(Error::to_compile_error).collect()
    }
}

/// Notes and helps of a message stand under its first line, as rustc's own do: `error:` is seven columns wide.
fn indented(message: &str) -> String {
    message.replace('\n', "\n  ")
}
