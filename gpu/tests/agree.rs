//! Random small models under random layouts: the device without values asks for exactly what the CPU asks for, event by
//! event, both hold what the budget says, and the CPU computes with nothing that nobody wrote.

mod agree {
    pub(crate) mod choices;
}
mod common;
#[path = "common/specs.rs"]
mod specs;

use common::{ADAMW, Random};
use moe_model_core::spec::{Architecture, Dtype};
use moe_model_core::{Phase, Plan};
use moe_model_gpu::device::{Device, Format};
use moe_model_gpu::ledger::Allocation;
use moe_model_gpu::ops::activation::Activation;
use moe_model_gpu::ops::router::Score;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::step::Step;
use moe_model_gpu::{Bf16, Host, Meta, Numerics};
use std::collections::BTreeMap;

const SPECS: u64 = 240;

/// How many of them make each choice, at least.
const LEAST: u64 = 6;

/// What one rank did in two steps.
#[derive(PartialEq)]
struct Outcome {
    allocations: u64,
    record: Vec<Allocation>,
    losses: Vec<Option<f64>>,
    /// Before and behind, and the last gradients.
    before: Vec<Vec<f32>>,
    weights: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
}

fn weights<D: Device, E: Format, M: Format>(step: &mut Step<D, Dynamic, E, M>) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    step.weights(&mut |_, values| all.push(values.to_vec())).expect("weights are there");
    all
}

fn two_steps<D: Device, E: Format, M: Format>(
    (plan, stage): (Plan, u64),
    device: D,
    numerics: Numerics,
    mut random: Random,
) -> Outcome {
    let step = Step::<D, Dynamic, E, M>::new(plan, stage, device, numerics, &mut random);
    let mut step = step.unwrap_or_else(|error| panic!("{error}\n{:?}", plan.spec()));
    let before = weights(&mut step);
    step.ledger().record();
    let mut train = || {
        let report = step.train(&mut random, ADAMW);
        let report = report.unwrap_or_else(|error| panic!("{}, stage {stage}: {error}\n{:?}", D::NAME, plan.spec()));
        [report.loss, report.mtp_loss]
    };
    let losses = [train(), train()].concat();
    let mut gradients = Vec::new();
    step.each_gradient(&mut |_, values| gradients.push(values.to_vec())).expect("gradients are there");
    let (record, allocations) = (step.ledger().recorded(), step.ledger().allocations());
    Outcome { allocations, record, losses, before, weights: weights(&mut step), gradients }
}

/// One rank of a stage, on both devices, and on the CPU with and without values that spread in fresh memory.
fn compare<E: Format, M: Format>(plan: Plan, stage: u64, numerics: Numerics, random: Random) {
    let of = (plan, stage);
    let meta = two_steps::<_, E, M>(of, Meta, numerics, random);
    let host = two_steps::<_, E, M>(of, Host::new(1).poisoned(), numerics, random);
    let context = format!("stage {stage} of {:?}", plan.spec());
    if plan.chunks() == 1 && plan.spec().layout.recompute_layers == 0 {
        for phase in Phase::TRAINING {
            let explained = plan.explain(stage, *phase).total();
            assert_eq!(explained, plan.budget(stage).phase(*phase), "{phase}, {context}");
        }
    }
    assert!(!meta.record.is_empty() && meta.record.iter().all(|allocation| allocation.until.is_some()), "{context}");
    assert_eq!(meta.allocations, host.allocations, "{context}");
    for (meta, host) in meta.record.iter().zip(&host.record) {
        assert_eq!(meta, host, "{context}");
    }
    assert_eq!(meta.record.len(), host.record.len(), "{context}");
    assert_eq!(host.losses[0].is_some(), plan.stage(stage).head, "{context}");
    let all = host.losses.iter().flatten().all(|loss| loss.is_finite());
    assert!(all && is_finite(&host.weights) && is_finite(&host.gradients), "a value that nobody wrote: {context}");
    assert!(host.weights != host.before, "nothing was learned: {context}");
    // What hides a value that spreads, as a maximum does, does not hide another one.
    assert!(host == two_steps::<_, E, M>(of, Host::new(1), numerics, random), "fresh memory is read: {context}");
}

fn is_finite(all: &[Vec<f32>]) -> bool {
    all.iter().flatten().all(|value| value.is_finite())
}

fn compare_stages(plan: Plan, numerics: Numerics, random: Random) {
    let precision = plan.spec().layout.precision;
    for stage in 0..plan.stages() {
        match (precision.weights, precision.moments) {
            (Dtype::Fp32, Dtype::Fp32) => compare::<f32, f32>(plan, stage, numerics, random),
            (Dtype::Fp32, _) => compare::<f32, Bf16>(plan, stage, numerics, random),
            (_, Dtype::Fp32) => compare::<Bf16, f32>(plan, stage, numerics, random),
            _ => compare::<Bf16, Bf16>(plan, stage, numerics, random),
        }
    }
}

/// What the model computes, apart from its sizes.
fn numerics(rng: &mut fastrand::Rng, architecture: &Architecture) -> Numerics {
    let clamped = Activation::ClampedSwiGlu { limit: 7.0, alpha: 1.702 };
    Numerics {
        // A rank alone has zeros for tokens out of other ranks' parts of the vocabulary, whose gradients norms multiply by
        // the inverse root of this, block by block.
        norm_eps: 0.1,
        score: specs::of(rng, &[Score::Softmax, Score::Sigmoid, Score::SoftmaxOfChosen]),
        normalise: rng.bool(),
        routed_activation: specs::of(rng, &[Activation::SwiGlu, clamped]),
        ..Numerics::usual(architecture)
    }
}

/// A legal layout of a random model, and what the model computes.
fn legal(seed: u64) -> (Plan, Numerics) {
    let mut rng = fastrand::Rng::with_seed(seed);
    loop {
        let spec = specs::random(&mut rng);
        if let Ok(plan) = Plan::new(spec) {
            return (plan, numerics(&mut rng, &spec.architecture));
        }
    }
}

/// One quarter of all, so that they run side by side.
fn quarter(number: u64) {
    for seed in (number..SPECS).step_by(4) {
        let (plan, numerics) = legal(seed);
        compare_stages(plan, numerics, Random { seed, vocab: plan.spec().architecture.vocab });
    }
}

#[test]
fn both_devices_hold_the_same_in_the_first_quarter() {
    quarter(0);
}

#[test]
fn both_devices_hold_the_same_in_the_second_quarter() {
    quarter(1);
}

#[test]
fn both_devices_hold_the_same_in_the_third_quarter() {
    quarter(2);
}

#[test]
fn both_devices_hold_the_same_in_the_last_quarter() {
    quarter(3);
}

#[test]
fn every_choice_is_made() {
    let mut seen = BTreeMap::new();
    for seed in 0..SPECS {
        agree::choices::of(legal(seed).0.spec()).for_each(|choice| *seen.entry(choice).or_insert(0) += 1);
    }
    let missing = |(name, _): &&agree::choices::Choice| seen.get(name).is_none_or(|times| *times < LEAST);
    let missing: Vec<_> = agree::choices::ALL.iter().filter(missing).map(|(name, _)| name).collect();
    assert!(missing.is_empty(), "{missing:?} in {seen:?}");
}
