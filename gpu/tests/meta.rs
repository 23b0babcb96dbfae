//! The step on the device without values holds what the budget says, to the byte, at full scale.

use moe_model_core::preset;
use moe_model_core::spec::{Accounting, Batch, Mesh, Recompute, Spec, Switch, Zero};
use moe_model_core::{Phase, Plan};
use moe_model_gpu::ops::adamw::AdamW;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::step::{self, Place, Source, Step};
use moe_model_gpu::{Bf16, Meta, Numerics};

/// No values.
struct None;

impl Source for None {
    fn fill(&mut self, _: &Place, _: &mut [f32]) -> Result<(), String> {
        unreachable!("the device holds no values")
    }
}

impl step::Batch for None {
    fn ids(&mut self, _: u64, _: &mut [i64]) {
        unreachable!("the device holds no values")
    }

    fn labels(&mut self, _: u64, _: &mut [i64]) {
        unreachable!("the device holds no values")
    }
}

const ADAMW: AdamW = AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1 };

fn run(plan: Plan, stage: u64) {
    let numerics = Numerics::usual(&plan.spec().architecture);
    let step = Step::<Meta, Dynamic, Bf16>::new(plan, stage, Meta, numerics, &mut None);
    let mut step = step.unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..2 {
        step.train(&mut None, ADAMW).unwrap_or_else(|error| panic!("stage {stage}: {error}"));
    }
    assert_eq!(step.ledger().peak(Phase::Backward), plan.budget(stage).phase(Phase::Backward));
}

#[test]
fn a_rank_of_deepseek_v3() {
    for recompute in [Recompute::None, Recompute::Full] {
        let mut spec = Spec { architecture: preset::DEEPSEEK_V3, ..Spec::DEFAULT };
        spec.layout.mesh = Mesh { dp: 32, tp: 2, pp: 16, ep: 8, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
        spec.layout.stages.first = 4;
        spec.layout.stages.last = 1;
        spec.layout.zero = Zero::OPTIMIZER;
        spec.layout.batch = Batch { sequence: 4096, count: 32, ..Batch::DEFAULT };
        spec.layout.accounting = Accounting::REFERENCE;
        spec.layout.recompute = recompute;
        let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
        for stage in [0, 1, 8, 15] {
            run(plan, stage);
        }
    }
}
