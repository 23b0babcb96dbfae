// A budget that outgrows 64 bits, by a constant.
use moe_model::moe_model;

const SEQUENCE: u64 = 1 << 31;

moe_model! {
    /// A small model.
    pub struct Small;

    hidden: 1024,
    vocab: 1000,
    layers: layers { moe: 8 },
    attention: gqa { heads: 16, kv_heads: 16, head_dim: 64 },
    experts: experts { routed: 16, active: 2, ffn: 1024 },

    layout Main: layout {
        mesh: mesh { dp: 2 },
        batch: batch { sequence: SEQUENCE, micro: 10 },
        accounting: paper,
    },
}

fn main() {}
