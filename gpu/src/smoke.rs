//! What generated smoke tests run: two steps of every stage of a layout, every allocation asserted.

#[cfg(feature = "cuda")]
use crate::device::Element;
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

/// Says that a test was skipped, and why, past what captures the output of tests.
#[cfg(feature = "cuda")]
pub fn skipped(why: impl core::fmt::Display) {
    use std::io::{self, Write as _};

    // Where nobody can be told, nobody is.
    let _ = writeln!(io::stderr(), "skipped: {why}");
}

/// Every stage on the first CUDA device: beside what the CPU does, its memory is the pool's, and its losses are the CPU's.
/// Where there is none that is said, past what captures the output of tests.
///
/// # Panics
/// As on the CPU, or if a loss is another or the device refuses.
#[cfg(feature = "cuda")]
pub fn on_cuda<L: Reference>() {
    use crate::Cuda;
    use crate::cuda::NoDevice;
    use std::sync::{Mutex, PoisonError};

    // Of one GPU one is used at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = match Cuda::open(0, None) {
        Ok(device) => device,
        Err(error @ (NoDevice::NoDriver | NoDevice::NoLibrary(_) | NoDevice::Absent { .. })) => {
            let name = core::any::type_name::<L::Model>();
            return skipped(format_args!("the smoke test of {name} on CUDA: {error}"));
        }
        Err(error) => panic!("{error}"),
    };
    for stage in 0..L::PLAN.stages() {
        device.reset_high_water().unwrap_or_else(|error| panic!("{error}"));
        let ran = stage_on::<L, Cuda>(stage, device.clone());
        let high = device.high_water().unwrap_or_else(|error| panic!("{error}"));
        assert!(high >= ran.peak.bytes(), "stage {stage}: {} of the ledger, {high} B of the pool", ran.peak);
        ran.agrees(&stage_on::<L, Host>(stage, Host::new(1)), <L::Weights as Element>::NAME);
    }
}

fn all<L: Reference, D: Device>(device: impl Fn() -> D) {
    for stage in 0..L::PLAN.stages() {
        stage_on::<L, D>(stage, device());
    }
}

fn stage_on<L: Reference, D: Device>(stage: u64, device: D) -> Ran {
    let ran = run::<L, D>(stage, device);
    let ran = ran.unwrap_or_else(|error| panic!("stage {stage} on {}: {error}", <D as Memory>::NAME));
    ran.check(&L::PLAN);
    ran
}

impl Ran {
    /// Losses of two devices are as near to each other as sums in another order are: those in bf16 are rounded to 8 bits.
    #[cfg(feature = "cuda")]
    fn agrees(&self, other: &Self, format: &str) {
        let tolerance = if format == "fp32" { 1e-4 } else { 2e-2 };
        for (own, other) in self.losses.into_iter().flatten().zip(other.losses.into_iter().flatten()) {
            let stage = self.stage;
            assert!(
                (own - other).abs() <= tolerance * other.abs(),
                "losses of stage {stage}: {own}, on the CPU {other}"
            );
        }
    }

    /// The same tokens twice: they are known better the second time.
    fn check(&self, plan: &Plan) {
        let Self { stage, losses: [Some(first), Some(second)], .. } = self else { return };
        assert!(first.is_finite() && second.is_finite(), "the loss of stage {stage} is no number: {first}, {second}");
        // What is in front of the last of several stages is stood in for, and holds nothing to learn from.
        assert!(plan.stages() > 1 || second < first, "the loss does not fall: {first}, then {second}");
    }
}
