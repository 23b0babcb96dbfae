//! Architectures of published models by name, for a declaration to build on: `architecture: preset(deepseek_v3)`.
//!
//! Only what the keys of an architecture say exactly stands here: the number of parameters of each, all and active, is
//! that of the published model to the last one (`tests/presets.rs`).
#![allow(clippy::needless_update)] // a key that is added later is at its default in what was published before

use crate::checkpoint::Naming;
use crate::spec::{
    Architecture, Attention, Beside, Bias, Compressed, CorrectionBias, Experts, GatedDeltaNet, Gqa, LayerList, Layers,
    Lightning, LocalGqa, Mamba1, Mamba2, Mixer, Mla, Norm, QkNorm, Switch,
};

/// A named architecture.
#[derive(Debug)]
pub struct Preset {
    /// The name in a declaration: that of the constant in small letters.
    pub name: &'static str,
    /// The published model, in one line; parameters are [`Architecture::parameters`] and
    /// [`Architecture::active_parameters`], which count embedding and head.
    pub about: &'static str,
    /// Where its numbers stand: the model's `config.json` by its id on the Hugging Face hub, a paper, and their date.
    pub source: &'static str,
    /// How its checkpoint names and packs its tensors.
    pub naming: &'static Naming,
    /// The architecture.
    pub architecture: Architecture,
}

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }
}

/// The naming of a preset, behind its source; most are named like Llama's.
macro_rules! naming {
    () => {
        &Naming::LLAMA
    };
    ($naming:ident) => {
        &Naming::$naming
    };
}

macro_rules! presets {
    ($($constant:ident = $name:ident, $about:literal, $source:literal $(, $naming:ident)?: $architecture:expr;)*) => {
        $(
            #[doc = concat!($about, "\n\nIn a declaration: `architecture: preset(", stringify!($name), ")`.")]
            #[doc = concat!("\n\nSource: ", $source, ".")]
            pub const $constant: Architecture = $architecture;
        )*

        /// Every preset, by family and date.
        pub const PRESETS: &[Preset] = &[$(Preset {
            name: stringify!($name),
            about: $about,
            source: $source,
            naming: naming!($($naming)?),
            architecture: $constant,
        },)*];
    };
}

presets! {
    DEEPSEEK_MOE_16B = deepseek_moe_16b,
        "DeepSeekMoE 16B: 16.4B parameters, 2.8B active",
        "deepseek-ai/deepseek-moe-16b-base, arXiv:2401.06066, 2024-01-11":
        Architecture {
            hidden: 2048,
            vocab: 102_400,
            layers: Layers { dense: 1, moe: 27, ffn: 10_944, ..Layers::DEFAULT },
            attention: gqa(16, 16, 128),
            experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    DEEPSEEK_V2 = deepseek_v2,
        "DeepSeek-V2: 235.7B parameters, 21.4B active",
        "deepseek-ai/DeepSeek-V2, arXiv:2405.04434, 2024-05-07":
        Architecture {
            hidden: 5120,
            vocab: 102_400,
            layers: Layers { dense: 1, moe: 59, ffn: 12_288, ..Layers::DEFAULT },
            attention: mla(128, 1536),
            experts: Experts {
                routed: 160,
                shared: 2,
                active: 6,
                ffn: 1536,
                groups: 8,
                active_groups: 3,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    DEEPSEEK_V2_LITE = deepseek_v2_lite,
        "DeepSeek-V2-Lite: 15.7B parameters, 2.7B active; queries without a latent",
        "deepseek-ai/DeepSeek-V2-Lite, arXiv:2405.04434, 2024-05-15":
        Architecture {
            hidden: 2048,
            vocab: 102_400,
            layers: Layers { dense: 1, moe: 26, ffn: 10_944, ..Layers::DEFAULT },
            attention: mla(16, 0),
            experts: Experts { routed: 64, shared: 2, active: 6, ffn: 1408, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    DEEPSEEK_V3 = deepseek_v3,
        "DeepSeek-V3: 671.0B parameters, 37.6B active, and one multi-token-prediction module",
        "deepseek-ai/DeepSeek-V3, arXiv:2412.19437, 2024-12-27":
        Architecture {
            hidden: 7168,
            vocab: 129_280,
            layers: Layers { dense: 3, moe: 58, ffn: 18_432, ..Layers::DEFAULT },
            attention: mla(128, 1536),
            experts: Experts {
                routed: 256,
                shared: 1,
                active: 8,
                ffn: 2048,
                groups: 8,
                active_groups: 4,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            mtp: 1,
            ..Architecture::DEFAULT
        };

    DEEPSEEK_R1 = deepseek_r1,
        "DeepSeek-R1: the architecture of DeepSeek-V3, 671.0B parameters, 37.6B active",
        "deepseek-ai/DeepSeek-R1, arXiv:2501.12948, 2025-01-22":
        DEEPSEEK_V3;

    DEEPSEEK_V3_2 = deepseek_v3_2,
        "DeepSeek-V3.2: DeepSeek-V3 with an indexer in every layer, 671.9B parameters, 38.4B active",
        "deepseek-ai/DeepSeek-V3.2, 2025-12-01":
        Architecture {
            attention: Attention::Mla(Mla {
                heads: 128,
                q_rank: 1536,
                kv_rank: 512,
                nope: 128,
                rope: 64,
                value: 128,
                indexer_heads: 64,
                indexer_dim: 128,
            }),
            ..DEEPSEEK_V3
        };

    DEEPSEEK_V4_FLASH = deepseek_v4_flash,
        "DeepSeek-V4 Flash: 284.3B parameters, 13.8B active; attention over a window and compressed keys",
        "deepseek-ai/DeepSeek-V4-Flash, 2026-04-24", DEEPSEEK_V4:
        Architecture {
            hidden: 4096,
            vocab: 129_280,
            hyper_connections: 4,
            layers: Layers { moe: 43, list: LayerList::parse("AA(CH)*20C"), ..Layers::DEFAULT },
            attention: Attention::Compressed(Compressed {
                heads: 64,
                q_rank: 1024,
                head_dim: 512,
                output_groups: 8,
                output_rank: 1024,
                compress: 4,
                compress_heavy: 128,
                indexer_heads: 64,
                indexer_dim: 128,
                window: 128,
            }),
            experts: Experts {
                routed: 256,
                shared: 1,
                active: 6,
                ffn: 2048,
                correction_bias: CorrectionBias::On,
                hash_layers: 3,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    KIMI_K2 = kimi_k2,
        "Kimi K2: 1026.4B parameters, 32.9B active",
        "moonshotai/Kimi-K2-Instruct, arXiv:2507.20534, 2025-07-28":
        Architecture {
            hidden: 7168,
            vocab: 163_840,
            layers: Layers { dense: 1, moe: 60, ffn: 18_432, ..Layers::DEFAULT },
            attention: mla(64, 1536),
            experts: Experts {
                routed: 384,
                shared: 1,
                active: 8,
                ffn: 2048,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    DOTS_LLM1 = dots_llm1,
        "dots.llm1: 142.8B parameters, 14.0B active",
        "rednote-hilab/dots.llm1.inst, arXiv:2506.05767, 2025-06-06":
        Architecture {
            hidden: 4096,
            vocab: 152_064,
            layers: Layers { dense: 1, moe: 61, ffn: 10_944, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Head, ..heads(32, 32, 128) }),
            experts: Experts {
                routed: 128,
                shared: 2,
                active: 6,
                ffn: 1408,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    ERNIE_4_5_300B_A47B = ernie_4_5_300b_a47b,
        "ERNIE 4.5 300B-A47B, embeddings tied: 298.6B parameters, 47.1B active",
        "baidu/ERNIE-4.5-300B-A47B-PT, 2025-06-30", ERNIE4_5_MOE:
        Architecture {
            hidden: 8192,
            vocab: 103_424,
            tied_embeddings: Switch::On,
            layers: Layers { dense: 3, moe: 51, ffn: 28_672, ..Layers::DEFAULT },
            attention: gqa(64, 8, 128),
            experts: Experts {
                routed: 64,
                active: 8,
                ffn: 3584,
                correction_bias: CorrectionBias::Parameter,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    GLM_4_5 = glm_4_5,
        "GLM-4.5: 352.8B parameters, 33.6B active, and one multi-token-prediction module",
        "zai-org/GLM-4.5, arXiv:2508.06471, 2025-07-28":
        Architecture {
            hidden: 5120,
            vocab: 151_552,
            layers: Layers { dense: 3, moe: 89, ffn: 12_288, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { bias: Bias::Qkv, qk_norm: QkNorm::Head, ..heads(96, 8, 128) }),
            experts: Experts {
                routed: 160,
                shared: 1,
                active: 8,
                ffn: 1536,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            mtp: 1,
            ..Architecture::DEFAULT
        };

    GLM_4_7_FLASH = glm_4_7_flash,
        "GLM-4.7-Flash: 29.9B parameters, 3.9B active",
        "zai-org/GLM-4.7-Flash, 2026-01-19":
        Architecture {
            hidden: 2048,
            vocab: 154_880,
            layers: Layers { dense: 1, moe: 46, ffn: 10_240, ..Layers::DEFAULT },
            attention: Attention::Mla(Mla {
                heads: 20,
                q_rank: 768,
                kv_rank: 512,
                nope: 192,
                rope: 64,
                value: 256,
                ..Mla::DEFAULT
            }),
            experts: Experts {
                routed: 64,
                shared: 1,
                active: 4,
                ffn: 1536,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    GLM_5 = glm_5,
        "GLM-5: 743.9B parameters, 41.8B active, and one multi-token-prediction module",
        "zai-org/GLM-5, 2026-02-11":
        Architecture {
            hidden: 6144,
            vocab: 154_880,
            layers: Layers { dense: 3, moe: 75, ffn: 12_288, ..Layers::DEFAULT },
            attention: Attention::Mla(Mla {
                heads: 64,
                q_rank: 2048,
                kv_rank: 512,
                nope: 192,
                rope: 64,
                value: 256,
                indexer_heads: 32,
                indexer_dim: 128,
            }),
            experts: Experts {
                routed: 256,
                shared: 1,
                active: 8,
                ffn: 2048,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            mtp: 1,
            ..Architecture::DEFAULT
        };

    HUNYUAN_A13B = hunyuan_a13b,
        "Hunyuan-A13B: 80.4B parameters, 12.7B active",
        "tencent/Hunyuan-A13B-Instruct, 2025-06-27", HUNYUAN_V1_MOE:
        Architecture {
            hidden: 4096,
            vocab: 128_167,
            tied_embeddings: Switch::On,
            layers: Layers { moe: 32, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Head, ..heads(32, 8, 128) }),
            experts: Experts { routed: 64, shared: 1, active: 8, ffn: 3072, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    MINIMAX_M2_5 = minimax_m2_5,
        "MiniMax-M2.5: 228.7B parameters, 11.0B active",
        "MiniMaxAI/MiniMax-M2.5, 2026-02-12", MIXTRAL:
        Architecture {
            hidden: 3072,
            vocab: 200_064,
            layers: Layers { moe: 62, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Full, ..heads(48, 8, 128) }),
            experts: Experts {
                routed: 256,
                active: 8,
                ffn: 1536,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    MINIMAX_TEXT_01 = minimax_text_01,
        "MiniMax-Text-01: 456.1B parameters, 48.4B active; seven of eight layers are lightning attention",
        "MiniMaxAI/MiniMax-Text-01, arXiv:2501.08313, 2025-01-14", MIXTRAL:
        Architecture {
            hidden: 6144,
            vocab: 200_064,
            layers: Layers { moe: 80, list: LayerList::parse("(MMMMMMMA)*10"), ..Layers::DEFAULT },
            attention: gqa(64, 8, 128),
            mixer: Mixer::Lightning(Lightning { heads: 64, head_dim: 128, block: 256 }),
            experts: Experts { routed: 32, active: 2, ffn: 9216, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    MIMO_V2_FLASH = mimo_v2_flash,
        "MiMo-V2-Flash: 308.8B parameters, 15.4B active; layers with a window have key/value heads of their own",
        "XiaomiMiMo/MiMo-V2-Flash, 2025-12-16", MIMO_V2_FLASH:
        Architecture {
            hidden: 4096,
            vocab: 152_576,
            layers: Layers { dense: 1, moe: 47, ffn: 16_384, list: LayerList::parse("aMMMMA(MMMMMA)*7"), ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { value_dim: 128, ..heads(64, 4, 192) }),
            mixer: Mixer::LocalGqa(LocalGqa {
                heads: 64,
                kv_heads: 8,
                head_dim: 192,
                value_dim: 128,
                sinks: Switch::On,
                window: 128,
                ..LocalGqa::DEFAULT
            }),
            experts: Experts {
                routed: 256,
                active: 8,
                ffn: 2048,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    LONGCAT_FLASH = longcat_flash,
        "LongCat-Flash: 560.7B parameters, 32.2B active at most; experts are a shortcut across two blocks",
        "meituan-longcat/LongCat-Flash-Chat, arXiv:2509.01322, 2025-08-30", LONGCAT_FLASH:
        Architecture {
            hidden: 6144,
            vocab: 131_072,
            layers: Layers { moe: 28, ffn: 12_288, beside: Beside::TwoBlocks, ..Layers::DEFAULT },
            attention: mla(64, 1536),
            experts: Experts {
                routed: 512,
                active: 12,
                ffn: 2048,
                identity: 256,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    QWEN1_5_MOE_A2_7B = qwen1_5_moe_a2_7b,
        "Qwen1.5-MoE-A2.7B: 14.3B parameters, 2.7B active",
        "Qwen/Qwen1.5-MoE-A2.7B, 2024-03-28", QWEN2_MOE:
        Architecture {
            hidden: 2048,
            vocab: 151_936,
            layers: Layers { moe: 24, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { bias: Bias::Qkv, ..heads(16, 16, 128) }),
            experts: Experts {
                routed: 60,
                shared: 1,
                active: 4,
                ffn: 1408,
                shared_ffn: 5632,
                shared_gate: Switch::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    QWEN3_0_6B = qwen3_0_6b,
        "Qwen3 0.6B: 0.6B parameters, dense",
        "Qwen/Qwen3-0.6B, arXiv:2505.09388, 2025-04-29":
        Architecture {
            hidden: 1024,
            vocab: 151_936,
            tied_embeddings: Switch::On,
            layers: Layers { dense: 28, ffn: 3072, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Head, ..heads(16, 8, 128) }),
            ..Architecture::DEFAULT
        };

    QWEN3_8B = qwen3_8b,
        "Qwen3 8B: 8.2B parameters, dense",
        "Qwen/Qwen3-8B, arXiv:2505.09388, 2025-04-29":
        Architecture {
            hidden: 4096,
            vocab: 151_936,
            layers: Layers { dense: 36, ffn: 12_288, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Head, ..heads(32, 8, 128) }),
            ..Architecture::DEFAULT
        };

    QWEN3_30B_A3B = qwen3_30b_a3b,
        "Qwen3 30B-A3B: 30.5B parameters, 3.4B active",
        "Qwen/Qwen3-30B-A3B, arXiv:2505.09388, 2025-04-29":
        Architecture {
            hidden: 2048,
            vocab: 151_936,
            layers: Layers { moe: 48, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Head, ..heads(32, 4, 128) }),
            experts: Experts { routed: 128, active: 8, ffn: 768, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    QWEN3_235B_A22B = qwen3_235b_a22b,
        "Qwen3 235B-A22B: 235.1B parameters, 22.2B active",
        "Qwen/Qwen3-235B-A22B, arXiv:2505.09388, 2025-04-29":
        Architecture {
            hidden: 4096,
            vocab: 151_936,
            layers: Layers { moe: 94, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Head, ..heads(64, 4, 128) }),
            experts: Experts { routed: 128, active: 8, ffn: 1536, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    QWEN3_NEXT_80B_A3B = qwen3_next_80b_a3b,
        "Qwen3-Next 80B-A3B: 79.7B parameters, 3.9B active; three of four layers are Gated DeltaNet",
        "Qwen/Qwen3-Next-80B-A3B-Instruct, 2025-09-11", QWEN3_NEXT:
        Architecture {
            hidden: 2048,
            vocab: 151_936,
            layers: Layers { moe: 48, list: LayerList::parse("(MMMA)*12"), ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Head, output_gate: Switch::On, ..heads(16, 2, 256) }),
            mixer: Mixer::GatedDeltaNet(GatedDeltaNet {
                key_heads: 16,
                value_heads: 32,
                key_dim: 128,
                value_dim: 128,
                conv: 4,
            }),
            experts: Experts {
                routed: 512,
                shared: 1,
                active: 10,
                ffn: 512,
                shared_ffn: 512,
                shared_gate: Switch::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    QWEN3_5_35B_A3B = qwen3_5_35b_a3b,
        "Qwen3.5 35B-A3B, the text decoder: 34.7B parameters, 3.5B active; three of four layers are Gated DeltaNet",
        "Qwen/Qwen3.5-35B-A3B, 2026-02-24", QWEN2_MOE:
        Architecture {
            vocab: 248_320,
            layers: Layers { moe: 40, list: LayerList::parse("(MMMA)*10"), ..Layers::DEFAULT },
            experts: Experts { routed: 256, active: 8, ..QWEN3_NEXT_80B_A3B.experts },
            ..QWEN3_NEXT_80B_A3B
        };

    MIXTRAL_8X7B = mixtral_8x7b,
        "Mixtral 8x7B: 46.7B parameters, 12.9B active",
        "mistralai/Mixtral-8x7B-v0.1, arXiv:2401.04088, 2024-01-08", MIXTRAL:
        Architecture {
            hidden: 4096,
            vocab: 32_000,
            layers: Layers { moe: 32, ..Layers::DEFAULT },
            attention: gqa(32, 8, 128),
            experts: Experts { routed: 8, active: 2, ffn: 14_336, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    MIXTRAL_8X22B = mixtral_8x22b,
        "Mixtral 8x22B (v0.1, vocabulary of 32,000): 140.6B parameters, 39.2B active",
        "mistralai/Mixtral-8x22B-v0.1, 2024-04-17", MIXTRAL:
        Architecture {
            hidden: 6144,
            vocab: 32_000,
            layers: Layers { moe: 56, ..Layers::DEFAULT },
            attention: gqa(48, 8, 128),
            experts: Experts { routed: 8, active: 2, ffn: 16_384, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    GROK_1 = grok_1,
        "Grok-1: 315.7B parameters, 83.8B active",
        "xai-org/grok-1, 2024-03-17", GROK_1:
        Architecture {
            hidden: 6144,
            vocab: 131_072,
            tied_embeddings: Switch::On,
            norms_per_layer: 4,
            layers: Layers { moe: 64, ..Layers::DEFAULT },
            attention: gqa(48, 8, 128),
            // Two thirds of eight times the hidden width.
            experts: Experts { routed: 8, active: 2, ffn: 32_768, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    DBRX = dbrx,
        "DBRX: 131.6B parameters, 36.5B active",
        "databricks/dbrx-base, 2024-03-27", DBRX:
        Architecture {
            hidden: 6144,
            vocab: 100_352,
            norm: Norm::Layer,
            layers: Layers { moe: 40, ..Layers::DEFAULT },
            attention: gqa(48, 8, 128),
            experts: Experts { routed: 16, active: 4, ffn: 10_752, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    PHI_3_5_MOE = phi_3_5_moe,
        "Phi-3.5-MoE: 41.9B parameters, 6.6B active",
        "microsoft/Phi-3.5-MoE-instruct, 2024-08-20", MIXTRAL:
        Architecture {
            hidden: 4096,
            vocab: 32_064,
            head_bias: Switch::On,
            norm: Norm::LayerBias,
            layers: Layers { moe: 32, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { bias: Bias::All, window: 131_072, ..heads(32, 8, 128) }),
            experts: Experts { routed: 16, active: 2, ffn: 6400, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    OLMOE_1B_7B = olmoe_1b_7b,
        "OLMoE 1B-7B: 6.9B parameters, 1.3B active",
        "allenai/OLMoE-1B-7B-0924, arXiv:2409.02060, 2024-09-03":
        Architecture {
            hidden: 2048,
            vocab: 50_304,
            layers: Layers { moe: 16, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Full, ..heads(16, 16, 128) }),
            experts: Experts { routed: 64, active: 8, ffn: 1024, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    GRANITE_3_1_1B_A400M = granite_3_1_1b_a400m,
        "Granite 3.1 1B-A400M: 1.3B parameters, 0.4B active",
        "ibm-granite/granite-3.1-1b-a400m-instruct, 2024-12-18", GRANITEMOE:
        Architecture {
            hidden: 1024,
            vocab: 49_155,
            tied_embeddings: Switch::On,
            layers: Layers { moe: 24, ..Layers::DEFAULT },
            attention: gqa(16, 8, 64),
            experts: Experts { routed: 32, active: 8, ffn: 512, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    GPT_OSS_120B = gpt_oss_120b,
        "gpt-oss-120b: 116.8B parameters, 5.7B active",
        "openai/gpt-oss-120b, arXiv:2508.10925, 2025-08-05", GPT_OSS:
        Architecture {
            hidden: 2880,
            vocab: 201_088,
            layers: Layers { moe: 36, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa {
                bias: Bias::All,
                sinks: Switch::On,
                window: 128,
                full_every: 2,
                ..heads(64, 8, 64)
            }),
            experts: Experts {
                routed: 128,
                active: 4,
                ffn: 2880,
                bias: Switch::On,
                router_bias: Switch::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    JAMBA_V0_1 = jamba_v0_1,
        "Jamba v0.1: 51.6B parameters, 12.1B active; seven of eight layers are Mamba, every second one has experts",
        "ai21labs/Jamba-v0.1, arXiv:2403.19887, 2024-03-28", JAMBA:
        Architecture {
            hidden: 4096,
            vocab: 65_536,
            layers: Layers {
                dense: 16,
                moe: 16,
                ffn: 14_336,
                list: LayerList::parse("(mMmMaMmM)*4"),
                ..Layers::DEFAULT
            },
            attention: gqa(32, 8, 128),
            mixer: Mixer::Mamba1(Mamba1 { inner: 8192, state: 16, conv: 4, time_rank: 256 }),
            experts: Experts { routed: 16, active: 2, ffn: 14_336, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    NEMOTRON_3_NANO_30B_A3B = nemotron_3_nano_30b_a3b,
        "Nemotron 3 Nano: 31.6B parameters, 3.6B active; each layer is Mamba-2, attention or experts alone",
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16, 2025-12-15", NEMOTRON_H:
        Architecture {
            hidden: 2688,
            vocab: 131_072,
            norms_per_layer: 1,
            layers: Layers {
                moe: 23,
                list: LayerList::parse("memema(ememema)*4(em)*4a(em)*4e"),
                gated: Switch::Off,
                ..Layers::DEFAULT
            },
            attention: gqa(32, 2, 128),
            mixer: Mixer::Mamba2(Mamba2 { heads: 64, head_dim: 64, state: 128, groups: 8, conv: 4 }),
            experts: Experts {
                routed: 128,
                shared: 1,
                active: 6,
                ffn: 1856,
                shared_ffn: 3712,
                correction_bias: CorrectionBias::On,
                ..Experts::DEFAULT
            },
            ..Architecture::DEFAULT
        };

    GEMMA_4_26B_A4B = gemma_4_26b_a4b,
        "Gemma 4 26B-A4B, the text decoder: 25.2B parameters, 3.8B active; a dense network beside the experts",
        "google/gemma-4-26B-A4B, 2026-04-02", GEMMA4:
        Architecture {
            hidden: 2816,
            vocab: 262_144,
            tied_embeddings: Switch::On,
            norms_per_layer: 7,
            layer_scalar: Switch::On,
            layers: Layers {
                moe: 30,
                ffn: 2112,
                list: LayerList::parse("(MMMMMA)*5"),
                beside: Beside::Dense,
                ..Layers::DEFAULT
            },
            attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Head, key_as_value: Switch::On, ..heads(16, 2, 512) }),
            mixer: Mixer::LocalGqa(LocalGqa {
                heads: 16,
                kv_heads: 8,
                head_dim: 256,
                qk_norm: QkNorm::Head,
                window: 1024,
                ..LocalGqa::DEFAULT
            }),
            experts: Experts { routed: 128, active: 8, ffn: 704, router_scale: Switch::On, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    LLAMA_2_7B = llama_2_7b,
        "Llama 2 7B: 6.7B parameters, dense",
        "meta-llama/Llama-2-7b-hf, arXiv:2307.09288, 2023-07-18":
        Architecture {
            hidden: 4096,
            vocab: 32_000,
            layers: Layers { dense: 32, ffn: 11_008, ..Layers::DEFAULT },
            attention: gqa(32, 32, 128),
            ..Architecture::DEFAULT
        };

    LLAMA_3_1_8B = llama_3_1_8b,
        "Llama 3.1 8B: 8.0B parameters, dense",
        "meta-llama/Llama-3.1-8B, arXiv:2407.21783, 2024-07-31":
        Architecture {
            hidden: 4096,
            vocab: 128_256,
            layers: Layers { dense: 32, ffn: 14_336, ..Layers::DEFAULT },
            attention: gqa(32, 8, 128),
            ..Architecture::DEFAULT
        };

    LLAMA_3_1_70B = llama_3_1_70b,
        "Llama 3.1 70B: 70.6B parameters, dense",
        "meta-llama/Llama-3.1-70B, arXiv:2407.21783, 2024-07-31":
        Architecture {
            hidden: 8192,
            vocab: 128_256,
            layers: Layers { dense: 80, ffn: 28_672, ..Layers::DEFAULT },
            attention: gqa(64, 8, 128),
            ..Architecture::DEFAULT
        };

    LLAMA_4_SCOUT = llama_4_scout,
        "Llama 4 Scout, the text decoder: 107.8B parameters, 17.2B active",
        "meta-llama/Llama-4-Scout-17B-16E-Instruct, 2025-04-05", LLAMA4:
        Architecture {
            hidden: 5120,
            vocab: 202_048,
            layers: Layers { moe: 48, ..Layers::DEFAULT },
            attention: Attention::Gqa(Gqa { window: 8192, full_every: 4, ..heads(40, 8, 128) }),
            experts: Experts { routed: 16, shared: 1, active: 1, ffn: 8192, ..Experts::DEFAULT },
            ..Architecture::DEFAULT
        };

    LLAMA_4_MAVERICK = llama_4_maverick,
        "Llama 4 Maverick, the text decoder: 400.7B parameters, 17.2B active; every second layer is dense",
        "meta-llama/Llama-4-Maverick-17B-128E-Instruct, 2025-04-05", LLAMA4:
        Architecture {
            layers: Layers { dense: 24, moe: 24, ffn: 16_384, moe_every: 2, ..Layers::DEFAULT },
            experts: Experts { routed: 128, ..LLAMA_4_SCOUT.experts },
            ..LLAMA_4_SCOUT
        };
}

/// Latent attention with the widths of DeepSeek-V2, which its successors kept.
const fn mla(heads: u64, q_rank: u64) -> Attention {
    Attention::Mla(Mla { heads, q_rank, kv_rank: 512, nope: 128, rope: 64, value: 128, ..Mla::DEFAULT })
}

const fn gqa(heads: u64, kv_heads: u64, head_dim: u64) -> Attention {
    Attention::Gqa(self::heads(heads, kv_heads, head_dim))
}

const fn heads(heads: u64, kv_heads: u64, head_dim: u64) -> Gqa {
    Gqa { heads, kv_heads, head_dim, ..Gqa::DEFAULT }
}
