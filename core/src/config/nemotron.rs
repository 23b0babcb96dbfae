//! `nemotron_h` (Nemotron-H, Nemotron 3 Nano): each layer is one block, of which a letter or a word says what it is.
//! Networks have no gate.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{block, listable, listed, mixer};
use super::parts::{ends, gqa_of_width, grouped, routed_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, CorrectionBias, Experts, LayerKind, Layers, Mamba2, Mixer, Switch};
use alloc::borrow::ToOwned as _;
use alloc::vec::Vec;

pub(super) const NEMOTRON_H: ModelType = ModelType {
    name: "nemotron_h",
    class: &[r#"["NemotronHForCausalLM"]"#],
    naming: &Naming::NEMOTRON_H,
    idle: Idle {
        only: &[
            ("attention_bias", &["false"]),
            ("mamba_hidden_act", &[r#""silu""#]),
            ("mamba_proj_bias", &["false"]),
            ("mlp_bias", &["false"]),
            ("mlp_hidden_act", &[r#""relu2""#]),
            // Of more than one, some code builds more than `moe_shared_expert_intermediate_size`, other code does not.
            ("n_shared_experts", &["1"]),
            // Such a module is two layers, each of one block, with one norm each: not what `mtp` lists.
            ("num_nextn_predict_layers", &["0"]),
            ("use_bias", &["false"]),
            ("use_conv_bias", &["true"]),
        ],
        // How time steps begin and are cut, how a sequence is cut for kernels, how scores become weights, number formats,
        // and details of the modules that are not there. The inner width of Mamba is that of its heads, whatever `expand`.
        ignored: &[
            "chunk_size",
            "expand",
            "hidden_dropout",
            "layer_norm_epsilon",
            "mamba_ssm_cache_dtype",
            "moe_shared_expert_overlap",
            "mtp_hybrid_override_pattern",
            "mtp_layers_block_type",
            "norm_eps",
            "norm_topk_prob",
            "num_logits_to_keep",
            "rescale_prenorm_residual",
            "residual_in_fp32",
            "routed_scaling_factor",
            "sliding_window",
            "time_step_floor",
            "time_step_limit",
            "time_step_max",
            "time_step_min",
            "use_mamba_kernels",
        ],
    },
    read: nemotron_h,
};

fn nemotron_h(fields: &mut Fields<'_>) -> Architecture {
    let layers = layers(fields);
    let mamba = Mamba2 {
        heads: fields.number("mamba_num_heads"),
        head_dim: fields.number("mamba_head_dim"),
        state: fields.number("ssm_state_size"),
        groups: fields.number("n_groups"),
        conv: fields.number("conv_kernel"),
    };
    Architecture {
        norms_per_layer: 1,
        layers,
        attention: Attention::Gqa(gqa_of_width(fields)),
        mixer: mixer(&layers, Mixer::Mamba2(mamba)),
        experts: experts(fields, &layers),
        ..ends(fields)
    }
}

/// What a config says of layers of a kind that there are none of means nothing, and may be missing.
fn layers(fields: &mut Fields<'_>) -> Layers {
    let layers = listed(kinds(fields).into_iter().map(|kind| [kind]));
    fields.pass("intermediate_size");
    let ffn = if layers.dense > 0 { fields.number("intermediate_size") } else { 0 };
    Layers { ffn, gated: Switch::Off, ..layers }
}

/// What each layer is: by letters or, in newer files, by words. How many there are follows.
fn kinds(fields: &mut Fields<'_>) -> Vec<LayerKind> {
    let (pattern, list) = ("hybrid_override_pattern", "layers_block_type");
    let letters = fields.letters(pattern, |letter| match letter {
        'M' => Some(LayerKind::Mixer),
        '*' => Some(LayerKind::Attention),
        '-' => Some(LayerKind::Dense),
        'E' => Some(LayerKind::Moe),
        _ => None,
    });
    let words = fields.items(list, |item| block(WORDS, item));
    let (field, kinds) = if fields.has(list) { (list, words) } else { (pattern, letters.clone()) };
    fields.needed(field);
    if let Some(count) = fields.optional("num_hidden_layers") {
        fields.one_a_layer(field, kinds.len(), count);
    }
    listable(fields, field, kinds.len() as u64);
    if fields.has(pattern) && letters != kinds {
        fields.contradicts(list, &[pattern], "is not what `hybrid_override_pattern` says".to_owned());
    }
    kinds
}

/// The words for what a layer is; two have changed since.
const WORDS: &[(&str, LayerKind)] = &[
    (r#""attention""#, LayerKind::Attention),
    (r#""full_attention""#, LayerKind::Attention),
    (r#""linear_attention""#, LayerKind::Mixer),
    (r#""mamba""#, LayerKind::Mixer),
    (r#""mlp""#, LayerKind::Dense),
    (r#""moe""#, LayerKind::Moe),
];

/// Fields that speak of experts.
const EXPERTS: &[&str] = &[
    "moe_intermediate_size",
    "moe_latent_size",
    "moe_shared_expert_intermediate_size",
    "n_group",
    "n_routed_experts",
    "num_experts_per_tok",
    "topk_group",
];

fn experts(fields: &mut Fields<'_>, layers: &Layers) -> Experts {
    if layers.moe == 0 {
        for name in EXPERTS {
            fields.pass(name);
        }
        return Experts::DEFAULT;
    }
    let (experts, latent) = (routed_experts(fields), fields.optional("moe_latent_size"));
    Experts {
        shared: 1,
        shared_ffn: fields.positive("moe_shared_expert_intermediate_size"),
        correction_bias: CorrectionBias::On,
        latent: latent.map_or(0, |latent| fields.above_0("moe_latent_size", latent)),
        ..grouped(fields, experts)
    }
}
