//! Worlds of threads compute what one rank computes that holds the whole model: losses, every gradient, put together from
//! the slices that ranks hold, and the weights after two steps. Where something happens to a rank, all end ([`faults`]).

#[path = "world/faults.rs"]
mod faults;
#[path = "common/specs.rs"]
mod specs;

use moe_model_core::groups::Group;
use moe_model_core::spec::{
    Accounting, Attention, Batch, Bias, Capacity, Context, CorrectionBias, Dtype, Experts, Factor, Gqa, Kernel, Layers,
    Layout, Mesh, Mla, Precision, QkNorm, Recompute, Reference, Routing, Schedule, Spec, StageList, Stages, Switch,
    Zero, ZeroStage,
};
use moe_model_core::traffic::Operation;
use moe_model_core::{Bytes, Coordinates, Plan};
use moe_model_gpu::comm::Sent;
use moe_model_gpu::comm::threads::{self, PATIENCE};
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::smoke::ADAMW;
use moe_model_gpu::step::{Place, Source};
use moe_model_gpu::{Host, Numerics, Step};
use std::collections::BTreeMap;

/// A weight by its name and layer.
type Named = (&'static str, Option<u64>);
/// Values of all weights, or of their gradients.
type Values = BTreeMap<Named, Vec<f32>>;

fn architecture(mla: bool, mtp: u64, tied: Switch) -> Spec {
    let mut spec = Spec::DEFAULT;
    let a = &mut spec.architecture;
    (a.hidden, a.vocab, a.mtp, a.tied_embeddings) = (16, 40, mtp, tied);
    a.layers = Layers { dense: 1, moe: 3, ffn: 24, ..Layers::DEFAULT };
    a.attention = if mla {
        Attention::Mla(Mla { heads: 4, q_rank: 8, kv_rank: 8, nope: 8, rope: 4, value: 8, ..Mla::DEFAULT })
    } else {
        Attention::Gqa(Gqa { heads: 4, kv_heads: 2, head_dim: 8, ..Gqa::DEFAULT })
    };
    let shared_gate = if mla { Switch::Off } else { Switch::On };
    let correction_bias = if mla { CorrectionBias::On } else { CorrectionBias::Off };
    a.experts = Experts { routed: 8, active: 2, ffn: 8, shared: 1, shared_gate, correction_bias, ..Experts::DEFAULT };
    spec.layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    spec.layout.accounting = Accounting::REFERENCE;
    spec.layout.routing = Routing::WORST;
    spec
}

fn plan(spec: Spec) -> Plan {
    Plan::new(spec).unwrap_or_else(|violations| panic!("{:?}\n{violations}", spec.layout.mesh))
}

/// The places of a rank's elements of a weight in the whole.
fn places(plan: &Plan, at: &Coordinates, name: &str) -> Vec<usize> {
    let slices = plan.slices(at, name).into_iter().flatten();
    slices.map(|place| usize::try_from(place).expect("places are addresses")).collect()
}

/// What a weight is called in the whole model: copies of one table have its values.
fn key(values: &Values, name: &'static str, layer: Option<u64>) -> Named {
    let is_copy = name == "lm_head.weight" && !values.contains_key(&(name, None));
    (if is_copy { "model.embed_tokens.weight" } else { name }, layer)
}

/// Weights of the whole model, of which a rank takes its slices.
struct Whole<'a> {
    values: &'a Values,
    plan: Plan,
    at: Coordinates,
}

impl Source for Whole<'_> {
    fn fill(&mut self, place: &Place, out: &mut [f32]) -> Result<(), String> {
        let whole = self.values.get(&key(self.values, place.name, place.layer));
        let whole = whole.ok_or_else(|| format!("no `{}`", place.name))?;
        let places = places(&self.plan, &self.at, place.name);
        assert_eq!(places.len(), out.len(), "{}: all of it", place.name);
        // Rows that pad the vocabulary for several ranks stand for nothing.
        out.iter_mut().zip(places).for_each(|(out, place)| *out = whole.get(place).copied().unwrap_or(0.0));
        Ok(())
    }
}

/// What two steps gave: losses, gradients before the first update, weights after the second.
struct Trained {
    losses: [Option<f64>; 2],
    mtp: Option<f64>,
    /// Micro-batches in flight, and what the first step sent.
    in_flight: u64,
    sent: Vec<(Group, Operation, Sent)>,
    gradients: Values,
    weights: Values,
}

fn train(step: &mut Step<Host, Dynamic, f32>, plan: &Plan) -> Trained {
    let mut random = Random::of(plan);
    let first = step.gradients(&mut random, None).unwrap_or_else(|error| panic!("{error}"));
    step.update(ADAMW).unwrap_or_else(|error| panic!("{error}"));
    let sent = step.comm().sent();
    let mut gradients = Values::new();
    let see = &mut |place: &Place, values: &[f32]| {
        gradients.insert((place.name, place.layer), values.to_vec());
    };
    step.each_gradient(see).expect("it has values");
    step.settle().unwrap_or_else(|error| panic!("{error}"));
    let second = step.train(&mut random, ADAMW).unwrap_or_else(|error| panic!("{error}"));
    let mut weights = Values::new();
    let see = &mut |place: &Place, values: &[f32]| {
        weights.insert((place.name, place.layer), values.to_vec());
    };
    step.weights(see).expect("it has values");
    let (losses, mtp, in_flight) = ([first.loss, second.loss], first.mtp_loss, first.in_flight);
    Trained { losses, mtp, in_flight, sent, gradients, weights }
}

/// The whole model on one rank, with the micro-batches of all replicas.
fn alone(spec: &Spec, numerics: Numerics) -> (Plan, Values, Trained) {
    let mut whole = *spec;
    whole.layout.mesh = Mesh::DEFAULT;
    (whole.layout.zero, whole.layout.stages, whole.layout.schedule) = (Zero::NONE, Stages::EVEN, Schedule::OneFOneB);
    whole.layout.batch.group = 0;
    whole.layout.batch.count *= spec.layout.mesh.dp.max(1);
    let whole = plan(whole);
    let step = Step::new(whole, 0, Host::new(1), numerics, &mut Random::of(&whole));
    let mut step: Step<Host, Dynamic, f32> = step.expect("the budget has it");
    let mut values = Values::new();
    let see = &mut |place: &Place, of: &[f32]| {
        values.insert((place.name, place.layer), of.to_vec());
    };
    step.weights(see).expect("it has values");
    let trained = train(&mut step, &whole);
    (whole, values, trained)
}

/// How far gradients may be off, as far as single precision is from double in the files of expected values
/// (`tests/data/numerics`), which are of four layers at most; by the largest of them where that is more than 1.
fn tolerance(layers: u64, gradients: &Values) -> f32 {
    let times = f32::from(u16::try_from(layers.div_ceil(4)).expect("layers are few"));
    3e-6 * times * gradients.values().flatten().fold(1.0, |most: f32, value| most.max(value.abs()))
}

/// How far a weight may be off after two steps: what an update divides a gradient by is its own size.
fn after_two(gradient: f32, tolerance: f32) -> f32 {
    let of_updates = if gradient == 0.0 { 0.0 } else { 2.0 * ADAMW.lr * (tolerance / gradient.abs()).min(1.0) };
    6e-6 + of_updates
}

/// Asserts that a rank's slices are those of the whole, as near as the gradient at a place allows.
fn assert_slices(
    (of, at): (&Plan, &Coordinates),
    mine: &Values,
    (whole, gradients): (&Values, &Values),
    near: impl Fn(f32) -> f32,
) {
    for ((name, layer), values) in mine {
        let key = key(whole, name, *layer);
        let all = [&whole[&key][..], gradients.get(&key).map_or(&[][..], |gradients| gradients)];
        let mut values = values.iter();
        for place in places(of, at, name) {
            let value = values.next().expect("a value for each place");
            // Rows that pad the vocabulary for several ranks are 0 and stay so.
            let [expected, gradient] = all.map(|all| all.get(place).copied().unwrap_or(0.0));
            let off = (expected - value).abs();
            assert!(off <= near(gradient), "{at:?} {layer:?} {name}: {value}, not {expected}; {:?}", of.spec());
        }
        assert!(values.next().is_none(), "a place for each value");
    }
}

/// Asserts that each rank sent what the plan says, group by group, operation by operation. Where routing decides how many copies
/// of tokens come to a rank and how many of these stay, ranks of an expert group sent as much together.
fn assert_sent(plan: &Plan, ranks: &[(Coordinates, Trained)]) {
    let (mut sent, mut planned) = (BTreeMap::new(), BTreeMap::new());
    for (rank, (_, trained)) in (0..).zip(ranks) {
        let key = |group, operation| {
            // What goes to experts, and comes together where these are split.
            let is_routed = group == Group::Ep && operation == Operation::AllToAll
                || group == Group::Etp && operation != Operation::Counts;
            (group, operation, if is_routed { plan.group(Group::EtpEp, rank).first } else { rank })
        };
        for (group, operation, of) in &trained.sent {
            let is_kept = *group == Group::Ep && *operation == Operation::AllToAll;
            let own = if is_kept { of.own } else { Bytes::ZERO };
            let all = of.others.plus(own).bytes();
            *sent.entry(key(*group, *operation)).or_insert(0) += all;
        }
        for of in plan.traffic(rank).expect("it is of the reference step") {
            *planned.entry(key(of.group, of.operation)).or_insert(0) += of.total().bytes();
        }
    }
    sent.retain(|_, bytes| *bytes > 0);
    assert_eq!(sent, planned, "{:?}", plan.spec());
}

/// Holds a world against the model on one rank.
fn agree(spec: Spec) {
    agree_with(spec, Numerics::usual(&spec.architecture));
}

fn agree_with(spec: Spec, numerics: Numerics) {
    let of_world = plan(spec);
    let (_, weights, expected) = alone(&spec, numerics);
    let mesh = spec.layout.mesh;
    let results = threads::run(of_world.world(), PATIENCE, |rank, end| {
        let at = of_world.coordinates(rank);
        let mut source = Whole { values: &weights, plan: of_world, at };
        let host = Host::new(1).poisoned();
        let step = Step::in_world(of_world, rank, Box::new(end), host, numerics, &mut source);
        let mut step: Step<Host, Dynamic, f32> = step.unwrap_or_else(|error| panic!("{error}"));
        (at, train(&mut step, &of_world))
    });
    let tolerance = tolerance(spec.architecture.layers.count(), &expected.gradients);
    let results = results.into_iter().map(|result| result.unwrap_or_else(|error| panic!("{mesh:?}: {error}")));
    let results: Vec<_> = results.collect();
    assert_sent(&of_world, &results);
    let (mut losses, mut count) = ([0.0, 0.0, 0.0], 0);
    for (at, trained) in results {
        assert_eq!(trained.in_flight, of_world.in_flight(at.pp), "{mesh:?} {at:?}");
        let (mine, gradients) = ((&of_world, &at), &expected.gradients);
        assert_slices(mine, &trained.gradients, (gradients, gradients), |_| tolerance);
        let near = |gradient| after_two(gradient, tolerance);
        assert_slices(mine, &trained.weights, (&expected.weights, gradients), near);
        if let [Some(first), Some(second)] = trained.losses {
            losses = [losses[0] + first, losses[1] + second, losses[2] + trained.mtp.unwrap_or(0.0)];
            count += 1;
        }
    }
    assert_eq!(count, of_world.stage_ranks(), "each rank of the last stage has a loss");
    let expected = [expected.losses[0], expected.losses[1], Some(expected.mtp.unwrap_or(0.0))];
    for (sum, expected) in losses.into_iter().zip(expected) {
        let (mean, expected) = (sum / f64::from(u32::try_from(count).expect("few")), expected.expect("a loss"));
        assert!((mean - expected).abs() < f64::from(tolerance), "{mesh:?}: {mean}, not {expected}");
    }
}

fn layout(mla: bool, mesh: Mesh) -> Spec {
    let mut spec = architecture(mla, 0, Switch::Off);
    spec.layout.mesh = mesh;
    spec.layout.batch = Batch { sequence: 8, micro: 2, count: 2, ..Batch::DEFAULT };
    spec
}

#[test]
fn every_axis_alone() {
    for mla in [true, false] {
        agree(layout(mla, Mesh { dp: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 2, ep: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { tp: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { tp: 2, sequence_parallel: Switch::On, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { pp: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 2, etp: 2, ..Mesh::DEFAULT }));
        for context in SHARING {
            agree(layout(mla, Mesh { cp: 2, context, ..Mesh::DEFAULT }));
            agree(layout(mla, Mesh { cp: 4, context, ..Mesh::DEFAULT }));
        }
    }
}

/// How ranks share sequences.
const SHARING: [Context; 3] = [Context::AllToAll, Context::Contiguous, Context::Ring];

#[test]
fn shared_sequences_beside_every_axis() {
    let on = Switch::On;
    for (mla, context) in SHARING.into_iter().flat_map(|context| [(true, context), (false, context)]) {
        let shared = Mesh { cp: 2, context, ..Mesh::DEFAULT };
        agree(layout(mla, Mesh { tp: 2, ..shared }));
        agree(layout(mla, Mesh { tp: 2, sequence_parallel: on, ..shared }));
        agree(layout(mla, Mesh { dp: 2, ..shared }));
        agree(layout(mla, Mesh { ep: 2, ..shared }));
        agree(layout(mla, Mesh { dp: 2, ep: 4, ..shared }));
        agree(layout(mla, Mesh { etp: 2, ..shared }));
        agree(layout(mla, Mesh { tp: 2, ep: 2, etp: 2, sequence_parallel: on, ..shared }));
        agree(layout(mla, Mesh { pp: 2, ..shared }));
    }
}

/// The same beside what else changes what a rank does: schedules, recomputation, tied tables, modules that look over the border
/// of a piece, and shares of the optimizer.
#[test]
fn shared_sequences_beside_every_choice() {
    let on = Switch::On;
    for (mtp, tied, context) in SHARING.into_iter().flat_map(|of| [(1, Switch::Off, of), (2, on, of)]) {
        let shared = Mesh { cp: 2, context, ..Mesh::DEFAULT };
        for (mesh, schedule, recompute, zero) in [
            (shared, Schedule::OneFOneB, Recompute::None, Zero::OPTIMIZER),
            (Mesh { tp: 2, sequence_parallel: on, ..shared }, Schedule::OneFOneB, Recompute::Full, Zero::NONE),
            (Mesh { pp: 2, ep: 2, ..shared }, Schedule::Gpipe, Recompute::Full, Zero::OPTIMIZER),
            (Mesh { pp: 2, vpp: 2, dp: 2, ..shared }, Schedule::Interleaved, Recompute::None, Zero::NONE),
        ] {
            let mut spec = architecture(mtp == 1, mtp, tied);
            spec.layout.batch = Batch { sequence: 8, micro: 2, count: 2, ..Batch::DEFAULT };
            (spec.layout.mesh, spec.layout.schedule) = (mesh, schedule);
            (spec.layout.recompute, spec.layout.zero) = (recompute, zero);
            agree(spec);
        }
    }
}

/// Attention of every kind.
#[test]
fn heads_of_shared_sequences() {
    let on = Switch::On;
    let gqa = Gqa { heads: 8, head_dim: 4, sinks: on, qk_norm: QkNorm::Head, bias: Bias::All, ..Gqa::DEFAULT };
    for (kv_heads, cp) in [(1, 4), (2, 4), (8, 4), (8, 8)] {
        for (window, kernel) in [(0, Kernel::Flash), (3, Kernel::Eager), (3, Kernel::Flash)] {
            for context in SHARING.into_iter().filter(|of| kernel == Kernel::Flash || *of == Context::AllToAll) {
                let mut spec = layout(false, Mesh { cp, context, ..Mesh::DEFAULT });
                spec.architecture.attention = Attention::Gqa(Gqa { kv_heads, window, value_dim: 6, ..gqa });
                spec.layout.accounting = Accounting::Reference(Reference { kernel });
                spec.layout.batch.sequence = 16;
                agree(spec);
            }
        }
    }
    // More ranks than key/value heads, along both axes.
    let mesh = Mesh { cp: 2, context: Context::AllToAll, tp: 4, sequence_parallel: on, ..Mesh::DEFAULT };
    let mut spec = layout(false, mesh);
    spec.architecture.attention = Attention::Gqa(Gqa { kv_heads: 2, ..gqa });
    agree(spec);
    // Heads that could not be traded.
    let mut spec = layout(false, Mesh { cp: 4, context: Context::Ring, ..Mesh::DEFAULT });
    spec.architecture.attention = Attention::Gqa(Gqa { heads: 3, kv_heads: 3, ..gqa });
    agree(spec);
}

#[test]
fn pairs_of_axes() {
    let on = Switch::On;
    for mla in [true, false] {
        agree(layout(mla, Mesh { dp: 2, tp: 2, sequence_parallel: on, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 2, tp: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 2, tp: 2, ep: 2, sequence_parallel: on, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 2, tp: 2, ep: 4, sequence_parallel: on, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 4, ep: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 4, ep: 2, etp: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 4, etp: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { tp: 2, etp: 2, sequence_parallel: on, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 2, tp: 2, ep: 2, etp: 2, sequence_parallel: on, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 2, pp: 2, etp: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { dp: 2, pp: 2, ep: 2, ..Mesh::DEFAULT }));
        agree(layout(mla, Mesh { tp: 2, pp: 2, sequence_parallel: on, ..Mesh::DEFAULT }));
    }
    // More ranks than key/value heads.
    agree(layout(false, Mesh { tp: 4, sequence_parallel: on, ..Mesh::DEFAULT }));
}

#[test]
fn everything_at_once() {
    let mesh = Mesh { dp: 2, tp: 2, pp: 2, ep: 4, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    for (mtp, tied) in [(0, Switch::On), (1, Switch::Off), (2, Switch::On)] {
        for (schedule, recompute) in [(Schedule::OneFOneB, Recompute::Full), (Schedule::Gpipe, Recompute::None)] {
            let mut spec = architecture(true, mtp, tied);
            (spec.layout.mesh, spec.layout.schedule, spec.layout.recompute) = (mesh, schedule, recompute);
            spec.layout.batch = Batch { sequence: 8, micro: 1, count: 3, ..Batch::DEFAULT };
            for zero in [Zero::OPTIMIZER, Zero::GRADIENTS, Zero::PARAMETERS] {
                agree(Spec { layout: Layout { zero, ..spec.layout }, ..spec });
            }
        }
    }
}

#[test]
fn chunks_that_take_turns() {
    for (mtp, tied, mesh) in [
        (0, Switch::Off, Mesh { pp: 2, vpp: 2, ..Mesh::DEFAULT }),
        (0, Switch::On, Mesh { pp: 4, vpp: 2, ..Mesh::DEFAULT }),
        (1, Switch::Off, Mesh { pp: 2, vpp: 4, dp: 2, ep: 2, ..Mesh::DEFAULT }),
        (2, Switch::On, Mesh { pp: 2, vpp: 2, tp: 2, sequence_parallel: Switch::On, ..Mesh::DEFAULT }),
    ] {
        for (recompute, count, group) in [(Recompute::None, 4, 0), (Recompute::Full, 7, 5)] {
            let mut spec = architecture(true, mtp, tied);
            spec.architecture.layers = Layers { dense: 3, moe: 5, ffn: 24, ..Layers::DEFAULT };
            (spec.layout.mesh, spec.layout.schedule, spec.layout.recompute) = (mesh, Schedule::Interleaved, recompute);
            let group = if mesh.pp <= 2 && count % 5 >= 2 { group } else { 0 };
            let count = if mesh.pp == 4 { 4 } else { count };
            let count = if group == 0 { count / mesh.pp * mesh.pp } else { count };
            spec.layout.batch = Batch { sequence: 8, micro: 1, count, group, ..Batch::DEFAULT };
            agree(spec);
        }
    }
}

/// Of stages that a list says some hold an end of the model alone, and some nothing.
#[test]
fn stages_without_layers() {
    for (list, vpp, schedule) in [
        ("E|tttt|L", 0, Schedule::OneFOneB),
        ("Et|||ttt||L", 3, Schedule::Interleaved),
        ("E|ttttL", 0, Schedule::Gpipe),
    ] {
        let (mut spec, list) = (architecture(false, 0, Switch::On), StageList::parse(list));
        spec.layout.stages.list = list;
        (spec.layout.schedule, spec.layout.mesh.vpp) = (schedule, vpp);
        spec.layout.mesh.pp = list.stages() / vpp.max(1);
        spec.layout.batch = Batch { sequence: 8, count: 4, ..Batch::DEFAULT };
        agree(spec);
    }
}

/// Of optimizer state, gradients and weights, of dense parameters and of experts, each apart.
#[test]
fn shares_of_replicas() {
    for mesh in [
        Mesh { dp: 2, ..Mesh::DEFAULT },
        Mesh { dp: 4, ep: 2, ..Mesh::DEFAULT },
        Mesh { dp: 3, tp: 2, sequence_parallel: Switch::On, ..Mesh::DEFAULT },
        Mesh { dp: 2, tp: 2, ..Mesh::DEFAULT },
        Mesh { dp: 4, ep: 1, etp: 2, ..Mesh::DEFAULT },
        Mesh { dp: 2, cp: 2, context: Context::AllToAll, ..Mesh::DEFAULT },
        Mesh { dp: 2, cp: 2, context: Context::Ring, ..Mesh::DEFAULT },
    ] {
        for mla in [false, true] {
            for (dense, expert) in ZeroStage::ALL.iter().zip(ZeroStage::ALL.iter().cycle().skip(usize::from(mla))) {
                let mut spec = layout(mla, mesh);
                spec.layout.zero = Zero { dense: *dense, expert: *expert, ..Zero::NONE };
                agree(spec);
            }
        }
    }
}

/// Both ends of the pipeline hold a table, modules read the embedding and the head, and replicas share out all of these.
#[test]
fn shares_of_tables() {
    for zero in [Zero::GRADIENTS, Zero::PARAMETERS] {
        for (mtp, tied, pp, vpp) in [
            (0, Switch::On, 1, 0),
            (0, Switch::On, 2, 0),
            (2, Switch::Off, 1, 0),
            (2, Switch::On, 2, 2),
            (1, Switch::Off, 2, 0),
        ] {
            let mut spec = architecture(false, mtp, tied);
            spec.layout.mesh = Mesh { dp: 3, pp, vpp, ..Mesh::DEFAULT };
            spec.layout.schedule = if vpp > 1 { Schedule::Interleaved } else { Schedule::OneFOneB };
            spec.layout.batch = Batch { sequence: 4, micro: 1, count: 2, ..Batch::DEFAULT };
            spec.layout.zero = zero;
            agree(spec);
        }
    }
}

/// Each rank bounds copies of its own tokens: where those are a micro-batch, the same are dropped as on one rank.
#[test]
fn bounded_capacity() {
    let with = |mesh, factor| {
        let mut spec = layout(true, mesh);
        spec.layout.routing = Routing::Capacity(Capacity { factor: Factor::thousandths(factor) });
        spec
    };
    // 16 tokens of 2 experts each, 8 experts: 2 slots, 4, 16.
    for factor in [500, 1000, 4000] {
        agree(with(Mesh { dp: 2, ep: 2, ..Mesh::DEFAULT }, factor));
        agree(with(Mesh { dp: 4, ep: 2, ..Mesh::DEFAULT }, factor));
        agree(with(Mesh { dp: 4, ep: 2, etp: 2, ..Mesh::DEFAULT }, factor));
    }
    let all = |mesh| with(mesh, 4000);
    agree(all(Mesh { dp: 2, tp: 2, ep: 4, sequence_parallel: Switch::On, ..Mesh::DEFAULT }));
    agree(all(Mesh { dp: 2, pp: 2, ep: 2, ..Mesh::DEFAULT }));
    agree(all(Mesh { dp: 4, ep: 2, etp: 2, ..Mesh::DEFAULT }));
}

/// How many axes a layout has ranks along.
fn axes(spec: &Spec) -> usize {
    let Mesh { dp, tp, cp, pp, vpp, ep, etp, sequence_parallel, .. } = spec.layout.mesh;
    [dp > 1, tp > 1, cp > 1, pp > 1, vpp > 1, ep > 1, etp > 1, sequence_parallel.is_on()]
        .into_iter()
        .filter(|there| *there)
        .count()
}

/// A random model under a random layout of three axes or more, over at most eight ranks.
fn triple(rng: &mut fastrand::Rng) -> Spec {
    loop {
        let mut spec = specs::random(rng);
        let (layout, precision) = (&mut spec.layout, Precision::DEFAULT);
        layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..precision };
        layout.routing = Routing::WORST;
        if axes(&spec) >= 3 && Plan::new(spec).is_ok_and(|plan| (2..=8).contains(&plan.world())) {
            return spec;
        }
    }
}

/// How far apart the gradients are that two orders of the same sums make, on one rank: of a random model that multiplies its
/// errors, no layout computes what another does. Nor of one some of whose gradients are nothing but rounding, as those of
/// queries that see one key are, since updates divide them by their own size: these are infinitely far apart.
fn noise(spec: &Spec, numerics: Numerics) -> f32 {
    let of = |kernel| {
        let mut spec = *spec;
        spec.layout.accounting = Accounting::Reference(Reference { kernel });
        let (.., trained) = alone(&spec, numerics);
        trained.gradients
    };
    let (one, other) = (of(Kernel::Flash), of(Kernel::Eager));
    if one.values().flatten().any(|value| *value != 0.0 && value.abs() < ADAMW.eps / 10.0) {
        return f32::INFINITY;
    }
    let apart = one.values().flatten().zip(other.values().flatten()).map(|(one, other)| (one - other).abs());
    apart.fold(0.0, f32::max)
}

/// One half of all, so that they run side by side.
fn triples(seed: u64) {
    let (mut rng, mut held) = (fastrand::Rng::with_seed(seed), 0);
    while held < 24 {
        let spec = triple(&mut rng);
        // Random latents of few numbers may be near 0, and norms multiply what single precision leaves of them.
        let numerics = Numerics { norm_eps: 0.1, ..Numerics::usual(&spec.architecture) };
        if noise(&spec, numerics) < 1e-6 {
            agree_with(spec, numerics);
            held += 1;
        }
    }
}

#[test]
fn random_models_under_three_axes() {
    triples(1);
}

#[test]
fn more_random_models_under_three_axes() {
    triples(2);
}
