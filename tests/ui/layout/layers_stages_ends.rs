// Stages that take more layers than there are.
use moe_model::moe_model;

moe_model! {
    pub struct Small;

    hidden: 2048,
    vocab: 102_400,
    layers: layers { moe: 26 },
    attention: gqa { heads: 16, kv_heads: 4, head_dim: 128 },
    experts: experts { routed: 64, active: 6, ffn: 1408 },

    layout Main: layout {
        mesh: mesh { dp: 8, pp: 4, ep: 8 },
        stages: stages { first: 26, last: 26 },
        batch: batch { sequence: 4096, count: 4 },
        accounting: paper,
    },
}

fn main() {}
