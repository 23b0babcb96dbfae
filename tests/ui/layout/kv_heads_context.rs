// kv-heads-context: 6 key/value heads neither fall to 8 ranks nor replicate evenly.
use moe_model::moe_model;

moe_model! {
    /// A dense model.
    pub struct Dense;

    hidden: 4096,
    vocab: 128_256,
    layers: layers { dense: 32, ffn: 14_336 },
    attention: gqa { heads: 48, kv_heads: 6, head_dim: 128 },

    layout Main: layout {
        mesh: mesh { dp: 8, tp: 2, cp: 4, context: all_to_all },
        batch: batch { sequence: 4096 },
        accounting: paper,
    },
}

fn main() {}
