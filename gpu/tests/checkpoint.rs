//! Checkpoints of worlds: what one layout saves another reads, and saves again, bit by bit the same.

#[path = "common/specs.rs"]
mod specs;
#[path = "common/values.rs"]
mod values;

use moe_model_core::manifest::Orders;
use moe_model_core::spec::{
    Accounting, Attention, Batch, CorrectionBias, Dtype, Experts, Gqa, Layers, Mesh, Mla, Precision, Routing, Spec,
    Switch, Zero,
};
use moe_model_core::{Phase, Plan};
use moe_model_gpu::checkpoint::Saved;
use moe_model_gpu::comm::threads::{self, PATIENCE};
use moe_model_gpu::device::Format;
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::smoke::ADAMW;
use moe_model_gpu::step::Place;
use moe_model_gpu::{Bf16, Host, Meta, Numerics, Step};
use safetensors::{Dtype as Stored, SafeTensors};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};
use values::Values;

type Rank<E, M> = Step<Host, Dynamic, E, M>;

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("moe-model-checkpoint-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn plan(spec: Spec) -> Plan {
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// Runs something on every rank of a layout.
fn world<E: Format, M: Format, T: Send>(
    plan: &Plan,
    seed: u64,
    of_rank: impl Fn(&mut Rank<E, M>) -> T + Sync,
) -> Vec<T> {
    let numerics = Numerics::usual(&plan.spec().architecture);
    let results = threads::run(plan.world(), PATIENCE, |rank, end| {
        let mut source = Values::of(plan, rank, seed);
        let host = Host::new(1).poisoned();
        let step = Step::in_world(*plan, rank, Box::new(end), host, numerics, &mut source);
        of_rank(&mut step.unwrap_or_else(|error| panic!("{error}")))
    });
    results.into_iter().map(|result| result.unwrap_or_else(|error| panic!("{error}"))).collect()
}

fn train<E: Format, M: Format>(step: &mut Rank<E, M>, plan: &Plan) -> Option<u64> {
    let report = step.train(&mut Random::of(plan), ADAMW).unwrap_or_else(|error| panic!("{error}"));
    report.loss.map(f64::to_bits)
}

/// Every weight of a rank, to the bit.
fn weights<E: Format, M: Format>(step: &mut Rank<E, M>) -> Vec<(Place, Vec<u32>)> {
    let mut weights = Vec::new();
    let see = &mut |place: &Place, values: &[f32]| {
        weights.push((*place, values.iter().map(|value| value.to_bits()).collect()));
    };
    step.weights(see).expect("it has values");
    weights
}

fn save<E: Format, M: Format>(step: &mut Rank<E, M>, folder: &Path) -> PathBuf {
    step.save(folder).unwrap_or_else(|error| panic!("{error}"))
}

fn load<E: Format, M: Format>(step: &mut Rank<E, M>, folder: &Path) {
    step.load(folder).unwrap_or_else(|error| panic!("{error}"));
}

/// Format, shape and bytes of every tensor, by file and name.
fn tensors(checkpoint: &Path) -> BTreeMap<(String, String), (Stored, Vec<usize>, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for file in fs::read_dir(checkpoint).expect("the folder is there") {
        let path = file.expect("it can be read").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        if !name.ends_with(".safetensors") {
            continue;
        }
        let bytes = fs::read(&path).expect("it can be read");
        let file = SafeTensors::deserialize(&bytes).expect("it is of safetensors");
        for (tensor, view) in file.tensors() {
            let of = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
            all.insert((name.clone(), tensor), of);
        }
    }
    all
}

/// One layout saves, another reads and saves, the first reads and saves again; and goes on as if nothing had been.
fn there_and_back<E: Format, M: Format>(name: &str, one: &Plan, other: &Plan) {
    let folders = [1, 2, 3].map(|number| folder(&format!("{name}-{number}")));
    let first = world::<E, M, _>(one, 1, |step| {
        train(step, one);
        let saved = save(step, &folders[0]);
        (saved, weights(step), train(step, one), weights(step))
    });
    world::<E, M, _>(other, 2, |step| {
        load(step, &folders[0]);
        save(step, &folders[1]);
    });
    let third = world::<E, M, _>(one, 3, |step| {
        load(step, &folders[1]);
        let saved = save(step, &folders[2]);
        (saved, weights(step), train(step, one), weights(step))
    });
    let meshes = (one.spec().layout.mesh, other.spec().layout.mesh);
    for (rank, (first, third)) in first.iter().zip(&third).enumerate() {
        assert!(first.1 == third.1, "{name}: rank {rank} has other weights: {meshes:?}");
        assert_eq!(first.2, third.2, "{name}: rank {rank} has another loss: {meshes:?}");
        assert!(first.3 == third.3, "{name}: rank {rank} learns something else: {meshes:?}");
    }
    let [before, behind] = [&first[0].0, &third[0].0].map(|checkpoint| tensors(checkpoint));
    assert!(!before.is_empty(), "{name}: there are files");
    assert_eq!(before.keys().collect::<Vec<_>>(), behind.keys().collect::<Vec<_>>(), "{name}");
    for (tensor, before) in &before {
        assert!(*before == behind[tensor], "{name}: {tensor:?} is another: {meshes:?}");
    }
    for folder in folders {
        fs::remove_dir_all(folder).expect("it is there");
    }
}

fn there_and_back_of(name: &str, one: &Plan, other: &Plan) {
    let precision = one.spec().layout.precision;
    match (precision.weights, precision.moments) {
        (Dtype::Fp32, Dtype::Fp32) => there_and_back::<f32, f32>(name, one, other),
        (Dtype::Fp32, _) => there_and_back::<f32, Bf16>(name, one, other),
        (_, Dtype::Fp32) => there_and_back::<Bf16, f32>(name, one, other),
        _ => there_and_back::<Bf16, Bf16>(name, one, other),
    }
}

/// Two layouts of one model that a few ranks carry.
fn pair(rng: &mut fastrand::Rng) -> Option<[Plan; 2]> {
    let mut first = specs::random(rng);
    // Where random weights send tokens nobody knows.
    first.layout.routing = Routing::WORST;
    let of = |spec: Spec| Plan::new(spec).ok().filter(|plan| plan.world() <= 8);
    let one = of(first)?;
    (0..40)
        .find_map(|_| {
            let mut second = Spec { layout: specs::random(rng).layout, ..first };
            (second.layout.precision, second.layout.routing) = (first.layout.precision, Routing::WORST);
            of(second).filter(|other| other.spec().layout.mesh != one.spec().layout.mesh)
        })
        .map(|other| [one, other])
}

#[test]
fn random_pairs_of_layouts() {
    let mut rng = fastrand::Rng::with_seed(8);
    let pairs = core::iter::repeat_with(|| pair(&mut rng)).flatten().take(24);
    let (mut ranks, mut count) = ([0, 0], 0);
    for [one, other] in pairs {
        there_and_back_of(&format!("pair-{count}"), &one, &other);
        ranks = [ranks[0] + one.world(), ranks[1] + other.world()];
        count += 1;
    }
    assert!(count == 24 && ranks[0] > 50 && ranks[1] > 50, "{count} pairs of {ranks:?} ranks");
}

/// A model with whatever is laid out in a way of its own.
fn spec(mla: bool, mesh: Mesh) -> Spec {
    let mut spec = Spec::DEFAULT;
    let a = &mut spec.architecture;
    (a.hidden, a.vocab, a.mtp) = (16, 37, 1);
    a.layers = Layers { dense: 1, moe: 3, ffn: 24, ..Layers::DEFAULT };
    a.attention = if mla {
        Attention::Mla(Mla { heads: 4, q_rank: 8, kv_rank: 8, nope: 8, rope: 4, value: 8, ..Mla::DEFAULT })
    } else {
        Attention::Gqa(Gqa { heads: 4, kv_heads: 2, head_dim: 8, ..Gqa::DEFAULT })
    };
    let correction_bias = if mla { CorrectionBias::On } else { CorrectionBias::Off };
    a.experts = Experts {
        routed: 8,
        active: 2,
        ffn: 8,
        shared: 1,
        groups: 4,
        active_groups: 2,
        correction_bias,
        ..Experts::DEFAULT
    };
    spec.layout.mesh = mesh;
    spec.layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    spec.layout.batch = Batch { sequence: 8, micro: 2, count: 2, ..Batch::DEFAULT };
    spec.layout.zero = Zero::OPTIMIZER;
    spec.layout.accounting = Accounting::REFERENCE;
    spec.layout.routing = Routing::WORST;
    spec
}

#[test]
fn eight_ranks_and_one() {
    let mesh = Mesh { dp: 2, tp: 2, pp: 2, ep: 4, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    for mla in [true, false] {
        let eight = plan(spec(mla, mesh));
        let mut alone = spec(mla, Mesh::DEFAULT);
        // Of other padding: 48 rows for 37, and 37.
        alone.layout.placement.vocab_multiple = 16;
        there_and_back::<f32, f32>(&format!("eight-{mla}"), &eight, &plan(alone));
        there_and_back::<f32, f32>(&format!("one-{mla}"), &plan(alone), &eight);
    }
}

/// The loss of the whole batch, without an update.
fn loss(step: &mut Rank<f32, f32>, plan: &Plan) -> Option<f64> {
    step.gradients(&mut Random::of(plan), None).unwrap_or_else(|error| panic!("{error}")).loss
}

fn mean(losses: &[Option<f64>]) -> f64 {
    let losses: Vec<f64> = losses.iter().copied().flatten().collect();
    losses.iter().sum::<f64>() / f64::from(u32::try_from(losses.len()).expect("ranks are few"))
}

#[test]
fn the_loss_is_the_same_under_another_layout() {
    let mesh = Mesh { dp: 2, tp: 2, pp: 2, ep: 4, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    let mut alone = spec(true, Mesh::DEFAULT);
    alone.layout.batch.count = 4;
    let (eight, alone, folder) = (plan(spec(true, mesh)), plan(alone), folder("loss"));
    let saved = world::<f32, f32, _>(&eight, 1, |step| {
        train(step, &eight);
        train(step, &eight);
        save(step, &folder);
        loss(step, &eight)
    });
    let read = world::<f32, f32, _>(&alone, 2, |step| {
        let before = loss(step, &alone);
        load(step, &folder);
        (before, loss(step, &alone))
    });
    let [(before, read)] = read[..] else { panic!("one rank is alone") };
    let (saved, read) = (mean(&saved), read.expect("it has the loss"));
    assert!((saved - read).abs() < 2e-6, "{saved} and {read}");
    assert!((before.expect("it has the loss") - read).abs() > 1e-3, "it had other weights before");
}

/// Experts of a layer by chance, those of each group together.
fn shuffled(rng: &mut fastrand::Rng, groups: u64, each: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..groups).collect();
    rng.shuffle(&mut order);
    let within = |group: u64| {
        let mut experts: Vec<u64> = (group * each..(group + 1) * each).collect();
        rng.shuffle(&mut experts);
        experts
    };
    order.into_iter().flat_map(within).collect()
}

#[test]
fn experts_in_another_order() {
    let mesh = Mesh { dp: 4, ep: 4, ..Mesh::DEFAULT };
    let (one, folders) = (plan(spec(true, mesh)), [1, 2, 3].map(|number| folder(&format!("order-{number}"))));
    let mut rng = fastrand::Rng::with_seed(5);
    // Layers 1 to 3 have experts, and the module behind them.
    let orders = (1..5).fold(Orders::MODEL, |orders, layer| orders.with(layer, shuffled(&mut rng, 4, 2)));
    let before = world::<f32, f32, _>(&one, 1, |step| {
        train(step, &one);
        (save(step, &folders[0]), loss(step, &one))
    });
    let numerics = Numerics::usual(&one.spec().architecture);
    let in_order = threads::run(4, PATIENCE, |rank, end| {
        let source = &mut Values::of(&one, rank, 2);
        let step = Step::in_world(one, rank, Box::new(end), Host::new(1), numerics, source).expect("the budget has it");
        let mut step: Rank<f32, f32> = step.with_experts(orders.clone()).expect("each expert is there once");
        load(&mut step, &folders[0]);
        let loss = loss(&mut step, &one);
        (save(&mut step, &folders[1]), loss, weights(&mut step))
    });
    let in_order: Vec<_> = in_order.into_iter().map(|result| result.expect("no rank panics")).collect();
    let losses = |of: Vec<Option<f64>>| mean(&of);
    let [was, is] =
        [losses(before.iter().map(|rank| rank.1).collect()), losses(in_order.iter().map(|rank| rank.1).collect())];
    assert!((was - is).abs() < 2e-6, "{was} and {is}");
    let after = world::<f32, f32, _>(&one, 3, |step| {
        load(step, &folders[1]);
        (save(step, &folders[2]), weights(step))
    });
    assert!(after[0].1 != in_order[0].2, "ranks had other experts");
    assert_eq!(tensors(&before[0].0), tensors(&after[0].0));
    let manifest = Saved::open(&folders[1]).expect("it is whole");
    let router = manifest.tensor("model.layers.2.mlp.gate.weight").expect("layers have routers");
    assert_eq!(Some(&router.slices[0].experts[..]), orders.of(2));
}

#[test]
fn orders_that_are_none() {
    let plan = plan(spec(true, Mesh::DEFAULT));
    let numerics = Numerics::usual(&plan.spec().architecture);
    let said = |order: Vec<u64>| {
        let step = Step::new(plan, 0, Host::new(1), numerics, &mut Values::of(&plan, 0, 1)).expect("the budget has it");
        let step: Rank<f32, f32> = step;
        step.with_experts(Orders::MODEL.with(1, order)).map(|_| ()).expect_err("it is none").to_string()
    };
    assert_eq!(
        said(vec![0, 1, 2, 3, 4, 5, 6, 6]),
        "the order of experts of layer 1: [0, 1, 2, 3, 4, 5, 6, 6] does not have each of 8 experts once"
    );
    assert_eq!(
        said(vec![0, 2, 1, 3, 4, 5, 6, 7]),
        "the order of experts of layer 1: [0, 2, 1, 3, 4, 5, 6, 7] takes one of 4 groups apart"
    );
}

#[test]
fn a_step_goes_on_from_its_checkpoint() {
    let (plan, folder) = (plan(spec(true, Mesh::DEFAULT)), folder("goes-on"));
    let numerics = Numerics::usual(&plan.spec().architecture);
    let step = |seed| -> Rank<f32, f32> {
        Step::new(plan, 0, Host::new(1), numerics, &mut Values::of(&plan, 0, seed)).expect("the budget has it")
    };
    let mut whole = step(1);
    train(&mut whole, &plan);
    let saved = save(&mut whole, &folder);
    let losses = [train(&mut whole, &plan), train(&mut whole, &plan)];
    let mut other = step(2);
    train(&mut other, &plan);
    train(&mut other, &plan);
    // By the folder of checkpoints, or of one.
    load(&mut other, &folder);
    load(&mut other, &saved);
    // Moments and the number of steps decide the second of them.
    assert_eq!([train(&mut other, &plan), train(&mut other, &plan)], losses);
    assert_eq!(other.ledger().peak(Phase::OptimizerStep), plan.budget(0).phase(Phase::OptimizerStep));
    // A second one of the same step is another folder, and the newest.
    let again = save(&mut other, &folder);
    assert_eq!(save(&mut other, &folder), again.with_file_name("step-00000003-1"));
    assert_eq!(Saved::open(&folder).expect("it is whole").steps(), 3);
}

/// A rank that is alone, of a world, reads its part.
#[test]
fn a_rank_that_is_alone() {
    let mesh = Mesh { dp: 2, tp: 2, pp: 2, ep: 4, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    let (eight, folder) = (plan(spec(true, mesh)), folder("alone"));
    let of_world = world::<f32, f32, _>(&eight, 1, |step| {
        save(step, &folder);
        weights(step)
    });
    let numerics = Numerics::usual(&eight.spec().architecture);
    for stage in 0..2 {
        let rank = eight.ranks_of_stage(stage).start;
        let step = Step::new(eight, stage, Host::new(1), numerics, &mut Values::of(&eight, rank, 2));
        let mut step: Rank<f32, f32> = step.expect("the budget has it");
        load(&mut step, &folder);
        assert!(weights(&mut step) == of_world[usize::try_from(rank).expect("ranks are few")], "stage {stage}");
        let error = step.save(&folder).expect_err("it has a part of the model").to_string();
        assert_eq!(error, "a rank that is alone has no checkpoint of a layout of 8 ranks");
    }
}

#[test]
fn what_has_no_values_is_not_saved() {
    let plan = plan(spec(true, Mesh::DEFAULT));
    let numerics = Numerics::usual(&plan.spec().architecture);
    let step = Step::new(plan, 0, Meta, numerics, &mut Random::of(&plan));
    let mut step: Step<Meta, Dynamic, f32> = step.expect("the budget has it");
    let folder = folder("meta");
    let error = step.save(&folder).expect_err("there is nothing to save").to_string();
    assert_eq!(error, "the device meta holds no values to save");
    assert!(!folder.exists());
}
