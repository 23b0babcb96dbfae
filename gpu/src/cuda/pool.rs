//! The pool that a device's memory comes from: with a budget, the driver itself refuses what exceeds it, and it says how
//! much was held at most.

#![allow(unsafe_code)]

use super::error::{NoDevice, refused};
use cudarc::driver::result::{device, mem_pool};
use cudarc::driver::sys::{
    CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPool_attribute,
    CUmemPoolProps, CUmemoryPool,
};
use cudarc::driver::{CudaContext, DriverError};
use std::sync::Arc;

pub(super) struct Pool {
    pool: CUmemoryPool,
    context: Arc<CudaContext>,
}

impl Pool {
    /// A pool of at most so many bytes, which allocations come from from now on.
    pub(super) fn current(context: &Arc<CudaContext>, budget: Option<u64>) -> Result<Self, NoDevice> {
        // SAFETY: it is a plain structure of C, whose reserved bytes the driver wants to be zero.
        let mut properties: CUmemPoolProps = unsafe { core::mem::zeroed() };
        properties.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.handleTypes = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
        let id = context.ordinal().try_into().unwrap_or(i32::MAX);
        properties.location = CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id };
        // 0 is no bound but the device's.
        properties.maxSize = budget.unwrap_or(0).try_into().unwrap_or(usize::MAX);
        context.bind_to_thread().map_err(refused)?;
        // SAFETY: the properties are filled in, and live during the call.
        let pool = unsafe { mem_pool::create(&raw const properties) }.map_err(refused)?;
        let pool = Self { pool, context: context.clone() };
        // What is freed stays with the pool, or every synchronisation would give it back and the next step fetch it again.
        pool.set(CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX).map_err(refused)?;
        // SAFETY: the device is the context's, and the pool lives: it is destroyed where it is dropped, which makes the
        // device's first pool current again.
        unsafe { device::set_mem_pool(context.cu_device(), pool.pool) }.map_err(refused)?;
        Ok(pool)
    }

    /// The most that was held since it was reset.
    pub(super) fn high(&self) -> Result<u64, DriverError> {
        self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    }

    /// The most that the pool took from the device since it was reset.
    pub(super) fn reserved_high(&self) -> Result<u64, DriverError> {
        self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
    }

    /// From now on.
    pub(super) fn reset_high(&self) -> Result<(), DriverError> {
        self.set(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)?;
        self.set(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0)
    }

    /// What is held.
    pub(super) fn used(&self) -> Result<u64, DriverError> {
        self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
    }

    fn get(&self, attribute: CUmemPool_attribute) -> Result<u64, DriverError> {
        let mut value = 0_u64;
        // SAFETY: the pool lives, and the attributes that are asked for are numbers of 64 bits.
        unsafe { mem_pool::get_attribute(self.pool, attribute, (&raw mut value).cast()) }?;
        Ok(value)
    }

    fn set(&self, attribute: CUmemPool_attribute, mut value: u64) -> Result<(), DriverError> {
        // SAFETY: as above.
        unsafe { mem_pool::set_attribute(self.pool, attribute, (&raw mut value).cast()) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Frees that are under way come before.
        let _ = self.context.synchronize();
        // SAFETY: the pool is destroyed once. Every buffer keeps it until it has been freed itself.
        let _ = unsafe { mem_pool::destroy(self.pool) };
    }
}
