//! A world of processes, over machines: MPI carries the bytes. Launched by `mpirun -np N PROGRAM`, each process is a rank.
//!
//! Whatever waits for another rank asks whether something came, for as long as it has patience: errors of worlds are ours. What
//! MPI itself refuses ends all processes (`MPI_ERRORS_ARE_FATAL`), since the crate `mpi` does not look at what its calls return.

use super::{Carrier, CommError};
use moe_model_core::groups::{Group, Ranks};
use moe_model_core::traffic::Operation;
use mpi::environment::Universe;
use mpi::request::{LocalScope, Request, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, MatchedReceiveVec, Source};
use std::cell::Cell;
use std::io::{self, Write as _};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

/// One process of a world.
#[derive(Clone)]
pub struct Mpi {
    world: Rc<World>,
    rank: u64,
    patience: Duration,
}

/// MPI at work, as long as somebody holds it.
struct World {
    processes: SimpleCommunicator,
    /// Whether a peer did not do its part.
    failed: Cell<bool>,
    _universe: Universe,
}

impl Drop for World {
    /// MPI ends when all ranks end it, and what they sent was received: of one that failed, neither may ever be.
    fn drop(&mut self) {
        if self.failed.get() || thread::panicking() {
            self.processes.abort(1);
        }
    }
}

/// What messages from one rank to another, of pipelines and of rings, wait in until they are received, in bytes: as much as MPI
/// can be told of. None of it is memory before a message is there. A longer message is an error; more than this of several at
/// once is what MPI itself refuses.
const BUFFER: usize = i32::MAX as usize;
/// What MPI keeps there for itself beside each message, at most (`MPI_BSEND_OVERHEAD` is 128 bytes of Open MPI, 96 of MPICH),
/// and where the buffer begins.
const OVERHEAD: usize = 1024;

impl Mpi {
    /// The process's place in the world that `mpirun` started; none if MPI is at work already.
    ///
    /// A rank that fails ends all processes: by itself where it panics, or where a peer failed it and it drops this; whatever
    /// else it fails by, it should call [`abort`](Self::abort), so that no other waits for it.
    #[must_use]
    pub fn start(patience: Duration) -> Option<Self> {
        let mut universe = mpi::initialize()?;
        universe.set_buffer_size(BUFFER);
        let processes = universe.world();
        let rank = u64::try_from(processes.rank()).ok()?;
        let world = World { processes, failed: Cell::new(false), _universe: universe };
        Some(Self { world: Rc::new(world), rank, patience })
    }

    /// The process's number.
    #[must_use]
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// How many processes there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::try_from(self.world.processes.size()).unwrap_or(1)
    }

    /// Ends all processes.
    pub fn abort(&self) -> ! {
        self.world.processes.abort(1)
    }

    /// Notes that a peer did not do its part.
    fn failed(&self, error: CommError) -> CommError {
        self.world.failed.set(true);
        error
    }

    fn stalled(&self, (rank, group, operation): About) -> CommError {
        let waited = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        self.failed(CommError::Stalled { rank, group, operation, waited })
    }

    /// Waits until ranks have taken what was sent to them. MPI takes no message back: of a rank that is there, and does not
    /// take one, this process cannot go on, and says why: what went wrong before, if something did, since a rank that waits
    /// for another one takes nothing either.
    fn taken(
        &self,
        sends: Vec<(u64, Send<'_, '_>)>,
        (group, operation): (Group, &'static str),
        before: Option<&CommError>,
    ) {
        let (mut left, started) = (sends, Instant::now());
        loop {
            left = left.into_iter().filter_map(|(to, send)| send.test().err().map(|send| (to, send))).collect();
            let Some((to, _)) = left.first() else { return };
            if started.elapsed() > self.patience {
                let error = before.cloned().unwrap_or_else(|| self.stalled((*to, group, operation)));
                let text = format!("error: rank {}: {error}\n", self.rank);
                // At once, so that lines of several processes do not mix.
                let _ = io::stderr().write_all(text.as_bytes());
                self.abort();
            }
            thread::yield_now();
        }
    }

    /// The next message of one rank, for which is waited since some time.
    fn receive_since(&self, started: Instant, (from, group, operation): About) -> Result<Vec<u8>, CommError> {
        let process = self.world.processes.process_at_rank(place(from));
        loop {
            if let Some(message) = process.immediate_matched_probe() {
                let (bytes, status) = message.matched_receive_vec::<u8>();
                if status.tag() == tag(group, operation) {
                    return Ok(bytes);
                }
                let how = "it does something else".to_owned();
                return Err(self.failed(CommError::Disagree { rank: from, group, operation, how }));
            }
            if started.elapsed() > self.patience {
                return Err(self.stalled((from, group, operation)));
            }
            thread::yield_now();
        }
    }
}

/// Of which rank, over which kind of group, in what.
type About = (u64, Group, &'static str);
/// A message that is on its way.
type Send<'a, 'b> = Request<'a, [u8], &'b LocalScope<'a>>;

/// The kind of a group and the operation, as MPI tells messages apart.
fn tag(group: Group, operation: &'static str) -> i32 {
    let all = Operation::ALL;
    let operation = all.iter().position(|known| known.name() == operation).unwrap_or(all.len());
    i32::try_from(operation * Group::ALL.len() + group as usize).expect("operations are few")
}

fn place(rank: u64) -> i32 {
    i32::try_from(rank).expect("ranks are numbers of 31 bits")
}

impl Carrier for Mpi {
    fn exchange(
        &self,
        group: Group,
        ranks: Ranks,
        operation: &'static str,
        sent: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        let others = || ranks.into_iter().filter(|rank| *rank != self.rank);
        // All say that they are here, which nobody has to take: no long message waits for a rank that does not come.
        for to in others() {
            self.send(to, group, operation, Vec::new())?;
        }
        for from in others() {
            self.receive(from, group, operation)?;
        }
        scope(|scope| {
            let messages = ranks.into_iter().zip(&sent).filter(|(to, _)| *to != self.rank);
            let sends = messages.map(|(to, message)| {
                let process = self.world.processes.process_at_rank(place(to));
                (to, process.immediate_send_with_tag(scope, &message[..], tag(group, operation)))
            });
            let sends: Vec<_> = sends.collect();
            let (started, mut first) = (Instant::now(), None);
            let mut received = Vec::new();
            for (from, own) in ranks.into_iter().zip(&sent) {
                let about = (from, group, operation);
                let message = if from == self.rank { Ok(own.clone()) } else { self.receive_since(started, about) };
                // Those behind it are received all the same: else their ranks would wait for this one.
                match message {
                    Ok(message) => received.push(message),
                    Err(error) => first = first.or(Some(error)),
                }
            }
            self.taken(sends, (group, operation), first.as_ref());
            first.map_or(Ok(received), Err)
        })
    }

    fn send(&self, to: u64, group: Group, operation: &'static str, message: Vec<u8>) -> Result<(), CommError> {
        let most = BUFFER - OVERHEAD;
        if message.len() > most {
            let how = format!("a message of {} bytes: at most {most} wait until they are received", message.len());
            return Err(self.failed(CommError::Disagree { rank: to, group, operation, how }));
        }
        let process = self.world.processes.process_at_rank(place(to));
        process.buffered_send_with_tag(&message[..], tag(group, operation));
        Ok(())
    }

    fn receive(&self, from: u64, group: Group, operation: &'static str) -> Result<Vec<u8>, CommError> {
        self.receive_since(Instant::now(), (from, group, operation))
    }
}
