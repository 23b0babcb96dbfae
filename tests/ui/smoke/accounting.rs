// Tests of a layout that is counted as another framework does.
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
        mesh: mesh { dp: 64, pp: 16, ep: 64 },
        stages: stages { first: 4, last: 1 },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 32 },
        recompute: full,
        accounting: paper,
    },

    smoke Cluster: smoke {
        hidden: 32,
        vocab: 96,
        layers: layers { dense: 1, moe: 2, ffn: 48 },
        attention: mla { heads: 4, kv_rank: 12, nope: 8, rope: 4, value: 8 },
        experts: experts { routed: 8, active: 2, ffn: 12 },
        mesh: mesh { dp: 4, tp: 2, pp: 3, ep: 4, sequence_parallel: on },
        stages: even,
        batch: batch { sequence: 16, count: 4 },
    },
}

fn main() {}
