//! `deepseek_v4`: attention over a window and over compressed keys, residual streams, and first layers that look experts
//! up in a table.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{listed, listed_count};
use super::parts::{ends, routed_experts};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, Compressed, CorrectionBias, Experts, LayerKind, Layers};
use alloc::format;

pub(super) const DEEPSEEK_V4: ModelType = ModelType {
    name: "deepseek_v4",
    class: &[r#"["DeepseekV4ForCausalLM"]"#],
    naming: &Naming::DEEPSEEK_V4,
    idle: Idle {
        only: &[
            ("attention_bias", &["false"]),
            ("hidden_act", &[r#""silu""#]),
            ("mlp_bias", &["false"]),
            // The code builds one, whatever the config says.
            ("n_shared_experts", &["1"]),
            // Keys are values, and all heads look at the same.
            ("num_key_value_heads", &["1"]),
            ("topk_method", &[r#""noaux_tc""#]),
        ],
        // How scores become weights and streams are mixed, positions, how many compressed tokens are chosen,
        // number formats. A head is `head_dim` wide, whatever part of it is rotary.
        ignored: &[
            "compress_rope_parameters",
            "compress_rope_theta",
            "expert_dtype",
            "hc_eps",
            "hc_sinkhorn_iters",
            "index_topk",
            "norm_topk_prob",
            "qk_nope_head_dim",
            "qk_rope_head_dim",
            "rope_interleave",
            "routed_scaling_factor",
            "router_jitter_noise",
            "scoring_func",
            "swiglu_limit",
        ],
    },
    read: deepseek_v4,
};

/// Tokens that become one where an indexer chooses among them: what the code takes this ratio for.
const LIGHT: u64 = 4;

fn deepseek_v4(fields: &mut Fields<'_>) -> Architecture {
    let (count, experts) = (listed_count(fields), routed_experts(fields));
    let (layers, compress_heavy) = layers(fields, count);
    let hash_layers = fields.number("num_hash_layers");
    if hash_layers > count {
        let how = format!("is more than `num_hidden_layers` = {count}");
        fields.contradicts("num_hash_layers", &["num_hidden_layers"], how);
    }
    Architecture {
        hyper_connections: fields.positive("hc_mult"),
        layers,
        attention: Attention::Compressed(Compressed {
            heads: fields.number("num_attention_heads"),
            q_rank: fields.number("q_lora_rank"),
            head_dim: fields.number("head_dim"),
            output_groups: fields.number("o_groups"),
            output_rank: fields.number("o_lora_rank"),
            compress: LIGHT,
            compress_heavy,
            indexer_heads: fields.number("index_n_heads"),
            indexer_dim: fields.number("index_head_dim"),
            window: fields.positive("sliding_window"),
        }),
        experts: Experts { shared: 1, correction_bias: CorrectionBias::On, hash_layers, ..experts },
        // DeepSeek's checkpoint holds `num_nextn_predict_layers` modules for multi-token prediction, under names of their
        // own and with residual streams, which is not what `mtp` lists; the published model class builds none.
        mtp: 0,
        ..ends(fields)
    }
}

/// Experts in every layer, and how much each layer compresses, which a list says of multi-token-prediction modules behind
/// them too, or does not. With it the ratio of heavy compression.
fn layers(fields: &mut Fields<'_>, count: u64) -> (Layers, u64) {
    let (list, modules) = ("compress_ratios", fields.number("num_nextn_predict_layers"));
    fields.needed(list);
    let mut ratios = fields.items(list, |item| item.as_u64().filter(|ratio| matches!(ratio, 0 | LIGHT..)));
    if ![count, count.saturating_add(modules)].contains(&(ratios.len() as u64)) {
        let how =
            format!("is not a list of as many as `num_hidden_layers` = {count}, or of {modules} MTP modules more");
        fields.contradicts(list, &["num_hidden_layers", "num_nextn_predict_layers"], how);
    }
    ratios.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    let mut heavy = ratios.iter().copied().filter(|ratio| *ratio > LIGHT);
    // Where no layer has one, any will do.
    let ratio = heavy.next().unwrap_or(1);
    if let Some(other) = heavy.find(|other| *other != ratio) {
        let how = format!("holds {ratio} and {other}: no more than one ratio above {LIGHT} is supported yet");
        fields.contradicts(list, &[], how);
    }
    let mixers = ratios.iter().map(|ratio| match *ratio {
        0 => LayerKind::Attention,
        LIGHT => LayerKind::Compressed,
        _ => LayerKind::Heavy,
    });
    (listed(mixers.map(|mixer| [mixer, LayerKind::Moe])), ratio)
}
