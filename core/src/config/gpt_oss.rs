//! `gpt_oss`: experts in every layer, with a bias in each projection and in the router, and a sink for each head.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{all_moe, bias, ends, full_every_type, gqa_of_width, local_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, Switch};
use alloc::format;

pub(super) const GPT_OSS: ModelType = ModelType {
    name: "gpt_oss",
    class: &[r#"["GptOssForCausalLM"]"#],
    naming: &Naming::GPT_OSS,
    idle: Idle {
        only: &[("hidden_act", &[r#""silu""#])],
        ignored: &["initial_context_length", "swiglu_alpha", "swiglu_limit"],
    },
    read: gpt_oss,
};

fn gpt_oss(fields: &mut Fields<'_>) -> Architecture {
    let (attention, experts) = (gqa_of_width(fields), local_experts(fields));
    let window = fields.positive("sliding_window");
    // The published code has it so where no list says otherwise.
    let full_every = full_every_type(fields, "sliding_attention", 2);
    // The name that the model's own code uses.
    let own = fields.optional("experts_per_token");
    if own.is_some_and(|own| own != experts.active) {
        let how = format!("is not `num_experts_per_tok` = {}", experts.active);
        fields.contradicts("experts_per_token", &["num_experts_per_tok"], how);
    }
    Architecture {
        layers: all_moe(fields),
        attention: Attention::Gqa(Gqa {
            bias: bias(fields, Bias::All, Switch::On),
            sinks: Switch::On,
            window,
            full_every,
            ..attention
        }),
        experts: Experts { bias: Switch::On, router_bias: Switch::On, ..experts },
        ..ends(fields)
    }
}
