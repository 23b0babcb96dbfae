//! `phimoe` (Phi-3.5-MoE): Mixtral's layers with biases in attention, norms and head.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{all_moe, bias, ends, gqa_of_even_width, local_experts, window};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Gqa, Norm, Switch};

pub(super) const PHIMOE: ModelType = ModelType {
    name: "phimoe",
    class: &[r#"["PhimoeForCausalLM"]"#],
    naming: &Naming::MIXTRAL,
    idle: Idle {
        only: &[("hidden_act", &[r#""silu""#])],
        ignored: &["input_jitter_noise", "original_max_position_embeddings", "router_jitter_noise"],
    },
    read: phimoe,
};

fn phimoe(fields: &mut Fields<'_>) -> Architecture {
    let ends = ends(fields);
    let attention = gqa_of_even_width(fields, ends.hidden);
    Architecture {
        head_bias: fields.switch("lm_head_bias", Switch::Off),
        norm: Norm::LayerBias,
        layers: all_moe(fields),
        attention: Attention::Gqa(Gqa {
            bias: bias(fields, Bias::All, Switch::Off),
            window: window(fields),
            ..attention
        }),
        experts: local_experts(fields),
        ..ends
    }
}
