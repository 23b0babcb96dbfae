//! The rows of a table that tokens name. A rank may hold a range of the rows: the rest is zeros, and the ranks' sum is
//! the whole.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;
