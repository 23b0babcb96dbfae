// Only the compiler knows the number; the second layout alone breaks a law on it.
use moe_model::moe_model;

const ROUTED: u64 = 64;
moe_model! {
    /// A small model.
    pub struct Small;

    hidden: 1024,
    vocab: 1000,
    layers: layers { dense: 1, moe: 7, ffn: 4096 },
    attention: gqa { heads: 24, kv_heads: 24, head_dim: 64 },
    experts: experts { routed: ROUTED, active: 8, ffn: 960 },

    layout A: layout {
        mesh: mesh { dp: 8, ep: 8 },
        batch: batch { sequence: 4096 },
        routing: dropless { skew: 5.0 },
        accounting: paper,
    },
    layout B: layout { mesh: mesh { dp: 8, ep: 2 }, ..A },
}

fn main() {}
