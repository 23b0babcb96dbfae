// megatron-mtp-rank: the module stands on the first rank of the pipeline, in its second chunk.
use moe_model::moe_model;

moe_model! {
    /// DeepSeek-V3 under the layout analysed in arXiv:2502.07846.
    pub struct DeepSeekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: gqa { heads: 128, kv_heads: 8, head_dim: 128 },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on,
    },
    mtp: 1,

    /// The paper's.
    layout Paper: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, etp: 1, sequence_parallel: on },
        stages: "Et*3|(t*4|)*14tt|m|(|)*14L",
        schedule: interleaved,
        zero: zero { dense: optimizer, expert: optimizer, groups: moe_block },
        placement: placement { query_rope: replicated, shared_experts: replicated },
        precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
        batch: batch { sequence: 4096, micro: 1, count: 32 },
        target: megatron_core,
        recompute: full,
        routing: dropless { skew: 1.0 },
        accounting: paper { kernel: eager, dropout: on, pool: replica },
    },
}

fn main() {}
