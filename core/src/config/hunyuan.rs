//! `hunyuan_v1_moe` (Hunyuan-A13B): experts in every layer, whose numbers may be lists of one for each layer.
//!
//! The config holds fields of other models of the family: shared key/value layers, latent attention, a vision tower, a
//! classifier. Each of them must be switched off.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::parts::{all_moe, bias, ends, shared_out};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, Experts, Gqa, QkNorm, Switch};
use alloc::format;

pub(super) const HUNYUAN_V1_MOE: ModelType = ModelType {
    name: "hunyuan_v1_moe",
    class: &[r#"["HunYuanMoEV1ForCausalLM"]"#],
    naming: &Naming::HUNYUAN_V1_MOE,
    idle: Idle {
        only: &[
            ("add_classification_head", &["false"]),
            ("group_limited_greedy", &["false"]),
            ("hidden_act", &[r#""silu""#]),
            ("mlp_bias", &["false"]),
            ("moe_layer_num_skipped", &["0"]),
            ("norm_type", &[r#""rms""#]),
            ("use_cla", &["false"]),
            ("use_mixed_mlp_moe", &["true"]),
            ("use_mla", &["false"]),
            ("use_qk_norm", &["true"]),
            ("use_rotary_pos_emb", &["true"]),
            ("vit_path", &[]),
            ("vit_type", &[]),
        ],
        ignored: IGNORED,
    },
    read: hunyuan_v1_moe,
};

/// Tokens with a role, how tokens are dropped and weighted, and details of what is switched off.
const IGNORED: &[&str] = &[
    "anyres_pooling_size",
    "anyres_vit_max_image_size",
    "anyres_vit_two_views",
    "cla_share_factor",
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

fn hunyuan_v1_moe(fields: &mut Fields<'_>) -> Architecture {
    let (ends, layers) = (ends(fields), all_moe(fields));
    let attention = attention(fields, ends.hidden);
    let ffn = fields.uniform("moe_intermediate_size", layers.moe);
    // Some code takes it for the width of every expert, other code for that of shared ones alone.
    if fields.number("intermediate_size") != ffn {
        let how = format!("is not `moe_intermediate_size` = {ffn}: no other is supported yet");
        fields.contradicts("intermediate_size", &["moe_intermediate_size"], how);
    }
    Architecture {
        layers,
        attention: Attention::Gqa(attention),
        experts: Experts {
            routed: fields.number("num_experts"),
            shared: fields.uniform("num_shared_expert", layers.moe),
            active: fields.uniform("moe_topk", layers.moe),
            ffn,
            ..Experts::DEFAULT
        },
        ..ends
    }
}

/// A head's width has two names: that of the model's own code, and everyone else's.
fn attention(fields: &mut Fields<'_>, hidden: u64) -> Gqa {
    let (heads, kv_heads) = (fields.number("num_attention_heads"), fields.number("num_key_value_heads"));
    let widths =
        ["attention_head_dim", "head_dim"].map(|name| fields.optional(name).map(|width| fields.above_0(name, width)));
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
