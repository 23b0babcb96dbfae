// full-every-stages: a pipeline longer than stages are looked at.
use moe_model::moe_model;

moe_model! {
    /// A dense model.
    pub struct Dense;

    hidden: 4096,
    vocab: 128_256,
    layers: layers { dense: 600, ffn: 14_336 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128, window: 4096, full_every: 2 },

    layout Served: layout {
        mesh: mesh { pp: 300 },
        serving: serving { requests: 16, context: 65_536 },
    },
}

fn main() {}
