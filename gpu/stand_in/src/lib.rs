//! A CUDA driver without a GPU: a library that a program finds as libcuda, libcublas and libnccl, and that interprets
//! the PTX that NVRTC emits. What a GPU does not tell, it does: accesses outside of allocations, races in shared memory,
//! barriers that a part of a block misses, lanes that a warp operation names and that are not there, and memory that is
//! read before anybody wrote it.
//!
//! The crate's README.md says how to run a program over it.

pub mod blas;
pub mod config;
pub mod driver;
pub mod exec;
pub mod handles;
pub mod memory;
pub mod nccl;
pub mod ptx;
pub mod report;
