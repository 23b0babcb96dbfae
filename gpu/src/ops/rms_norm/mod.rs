//! Root-mean-square norm of a row: y = x * rsqrt(mean(x²) + eps) * w, eps inside the root.

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub mod host;
mod law;

pub use law::*;
