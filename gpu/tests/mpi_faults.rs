//! Worlds of processes in which something happens to one rank. This program starts worlds of itself with `mpirun`; without one
//! it says that it is skipped. Where a rank stalls or disagrees, all others say an error that names a rank, the group and the
//! operation, and the world ends in time; where MPI itself waits for it, the first who says so ends the others. Where a rank is
//! killed, `mpirun` ends the others and names it; told not to (`--enable-recovery`), it leaves that to them.

mod faults {
    pub(crate) mod carrier;
    pub(crate) mod worlds;
}

use faults::carrier::{Done, Fault, Faulty};
use faults::worlds::plan;
use moe_model_core::Plan;
use moe_model_core::groups::Group;
use moe_model_core::spec::{Mesh, Schedule, Switch};
use moe_model_core::traffic::Operation;
use moe_model_gpu::comm::Carrier as _;
use moe_model_gpu::comm::mpi::Mpi;
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::smoke::ADAMW;
use moe_model_gpu::{Host, Numerics, Step, StepError};
use std::io::{self, Read as _, Write as _};
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

/// How long a rank waits for another.
const WAIT: Duration = Duration::from_millis(700);
/// Within what a world ends, with what `mpirun` takes to start and to end it.
const STATED: Duration = Duration::from_secs(10);
const RANKS: u64 = 4;
/// To which of them it happens.
const RANK: u64 = 2;

const STALLS: &str = "stalls";
/// When others are sending it what MPI gives to nobody who does not take it.
const LATE: &str = "comes, stalls";
const DISAGREES: &str = "disagrees";
const KILLED: &str = "is killed";
/// What no buffer holds; before that, what one has to.
const LONG: &str = "sends what is too long";
const MISSED: &str = "is killed, and missed by others alone,";

/// What happens, in which layout, and where.
const CASES: &[(&str, &str, Group, Operation)] = &[
    (LATE, "experts", Group::CpDp, Operation::AllGather),
    (STALLS, "stages", Group::Pp, Operation::Send),
    (LONG, "experts", Group::CpDp, Operation::Send),
    (DISAGREES, "experts", Group::Etp, Operation::AllGather),
    (MISSED, "experts", Group::Ep, Operation::AllToAll),
    (KILLED, "stages", Group::Tp, Operation::ReduceScatter),
];

fn layout(name: &str) -> Plan {
    plan(|layout| {
        if name == "experts" {
            layout.mesh = Mesh { dp: RANKS, ep: 2, etp: 2, ..Mesh::DEFAULT };
        } else {
            layout.mesh = Mesh { tp: 2, pp: 2, vpp: 2, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
            layout.schedule = Schedule::Interleaved;
        }
    })
}

fn main() {
    match env::args().nth(1).and_then(|number| number.parse::<usize>().ok()) {
        Some(case) if env::var_os("OMPI_COMM_WORLD_RANK").is_some() => rank(CASES[case]),
        _ if Command::new("mpirun").arg("--version").stdout(Stdio::null()).status().is_ok() => {
            (0..CASES.len()).for_each(world);
        }
        _ => eprintln!("skipped: worlds of processes: there is no mpirun"),
    }
}

/// A rank of a world in which something happens.
fn rank((kind, name, group, operation): (&'static str, &str, Group, Operation)) {
    // Long messages take their time, and nobody stalls.
    let patience = if kind == LONG { STATED / 2 } else { WAIT };
    let (plan, mpi) = (layout(name), Mpi::start(patience).expect("it was not started before"));
    let rank = mpi.rank();
    let happens = Box::new(move |message: &mut Vec<u8>| match kind {
        STALLS => thread::sleep(10 * STATED),
        DISAGREES => drop(message.splice(..0, [0; 4])),
        // The process asks for a signal that none survives.
        _ => drop(Command::new("kill").args(["-KILL", &process::id().to_string()]).status()),
    });
    let fault = Fault { group, operation: operation.name(), before: 2, happens };
    let carrier = Faulty { carrier: mpi.clone(), rank, done: Done::default(), fault: (rank == RANK).then_some(fault) };
    let ended = match kind {
        LATE => late(plan, &mpi, (group, operation)),
        LONG => long(plan, &mpi, (group, operation)),
        _ => train(plan, rank, carrier),
    };
    let text = ended.map_or_else(|error| error.to_string(), |()| "it goes on".to_owned());
    // At once, so that lines of several processes do not mix.
    io::stderr().write_all(format!("rank {rank} ends: {text}\n").as_bytes()).expect("somebody reads");
    // Others do not see that it ended. They say theirs when they have waited, too.
    thread::sleep(WAIT + WAIT / 2);
    mpi.abort();
}

/// Two steps: who waits for nobody in the first does in the second.
fn train(plan: Plan, rank: u64, carrier: Faulty<Mpi>) -> Result<(), StepError> {
    let (numerics, mut random) = (Numerics::usual(&plan.spec().architecture), Random::of(&plan));
    let carrier = Box::new(carrier);
    let mut step = Step::<_, Dynamic, f32>::in_world(plan, rank, carrier, Host::new(1), numerics, &mut random)?;
    (0..2).try_for_each(|_| step.train(&mut random, ADAMW).map(drop))
}

/// Long messages between ranks, one of which only says that it is here.
fn late(plan: Plan, mpi: &Mpi, (group, operation): (Group, Operation)) -> Result<(), StepError> {
    let (ranks, operation) = (plan.group(group, mpi.rank()), operation.name());
    if mpi.rank() == RANK {
        for to in ranks.into_iter().filter(|to| *to != RANK) {
            mpi.send(to, group, operation, Vec::new())?;
        }
        thread::sleep(10 * STATED);
    }
    let sent = ranks.into_iter().map(|_| vec![7; 1 << 20]).collect();
    Ok(mpi.exchange(group, ranks, operation, sent).map(drop)?)
}

/// Messages around a ring, which all send before they receive, and then one of as many bytes as no message of MPI has.
fn long(plan: Plan, mpi: &Mpi, (group, operation): (Group, Operation)) -> Result<(), StepError> {
    let ([to, from], operation) = ([1, RANKS - 1].map(|far| (mpi.rank() + far) % RANKS), operation.name());
    mpi.send(to, group, operation, vec![7; 65 << 20])?;
    let message = mpi.receive(from, group, operation)?;
    assert!(message.len() == 65 << 20 && message.iter().all(|byte| *byte == 7));
    // All have come so far before one ends.
    let all = plan.group(group, mpi.rank());
    mpi.exchange(group, all, operation, all.into_iter().map(|_| Vec::new()).collect())?;
    Ok(mpi.send(to, group, operation, vec![0; 1 << 31])?)
}

/// A world of processes, and what is seen of it.
fn world(case: usize) {
    let (kind, name, group, operation) = CASES[case];
    let what = format!("rank {RANK} {kind} at {} over {}, {name}", operation.name(), group.name());
    let started = Instant::now();
    let (code, said) = run(case).unwrap_or_else(|said| panic!("{what}: not over after {STATED:?}\n{said}"));
    println!("{what}: over after {:.1} s", started.elapsed().as_secs_f64());
    // Told to miss nobody, `mpirun` ends well.
    assert!(code != Some(0) || kind == MISSED, "{what}: {said}");
    if kind == KILLED {
        assert!(said.contains(&format!("process rank {RANK} ")) && said.contains("signal 9"), "{what}: {said}");
        return;
    }
    let peers = layout(name).group(group, RANK);
    if kind == LATE {
        // Those whose messages it does not take end the others, who may not come to say theirs: whoever does blames it alone.
        let error = format!(": rank {RANK} sends nothing for {} over {}: ", operation.name(), group.name());
        let mut errors = said.lines().filter(|line| line.starts_with("error: rank ")).peekable();
        assert!(errors.peek().is_some(), "{what}: {said}");
        assert!(errors.all(|line| line.contains(&error)), "{what}: {said}");
        return;
    }
    if kind == LONG {
        for rank in 0..RANKS {
            let to = (rank + 1) % RANKS;
            let error = format!(
                "rank {rank} ends: rank {to} disagrees on send over cp-dp: a message of 2147483648 bytes: at most "
            );
            assert!(said.contains(&error), "{what}: rank {rank}: {said}");
        }
        return;
    }
    for rank in (0..RANKS).filter(|rank| *rank != RANK) {
        let start = format!("rank {rank} ends: ");
        let error = said.lines().find_map(|line| line.split_once(&start)).map(|(_, error)| error);
        let error = error.unwrap_or_else(|| panic!("{what}: rank {rank} says nothing\n{said}"));
        assert!(error.starts_with("rank ") && error.contains(" over "), "{what}: rank {rank}: {error}");
        if peers.has(rank) {
            let does = if kind == DISAGREES { "disagrees on" } else { "sends nothing for" };
            let expected = format!("rank {RANK} {does} {} over {}: ", operation.name(), group.name());
            assert!(error.starts_with(&expected), "{what}: rank {rank}: {error}");
        }
    }
}

/// Runs it; gives its exit code and what all processes said, alone that if it does not end.
fn run(case: usize) -> Result<(Option<i32>, String), String> {
    let this = env::current_exe().expect("this test is a program");
    let mut world = Command::new("mpirun");
    world.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "--mca",
        "mpi_yield_when_idle",
        "1",
        "-np",
        &RANKS.to_string(),
    ]);
    if CASES[case].0 == MISSED {
        world.arg("--enable-recovery");
    }
    world.arg(this).arg(case.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut world = world.spawn().expect("it can be run");
    let mut stderr = world.stderr.take().expect("it is piped");
    let said = thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stderr.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    let started = Instant::now();
    let ended = loop {
        match world.try_wait().expect("it is a process") {
            Some(status) => break Some(status.code()),
            None if started.elapsed() > STATED => break None,
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
    if ended.is_none() {
        world.kill().expect("it runs");
        world.wait().expect("it is a process");
    }
    let said = said.join().expect("it reads");
    ended.map(|code| (code, said.clone())).ok_or(said)
}
