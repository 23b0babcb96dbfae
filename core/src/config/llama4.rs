//! `llama4` (Llama 4 Scout and Maverick): the text decoder, whose fields are an object of their own.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{bias, ends, every, full_every, full_every_type, gqa_of_width, local_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, Switch};
use serde_json::Value;

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
    ignored: &["attn_scale", "attn_temperature_tuning", "floor_scale", "router_jitter_noise", "use_qk_norm"],
};

fn llama4(fields: &mut Fields<'_>) -> Architecture {
    fields.nested("text_config", &TEXT, |fields| {
        let (attention, experts) = (gqa_of_width(fields), local_experts(fields));
        // Layers that turn keys by their position look at one piece of a sequence at a time.
        let window = fields.number_or_null("attention_chunk_size");
        let interval = fields.optional("no_rope_layer_interval").unwrap_or(4);
        let rope = |item: &Value| item.as_u64().filter(|rope| *rope < 2).map(|rope| rope == 0);
        let full_every = full_every(fields, "no_rope_layers", rope, interval);
        let full_every = full_every_type(fields, "chunked_attention", full_every);
        Architecture {
            layers: every(fields, "interleave_moe_layer_step", "intermediate_size_mlp"),
            attention: Attention::Gqa(Gqa {
                bias: bias(fields, Bias::All, Switch::Off),
                window,
                full_every: if window == 0 { 0 } else { full_every },
                ..attention
            }),
            // The code builds one, as wide as those that are routed to; no field says so.
            experts: Experts { shared: 1, ..experts },
            ..ends(fields)
        }
    })
}
