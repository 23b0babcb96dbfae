//! Ranks of a communicator, threads of one process: who is there, and what is on its way from one to another.

use crate::memory::Extract;
use crate::report::{Code, Fault};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What names a communicator.
pub(super) type Id = [u8; 128];

/// What a rank sends to another.
#[derive(Debug, Clone)]
pub(super) struct Parcel {
    /// What it is for: what is received has to be for the same.
    pub(super) what: &'static str,
    /// The bytes.
    pub(super) content: Extract,
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
    /// Of each rank that joined.
    devices: HashMap<usize, usize>,
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
    /// Joins as a rank, on a device, and waits for all others.
    ///
    /// # Errors
    /// If a rank or a device takes part twice, sizes differ, or somebody does not come.
    pub(super) fn join(
        id: Id,
        size: usize,
        rank: usize,
        device: usize,
        patience: Duration,
    ) -> Result<Arc<Self>, Fault> {
        if rank >= size {
            return Err(bad(format!("rank {rank} of {size}")));
        }
        let fresh = || Self { size, patience, state: Mutex::default(), changed: Condvar::new() };
        let mut worlds = lock(&WORLDS);
        let world = worlds.get_or_insert_default().entry(id).or_insert_with(|| Arc::new(fresh())).clone();
        drop(worlds);
        if world.size != size {
            return Err(bad(format!(
                "rank {rank} says that there are {size} ranks, another that there are {}",
                world.size
            )));
        }
        let mut state = lock(&world.state);
        if let Some((other, _)) = state.devices.iter().find(|(_, on)| **on == device) {
            // As the real library answers.
            return Err(Fault::new(
                Code::NotSupported,
                format!("ranks {other} and {rank} are both on device {device}"),
            ));
        }
        if state.devices.insert(rank, device).is_some() {
            return Err(bad(format!("two are rank {rank}")));
        }
        world.changed.notify_all();
        drop(state);
        world.wait(
            |state| (state.devices.len() == size).then_some(Ok(())),
            |state| {
                let missing: Vec<usize> = (0..size).filter(|rank| !state.devices.contains_key(rank)).collect();
                format!("rank {rank} waits for ranks {missing:?} to join")
            },
        )??;
        Ok(world)
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
