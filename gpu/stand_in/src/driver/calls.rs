//! The functions that a program finds in libcuda.

// `no_mangle` is how it finds them; their names are CUDA's, their arguments as C hands them over.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments, clippy::needless_pass_by_value)]

use super::border::{In, Out, answer, call_host, peek, source, target};
use super::{CURRENT, Driver, Function, Order, Source, as_argument, bad, context_of, lock, no};
use crate::report::{self, Code, Fault};
use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;
use std::time::Instant;

const VERSION: i32 = 13000;

fn ordinal(device: i32) -> Result<usize, Fault> {
    usize::try_from(device).map_err(|_| Fault::new(Code::InvalidDevice, format!("no device {device}")))
}

fn number(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: u32) -> i32 {
    answer(|d| if d.config.devices == 0 { Err(Fault::new(Code::NoDevice, "STAND_IN_DEVICES=0")) } else { Ok(()) })
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: Out<i32>) -> i32 {
    answer(|_| version.put(VERSION))
}

/// Tables of functions that are in no header. NVRTC asks for one, and goes on without if it is too short.
#[unsafe(no_mangle)]
extern "C" fn cuGetExportTable(table: Out<*const usize>, _which: usize) -> i32 {
    // Its first word is its size in bytes.
    static SHORT: [usize; 1] = [8];
    answer(|_| table.put(SHORT.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: i32, text: Out<*const c_char>) -> i32 {
    error_text(code, text, false)
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: i32, text: Out<*const c_char>) -> i32 {
    error_text(code, text, true)
}

fn error_text(code: i32, text: Out<*const c_char>, describe: bool) -> i32 {
    answer(|_| {
        if code == 0 {
            return text.put(if describe { c"no error".as_ptr() } else { c"CUDA_SUCCESS".as_ptr() });
        }
        match Code::ALL.into_iter().find(|c| *c as i32 == code) {
            Some(code) => text.put(if describe { code.names().1 } else { code.names().0 }.as_ptr()),
            None => Err(Fault::new(Code::InvalidValue, "")),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: Out<i32>) -> i32 {
    answer(|d| count.put(number(d.config.devices)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: Out<i32>, wanted: i32) -> i32 {
    answer(|d| {
        drop(d.device(ordinal(wanted)?)?);
        device.put(wanted)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: Out<u8>, len: i32, device: i32) -> i32 {
    answer(|d| {
        drop(d.device(ordinal(device)?)?);
        let to = target(name, usize::try_from(len).unwrap_or(0))?;
        let text = b"Stand-in (interprets PTX)\0";
        if to.len() < text.len() {
            return Err(bad("no room for the device's name"));
        }
        to.fill(0);
        to[..text.len()].copy_from_slice(text);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) -> i32 {
    answer(|d| {
        drop(d.device(ordinal(device)?)?);
        let mut bytes = *b"stand-in device\0";
        bytes[15] = u8::try_from(device).unwrap_or(0);
        uuid.put(bytes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) -> i32 {
    cuDeviceGetUuid_v2(uuid, device)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) -> i32 {
    answer(|d| {
        let capacity = d.device(ordinal(device)?)?.memory.capacity();
        bytes.put(usize::try_from(capacity).unwrap_or(usize::MAX))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) -> i32 {
    answer(|d| {
        drop(d.device(ordinal(device)?)?);
        // As an H200 answers; what is not listed is 0.
        let answers = [
            (1, 1024),        // threads of a block
            (2, 1024),        // in x
            (3, 1024),        // in y
            (4, 64),          // in z
            (5, 0x7fff_ffff), // blocks in x
            (6, 65535),       // in y
            (7, 65535),       // in z
            (8, 48 << 10),    // shared memory of a block
            (9, 64 << 10),    // constant memory
            (10, 32),         // lanes of a warp
            (12, 65536),      // registers of a block
            (13, 1_980_000),  // kHz
            (16, 132),        // multiprocessors
            (31, 1),          // concurrent kernels
            (36, 3_201_000),  // memory's kHz
            (37, 6144),       // its bits
            (38, 60 << 20),   // level-2 cache
            (39, 2048),       // threads of a multiprocessor
            (40, 3),          // copy engines
            (41, 1),          // unified addresses
            (75, 9),          // compute capability, its minor part is 0
            (81, 228 << 10),  // shared memory of a multiprocessor
            (82, 65536),      // its registers
            (97, 227 << 10),  // shared memory of a block that asks
            (106, 32),        // blocks of a multiprocessor
            (111, 1 << 10),   // reserved shared memory of a block
            (115, 1),         // memory pools
        ];
        value.put(answers.iter().find(|(a, _)| *a == attribute).map_or(0, |(_, v)| *v))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: Out<usize>, device: i32) -> i32 {
    answer(|d| context.put(d.retain(ordinal(device)?)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> i32 {
    answer(|d| d.release(ordinal(device)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxReset_v2(device: i32) -> i32 {
    answer(|d| d.reset(ordinal(device)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: usize) -> i32 {
    answer(|d| {
        if context == 0 {
            CURRENT.set(None);
            return Ok(());
        }
        let index = (context >> 8).wrapping_sub(1);
        if index >= d.config.devices || context_of(index) != context {
            return Err(Fault::new(Code::InvalidContext, format!("{context:#x} is no context")));
        }
        CURRENT.set(Some(index));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: Out<usize>) -> i32 {
    answer(|_| context.put(CURRENT.get().map_or(0, context_of)))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(device: Out<i32>) -> i32 {
    answer(|d| device.put(number(d.current()?)))
}

fn synchronise(d: &Driver) -> Result<(), Fault> {
    d.working(d.current()?)?.memory.synchronise();
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> i32 {
    answer(synchronise)
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetFlags(_flags: u32) -> i32 {
    answer(|d| d.current().map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetLimit(_limit: u32, _value: usize) -> i32 {
    answer(|d| d.current().map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetLimit(value: Out<usize>, _limit: u32) -> i32 {
    answer(|_| value.put(1024))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> i32 {
    answer(|_| {
        least.put(0)?;
        greatest.put(-5)
    })
}

// Modules and launches.

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(module: Out<usize>, image: In<c_char>) -> i32 {
    answer(|d| module.put(d.load(image.text()?)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadDataEx(
    module: Out<usize>,
    image: In<c_char>,
    _count: u32,
    _options: usize,
    _values: usize,
) -> i32 {
    cuModuleLoadData(module, image)
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoad(module: Out<usize>, name: In<c_char>) -> i32 {
    answer(|d| {
        let name = name.text()?;
        let text = std::fs::read_to_string(name);
        let text = text.map_err(|e| Fault::new(Code::FileNotFound, format!("{name}: {e}")))?;
        module.put(d.load(&text)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: usize) -> i32 {
    answer(|d| d.unload(module))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(function: Out<usize>, module: usize, name: In<c_char>) -> i32 {
    answer(|d| function.put(d.function(module, name.text()?)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<usize>, module: usize, name: In<c_char>) -> i32 {
    answer(|d| {
        let (at, size) = d.global(module, name.text()?)?;
        if !bytes.is_null() {
            bytes.put(usize::try_from(size).unwrap_or(usize::MAX))?;
        }
        if address.is_null() { Ok(()) } else { address.put(at) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetAttribute(value: Out<i32>, attribute: i32, function: usize) -> i32 {
    answer(|d| {
        let kernel = d.kernel(function)?;
        let small = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        value.put(match attribute {
            0 => small(kernel.entry.max_threads.unwrap_or(1024)),
            1 => small(kernel.entry.shared_bytes),
            3 => small(kernel.entry.local_bytes),
            4 => 32,
            5 | 6 => 90,
            8 => small(kernel.dynamic_shared.load(Ordering::Relaxed)),
            _ => 0,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(function: usize, attribute: i32, value: i32) -> i32 {
    answer(|d| {
        let kernel = d.kernel(function)?;
        if attribute == 8 {
            let most = (227 << 10) - i64::from(kernel.entry.shared_bytes);
            if value < 0 || i64::from(value) > most {
                return Err(bad(format!("{value} bytes of dynamic shared memory, a block has {most}")));
            }
            kernel.dynamic_shared.store(value.unsigned_abs(), Ordering::Relaxed);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetCacheConfig(function: usize, _config: u32) -> i32 {
    answer(|d| d.kernel(function).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetParamInfo(function: usize, index: usize, offset: Out<usize>, size: Out<usize>) -> i32 {
    answer(|d| {
        let kernel = d.kernel(function)?;
        let Some(parameter) = kernel.entry.parameters.get(index) else {
            return Err(Fault::new(Code::InvalidValue, ""));
        };
        offset.put(parameter.offset as usize)?;
        if size.is_null() { Ok(()) } else { size.put(parameter.bytes as usize) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: Out<i32>,
    function: usize,
    threads: i32,
    _shared: usize,
) -> i32 {
    answer(|d| {
        d.kernel(function)?;
        blocks.put(2048 / threads.clamp(1, 2048))
    })
}

/// Gathers the parameter block from a caller's pointers.
fn parameters(kernel: &Function, params: u64, extra: u64) -> Result<Vec<u8>, Fault> {
    let entry = &*kernel.entry;
    let mut block = vec![0; entry.parameter_bytes as usize];
    let count = entry.parameters.len();
    let word = |address: u64| {
        let mut bytes = [0; 8];
        peek(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    };
    if params == 0 && extra != 0 {
        // Pairs of a name and a pointer: 1 the block, 2 its size, 0 the end.
        let (mut at, mut from, mut size) = (extra, None, None);
        loop {
            match (word(at), word(at + 8)) {
                (Some(0), _) => break,
                (Some(1), Some(pointer)) => from = Some(pointer),
                (Some(2), Some(pointer)) => size = word(pointer),
                _ => return Err(bad(format!("{}: the extra arguments are not understood", entry.name))),
            }
            at += 16;
        }
        let (Some(from), Some(size)) = (from, size) else {
            return Err(bad(format!("{}: no parameter block and its size", entry.name)));
        };
        if size != block.len() as u64 {
            let wanted = block.len();
            return Err(bad(format!("{}: {size} bytes of parameters, it takes {wanted}", entry.name)));
        }
        if !peek(from, &mut block) {
            return Err(bad(format!("{}: the parameter block is not there", entry.name)));
        }
        return Ok(block);
    }
    for (index, parameter) in entry.parameters.iter().enumerate() {
        let range = parameter.offset as usize..(parameter.offset + parameter.bytes) as usize;
        let pointer = if params == 0 { None } else { word(params + 8 * index as u64) };
        if !pointer.is_some_and(|p| p != 0 && peek(p, &mut block[range])) {
            return Err(bad(format!(
                "{}: argument {index} of {count} (from 0), of {} bytes, is not there: too few arguments?",
                entry.name, parameter.bytes
            )));
        }
    }
    Ok(block)
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    dynamic_shared: u32,
    stream: usize,
    params: u64,
    extra: u64,
) -> i32 {
    answer(|d| {
        check_stream(d, stream)?;
        let kernel = d.kernel(function)?;
        let parameters = parameters(&kernel, params, extra)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        d.launch(&kernel, &Order { grid, block, dynamic_shared, parameters: &parameters })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchCooperativeKernel(
    _function: usize,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _dynamic_shared: u32,
    _stream: usize,
    _params: u64,
) -> i32 {
    answer(|_| Err(Fault::new(Code::NotSupported, "cooperative launches: blocks run one after another")))
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchHostFunc(
    stream: usize,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> i32 {
    answer(|d| {
        check_stream(d, stream)?;
        call_host(function, data);
        Ok(())
    })
}

// Streams and events: everything is done when a call returns.

fn check_stream(d: &Driver, stream: usize) -> Result<(), Fault> {
    // 0, 1 and 2 are the default ones.
    if stream > 2 && !lock(&d.handles).streams.contains_key(&stream) {
        return Err(no("stream", stream));
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: Out<usize>, _flags: u32) -> i32 {
    answer(|d| {
        let device = d.current()?;
        drop(d.working(device)?);
        let mut handles = lock(&d.handles);
        let handle = handles.fresh();
        handles.streams.insert(handle, device);
        stream.put(handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreateWithPriority(stream: Out<usize>, flags: u32, _priority: i32) -> i32 {
    cuStreamCreate(stream, flags)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: usize) -> i32 {
    answer(|d| lock(&d.handles).streams.remove(&stream).map(|_| ()).ok_or_else(|| no("stream", stream)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: usize) -> i32 {
    answer(|d| {
        check_stream(d, stream)?;
        let own = lock(&d.handles).streams.get(&stream).copied();
        let device = match own {
            Some(device) => device,
            None => d.current()?,
        };
        d.working(device)?.memory.synchronise();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: usize) -> i32 {
    answer(|d| {
        check_stream(d, stream)?;
        d.working(d.current()?).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, _flags: u32) -> i32 {
    answer(|d| {
        check_stream(d, stream)?;
        if lock(&d.handles).events.contains_key(&event) { Ok(()) } else { Err(no("event", event)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(_stream: usize, status: Out<u32>) -> i32 {
    answer(|_| status.put(0))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(event: Out<usize>, _flags: u32) -> i32 {
    answer(|d| {
        drop(d.working(d.current()?)?);
        let mut handles = lock(&d.handles);
        let handle = handles.fresh();
        handles.events.insert(handle, None);
        event.put(handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: usize, stream: usize) -> i32 {
    answer(|d| {
        check_stream(d, stream)?;
        drop(d.working(d.current()?)?);
        match lock(&d.handles).events.get_mut(&event) {
            Some(at) => {
                *at = Some(Instant::now());
                Ok(())
            }
            None => Err(no("event", event)),
        }
    })
}

fn check_event(d: &Driver, event: usize) -> Result<(), Fault> {
    if !lock(&d.handles).events.contains_key(&event) {
        return Err(no("event", event));
    }
    d.working(d.current()?).map(drop)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: usize) -> i32 {
    answer(|d| check_event(d, event))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: usize) -> i32 {
    answer(|d| check_event(d, event))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: usize, end: usize) -> i32 {
    answer(|d| {
        let handles = lock(&d.handles);
        match (handles.events.get(&start), handles.events.get(&end)) {
            (Some(Some(start)), Some(Some(end))) => {
                milliseconds.put(end.saturating_duration_since(*start).as_secs_f32() * 1e3)
            }
            _ => Err(Fault::new(Code::InvalidHandle, "events that were not recorded")),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(milliseconds: Out<f32>, start: usize, end: usize) -> i32 {
    cuEventElapsedTime_v2(milliseconds, start, end)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: usize) -> i32 {
    answer(|d| lock(&d.handles).events.remove(&event).map(|_| ()).ok_or_else(|| no("event", event)))
}

// Memory.

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

// Pools.

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

fn pool_of(d: &Driver, pool: usize) -> Result<(usize, usize), Fault> {
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

// What a real driver does not have.

/// Copies the text of the last fault, ended by a zero, as far as there is room; gives its length.
#[unsafe(no_mangle)]
extern "C" fn standin_last_report(to: Out<u8>, room: usize) -> usize {
    let text = report::last();
    if let Ok(to) = target(to, room)
        && room > 0
    {
        let len = text.len().min(room - 1);
        to[..len].copy_from_slice(&text.as_bytes()[..len]);
        to[len] = 0;
    }
    text.len()
}

/// Forgets the last fault, and what is wrong with a device.
#[unsafe(no_mangle)]
extern "C" fn standin_clear(device: i32) -> i32 {
    answer(|d| {
        d.device(ordinal(device)?)?.sticky = None;
        report::clear();
        Ok(())
    })
}

/// The `n`-th allocation from now on fails; 0 for none.
#[unsafe(no_mangle)]
extern "C" fn standin_fail_allocation(n: u64) -> i32 {
    answer(|d| {
        d.fail_allocation(n);
        Ok(())
    })
}

/// Another capacity of a device.
#[unsafe(no_mangle)]
extern "C" fn standin_set_capacity(device: i32, bytes: u64) -> i32 {
    answer(|d| {
        d.device(ordinal(device)?)?.memory.set_capacity(bytes);
        Ok(())
    })
}

/// Live allocations of a device, their bytes, and the most that there were.
#[unsafe(no_mangle)]
extern "C" fn standin_memory(device: i32, counts: Out<[u64; 3]>) -> i32 {
    answer(|d| {
        let device = d.device(ordinal(device)?)?;
        counts.put([device.memory.live() as u64, device.memory.used(), device.memory.used_high()])
    })
}

/// What launches did since this was last asked: bytes read, written, changed by atomics, instructions of lanes, of warps.
#[unsafe(no_mangle)]
extern "C" fn standin_traffic(device: i32, counts: Out<[u64; 5]>) -> i32 {
    answer(|d| {
        let t = core::mem::take(&mut d.device(ordinal(device)?)?.traffic);
        counts.put([t.read, t.written, t.atomic, t.lane_instructions, t.warp_instructions])
    })
}
