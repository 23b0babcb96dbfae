//! What declarations become: snapshots to read, and that every name in them is one that the user cannot shadow.

use super::parsed;
use crate::{editor, model};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};
use syn::visit::{self, Visit};
use syn::{Attribute, ExprPath, File, ItemConst, ItemFn, ItemMod, ItemUse, QSelf, TypePath};

/// Literals, two layouts, and a warning on one of them.
const LITERALS: &str = "
    /// A model.
    pub struct Small;
    hidden: 2048,
    vocab: 102_400,
    layers: layers { moe: 28 },
    attention: gqa { heads: 16, kv_heads: 16, head_dim: 128 },
    experts: experts { routed: 64, active: 6, ffn: 1408 },
    /// Two nodes.
    #[allow(deprecated)]
    layout Main: layout {
        mesh: mesh { dp: 8, tp: 2, ep: 16, sequence_parallel: on },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 2 },
        routing: dropless { skew: 1.25 },
        accounting: paper { kernel: flash },
        device: h100,
        headroom: percent(10),
    },
    layout Pipelined: layout { mesh: mesh { dp: 8, pp: 2, ep: 4 }, ..Main },
";

/// What only the compiler knows, beside literals.
const CONSTANTS: &str = "
    struct Small;
    hidden: HIDDEN,
    vocab: 102_400,
    layers: layers { dense: 28, ffn: 8192 },
    attention: gqa { heads: 16, kv_heads: 16, head_dim: 128 },
    layout Main: layout {
        mesh: mesh { dp: config::NODES * 8, tp: TP },
        batch: batch { sequence: 4096 },
        accounting: paper,
        device: h100,
    },
";

/// A misspelt key, a degree that does not divide, and a constant, whose laws are judged all the same.
const BROKEN: &str = "
    pub struct Small;
    hidden: 2048,
    vocab: 102_400,
    layers: layers { moe: 28 },
    attention: gqa { heads: 16, kv_heads: 16, head_dim: 128 },
    experts: experts { routed: 64, active: 6, ffn: 1408 },
    layout Main: layout {
        mesh: mesh { dp: 48, ep: 48 },
        batch: batch { sequence: SEQUENCE },
        accounting: paper,
    },
    layout Misspelt: layout { scedule: gpipe, ..Main },
";

/// Nothing but a name.
const NAMELESS: &str = "pub struct";

#[test]
fn expansions_are_as_blessed() {
    let editors = editor::expand(parsed(LITERALS));
    for (name, tokens) in [
        ("literals", model(parsed(LITERALS))),
        ("constants", model(parsed(CONSTANTS))),
        ("broken", model(parsed(BROKEN))),
        ("nameless", model(parsed(NAMELESS))),
        ("editor", quote::quote!(fn editor() { #editors })),
    ] {
        compare(name, &prettyplease::unparse(&file(tokens)));
    }
}

/// Compares an expansion with its file, or writes the file under `SNAPSHOTS=overwrite`.
fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/snapshots").join(name).with_extension("rs");
    if env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        fs::write(&path, text).expect("the snapshots can be written");
    }
    let blessed = fs::read_to_string(&path).unwrap_or_default();
    let differs = blessed.lines().zip(text.lines()).position(|(old, new)| old != new);
    let line = differs.map_or_else(|| "the end".to_owned(), |line| format!("line {}", line + 1));
    assert!(blessed == text, "{name}.rs differs from {line} on (SNAPSHOTS=overwrite writes it anew):\n{text}");
}

fn file(tokens: TokenStream) -> File {
    syn::parse2(tokens).expect("an expansion is Rust")
}

/// Every path begins at a crate, or is the user's own, or a name that the expansion itself declares around it.
#[test]
fn paths_are_absolute() {
    for text in [LITERALS, CONSTANTS, BROKEN, NAMELESS, super::DECLARATION] {
        let input = parsed(text);
        let editors = editor::expand(input.clone());
        for file in [file(model(input.clone())), file(quote::quote!(fn editor() { #editors }))] {
            let mut names = Names { known: idents(input.clone()).collect() };
            names.visit_file(&file);
            let mut paths = Paths { known: names.known, relative: Vec::new() };
            paths.visit_file(&file);
            assert_eq!(paths.relative, [""; 0], "in the expansion of {text}");
        }
    }
}

fn idents(tokens: TokenStream) -> Box<dyn Iterator<Item = String>> {
    Box::new(tokens.into_iter().flat_map(|token| match token {
        TokenTree::Ident(ident) => Box::new(std::iter::once(ident.to_string())),
        TokenTree::Group(group) => idents(group.stream()),
        _ => Box::new(std::iter::empty()),
    }))
}

/// The user's names, and those that the expansion declares.
struct Names {
    known: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        self.known.insert(item.ident.to_string());
        visit::visit_item_const(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.known.insert(item.sig.ident.to_string());
        self.known.extend(item.sig.inputs.iter().filter_map(argument));
        visit::visit_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.known.insert(item.ident.to_string());
        visit::visit_item_mod(self, item);
    }
}

fn argument(argument: &syn::FnArg) -> Option<String> {
    match argument {
        syn::FnArg::Typed(argument) => match &*argument.pat {
            syn::Pat::Ident(name) => Some(name.ident.to_string()),
            _ => None,
        },
        syn::FnArg::Receiver(_) => None,
    }
}

struct Paths {
    known: BTreeSet<String>,
    relative: Vec<String>,
}

impl Paths {
    fn demand(&mut self, path: &syn::Path) {
        let Some(first) = path.segments.first().map(|segment| segment.ident.to_string()) else { return };
        let is_absolute = path.leading_colon.is_some() && ["moe_model", "core"].contains(&&*first);
        // What the glob import of `__private` brings begins like this.
        let is_ours = first == "Self" || first.starts_with("__");
        if !is_absolute && !is_ours && !self.known.contains(&first) {
            self.relative.push(quote::quote!(#path).to_string());
        }
    }

    /// Of `<Small>::MAIN` the rest is looked up in the type.
    fn is_in_type(qself: Option<&QSelf>) -> bool {
        qself.is_some_and(|qself| qself.position == 0)
    }
}

impl<'ast> Visit<'ast> for Paths {
    // Built-in attributes have no path, and the user's are the user's.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            self.relative.push(quote::quote!(#item).to_string());
        }
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        match &path.qself {
            Some(qself) if Self::is_in_type(path.qself.as_ref()) => self.visit_type(&qself.ty),
            _ => visit::visit_expr_path(self, path),
        }
    }

    fn visit_type_path(&mut self, path: &'ast TypePath) {
        match &path.qself {
            Some(qself) if Self::is_in_type(path.qself.as_ref()) => self.visit_type(&qself.ty),
            _ => visit::visit_type_path(self, path),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.demand(path);
        visit::visit_path(self, path);
    }
}
