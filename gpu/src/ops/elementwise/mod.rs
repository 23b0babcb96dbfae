//! Sums, copies between layouts and formats, and the gate of a shared expert: one pass over the elements each.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;

/// Some columns of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    /// All its columns.
    pub all: usize,
    /// The first of these.
    pub first: usize,
}
