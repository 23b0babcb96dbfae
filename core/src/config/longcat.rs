//! `longcat_flash` (LongCat-Flash): two blocks of latent attention and a dense network in each layer, across which the
//! experts are a shortcut.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{ends, mla};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Beside, CorrectionBias, Experts, Layers, Mla};
use alloc::format;

pub(super) const LONGCAT_FLASH: ModelType = ModelType {
    name: "longcat_flash",
    class: &[r#"["LongcatFlashForCausalLM"]"#],
    naming: &Naming::LONGCAT_FLASH,
    idle: Idle {
        only: &[
            ("attention_bias", &["false"]),
            ("attention_method", &[r#""MLA""#]),
            ("hidden_act", &[r#""silu""#]),
            ("router_bias", &["false"]),
            ("zero_expert_type", &[r#""identity""#]),
        ],
        // How latents are scaled, and how scores become weights. Checkpoints hold multi-token-prediction modules, but
        // transformers builds none: they are neither counted nor listed here.
        ignored: &["mla_scale_kv_lora", "mla_scale_q_lora", "norm_topk_prob", "routed_scaling_factor"],
    },
    read: longcat_flash,
};

fn longcat_flash(fields: &mut Fields<'_>) -> Architecture {
    Architecture {
        layers: Layers {
            moe: layer_count(fields),
            ffn: fields.number("ffn_hidden_size"),
            beside: Beside::TwoBlocks,
            ..Layers::DEFAULT
        },
        attention: Attention::Mla(with_latent(fields)),
        experts: Experts {
            routed: fields.number("n_routed_experts"),
            active: fields.number("moe_topk"),
            ffn: fields.number("expert_ffn_hidden_size"),
            identity: fields.number_or_null("zero_expert_num"),
            correction_bias: CorrectionBias::On,
            ..Experts::DEFAULT
        },
        ..ends(fields)
    }
}

/// `num_hidden_layers` counts blocks, where it is there.
fn layer_count(fields: &mut Fields<'_>) -> u64 {
    let count = fields.number("num_layers");
    if let Some(blocks) = fields.optional("num_hidden_layers")
        && Some(blocks) != count.checked_mul(2)
    {
        let how = format!("is not twice `num_layers` = {count}, two blocks a layer");
        fields.contradicts("num_hidden_layers", &["num_layers"], how);
    }
    count
}

/// Queries always go through a latent.
fn with_latent(fields: &mut Fields<'_>) -> Mla {
    let mla = mla(fields);
    Mla { q_rank: fields.above_0("q_lora_rank", mla.q_rank), ..mla }
}
