//! Modules and launches of their kernels.

use super::streams::check_stream;
use crate::driver::border::{In, Out, answer, call_host, peek};
use crate::driver::{Function, Order, bad};
use crate::report::{Code, Fault};
use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;

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
