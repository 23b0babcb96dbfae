//! `mixtral`: experts in every layer; `intermediate_size` is the width of one.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{all_moe, ends, gqa, local_experts, window};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Gqa};

pub(super) const MIXTRAL: ModelType = ModelType {
    name: "mixtral",
    class: &[r#"["MixtralForCausalLM"]"#],
    naming: &Naming::MIXTRAL,
    idle: Idle { only: &[("hidden_act", &[r#""silu""#])], ignored: &["router_jitter_noise"] },
    read: mixtral,
};

fn mixtral(fields: &mut Fields<'_>) -> Architecture {
    let ends = ends(fields);
    Architecture {
        layers: all_moe(fields),
        attention: Attention::Gqa(Gqa { window: window(fields), ..gqa(fields, ends.hidden) }),
        experts: local_experts(fields),
        ..ends
    }
}
