// full-every-window: every second of no windows.
use moe_model::moe_model;

moe_model! {
    /// A dense model.
    pub struct Dense;

    hidden: 4096,
    vocab: 128_256,
    layers: layers { dense: 32, ffn: 14_336 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128, full_every: 2 },

    layout Served: layout {
        mesh: mesh { dp: 8 },
        batch: batch { sequence: 4096 },
        accounting: paper,
    },
}

fn main() {}
