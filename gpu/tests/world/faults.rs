//! Worlds of threads in which something happens to one rank, in the middle of each thing that a layout has ranks do together:
//! all others end with an error that names a rank, the group and the operation, in time.

#[path = "../faults/carrier.rs"]
mod carrier;
#[path = "../faults/refusing.rs"]
mod refusing;
#[path = "../faults/worlds.rs"]
mod worlds;

use carrier::{Done, Fault, Faulty};
use moe_model_core::groups::Group;
use moe_model_core::inventory::Block;
use moe_model_core::spec::{Capacity, Context, Factor, Layout, Mesh, Recompute, Routing, Schedule, Switch, Zero};
use moe_model_core::traffic::Operation;
use moe_model_core::{Phase, Plan};
use moe_model_gpu::comm::threads::{self, PATIENCE, Threads};
use moe_model_gpu::comm::{Carrier, CommError};
use moe_model_gpu::ledger::Direction;
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::smoke::ADAMW;
use moe_model_gpu::{Device, Host, LedgerError, Numerics, Step, StepError};
use refusing::Refusing;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use worlds::plan;

/// How long a rank waits for another.
const WAIT: Duration = Duration::from_secs(1);
/// Within what all have ended, once something happened: as long as one waits, and what is computed until it is waited for.
const STATED: Duration = Duration::from_secs(2);
/// Worlds that run side by side.
const AT_ONCE: usize = 6;

/// What happens to one rank of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    /// It ends.
    Killed,
    /// It goes on only when all others ended.
    Withheld,
    /// It sends more than others expect.
    Disagrees,
    /// It says that one copy of a token more comes than does.
    Miscounts,
    /// It says that more come than any rank has.
    Exaggerates,
}

use Kind::{Disagrees, Exaggerates, Killed, Miscounts, Withheld};

/// Where it happens.
#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    rank: u64,
    group: Group,
    operation: Operation,
    /// How often the rank did the same before.
    before: u64,
}

/// What ranks of a world know of each other beside its carrier.
#[derive(Default)]
struct Scene {
    struck: OnceLock<Instant>,
    ended: AtomicU64,
}

/// A rank's end: what came of its step, and when.
type End = (Result<(), StepError>, Instant);

/// So many steps of a rank.
fn train<D: Device>(
    steps: u64,
    plan: Plan,
    (rank, carrier): (u64, Box<dyn Carrier>),
    device: D,
) -> Result<(), StepError> {
    let (numerics, mut random) = (Numerics::usual(&plan.spec().architecture), Random::of(&plan));
    let mut step = Step::<D, Dynamic, f32>::in_world(plan, rank, carrier, device, numerics, &mut random)?;
    (0..steps).try_for_each(|_| step.train(&mut random, ADAMW).map(drop))
}

/// What each rank does together with others in a step, and how often.
fn whole(plan: Plan) -> Vec<BTreeMap<(Group, &'static str), u64>> {
    let ranks = threads::run(plan.world(), PATIENCE, |rank, carrier| {
        let done = Done::default();
        let carrier = Faulty { carrier, rank, done: done.clone(), fault: None };
        train(1, plan, (rank, Box::new(carrier)), Host::new(1)).unwrap_or_else(|error| panic!("{error}"));
        done.take()
    });
    ranks.into_iter().map(|rank| rank.unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// Everything that ranks of a layout do together, each in the middle of what one of them does of it. What they do is what the
/// plan says that they send.
fn everything(plan: Plan) -> Vec<(u64, Group, Operation, u64)> {
    let mut all: BTreeMap<(Group, Operation), Vec<(u64, u64)>> = BTreeMap::new();
    for (rank, done) in (0..).zip(whole(plan)) {
        let sent = plan.traffic(rank).expect("it is of the reference step");
        let mut planned: Vec<_> = sent.iter().map(|sent| (sent.group, sent.operation)).collect();
        planned.sort_unstable();
        planned.dedup();
        let mut named: Vec<_> = planned.iter().map(|(group, operation)| (*group, operation.name())).collect();
        named.sort_unstable();
        assert_eq!(named, done.keys().copied().collect::<Vec<_>>(), "rank {rank}");
        for (group, operation) in planned {
            all.entry((group, operation)).or_default().push((rank, done[&(group, operation.name())] / 2));
        }
    }
    let one = |((group, operation), of): (_, Vec<(u64, u64)>)| {
        let (rank, before) = of[of.len() / 2];
        (rank, group, operation, before)
    };
    all.into_iter().map(one).collect()
}

/// What happens at a message.
fn happens(kind: Kind, scene: Arc<Scene>, others: u64) -> Box<dyn Fn(&mut Vec<u8>)> {
    Box::new(move |message| {
        let struck = *scene.struck.get_or_init(Instant::now);
        match kind {
            // As one that panics, without a word of it.
            Killed => resume_unwind(Box::new("it is killed")),
            Withheld => {
                while scene.ended.load(Ordering::Relaxed) < others && struck.elapsed() < 10 * WAIT {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Disagrees => drop(message.splice(..0, [0; 4])),
            Miscounts => message[0] += 1,
            Exaggerates => message[3] = 0x7f,
        }
    })
}

/// Runs a world in which it happens; gives each rank's end, none of one that panics, and when it happened.
fn world(plan: Plan, case: Case) -> (Vec<Option<End>>, Instant) {
    let scene = Arc::new(Scene::default());
    let ranks = threads::run(plan.world(), WAIT, |rank, carrier: Threads| {
        let mut fault = None;
        if rank == case.rank {
            let happens = happens(case.kind, scene.clone(), plan.world() - 1);
            let (group, operation) = (case.group, case.operation.name());
            fault = Some(Fault { group, operation, before: case.before, happens });
        }
        let carrier = Faulty { carrier, rank, done: Done::default(), fault };
        // It happens in the first step. Who waits for nobody there does in the next.
        let ended = train(3, plan, (rank, Box::new(carrier)), Host::new(1));
        scene.ended.fetch_add(1, Ordering::Relaxed);
        (ended, Instant::now())
    });
    let struck = *scene.struck.get().unwrap_or_else(|| panic!("{case:?}: it happens"));
    (ranks.into_iter().map(Result::ok).collect(), struck)
}

/// The rank, the group and the operation that an error of a world names.
fn named(error: &CommError) -> (u64, Group, &'static str) {
    match error {
        CommError::Gone { rank, group, operation }
        | CommError::Stalled { rank, group, operation, .. }
        | CommError::Disagree { rank, group, operation, .. } => (*rank, *group, operation),
    }
}

/// Whether an error is of what happened.
fn is_of(kind: Kind, error: &CommError) -> bool {
    match kind {
        Killed => matches!(error, CommError::Gone { .. }),
        Withheld => matches!(error, CommError::Stalled { waited, .. } if u128::from(*waited) == WAIT.as_millis()),
        Disagrees | Miscounts | Exaggerates => matches!(error, CommError::Disagree { .. }),
    }
}

/// All ranks end: with an error of the world, in time. Whoever does the same together with the rank says exactly that.
fn assert_ends(plan: Plan, case: Case) {
    let (ends, struck) = world(plan, case);
    let mut of_case = Vec::new();
    for (rank, end) in (0..).zip(ends) {
        let Some((result, at)) = end else {
            assert_eq!((rank, case.kind), (case.rank, Killed), "{case:?}: rank {rank} panics");
            continue;
        };
        let error = match result {
            Err(StepError::Comm(error)) => error,
            Err(error) => panic!("{case:?} on rank {rank}: {error}"),
            Ok(()) => panic!("{case:?}: rank {rank} goes on"),
        };
        let (blamed, group, operation) = named(&error);
        let is_peer = plan.group(group, rank).has(blamed) && blamed != rank;
        assert!(is_peer, "{case:?}: rank {rank} says: {error}");
        let text = error.to_string();
        assert!(text.starts_with(&format!("rank {blamed} ")), "{text}");
        assert!(text.contains(&format!("{operation} over {}", group.name())), "{text}");
        if rank != case.rank {
            let after = at - struck;
            assert!(after < STATED, "{case:?} on rank {rank}: {error} after {after:?}");
            of_case.push((rank, error));
        }
    }
    // Copies that were counted are missed where they are sent.
    let is_it = |error: &CommError| {
        let (rank, group, operation) = named(error);
        let is_there = case.kind == Miscounts || operation == case.operation.name();
        is_of(case.kind, error) && (rank, group) == (case.rank, case.group) && is_there
    };
    // One rank alone waits for what is sent to it, and others for that one.
    let is_exchange = case.operation != Operation::Send;
    let peers = of_case.iter().filter(|(rank, _)| is_exchange && plan.group(case.group, case.rank).has(*rank));
    for (rank, error) in peers {
        assert!(is_it(error), "{case:?} on rank {rank}: {error}");
    }
    assert!(of_case.iter().any(|(_, error)| is_it(error)), "{case:?}: {of_case:?}");
}

/// Every kind of fault in the middle of everything that ranks of a layout do together.
fn sweep(change: fn(&mut Layout), count: usize) {
    let plan = plan(change);
    let everything = everything(plan);
    assert_eq!(everything.len(), count, "{everything:?}");
    let mut cases = Vec::new();
    for (rank, group, operation, before) in everything {
        let counts: &[Kind] = if operation == Operation::Counts { &[Miscounts, Exaggerates] } else { &[] };
        let kinds = [Killed, Withheld, Disagrees].iter().chain(counts);
        cases.extend(kinds.map(|kind| Case { kind: *kind, rank, group, operation, before }));
    }
    // Those that wait do so together.
    cases.sort_by_key(|case| case.kind);
    for cases in cases.chunks(AT_ONCE) {
        thread::scope(|scope| {
            for case in cases {
                scope.spawn(|| assert_ends(plan, *case));
            }
        });
    }
}

/// Experts dealt over ranks and split, with replicas that share their state; what backward needs is computed again.
fn experts(layout: &mut Layout) {
    layout.mesh = Mesh { dp: 8, ep: 2, etp: 2, ..Mesh::DEFAULT };
    (layout.zero, layout.recompute) = (Zero::OPTIMIZER, Recompute::Full);
}

/// Stages of chunks that take turns, of ranks that split tensors and sequences and have slots for tokens at each expert.
fn stages(layout: &mut Layout) {
    layout.mesh = Mesh { dp: 2, tp: 2, pp: 2, vpp: 2, ep: 2, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    layout.schedule = Schedule::Interleaved;
    layout.routing = Routing::Capacity(Capacity { factor: Factor::thousandths(1000) });
}

/// Ranks that split tensors alone, and replicas that share out all they hold.
fn tensors(layout: &mut Layout) {
    layout.mesh = Mesh { dp: 2, tp: 2, ..Mesh::DEFAULT };
    layout.zero = Zero::PARAMETERS;
}

/// Ranks that trade heads for pieces of a sequence.
fn sequences(layout: &mut Layout) {
    layout.mesh = Mesh { dp: 2, cp: 2, context: Context::AllToAll, ..Mesh::DEFAULT };
}

/// Ranks around which keys and values of a sequence go.
fn rings(layout: &mut Layout) {
    layout.mesh = Mesh { cp: 4, context: Context::Ring, ..Mesh::DEFAULT };
}

#[test]
fn faults_among_experts_and_their_replicas() {
    sweep(experts, 9);
}

#[test]
fn faults_among_chunks_that_take_turns() {
    sweep(stages, 7);
}

#[test]
fn faults_among_ranks_that_split_tensors() {
    sweep(tensors, 5);
}

#[test]
fn faults_among_ranks_that_split_sequences() {
    sweep(sequences, 4);
}

#[test]
fn faults_around_a_ring() {
    sweep(rings, 4);
}

/// An allocation of the experts of one rank that the ledger refuses: who waits for its copies of tokens names it.
#[test]
fn an_allocation_of_experts_is_refused_on_one_rank() {
    const NAME: &str = "received copies";
    let (plan, refusing) = (plan(experts), 5);
    let ends = threads::run(plan.world(), WAIT, |rank, carrier| {
        let (numerics, mut random) = (Numerics::usual(&plan.spec().architecture), Random::of(&plan));
        let carrier = Box::new(carrier);
        let step = Step::<_, Dynamic, f32>::in_world(plan, rank, carrier, Host::new(1), numerics, &mut random);
        let mut step = step.unwrap_or_else(|error| panic!("{error}"));
        let mut held = None;
        if rank == refusing {
            let ledger = step.ledger();
            ledger.enter(Phase::Forward);
            ledger.begin(Block::Moe, Direction::Forward);
            held = Some(ledger.take(NAME, 4).expect("the budget has one"));
        }
        let result = step.train(&mut random, ADAMW).map(drop);
        drop(held);
        result
    });
    let ends = ends.into_iter().map(|end| end.unwrap_or_else(|error| panic!("{error}")));
    let ends: Vec<Result<(), StepError>> = ends.collect();
    for (rank, end) in (0..).zip(&ends) {
        let peers = plan.group(Group::Etp, refusing);
        match end {
            Err(StepError::Ledger(LedgerError::TooMany { name: NAME, .. })) => assert_eq!(rank, refusing),
            Err(StepError::Comm(CommError::Gone { rank: gone, .. })) => {
                assert!(!peers.has(rank) || *gone == refusing, "rank {rank}: {end:?}");
            }
            _ => panic!("rank {rank}: {end:?}"),
        }
    }
    assert!(ends[5].is_err());
}

/// The same of a device that refuses.
#[test]
fn a_device_without_room_on_one_rank() {
    let plan = plan(|layout| layout.mesh = Mesh { dp: 4, ..Mesh::DEFAULT });
    let ends = threads::run(plan.world(), WAIT, |rank, carrier| {
        if rank == 2 {
            let device: &'static Refusing = Box::leak(Box::new(Refusing(Cell::new(100))));
            return train(1, plan, (rank, Box::new(carrier)), device);
        }
        train(1, plan, (rank, Box::new(carrier)), Host::new(1))
    });
    for (rank, end) in ends.into_iter().enumerate() {
        let end = end.unwrap_or_else(|error| panic!("{error}"));
        let is_refused = matches!(end, Err(StepError::OutOfMemory { .. }));
        let (group, operation) = (Group::CpDp, "all-reduce");
        let gone = StepError::Comm(CommError::Gone { rank: 2, group, operation });
        assert!(if rank == 2 { is_refused } else { end == Err(gone) }, "rank {rank}: {end:?}");
    }
}
