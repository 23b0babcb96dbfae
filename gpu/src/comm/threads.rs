//! A world of threads in one process. A rank that ends or stalls ends the whole world with an error that names it, never a
//! hang.

use super::{Carrier, CommError};
use moe_model_core::groups::{Group, Ranks};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// A message, and what it belongs to.
struct Message {
    group: Group,
    operation: &'static str,
    bytes: Vec<u8>,
}

/// One rank's ends of the channels to all ranks.
pub struct Threads {
    rank: u64,
    to: Vec<Sender<Message>>,
    from: Vec<Receiver<Message>>,
    patience: Duration,
}

/// How long a rank waits for another.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The ends of all ranks of a world.
///
/// # Panics
/// With more ranks than a `usize` counts.
#[must_use]
pub fn world(ranks: u64, patience: Duration) -> Vec<Threads> {
    let count = usize::try_from(ranks).expect("ranks are addresses");
    let mut to: Vec<Vec<Sender<Message>>> = (0..count).map(|_| Vec::new()).collect();
    let mut from: Vec<Vec<Receiver<Message>>> = (0..count).map(|_| Vec::new()).collect();
    for sender in &mut to {
        for receiver in &mut from {
            let (send, receive) = mpsc::channel();
            sender.push(send);
            receiver.push(receive);
        }
    }
    (0..).zip(to.into_iter().zip(from)).map(|(rank, (to, from))| Threads { rank, to, from, patience }).collect()
}

/// Runs something on every rank of a world, each on a thread of its own; gives what each returned, a rank that panicked its
/// message.
///
/// # Panics
/// With more ranks than a `usize` counts.
pub fn run<T: Send>(
    ranks: u64,
    patience: Duration,
    of_rank: impl Fn(u64, Threads) -> T + Sync,
) -> Vec<Result<T, String>> {
    let ends = world(ranks, patience);
    thread::scope(|scope| {
        let of_rank = &of_rank;
        let threads: Vec<_> = ends.into_iter().map(|end| scope.spawn(move || of_rank(end.rank, end))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|panic| said(&*panic))).collect()
    })
}

fn said(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

fn index(rank: u64) -> usize {
    usize::try_from(rank).expect("ranks are addresses")
}

impl Carrier for Threads {
    fn exchange(
        &self,
        group: Group,
        ranks: Ranks,
        operation: &'static str,
        sent: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        for (to, message) in ranks.into_iter().zip(sent) {
            // One that ended since it sent its own did so because of another, whose message is missed below.
            let _ = self.send(to, group, operation, message);
        }
        ranks.into_iter().map(|from| self.receive(from, group, operation)).collect()
    }

    fn send(&self, to: u64, group: Group, operation: &'static str, message: Vec<u8>) -> Result<(), CommError> {
        let message = Message { group, operation, bytes: message };
        self.to[index(to)].send(message).map_err(|_| CommError::Gone { rank: to, group, operation })
    }

    fn receive(&self, from: u64, group: Group, operation: &'static str) -> Result<Vec<u8>, CommError> {
        match self.from[index(from)].recv_timeout(self.patience) {
            Ok(message) if message.group == group && message.operation == operation => Ok(message.bytes),
            Ok(Message { group: other, operation: instead, .. }) => {
                let how = format!("it does {instead} over {}", other.name());
                Err(CommError::Disagree { rank: from, group, operation, how })
            }
            Err(RecvTimeoutError::Disconnected) => Err(CommError::Gone { rank: from, group, operation }),
            Err(RecvTimeoutError::Timeout) => {
                let waited = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
                Err(CommError::Stalled { rank: from, group, operation, waited })
            }
        }
    }
}
