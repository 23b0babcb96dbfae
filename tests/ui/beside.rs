// A literal that breaks a law hides no constant that does, in its layout or another one.
use moe_model::moe_model;

const RANKS: u64 = 48;
const THIRD: u64 = 3;

moe_model! {
    pub struct Small;

    hidden: 2048,
    vocab: 102_400,
    layers: layers { moe: 26 },
    attention: gqa { heads: 16, kv_heads: 4, head_dim: 128 },
    experts: experts { routed: 64, active: 65, ffn: 1408 },

    layout Main: layout {
        mesh: mesh { dp: 8, ep: RANKS },
        batch: batch { sequence: 4096 },
        accounting: paper,
    },
    layout Other: layout { mesh: mesh { dp: 8, ep: THIRD }, ..Main },
}

fn main() {}
