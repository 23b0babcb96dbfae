//! Streams and events: everything is done when a call returns.

use crate::driver::border::{Out, answer};
use crate::driver::{Driver, lock, no};
use crate::report::{Code, Fault};
use std::time::Instant;

pub(super) fn check_stream(d: &Driver, stream: usize) -> Result<(), Fault> {
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
