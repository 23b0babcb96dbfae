//! NCCL among the devices of one machine, whose ranks are threads of a process, or of several: sums in the order of ranks. What
//! is asked for is done when the call that ends its group returns; but a message from one rank to another goes out when it
//! is sent, once both have asked for the first one.

// As in the driver's calls: the names are NCCL's, the arguments as C hands them over.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments)]

mod hub;
mod seat;
mod world;

use crate::driver::Driver;
use crate::driver::border::{Out, answer_in};
use crate::exec::alu::{narrow, widen};
use crate::handles::Table;
use crate::memory::Extract;
use crate::ptx::instruction::Type;
use crate::report::{Code, Fault};
use seat::Seat;
use std::cell::RefCell;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU64, Ordering};
use world::{Parcel, Side};

/// 2.27.0.
const VERSION: i32 = 22700;

/// The `ncclResult_t`s that it gives.
const UNHANDLED_CUDA_ERROR: i32 = 1;
const INVALID_ARGUMENT: i32 = 4;
const INVALID_USAGE: i32 = 5;
const REMOTE_ERROR: i32 = 6;

/// `ncclUniqueId`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct UniqueId([u8; 128]);

/// A rank's end of a communicator.
#[derive(Debug, Clone)]
struct Comm {
    seat: Seat,
    device: usize,
}

/// What a rank asks for.
#[derive(Debug, Clone)]
struct Order {
    comm: Comm,
    kind: Kind,
    from: u64,
    to: u64,
    /// Elements of `from` for each that it goes to.
    count: u64,
    element: Type,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Send(usize),
    Receive(usize),
    Broadcast(usize),
    AllGather,
    AllReduce(Reduction),
    ReduceScatter(Reduction),
}

#[derive(Debug, Clone, Copy)]
enum Reduction {
    Sum,
    Product,
    Max,
    Min,
    Average,
}

static COMMS: Table<Comm> = Table::new("communicator");

thread_local! {
    /// What this thread asked for since its group began, and how many groups are within one another.
    static GROUP: RefCell<(usize, Vec<Order>)> = const { RefCell::new((0, Vec::new())) };
}

/// Answers a call with NCCL's codes.
fn answer(call: impl FnOnce(&'static Driver) -> Result<(), Fault>) -> i32 {
    let code = |code| match code {
        Code::InvalidValue | Code::InvalidHandle => INVALID_ARGUMENT,
        Code::NotSupported => INVALID_USAGE,
        Code::LaunchTimeout => REMOTE_ERROR,
        _ => UNHANDLED_CUDA_ERROR,
    };
    answer_in(code, call)
}

fn element(number: u32) -> Result<Type, Fault> {
    Ok(match number {
        0 => Type::S8,
        1 => Type::U8,
        2 => Type::S32,
        3 => Type::U32,
        4 => Type::S64,
        5 => Type::U64,
        6 => Type::F16,
        7 => Type::F32,
        8 => Type::F64,
        9 => Type::Bf16,
        _ => return Err(Fault::new(Code::NotSupported, format!("elements of ncclDataType {number}"))),
    })
}

fn reduction(number: u32) -> Result<Reduction, Fault> {
    Ok(match number {
        0 => Reduction::Sum,
        1 => Reduction::Product,
        2 => Reduction::Max,
        3 => Reduction::Min,
        4 => Reduction::Average,
        _ => return Err(Fault::new(Code::NotSupported, format!("ncclRedOp {number}"))),
    })
}

fn peer(comm: &Comm, number: i32) -> Result<usize, Fault> {
    let rank = usize::try_from(number).ok().filter(|rank| *rank < comm.seat.size);
    rank.ok_or_else(|| Fault::new(Code::InvalidValue, format!("no rank {number} of {}", comm.seat.size)))
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Send(_) | Self::Receive(_) => "a message",
            Self::Broadcast(_) => "a broadcast",
            Self::AllGather => "an all-gather",
            Self::AllReduce(_) => "an all-reduce",
            Self::ReduceScatter(_) => "a reduce-scatter",
        }
    }
}

impl Order {
    /// Bytes for each rank that something goes to, or comes from.
    fn bytes(&self) -> u64 {
        self.count * u64::from(self.element.bytes())
    }

    /// Who is on the other side of a message.
    const fn other(&self) -> Option<(Side, usize)> {
        match self.kind {
            Kind::Send(to) => Some((Side::Send, to)),
            Kind::Receive(from) => Some((Side::Receive, from)),
            _ => None,
        }
    }

    /// Sends what others wait for.
    fn begin(&self, driver: &Driver) -> Result<(), Fault> {
        let Comm { seat, device } = &self.comm;
        let everyone = 0..seat.size;
        let put = |to: usize, first: u64| {
            let content = driver.working(*device)?.memory.extract(self.from + first, self.bytes())?;
            seat.put(to, Parcel { what: self.kind.name().to_owned(), content })
        };
        match self.kind {
            Kind::Send(to) => put(to, 0),
            Kind::Receive(_) => Ok(()),
            Kind::Broadcast(root) if root != seat.rank => Ok(()),
            Kind::Broadcast(_) | Kind::AllGather | Kind::AllReduce(_) => {
                everyone.into_iter().try_for_each(|to| put(to, 0))
            }
            Kind::ReduceScatter(_) => everyone.into_iter().try_for_each(|to| put(to, to as u64 * self.bytes())),
        }
    }

    /// Receives what others sent.
    fn end(&self, driver: &Driver) -> Result<(), Fault> {
        let Comm { seat, device } = &self.comm;
        let take = |from: usize| seat.take(from, self.kind.name(), self.bytes());
        let insert = |first: u64, content: &Extract| driver.working(*device)?.memory.insert(self.to + first, content);
        match self.kind {
            Kind::Send(_) => Ok(()),
            Kind::Receive(from) | Kind::Broadcast(from) => insert(0, &take(from)?),
            Kind::AllGather => (0..seat.size).try_for_each(|from| insert(from as u64 * self.bytes(), &take(from)?)),
            Kind::AllReduce(reduction) | Kind::ReduceScatter(reduction) => {
                let all = (0..seat.size).map(take).collect::<Result<Vec<_>, _>>()?;
                let reduced = if driver.config.rules.is_dry { return Ok(()) } else { self.reduced(reduction, &all)? };
                driver.working(*device)?.memory.write(self.to, &reduced)
            }
        }
    }

    /// In the order of ranks, in f64 of floating-point numbers, rounded once.
    fn reduced(&self, reduction: Reduction, all: &[Extract]) -> Result<Vec<u8>, Fault> {
        let size = self.element.bytes() as usize;
        if !matches!(self.element, Type::F16 | Type::Bf16 | Type::F32 | Type::F64) {
            return Err(Fault::new(Code::NotSupported, format!("{} of {:?}", self.kind.name(), self.element)));
        }
        let number = |bytes: &[u8]| {
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(bytes);
            widen(u64::from_le_bytes(bits), self.element)
        };
        let mut ranks = all.iter();
        let values = |extract: &Extract| Ok::<_, Fault>(extract.written()?.chunks_exact(size).map(number).collect());
        let mut sums: Vec<f64> = ranks.next().map_or_else(|| Ok(Vec::new()), values)?;
        for rank in ranks {
            let values: Vec<f64> = values(rank)?;
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = match reduction {
                    Reduction::Sum | Reduction::Average => *sum + value,
                    Reduction::Product => *sum * value,
                    Reduction::Max => sum.max(value),
                    Reduction::Min => sum.min(value),
                };
            }
        }
        #[allow(clippy::cast_precision_loss)] // ranks are few
        let share = if matches!(reduction, Reduction::Average) { 1.0 / all.len() as f64 } else { 1.0 };
        Ok(sums.iter().flat_map(|sum| narrow(sum * share, self.element).to_le_bytes()[..size].to_vec()).collect())
    }
}

/// Does it at once, or when the group ends.
fn order(
    number: usize,
    kind: impl FnOnce(&Comm) -> Result<Kind, Fault>,
    places: (u64, u64),
    count: usize,
    of: u32,
) -> i32 {
    answer(|d| {
        let comm = COMMS.get(number)?;
        let kind = kind(&comm)?;
        let order = Order { comm, kind, from: places.0, to: places.1, count: count as u64, element: element(of)? };
        d.may_work(kind.name())?;
        let is_alone = GROUP.with_borrow_mut(|(depth, orders)| {
            if *depth > 0 {
                orders.push(order.clone());
            }
            *depth == 0
        });
        if is_alone { run(d, &[order]) } else { Ok(()) }
    })
}

fn run(driver: &Driver, orders: &[Order]) -> Result<(), Fault> {
    // As the library does: the first message from one rank to another waits until both have asked for it, those of a group
    // all at once.
    let messages = || orders.iter().filter_map(|order| Some((&order.comm.seat, order.other()?)));
    messages().for_each(|(seat, (side, of))| seat.asks(side, of));
    messages().try_for_each(|(seat, (side, of))| seat.connects(side, of))?;
    orders.iter().try_for_each(|order| order.begin(driver))?;
    orders.iter().try_for_each(|order| order.end(driver))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetVersion(version: Out<i32>) -> i32 {
    answer(|_| version.put(VERSION))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(code: i32) -> *const c_char {
    match code {
        0 => c"no error",
        UNHANDLED_CUDA_ERROR => c"unhandled cuda error",
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        REMOTE_ERROR => c"remote process exited or there was a network error",
        _ => c"internal error",
    }
    .as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetUniqueId(id: Out<UniqueId>) -> i32 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    answer(|d| id.put(UniqueId(seat::name(NEXT.fetch_add(1, Ordering::Relaxed), d.config.patience)?)))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommInitRank(to: Out<usize>, ranks: i32, id: UniqueId, rank: i32) -> i32 {
    answer(|d| {
        let device = d.current()?;
        drop(d.working(device)?);
        let number =
            |n: i32| usize::try_from(n).map_err(|_| Fault::new(Code::InvalidValue, format!("rank {rank} of {ranks}")));
        let seat = Seat::join(id.0, number(ranks)?, number(rank)?, device, d.config.patience)?;
        to.put(COMMS.add(Comm { seat, device }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommDestroy(number: usize) -> i32 {
    answer(|_| {
        COMMS.remove(number)?.seat.leave();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommAbort(number: usize) -> i32 {
    ncclCommDestroy(number)
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommFinalize(number: usize) -> i32 {
    answer(|_| COMMS.get(number).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommGetAsyncError(number: usize, error: Out<i32>) -> i32 {
    answer(|_| {
        COMMS.get(number)?;
        error.put(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommCount(number: usize, count: Out<i32>) -> i32 {
    answer(|_| count.put(i32::try_from(COMMS.get(number)?.seat.size).unwrap_or(i32::MAX)))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommUserRank(number: usize, rank: Out<i32>) -> i32 {
    answer(|_| rank.put(i32::try_from(COMMS.get(number)?.seat.rank).unwrap_or(i32::MAX)))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommCuDevice(number: usize, device: Out<i32>) -> i32 {
    answer(|_| device.put(i32::try_from(COMMS.get(number)?.device).unwrap_or(i32::MAX)))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> i32 {
    GROUP.with_borrow_mut(|(depth, _)| *depth += 1);
    0
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupEnd() -> i32 {
    answer(|d| {
        let orders = GROUP.with_borrow_mut(|(depth, orders)| {
            if *depth == 0 {
                return Err(Fault::new(Code::NotSupported, "a group ends, and none began"));
            }
            *depth -= 1;
            Ok(if *depth == 0 { core::mem::take(orders) } else { Vec::new() })
        })?;
        run(d, &orders)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ncclSend(from: u64, count: usize, of: u32, to: i32, number: usize, _stream: usize) -> i32 {
    order(number, |comm| Ok(Kind::Send(peer(comm, to)?)), (from, 0), count, of)
}

#[unsafe(no_mangle)]
extern "C" fn ncclRecv(to: u64, count: usize, of: u32, from: i32, number: usize, _stream: usize) -> i32 {
    order(number, |comm| Ok(Kind::Receive(peer(comm, from)?)), (0, to), count, of)
}

#[unsafe(no_mangle)]
extern "C" fn ncclBroadcast(
    from: u64,
    to: u64,
    count: usize,
    of: u32,
    root: i32,
    number: usize,
    _stream: usize,
) -> i32 {
    order(number, |comm| Ok(Kind::Broadcast(peer(comm, root)?)), (from, to), count, of)
}

#[unsafe(no_mangle)]
extern "C" fn ncclAllGather(from: u64, to: u64, count: usize, of: u32, number: usize, _stream: usize) -> i32 {
    order(number, |_| Ok(Kind::AllGather), (from, to), count, of)
}

#[unsafe(no_mangle)]
extern "C" fn ncclAllReduce(from: u64, to: u64, count: usize, of: u32, by: u32, number: usize, _stream: usize) -> i32 {
    order(number, |_| Ok(Kind::AllReduce(reduction(by)?)), (from, to), count, of)
}

#[unsafe(no_mangle)]
extern "C" fn ncclReduceScatter(
    from: u64,
    to: u64,
    count: usize,
    of: u32,
    by: u32,
    number: usize,
    _stream: usize,
) -> i32 {
    order(number, |_| Ok(Kind::ReduceScatter(reduction(by)?)), (from, to), count, of)
}
