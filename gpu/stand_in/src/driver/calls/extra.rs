//! What a real driver does not have: questions and wishes of tests.

use super::ordinal;
use crate::driver::border::{Out, answer, target};
use crate::report;

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
        d.allocations.fail(n);
        Ok(())
    })
}

/// The `n`-th copy, fill, launch or product from now on fails; 0 for none.
#[unsafe(no_mangle)]
extern "C" fn standin_fail_work(n: u64) -> i32 {
    answer(|d| {
        d.work.fail(n);
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
