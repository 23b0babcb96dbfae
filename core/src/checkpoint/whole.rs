//! From entries of an inventory to tensors as files hold them: parts of one tensor together, the heads and what each
//! has as one dimension.

use crate::inventory::{Element, Entry, Module};
use crate::saturating::{add, mul};
use crate::sizes::{Dim, Symbol};
use alloc::vec::Vec;

/// A tensor as files hold it, by its name in `weights.rs`; those of all experts of a layer are one, of experts first.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) name: &'static str,
    pub(super) module: Module,
    pub(super) shape: Vec<u64>,
    pub(super) element: Element,
}

/// The tensors that entries of one layer are parts of.
pub(super) fn wholes(entries: &[Entry]) -> Vec<Whole> {
    let mut list: Vec<Whole> = Vec::new();
    for entry in entries {
        let shape = flat(&entry.shape);
        match list.last_mut() {
            // Parts are rows of it.
            Some(last) if last.name == entry.name => last.shape[0] = add(last.shape[0], shape[0]),
            _ => list.push(Whole { name: entry.name, module: entry.module, shape, element: entry.element }),
        }
    }
    list
}

fn flat(shape: &[Dim; 4]) -> Vec<u64> {
    let len = shape.iter().rposition(|dim| *dim != Dim::ONE).map_or(1, |last| last + 1);
    let (mut flat, mut before): (Vec<u64>, &Dim) = (Vec::new(), &Dim::ONE);
    for dim in &shape[..len] {
        match flat.last_mut() {
            Some(last) if are_one(before, dim) => *last = mul(*last, dim.global),
            _ => flat.push(dim.global),
        }
        before = dim;
    }
    flat
}

/// Whether two dimensions behind each other are heads and the width of each.
pub(crate) fn are_one(heads: &Dim, width: &Dim) -> bool {
    match heads.symbol {
        Symbol::Heads | Symbol::KvHeads => true,
        Symbol::IndexerHeads => width.symbol == Symbol::IndexerDim,
        _ => false,
    }
}
