// reference-ring: probabilities of keys that come round.
use moe_model::moe_model;

moe_model! {
    /// DeepSeek-V3.
    pub struct DeepSeekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on,
    },

    layout Cluster: layout {
        mesh: mesh { dp: 64, tp: 2, pp: 16, cp: 2, context: ring, ep: 64, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 32 },
        recompute: full,
        accounting: reference { kernel: eager },
    },
}

fn main() {}
