//! The whole step on a CUDA device against the CPU and against allocations alone, where there is a driver; skipped where
//! there is none, which is said.

#![cfg(feature = "cuda")]

#[path = "common/driver.rs"]
mod driver;
#[path = "common/near.rs"]
mod near;

use core::cell::RefCell;
use driver::{alone, device};
use moe_model_core::spec::{
    Accounting, Attention, Batch, CorrectionBias, Dtype, Experts, Gqa, Layers, Mla, Precision, Recompute, Spec,
};
use moe_model_core::{Phase, Plan};
use moe_model_gpu::device::{Device, Format};
use moe_model_gpu::ledger::Allocation;
use moe_model_gpu::ops::adamw::AdamW;
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::{Dynamic, Lengths};
use moe_model_gpu::{Bf16, Host, Memory as _, Meta, Numerics, Step, StepError};
use near::assert_near;
use std::rc::Rc;

/// Far from 0, so that gradients near 0 do not decide by their sign.
const ADAMW: AdamW = AdamW { lr: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-2, weight_decay: 0.1 };

/// A small model: grouped heads and experts as Mixtral has them, or latent attention, groups of experts that share one, and
/// a module that predicts further, as DeepSeek-V3 has them.
fn plan(is_latent: bool, precision: Precision, recompute: Recompute) -> Plan {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (16, 40);
    if is_latent {
        architecture.mtp = 1;
        architecture.layers = Layers { dense: 1, moe: 1, ffn: 24, ..Layers::DEFAULT };
        architecture.attention =
            Attention::Mla(Mla { heads: 4, q_rank: 8, kv_rank: 8, nope: 8, rope: 4, value: 8, ..Mla::DEFAULT });
        architecture.experts = Experts {
            routed: 8,
            active: 2,
            ffn: 8,
            shared: 1,
            groups: 4,
            active_groups: 2,
            correction_bias: CorrectionBias::On,
            ..Experts::DEFAULT
        };
    } else {
        architecture.layers = Layers { moe: 2, ..Layers::DEFAULT };
        architecture.attention = Attention::Gqa(Gqa { heads: 4, kv_heads: 2, head_dim: 8, ..Gqa::DEFAULT });
        architecture.experts = Experts { routed: 4, active: 2, ffn: 24, ..Experts::DEFAULT };
    }
    spec.layout.precision = precision;
    spec.layout.batch = Batch { sequence: 8, micro: 2, count: 2, ..Batch::DEFAULT };
    spec.layout.accounting = Accounting::REFERENCE;
    spec.layout.recompute = recompute;
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

const FP32: Precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };

type On<D, E> = Step<D, Dynamic, E>;

fn step<D: Device, E: Format>(plan: Plan, device: D) -> Result<On<D, E>, StepError> {
    let numerics = Numerics::usual(&plan.spec().architecture);
    Step::new(plan, 0, device, numerics, &mut Random::of(&plan))
}

/// What two steps made.
#[derive(Default)]
struct Made {
    losses: Vec<f64>,
    gradients: Vec<(String, Vec<f32>)>,
    weights: Vec<(String, Vec<f32>)>,
    events: Vec<Allocation>,
}

fn run<D: Device, E: Format>(step: &mut On<D, E>, plan: &Plan) -> Made {
    let mut made = Made::default();
    step.ledger().record();
    let name = |place: &moe_model_gpu::step::Place| format!("{:?} {}", place.layer, place.name);
    for number in 0..2 {
        let report = step.train(&mut Random::of(plan), ADAMW).unwrap_or_else(|error| panic!("{}: {error}", D::NAME));
        made.losses.extend(report.loss.into_iter().chain(report.mtp_loss));
        if number == 0 {
            let see = &mut |place: &_, values: &[f32]| made.gradients.push((name(place), values.to_vec()));
            step.each_gradient(see).expect("they are there");
        }
    }
    made.events = step.ledger().recorded();
    step.weights(&mut |place, values| made.weights.push((name(place), values.to_vec()))).expect("they are there");
    made
}

/// Bytes that a pool may hold beyond those asked for, for each allocation.
const ROUNDING: u64 = 512;

/// The most allocations of a step that are there at once.
fn at_once(events: &[Allocation]) -> u64 {
    let held = |at: u64| events.iter().filter(|one| one.from <= at && one.until.is_none_or(|until| at < until)).count();
    events.iter().map(|one| held(one.from)).max().unwrap_or(0) as u64
}

fn same<E: Format>(plan: Plan, [loss, gradients, weights]: [f32; 3]) {
    let _alone = alone();
    let Some(device) = device(None) else { return };
    let mut host = step::<_, E>(plan, Host::new(1)).expect("the budget has it");
    let mut meta = step::<_, E>(plan, Meta).expect("the budget has it");
    let mut cuda = step::<_, E>(plan, device.clone()).expect("the budget has it");
    let (expected, without) = (run(&mut host, &plan), run(&mut meta, &plan));

    // The device's own count of each phase.
    let marks = Rc::new(RefCell::new([0_u64; Phase::ALL.len()]));
    let (noted, counts) = (marks.clone(), device.clone());
    let standing = cuda.ledger().allocations();
    counts.reset_high_water().expect("the driver resets it");
    cuda.ledger().watch(move |ended, _| {
        let high = counts.high_water().expect("the driver says");
        let mark = &mut noted.borrow_mut()[ended as usize];
        *mark = high.max(*mark);
        counts.reset_high_water().expect("the driver resets it");
    });
    let got = run(&mut cuda, &plan);

    assert_eq!(got.events, without.events, "allocations, one by one");
    assert_eq!(got.losses.len(), expected.losses.len());
    for (got, expected) in got.losses.iter().zip(&expected.losses) {
        let off = (got - expected).abs();
        assert!(off <= f64::from(loss) * expected.abs(), "losses {got} and {expected}");
    }
    assert_near("gradient of", &got.gradients, &expected.gradients, gradients);
    assert_near("weight", &got.weights, &expected.weights, weights);

    let scratch = device.scratch_bytes(&Lengths::of(&plan, 0));
    let count = standing + at_once(&got.events) + 5;
    for phase in Phase::TRAINING {
        let (high, peak) = (marks.borrow()[*phase as usize], cuda.ledger().peak(*phase).bytes() + scratch);
        let most = peak + count * ROUNDING;
        println!("{phase}: {high} B of the pool, {peak} B of ledger and scratch, {count} allocations");
        assert!((peak..=most).contains(&high), "{phase}: the pool held {high} B, ledger and scratch {peak} B");
    }
}

/// Losses, gradients of the first step and weights behind the second, in f32: sums come in another order.
const CLOSE: [f32; 3] = [1e-6, 1e-5, 1e-6];

/// In bf16. A sum that comes out beside the middle of two numbers rounds to another one, by 2^-8, once in some thousands;
/// from there it spreads.
const COARSE: [f32; 3] = [1e-2, 4e-2, 1.2e-2];

#[test]
fn grouped_heads_in_fp32() {
    same::<f32>(plan(false, FP32, Recompute::None), CLOSE);
}

#[test]
fn grouped_heads_in_fp32_computed_again() {
    same::<f32>(plan(false, FP32, Recompute::Full), CLOSE);
}

#[test]
fn grouped_heads_in_bf16() {
    same::<Bf16>(plan(false, Precision::DEFAULT, Recompute::None), COARSE);
}

#[test]
fn grouped_heads_in_bf16_computed_again() {
    same::<Bf16>(plan(false, Precision::DEFAULT, Recompute::Full), COARSE);
}

#[test]
fn latent_attention_in_fp32() {
    same::<f32>(plan(true, FP32, Recompute::None), CLOSE);
}

#[test]
fn latent_attention_in_fp32_computed_again() {
    same::<f32>(plan(true, FP32, Recompute::Full), CLOSE);
}

#[test]
fn latent_attention_in_bf16() {
    same::<Bf16>(plan(true, Precision::DEFAULT, Recompute::None), COARSE);
}

#[test]
fn latent_attention_in_bf16_computed_again() {
    same::<Bf16>(plan(true, Precision::DEFAULT, Recompute::Full), COARSE);
}

/// Wherever the device has no room, the step says so, gives back what it holds, and does the next time what it would have
/// done the first.
#[test]
fn without_room_a_step_is_refused_and_goes_on() {
    let _alone = alone();
    let plan = plan(true, Precision::DEFAULT, Recompute::None);
    let Some(unbounded) = device(None) else { return };
    let mut whole = step::<_, Bf16>(plan, unbounded.clone()).expect("the budget has it");
    let standing = unbounded.used().expect("the driver says");
    unbounded.reset_high_water().expect("the driver resets it");
    let loss = whole.train(&mut Random::of(&plan), ADAMW).expect("the budget has it").loss;
    let need = unbounded.high_water().expect("the driver says");
    drop((whole, unbounded));

    let device = device(Some(need)).expect("there is one");
    let fitting = step::<_, Bf16>(plan, device.clone()).expect("the budget has it");
    let empty = device.used().expect("the driver says");
    assert_eq!(empty, standing);
    let room = need - standing;
    let mut refused = Vec::new();
    let mut step = fitting;
    for sixteenth in 1..=16 {
        let bytes = usize::try_from(room * sixteenth / 16).expect("it is small");
        let ballast = device.allocate::<f32>(bytes / 4).expect("it fits");
        match step.gradients(&mut Random::of(&plan), None) {
            Err(StepError::OutOfMemory { name, device }) => refused.push((name, device.bytes)),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("there is no room"),
        }
        drop(ballast);
        device.synchronize().expect("all is done");
        assert_eq!(device.used().expect("the driver says"), empty, "nothing is left of what was refused");
    }
    println!("refused: {refused:?}");
    let after = step.train(&mut Random::of(&plan), ADAMW).expect("there is room");
    assert_eq!(after.loss.map(f64::to_bits), loss.map(f64::to_bits));
    drop(step);
    device.synchronize().expect("all is done");
    let scratch = device.used().expect("the driver says");
    assert!(scratch >= device.scratch_bytes(&Lengths::of(&plan, 0)), "scratch stays, and nothing else");
    assert!(scratch <= device.scratch_bytes(&Lengths::of(&plan, 0)) + 5 * ROUNDING, "{scratch} B are left");
}

/// No room for weights, and none for what operations work on.
#[test]
fn without_room_a_step_is_not_made() {
    let _alone = alone();
    let plan = plan(false, FP32, Recompute::None);
    for budget in [1 << 20, (32 << 20) + (64 << 10)] {
        let Some(device) = device(Some(budget)) else { return };
        let Err(error) = step::<_, f32>(plan, device.clone()) else { panic!("{budget} B are too few") };
        assert!(matches!(error, StepError::OutOfMemory { .. }), "{error}");
        assert!(device.used().expect("the driver says") <= budget);
    }
}
