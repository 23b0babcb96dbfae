//! `olmoe` (OLMoE): experts in every layer, queries and keys normalised over all heads.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{all_moe, bias, ends, gqa_of_even_width};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, QkNorm, Switch};

pub(super) const OLMOE: ModelType = ModelType {
    name: "olmoe",
    class: &[r#"["OlmoeForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle { only: &[("hidden_act", &[r#""silu""#])], ignored: &["clip_qkv", "norm_topk_prob"] },
    read: olmoe,
};

fn olmoe(fields: &mut Fields<'_>) -> Architecture {
    let ends = ends(fields);
    let attention = gqa_of_even_width(fields, ends.hidden);
    Architecture {
        layers: all_moe(fields),
        attention: Attention::Gqa(Gqa {
            bias: bias(fields, Bias::All, Switch::Off),
            qk_norm: QkNorm::Full,
            ..attention
        }),
        experts: Experts {
            routed: fields.number("num_experts"),
            active: fields.number("num_experts_per_tok"),
            ffn: fields.number("intermediate_size"),
            ..Experts::DEFAULT
        },
        ..ends
    }
}
