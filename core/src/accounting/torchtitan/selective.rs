//! What selective activation checkpointing keeps of a layer that is computed again.

use crate::inventory::{Entry, Module, Sink};
use crate::sizes::Dim;

/// How tensors of a layer are kept: those that recomputation keeps, and those that it makes again. Without it they are the
/// same.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) kept: Entry,
    pub(super) again: Entry,
}

impl Kept {
    pub(super) const fn of(&self, module: Module) -> Self {
        Self { kept: self.kept.of(module), again: self.again.of(module) }
    }

    pub(super) const fn chosen(&self, is_kept: bool) -> &Entry {
        if is_kept { &self.kept } else { &self.again }
    }

    /// What comes out of a matrix product, where selective checkpointing or an operation keeps it.
    pub(super) const fn product(
        &self,
        list: &mut Sink<'_>,
        [is_kept, is_read]: [bool; 2],
        name: &'static str,
        shape: [Dim; 4],
    ) {
        if is_kept || is_read {
            list.push(self.chosen(is_kept), name, shape);
        }
    }
}

/// The matrix products of a layer in the order in which it runs them. Selective checkpointing keeps what every second of them
/// makes, beginning with the first, and passes over those whose weights have the shape of the router's.
#[derive(Clone, Copy)]
pub(super) struct Products {
    pub(super) is_selective: bool,
    pub(super) is_next_kept: bool,
    /// Numbers for each token that the layer's router reads and makes; none without one.
    pub(super) router: Option<[u64; 2]>,
}

impl Products {
    /// Whether the output of the next product is kept, of how many numbers for each token it reads and how many it makes.
    pub(super) const fn keep(&mut self, reads: u64, makes: u64) -> bool {
        let has_shape_of_router = match self.router {
            Some([read, made]) => reads == read && makes == made,
            None => false,
        };
        if !self.is_selective || has_shape_of_router {
            return false;
        }
        self.is_next_kept = !self.is_next_kept;
        !self.is_next_kept
    }
}
