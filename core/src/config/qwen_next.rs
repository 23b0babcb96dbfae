//! `qwen3_next` (Qwen3-Next) and `qwen3_5_moe` (Qwen3.5 with experts): most layers have linear attention, the others one
//! whose output is gated.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{LINEAR, blocks_or, listed, listed_count, mixer, pairs};
use super::parts::{around, bias, ends, gqa_of_width, text};
use super::qwen::gated_experts;
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, GatedDeltaNet, Gqa, LayerKind, Mixer, QkNorm, Switch};
use alloc::vec::Vec;

pub(super) const QWEN3_NEXT: ModelType = ModelType {
    name: "qwen3_next",
    class: &[r#"["Qwen3NextForCausalLM"]"#],
    naming: &Naming::QWEN3_NEXT,
    idle: Idle {
        only: &[
            ("attn_output_gate", &["true"]),
            ("decoder_sparse_step", &["1"]),
            ("hidden_act", &[r#""silu""#]),
            ("mlp_only_layers", &["[]"]),
        ],
        // No layer is dense; how scores become weights, and windows.
        ignored: &["intermediate_size", "norm_topk_prob", "sliding_window", "use_sliding_window"],
    },
    read: qwen3_next,
};

/// The text decoder, whose fields are an object of their own.
pub(super) const QWEN3_5_MOE: ModelType = ModelType {
    name: "qwen3_5_moe",
    class: &[r#"["Qwen3_5MoeForConditionalGeneration"]"#],
    naming: &Naming::QWEN2_MOE,
    idle: Idle {
        only: &[],
        // Tokens with a role, and the vision tower, which is no part of the decoder.
        ignored: &["image_token_id", "video_token_id", "vision_config", "vision_end_token_id", "vision_start_token_id"],
    },
    read: qwen3_5_moe,
};

const TEXT: Idle = Idle {
    only: &[
        ("attn_output_gate", &["true"]),
        ("hidden_act", &[r#""silu""#]),
        ("mlp_only_layers", &["[]"]),
        ("model_type", &[r#""qwen3_5_moe_text""#]),
    ],
    // A number format. Checkpoints hold multi-token-prediction modules, but transformers builds none: they are neither
    // counted nor listed here.
    ignored: &["mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"],
};

fn qwen3_5_moe(fields: &mut Fields<'_>) -> Architecture {
    let decoder = text(fields, &TEXT, qwen3_next);
    around(fields, decoder, Switch::Off)
}

fn qwen3_next(fields: &mut Fields<'_>) -> Architecture {
    let (attention, mixers) = (gqa_of_width(fields), mixers(fields));
    let layers = listed(pairs(&mixers, core::iter::repeat(LayerKind::Moe)));
    Architecture {
        attention: Attention::Gqa(Gqa {
            bias: bias(fields, Bias::All, Switch::Off),
            qk_norm: QkNorm::Head,
            output_gate: Switch::On,
            ..attention
        }),
        mixer: mixer(&layers, Mixer::GatedDeltaNet(gated_delta_net(fields))),
        layers,
        experts: gated_experts(fields),
        ..ends(fields)
    }
}

/// Attention or linear attention: by a word for each layer, or attention in every so manieth.
fn mixers(fields: &mut Fields<'_>) -> Vec<LayerKind> {
    const STEP: &str = "full_attention_interval";
    let count = listed_count(fields);
    let of = |step, layer: u64| {
        if (layer + 1).is_multiple_of(step) { LayerKind::Attention } else { LayerKind::Mixer }
    };
    let (mixers, step) = blocks_or(fields, ("layer_types", LINEAR), STEP, count, of);
    if let Some(step) = step {
        fields.above_0(STEP, step);
    }
    mixers
}

fn gated_delta_net(fields: &mut Fields<'_>) -> GatedDeltaNet {
    GatedDeltaNet {
        key_heads: fields.number("linear_num_key_heads"),
        value_heads: fields.number("linear_num_value_heads"),
        key_dim: fields.number("linear_key_head_dim"),
        value_dim: fields.number("linear_value_head_dim"),
        conv: fields.number("linear_conv_kernel_dim"),
    }
}
