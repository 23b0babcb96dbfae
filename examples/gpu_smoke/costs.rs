//! How the driver rounds allocations, whether a pool keeps its limit, and what opening a device takes.

use crate::{opened, progress};
use moe_model::gpu::device::{DeviceError, Memory};
use moe_model::gpu::{Bf16, Cuda};
use serde::Serialize;

/// What was found.
#[derive(Serialize)]
pub(crate) struct Costs {
    total_bytes: u64,
    /// Of the context, and of other processes.
    context_bytes: u64,
    cublas_bytes: u64,
    /// The kernels of both formats.
    modules_bytes: u64,
    allocations: Vec<Allocation>,
    limit: Limit,
}

/// What one allocation made of the pool's counts.
#[derive(Serialize)]
struct Allocation {
    #[serde(rename = "asked_bytes")]
    asked: u64,
    #[serde(rename = "used_bytes")]
    used: u64,
    #[serde(rename = "reserved_bytes")]
    reserved: u64,
}

/// A pool of at most so many bytes.
#[derive(Serialize)]
struct Limit {
    #[serde(rename = "limit_bytes")]
    most: u64,
    /// Allocated at once, half of it.
    fits: bool,
    /// As much beside it as would be more.
    refuses_more: bool,
    /// The first given back, what was refused fits.
    goes_on: bool,
}

const MIB: u64 = 1 << 20;

pub(crate) fn measure(failures: &mut Vec<String>) -> Result<Costs, String> {
    progress("allocations, and what opening a device takes");
    let device = opened(None)?;
    let (free, total_bytes) = device.free_and_total().map_err(|error| error.to_string())?;
    let fixed = device.fixed();
    let context_bytes = total_bytes - fixed.free;
    let modules_bytes = (fixed.free - fixed.blas).saturating_sub(free);
    let sizes = [2, 510, 512, 514, 4096, 65_536, MIB, 2 * MIB, 2 * MIB + 2, 33 * MIB, 1024 * MIB];
    let allocations = sizes.map(|asked| allocation(&device, asked)).into_iter().collect::<Result<_, String>>()?;
    drop(device);
    let limit = limit(failures)?;
    Ok(Costs { total_bytes, context_bytes, cublas_bytes: fixed.blas, modules_bytes, allocations, limit })
}

/// The pool is as it was before when it returns.
fn allocation(device: &Cuda, asked: u64) -> Result<Allocation, String> {
    let no = |error: &dyn core::fmt::Display| error.to_string();
    device.finish().map_err(|error| no(&error))?;
    let used_before = device.used().map_err(|error| no(&error))?;
    device.reset_high_water().map_err(|error| no(&error))?;
    let reserved_before = device.reserved_high_water().map_err(|error| no(&error))?;
    let len = usize::try_from(asked / 2).map_err(|error| no(&error))?;
    let held = device.allocate::<Bf16>(len).map_err(|error| no(&error))?;
    device.finish().map_err(|error| no(&error))?;
    let used = device.used().map_err(|error| no(&error))? - used_before;
    let reserved = device.reserved_high_water().map_err(|error| no(&error))?.saturating_sub(reserved_before);
    drop(held);
    Ok(Allocation { asked, used, reserved })
}

fn limit(failures: &mut Vec<String>) -> Result<Limit, String> {
    let most = 256 * MIB;
    let device = opened(Some(most))?;
    let half = || device.allocate::<Bf16>(64 << 20);
    let first = half();
    let more = device.allocate::<Bf16>(70 << 20).map(drop);
    let (fits, refuses_more) = (first.is_ok(), matches!(more, Err(DeviceError::OutOfMemory(_))));
    drop(first);
    let goes_on = device.finish().is_ok() && half().is_ok();
    if !(fits && refuses_more && goes_on) {
        failures.push(format!("a pool of {most} B: fits {fits}, refuses more {refuses_more}, goes on {goes_on}"));
    }
    Ok(Limit { most, fits, refuses_more, goes_on })
}
