// kv-replicated, a warning, here denied.
#![deny(deprecated)]
use moe_model::moe_model;

moe_model! {
    /// A dense model.
    pub struct Dense;

    hidden: 4096,
    vocab: 128_256,
    layers: layers { dense: 32, ffn: 14_336 },
    attention: gqa { heads: 32, kv_heads: 2, head_dim: 128 },

    layout Main: layout {
        mesh: mesh { dp: 8, tp: 4 },
        batch: batch { sequence: 4096 },
        accounting: paper,
    },
}

fn main() {}
