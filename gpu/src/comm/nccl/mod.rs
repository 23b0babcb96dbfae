//! A world of GPUs, over processes and machines: NCCL carries the bytes. A launcher says each process its place
//! ([`Launch::from_environment`]); each group has a communicator of its own, made when it is first used, and so has each
//! direction between two ranks. Bytes go through memory of the device beside its pool.
//!
//! What is sent to one rank waits for nobody: NCCL makes a communicator, and the first connection in it, when both sides ask
//! for them, so that ranks which all send first would wait for each other. A thread of each direction does the waiting.
//!
//! Where a message stalls its communicator is given up (`ncclCommAbort`), so that nothing on the device waits any more; what
//! would use it again is an error. Patience bounds messages alone: the making of a communicator, when its ranks first exchange
//! anything, waits in NCCL for as long as one of them does not come.

#![allow(unsafe_code)]

mod end;
mod launch;
mod outgoing;

pub use launch::{Launch, NoWorld};

use super::store::Store;
use super::{Carrier, CommError};
use crate::cuda::{Cuda, Library, NoDevice};
use cudarc::nccl::sys;
use end::{About, End, HEADER, Maker, header, length, tag};
use moe_model_core::groups::{Group, Ranks};
use outgoing::{Letter, Outgoing};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// One rank of a world.
pub struct Nccl {
    /// Dropped first: what was sent goes out.
    outgoing: RefCell<HashMap<u64, Outgoing>>,
    ends: RefCell<HashMap<String, Rc<End>>>,
    rank: u64,
    maker: Maker,
    patience: Duration,
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
        let maker = Maker { rank, context: device.context().clone(), store };
        Ok(Self { outgoing: RefCell::default(), ends: RefCell::default(), rank, maker, patience })
    }

    /// The communicator of a name: of some ranks, in their order.
    fn end(&self, name: String, ranks: &[u64], about: About<'_>) -> Result<Rc<End>, CommError> {
        if let Some(end) = self.ends.borrow().get(&name) {
            return Ok(end.clone());
        }
        let end = Rc::new(self.maker.end(&name, ranks, about)?);
        self.ends.borrow_mut().insert(name, end.clone());
        Ok(end)
    }

    /// What went wrong on the way out, if something did: others then wait for that, and so does this rank in the end.
    fn cause(&self, error: CommError) -> CommError {
        self.outgoing.borrow().values().find_map(Outgoing::failure).unwrap_or(error)
    }

    /// A message to each member of a group, and one from each.
    fn swap(
        &self,
        (group, operation): (Group, &'static str),
        ranks: &[u64],
        mine: usize,
        mut sent: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        let other = *ranks.iter().find(|rank| **rank != self.rank).unwrap_or(&self.rank);
        let about = (other, group, operation, &self.patience);
        let names: Vec<String> = ranks.iter().map(u64::to_string).collect();
        let end = self.end(format!("{}:{}", group.name(), names.join(",")), ranks, about)?;
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
        let lens = come.chunks_exact(HEADER).zip(ranks);
        let lens = lens.map(|(header, rank)| length(header, tag, (*rank, group, operation, &self.patience)));
        let lens = lens.collect::<Result<Vec<usize>, _>>()?;
        // Then the messages.
        let (sends, receives): (usize, usize) = (sent.iter().map(Vec::len).sum(), lens.iter().sum());
        let at = end.room(sends + receives, about)?;
        end.to_device(at, &sent.concat(), about)?;
        let from = places(at + sends as u64, lens.iter().copied());
        end.swap(mine, &places(at, sent.iter().map(Vec::len)), &from, about)?;
        let own = core::mem::take(&mut sent[mine]);
        let mut received = from
            .iter()
            .enumerate()
            .map(|(member, (at, len))| if member == mine { Ok(Vec::new()) } else { end.to_host(*at, *len, about) })
            .collect::<Result<Vec<_>, _>>()?;
        received[mine] = own;
        Ok(received)
    }

    /// The next message of one rank.
    fn next(&self, from: u64, (group, operation): (Group, &'static str)) -> Result<Vec<u8>, CommError> {
        let about = (from, group, operation, &self.patience);
        let way = [from, self.rank];
        let end = self.end(outgoing::name(way), &way, about)?;
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
        self.swap((group, operation), &ranks, mine, sent).map_err(|error| self.cause(error))
    }

    fn send(&self, to: u64, group: Group, operation: &'static str, message: Vec<u8>) -> Result<(), CommError> {
        let mut outgoing = self.outgoing.borrow_mut();
        let letter = Letter { group, operation, message };
        if let Some(way) = outgoing.get(&to) {
            return way.send(letter);
        }
        let about = (to, group, operation, &self.patience);
        let way = Outgoing::new(self.maker.another(about)?, to, self.patience);
        way.send(letter)?;
        outgoing.insert(to, way);
        Ok(())
    }

    fn receive(&self, from: u64, group: Group, operation: &'static str) -> Result<Vec<u8>, CommError> {
        self.next(from, (group, operation)).map_err(|error| self.cause(error))
    }
}
