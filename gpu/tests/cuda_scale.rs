//! A rank at full scale through the driver's own allocator, where one runs no kernels and stores nothing
//! (`STAND_IN_DRY=1`): every allocation of two steps, from a pool that has what the budget and the scratch say, to the byte.
//! Skipped elsewhere, which is said.

#![cfg(feature = "cuda")]

#[path = "common/driver.rs"]
mod driver;

use driver::{alone, device};
use moe_model_core::spec::{Accounting, Batch, Layout, Mesh, Spec, Zero};
use moe_model_core::{Phase, Plan, preset};
use moe_model_gpu::shapes::{Dynamic, Lengths};
use moe_model_gpu::smoke::{ADAMW, skipped};
use moe_model_gpu::step::{self, Place, Source, Step};
use moe_model_gpu::{Bf16, Numerics};

/// Zeros.
struct Zeros;

impl Source for Zeros {
    fn fill(&mut self, _: &Place, _: &mut [f32]) -> Result<(), String> {
        Ok(())
    }
}

impl step::Batch for Zeros {
    fn ids(&mut self, _: u64, _: &mut [i64]) {}

    fn labels(&mut self, _: u64, _: &mut [i64]) {}
}

#[test]
fn a_rank_of_mixtral_fits_its_budget() {
    if std::env::var_os("STAND_IN_DRY").is_none() {
        skipped("a rank at full scale, which takes a driver that runs no kernels: STAND_IN_DRY=1");
        return;
    }
    let layout = Layout {
        mesh: Mesh { dp: 8, pp: 16, ep: 8, ..Mesh::DEFAULT },
        zero: Zero::OPTIMIZER,
        batch: Batch { sequence: 4096, count: 32, ..Batch::DEFAULT },
        accounting: Accounting::REFERENCE,
        ..Layout::DEFAULT
    };
    let plan = Plan::new(Spec { architecture: preset::MIXTRAL_8X7B, layout }).expect("the layout is legal");
    for stage in [0, 7, 15] {
        let _alone = alone();
        let Some(unbounded) = device(None) else { return };
        let scratch = unbounded.scratch_bytes(&Lengths::of(&plan, stage));
        drop(unbounded);
        let peak = Phase::TRAINING.iter().map(|phase| plan.budget(stage).phase(*phase).bytes()).max().unwrap_or(0);
        let open = |budget| driver::device(Some(budget)).expect("there is one");
        let device = open(peak + scratch);
        let numerics = Numerics::usual(&plan.spec().architecture);
        let step = Step::<_, Dynamic, Bf16>::new(plan, stage, device.clone(), numerics, &mut Zeros);
        let mut step = step.unwrap_or_else(|error| panic!("{error}"));
        step.train(&mut Zeros, ADAMW).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(device.high_water().expect("the driver says"), peak + scratch);
        println!("stage {stage}: {peak} B of the budget, {scratch} B of scratch, all held at once");
        drop((step, device));
        // Once: weights by the billion are filled in each time.
        if stage != 7 {
            continue;
        }
        let less = open(peak + scratch - 1);
        let step = Step::<_, Dynamic, Bf16>::new(plan, stage, less, numerics, &mut Zeros);
        let result = step.and_then(|mut step| step.train(&mut Zeros, ADAMW));
        assert!(result.is_err(), "one byte less is too little");
    }
}
