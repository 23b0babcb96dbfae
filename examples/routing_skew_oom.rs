//! A router that sends every token to the experts of one rank: `cargo run --release --example routing_skew_oom`.
//!
//! Under a budget for a balanced load the step ends in an error that names the tensor, the phase and by how much; where the
//! worst case is declared it runs, and holds what the budget says. Nothing is computed: the ranks are those of a real
//! layout, at full scale. Exit code 0 if both are so, 1 if not.

#[path = "common/behind.rs"]
mod behind;
#[path = "common/wrapped.rs"]
mod wrapped;

use behind::Behind;
use moe_model::gpu::random::Random;
use moe_model::gpu::smoke::ADAMW;
use moe_model::gpu::step::{Load, Reference};
use moe_model::gpu::{LedgerError, Meta, Numerics, Step, StepError};
use moe_model::{Bytes, Phase, moe_model};
use std::process::ExitCode;

moe_model! {
    /// DeepSeek-V3's rank under the layout analysed in arXiv:2502.07846.
    pub struct DeepSeekV3;

    architecture: preset(deepseek_v3),

    layout Balanced: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 32 },
        recompute: full,
        accounting: reference,
    },

    layout Worst: layout { routing: worst, ..Balanced },
}

fn main() -> ExitCode {
    let balanced = all_here::<DeepSeekV3Balanced>();
    let worst = all_here::<DeepSeekV3Worst>();
    let behind = Behind::of("DeepSeek-V3", DeepSeekV3Balanced::PLAN.spec());
    println!("{}", Behind { device: "meta", ..behind }.text());
    println!("every token chooses experts of this rank, one of those behind the first stage\n");
    println!("budget for a balanced load, {}:", peak::<DeepSeekV3Balanced>());
    let refused = matches!(&balanced, Err(StepError::Ledger(LedgerError::OverBudget { .. })));
    println!("    {}\n", balanced.map_or_else(|error| error.to_string(), said));
    println!("budget for the worst case, {}:", peak::<DeepSeekV3Worst>());
    let runs = worst.is_ok();
    println!("    {}", worst.map_or_else(|error| error.to_string(), said));
    if refused && runs { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Two steps of such a rank: the most that was held, and how many allocations were asserted.
fn all_here<L: Reference>() -> Result<(Bytes, u64), StepError> {
    let mut random = Random::of(&L::PLAN);
    let numerics = Numerics::usual(&L::PLAN.spec().architecture);
    let step: Step<Meta, L, L::Weights, L::Moments> = Step::new(L::PLAN, 1, Meta, numerics, &mut random)?;
    let mut step = step.with_load(Load::AllHere);
    step.train(&mut random, ADAMW)?;
    step.train(&mut random, ADAMW)?;
    Ok((step.ledger().peak(Phase::Backward), step.ledger().allocations()))
}

fn peak<L: Reference>() -> Bytes {
    L::PLAN.budget(1).peak().total
}

fn said((peak, allocations): (Bytes, u64)) -> String {
    format!("two steps held {peak} at most, the budget's to the byte; {allocations} allocations asserted")
}
