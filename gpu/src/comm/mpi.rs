//! A world of processes, over machines: MPI carries the bytes. Launched by `mpirun -np N PROGRAM`, each process is a rank.

use super::{Carrier, CommError};
use moe_model_core::groups::{Group, Ranks};
use moe_model_core::traffic::Operation;
use mpi::environment::Universe;
use mpi::request::{WaitGuard, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, MatchedReceiveVec, Source};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

/// One process of a world.
#[derive(Clone)]
pub struct Mpi {
    world: Rc<SimpleCommunicator>,
    rank: u64,
    patience: Duration,
    /// MPI ends when the last of these does.
    _universe: Rc<Universe>,
}

/// What messages of pipelines may wait in until they are received, in bytes.
const BUFFER: usize = 64 << 20;

impl Mpi {
    /// The process's place in the world that `mpirun` started; none if MPI is at work already.
    ///
    /// A rank that fails should call [`abort`](Self::abort), so that no other waits for it.
    #[must_use]
    pub fn start(patience: Duration) -> Option<Self> {
        let mut universe = mpi::initialize()?;
        universe.set_buffer_size(BUFFER);
        let world = universe.world();
        let rank = u64::try_from(world.rank()).ok()?;
        Some(Self { world: Rc::new(world), rank, patience, _universe: Rc::new(universe) })
    }

    /// The process's number.
    #[must_use]
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// How many processes there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::try_from(self.world.size()).unwrap_or(1)
    }

    /// Ends all processes.
    pub fn abort(&self) -> ! {
        self.world.abort(1)
    }
}

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
        let tag = tag(group, operation);
        scope(|scope| {
            let others = ranks.into_iter().zip(&sent).filter(|(to, _)| *to != self.rank);
            let _sends: Vec<_> = others
                .map(|(to, message)| {
                    let to = self.world.process_at_rank(place(to));
                    WaitGuard::from(to.immediate_send_with_tag(scope, &message[..], tag))
                })
                .collect();
            let from = ranks.into_iter().zip(&sent).map(|(from, own)| {
                if from == self.rank { Ok(own.clone()) } else { self.receive(from, group, operation) }
            });
            from.collect()
        })
    }

    fn send(&self, to: u64, group: Group, operation: &'static str, message: Vec<u8>) -> Result<(), CommError> {
        self.world.process_at_rank(place(to)).buffered_send_with_tag(&message[..], tag(group, operation));
        Ok(())
    }

    fn receive(&self, from: u64, group: Group, operation: &'static str) -> Result<Vec<u8>, CommError> {
        let (process, started) = (self.world.process_at_rank(place(from)), Instant::now());
        loop {
            if let Some(message) = process.immediate_matched_probe() {
                let (bytes, status) = message.matched_receive_vec::<u8>();
                if status.tag() == tag(group, operation) {
                    return Ok(bytes);
                }
                let how = "it does something else".to_owned();
                return Err(CommError::Disagree { rank: from, group, operation, how });
            }
            if started.elapsed() > self.patience {
                let waited = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
                return Err(CommError::Stalled { rank: from, group, operation, waited });
            }
            thread::yield_now();
        }
    }
}
