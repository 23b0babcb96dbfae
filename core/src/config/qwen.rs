//! `qwen2_moe` (Qwen1.5-MoE), `qwen3` and `qwen3_moe`.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{bias, ends, every, gqa, gqa_of_width, layer_count};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, Layers, QkNorm, Switch};

/// Experts in every layer beside a gated shared one, and biases that no published config mentions.
pub(super) const QWEN2_MOE: ModelType = ModelType {
    name: "qwen2_moe",
    class: &[r#"["Qwen2MoeForCausalLM"]"#],
    naming: &Naming::QWEN2_MOE,
    idle: Idle { only: &[("hidden_act", &[r#""silu""#]), ("mlp_only_layers", &["[]"])], ignored: IGNORED_MOE },
    read: qwen2_moe,
};

/// Dense layers, each head's queries and keys normalised.
pub(super) const QWEN3: ModelType = ModelType {
    name: "qwen3",
    class: &[r#"["Qwen3ForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle { only: &[("hidden_act", &[r#""silu""#])], ignored: IGNORED },
    read: qwen3,
};

/// The same with experts in every layer.
pub(super) const QWEN3_MOE: ModelType = ModelType {
    name: "qwen3_moe",
    class: &[r#"["Qwen3MoeForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle { only: &[("hidden_act", &[r#""silu""#]), ("mlp_only_layers", &["[]"])], ignored: IGNORED_MOE },
    read: qwen3_moe,
};

/// A window masks scores, and changes no tensor.
const IGNORED: &[&str] = &["max_window_layers", "sliding_window", "use_sliding_window"];

/// How scores become weights, and windows.
const IGNORED_MOE: &[&str] = &["max_window_layers", "norm_topk_prob", "sliding_window", "use_sliding_window"];

fn qwen2_moe(fields: &mut Fields<'_>) -> Architecture {
    let ends = ends(fields);
    let attention = gqa(fields, ends.hidden);
    windows(fields);
    let is_biased = fields.switch("qkv_bias", Switch::On).is_on();
    Architecture {
        layers: sparse(fields),
        attention: Attention::Gqa(Gqa { bias: if is_biased { Bias::Qkv } else { Bias::None }, ..attention }),
        experts: gated_experts(fields),
        ..ends
    }
}

fn qwen3(fields: &mut Fields<'_>) -> Architecture {
    let ends = ends(fields);
    Architecture {
        attention: attention(fields),
        layers: Layers {
            dense: layer_count(fields),
            moe: 0,
            ffn: fields.number("intermediate_size"),
            ..Layers::DEFAULT
        },
        ..ends
    }
}

fn qwen3_moe(fields: &mut Fields<'_>) -> Architecture {
    let ends = ends(fields);
    Architecture { attention: attention(fields), layers: sparse(fields), experts: experts(fields), ..ends }
}

fn attention(fields: &mut Fields<'_>) -> Attention {
    let attention = gqa_of_width(fields);
    windows(fields);
    Attention::Gqa(Gqa { bias: bias(fields, Bias::All, Switch::Off), qk_norm: QkNorm::Head, ..attention })
}

/// Which layers have a window.
fn windows(fields: &mut Fields<'_>) {
    fields.each("layer_types", &["full_attention", "sliding_attention"]);
}

/// Experts in every layer, or every so many.
fn sparse(fields: &mut Fields<'_>) -> Layers {
    every(fields, "decoder_sparse_step", "intermediate_size")
}

fn experts(fields: &mut Fields<'_>) -> Experts {
    Experts {
        routed: fields.number("num_experts"),
        active: fields.number("num_experts_per_tok"),
        ffn: fields.number("moe_intermediate_size"),
        ..Experts::DEFAULT
    }
}

/// Beside them a gated shared one.
pub(super) fn gated_experts(fields: &mut Fields<'_>) -> Experts {
    Experts {
        shared: 1,
        shared_ffn: fields.positive("shared_expert_intermediate_size"),
        shared_gate: Switch::On,
        ..experts(fields)
    }
}
