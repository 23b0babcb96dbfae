// A warning on several layouts is expected of one and allowed of the other.
#![deny(deprecated, unfulfilled_lint_expectations)]
use moe_model::moe_model;

moe_model! {
    /// DeepSeek-V3 under the layout analysed in arXiv:2502.07846.
    pub struct DeepSeekV3;

    hidden: 7168,
    vocab: 129_281,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on,
    },
    mtp: 1,

    /// The paper's.
    #[expect(deprecated)]
    layout Paper: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, etp: 1, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        schedule: one_f_one_b,
        zero: zero { dense: optimizer, expert: optimizer, groups: moe_block },
        placement: placement { query_rope: replicated, shared_experts: replicated },
        precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
        batch: batch { sequence: 4096, micro: 1, count: 32 },
        recompute: full,
        routing: dropless { skew: 1.0 },
        accounting: paper { kernel: eager, dropout: on, pool: replica },
    },
    #[allow(deprecated)]
    layout Kept: layout { recompute: none, ..Paper },
}
