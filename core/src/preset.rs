//! Architectures of published models by name, for a declaration to build on: `architecture: preset(deepseek_v3)`.
//!
//! Only what the keys of an architecture say exactly stands here: the number of parameters of each, all and active, is
//! that of the published model to the last one (`tests/presets.rs`).
#![allow(clippy::needless_update)] // a key that is added later is at its default in what was published before

use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, CorrectionBias, Experts, Gqa, Layers, Mla};

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
}

/// Latent attention with the widths of DeepSeek-V2, which its successors kept.
const fn mla(heads: u64, q_rank: u64) -> Attention {
    Attention::Mla(Mla { heads, q_rank, kv_rank: 512, nope: 128, rope: 64, value: 128, ..Mla::DEFAULT })
}

const fn gqa(heads: u64, kv_heads: u64, head_dim: u64) -> Attention {
    Attention::Gqa(Gqa { heads, kv_heads, head_dim, ..Gqa::DEFAULT })
}
