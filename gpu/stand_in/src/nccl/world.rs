//! What a process knows of a communicator: who is there, and what is on its way to its own ranks.

use crate::memory::Extract;
use crate::report::{Code, Fault};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What names a communicator.
pub(super) type Id = [u8; 128];

/// What a rank sends to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Parcel {
    /// What it is for: what is received has to be for the same.
    pub(super) what: String,
    /// The bytes.
    pub(super) content: Extract,
}

/// What a rank asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Side {
    /// To send.
    Send,
    /// To receive.
    Receive,
}

/// A communicator.
#[derive(Debug)]
pub(super) struct World {
    /// How many ranks it has.
    pub(super) size: usize,
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Of each rank that joined: its device, and the port at which its process listens. Where the name was made.
    joined: HashMap<usize, (usize, u16)>,
    /// Who asked to send or receive, and of whom.
    asked: HashSet<(Side, usize, usize)>,
    left: Vec<usize>,
    mail: HashMap<(usize, usize), VecDeque<Parcel>>,
}

static WORLDS: Mutex<Option<HashMap<Id, Arc<World>>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bad(text: String) -> Fault {
    Fault::new(Code::InvalidValue, text)
}

impl World {
    /// By its name; the first to ask for it says how many ranks it has.
    ///
    /// # Errors
    /// If another said another number.
    pub(super) fn of(id: Id, size: usize, patience: Duration) -> Result<Arc<Self>, Fault> {
        let fresh = || Self { size, patience, state: Mutex::default(), changed: Condvar::new() };
        let world = lock(&WORLDS).get_or_insert_default().entry(id).or_insert_with(|| Arc::new(fresh())).clone();
        if world.size == size {
            return Ok(world);
        }
        Err(bad(format!("a rank says that there are {size} ranks, another that there are {}", world.size)))
    }

    /// Has a rank join, on a device, and waits for all others; gives the ports of all.
    ///
    /// # Errors
    /// If a rank or a device takes part twice, or somebody does not come.
    pub(super) fn enter(&self, rank: usize, device: usize, port: u16) -> Result<Vec<u16>, Fault> {
        let size = self.size;
        if rank >= size {
            return Err(bad(format!("rank {rank} of {size}")));
        }
        let mut state = lock(&self.state);
        if let Some((other, _)) = state.joined.iter().find(|(_, (on, _))| *on == device) {
            // As the real library answers.
            return Err(Fault::new(
                Code::NotSupported,
                format!("ranks {other} and {rank} are both on device {device}"),
            ));
        }
        if state.joined.insert(rank, (device, port)).is_some() {
            return Err(bad(format!("two are rank {rank}")));
        }
        self.changed.notify_all();
        drop(state);
        self.wait(
            |state| (0..size).map(|rank| state.joined.get(&rank).map(|(_, port)| *port)).collect(),
            |state| {
                let missing: Vec<usize> = (0..size).filter(|rank| !state.joined.contains_key(rank)).collect();
                format!("rank {rank} waits for ranks {missing:?} to join")
            },
        )
    }

    /// A rank asks to send to another, or to receive from it. Whether it is the first time.
    pub(super) fn asks(&self, side: Side, rank: usize, of: usize) -> bool {
        let is_first = lock(&self.state).asked.insert((side, rank, of));
        self.changed.notify_all();
        is_first
    }

    /// Waits until the other asks for that too.
    ///
    /// # Errors
    /// If it ends, or does not.
    pub(super) fn connects(&self, side: Side, rank: usize, of: usize) -> Result<(), Fault> {
        let (other, does) = match side {
            Side::Send => (Side::Receive, "sends to"),
            Side::Receive => (Side::Send, "receives from"),
        };
        let find = |state: &mut State| {
            if state.asked.contains(&(other, of, rank)) {
                return Some(Ok(()));
            }
            let ended = || Fault::new(Code::LaunchTimeout, format!("a message: rank {of} has ended"));
            state.left.contains(&of).then(|| Err(ended()))
        };
        self.wait(find, |_| format!("rank {rank} {does} rank {of}, which does not ask for that"))?
    }

    /// Ends a rank: who waits for it is told.
    pub(super) fn leave(&self, rank: usize) {
        lock(&self.state).left.push(rank);
        self.changed.notify_all();
    }

    /// Sends.
    pub(super) fn put(&self, from: usize, to: usize, parcel: Parcel) {
        lock(&self.state).mail.entry((from, to)).or_default().push_back(parcel);
        self.changed.notify_all();
    }

    /// Receives what a rank sent, which has to be for the same, and as large.
    ///
    /// # Errors
    /// If it is not, or does not come.
    pub(super) fn take(&self, from: usize, to: usize, what: &'static str, bytes: u64) -> Result<Extract, Fault> {
        let parcel = self.wait(
            |state| match state.mail.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
                Some(parcel) => Some(Ok(parcel)),
                None if state.left.contains(&from) => {
                    Some(Err(Fault::new(Code::LaunchTimeout, format!("{what}: rank {from} has ended"))))
                }
                None => None,
            },
            |_| format!("{what}: rank {to} waits for rank {from}"),
        )??;
        if parcel.what != what || parcel.content.len() != bytes {
            let (other, sent) = (parcel.what, parcel.content.len());
            return Err(bad(format!("rank {to} does {what} of {bytes} bytes, rank {from} {other} of {sent}")));
        }
        Ok(parcel.content)
    }

    /// Waits until something is found, or as long as the patience is.
    fn wait<T>(
        &self,
        mut find: impl FnMut(&mut State) -> Option<T>,
        missing: impl FnOnce(&State) -> String,
    ) -> Result<T, Fault> {
        let until = Instant::now() + self.patience;
        let mut state = lock(&self.state);
        loop {
            if let Some(found) = find(&mut state) {
                return Ok(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Fault::new(Code::LaunchTimeout, format!("{}: {:?}", missing(&state), self.patience)));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
