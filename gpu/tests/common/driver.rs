//! What tests on a CUDA device share.

use moe_model_gpu::Cuda;
use moe_model_gpu::cuda::NoDevice;
use moe_model_gpu::smoke::skipped;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A device of so many bytes, if there is one.
pub(crate) fn device(budget: Option<u64>) -> Option<Cuda> {
    match Cuda::open(0, budget) {
        Ok(device) => Some(device),
        Err(error @ (NoDevice::NoDriver | NoDevice::NoLibrary(_) | NoDevice::Absent { .. })) => {
            skipped(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// One device at a time: its pool is the GPU's.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
