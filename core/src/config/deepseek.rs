//! `deepseek` (the first of them), `deepseek_v2`, `deepseek_v3`, `kimi_k2`, which is the third with other sizes, and
//! `deepseek_v32`, which is the third with an indexer.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{bias, dense_first, ends, experts, gqa, grouped, mla, with_indexer};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, CorrectionBias, Experts, Gqa, Layers, Switch};

/// Multi-head attention, softmax over all experts.
pub(super) const DEEPSEEK: ModelType = ModelType {
    name: "deepseek",
    class: &[r#"["DeepseekForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle { only: &[("hidden_act", &[r#""silu""#]), ("moe_layer_freq", &["1"])], ignored: IGNORED },
    read: deepseek,
};

/// Latent attention, softmax over all experts or over some groups of them.
pub(super) const DEEPSEEK_V2: ModelType = ModelType {
    name: "deepseek_v2",
    class: &[r#"["DeepseekV2ForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle {
        only: &[
            ("attention_bias", &["false"]),
            ("hidden_act", &[r#""silu""#]),
            ("mlp_bias", &["false"]),
            ("moe_layer_freq", &["1"]),
        ],
        ignored: IGNORED,
    },
    read: deepseek_v2,
};

/// Latent attention, a correction bias in every router, multi-token prediction.
pub(super) const DEEPSEEK_V3: ModelType = ModelType {
    name: "deepseek_v3",
    class: &[r#"["DeepseekV3ForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle {
        only: &[
            ("attention_bias", &["false"]),
            ("hidden_act", &[r#""silu""#]),
            ("moe_layer_freq", &["1"]),
            ("topk_method", &[r#""noaux_tc""#]),
        ],
        ignored: IGNORED,
    },
    read: deepseek_v3,
};

/// DeepSeek-V3's code, and so its name of the class.
pub(super) const KIMI_K2: ModelType = ModelType { name: "kimi_k2", ..DEEPSEEK_V3 };

/// The third, whose attention looks at the tokens that an indexer chooses.
pub(super) const DEEPSEEK_V32: ModelType =
    ModelType { name: "deepseek_v32", class: &[r#"["DeepseekV32ForCausalLM"]"#], read: deepseek_v32, ..DEEPSEEK_V3 };

/// How scores become weights, losses, how many ranks it was trained on, the order of rotary pairs.
const IGNORED: &[&str] = &[
    "aux_loss_alpha",
    "ep_size",
    "norm_topk_prob",
    "rope_interleave",
    "routed_scaling_factor",
    "scoring_func",
    "seq_aux",
];

fn deepseek(fields: &mut Fields<'_>) -> Architecture {
    let ends = ends(fields);
    let attention = gqa(fields, ends.hidden);
    Architecture {
        layers: dense_first(fields),
        attention: Attention::Gqa(Gqa { bias: bias(fields, Bias::All, Switch::Off), ..attention }),
        experts: experts(fields),
        ..ends
    }
}

fn deepseek_v2(fields: &mut Fields<'_>) -> Architecture {
    let experts = experts(fields);
    let by_groups = fields.word("topk_method", &[r#""greedy""#, r#""group_limited_greedy""#]) == Some(1);
    let in_groups = grouped(fields, experts);
    Architecture {
        layers: dense_first(fields),
        attention: Attention::Mla(mla(fields)),
        // Greedy routing knows no groups, whatever the config calls them.
        experts: if by_groups { in_groups } else { experts },
        ..ends(fields)
    }
}

fn deepseek_v3(fields: &mut Fields<'_>) -> Architecture {
    like_deepseek_v3(fields, dense_first)
}

/// DeepSeek-V3's architecture, with layers as a config says them.
pub(super) fn like_deepseek_v3(fields: &mut Fields<'_>, layers: fn(&mut Fields<'_>) -> Layers) -> Architecture {
    let experts = experts(fields);
    Architecture {
        layers: layers(fields),
        attention: Attention::Mla(mla(fields)),
        experts: Experts { correction_bias: CorrectionBias::On, ..grouped(fields, experts) },
        mtp: fields.optional("num_nextn_predict_layers").unwrap_or(0),
        ..ends(fields)
    }
}

fn deepseek_v32(fields: &mut Fields<'_>) -> Architecture {
    let dense = deepseek_v3(fields);
    with_indexer(fields, dense)
}
