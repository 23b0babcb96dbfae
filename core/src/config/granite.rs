//! `granitemoe` (Granite 3.0 and 3.1): experts in every layer, and multipliers that are no tensors.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{all_moe, bias, ends, gqa, local_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Gqa, Switch};

pub(super) const GRANITEMOE: ModelType = ModelType {
    name: "granitemoe",
    class: &[r#"["GraniteMoeForCausalLM"]"#],
    naming: &Naming::GRANITEMOE,
    idle: Idle {
        only: &[("hidden_act", &[r#""silu""#])],
        ignored: &["attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier"],
    },
    read: granitemoe,
};

fn granitemoe(fields: &mut Fields<'_>) -> Architecture {
    let ends = ends(fields);
    let attention = gqa(fields, ends.hidden);
    Architecture {
        layers: all_moe(fields),
        attention: Attention::Gqa(Gqa { bias: bias(fields, Bias::All, Switch::Off), ..attention }),
        experts: local_experts(fields),
        ..ends
    }
}
