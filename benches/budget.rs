//! What budgets cost at run time: `cargo bench --bench budget`.

use moe_model::{Budget, H200, Plan, Spec, judge, moe_model};
use std::hint::black_box;

moe_model! {
    /// DeepSeek-V3 under the layout analysed in arXiv:2502.07846.
    pub struct DeepSeekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4 },

    layout Paper: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 32 },
        recompute: full,
        accounting: paper,
        device: h200,
    },
    layout Served: layout {
        mesh: mesh { dp: 16, ep: 16 },
        precision: precision { weights: fp8 },
        serving: serving { requests: 16, context: 32_768 },
    },
}

fn main() {
    divan::main();
}

fn spec() -> Spec {
    *black_box(DeepSeekV3::PAPER.spec())
}

/// All laws, budgets included, and the plan.
#[divan::bench]
fn plan() -> Plan {
    Plan::new(spec()).expect("the layout is legal")
}

/// All laws broken by one number, whom to blame, and what to write instead.
#[divan::bench]
fn verdict_on_a_wrong_number() -> usize {
    let mut spec = spec();
    spec.layout.mesh.dp = 33;
    judge(&spec).len()
}

/// The worst rank in its worst phase.
#[divan::bench]
fn peak() -> u64 {
    black_box(&DeepSeekV3::PAPER).peak().bytes()
}

/// One stage's bytes by phase and role.
#[divan::bench]
fn budget_of_a_stage() -> Budget {
    black_box(&DeepSeekV3::PAPER).budget(1)
}

/// Every stage's bytes by phase and role.
#[divan::bench]
fn budget_of_all_stages() -> [Budget; 16] {
    let plan = black_box(&DeepSeekV3::PAPER);
    let mut stage = 0;
    [(); 16].map(|()| {
        stage += 1;
        plan.budget(stage - 1)
    })
}

/// One stage's tensors, listed.
#[divan::bench]
fn inventory_of_a_stage() -> usize {
    black_box(&DeepSeekV3::PAPER).inventory(1).len()
}

/// The longest context of sixteen requests: the worst rank of some thirty contexts.
#[divan::bench]
fn longest_context() -> Option<u64> {
    black_box(&DeepSeekV3::SERVED).longest_context(16, H200)
}
