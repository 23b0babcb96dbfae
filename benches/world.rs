//! Weak scaling of worlds of threads, up to the cores at hand, and what the communicator costs beside the step:
//! `cargo bench --bench world`, on a machine that does nothing else, in less than a minute. Each rank is a thread that computes
//! by itself, and has as much to compute however many there are; times are medians of steps, of the slowest rank.
//!
//! Efficiency is a step of one rank over a step of this many: 100 % if ranks cost nothing, of stages at most
//! `4 n / (5 n - 1)` for n of them, which have 4 n micro-batches: they wait for the first and behind the last. Time in the
//! communicator is what a rank sends, receives, and waits for others; sums are part of the step. Ranks share a memory and its
//! bandwidth, so efficiency falls where no byte is sent, too.

#[path = "../examples/common/columns.rs"]
mod columns;
#[path = "../examples/common/table.rs"]
mod table;

use moe_model::gpu::comm::threads::{self, PATIENCE};
use moe_model::gpu::comm::{Carrier, CommError};
use moe_model::gpu::random::Random;
use moe_model::gpu::shapes::Dynamic;
use moe_model::gpu::smoke::ADAMW;
use moe_model::gpu::step::Step;
use moe_model::gpu::{Host, Numerics};
use moe_model::spec::{
    Accounting, Attention, Batch, Dtype, Experts, Gqa, Layers, Mesh, Precision, Routing, Spec, Switch,
};
use moe_model::{Bytes, Group, Plan, Ranks};
use std::cell::Cell;
use std::rc::Rc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// Steps that are measured, and in front of them as many that are not.
const STEPS: usize = 12;
const WARM: usize = 2;

/// By name: the mesh of so many ranks, and the micro-batches of each replica.
const CASES: [(&str, fn(u64) -> (Mesh, u64)); 4] = [
    ("replicas", |ranks| (Mesh { dp: ranks, ..Mesh::DEFAULT }, 4)),
    ("experts dealt over replicas", |ranks| (Mesh { dp: ranks, ep: ranks, ..Mesh::DEFAULT }, 4)),
    ("tensors and sequences split", |ranks| {
        let sequence_parallel = if ranks > 1 { Switch::On } else { Switch::Off };
        (Mesh { tp: ranks, sequence_parallel, ..Mesh::DEFAULT }, 4 * ranks)
    }),
    ("stages", |ranks| (Mesh { pp: ranks, ..Mesh::DEFAULT }, 4 * ranks)),
];

fn main() {
    let cores = available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut rows = Vec::new();
    for (name, of) in CASES {
        let mut alone = None;
        for ranks in (0..).map(|power| 1 << power).take_while(|ranks| *ranks <= cores.min(8)) {
            let (mesh, count) = of(ranks);
            let world = run(plan(mesh, count));
            let alone = *alone.get_or_insert(world.step);
            rows.push(vec![
                name.to_owned(),
                ranks.to_string(),
                format!("{:.2}", world.step * 1e3),
                format!("{:.0} %", 100.0 * alone / world.step),
                format!("{:.2}", world.comm * 1e3),
                format!("{:.1} %", 100.0 * world.comm / world.step),
                world.sent.to_string(),
            ]);
        }
    }
    let title = format!("Worlds of threads on {cores} cores, the same work for each rank");
    let header = ["<", "ranks", "step, ms", "efficiency", "in the communicator, ms", "of a step", "sent in a step"];
    print!("{}", table::table(&title, &header, rows));
}

fn plan(mesh: Mesh, count: u64) -> Plan {
    let mut spec = Spec::DEFAULT;
    let a = &mut spec.architecture;
    (a.hidden, a.vocab) = (256, 1024);
    a.layers = Layers { moe: 4, ..Layers::DEFAULT };
    a.attention = Attention::Gqa(Gqa { heads: 8, kv_heads: 8, head_dim: 32, ..Gqa::DEFAULT });
    a.experts = Experts { routed: 8, active: 2, ffn: 256, ..Experts::DEFAULT };
    spec.layout.mesh = mesh;
    spec.layout.batch = Batch { sequence: 64, count, ..Batch::DEFAULT };
    spec.layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    (spec.layout.accounting, spec.layout.routing) = (Accounting::REFERENCE, Routing::WORST);
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// What a step of a world took: seconds of the slowest rank, of these in the communicator, and what the rank sent.
#[derive(Clone, Copy)]
struct Took {
    step: f64,
    comm: f64,
    sent: Bytes,
}

fn run(plan: Plan) -> Took {
    let ranks = threads::run(plan.world(), PATIENCE, |rank, end| {
        let time = Rc::new(Cell::new(Duration::ZERO));
        let carrier = Box::new(Timed { carrier: end, time: time.clone() });
        let numerics = Numerics::usual(&plan.spec().architecture);
        let step = Step::in_world(plan, rank, carrier, Host::new(1), numerics, &mut Random::of(&plan));
        let mut step: Step<Host, Dynamic, f32> = step.unwrap_or_else(|error| panic!("{error}"));
        let (mut steps, mut comms) = (Vec::new(), Vec::new());
        for number in 0..WARM + STEPS {
            time.set(Duration::ZERO);
            let started = Instant::now();
            step.train(&mut Random::of(&plan), ADAMW).unwrap_or_else(|error| panic!("{error}"));
            if number >= WARM {
                steps.push(started.elapsed().as_secs_f64());
                comms.push(time.get().as_secs_f64());
            }
        }
        let sent = step.comm().sent().iter().fold(Bytes::ZERO, |sum, (_, _, sent)| sum.plus(sent.others));
        Took { step: median(steps), comm: median(comms), sent: Bytes::new(sent.bytes() / (WARM + STEPS) as u64) }
    });
    let ranks = ranks.into_iter().map(|rank| rank.unwrap_or_else(|error| panic!("{error}")));
    ranks.reduce(|slowest, rank| if rank.step > slowest.step { rank } else { slowest }).expect("a world has ranks")
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A carrier, and how long its rank was in it.
struct Timed<C> {
    carrier: C,
    time: Rc<Cell<Duration>>,
}

impl<C> Timed<C> {
    fn timed<T>(&self, run: impl FnOnce(&C) -> T) -> T {
        let started = Instant::now();
        let result = run(&self.carrier);
        self.time.set(self.time.get() + started.elapsed());
        result
    }
}

impl<C: Carrier> Carrier for Timed<C> {
    fn exchange(
        &self,
        group: Group,
        ranks: Ranks,
        operation: &'static str,
        sent: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        self.timed(|carrier| carrier.exchange(group, ranks, operation, sent))
    }

    fn send(&self, to: u64, group: Group, operation: &'static str, message: Vec<u8>) -> Result<(), CommError> {
        self.timed(|carrier| carrier.send(to, group, operation, message))
    }

    fn receive(&self, from: u64, group: Group, operation: &'static str) -> Result<Vec<u8>, CommError> {
        self.timed(|carrier| carrier.receive(from, group, operation))
    }
}
