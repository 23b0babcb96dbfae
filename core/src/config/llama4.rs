//! `llama4` (Llama 4 Scout): the text decoder, whose fields are an object of their own.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{all_moe, bias, ends, gqa_of_width, local_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, Switch};

pub(super) const LLAMA4: ModelType = ModelType {
    name: "llama4",
    naming: &Naming::LLAMA4,
    idle: Idle {
        only: &[
            ("architectures", &[r#"["Llama4ForConditionalGeneration"]"#]),
            ("tie_word_embeddings", &["false"]),
            // A vision tower is no decoder.
            ("vision_config", &[]),
        ],
        ignored: &["boi_token_index", "eoi_token_index", "image_token_index"],
    },
    read: llama4,
};

const TEXT: Idle = Idle {
    only: &[
        ("hidden_act", &[r#""silu""#]),
        // Every layer has experts.
        ("interleave_moe_layer_step", &["1"]),
        ("model_type", &[r#""llama4_text""#]),
        ("moe_layers", &[]),
    ],
    // Which scores are masked and how they are scaled, norms without a weight, and the width of dense layers, which are
    // none.
    ignored: &[
        "attention_chunk_size",
        "attn_scale",
        "attn_temperature_tuning",
        "floor_scale",
        "intermediate_size_mlp",
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
            layers: all_moe(fields),
            attention: Attention::Gqa(Gqa { bias: bias(fields, Bias::All, Switch::Off), ..attention }),
            // The code builds one, as wide as those that are routed to; no field says so.
            experts: Experts { shared: 1, ..experts },
            ..ends(fields)
        }
    })
}
