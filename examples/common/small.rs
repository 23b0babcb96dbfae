//! A small model of DeepSeek-V3's shape, as large as a CPU computes.

use moe_model::moe_model;

moe_model! {
    /// DeepSeek-V3's shape at a scale that a CPU computes.
    pub struct Small;

    hidden: 64,
    vocab: 256,
    layers: layers { dense: 1, moe: 3, ffn: 96 },
    attention: mla { heads: 4, q_rank: 32, kv_rank: 24, nope: 16, rope: 8, value: 16 },
    experts: experts { routed: 16, shared: 1, active: 4, ffn: 24, groups: 4, active_groups: 2, correction_bias: on },

    layout Step: layout {
        mesh: mesh { dp: 4, tp: 2, pp: 4, ep: 4, sequence_parallel: on },
        zero: optimizer,
        precision: precision { moments: bf16 },
        batch: batch { sequence: 64, count: 4 },
        recompute: full,
        accounting: reference,
    },
}
