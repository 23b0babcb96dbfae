//! Pools of memory.

use super::ordinal;
use crate::driver::border::{In, Out, answer, source, target};
use crate::driver::{Driver, bad, lock, no};
use crate::report::Fault;

#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct PoolProperties {
    allocation_type: u32,
    handle_types: u32,
    location_type: u32,
    location: i32,
    security: usize,
    max_size: usize,
}

pub(super) fn pool_of(d: &Driver, pool: usize) -> Result<(usize, usize), Fault> {
    lock(&d.handles).pools.get(&pool).copied().ok_or_else(|| no("pool", pool))
}

/// The handle of a device's pool.
fn pool_handle(d: &Driver, device: usize, index: usize) -> usize {
    let mut handles = lock(&d.handles);
    if let Some((handle, _)) = handles.pools.iter().find(|(_, p)| **p == (device, index)) {
        return *handle;
    }
    let handle = handles.fresh();
    handles.pools.insert(handle, (device, index));
    handle
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolCreate(pool: Out<usize>, properties: In<PoolProperties>) -> i32 {
    answer(|d| {
        let properties = properties.get()?;
        if properties.allocation_type != 1 || properties.location_type != 1 {
            return Err(bad("a pool of pinned memory of a device (allocType 1, location.type 1) alone"));
        }
        let device = ordinal(properties.location)?;
        let index = d.working(device)?.memory.create_pool(properties.max_size as u64);
        pool.put(pool_handle(d, device, index))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolDestroy(pool: usize) -> i32 {
    answer(|d| {
        let (device, index) = pool_of(d, pool)?;
        if index == 0 {
            return Err(bad("the default pool cannot be destroyed"));
        }
        let mut device = d.device(device)?;
        if device.memory.current_pool == index {
            device.memory.current_pool = 0;
        }
        if let Some(found) = device.memory.pool(index) {
            found.is_destroyed = true;
            found.reserved = found.used;
        }
        lock(&d.handles).pools.remove(&pool);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetDefaultMemPool(pool: Out<usize>, device: i32) -> i32 {
    answer(|d| {
        let device = ordinal(device)?;
        drop(d.device(device)?);
        pool.put(pool_handle(d, device, 0))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetMemPool(pool: Out<usize>, device: i32) -> i32 {
    answer(|d| {
        let device = ordinal(device)?;
        let index = d.device(device)?.memory.current_pool;
        pool.put(pool_handle(d, device, index))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceSetMemPool(device: i32, pool: usize) -> i32 {
    answer(|d| {
        let (owner, index) = pool_of(d, pool)?;
        if owner != ordinal(device)? {
            return Err(bad(format!("a pool of device {owner}, not of {device}")));
        }
        d.device(owner)?.memory.current_pool = index;
        Ok(())
    })
}

/// A pool's attribute: one of the switches, or an amount.
fn attribute(pool: &mut crate::memory::Pool, attribute: u32) -> Result<(Option<&mut i32>, Option<&mut u64>), Fault> {
    Ok(match attribute {
        1..=3 => (pool.reuse.get_mut(attribute as usize - 1), None),
        4 => (None, Some(&mut pool.release_threshold)),
        5 => (None, Some(&mut pool.reserved)),
        6 => (None, Some(&mut pool.reserved_high)),
        7 => (None, Some(&mut pool.used)),
        8 => (None, Some(&mut pool.used_high)),
        _ => return Err(bad(format!("no attribute {attribute} of a pool"))),
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolGetAttribute(pool: usize, which: u32, value: Out<u8>) -> i32 {
    answer(|d| {
        let (device, index) = pool_of(d, pool)?;
        let mut device = d.device(device)?;
        let found = device.memory.pool(index).ok_or_else(|| no("pool", pool))?;
        match attribute(found, which)? {
            (Some(switch), _) => target(value, 4)?.copy_from_slice(&switch.to_le_bytes()),
            (_, Some(amount)) => target(value, 8)?.copy_from_slice(&amount.to_le_bytes()),
            _ => {}
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolSetAttribute(pool: usize, which: u32, value: In<u8>) -> i32 {
    answer(|d| {
        let (device, index) = pool_of(d, pool)?;
        let mut device = d.device(device)?;
        let found = device.memory.pool(index).ok_or_else(|| no("pool", pool))?;
        let (used, reserved) = (found.used, found.reserved);
        match attribute(found, which)? {
            (Some(switch), _) => {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(source(value, 4)?);
                *switch = i32::from_le_bytes(bytes);
            }
            (_, Some(amount)) => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(source(value, 8)?);
                let new = u64::from_le_bytes(bytes);
                *amount = match which {
                    4 => new,
                    // Marks are reset, to what is now.
                    6 if new == 0 => reserved,
                    8 if new == 0 => used,
                    6 | 8 => return Err(bad("a high-water mark can be set to 0 alone")),
                    _ => return Err(bad("an attribute that can only be read")),
                };
            }
            _ => {}
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolTrimTo(pool: usize, keep: usize) -> i32 {
    answer(|d| {
        let (device, index) = pool_of(d, pool)?;
        let mut device = d.device(device)?;
        let found = device.memory.pool(index).ok_or_else(|| no("pool", pool))?;
        found.reserved = found.used.max(found.reserved.min(keep as u64));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolSetAccess(pool: usize, _map: usize, _count: usize) -> i32 {
    answer(|d| pool_of(d, pool).map(|_| ()))
}
