// shared-kv-value: values as wide as keys, of a layer whose values are not.
use moe_model::moe_model;

moe_model! {
    /// MiMo-V2-Flash.
    pub struct MimoV2Flash;

    hidden: 4096,
    vocab: 152_576,
    layers: layers { dense: 1, moe: 47, ffn: 16_384, list: "aMMMMA(MMMMMA)*7" },
    attention: gqa { heads: 64, kv_heads: 4, head_dim: 192, value_dim: 128 },
    mixer: gqa { heads: 64, kv_heads: 4, head_dim: 192, sinks: on, shared_kv: on },
    experts: experts { routed: 256, active: 8, ffn: 2048, correction_bias: on },

    layout Cluster: layout {
        mesh: mesh { dp: 16, tp: 4, pp: 1, ep: 32, sequence_parallel: on },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 8 },
        accounting: paper { kernel: flash },
    },
}

fn main() {}
