// transformers-mesh: tensor parallelism, as transformers counts.
use moe_model::moe_model;

moe_model! {
    /// Mixtral 8x7B.
    pub struct Mixtral;

    hidden: 4096,
    vocab: 32_000,
    layers: layers { moe: 32 },
    attention: gqa { heads: 32, kv_heads: 8 },
    experts: experts { routed: 8, active: 2, ffn: 14_336 },

    layout Node: layout {
        mesh: mesh { dp: 4, tp: 2 },
        zero: parameters,
        batch: batch { sequence: 4096, count: 8 },
        recompute: full,
        accounting: transformers,
    },
}

fn main() {}
