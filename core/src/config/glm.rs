//! `glm4_moe` (GLM-4.5), `glm4_moe_lite` (GLM-4.7-Flash) and `glm_moe_dsa` (GLM-5): DeepSeek-V3's layers, one with
//! grouped-query attention, two with a list of its own that tells them apart, one of these with an indexer.

use super::ModelType;
use super::deepseek::like_deepseek_v3;
use super::fields::{Fields, Idle};
use super::parts::{bias, dense_first, ends, experts, gqa_of_width, grouped, layer_count, layers, with_indexer};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Bias, CorrectionBias, Experts, Gqa, Layers, QkNorm, Switch};
use alloc::borrow::ToOwned;

/// Grouped-query attention, whose `attention_bias` leaves the output's projection out.
pub(super) const GLM4_MOE: ModelType = ModelType {
    name: "glm4_moe",
    class: &[r#"["Glm4MoeForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle {
        only: &[("hidden_act", &[r#""silu""#]), ("topk_method", &[r#""noaux_tc""#])],
        ignored: &["norm_topk_prob", "routed_scaling_factor", "scoring_func"],
    },
    read: glm4_moe,
};

/// Latent attention.
pub(super) const GLM4_MOE_LITE: ModelType = ModelType {
    name: "glm4_moe_lite",
    class: &[r#"["Glm4MoeLiteForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle {
        only: &[("attention_bias", &["false"]), ("hidden_act", &[r#""silu""#]), ("topk_method", &[r#""noaux_tc""#])],
        ignored: &["norm_topk_prob", "rope_interleave", "routed_scaling_factor", "scoring_func"],
    },
    read: glm4_moe_lite,
};

/// Latent attention that looks at the tokens that an indexer chooses.
pub(super) const GLM_MOE_DSA: ModelType = ModelType {
    name: "glm_moe_dsa",
    class: &[r#"["GlmMoeDsaForCausalLM"]"#],
    naming: &Naming::LLAMA,
    idle: Idle {
        only: &[
            ("attention_bias", &["false"]),
            ("hidden_act", &[r#""silu""#]),
            ("moe_layer_freq", &["1"]),
            ("topk_method", &[r#""noaux_tc""#]),
        ],
        ignored: &[
            "ep_size",
            "indexer_rope_interleave",
            "norm_topk_prob",
            "rope_interleave",
            "routed_scaling_factor",
            "scoring_func",
        ],
    },
    read: glm_moe_dsa,
};

fn glm4_moe(fields: &mut Fields<'_>) -> Architecture {
    let (experts, attention) = (experts(fields), gqa_of_width(fields));
    let is_normed = fields.switch("use_qk_norm", Switch::Off).is_on();
    Architecture {
        layers: dense_first(fields),
        attention: Attention::Gqa(Gqa {
            bias: bias(fields, Bias::Qkv, Switch::Off),
            qk_norm: if is_normed { QkNorm::Head } else { QkNorm::None },
            ..attention
        }),
        experts: Experts { correction_bias: CorrectionBias::On, ..grouped(fields, experts) },
        mtp: fields.optional("num_nextn_predict_layers").unwrap_or(0),
        ..ends(fields)
    }
}

fn glm4_moe_lite(fields: &mut Fields<'_>) -> Architecture {
    like_deepseek_v3(fields, listed_layers)
}

fn glm_moe_dsa(fields: &mut Fields<'_>) -> Architecture {
    let dense = glm4_moe_lite(fields);
    with_indexer(fields, dense)
}

/// Layers by `mlp_layer_types`, or as DeepSeek's configs count them.
fn listed_layers(fields: &mut Fields<'_>) -> Layers {
    let Some(list) = fields.list("mlp_layer_types") else { return dense_first(fields) };
    let count = layer_count(fields);
    let dense = list.iter().take_while(|kind| *kind == "dense").count();
    fields.one_a_layer("mlp_layer_types", list.len(), count);
    if list.iter().skip(dense).any(|kind| kind != "sparse") {
        let how = "is not a list of `dense` layers, then `sparse` ones: no other is supported yet";
        fields.contradicts("mlp_layer_types", &[], how.to_owned());
    }
    let first = fields.optional("first_k_dense_replace");
    if first.is_some_and(|first| first != dense as u64) {
        fields.contradicts(
            "first_k_dense_replace",
            &["mlp_layer_types"],
            "is not what `mlp_layer_types` says".to_owned(),
        );
    }
    layers(fields, "mlp_layer_types", count, dense as u64)
}
