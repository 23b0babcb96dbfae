//! A world of GPUs, over processes and machines: NCCL carries the bytes. A launcher says each process its place
//! ([`Launch::from_environment`]); each group has a communicator of its own, made when it is first used, and so has each
//! direction between two ranks, so that what is sent waits for nobody. Bytes go through memory of the device beside its pool.

#![allow(unsafe_code)]

use super::store::Store;
use super::{Carrier, CommError};
use crate::cuda::{Cuda, Library, NoDevice};
use core::ffi::c_int;
use core::fmt;
use cudarc::driver::{CudaContext, CudaStream, result as driver, sys as driver_sys};
use cudarc::nccl::{result as nccl, sys};
use moe_model_core::groups::{Group, Ranks};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A process's place in a world, as launchers such as `torchrun` say it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Its number: `RANK`.
    pub rank: u64,
    /// How many there are: `WORLD_SIZE`.
    pub size: u64,
    /// Its device on its machine: `LOCAL_RANK`.
    pub device: usize,
    /// Where rank 0 listens: `MASTER_ADDR`, and `MASTER_PORT`, 29500 where it is not said.
    pub address: (String, u16),
}

/// Why a process takes no part in a world.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoWorld {
    /// A variable that a launcher sets is not there, or says something else.
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value; empty where it is not there.
        value: String,
        /// What it has to be.
        expected: &'static str,
    },
    /// Rank 0 cannot be reached, or cannot listen.
    Unreachable(String),
    /// There is no device, or no NCCL.
    Device(NoDevice),
}

impl fmt::Display for NoWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable { name, value, expected } if value.is_empty() => {
                write!(f, "the variable {name} is not set: {expected}, as a launcher (`torchrun`) says")
            }
            Self::Variable { name, value, expected } => write!(f, "the variable {name} = {value}: it is {expected}"),
            Self::Unreachable(error) => write!(f, "rank 0 of the world: {error}"),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for NoWorld {}

impl From<NoDevice> for NoWorld {
    fn from(error: NoDevice) -> Self {
        Self::Device(error)
    }
}

impl Launch {
    /// What the environment says.
    ///
    /// # Errors
    /// If a variable is missing, or is no number.
    pub fn from_environment() -> Result<Self, NoWorld> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// The same, given how a variable is looked up.
    ///
    /// # Errors
    /// As above.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, NoWorld> {
        let number = |name: &'static str, default: Option<&str>, most: u64| {
            let value = lookup(name).or_else(|| default.map(str::to_owned)).unwrap_or_default();
            let expected = match name {
                "RANK" => "a rank of the world, from 0 to WORLD_SIZE - 1",
                "WORLD_SIZE" => "how many ranks there are",
                "LOCAL_RANK" => "a device of this machine, from 0",
                _ => "a port",
            };
            match value.parse::<u64>() {
                Ok(number) if number < most => Ok(number),
                _ => Err(NoWorld::Variable { name, value, expected }),
            }
        };
        let size = number("WORLD_SIZE", None, u64::from(u32::MAX))?;
        let rank = number("RANK", None, size)?;
        let device = usize::try_from(number("LOCAL_RANK", None, u64::from(u32::MAX))?).unwrap_or(usize::MAX);
        let port = number("MASTER_PORT", Some("29500"), 1 << 16)?;
        let host = lookup("MASTER_ADDR").filter(|host| !host.is_empty());
        let expected = "the machine of rank 0";
        let host = host.ok_or(NoWorld::Variable { name: "MASTER_ADDR", value: String::new(), expected })?;
        Ok(Self { rank, size, device, address: (host, u16::try_from(port).unwrap_or(u16::MAX)) })
    }

    /// Joins the world on a device, that of [`Self::device`]; rank 0 listens for the others.
    ///
    /// # Errors
    /// If there is no NCCL, or rank 0 is not reached within the patience.
    pub fn join(&self, device: &Cuda, patience: Duration) -> Result<Nccl, NoWorld> {
        let said = |error: std::io::Error| {
            let (host, port) = &self.address;
            NoWorld::Unreachable(format!("{host}:{port}: {error}"))
        };
        if self.rank == 0 {
            Store::keep(TcpListener::bind(("0.0.0.0", self.address.1)).map_err(said)?);
        }
        let store = Store::reach((self.address.0.as_str(), self.address.1), patience).map_err(said)?;
        Ok(Nccl::new(self.rank, device, store, patience)?)
    }
}

/// One rank of a world.
pub struct Nccl {
    rank: u64,
    context: Arc<CudaContext>,
    store: Store,
    patience: Duration,
    ends: RefCell<HashMap<String, Rc<End>>>,
}

/// A communicator of some ranks.
struct End {
    comm: sys::ncclComm_t,
    stream: Arc<CudaStream>,
    room: RefCell<Room>,
    /// What was sent, and may still be on its way.
    sent: RefCell<Vec<Room>>,
}

/// Memory of the device, beside its pool.
struct Room {
    address: u64,
    len: usize,
}

/// Ranks, group and operation, as errors name them.
type About<'a> = (u64, Group, &'static str, &'a Duration);

/// What a message begins with: its length, and what it is for.
const HEADER: usize = 16;

fn failed((rank, group, operation, _): About<'_>, error: &dyn fmt::Debug) -> CommError {
    let error = format!("{error:?}");
    if error.contains("ncclRemoteError") {
        return CommError::Gone { rank, group, operation };
    }
    CommError::Disagree { rank, group, operation, how: format!("NCCL or the driver refuses: {error}") }
}

impl Nccl {
    /// A rank on a device, that finds its peers through a store.
    ///
    /// # Errors
    /// If there is no NCCL.
    pub fn new(rank: u64, device: &Cuda, store: Store, patience: Duration) -> Result<Self, NoDevice> {
        // SAFETY: the call only tries to load a library by name, and cudarc loads the same one later. Asked first, since
        // cudarc panics where the library is missing.
        if !unsafe { sys::is_culib_present() } {
            return Err(NoDevice::NoLibrary(Library::Nccl));
        }
        Ok(Self { rank, context: device.context().clone(), store, patience, ends: RefCell::default() })
    }

    /// The communicator of a name: of some ranks, in their order.
    fn end(&self, name: String, ranks: &[u64], about: About<'_>) -> Result<Rc<End>, CommError> {
        if let Some(end) = self.ends.borrow().get(&name) {
            return Ok(end.clone());
        }
        let (stalled, no) = (stalled(about), |error: &dyn fmt::Debug| failed(about, error));
        let id = if ranks.first() == Some(&self.rank) {
            let id = nccl::get_uniqueid().map_err(|error| no(&error.0))?;
            self.store.set(&name, &id.internal.map(c_int::from).map(low)).map_err(|_| stalled.clone())?;
            id
        } else {
            let bytes = self.store.get(&name).map_err(|_| stalled.clone())?;
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
        let end = Rc::new(End { comm, stream, room: RefCell::new(Room::NONE), sent: RefCell::default() });
        self.ends.borrow_mut().insert(name, end.clone());
        Ok(end)
    }

    /// That of one direction between two ranks: the first sends, the second receives. Both directions are made when the two
    /// first meet, whoever sends, in an order that both know: making one waits for the other rank.
    fn direction(&self, from: u64, to: u64, about: About<'_>) -> Result<Rc<End>, CommError> {
        let (low, high) = (from.min(to), from.max(to));
        let [up, down] = [[low, high], [high, low]];
        let [up, down] = [self.end(named(up), &up, about)?, self.end(named(down), &down, about)?];
        Ok(if from < to { up } else { down })
    }
}

fn named([from, to]: [u64; 2]) -> String {
    format!("{from}>{to}")
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
fn tag(group: Group, operation: &str) -> u64 {
    let bytes = group.name().bytes().chain([0]).chain(operation.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn header(len: usize, tag: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&(len as u64).to_le_bytes());
    header[8..].copy_from_slice(&tag.to_le_bytes());
    header
}

/// The length that a header says, if it is for the same.
fn length(header: &[u8], expected: u64, (rank, group, operation, _): About<'_>) -> Result<usize, CommError> {
    let (numbers, _) = header.as_chunks();
    let [len, tag] = [0, 1].map(|at| numbers.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes)));
    if tag == expected {
        return Ok(usize::try_from(len).unwrap_or(usize::MAX));
    }
    Err(CommError::Disagree { rank, group, operation, how: "it does something else".to_owned() })
}

impl Room {
    const NONE: Self = Self { address: 0, len: 0 };

    fn of(len: usize) -> Result<Self, cudarc::driver::DriverError> {
        if len == 0 {
            return Ok(Self::NONE);
        }
        // SAFETY: the context is bound to the thread; nothing is read before it was written.
        Ok(Self { address: unsafe { driver::malloc_sync(len) }?, len })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: it was allocated so, is freed once, and nothing on the stream uses it: who gives it up waited for that.
            let _ = unsafe { driver::free_sync(self.address) };
        }
    }
}

impl End {
    /// Room for so many bytes, of which the content is not kept.
    fn room(&self, len: usize, about: About<'_>) -> Result<u64, CommError> {
        let mut room = self.room.borrow_mut();
        if room.len < len {
            *room = Room::NONE;
            *room = Room::of(len).map_err(|error| failed(about, &error))?;
        }
        Ok(room.address)
    }

    fn to_device(&self, to: u64, bytes: &[u8], about: About<'_>) -> Result<(), CommError> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: there is room for them; the host's are kept until all are copied.
        unsafe { driver::memcpy_htod_async(to, bytes, self.stream.cu_stream()) }
            .and_then(|()| self.stream.synchronize())
            .map_err(|error| failed(about, &error))
    }

    fn to_host(&self, from: u64, len: usize, about: About<'_>) -> Result<Vec<u8>, CommError> {
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

    fn send(&self, from: u64, len: usize, to: usize, about: About<'_>) -> Result<(), CommError> {
        let kind = sys::ncclDataType_t::ncclUint8;
        // SAFETY: as many bytes are there, and stay until the stream has sent them.
        unsafe { nccl::send(from as *const _, len, kind, int(to), self.comm, self.stream.cu_stream().cast()) }
            .map(drop)
            .map_err(|error| failed(about, &error.0))
    }

    fn receive(&self, to: u64, len: usize, from: usize, about: About<'_>) -> Result<(), CommError> {
        let kind = sys::ncclDataType_t::ncclUint8;
        // SAFETY: there is room for as many bytes, which nobody reads before the stream has received them.
        unsafe { nccl::recv(to as *mut _, len, kind, int(from), self.comm, self.stream.cu_stream().cast()) }
            .map(drop)
            .map_err(|error| failed(about, &error.0))
    }

    fn is_idle(&self) -> bool {
        // SAFETY: the stream is there.
        let state = unsafe { driver_sys::cuStreamQuery(self.stream.cu_stream()) };
        state != driver_sys::CUresult::CUDA_ERROR_NOT_READY
    }

    /// Waits until the stream has done all.
    fn wait(&self, about: About<'_>) -> Result<(), CommError> {
        let begun = Instant::now();
        while !self.is_idle() {
            if begun.elapsed() > *about.3 {
                return Err(stalled(about));
            }
            thread::yield_now();
        }
        self.stream.synchronize().map_err(|error| failed(about, &error))
    }

    /// Pieces to all members but one and from them, at once: of those of no bytes neither side hears.
    fn swap(&self, mine: usize, to: &[(u64, usize)], from: &[(u64, usize)], about: About<'_>) -> Result<(), CommError> {
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
        // What was sent is received by somebody who is there, or by nobody any more.
        let _ = self.stream.synchronize();
        // SAFETY: the communicator is there, and ends once.
        let _ = unsafe { nccl::comm_destroy(self.comm) };
    }
}

/// Where pieces of such lengths lie behind one another.
fn places(first: u64, lens: impl Iterator<Item = usize>) -> Vec<(u64, usize)> {
    let mut next = first;
    let place = |len: usize| {
        next += len as u64;
        (next - len as u64, len)
    };
    lens.map(place).collect()
}

impl Carrier for Nccl {
    fn exchange(
        &self,
        group: Group,
        ranks: Ranks,
        operation: &'static str,
        sent: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        let ranks: Vec<u64> = ranks.into_iter().collect();
        let Some(mine) = ranks.iter().position(|rank| *rank == self.rank).filter(|_| ranks.len() > 1) else {
            return Ok(sent);
        };
        let other = *ranks.iter().find(|rank| **rank != self.rank).unwrap_or(&self.rank);
        let about = (other, group, operation, &self.patience);
        let names: Vec<String> = ranks.iter().map(u64::to_string).collect();
        let end = self.end(format!("{}:{}", group.name(), names.join(",")), &ranks, about)?;
        let tag = tag(group, operation);
        // Lengths first.
        let all = ranks.len();
        let at = end.room(2 * all * HEADER, about)?;
        let headers: Vec<u8> = sent.iter().flat_map(|message| header(message.len(), tag)).collect();
        end.to_device(at, &headers, about)?;
        let to = places(at, core::iter::repeat_n(HEADER, all));
        let from = places(at + (all * HEADER) as u64, core::iter::repeat_n(HEADER, all));
        // What nobody sends to itself is its own.
        end.to_device(from[mine].0, &headers[mine * HEADER..][..HEADER], about)?;
        end.swap(mine, &to, &from, about)?;
        let come = end.to_host(from[0].0, all * HEADER, about)?;
        let lens = come.chunks_exact(HEADER).zip(&ranks);
        let lens = lens.map(|(header, rank)| length(header, tag, (*rank, group, operation, &self.patience)));
        let lens = lens.collect::<Result<Vec<usize>, _>>()?;
        // Then the messages.
        let (sends, receives): (usize, usize) = (sent.iter().map(Vec::len).sum(), lens.iter().sum());
        let at = end.room(sends + receives, about)?;
        end.to_device(at, &sent.concat(), about)?;
        let from = places(at + sends as u64, lens.iter().copied());
        end.swap(mine, &places(at, sent.iter().map(Vec::len)), &from, about)?;
        let mut sent = sent;
        let own = core::mem::take(&mut sent[mine]);
        let mut received = from
            .iter()
            .enumerate()
            .map(|(member, (at, len))| if member == mine { Ok(Vec::new()) } else { end.to_host(*at, *len, about) })
            .collect::<Result<Vec<_>, _>>()?;
        received[mine] = own;
        Ok(received)
    }

    fn send(&self, to: u64, group: Group, operation: &'static str, message: Vec<u8>) -> Result<(), CommError> {
        let about = (to, group, operation, &self.patience);
        let end = self.direction(self.rank, to, about)?;
        if end.is_idle() {
            end.sent.borrow_mut().clear();
        }
        let bytes = [&header(message.len(), tag(group, operation))[..], &message].concat();
        let room = Room::of(bytes.len()).map_err(|error| failed(about, &error))?;
        let at = room.address;
        // In the order of the stream, behind what is on its way.
        // SAFETY: there is room; the copy reads all of the host's bytes before the call returns, as they are pageable.
        unsafe { driver::memcpy_htod_async(at, &bytes, end.stream.cu_stream()) }
            .map_err(|error| failed(about, &error))?;
        end.sent.borrow_mut().push(room);
        end.send(at, HEADER, 1, about)?;
        if message.is_empty() { Ok(()) } else { end.send(at + HEADER as u64, message.len(), 1, about) }
    }

    fn receive(&self, from: u64, group: Group, operation: &'static str) -> Result<Vec<u8>, CommError> {
        let about = (from, group, operation, &self.patience);
        let end = self.direction(from, self.rank, about)?;
        let at = end.room(HEADER, about)?;
        end.receive(at, HEADER, 0, about)?;
        end.wait(about)?;
        let len = length(&end.to_host(at, HEADER, about)?, tag(group, operation), about)?;
        let at = end.room(len, about)?;
        if len > 0 {
            end.receive(at, len, 0, about)?;
            end.wait(about)?;
        }
        end.to_host(at, len, about)
    }
}

#[cfg(test)]
mod tests {
    use super::{Launch, NoWorld};

    fn read(variables: &[(&str, &str)]) -> Result<Launch, NoWorld> {
        Launch::read(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_launcher_says_the_place() {
        let all = [("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "node-0")];
        let address = ("node-0".to_owned(), 29500);
        assert_eq!(read(&all).expect("it is whole"), Launch { rank: 5, size: 8, device: 1, address });
        assert_eq!(read(&[&all[..], &[("MASTER_PORT", "77")]].concat()).expect("it is whole").address.1, 77);
        let said = |variables: &[(&str, &str)]| read(variables).expect_err("something is missing").to_string();
        assert_eq!(
            said(&all[..1]),
            "the variable WORLD_SIZE is not set: how many ranks there are, as a launcher (`torchrun`) says"
        );
        assert_eq!(
            said(&[&[("RANK", "8")], &all[1..]].concat()),
            "the variable RANK = 8: it is a rank of the world, from 0 to WORLD_SIZE - 1"
        );
        assert!(said(&all[..3]).contains("MASTER_ADDR is not set: the machine of rank 0"));
    }
}
