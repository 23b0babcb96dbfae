// The total of the first layout is that of the second too, whose mesh is another.
use moe_model::moe_model;

const GLOBAL: u64 = 256;
moe_model! {
    /// A small model.
    pub struct Small;

    hidden: 1024,
    vocab: 1000,
    layers: layers { dense: 1, moe: 7, ffn: 4096 },
    attention: gqa { heads: 24, kv_heads: 24, head_dim: 64 },
    experts: experts { routed: 64, active: 8, ffn: 960 },

    layout A: layout {
        mesh: mesh { dp: 8, ep: 8 },
        batch: batch { sequence: 4096, count: 32, global: GLOBAL },
        accounting: paper,
    },
    layout B: layout { mesh: mesh { dp: 16, ep: 8 }, ..A },
}

fn main() {}
