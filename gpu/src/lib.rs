//! The typed side of moe-model: dimensions that have names, sizes that are types, and shards that are proved. The
//! reference training step stands on it; feature `cuda` compiles the CUDA device, which looks for the driver when it
//! is asked for one.

#[cfg(feature = "cuda")]
pub mod cuda;
mod dim;
mod float;
pub mod ops;

pub use dim::{Dim, ShardOf};
pub use float::{Bf16, Float};
pub use typenum;
