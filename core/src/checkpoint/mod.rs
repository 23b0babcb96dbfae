//! The tensors of a model's checkpoint, by the names and in the shapes that its family gives them.
//!
//! `weights.rs` lists every weight once. Here its parts become whole tensors (`whole.rs`), a table of the family renames
//! and packs them (`naming.rs`), and numbers of layers and experts become patterns (`pattern.rs`).

mod naming;
#[cfg(feature = "alloc")]
mod pattern;
#[cfg(feature = "alloc")]
mod tensors;
#[cfg(feature = "alloc")]
mod whole;

pub use naming::{Naming, Op, Stored};
#[cfg(feature = "alloc")]
pub(crate) use whole::are_one;
#[cfg(feature = "alloc")]
pub use {
    pattern::Pattern,
    tensors::{Kind, Tensor},
};
