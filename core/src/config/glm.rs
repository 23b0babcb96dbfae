//! `glm4_moe_lite` (GLM-4.7-Flash): DeepSeek-V3's layers, which its own list tells apart.

use super::ModelType;
use super::fields::Fields;
use super::parts::{dense_first, experts, grouped, layer_count, layers, mla};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, CorrectionBias, Experts, Layers};
use alloc::borrow::ToOwned;

pub(super) const GLM4_MOE_LITE: ModelType = ModelType {
    name: "glm4_moe_lite",
    naming: &Naming::LLAMA,
    only: &[
        ("architectures", &[r#"["Glm4MoeLiteForCausalLM"]"#]),
        ("attention_bias", &["false"]),
        ("hidden_act", &[r#""silu""#]),
        ("tie_word_embeddings", &["false"]),
        ("topk_method", &[r#""noaux_tc""#]),
    ],
    ignored: &["norm_topk_prob", "rope_interleave", "routed_scaling_factor", "scoring_func"],
    read: glm4_moe_lite,
};

fn glm4_moe_lite(fields: &mut Fields<'_>) -> Architecture {
    let experts = experts(fields);
    Architecture {
        hidden: fields.number("hidden_size"),
        vocab: fields.number("vocab_size"),
        layers: listed_layers(fields),
        attention: Attention::Mla(mla(fields)),
        experts: Experts { correction_bias: CorrectionBias::On, ..grouped(fields, experts) },
        mtp: fields.optional("num_nextn_predict_layers").unwrap_or(0),
        ..Architecture::DEFAULT
    }
}

/// Layers by `mlp_layer_types`, or as DeepSeek's configs count them.
fn listed_layers(fields: &mut Fields<'_>) -> Layers {
    let Some(list) = fields.list("mlp_layer_types") else { return dense_first(fields) };
    let count = layer_count(fields);
    let dense = list.iter().take_while(|kind| *kind == "dense").count();
    if list.len() as u64 != count {
        fields.contradicts(
            "mlp_layer_types",
            &["num_hidden_layers"],
            "is not a list of as many as `num_hidden_layers`".to_owned(),
        );
    } else if list.iter().skip(dense).any(|kind| kind != "sparse") {
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
