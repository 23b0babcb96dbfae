//! The typed side of moe-model: dimensions that have names, sizes that are types, and shards that are proved. The
//! reference training step stands on it; feature `cuda` compiles the CUDA device, which looks for the driver when it
//! is asked for one.
#![no_std]

extern crate alloc;

#[cfg(feature = "cuda")]
pub mod cuda;
mod dim;

pub use dim::{Dim, ShardOf};
pub use typenum;
