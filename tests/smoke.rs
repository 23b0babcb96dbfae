//! Generated smoke tests, as a user's crate has them; this file is what they generate and what is checked of it.

use moe_model::gpu::random::Random;
use moe_model::gpu::shapes::{Axis, Lengths, Shapes};
use moe_model::gpu::smoke::{self, Ran};
use moe_model::gpu::step::Reference;
use moe_model::gpu::{Meta, Numerics};
use moe_model::{Model, Phase, moe_model};

moe_model! {
    /// DeepSeek-V3 under the layout analysed in arXiv:2502.07846, run by the reference step.
    pub struct DeepSeekV3;

    architecture: preset(deepseek_v3),

    layout Paper: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 32 },
        recompute: full,
        accounting: reference,
    },

    smoke Paper: smoke {
        hidden: 32,
        vocab: 96,
        layers: layers { dense: 1, moe: 2, ffn: 48 },
        attention: mla { heads: 4, q_rank: 16, kv_rank: 12, nope: 8, rope: 4, value: 8 },
        experts: experts {
            routed: 8, shared: 1, active: 2, ffn: 12, groups: 4, active_groups: 2, correction_bias: on,
        },
        mesh: mesh { dp: 4, tp: 2, pp: 3, ep: 4, sequence_parallel: on },
        stages: even,
        batch: batch { sequence: 16, count: 4 },
    },

    // Of sequences, weights and gradients that ranks share.
    layout Shared: layout {
        mesh: mesh { dp: 256, tp: 2, cp: 2, ep: 64, sequence_parallel: on, context: ring },
        zero: zero { dense: parameters, expert: gradients },
        batch: batch { sequence: 65_536, count: 2 },
        stages: even,
        ..Paper
    },

    smoke Shared: smoke {
        hidden: 32,
        vocab: 96,
        layers: layers { dense: 1, moe: 2, ffn: 48 },
        attention: mla { heads: 4, q_rank: 16, kv_rank: 12, nope: 8, rope: 4, value: 8 },
        experts: experts { routed: 8, shared: 1, active: 2, ffn: 12 },
        mesh: mesh { dp: 4, tp: 2, cp: 2, ep: 4, sequence_parallel: on, context: ring },
        batch: batch { sequence: 16, count: 2 },
    },

    layout Traded: layout {
        mesh: mesh { dp: 256, tp: 2, cp: 2, ep: 64, sequence_parallel: on, context: all_to_all },
        ..Shared
    },

    smoke Traded: smoke {
        hidden: 32,
        vocab: 96,
        layers: layers { dense: 1, moe: 2, ffn: 48 },
        attention: mla { heads: 4, q_rank: 16, kv_rank: 12, nope: 8, rope: 4, value: 8 },
        experts: experts { routed: 8, shared: 1, active: 2, ffn: 12, correction_bias: on },
        mesh: mesh { dp: 4, tp: 2, cp: 2, ep: 4, sequence_parallel: on, context: all_to_all },
        batch: batch { sequence: 16, count: 2 },
    },

    layout Alone: layout {
        mesh: mesh { dp: 1 },
        precision: precision { weights: fp32, activations: fp32 },
        batch: batch { sequence: 16, micro: 2, count: 2 },
        accounting: reference,
    },

    smoke Alone: smoke {
        hidden: 32,
        vocab: 96,
        layers: layers { dense: 1, moe: 1, ffn: 48 },
        attention: gqa { heads: 4, kv_heads: 2, head_dim: 8 },
        experts: experts { routed: 4, active: 2, ffn: 24 },
    },
}

#[test]
fn types_have_the_plans_lengths() {
    let lengths = Lengths::of(&DeepSeekV3::PAPER, 1);
    assert_eq!(DeepSeekV3Paper::agree(&lengths), None);
    assert_eq!(<DeepSeekV3Paper as Shapes>::Heads::len(&lengths), 64);
    assert_eq!(<DeepSeekV3Paper as Shapes>::LocalExperts::len(&lengths), 32);
}

/// Of one rank of a layout at its full size, and of its small double.
fn holds_its_budget<S: Reference<Model = DeepSeekV3>>(stage: u64) {
    let plan = S::PLAN;
    let mut random = Random::of(&plan);
    let numerics = Numerics::usual(&DeepSeekV3::ARCHITECTURE);
    let step = DeepSeekV3::reference_step::<S, _>(stage, Meta, numerics, &mut random);
    let mut step = step.expect("the budget has all of it");
    step.train(&mut random, smoke::ADAMW).expect("a step holds what the budget says");
    assert_eq!(step.ledger().peak(Phase::Backward), plan.budget(stage).phase(Phase::Backward));
    let Ran { allocations, peak, .. } = smoke::run::<S, _>(stage, Meta).expect("the budget has all of it");
    assert_eq!(peak, plan.budget(stage).peak().total);
    assert!(allocations > 1000, "{allocations}");
}

#[test]
fn the_step_of_a_declaration_holds_its_budget() {
    holds_its_budget::<DeepSeekV3Paper>(1);
    holds_its_budget::<DeepSeekV3Shared>(0);
    holds_its_budget::<DeepSeekV3Traded>(0);
}
