//! Matrix products of a linear layer y = x wᵀ + b with w `[n, k]` as checkpoints hold it: the output, the gradient of
//! the input, the gradient of the weight, and the bias.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;
mod product;

pub use law::*;
pub(crate) use product::{View, multiply};
