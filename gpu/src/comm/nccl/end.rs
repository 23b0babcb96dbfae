//! One rank's end of a communicator: memory of the device, a stream, and what is sent and received on it.

use crate::comm::CommError;
use crate::comm::store::Store;
use core::ffi::c_int;
use core::fmt;
use cudarc::driver::{CudaContext, CudaStream, result as driver, sys as driver_sys};
use cudarc::nccl::{result as nccl, sys};
use moe_model_core::groups::Group;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// What ends are made with, on any thread.
pub(super) struct Maker {
    pub(super) rank: u64,
    pub(super) context: Arc<CudaContext>,
    pub(super) store: Store,
}

/// A communicator of some ranks.
pub(super) struct End {
    /// None once it was given up.
    comm: Cell<Option<sys::ncclComm_t>>,
    stream: Arc<CudaStream>,
    /// The last is in use. Those before are freed with it: a free waits for all that the device does, and messages on their
    /// way wait for other ranks, which may wait for this one.
    rooms: RefCell<Vec<Room>>,
}

/// Memory of the device, beside its pool.
struct Room {
    address: u64,
    len: usize,
}

/// Ranks, group and operation, as errors name them.
pub(super) type About<'a> = (u64, Group, &'static str, &'a Duration);

/// What a message begins with: its length, and what it is for.
pub(super) const HEADER: usize = 16;

pub(super) fn failed((rank, group, operation, _): About<'_>, error: &dyn fmt::Debug) -> CommError {
    let error = format!("{error:?}");
    if error.contains("ncclRemoteError") {
        return CommError::Gone { rank, group, operation };
    }
    CommError::Disagree { rank, group, operation, how: format!("NCCL or the driver refuses: {error}") }
}

impl Maker {
    /// The same for another thread, with its own way to the store.
    pub(super) fn another(&self, about: About<'_>) -> Result<Self, CommError> {
        let store = self.store.another().map_err(|_| stalled(about))?;
        Ok(Self { rank: self.rank, context: self.context.clone(), store })
    }

    /// The end of a communicator by its name: of some ranks, in their order. Waits for all of them: for the first one as long
    /// as the patience is, and then in NCCL without bound.
    pub(super) fn end(&self, name: &str, ranks: &[u64], about: About<'_>) -> Result<End, CommError> {
        let (stalled, no) = (stalled(about), |error: &dyn fmt::Debug| failed(about, error));
        let id = if ranks.first() == Some(&self.rank) {
            let id = nccl::get_uniqueid().map_err(|error| no(&error.0))?;
            self.store.set(name, &id.internal.map(c_int::from).map(low)).map_err(|_| stalled.clone())?;
            id
        } else {
            let bytes = self.store.get(name).map_err(|_| stalled.clone())?;
            let mut internal = [0; 128];
            internal.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte.cast_signed());
            sys::ncclUniqueId { internal }
        };
        self.context.bind_to_thread().map_err(|error| no(&error))?;
        let stream = self.context.new_stream().map_err(|error| no(&error))?;
        let mut comm = core::ptr::null_mut();
        let mine = ranks.iter().position(|rank| *rank == self.rank).unwrap_or(0);
        // SAFETY: the pointer is one to write the communicator to, and lives during the call.
        unsafe { nccl::comm_init_rank(&raw mut comm, int(ranks.len()), id, int(mine)) }
            .map_err(|error| no(&error.0))?;
        Ok(End { comm: Cell::new(Some(comm)), stream, rooms: RefCell::default() })
    }
}

fn stalled((rank, group, operation, patience): About<'_>) -> CommError {
    let waited = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    CommError::Stalled { rank, group, operation, waited }
}

/// The byte of a character of C.
fn low(character: c_int) -> u8 {
    character.to_le_bytes()[0]
}

fn int(count: usize) -> c_int {
    c_int::try_from(count).expect("ranks are numbers of 31 bits")
}

/// What a message is for, as a number (FNV-1a).
pub(super) fn tag(group: Group, operation: &str) -> u64 {
    let bytes = group.name().bytes().chain([0]).chain(operation.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

pub(super) fn header(len: usize, tag: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&(len as u64).to_le_bytes());
    header[8..].copy_from_slice(&tag.to_le_bytes());
    header
}

/// The length that a header says, if it is for the same.
pub(super) fn length(header: &[u8], expected: u64, (rank, group, operation, _): About<'_>) -> Result<usize, CommError> {
    let (numbers, _) = header.as_chunks();
    let [len, tag] = [0, 1].map(|at| numbers.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes)));
    if tag == expected {
        return Ok(usize::try_from(len).unwrap_or(usize::MAX));
    }
    Err(CommError::Disagree { rank, group, operation, how: "it does something else".to_owned() })
}

impl Room {
    fn of(len: usize) -> Result<Self, cudarc::driver::DriverError> {
        // SAFETY: the context is bound to the thread; nothing is read before it was written.
        Ok(Self { address: unsafe { driver::malloc_sync(len) }?, len })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: it was allocated so, is freed once, and nothing on the stream uses it: the end either waited for all that
        // the stream does, or gave up the communicator, which ends what was on its way.
        let _ = unsafe { driver::free_sync(self.address) };
    }
}

impl End {
    /// Room for so many bytes, of which the content is not kept.
    pub(super) fn room(&self, len: usize, about: About<'_>) -> Result<u64, CommError> {
        let mut rooms = self.rooms.borrow_mut();
        if let Some(room) = rooms.last().filter(|room| room.len >= len) {
            return Ok(room.address);
        }
        // By twice at least, so that all of them are no more than twice the last.
        let room = Room::of(len.next_power_of_two().max(HEADER)).map_err(|error| failed(about, &error))?;
        let address = room.address;
        rooms.push(room);
        Ok(address)
    }

    pub(super) fn to_device(&self, to: u64, bytes: &[u8], about: About<'_>) -> Result<(), CommError> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: there is room for them; the host's are kept until all are copied.
        unsafe { driver::memcpy_htod_async(to, bytes, self.stream.cu_stream()) }
            .and_then(|()| self.stream.synchronize())
            .map_err(|error| failed(about, &error))
    }

    pub(super) fn to_host(&self, from: u64, len: usize, about: About<'_>) -> Result<Vec<u8>, CommError> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; len];
        // SAFETY: as many were received there, which was waited for; the host's memory is kept until all are copied.
        unsafe { driver::memcpy_dtoh_async(&mut bytes, from, self.stream.cu_stream()) }
            .and_then(|()| self.stream.synchronize())
            .map_err(|error| failed(about, &error))?;
        Ok(bytes)
    }

    pub(super) fn send(&self, from: u64, len: usize, to: usize, about: About<'_>) -> Result<(), CommError> {
        let kind = sys::ncclDataType_t::ncclUint8;
        let comm = self.comm(about)?;
        // SAFETY: as many bytes are there, and stay until the stream has sent them.
        unsafe { nccl::send(from as *const _, len, kind, int(to), comm, self.stream.cu_stream().cast()) }
            .map(drop)
            .map_err(|error| failed(about, &error.0))
    }

    pub(super) fn receive(&self, to: u64, len: usize, from: usize, about: About<'_>) -> Result<(), CommError> {
        let kind = sys::ncclDataType_t::ncclUint8;
        let comm = self.comm(about)?;
        // SAFETY: there is room for as many bytes, which nobody reads before the stream has received them.
        unsafe { nccl::recv(to as *mut _, len, kind, int(from), comm, self.stream.cu_stream().cast()) }
            .map(drop)
            .map_err(|error| failed(about, &error.0))
    }

    /// The communicator, if it was not given up.
    fn comm(&self, (rank, group, operation, _): About<'_>) -> Result<sys::ncclComm_t, CommError> {
        let how = || "what was on its way before stalled, and was given up".to_owned();
        self.comm.get().ok_or_else(|| CommError::Disagree { rank, group, operation, how: how() })
    }

    /// Ends what is on its way: else whatever waits for the stream or the device, a free among them, waits for a rank that
    /// does not come.
    fn give_up(&self) {
        if let Some(comm) = self.comm.take() {
            // SAFETY: the communicator was there, and nobody uses it again.
            let _ = unsafe { nccl::comm_abort(comm) };
        }
    }

    fn is_idle(&self) -> bool {
        // SAFETY: the stream is there.
        let state = unsafe { driver_sys::cuStreamQuery(self.stream.cu_stream()) };
        state != driver_sys::CUresult::CUDA_ERROR_NOT_READY
    }

    /// Waits until the stream has done all, as long as the patience is: then the communicator is given up.
    pub(super) fn wait(&self, about: About<'_>) -> Result<(), CommError> {
        let begun = Instant::now();
        self.wait_while(|| begun.elapsed() <= *about.3, about)
    }

    /// The same, as long as something holds.
    pub(super) fn wait_while(&self, holds: impl Fn() -> bool, about: About<'_>) -> Result<(), CommError> {
        while !self.is_idle() {
            if !holds() {
                self.give_up();
                return Err(stalled(about));
            }
            thread::yield_now();
        }
        self.stream.synchronize().map_err(|error| failed(about, &error))
    }

    /// Pieces to all members but one and from them, at once: of those of no bytes neither side hears.
    pub(super) fn swap(
        &self,
        mine: usize,
        to: &[(u64, usize)],
        from: &[(u64, usize)],
        about: About<'_>,
    ) -> Result<(), CommError> {
        nccl::group_start().map_err(|error| failed(about, &error.0))?;
        let mut asked = Ok(());
        for (member, (to, from)) in to.iter().zip(from).enumerate().filter(|(member, _)| *member != mine) {
            if to.1 > 0 {
                asked = asked.and_then(|()| self.send(to.0, to.1, member, about));
            }
            if from.1 > 0 {
                asked = asked.and_then(|()| self.receive(from.0, from.1, member, about));
            }
        }
        // A group ends however it went.
        nccl::group_end().map_err(|error| failed(about, &error.0))?;
        asked?;
        self.wait(about)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(comm) = self.comm.take() else { return };
        // All that was asked for was waited for, or given up: what is on its way is what an error came before.
        if self.is_idle() {
            // SAFETY: the communicator is there, and ends once.
            let _ = unsafe { nccl::comm_destroy(comm) };
        } else {
            // SAFETY: as above.
            let _ = unsafe { nccl::comm_abort(comm) };
        }
    }
}
