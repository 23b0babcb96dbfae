//! `hunyuan` (Hunyuan-Large) and `hunyuan_v1_moe` (Hunyuan-A13B): experts in every layer, whose numbers may be lists of
//! one for each layer.
//!
//! The configs hold fields of other models of the family: latent attention, a vision tower, a classifier. Each of them must
//! be switched off.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{listed, listed_count, mixer, pairs};
use super::parts::{all_moe, bias, ends, gqa_of_even_width, shared_out};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, LayerKind, Layers, LocalGqa, Mixer, QkNorm, Switch};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;

/// Layers that read the keys and values of one in front.
pub(super) const HUNYUAN: ModelType = ModelType {
    name: "hunyuan",
    class: &[r#"["HunYuanForCausalLM"]"#],
    naming: &Naming::HUNYUAN_V1_MOE,
    idle: Idle {
        only: &[("norm_type", &[r#""hf_rms""#, r#""rms""#]), ("use_mixed_mlp_moe", &["true"])],
        ignored: &["capacity_factor"],
    },
    read: hunyuan,
};

pub(super) const HUNYUAN_V1_MOE: ModelType = ModelType {
    name: "hunyuan_v1_moe",
    class: &[r#"["HunYuanMoEV1ForCausalLM"]"#],
    naming: &Naming::HUNYUAN_V1_MOE,
    idle: Idle {
        only: &[
            ("norm_type", &[r#""rms""#]),
            ("use_cla", &["false"]),
            ("use_mixed_mlp_moe", &["true"]),
            ("use_qk_norm", &["true"]),
        ],
        ignored: &["cla_share_factor"],
    },
    read: hunyuan_v1_moe,
};

/// What is so in both.
const BOTH: Idle = Idle {
    only: &[
        ("add_classification_head", &["false"]),
        ("group_limited_greedy", &["false"]),
        ("hidden_act", &[r#""silu""#]),
        ("mlp_bias", &["false"]),
        ("moe_layer_num_skipped", &["0"]),
        ("use_mla", &["false"]),
        ("use_rotary_pos_emb", &["true"]),
        ("vit_path", &[]),
        ("vit_type", &[]),
    ],
    ignored: IGNORED,
};

/// Tokens with a role, how tokens are dropped and weighted, and details of what is switched off.
const IGNORED: &[&str] = &[
    "anyres_pooling_size",
    "anyres_vit_max_image_size",
    "anyres_vit_two_views",
    "class_num",
    "dense_list",
    "eod_token_id",
    "im_end_id",
    "im_newline_id",
    "im_start_id",
    "image_token_id",
    "mask_init_id",
    "moe_drop_tokens",
    "moe_random_routing_dropped_token",
    "norm_topk_prob",
    "num_media_embeds",
    "org_vocab_size",
    "pad_id",
    "pool_type",
    "position_embedding_xdrope",
    "routed_scaling_factor",
    "sep_token_id",
    "skip_cls_token",
    "text_end_id",
    "text_start_id",
    "video_end_id",
    "video_start_id",
    "vit_add_patchemb_bias",
    "vit_input_resolution",
    "vit_mapping_type",
    "vit_norm_type",
    "vit_patch",
    "vit_remove_prenorm",
    "vit_token",
    "vit_used_rms_norm",
    "xdrope_section",
];

fn hunyuan(fields: &mut Fields<'_>) -> Architecture {
    fields.idle(&BOTH);
    // Without it the published code builds no shared experts.
    fields.needed("use_mixed_mlp_moe");
    let ends = ends(fields);
    let attention = attention_of_even_width(fields, ends.hidden);
    let (layers, mixer) = sharing(fields, attention);
    let width = fields.has(OWN_WIDTH).then(|| fields.uniform(OWN_WIDTH, layers.moe));
    let experts = experts(fields, layers.moe, width);
    if experts.routed < 2 {
        let how = "makes every layer dense in the published code: that is not supported yet";
        fields.contradicts("num_experts", &[], how.to_owned());
    }
    Architecture { layers, attention: Attention::Gqa(attention), mixer, experts, ..ends }
}

fn hunyuan_v1_moe(fields: &mut Fields<'_>) -> Architecture {
    fields.idle(&BOTH);
    let (ends, layers) = (ends(fields), all_moe(fields));
    let attention = attention(fields, ends.hidden);
    let width = fields.uniform(OWN_WIDTH, layers.moe);
    let experts = experts(fields, layers.moe, Some(width));
    Architecture { layers, attention: Attention::Gqa(attention), experts, ..ends }
}

/// The width of an expert, where it has a field of its own.
const OWN_WIDTH: &str = "moe_intermediate_size";

/// Routed and shared experts of so many layers.
fn experts(fields: &mut Fields<'_>, layers: u64, width: Option<u64>) -> Experts {
    let ffn = fields.number("intermediate_size");
    // Some code takes it for the width of every expert, other code for that of shared ones alone.
    if let Some(width) = width
        && width != ffn
    {
        let how = format!("is not `{OWN_WIDTH}` = {width}: no other is supported yet");
        fields.contradicts("intermediate_size", &[OWN_WIDTH], how);
    }
    Experts {
        routed: fields.number("num_experts"),
        shared: fields.uniform("num_shared_expert", layers),
        active: fields.uniform("moe_topk", layers),
        ffn,
        ..Experts::DEFAULT
    }
}

/// Layers that share keys and values (arXiv:2405.12981): of each so many the first projects them, and the others read
/// them there. They normalise keys all the same.
fn sharing(fields: &mut Fields<'_>, attention: Gqa) -> (Layers, Mixer) {
    const FACTOR: &str = "cla_share_factor";
    fields.pass(FACTOR);
    let factor = if fields.switch("use_cla", Switch::Off).is_on() { fields.positive(FACTOR) } else { 1 };
    if factor <= 1 {
        return (all_moe(fields), Mixer::None);
    }
    let kind = |layer: u64| if layer.is_multiple_of(factor) { LayerKind::Attention } else { LayerKind::Mixer };
    let mixers: Vec<LayerKind> = (0..listed_count(fields)).map(kind).collect();
    let layers = listed(pairs(&mixers, core::iter::repeat(LayerKind::Moe)));
    let Gqa { heads, kv_heads, head_dim, bias, qk_norm, .. } = attention;
    let reader = LocalGqa { heads, kv_heads, head_dim, bias, qk_norm, shared_kv: Switch::On, ..LocalGqa::DEFAULT };
    (layers, mixer(&layers, Mixer::LocalGqa(reader)))
}

/// A head's width has two names: that of the model's own code, and everyone else's.
const WIDTHS: [&str; 2] = ["attention_head_dim", "head_dim"];

/// Heads that share the hidden state out: the published code of Hunyuan-Large knows no other width, whatever a field says.
fn attention_of_even_width(fields: &mut Fields<'_>, hidden: u64) -> Gqa {
    let even = gqa_of_even_width(fields, hidden);
    for name in WIDTHS {
        if fields.optional(name).is_some_and(|width| width != even.head_dim) {
            let how = format!("is not `hidden_size` over `num_attention_heads`, {}", even.head_dim);
            fields.contradicts(name, &["hidden_size", "num_attention_heads"], how);
        }
    }
    let is_normed = fields.switch("use_qk_norm", Switch::Off).is_on();
    let qk_norm = if is_normed { QkNorm::Head } else { QkNorm::None };
    Gqa { bias: bias(fields, Bias::All, Switch::Off), qk_norm, ..even }
}

/// Heads of the width that either field says.
fn attention(fields: &mut Fields<'_>, hidden: u64) -> Gqa {
    let (heads, kv_heads) = (fields.number("num_attention_heads"), fields.number("num_key_value_heads"));
    let widths = WIDTHS.map(|name| fields.optional(name).map(|width| fields.above_0(name, width)));
    let head_dim = match widths {
        [Some(own), Some(other)] if own != other => {
            fields.contradicts("head_dim", &["attention_head_dim"], format!("is not `attention_head_dim` = {own}"));
            own
        }
        [Some(width), _] | [None, Some(width)] => width,
        [None, None] => shared_out(fields, ["num_attention_heads", "hidden_size"], heads, hidden),
    };
    Gqa { heads, kv_heads, head_dim, bias: bias(fields, Bias::All, Switch::Off), qk_norm: QkNorm::Head, ..Gqa::DEFAULT }
}
