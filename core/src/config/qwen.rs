//! `qwen2_moe` (Qwen1.5-MoE), `qwen3` and `qwen3_moe`.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{listed, listed_count};
use super::parts::{bias, ends, every, gqa, gqa_of_width, layer_count};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, LayerKind, Layers, QkNorm, Switch};
use alloc::format;
use serde_json::Value;

/// Experts in every layer beside a gated shared one, and biases that no published config mentions.
pub(super) const QWEN2_MOE: ModelType = ModelType {
    name: "qwen2_moe",
    class: &[r#"["Qwen2MoeForCausalLM"]"#],
    naming: &Naming::QWEN2_MOE,
    idle: Idle { only: &[("hidden_act", &[r#""silu""#])], ignored: IGNORED_MOE },
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
    idle: Idle { only: &[("hidden_act", &[r#""silu""#])], ignored: IGNORED_MOE },
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

/// Experts in every layer, or every so many; some layers may be dense all the same.
fn sparse(fields: &mut Fields<'_>) -> Layers {
    const LISTED: &str = "mlp_only_layers";
    if fields.list(LISTED).is_none_or(<[_]>::is_empty) {
        return every(fields, "decoder_sparse_step", "intermediate_size");
    }
    let dense = fields.items(LISTED, Value::as_u64);
    let (count, step) = (listed_count(fields), fields.optional("decoder_sparse_step").unwrap_or(1));
    let step = fields.above_0("decoder_sparse_step", step).max(1);
    if let Some(beyond) = dense.iter().find(|layer| **layer >= count) {
        fields.contradicts(LISTED, &["num_hidden_layers"], format!("holds {beyond}; there are {count} layers, from 0"));
    }
    let has_experts = |layer: u64| !dense.contains(&layer) && (layer + 1).is_multiple_of(step);
    let network = |layer| if has_experts(layer) { LayerKind::Moe } else { LayerKind::Dense };
    Layers {
        ffn: fields.number("intermediate_size"),
        ..listed((0..count).map(|layer| [LayerKind::Attention, network(layer)]))
    }
}

fn experts(fields: &mut Fields<'_>) -> Experts {
    // transformers 5 writes the second name.
    let is_renamed = !fields.has("num_experts") && fields.has("num_local_experts");
    Experts {
        routed: fields.number(if is_renamed { "num_local_experts" } else { "num_experts" }),
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
