//! Keys beside a preset: a law that the preset's own number breaks with one of them, and one that the key breaks alone.

use moe_model::moe_model;

moe_model! {
    pub struct FewerExperts;

    architecture: preset(deepseek_v3),
    layers: layers { dense: 3, moe: 58 },
    experts: experts { routed: 256, shared: 1, active: 300, ffn: 2048 },
}

moe_model! {
    pub struct DenseOnly;

    architecture: preset(mixtral_8x7b),
    experts: experts { routed: 8, active: 2 },
    mtp: 0,
    vocab: 0,
}

fn main() {}
