//! Models that are known too little for a preset, declared as far as they are known: see `tests/data/totals.json`.

use moe_model::moe_model;
use moe_model::spec::Architecture;

moe_model! {
    /// Snowflake Arctic, its config put together from what others cite.
    pub struct Arctic;

    hidden: 7168,
    vocab: 32_000,
    norms_per_layer: 3,
    layers: layers { moe: 35, ffn: 7168, beside: dense },
    attention: gqa { heads: 56, kv_heads: 8, head_dim: 128 },
    experts: experts { routed: 128, active: 2, ffn: 4864 },
}

moe_model! {
    /// Hunyuan-Large, put together likewise. Layers of odd numbers read the keys and values of those in front.
    pub struct HunyuanLarge;

    hidden: 6400,
    vocab: 129_024,
    tied_embeddings: on,
    layers: layers { moe: 64, list: "(AM)*32" },
    attention: gqa { heads: 80, kv_heads: 8, head_dim: 80, qk_norm: head },
    mixer: gqa { heads: 80, kv_heads: 8, head_dim: 80, qk_norm: head, shared_kv: on },
    experts: experts { routed: 16, shared: 1, active: 1, ffn: 18_304 },
}

moe_model! {
    /// Kimi Linear 48B-A3B by the defaults of transformers, whose layers are not those that were published.
    pub struct KimiLinear;

    hidden: 2304,
    vocab: 163_840,
    layers: layers { dense: 1, moe: 26, ffn: 9216, list: "mMMM(AMMM)*5AMM" },
    attention: mla { heads: 32, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    mixer: kda { heads: 32, head_dim: 128, conv: 4 },
    experts: experts { routed: 256, shared: 1, active: 8, ffn: 1024, correction_bias: on },
}

/// By the names of their files.
pub(crate) const BESIDE: [(&str, Architecture); 3] = [
    ("arctic", Arctic::ARCHITECTURE),
    ("hunyuan-large", HunyuanLarge::ARCHITECTURE),
    ("kimi-linear-48b-a3b", KimiLinear::ARCHITECTURE),
];

// What the file says of each, in a constant of the user's crate.
const _: () = assert!(Arctic::ARCHITECTURE.parameters().total() == 478_584_608_768);
const _: () = assert!(HunyuanLarge::ARCHITECTURE.parameters().total() == 388_701_405_440);
const _: () = assert!(KimiLinear::ARCHITECTURE.parameters().total() == 49_133_074_464);
