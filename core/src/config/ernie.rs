//! `ernie4_5_moe` (ERNIE 4.5): dense layers first, counted by where experts start, and a correction bias that is trained.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{gqa, layer_count, layers};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, CorrectionBias, Experts, Layers, Switch};
use alloc::format;

pub(super) const ERNIE4_5_MOE: ModelType = ModelType {
    name: "ernie4_5_moe",
    class: &[r#"["Ernie4_5_MoeForCausalLM"]"#],
    naming: &Naming::ERNIE4_5_MOE,
    idle: Idle {
        only: &[
            ("hidden_act", &[r#""silu""#]),
            ("moe_layer_interval", &["1"]),
            // It would be one of every projection, those of experts too.
            ("use_bias", &["false"]),
        ],
        ignored: &["moe_norm_min"],
    },
    read: ernie4_5_moe,
};

fn ernie4_5_moe(fields: &mut Fields<'_>) -> Architecture {
    let hidden = fields.number("hidden_size");
    Architecture {
        hidden,
        vocab: fields.number("vocab_size"),
        // Unlike others' code, its own takes silence for yes.
        tied_embeddings: fields.switch("tie_word_embeddings", Switch::On),
        layers: started(fields),
        attention: Attention::Gqa(gqa(fields, hidden)),
        experts: Experts {
            routed: fields.number("moe_num_experts"),
            shared: fields.number("moe_num_shared_experts"),
            active: fields.number("moe_k"),
            ffn: fields.number("moe_intermediate_size"),
            correction_bias: CorrectionBias::Parameter,
            ..Experts::DEFAULT
        },
        ..Architecture::DEFAULT
    }
}

/// Layers with experts from one index on, to the last.
fn started(fields: &mut Fields<'_>) -> Layers {
    let (count, start) = (layer_count(fields), fields.number("moe_layer_start_index"));
    if let Some(end) = fields.optional("moe_layer_end_index")
        && end.checked_add(1) != Some(count)
    {
        let how = format!("is not the last of `num_hidden_layers` = {count} layers, counted from 0");
        fields.contradicts("moe_layer_end_index", &["num_hidden_layers"], how);
    }
    layers(fields, "moe_layer_start_index", count, start)
}
