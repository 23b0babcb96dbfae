// reference-head-dim: an odd head that follows from the width of the residual stream.
use moe_model::moe_model;

moe_model! {
    /// DeepSeek-V3.
    pub struct DeepSeekV3;

    hidden: 7040,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: gqa { heads: 128, kv_heads: 8 },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on,
    },

    layout Cluster: layout {
        mesh: mesh { dp: 64, pp: 16, ep: 64 },
        stages: stages { first: 4, last: 1 },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 32 },
        recompute: full,
        accounting: reference,
    },
}

fn main() {}
