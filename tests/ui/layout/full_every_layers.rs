// full-every-layers: a window by place beside a list.
use moe_model::moe_model;

moe_model! {
    /// A dense model.
    pub struct Dense;

    hidden: 4096,
    vocab: 128_256,
    layers: layers { dense: 32, ffn: 14_336, list: "(am)*16" },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128, window: 4096, full_every: 2 },
    mixer: kda { heads: 32, head_dim: 128, conv: 4 },

    layout Served: layout {
        mesh: mesh { dp: 8 },
        batch: batch { sequence: 4096 },
        accounting: paper,
    },
}

fn main() {}
