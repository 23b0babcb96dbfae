//! `mimo_v2_flash` (MiMo-V2-Flash), as its config was published: layers with a window have heads of their own, and lists
//! say which these are and which layers have experts.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{blocks, listed, listed_count, mixer, pairs};
use super::parts::{bias, ends, gqa_of_width, grouped, routed_experts};
use crate::checkpoint::Naming;
use crate::spec::{
    Architecture, Attention, Bias, CorrectionBias, Experts, Gqa, LayerKind, Layers, LocalGqa, Mixer, Switch,
};

pub(super) const MIMO_V2_FLASH: ModelType = ModelType {
    name: "mimo_v2_flash",
    class: &[r#"["MiMoV2FlashForCausalLM"]"#],
    naming: &Naming::MIMO_V2_FLASH,
    idle: Idle {
        only: &[("hidden_act", &[r#""silu""#]), ("n_shared_experts", &[]), ("topk_method", &[r#""noaux_tc""#])],
        // How wide windows are, said twice, how scores become weights, how values are scaled. Its checkpoint holds modules for
        // multi-token prediction, but neither the config nor the published code knows them.
        ignored: &[
            "attention_chunk_size",
            "attention_value_scale",
            "layernorm_epsilon",
            "norm_topk_prob",
            "routed_scaling_factor",
            "scoring_func",
            "sliding_window_size",
            "swa_rope_theta",
        ],
    },
    read: mimo_v2_flash,
};

fn mimo_v2_flash(fields: &mut Fields<'_>) -> Architecture {
    let (layers, experts) = (layers(fields), routed_experts(fields));
    // The output's projection has none.
    let bias = bias(fields, Bias::Qkv, Switch::Off);
    let attention = Gqa {
        bias,
        sinks: sinks(fields, "add_full_attention_sink_bias"),
        value_dim: fields.positive("v_head_dim"),
        ..gqa_of_width(fields)
    };
    let local = LocalGqa {
        heads: fields.number("swa_num_attention_heads"),
        kv_heads: fields.number("swa_num_key_value_heads"),
        head_dim: fields.number("swa_head_dim"),
        value_dim: fields.positive("swa_v_head_dim"),
        bias,
        sinks: sinks(fields, "add_swa_attention_sink_bias"),
        window: fields.positive("sliding_window"),
        ..LocalGqa::DEFAULT
    };
    Architecture {
        layers,
        attention: Attention::Gqa(attention),
        mixer: mixer(&layers, Mixer::LocalGqa(local)),
        experts: Experts { correction_bias: CorrectionBias::On, ..grouped(fields, experts) },
        ..ends(fields)
    }
}

fn layers(fields: &mut Fields<'_>) -> Layers {
    let (count, ffn) = (listed_count(fields), fields.number("intermediate_size"));
    let windows = [("0", LayerKind::Attention), ("1", LayerKind::Mixer)];
    let mixers = blocks(fields, "hybrid_layer_pattern", count, &windows);
    let ffns = blocks(fields, "moe_layer_freq", count, &[("0", LayerKind::Dense), ("1", LayerKind::Moe)]);
    Layers { ffn, ..listed(pairs(&mixers, ffns)) }
}

/// What the absence of such a field means, not all code agrees on.
fn sinks(fields: &mut Fields<'_>, name: &'static str) -> Switch {
    fields.needed(name);
    fields.switch(name, Switch::Off)
}
