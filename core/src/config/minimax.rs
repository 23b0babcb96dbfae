//! `minimax` (MiniMax-Text-01): experts in every layer, most of which have lightning attention. `minimax_m2` (MiniMax-M2
//! and its successors): experts in every layer, queries and keys normalised over all heads.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{LINEAR, blocks, listed, listed_count, mixer};
use super::parts::{all_moe, ends, gqa_of_width, local_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, CorrectionBias, Experts, Gqa, LayerKind, Lightning, Mixer, QkNorm};

pub(super) const MINIMAX: ModelType = ModelType {
    name: "minimax",
    class: &[r#"["MiniMaxForCausalLM"]"#],
    naming: &Naming::MIXTRAL,
    idle: Idle {
        only: &[("hidden_act", &[r#""silu""#]), ("shared_intermediate_size", &["0"])],
        // How much of the stream and of a block's output is added up, under two names each.
        ignored: &[
            "full_attn_alpha_factor",
            "full_attn_beta_factor",
            "layernorm_full_attention_alpha",
            "layernorm_full_attention_beta",
            "layernorm_linear_attention_alpha",
            "layernorm_linear_attention_beta",
            "layernorm_mlp_alpha",
            "layernorm_mlp_beta",
            "linear_attn_alpha_factor",
            "linear_attn_beta_factor",
            "mlp_alpha_factor",
            "mlp_beta_factor",
            "postnorm",
            "rotary_dim",
            "router_jitter_noise",
            "shared_moe_mode",
            "sliding_window",
        ],
    },
    read: minimax,
};

pub(super) const MINIMAX_M2: ModelType = ModelType {
    name: "minimax_m2",
    class: &[r#"["MiniMaxM2ForCausalLM"]"#],
    naming: &Naming::MIXTRAL,
    idle: Idle {
        only: &[
            ("hidden_act", &[r#""silu""#]),
            ("qk_norm_type", &[r#""per_layer""#]),
            ("shared_intermediate_size", &["0"]),
            ("use_qk_norm", &["true"]),
            ("use_routing_bias", &["true"]),
        ],
        // Its config counts multi-token-prediction modules, but neither the published code nor the checkpoint has one.
        ignored: &[
            "mtp_transformer_layers",
            "num_mtp_modules",
            "rotary_dim",
            "router_jitter_noise",
            "scoring_func",
            "use_mtp",
        ],
    },
    read: minimax_m2,
};

fn minimax(fields: &mut Fields<'_>) -> Architecture {
    let count = listed_count(fields);
    let mixers = blocks(fields, "layer_types", count, &LINEAR);
    let layers = listed(mixers.into_iter().map(|mixer| [mixer, LayerKind::Moe]));
    let attention = gqa_of_width(fields);
    // Its heads are those of attention, each with keys and values of its own.
    let Gqa { heads, head_dim, .. } = attention;
    let lightning = Lightning { heads, head_dim, block: fields.number("block_size") };
    Architecture {
        layers,
        attention: Attention::Gqa(attention),
        mixer: mixer(&layers, Mixer::Lightning(lightning)),
        experts: local_experts(fields),
        ..ends(fields)
    }
}

fn minimax_m2(fields: &mut Fields<'_>) -> Architecture {
    let (attention, experts) = (gqa_of_width(fields), local_experts(fields));
    Architecture {
        layers: all_moe(fields),
        attention: Attention::Gqa(Gqa { qk_norm: QkNorm::Full, ..attention }),
        experts: Experts { correction_bias: CorrectionBias::On, ..experts },
        ..ends(fields)
    }
}
