//! What generated smoke tests run: two steps of every stage of a layout, every allocation asserted.

use crate::device::{Device, Host, Memory, Meta};
use crate::ops::adamw::AdamW;
use crate::random::Random;
use crate::step::{Reference, Step};
use crate::{Numerics, StepError};
use moe_model_core::{Bytes, Phase, Plan};

/// The optimizer of smoke tests.
pub const ADAMW: AdamW = AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1 };

/// What two steps of a rank did.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ran {
    /// The stage of the rank.
    pub stage: u64,
    /// Allocations asserted.
    pub allocations: u64,
    /// The most that was held.
    pub peak: Bytes,
    /// The mean loss of either step, on a stage that has the loss and a device that has values.
    pub losses: [Option<f64>; 2],
}

/// Two steps of a rank of a stage, with weights and tokens by chance.
///
/// # Errors
/// If an allocation is refused, or what was held is not the budget's.
pub fn run<L: Reference, D: Device>(stage: u64, device: D) -> Result<Ran, StepError> {
    let plan = L::PLAN;
    let mut random = Random::of(&plan);
    let numerics = Numerics::usual(&plan.spec().architecture);
    let mut step: Step<D, L, L::Weights, L::Moments> = Step::new(plan, stage, device, numerics, &mut random)?;
    let first = step.train(&mut random, ADAMW)?.loss;
    let second = step.train(&mut random, ADAMW)?.loss;
    let ledger = step.ledger();
    let peak = Phase::TRAINING.iter().map(|phase| ledger.peak(*phase)).max().unwrap_or_default();
    Ok(Ran { stage, allocations: ledger.allocations(), peak, losses: [first, second] })
}

/// Every stage as allocations alone, at the scale that is declared.
///
/// # Panics
/// If a stage does not hold what its budget says.
pub fn on_meta<L: Reference>() {
    all::<L, Meta>(|| Meta);
}

/// Every stage on the CPU.
///
/// # Panics
/// If a stage does not hold what its budget says, or its loss is no number or does not fall.
pub fn on_host<L: Reference>() {
    // What nobody wrote spreads from where it is read to the loss.
    all::<L, Host>(|| Host::new(1).poisoned());
}

fn all<L: Reference, D: Device>(device: impl Fn() -> D) {
    for stage in 0..L::PLAN.stages() {
        match run::<L, D>(stage, device()) {
            Ok(ran) => ran.check(&L::PLAN),
            Err(error) => panic!("stage {stage} on {}: {error}", <D as Memory>::NAME),
        }
    }
}

impl Ran {
    /// The same tokens twice: they are known better the second time.
    fn check(&self, plan: &Plan) {
        let Self { stage, losses: [Some(first), Some(second)], .. } = self else { return };
        assert!(first.is_finite() && second.is_finite(), "the loss of stage {stage} is no number: {first}, {second}");
        // What is in front of the last of several stages is stood in for, and holds nothing to learn from.
        assert!(plan.stages() > 1 || second < first, "the loss does not fall: {first}, then {second}");
    }
}
