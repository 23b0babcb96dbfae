//! Written by `SNAPSHOTS=overwrite cargo test --test declaration`: declarations out of architectures, which must
//! compile and mean the same. See `tests/declaration.rs`.
#![deny(missing_docs, warnings)]

moe_model::moe_model! {
    /// DeepSeekMoE 16B: 16.4B parameters, 2.8B active
    pub struct DeepseekMoe16b;

    hidden: 2048,
    vocab: 102_400,
    layers: layers { dense: 1, moe: 27, ffn: 10_944 },
    attention: gqa { heads: 16, kv_heads: 16, head_dim: 128 },
    experts: experts { routed: 64, shared: 2, active: 6, ffn: 1408 },
}

moe_model::moe_model! {
    /// DeepSeek-V2: 235.7B parameters, 21.4B active
    pub struct DeepseekV2;

    hidden: 5120,
    vocab: 102_400,
    layers: layers { dense: 1, moe: 59, ffn: 12_288 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 160, shared: 2, active: 6, ffn: 1536, groups: 8, active_groups: 3 },
}

moe_model::moe_model! {
    /// DeepSeek-V2-Lite: 15.7B parameters, 2.7B active; queries without a latent
    pub struct DeepseekV2Lite;

    hidden: 2048,
    vocab: 102_400,
    layers: layers { dense: 1, moe: 26, ffn: 10_944 },
    attention: mla { heads: 16, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 64, shared: 2, active: 6, ffn: 1408 },
}

moe_model::moe_model! {
    /// DeepSeek-V3: 671.0B parameters, 37.6B active, and one multi-token-prediction module
    pub struct DeepseekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4,
        correction_bias: on,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// DeepSeek-R1: the architecture of DeepSeek-V3, 671.0B parameters, 37.6B active
    pub struct DeepseekR1;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4,
        correction_bias: on,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// Kimi K2: 1026.4B parameters, 32.9B active
    pub struct KimiK2;

    hidden: 7168,
    vocab: 163_840,
    layers: layers { dense: 1, moe: 60, ffn: 18_432 },
    attention: mla { heads: 64, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 384, shared: 1, active: 8, ffn: 2048, correction_bias: on },
}

moe_model::moe_model! {
    /// Mixtral 8x7B: 46.7B parameters, 12.9B active
    pub struct Mixtral8x7b;

    hidden: 4096,
    vocab: 32_000,
    layers: layers { moe: 32 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128 },
    experts: experts { routed: 8, active: 2, ffn: 14_336 },
}

moe_model::moe_model! {
    /// Mixtral 8x22B (v0.1, vocabulary of 32,000): 140.6B parameters, 39.2B active
    pub struct Mixtral8x22b;

    hidden: 6144,
    vocab: 32_000,
    layers: layers { moe: 56 },
    attention: gqa { heads: 48, kv_heads: 8, head_dim: 128 },
    experts: experts { routed: 8, active: 2, ffn: 16_384 },
}

moe_model::moe_model! {
    /// Llama 2 7B: 6.7B parameters, dense
    pub struct Llama27b;

    hidden: 4096,
    vocab: 32_000,
    layers: layers { dense: 32, ffn: 11_008 },
    attention: gqa { heads: 32, kv_heads: 32, head_dim: 128 },
}

moe_model::moe_model! {
    /// Llama 3.1 8B: 8.0B parameters, dense
    pub struct Llama318b;

    hidden: 4096,
    vocab: 128_256,
    layers: layers { dense: 32, ffn: 14_336 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128 },
}

moe_model::moe_model! {
    /// Llama 3.1 70B: 70.6B parameters, dense
    pub struct Llama3170b;

    hidden: 8192,
    vocab: 128_256,
    layers: layers { dense: 80, ffn: 28_672 },
    attention: gqa { heads: 64, kv_heads: 8, head_dim: 128 },
}

moe_model::moe_model! {
    /// Every key.
    ///
    /// And a second paragraph.
    pub struct EveryKey;

    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: on,
    head_bias: on,
    norm: layer_bias,
    norms_per_layer: 4,
    layers: layers { dense: 1, moe: 2, ffn: 1_234_567 },
    attention: gqa {
        heads: 16, kv_heads: 4, head_dim: 64, bias: all, qk_norm: full, sinks: on, output_gate: on,
    },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// Every key of latent attention.
    pub struct Latent;

    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: on,
    head_bias: on,
    norm: layer_bias,
    norms_per_layer: 4,
    layers: layers { dense: 1, moe: 2, ffn: 1_234_567 },
    attention: mla { heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256 },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// As few keys as there can be.
    pub struct Fewest;

    hidden: 64,
    vocab: 100,
    layers: layers { dense: 1, ffn: 256 },
    attention: gqa { heads: 1, kv_heads: 1 },
}

fn main() {
    assert_eq!(DeepseekMoe16b::ARCHITECTURE, moe_model::preset::DEEPSEEK_MOE_16B);
    assert_eq!(DeepseekV2::ARCHITECTURE, moe_model::preset::DEEPSEEK_V2);
    assert_eq!(DeepseekV2Lite::ARCHITECTURE, moe_model::preset::DEEPSEEK_V2_LITE);
    assert_eq!(DeepseekV3::ARCHITECTURE, moe_model::preset::DEEPSEEK_V3);
    assert_eq!(DeepseekR1::ARCHITECTURE, moe_model::preset::DEEPSEEK_R1);
    assert_eq!(KimiK2::ARCHITECTURE, moe_model::preset::KIMI_K2);
    assert_eq!(Mixtral8x7b::ARCHITECTURE, moe_model::preset::MIXTRAL_8X7B);
    assert_eq!(Mixtral8x22b::ARCHITECTURE, moe_model::preset::MIXTRAL_8X22B);
    assert_eq!(Llama27b::ARCHITECTURE, moe_model::preset::LLAMA_2_7B);
    assert_eq!(Llama318b::ARCHITECTURE, moe_model::preset::LLAMA_3_1_8B);
    assert_eq!(Llama3170b::ARCHITECTURE, moe_model::preset::LLAMA_3_1_70B);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layers: Layers { dense: 1, moe: 2, ffn: 1234567 }, attention: Gqa(Gqa { heads: 16, kv_heads: 4, head_dim: 64, bias: All, qk_norm: Full, sinks: On, output_gate: On }), experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter }, mtp: 1 }";
    assert_eq!(format!("{:?}", EveryKey::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layers: Layers { dense: 1, moe: 2, ffn: 1234567 }, attention: Mla(Mla { heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256 }), experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter }, mtp: 1 }";
    assert_eq!(format!("{:?}", Latent::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 64, vocab: 100, tied_embeddings: Off, head_bias: Off, norm: Rms, norms_per_layer: 2, layers: Layers { dense: 1, moe: 0, ffn: 256 }, attention: Gqa(Gqa { heads: 1, kv_heads: 1, head_dim: 0, bias: None, qk_norm: None, sinks: Off, output_gate: Off }), experts: Experts { routed: 0, shared: 0, active: 0, ffn: 0, bias: Off, shared_ffn: 0, shared_gate: Off, router_bias: Off, groups: 1, active_groups: 1, correction_bias: Off }, mtp: 0 }";
    assert_eq!(format!("{:?}", Fewest::ARCHITECTURE), meant);
}
