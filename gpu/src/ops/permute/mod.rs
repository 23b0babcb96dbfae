//! Tokens to their experts and back. Each token has k copies, copy t * k + j for its j-th choice; sorted by expert, the
//! copies of an expert are the rows of one matrix product.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;
