//! A rank's place among the ranks of a communicator, of which others may be of this process or of another.

use super::hub::{self, Message};
use super::world::{Id, Parcel, Side, World};
use crate::memory::Extract;
use crate::report::Fault;
use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// A rank that joined.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    pub(super) rank: usize,
    pub(super) size: usize,
    world: Arc<World>,
    /// Ways to ranks of other processes. They find out by these that this one has ended.
    others: Arc<HashMap<usize, TcpStream>>,
}

/// Where in a name the port stands at which the process that made it listens.
const PORT: usize = 16;

/// A name that no other communicator has.
///
/// # Errors
/// If no port is free to listen at.
pub(super) fn name(number: u64, patience: Duration) -> Result<Id, Fault> {
    let mut id = [0; 128];
    id[..4].copy_from_slice(&std::process::id().to_le_bytes());
    id[8..PORT].copy_from_slice(&number.to_le_bytes());
    id[PORT..PORT + 2].copy_from_slice(&hub::port(patience)?.to_le_bytes());
    Ok(id)
}

impl Seat {
    /// Joins as a rank, on a device, and waits for all others.
    ///
    /// # Errors
    /// If a rank or a device takes part twice, sizes differ, or somebody does not come.
    pub(super) fn join(id: Id, size: usize, rank: usize, device: usize, patience: Duration) -> Result<Self, Fault> {
        let (here, at) = (hub::port(patience)?, u16::from_le_bytes([id[PORT], id[PORT + 1]]));
        let world = World::of(id, size, patience)?;
        let ports = if at == here {
            world.enter(rank, device, here)?
        } else {
            hub::join(at, &Message::Join { id: id.to_vec(), size, rank, device, port: here })?
        };
        let mut others = HashMap::new();
        for (other, port) in ports.into_iter().enumerate().filter(|(_, port)| *port != here) {
            let stream = hub::reach(port)?;
            hub::tell(&stream, &Message::From { id: id.to_vec(), size, rank })?;
            others.insert(other, stream);
        }
        Ok(Self { rank, size, world, others: Arc::new(others) })
    }

    /// Says that it asks for a message to a rank, or from it.
    pub(super) fn asks(&self, side: Side, of: usize) {
        if self.world.asks(side, self.rank, of)
            && let Some(way) = self.others.get(&of)
        {
            // Who waits for a process that has ended is told so.
            let _ = hub::tell(way, &Message::Asks { side, of });
        }
    }

    /// Waits until the other asks for that too: a connection is made when it is first used, and takes both.
    ///
    /// # Errors
    /// If it does not.
    pub(super) fn connects(&self, side: Side, of: usize) -> Result<(), Fault> {
        self.world.connects(side, self.rank, of)
    }

    /// Sends.
    ///
    /// # Errors
    /// If the other's process has ended.
    pub(super) fn put(&self, to: usize, parcel: Parcel) -> Result<(), Fault> {
        if let Some(way) = self.others.get(&to) {
            return hub::tell(way, &Message::Sends { to, parcel });
        }
        self.world.put(self.rank, to, parcel);
        Ok(())
    }

    /// Receives what a rank sent, which has to be for the same, and as large.
    ///
    /// # Errors
    /// If it is not, or does not come.
    pub(super) fn take(&self, from: usize, what: &'static str, bytes: u64) -> Result<Extract, Fault> {
        self.world.take(from, self.rank, what, bytes)
    }

    /// Ends: who waits for it is told.
    pub(super) fn leave(&self) {
        self.world.leave(self.rank);
        for way in self.others.values() {
            // What was sent still arrives.
            let _ = way.shutdown(std::net::Shutdown::Write);
        }
    }
}
