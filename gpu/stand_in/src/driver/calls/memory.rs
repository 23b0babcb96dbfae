//! Memory: allocations, copies, fills.

use super::pools::pool_of;
use super::streams::check_stream;
use crate::driver::border::{In, Out, answer, source, target};
use crate::driver::{Driver, Source, as_argument, bad, lock};
use crate::report::{Code, Fault};
use std::ffi::c_void;

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> i32 {
    answer(|d| {
        let device = d.working(d.current()?)?;
        free.put(usize::try_from(device.memory.free_bytes()).unwrap_or(usize::MAX))?;
        total.put(usize::try_from(device.memory.capacity()).unwrap_or(usize::MAX))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) -> i32 {
    answer(|d| address.put(d.allocate(bytes as u64, Source::Plain)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: usize) -> i32 {
    answer(|d| {
        check_stream(d, stream)?;
        address.put(d.allocate(bytes as u64, Source::CurrentPool)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: usize, stream: usize) -> i32 {
    answer(|d| {
        check_stream(d, stream)?;
        let (device, index) = pool_of(d, pool)?;
        address.put(d.allocate(bytes as u64, Source::Pool(device, index))?)
    })
}

fn free(d: &Driver, address: u64) -> Result<(), Fault> {
    if address == 0 {
        return Ok(());
    }
    d.working(d.owner(address)?)?.memory.free(address)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> i32 {
    answer(|d| free(d, address))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: u64, stream: usize) -> i32 {
    answer(|d| {
        check_stream(d, stream)?;
        free(d, address)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocManaged(_address: Out<u64>, _bytes: usize, _flags: u32) -> i32 {
    answer(|_| Err(Fault::new(Code::NotSupported, "managed memory")))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(pointer: Out<*mut c_void>, bytes: usize, _flags: u32) -> i32 {
    answer(|d| {
        let mut held = vec![0_u128; bytes.div_ceil(16).max(1)];
        let start = held.as_mut_ptr().cast::<c_void>();
        lock(&d.handles).host.insert(start.addr(), held);
        pointer.put(start)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(pointer: usize) -> i32 {
    answer(|d| {
        let held = lock(&d.handles).host.remove(&pointer);
        held.map(|_| ()).ok_or_else(|| bad(format!("{pointer:#x} is no pinned memory")))
    })
}

fn fill(address: u64, pattern: &[u8], bytes: u64) -> i32 {
    answer(|d| {
        if bytes == 0 {
            return Ok(());
        }
        if !address.is_multiple_of(pattern.len() as u64) {
            return Err(bad(format!("{address:#x} is no multiple of {}", pattern.len())));
        }
        d.may_work("a fill")?;
        d.working(d.owner(address)?)?.memory.fill(address, pattern, bytes).map_err(|f| as_argument(&f))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(address: u64, value: u8, count: usize) -> i32 {
    fill(address, &[value], count as u64)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(address: u64, value: u8, count: usize, _stream: usize) -> i32 {
    fill(address, &[value], count as u64)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16_v2(address: u64, value: u16, count: usize) -> i32 {
    fill(address, &value.to_le_bytes(), 2 * count as u64)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16Async(address: u64, value: u16, count: usize, _stream: usize) -> i32 {
    fill(address, &value.to_le_bytes(), 2 * count as u64)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32_v2(address: u64, value: u32, count: usize) -> i32 {
    fill(address, &value.to_le_bytes(), 4 * count as u64)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(address: u64, value: u32, count: usize, _stream: usize) -> i32 {
    fill(address, &value.to_le_bytes(), 4 * count as u64)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoD_v2(to: u64, from: In<u8>, bytes: usize) -> i32 {
    answer(|d| {
        if bytes == 0 {
            return Ok(());
        }
        d.may_work("a copy to the device")?;
        d.working(d.owner(to)?)?.memory.write(to, source(from, bytes)?).map_err(|f| as_argument(&f))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: In<u8>, bytes: usize, _stream: usize) -> i32 {
    cuMemcpyHtoD_v2(to, from, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(to: Out<u8>, from: u64, bytes: usize) -> i32 {
    answer(|d| {
        if bytes == 0 {
            return Ok(());
        }
        d.may_work("a copy from the device")?;
        d.working(d.owner(from)?)?.memory.read(from, target(to, bytes)?).map_err(|f| as_argument(&f))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(to: Out<u8>, from: u64, bytes: usize, _stream: usize) -> i32 {
    cuMemcpyDtoH_v2(to, from, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> i32 {
    answer(|d| d.copy(to, from, bytes as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, _stream: usize) -> i32 {
    cuMemcpyDtoD_v2(to, from, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    _to_context: usize,
    from: u64,
    _from_context: usize,
    bytes: usize,
    _stream: usize,
) -> i32 {
    cuMemcpyDtoD_v2(to, from, bytes)
}
