//! The typed side of moe-model: dimensions that have names, sizes that are types, and shards that are proved. Feature
//! `step` has the reference training step on it, on the CPU or as allocations alone; feature `cuda` compiles the CUDA
//! device, which looks for the driver when it is asked for one.

#[cfg(feature = "step")]
pub mod checkpoint;
#[cfg(feature = "step")]
pub mod comm;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "step")]
pub mod device;
mod dim;
#[cfg(feature = "step")]
mod float;
#[cfg(feature = "step")]
pub mod hub;
#[cfg(feature = "step")]
pub mod ledger;
#[cfg(feature = "step")]
pub mod numerics;
#[cfg(feature = "step")]
pub mod ops;
#[cfg(feature = "step")]
pub mod random;
#[cfg(feature = "step")]
pub mod shapes;
#[cfg(feature = "step")]
pub mod smoke;
#[cfg(feature = "step")]
pub mod step;
#[cfg(feature = "step")]
mod tensor;

#[cfg(feature = "cuda")]
pub use cuda::Cuda;
#[cfg(feature = "step")]
pub use device::{Device, Host, Memory, Meta};
pub use dim::{Dim, ShardOf};
#[cfg(feature = "step")]
pub use float::{Bf16, Float};
#[cfg(feature = "step")]
pub use ledger::{Ledger, LedgerError};
#[cfg(feature = "step")]
pub use numerics::Numerics;
#[cfg(feature = "step")]
pub use step::Step;
#[cfg(feature = "step")]
pub use tensor::{Room, StepError, Tensor, View, ViewMut};
pub use typenum;
