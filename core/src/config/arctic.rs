//! `arctic`: experts in every layer, and beside them a dense network as wide as the hidden state.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{all_moe, ends, gqa_of_even_width, local_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Beside, Layers};

pub(super) const ARCTIC: ModelType = ModelType {
    name: "arctic",
    class: &[r#"["ArcticForCausalLM"]"#],
    naming: &Naming::ARCTIC,
    idle: Idle {
        only: &[
            ("hidden_act", &[r#""silu""#]),
            ("moe_layer_frequency", &["1"]),
            ("parallel_attn_mlp_res", &["true"]),
            // The name that other code uses.
            ("use_residual", &["true"]),
        ],
        // How many tokens an expert takes, on which ranks it was trained, number formats, windows.
        ignored: &[
            "enable_expert_tensor_parallelism",
            "moe_eval_capacity_factor",
            "moe_min_capacity",
            "moe_token_dropping",
            "moe_train_capacity_factor",
            "quantization",
            "sliding_window",
        ],
    },
    read: arctic,
};

fn arctic(fields: &mut Fields<'_>) -> Architecture {
    // Their absence means another model.
    fields.needed("moe_layer_frequency");
    fields.needed("parallel_attn_mlp_res");
    let ends = ends(fields);
    Architecture {
        norms_per_layer: 3,
        layers: Layers { ffn: ends.hidden, beside: Beside::Dense, ..all_moe(fields) },
        attention: Attention::Gqa(gqa_of_even_width(fields, ends.hidden)),
        experts: local_experts(fields),
        ..ends
    }
}
