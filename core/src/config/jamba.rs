//! `jamba`: Mamba layers with one of attention every so many, and experts in every so manieth.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{listed, listed_count, mixer};
use super::parts::{ends, gqa_of_even_width};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Experts, LayerKind, Layers, Mamba1, Mixer};
use alloc::format;

pub(super) const JAMBA: ModelType = ModelType {
    name: "jamba",
    class: &[r#"["JambaForCausalLM"]"#],
    naming: &Naming::JAMBA,
    idle: Idle {
        only: &[
            ("hidden_act", &[r#""silu""#]),
            ("mamba_conv_bias", &["true"]),
            // The model's own code could leave them out.
            ("mamba_inner_layernorms", &["true"]),
            ("mamba_proj_bias", &["false"]),
        ],
        // Windows and contexts, which kernels run, and of which tokens there are logits.
        ignored: &[
            "calc_logits_for_entire_prompt",
            "n_ctx",
            "num_logits_to_keep",
            "sliding_window",
            "use_mamba_kernels",
        ],
    },
    read: jamba,
};

fn jamba(fields: &mut Fields<'_>) -> Architecture {
    let (ends, routed) = (ends(fields), fields.number("num_experts"));
    // With one expert the code builds a dense network.
    let layers = layers(fields, routed > 1);
    let mamba = Mamba1 {
        inner: ends.hidden.saturating_mul(fields.number("mamba_expand")),
        state: fields.number("mamba_d_state"),
        conv: fields.number("mamba_d_conv"),
        time_rank: time_rank(fields, ends.hidden),
    };
    let experts = Experts { routed, active: fields.number("num_experts_per_tok"), ffn: layers.ffn, ..Experts::DEFAULT };
    Architecture {
        layers,
        attention: Attention::Gqa(gqa_of_even_width(fields, ends.hidden)),
        mixer: mixer(&layers, Mixer::Mamba1(mamba)),
        experts: if layers.moe > 0 { experts } else { Experts::DEFAULT },
        ..ends
    }
}

/// Dense networks and experts are of one width.
fn layers(fields: &mut Fields<'_>, has_experts: bool) -> Layers {
    let (count, ffn) = (listed_count(fields), fields.number("intermediate_size"));
    let has_attention = one_of(fields, ["attn_layer_period", "attn_layer_offset"]);
    let is_moe = one_of(fields, ["expert_layer_period", "expert_layer_offset"]);
    let layers = listed((0..count).map(|layer| {
        let mixer = if has_attention(layer) { LayerKind::Attention } else { LayerKind::Mixer };
        [mixer, if has_experts && is_moe(layer) { LayerKind::Moe } else { LayerKind::Dense }]
    }));
    Layers { ffn, ..layers }
}

/// Which layers are those at some offset of every so many.
fn one_of(fields: &mut Fields<'_>, [period, offset]: [&'static str; 2]) -> impl Fn(u64) -> bool + use<> {
    let (of, at) = (fields.positive(period), fields.number(offset));
    if at >= of {
        fields.contradicts(offset, &[period], format!("is not below `{period}` = {of}"));
    }
    move |layer| layer.checked_rem(of) == Some(at)
}

/// Left out or `auto`, it follows from the hidden width.
fn time_rank(fields: &mut Fields<'_>, hidden: u64) -> u64 {
    let (name, auto) = ("mamba_dt_rank", hidden.div_ceil(16));
    if fields.is(name, "auto") { auto } else { fields.optional(name).unwrap_or(auto) }
}
