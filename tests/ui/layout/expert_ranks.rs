// expert-ranks: no layer has experts.
use moe_model::moe_model;

moe_model! {
    /// A dense model.
    pub struct Dense;

    hidden: 4096,
    vocab: 128_256,
    layers: layers { dense: 32, ffn: 14_336 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128 },

    layout Main: layout {
        mesh: mesh { dp: 8, ep: 8 },
        batch: batch { sequence: 4096 },
        accounting: paper,
    },
}

fn main() {}
