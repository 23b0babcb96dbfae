// A constant that breaks a law of the architecture, of a model without layouts.
use moe_model::moe_model;

const ROUTED: u64 = 4;

moe_model! {
    /// A small model.
    pub struct Small;

    hidden: 1024,
    vocab: 1000,
    layers: layers { moe: 8 },
    attention: gqa { heads: 16, kv_heads: 16, head_dim: 64 },
    experts: experts { routed: ROUTED, active: 6, ffn: 1024 },
}

fn main() {}
