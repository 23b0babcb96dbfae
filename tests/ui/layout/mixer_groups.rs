// mixer-groups: 6 groups of 64 heads.
use moe_model::moe_model;

moe_model! {
    /// Nemotron 3 Nano.
    pub struct Nemotron3Nano;

    hidden: 2688,
    vocab: 131_072,
    norms_per_layer: 1,
    layers: layers { moe: 23, list: "memema(ememema)*4(em)*4a(em)*4e", gated: off },
    attention: gqa { heads: 32, kv_heads: 2, head_dim: 128 },
    mixer: mamba2 { heads: 64, head_dim: 64, state: 128, groups: 6, conv: 4 },
    experts: experts { routed: 128, shared: 1, active: 6, ffn: 1856, shared_ffn: 3712, correction_bias: on },

    layout Cluster: layout {
        mesh: mesh { dp: 4, tp: 2, pp: 2, ep: 8, sequence_parallel: on },
        zero: optimizer,
        batch: batch { sequence: 4096, count: 8 },
        accounting: paper { kernel: flash },
    },
}

fn main() {}
