//! `llama4` (Llama 4 Scout and Maverick): the text decoder, whose fields are an object of their own.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{bias, ends, every, gqa_of_width, local_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, Switch};

pub(super) const LLAMA4: ModelType = ModelType {
    name: "llama4",
    class: &[r#"["Llama4ForConditionalGeneration"]"#],
    naming: &Naming::LLAMA4,
    idle: Idle {
        only: &[
            ("tie_word_embeddings", &["false"]),
            // A vision tower is no decoder.
            ("vision_config", &[]),
        ],
        ignored: &["boi_token_index", "eoi_token_index", "image_token_index"],
    },
    read: llama4,
};

const TEXT: Idle = Idle {
    only: &[("hidden_act", &[r#""silu""#]), ("model_type", &[r#""llama4_text""#]), ("moe_layers", &[])],
    // Which scores are masked and how they are scaled, and norms without a weight.
    ignored: &[
        "attention_chunk_size",
        "attn_scale",
        "attn_temperature_tuning",
        "floor_scale",
        "no_rope_layer_interval",
        "no_rope_layers",
        "router_jitter_noise",
        "use_qk_norm",
    ],
};

fn llama4(fields: &mut Fields<'_>) -> Architecture {
    fields.nested("text_config", &TEXT, |fields| {
        let (attention, experts) = (gqa_of_width(fields), local_experts(fields));
        fields.each("layer_types", &["chunked_attention", "full_attention"]);
        Architecture {
            layers: every(fields, "interleave_moe_layer_step", "intermediate_size_mlp"),
            attention: Attention::Gqa(Gqa { bias: bias(fields, Bias::All, Switch::Off), ..attention }),
            // The code builds one, as wide as those that are routed to; no field says so.
            experts: Experts { shared: 1, ..experts },
            ..ends(fields)
        }
    })
}
