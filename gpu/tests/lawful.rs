//! What the laws let through, the step runs: each key of random layouts at other values, one and two at a time.

mod common;
#[path = "common/specs.rs"]
mod specs;

use common::{ADAMW, Random};
use moe_model_core::spec::{Attention, Dtype, Spec, Value};
use moe_model_core::{Key, Plan};
use moe_model_gpu::device::Format;
use moe_model_gpu::shapes::{Dynamic, Lengths};
use moe_model_gpu::step::Step;
use moe_model_gpu::{Bf16, Meta, Numerics, StepError};

fn train<E: Format, M: Format>(plan: Plan, stage: u64) -> Result<(), StepError> {
    let numerics = Numerics::usual(&plan.spec().architecture);
    let mut none = Random { seed: 0, vocab: 1 };
    let mut step = Step::<Meta, Dynamic, E, M>::new(plan, stage, Meta, numerics, &mut none)?;
    step.train(&mut none, ADAMW).map(drop)
}

/// Whether rotary positions find pairs of dimensions, which no law demands.
fn has_pairs(plan: &Plan) -> bool {
    let lengths = Lengths::of(plan, 0);
    let is_latent = matches!(plan.spec().architecture.attention, Attention::Mla(_));
    (if is_latent { lengths.rope } else { lengths.query_key }).is_multiple_of(2)
}

/// Runs every stage, if the laws let the layout through and it is of this accounting; says whether they did.
fn runs(spec: Spec) -> bool {
    let Ok(plan) = Plan::new(spec) else { return false };
    if spec.layout.accounting.name() != "reference" || spec.layout.served().is_some() || !has_pairs(&plan) {
        return false;
    }
    let precision = spec.layout.precision;
    for stage in 0..plan.stages() {
        let ran = match (precision.weights, precision.moments) {
            (Dtype::Fp32, Dtype::Fp32) => train::<f32, f32>(plan, stage),
            (Dtype::Fp32, _) => train::<f32, Bf16>(plan, stage),
            (_, Dtype::Fp32) => train::<Bf16, f32>(plan, stage),
            _ => train::<Bf16, Bf16>(plan, stage),
        };
        ran.unwrap_or_else(|error| panic!("stage {stage}: {error}\n{spec:?}"));
    }
    true
}

/// Values of a key that are worth a try.
fn values(key: Key) -> Vec<u64> {
    match Spec::field(key).map(|field| &field.value) {
        Some(Value::Number { min }) => [0, 1, 2, 3, 4, 6, 8, 16].into_iter().filter(|n| n >= min).collect(),
        Some(Value::Decimal) => vec![1, 300, 1000, 1001, 3000, 50_000],
        Some(Value::Choice { words, .. }) => (0..words.len() as u64).collect(),
        _ => Vec::new(),
    }
}

/// Every key and value.
fn all() -> Vec<(Key, u64)> {
    Key::ALL.iter().flat_map(|key| values(*key).into_iter().map(|value| (*key, value))).collect()
}

fn base(rng: &mut fastrand::Rng) -> Spec {
    loop {
        let spec = specs::random(rng);
        if Plan::new(spec).is_ok() {
            return spec;
        }
    }
}

#[test]
fn any_key_at_another_value() {
    let (mut rng, mut ran) = (fastrand::Rng::with_seed(1), 0);
    for _ in 0..8 {
        let base = base(&mut rng);
        for (key, value) in all() {
            let mut spec = base;
            spec.set(key, value);
            ran += u32::from(spec != base && runs(spec));
        }
    }
    assert!(ran > 1000, "{ran} layouts ran");
}

#[test]
fn any_two_keys_at_other_values() {
    let (mut rng, mut ran, all) = (fastrand::Rng::with_seed(2), 0, all());
    for _ in 0..6000 {
        let mut spec = specs::random(&mut rng);
        for _ in 0..2 {
            let (key, value) = specs::of(&mut rng, &all);
            spec.set(key, value);
        }
        ran += u32::from(runs(spec));
    }
    assert!(ran > 500, "{ran} layouts ran");
}
