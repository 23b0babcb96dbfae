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
    /// DeepSeek-V3.2: DeepSeek-V3 with an indexer in every layer, 671.9B parameters, 38.4B active
    pub struct DeepseekV32;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla {
        heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128, indexer_heads: 64,
        indexer_dim: 128,
    },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4,
        correction_bias: on,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// DeepSeek-V4 Flash: 284.3B parameters, 13.8B active; attention over a window and compressed keys
    pub struct DeepseekV4Flash;

    hidden: 4096,
    vocab: 129_280,
    hyper_connections: 4,
    layers: layers { moe: 43, list: "AA(CH)*20C" },
    attention: compressed {
        heads: 64, q_rank: 1024, head_dim: 512, output_groups: 8, output_rank: 1024, compress: 4,
        compress_heavy: 128, indexer_heads: 64, indexer_dim: 128, window: 128,
    },
    experts: experts {
        routed: 256, shared: 1, active: 6, ffn: 2048, correction_bias: on, hash_layers: 3,
    },
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
    /// dots.llm1: 142.8B parameters, 14.0B active
    pub struct DotsLlm1;

    hidden: 4096,
    vocab: 152_064,
    layers: layers { dense: 1, moe: 61, ffn: 10_944 },
    attention: gqa { heads: 32, kv_heads: 32, head_dim: 128, qk_norm: head },
    experts: experts { routed: 128, shared: 2, active: 6, ffn: 1408, correction_bias: on },
}

moe_model::moe_model! {
    /// ERNIE 4.5 300B-A47B, embeddings tied: 298.6B parameters, 47.1B active
    pub struct Ernie45300bA47b;

    hidden: 8192,
    vocab: 103_424,
    tied_embeddings: on,
    layers: layers { dense: 3, moe: 51, ffn: 28_672 },
    attention: gqa { heads: 64, kv_heads: 8, head_dim: 128 },
    experts: experts { routed: 64, active: 8, ffn: 3584, correction_bias: parameter },
}

moe_model::moe_model! {
    /// GLM-4.5: 352.8B parameters, 33.6B active, and one multi-token-prediction module
    pub struct Glm45;

    hidden: 5120,
    vocab: 151_552,
    layers: layers { dense: 3, moe: 89, ffn: 12_288 },
    attention: gqa { heads: 96, kv_heads: 8, head_dim: 128, bias: qkv, qk_norm: head },
    experts: experts { routed: 160, shared: 1, active: 8, ffn: 1536, correction_bias: on },
    mtp: 1,
}

moe_model::moe_model! {
    /// GLM-4.7-Flash: 29.9B parameters, 3.9B active
    pub struct Glm47Flash;

    hidden: 2048,
    vocab: 154_880,
    layers: layers { dense: 1, moe: 46, ffn: 10_240 },
    attention: mla { heads: 20, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256 },
    experts: experts { routed: 64, shared: 1, active: 4, ffn: 1536, correction_bias: on },
}

moe_model::moe_model! {
    /// GLM-5: 743.9B parameters, 41.8B active, and one multi-token-prediction module
    pub struct Glm5;

    hidden: 6144,
    vocab: 154_880,
    layers: layers { dense: 3, moe: 75, ffn: 12_288 },
    attention: mla {
        heads: 64, q_rank: 2048, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32,
        indexer_dim: 128,
    },
    experts: experts { routed: 256, shared: 1, active: 8, ffn: 2048, correction_bias: on },
    mtp: 1,
}

moe_model::moe_model! {
    /// Hunyuan-A13B: 80.4B parameters, 12.7B active
    pub struct HunyuanA13b;

    hidden: 4096,
    vocab: 128_167,
    tied_embeddings: on,
    layers: layers { moe: 32 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128, qk_norm: head },
    experts: experts { routed: 64, shared: 1, active: 8, ffn: 3072 },
}

moe_model::moe_model! {
    /// MiniMax-M2.5: 228.7B parameters, 11.0B active
    pub struct MinimaxM25;

    hidden: 3072,
    vocab: 200_064,
    layers: layers { moe: 62 },
    attention: gqa { heads: 48, kv_heads: 8, head_dim: 128, qk_norm: full },
    experts: experts { routed: 256, active: 8, ffn: 1536, correction_bias: on },
}

moe_model::moe_model! {
    /// MiniMax-Text-01: 456.1B parameters, 48.4B active; seven of eight layers are lightning attention
    pub struct MinimaxText01;

    hidden: 6144,
    vocab: 200_064,
    layers: layers { moe: 80, list: "(MMMMMMMA)*10" },
    attention: gqa { heads: 64, kv_heads: 8, head_dim: 128 },
    mixer: lightning { heads: 64, head_dim: 128, block: 256 },
    experts: experts { routed: 32, active: 2, ffn: 9216 },
}

moe_model::moe_model! {
    /// MiMo-V2-Flash: 308.8B parameters, 15.4B active; layers with a window have key/value heads of their own
    pub struct MimoV2Flash;

    hidden: 4096,
    vocab: 152_576,
    layers: layers { dense: 1, moe: 47, ffn: 16_384, list: "a(MMMMAM)*7M*4A" },
    attention: gqa { heads: 64, kv_heads: 4, head_dim: 192, value_dim: 128 },
    mixer: gqa { heads: 64, kv_heads: 8, head_dim: 192, value_dim: 128, sinks: on, window: 128 },
    experts: experts { routed: 256, active: 8, ffn: 2048, correction_bias: on },
}

moe_model::moe_model! {
    /// LongCat-Flash: 560.7B parameters, 32.2B active at most; experts are a shortcut across two blocks
    pub struct LongcatFlash;

    hidden: 6144,
    vocab: 131_072,
    layers: layers { moe: 28, ffn: 12_288, beside: two_blocks },
    attention: mla { heads: 64, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 512, active: 12, ffn: 2048, correction_bias: on, identity: 256 },
}

moe_model::moe_model! {
    /// Qwen1.5-MoE-A2.7B: 14.3B parameters, 2.7B active
    pub struct Qwen15MoeA27b;

    hidden: 2048,
    vocab: 151_936,
    layers: layers { moe: 24 },
    attention: gqa { heads: 16, kv_heads: 16, head_dim: 128, bias: qkv },
    experts: experts {
        routed: 60, shared: 1, active: 4, ffn: 1408, shared_ffn: 5632, shared_gate: on,
    },
}

moe_model::moe_model! {
    /// Qwen3 0.6B: 0.6B parameters, dense
    pub struct Qwen306b;

    hidden: 1024,
    vocab: 151_936,
    tied_embeddings: on,
    layers: layers { dense: 28, ffn: 3072 },
    attention: gqa { heads: 16, kv_heads: 8, head_dim: 128, qk_norm: head },
}

moe_model::moe_model! {
    /// Qwen3 8B: 8.2B parameters, dense
    pub struct Qwen38b;

    hidden: 4096,
    vocab: 151_936,
    layers: layers { dense: 36, ffn: 12_288 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128, qk_norm: head },
}

moe_model::moe_model! {
    /// Qwen3 30B-A3B: 30.5B parameters, 3.4B active
    pub struct Qwen330bA3b;

    hidden: 2048,
    vocab: 151_936,
    layers: layers { moe: 48 },
    attention: gqa { heads: 32, kv_heads: 4, head_dim: 128, qk_norm: head },
    experts: experts { routed: 128, active: 8, ffn: 768 },
}

moe_model::moe_model! {
    /// Qwen3 235B-A22B: 235.1B parameters, 22.2B active
    pub struct Qwen3235bA22b;

    hidden: 4096,
    vocab: 151_936,
    layers: layers { moe: 94 },
    attention: gqa { heads: 64, kv_heads: 4, head_dim: 128, qk_norm: head },
    experts: experts { routed: 128, active: 8, ffn: 1536 },
}

moe_model::moe_model! {
    /// Qwen3-Next 80B-A3B: 79.7B parameters, 3.9B active; three of four layers are Gated DeltaNet
    pub struct Qwen3Next80bA3b;

    hidden: 2048,
    vocab: 151_936,
    layers: layers { moe: 48, list: "(MMMA)*12" },
    attention: gqa { heads: 16, kv_heads: 2, head_dim: 256, qk_norm: head, output_gate: on },
    mixer: gated_delta_net {
        key_heads: 16, value_heads: 32, key_dim: 128, value_dim: 128, conv: 4,
    },
    experts: experts {
        routed: 512, shared: 1, active: 10, ffn: 512, shared_ffn: 512, shared_gate: on,
    },
}

moe_model::moe_model! {
    /// Qwen3.5 35B-A3B, the text decoder: 34.7B parameters, 3.5B active; three of four layers are Gated DeltaNet
    pub struct Qwen3535bA3b;

    hidden: 2048,
    vocab: 248_320,
    layers: layers { moe: 40, list: "(MMMA)*10" },
    attention: gqa { heads: 16, kv_heads: 2, head_dim: 256, qk_norm: head, output_gate: on },
    mixer: gated_delta_net {
        key_heads: 16, value_heads: 32, key_dim: 128, value_dim: 128, conv: 4,
    },
    experts: experts {
        routed: 256, shared: 1, active: 8, ffn: 512, shared_ffn: 512, shared_gate: on,
    },
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
    /// Grok-1: 315.7B parameters, 83.8B active
    pub struct Grok1;

    hidden: 6144,
    vocab: 131_072,
    tied_embeddings: on,
    norms_per_layer: 4,
    layers: layers { moe: 64 },
    attention: gqa { heads: 48, kv_heads: 8, head_dim: 128 },
    experts: experts { routed: 8, active: 2, ffn: 32_768 },
}

moe_model::moe_model! {
    /// DBRX: 131.6B parameters, 36.5B active
    pub struct Dbrx;

    hidden: 6144,
    vocab: 100_352,
    norm: layer,
    layers: layers { moe: 40 },
    attention: gqa { heads: 48, kv_heads: 8, head_dim: 128 },
    experts: experts { routed: 16, active: 4, ffn: 10_752 },
}

moe_model::moe_model! {
    /// Phi-3.5-MoE: 41.9B parameters, 6.6B active
    pub struct Phi35Moe;

    hidden: 4096,
    vocab: 32_064,
    head_bias: on,
    norm: layer_bias,
    layers: layers { moe: 32 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128, bias: all, window: 131_072 },
    experts: experts { routed: 16, active: 2, ffn: 6400 },
}

moe_model::moe_model! {
    /// OLMoE 1B-7B: 6.9B parameters, 1.3B active
    pub struct Olmoe1b7b;

    hidden: 2048,
    vocab: 50_304,
    layers: layers { moe: 16 },
    attention: gqa { heads: 16, kv_heads: 16, head_dim: 128, qk_norm: full },
    experts: experts { routed: 64, active: 8, ffn: 1024 },
}

moe_model::moe_model! {
    /// Granite 3.1 1B-A400M: 1.3B parameters, 0.4B active
    pub struct Granite311bA400m;

    hidden: 1024,
    vocab: 49_155,
    tied_embeddings: on,
    layers: layers { moe: 24 },
    attention: gqa { heads: 16, kv_heads: 8, head_dim: 64 },
    experts: experts { routed: 32, active: 8, ffn: 512 },
}

moe_model::moe_model! {
    /// gpt-oss-120b: 116.8B parameters, 5.7B active
    pub struct GptOss120b;

    hidden: 2880,
    vocab: 201_088,
    layers: layers { moe: 36 },
    attention: gqa {
        heads: 64, kv_heads: 8, head_dim: 64, bias: all, sinks: on, window: 128, full_every: 2,
    },
    experts: experts { routed: 128, active: 4, ffn: 2880, bias: on, router_bias: on },
}

moe_model::moe_model! {
    /// Jamba v0.1: 51.6B parameters, 12.1B active; seven of eight layers are Mamba, every second one has experts
    pub struct JambaV01;

    hidden: 4096,
    vocab: 65_536,
    layers: layers { dense: 16, moe: 16, ffn: 14_336, list: "(mMmMaMmM)*4" },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128 },
    mixer: mamba1 { inner: 8192, state: 16, conv: 4, time_rank: 256 },
    experts: experts { routed: 16, active: 2, ffn: 14_336 },
}

moe_model::moe_model! {
    /// Nemotron 3 Nano: 31.6B parameters, 3.6B active; each layer is Mamba-2, attention or experts alone
    pub struct Nemotron3Nano30bA3b;

    hidden: 2688,
    vocab: 131_072,
    norms_per_layer: 1,
    layers: layers { moe: 23, list: "(mememae)*5mememema(em)*4e", gated: off },
    attention: gqa { heads: 32, kv_heads: 2, head_dim: 128 },
    mixer: mamba2 { heads: 64, head_dim: 64, state: 128, groups: 8, conv: 4 },
    experts: experts {
        routed: 128, shared: 1, active: 6, ffn: 1856, shared_ffn: 3712, correction_bias: on,
    },
}

moe_model::moe_model! {
    /// Gemma 4 26B-A4B, the text decoder: 25.2B parameters, 3.8B active; a dense network beside the experts
    pub struct Gemma426bA4b;

    hidden: 2816,
    vocab: 262_144,
    tied_embeddings: on,
    norms_per_layer: 7,
    layer_scalar: on,
    layers: layers { moe: 30, ffn: 2112, list: "(MMMMMA)*5", beside: dense },
    attention: gqa { heads: 16, kv_heads: 2, head_dim: 512, qk_norm: head, key_as_value: on },
    mixer: gqa { heads: 16, kv_heads: 8, head_dim: 256, qk_norm: head, window: 1024 },
    experts: experts { routed: 128, active: 8, ffn: 704, router_scale: on },
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
    /// Llama 4 Scout, the text decoder: 107.8B parameters, 17.2B active
    pub struct Llama4Scout;

    hidden: 5120,
    vocab: 202_048,
    layers: layers { moe: 48 },
    attention: gqa { heads: 40, kv_heads: 8, head_dim: 128, window: 8192, full_every: 4 },
    experts: experts { routed: 16, shared: 1, active: 1, ffn: 8192 },
}

moe_model::moe_model! {
    /// Llama 4 Maverick, the text decoder: 400.7B parameters, 17.2B active; every second layer is dense
    pub struct Llama4Maverick;

    hidden: 5120,
    vocab: 202_048,
    layers: layers { dense: 24, moe: 24, ffn: 16_384, moe_every: 2 },
    attention: gqa { heads: 40, kv_heads: 8, head_dim: 128, window: 8192, full_every: 4 },
    experts: experts { routed: 128, shared: 1, active: 1, ffn: 8192 },
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
    layer_scalar: on,
    positions: 2048,
    layers: layers {
        dense: 3, moe: 2, ffn: 1_234_567, moe_every: 2, beside: dense, gated: off, bias: on,
    },
    attention: gqa {
        heads: 16, kv_heads: 4, head_dim: 64, bias: all, qk_norm: full, sinks: on, output_gate: on,
        key_as_value: on, window: 4096,
    },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter, latent: 1024,
        identity: 32, router_scale: on,
    },
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
    layer_scalar: on,
    positions: 2048,
    layers: layers { dense: 3, moe: 2, ffn: 1_234_567, moe_every: 2, gated: off, bias: on },
    attention: mla {
        heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32,
        indexer_dim: 128,
    },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter, latent: 1024,
        identity: 32, router_scale: on,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// Every key of compressed attention, and of Gated DeltaNet.
    pub struct Compressed;

    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: on,
    head_bias: on,
    norm: layer_bias,
    norms_per_layer: 4,
    layer_scalar: on,
    hyper_connections: 4,
    positions: 2048,
    layers: layers { dense: 3, moe: 2, ffn: 1_234_567, list: "amcHM", gated: off, bias: on },
    attention: compressed {
        heads: 16, q_rank: 768, head_dim: 64, output_groups: 8, output_rank: 256, compress: 4,
        compress_heavy: 128, indexer_heads: 32, indexer_dim: 128, window: 128,
    },
    mixer: gated_delta_net { key_heads: 16, value_heads: 32, key_dim: 64, value_dim: 128, conv: 4 },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: on, latent: 1024,
        identity: 32, hash_layers: 1, router_scale: on,
    },
}

moe_model::moe_model! {
    /// As few keys as there can be.
    pub struct Fewest;

    hidden: 64,
    vocab: 100,
    layers: layers { dense: 1, ffn: 256 },
    attention: gqa { heads: 1, kv_heads: 1 },
}

moe_model::moe_model! {
    /// A window in all layers but every second.
    pub struct WithWindows;

    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: on,
    head_bias: on,
    norm: layer_bias,
    norms_per_layer: 4,
    layer_scalar: on,
    positions: 2048,
    layers: layers { dense: 3, moe: 2, ffn: 1_234_567, moe_every: 2, gated: off, bias: on },
    attention: gqa { heads: 16, kv_heads: 8, head_dim: 96, window: 4096, full_every: 2 },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter, latent: 1024,
        identity: 32, router_scale: on,
    },
}

moe_model::moe_model! {
    /// Every key of grouped-query attention with heads of its own.
    pub struct WithGqa;

    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: on,
    head_bias: on,
    norm: layer_bias,
    norms_per_layer: 4,
    layer_scalar: on,
    positions: 2048,
    layers: layers { dense: 3, moe: 2, ffn: 1_234_567, list: "aMamA", gated: off, bias: on },
    attention: gqa { heads: 16, kv_heads: 8, head_dim: 96, value_dim: 48 },
    mixer: gqa {
        heads: 32, kv_heads: 8, head_dim: 96, value_dim: 48, bias: qkv, qk_norm: head, sinks: on,
        shared_kv: on, window: 1024,
    },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter, latent: 1024,
        identity: 32, router_scale: on,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// Every key of Kimi Delta Attention.
    pub struct WithKda;

    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: on,
    head_bias: on,
    norm: layer_bias,
    norms_per_layer: 4,
    layer_scalar: on,
    positions: 2048,
    layers: layers { dense: 3, moe: 2, ffn: 1_234_567, list: "aMamA", gated: off, bias: on },
    attention: mla {
        heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32,
        indexer_dim: 128,
    },
    mixer: kda { heads: 32, head_dim: 128, conv: 4 },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter, latent: 1024,
        identity: 32, router_scale: on,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// Every key of lightning attention.
    pub struct WithLightning;

    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: on,
    head_bias: on,
    norm: layer_bias,
    norms_per_layer: 4,
    layer_scalar: on,
    positions: 2048,
    layers: layers { dense: 3, moe: 2, ffn: 1_234_567, list: "aMamA", gated: off, bias: on },
    attention: mla {
        heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32,
        indexer_dim: 128,
    },
    mixer: lightning { heads: 64, head_dim: 128, block: 256 },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter, latent: 1024,
        identity: 32, router_scale: on,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// Every key of Mamba.
    pub struct WithMamba1;

    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: on,
    head_bias: on,
    norm: layer_bias,
    norms_per_layer: 4,
    layer_scalar: on,
    positions: 2048,
    layers: layers { dense: 3, moe: 2, ffn: 1_234_567, list: "aMamA", gated: off, bias: on },
    attention: mla {
        heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32,
        indexer_dim: 128,
    },
    mixer: mamba1 { inner: 8192, state: 16, conv: 4, time_rank: 256 },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter, latent: 1024,
        identity: 32, router_scale: on,
    },
    mtp: 1,
}

moe_model::moe_model! {
    /// Every key of Mamba-2.
    pub struct WithMamba2;

    hidden: 9999,
    vocab: 10_000,
    tied_embeddings: on,
    head_bias: on,
    norm: layer_bias,
    norms_per_layer: 4,
    layer_scalar: on,
    positions: 2048,
    layers: layers { dense: 3, moe: 2, ffn: 1_234_567, list: "aMamA", gated: off, bias: on },
    attention: mla {
        heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32,
        indexer_dim: 128,
    },
    mixer: mamba2 { heads: 64, head_dim: 64, state: 128, groups: 8, conv: 4 },
    experts: experts {
        routed: 64, shared: 2, active: 6, ffn: 1408, bias: on, shared_ffn: 5632, shared_gate: on,
        router_bias: on, groups: 8, active_groups: 4, correction_bias: parameter, latent: 1024,
        identity: 32, router_scale: on,
    },
    mtp: 1,
}

#[test]
fn they_mean_the_same() {
    assert_eq!(DeepseekMoe16b::ARCHITECTURE, moe_model::preset::DEEPSEEK_MOE_16B);
    const { assert!(DeepseekMoe16b::ARCHITECTURE.parameters().total() == 16375728128) };
    const { assert!(DeepseekMoe16b::ARCHITECTURE.active_parameters() == 2828650496) };
    assert_eq!(DeepseekV2::ARCHITECTURE, moe_model::preset::DEEPSEEK_V2);
    const { assert!(DeepseekV2::ARCHITECTURE.parameters().total() == 235741434880) };
    const { assert!(DeepseekV2::ARCHITECTURE.active_parameters() == 21375800320) };
    assert_eq!(DeepseekV2Lite::ARCHITECTURE, moe_model::preset::DEEPSEEK_V2_LITE);
    const { assert!(DeepseekV2Lite::ARCHITECTURE.parameters().total() == 15706484224) };
    const { assert!(DeepseekV2Lite::ARCHITECTURE.active_parameters() == 2661150208) };
    assert_eq!(DeepseekV3::ARCHITECTURE, moe_model::preset::DEEPSEEK_V3);
    const { assert!(DeepseekV3::ARCHITECTURE.parameters().total() == 671026404352) };
    const { assert!(DeepseekV3::ARCHITECTURE.active_parameters() == 37552282624) };
    assert_eq!(DeepseekR1::ARCHITECTURE, moe_model::preset::DEEPSEEK_R1);
    const { assert!(DeepseekR1::ARCHITECTURE.parameters().total() == 671026404352) };
    const { assert!(DeepseekR1::ARCHITECTURE.active_parameters() == 37552282624) };
    assert_eq!(DeepseekV32::ARCHITECTURE, moe_model::preset::DEEPSEEK_V3_2);
    const { assert!(DeepseekV32::ARCHITECTURE.parameters().total() == 671877929216) };
    const { assert!(DeepseekV32::ARCHITECTURE.active_parameters() == 38403807488) };
    assert_eq!(DeepseekV4Flash::ARCHITECTURE, moe_model::preset::DEEPSEEK_V4_FLASH);
    const { assert!(DeepseekV4Flash::ARCHITECTURE.parameters().total() == 284332230231) };
    const { assert!(DeepseekV4Flash::ARCHITECTURE.active_parameters() == 13799622231) };
    assert_eq!(KimiK2::ARCHITECTURE, moe_model::preset::KIMI_K2);
    const { assert!(KimiK2::ARCHITECTURE.parameters().total() == 1026408209408) };
    const { assert!(KimiK2::ARCHITECTURE.active_parameters() == 32861477888) };
    assert_eq!(DotsLlm1::ARCHITECTURE, moe_model::preset::DOTS_LLM1);
    const { assert!(DotsLlm1::ARCHITECTURE.parameters().total() == 142774373888) };
    const { assert!(DotsLlm1::ARCHITECTURE.active_parameters() == 14016581120) };
    assert_eq!(Ernie45300bA47b::ARCHITECTURE, moe_model::preset::ERNIE_4_5_300B_A47B);
    const { assert!(Ernie45300bA47b::ARCHITECTURE.parameters().total() == 298636913856) };
    const { assert!(Ernie45300bA47b::ARCHITECTURE.active_parameters() == 47079337152) };
    assert_eq!(Glm45::ARCHITECTURE, moe_model::preset::GLM_4_5);
    const { assert!(Glm45::ARCHITECTURE.parameters().total() == 352797814784) };
    const { assert!(Glm45::ARCHITECTURE.active_parameters() == 33632251904) };
    assert_eq!(Glm47Flash::ARCHITECTURE, moe_model::preset::GLM_4_7_FLASH);
    const { assert!(Glm47Flash::ARCHITECTURE.parameters().total() == 29943390976) };
    const { assert!(Glm47Flash::ARCHITECTURE.active_parameters() == 3896763136) };
    assert_eq!(Glm5::ARCHITECTURE, moe_model::preset::GLM_5);
    const { assert!(Glm5::ARCHITECTURE.parameters().total() == 743911199232) };
    const { assert!(Glm5::ARCHITECTURE.active_parameters() == 41784709632) };
    assert_eq!(HunyuanA13b::ARCHITECTURE, moe_model::preset::HUNYUAN_A13B);
    const { assert!(HunyuanA13b::ARCHITECTURE.parameters().total() == 80393183232) };
    const { assert!(HunyuanA13b::ARCHITECTURE.active_parameters() == 12747448320) };
    assert_eq!(MinimaxM25::ARCHITECTURE, moe_model::preset::MINIMAX_M2_5);
    const { assert!(MinimaxM25::ARCHITECTURE.parameters().total() == 228689748992) };
    const { assert!(MinimaxM25::ARCHITECTURE.active_parameters() == 11030537216) };
    assert_eq!(MinimaxText01::ARCHITECTURE, moe_model::preset::MINIMAX_TEXT_01);
    const { assert!(MinimaxText01::ARCHITECTURE.parameters().total() == 456089655296) };
    const { assert!(MinimaxText01::ARCHITECTURE.active_parameters() == 48403306496) };
    assert_eq!(MimoV2Flash::ARCHITECTURE, moe_model::preset::MIMO_V2_FLASH);
    const { assert!(MimoV2Flash::ARCHITECTURE.parameters().total() == 308778768832) };
    const { assert!(MimoV2Flash::ARCHITECTURE.active_parameters() == 15445924288) };
    assert_eq!(LongcatFlash::ARCHITECTURE, moe_model::preset::LONGCAT_FLASH);
    const { assert!(LongcatFlash::ARCHITECTURE.parameters().total() == 560664958976) };
    const { assert!(LongcatFlash::ARCHITECTURE.active_parameters() == 32182654976) };
    assert_eq!(Qwen15MoeA27b::ARCHITECTURE, moe_model::preset::QWEN1_5_MOE_A2_7B);
    const { assert!(Qwen15MoeA27b::ARCHITECTURE.parameters().total() == 14315784192) };
    const { assert!(Qwen15MoeA27b::ARCHITECTURE.active_parameters() == 2689173504) };
    assert_eq!(Qwen306b::ARCHITECTURE, moe_model::preset::QWEN3_0_6B);
    const { assert!(Qwen306b::ARCHITECTURE.parameters().total() == 596049920) };
    const { assert!(Qwen306b::ARCHITECTURE.active_parameters() == 596049920) };
    assert_eq!(Qwen38b::ARCHITECTURE, moe_model::preset::QWEN3_8B);
    const { assert!(Qwen38b::ARCHITECTURE.parameters().total() == 8190735360) };
    const { assert!(Qwen38b::ARCHITECTURE.active_parameters() == 8190735360) };
    assert_eq!(Qwen330bA3b::ARCHITECTURE, moe_model::preset::QWEN3_30B_A3B);
    const { assert!(Qwen330bA3b::ARCHITECTURE.parameters().total() == 30532122624) };
    const { assert!(Qwen330bA3b::ARCHITECTURE.active_parameters() == 3353032704) };
    assert_eq!(Qwen3235bA22b::ARCHITECTURE, moe_model::preset::QWEN3_235B_A22B);
    const { assert!(Qwen3235bA22b::ARCHITECTURE.parameters().total() == 235093634560) };
    const { assert!(Qwen3235bA22b::ARCHITECTURE.active_parameters() == 22190763520) };
    assert_eq!(Qwen3Next80bA3b::ARCHITECTURE, moe_model::preset::QWEN3_NEXT_80B_A3B);
    const { assert!(Qwen3Next80bA3b::ARCHITECTURE.parameters().total() == 79674391296) };
    const { assert!(Qwen3Next80bA3b::ARCHITECTURE.active_parameters() == 3874929408) };
    assert_eq!(Qwen3535bA3b::ARCHITECTURE, moe_model::preset::QWEN3_5_35B_A3B);
    const { assert!(Qwen3535bA3b::ARCHITECTURE.parameters().total() == 34660610688) };
    const { assert!(Qwen3535bA3b::ARCHITECTURE.active_parameters() == 3454988928) };
    assert_eq!(Mixtral8x7b::ARCHITECTURE, moe_model::preset::MIXTRAL_8X7B);
    const { assert!(Mixtral8x7b::ARCHITECTURE.parameters().total() == 46702792704) };
    const { assert!(Mixtral8x7b::ARCHITECTURE.active_parameters() == 12879925248) };
    assert_eq!(Mixtral8x22b::ARCHITECTURE, moe_model::preset::MIXTRAL_8X22B);
    assert_eq!(Grok1::ARCHITECTURE, moe_model::preset::GROK_1);
    const { assert!(Grok1::ARCHITECTURE.parameters().total() == 315684820992) };
    const { assert!(Grok1::ARCHITECTURE.active_parameters() == 83756587008) };
    assert_eq!(Dbrx::ARCHITECTURE, moe_model::preset::DBRX);
    const { assert!(Dbrx::ARCHITECTURE.parameters().total() == 131596523520) };
    const { assert!(Dbrx::ARCHITECTURE.active_parameters() == 36469708800) };
    assert_eq!(Phi35Moe::ARCHITECTURE, moe_model::preset::PHI_3_5_MOE);
    const { assert!(Phi35Moe::ARCHITECTURE.parameters().total() == 41873153344) };
    const { assert!(Phi35Moe::ARCHITECTURE.active_parameters() == 6640999744) };
    assert_eq!(Olmoe1b7b::ARCHITECTURE, moe_model::preset::OLMOE_1B_7B);
    const { assert!(Olmoe1b7b::ARCHITECTURE.parameters().total() == 6919161856) };
    const { assert!(Olmoe1b7b::ARCHITECTURE.active_parameters() == 1282017280) };
    assert_eq!(Granite311bA400m::ARCHITECTURE, moe_model::preset::GRANITE_3_1_1B_A400M);
    const { assert!(Granite311bA400m::ARCHITECTURE.parameters().total() == 1334628352) };
    const { assert!(Granite311bA400m::ARCHITECTURE.active_parameters() == 428658688) };
    assert_eq!(GptOss120b::ARCHITECTURE, moe_model::preset::GPT_OSS_120B);
    const { assert!(GptOss120b::ARCHITECTURE.parameters().total() == 116829156672) };
    const { assert!(GptOss120b::ARCHITECTURE.active_parameters() == 5711982912) };
    assert_eq!(JambaV01::ARCHITECTURE, moe_model::preset::JAMBA_V0_1);
    const { assert!(JambaV01::ARCHITECTURE.parameters().total() == 51570323328) };
    const { assert!(JambaV01::ARCHITECTURE.active_parameters() == 12110311296) };
    assert_eq!(Nemotron3Nano30bA3b::ARCHITECTURE, moe_model::preset::NEMOTRON_3_NANO_30B_A3B);
    const { assert!(Nemotron3Nano30bA3b::ARCHITECTURE.parameters().total() == 31577937344) };
    const { assert!(Nemotron3Nano30bA3b::ARCHITECTURE.active_parameters() == 3580073408) };
    assert_eq!(Gemma426bA4b::ARCHITECTURE, moe_model::preset::GEMMA_4_26B_A4B);
    const { assert!(Gemma426bA4b::ARCHITECTURE.parameters().total() == 25233141760) };
    const { assert!(Gemma426bA4b::ARCHITECTURE.active_parameters() == 3822530560) };
    assert_eq!(Llama27b::ARCHITECTURE, moe_model::preset::LLAMA_2_7B);
    const { assert!(Llama27b::ARCHITECTURE.parameters().total() == 6738415616) };
    const { assert!(Llama27b::ARCHITECTURE.active_parameters() == 6738415616) };
    assert_eq!(Llama318b::ARCHITECTURE, moe_model::preset::LLAMA_3_1_8B);
    const { assert!(Llama318b::ARCHITECTURE.parameters().total() == 8030261248) };
    const { assert!(Llama318b::ARCHITECTURE.active_parameters() == 8030261248) };
    assert_eq!(Llama3170b::ARCHITECTURE, moe_model::preset::LLAMA_3_1_70B);
    const { assert!(Llama3170b::ARCHITECTURE.parameters().total() == 70553706496) };
    const { assert!(Llama3170b::ARCHITECTURE.active_parameters() == 70553706496) };
    assert_eq!(Llama4Scout::ARCHITECTURE, moe_model::preset::LLAMA_4_SCOUT);
    const { assert!(Llama4Scout::ARCHITECTURE.parameters().total() == 107769861120) };
    const { assert!(Llama4Scout::ARCHITECTURE.active_parameters() == 17172894720) };
    assert_eq!(Llama4Maverick::ARCHITECTURE, moe_model::preset::LLAMA_4_MAVERICK);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layer_scalar: On, hyper_connections: 0, positions: 2048, layers: Layers { dense: 3, moe: 2, ffn: 1234567, moe_every: 2, list: LayerList(), beside: Dense, gated: Off, bias: On }, attention: Gqa(Gqa { heads: 16, kv_heads: 4, head_dim: 64, bias: All, qk_norm: Full, sinks: On, output_gate: On, value_dim: 0, key_as_value: On, window: 4096, full_every: 0 }), mixer: None, experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter, latent: 1024, identity: 32, hash_layers: 0, router_scale: On }, mtp: 0 }";
    assert_eq!(format!("{:?}", EveryKey::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layer_scalar: On, hyper_connections: 0, positions: 2048, layers: Layers { dense: 3, moe: 2, ffn: 1234567, moe_every: 2, list: LayerList(), beside: None, gated: Off, bias: On }, attention: Mla(Mla { heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32, indexer_dim: 128 }), mixer: None, experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter, latent: 1024, identity: 32, hash_layers: 0, router_scale: On }, mtp: 1 }";
    assert_eq!(format!("{:?}", Latent::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layer_scalar: On, hyper_connections: 4, positions: 2048, layers: Layers { dense: 3, moe: 2, ffn: 1234567, moe_every: 1, list: LayerList(amcHM), beside: None, gated: Off, bias: On }, attention: Compressed(Compressed { heads: 16, q_rank: 768, head_dim: 64, output_groups: 8, output_rank: 256, compress: 4, compress_heavy: 128, indexer_heads: 32, indexer_dim: 128, window: 128 }), mixer: GatedDeltaNet(GatedDeltaNet { key_heads: 16, value_heads: 32, key_dim: 64, value_dim: 128, conv: 4 }), experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: On, latent: 1024, identity: 32, hash_layers: 1, router_scale: On }, mtp: 0 }";
    assert_eq!(format!("{:?}", Compressed::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 64, vocab: 100, tied_embeddings: Off, head_bias: Off, norm: Rms, norms_per_layer: 2, layer_scalar: Off, hyper_connections: 0, positions: 0, layers: Layers { dense: 1, moe: 0, ffn: 256, moe_every: 1, list: LayerList(), beside: None, gated: On, bias: Off }, attention: Gqa(Gqa { heads: 1, kv_heads: 1, head_dim: 0, bias: None, qk_norm: None, sinks: Off, output_gate: Off, value_dim: 0, key_as_value: Off, window: 0, full_every: 0 }), mixer: None, experts: Experts { routed: 0, shared: 0, active: 0, ffn: 0, bias: Off, shared_ffn: 0, shared_gate: Off, router_bias: Off, groups: 1, active_groups: 1, correction_bias: Off, latent: 0, identity: 0, hash_layers: 0, router_scale: Off }, mtp: 0 }";
    assert_eq!(format!("{:?}", Fewest::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layer_scalar: On, hyper_connections: 0, positions: 2048, layers: Layers { dense: 3, moe: 2, ffn: 1234567, moe_every: 2, list: LayerList(), beside: None, gated: Off, bias: On }, attention: Gqa(Gqa { heads: 16, kv_heads: 8, head_dim: 96, bias: None, qk_norm: None, sinks: Off, output_gate: Off, value_dim: 0, key_as_value: Off, window: 4096, full_every: 2 }), mixer: None, experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter, latent: 1024, identity: 32, hash_layers: 0, router_scale: On }, mtp: 0 }";
    assert_eq!(format!("{:?}", WithWindows::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layer_scalar: On, hyper_connections: 0, positions: 2048, layers: Layers { dense: 3, moe: 2, ffn: 1234567, moe_every: 1, list: LayerList(aMamA), beside: None, gated: Off, bias: On }, attention: Gqa(Gqa { heads: 16, kv_heads: 8, head_dim: 96, bias: None, qk_norm: None, sinks: Off, output_gate: Off, value_dim: 48, key_as_value: Off, window: 0, full_every: 0 }), mixer: LocalGqa(LocalGqa { heads: 32, kv_heads: 8, head_dim: 96, value_dim: 48, bias: Qkv, qk_norm: Head, sinks: On, shared_kv: On, window: 1024 }), experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter, latent: 1024, identity: 32, hash_layers: 0, router_scale: On }, mtp: 1 }";
    assert_eq!(format!("{:?}", WithGqa::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layer_scalar: On, hyper_connections: 0, positions: 2048, layers: Layers { dense: 3, moe: 2, ffn: 1234567, moe_every: 1, list: LayerList(aMamA), beside: None, gated: Off, bias: On }, attention: Mla(Mla { heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32, indexer_dim: 128 }), mixer: Kda(Kda { heads: 32, head_dim: 128, conv: 4 }), experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter, latent: 1024, identity: 32, hash_layers: 0, router_scale: On }, mtp: 1 }";
    assert_eq!(format!("{:?}", WithKda::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layer_scalar: On, hyper_connections: 0, positions: 2048, layers: Layers { dense: 3, moe: 2, ffn: 1234567, moe_every: 1, list: LayerList(aMamA), beside: None, gated: Off, bias: On }, attention: Mla(Mla { heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32, indexer_dim: 128 }), mixer: Lightning(Lightning { heads: 64, head_dim: 128, block: 256 }), experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter, latent: 1024, identity: 32, hash_layers: 0, router_scale: On }, mtp: 1 }";
    assert_eq!(format!("{:?}", WithLightning::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layer_scalar: On, hyper_connections: 0, positions: 2048, layers: Layers { dense: 3, moe: 2, ffn: 1234567, moe_every: 1, list: LayerList(aMamA), beside: None, gated: Off, bias: On }, attention: Mla(Mla { heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32, indexer_dim: 128 }), mixer: Mamba1(Mamba1 { inner: 8192, state: 16, conv: 4, time_rank: 256 }), experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter, latent: 1024, identity: 32, hash_layers: 0, router_scale: On }, mtp: 1 }";
    assert_eq!(format!("{:?}", WithMamba1::ARCHITECTURE), meant);
    let meant = "Architecture { hidden: 9999, vocab: 10000, tied_embeddings: On, head_bias: On, norm: LayerBias, norms_per_layer: 4, layer_scalar: On, hyper_connections: 0, positions: 2048, layers: Layers { dense: 3, moe: 2, ffn: 1234567, moe_every: 1, list: LayerList(aMamA), beside: None, gated: Off, bias: On }, attention: Mla(Mla { heads: 16, q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256, indexer_heads: 32, indexer_dim: 128 }), mixer: Mamba2(Mamba2 { heads: 64, head_dim: 64, state: 128, groups: 8, conv: 4 }), experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, bias: On, shared_ffn: 5632, shared_gate: On, router_bias: On, groups: 8, active_groups: 4, correction_bias: Parameter, latent: 1024, identity: 32, hash_layers: 0, router_scale: On }, mtp: 1 }";
    assert_eq!(format!("{:?}", WithMamba2::ARCHITECTURE), meant);
}
