//! The functions that a program finds in libcuda, by subject; here devices and their contexts.

// `no_mangle` is how a program finds them; their names are CUDA's, their arguments as C hands them over.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments, clippy::needless_pass_by_value)]

mod extra;
mod memory;
mod modules;
mod pools;
mod streams;

use super::border::{Out, answer, target};
use super::{CURRENT, Driver, bad, context_of};
use crate::report::{Code, Fault};
use std::ffi::c_char;

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
