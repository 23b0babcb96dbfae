//! `kimi_linear` (Kimi Linear): most layers have Kimi Delta Attention, the others latent attention. What is linear
//! attention's stands in an object of its own, or, as transformers writes it, beside the rest.

use super::ModelType;
use super::fields::{Fields, Idle};
use super::lists::{LINEAR, blocks, blocks_if, blocks_or, listed, listed_count, mixer, pairs};
use super::parts::{grouped_by, mla};
use crate::checkpoint::Naming;
use crate::spec::{Architecture, Attention, CorrectionBias, Experts, Kda, LayerKind, Layers, Mixer};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;
use serde_json::Value;

pub(super) const KIMI_LINEAR: ModelType = ModelType {
    name: "kimi_linear",
    class: &[r#"["KimiLinearForCausalLM"]"#],
    naming: &Naming::KIMI_LINEAR,
    idle: Idle {
        only: &[
            ("attention_bias", &["false"]),
            ("hidden_act", &[r#""silu""#]),
            ("moe_layer_freq", &["1"]),
            ("num_nextn_predict_layers", &["0"]),
            // Transformers ties nothing, the model's own code would.
            ("tie_word_embeddings", &["false"]),
            ("use_grouped_topk", &["true"]),
        ],
        // Positions, and how scores become weights.
        ignored: &[
            "mla_use_nope",
            "model_max_length",
            "moe_renormalize",
            "moe_router_activation_func",
            "routed_scaling_factor",
        ],
    },
    read: kimi_linear,
};

fn kimi_linear(fields: &mut Fields<'_>) -> Architecture {
    let count = listed_count(fields);
    let (kda, mixers) = if fields.has(OBJECT) { published(fields, count) } else { flat(fields, count) };
    let layers = listed(pairs(&mixers, networks(fields, count)));
    let experts = Experts {
        routed: fields.number("num_experts"),
        shared: fields.number_or_null("num_shared_experts"),
        active: fields.number("num_experts_per_token"),
        ffn: fields.number("moe_intermediate_size"),
        correction_bias: CorrectionBias::On,
        ..Experts::DEFAULT
    };
    Architecture {
        hidden: fields.number("hidden_size"),
        vocab: fields.number("vocab_size"),
        attention: Attention::Mla(mla(fields)),
        mixer: mixer(&layers, Mixer::Kda(kda)),
        layers: Layers { ffn: fields.number("intermediate_size"), ..layers },
        experts: grouped_by(fields, "num_expert_group", experts),
        ..Architecture::DEFAULT
    }
}

/// The object of linear attention.
const OBJECT: &str = "linear_attn_config";

/// Its fields beside the rest: heads, the width of one, and tokens that a convolution looks at.
const FLAT: [&str; 3] = ["linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"];

/// Linear attention, and which layers have it.
fn flat(fields: &mut Fields<'_>, count: u64) -> (Kda, Vec<LayerKind>) {
    let [heads, head_dim, conv] = FLAT.map(|name| fields.number(name));
    (Kda { heads, head_dim, conv }, blocks(fields, "layer_types", count, &LINEAR))
}

/// The same in the object, as the published config has it. What stands beside it must say the same.
fn published(fields: &mut Fields<'_>, count: u64) -> (Kda, Vec<LayerKind>) {
    const NOTHING: Idle = Idle { only: &[], ignored: &[] };
    let (kda, full, linear) = fields.nested(OBJECT, &NOTHING, |fields| {
        let [heads, head_dim, conv] =
            ["num_heads", "head_dim", "short_conv_kernel_size"].map(|name| fields.number(name));
        (Kda { heads, head_dim, conv }, numbers(fields, "full_attn_layers"), numbers(fields, "kda_layers"))
    });
    // What a fault of any of its fields is named by.
    let within = ["", ".num_heads", ".head_dim", ".short_conv_kernel_size", ".full_attn_layers", ".kda_layers"];
    let within = within.map(|field| format!("{OBJECT}{field}"));
    let others: Vec<&str> = within.iter().map(|name| &**name).chain(["num_hidden_layers"]).collect();

    let kind = |layer| match (full.contains(&layer), linear.contains(&layer)) {
        (true, false) => Some(LayerKind::Attention),
        (false, true) => Some(LayerKind::Mixer),
        _ => None,
    };
    let mixers: Vec<LayerKind> = (1..=count).map_while(kind).collect();
    if mixers.len() as u64 != count || full.len() + linear.len() != mixers.len() {
        let how = format!("does not say of each layer from 1 to `num_hidden_layers` = {count}, once, what it is");
        fields.contradicts(OBJECT, &others, how);
    }
    for (name, own) in FLAT.into_iter().zip([kda.heads, kda.head_dim, kda.conv]) {
        if fields.optional(name).is_some_and(|number| number != own) {
            fields.contradicts(name, &others, format!("is not what `{OBJECT}` says: {own}"));
        }
    }
    if blocks_if(fields, "layer_types", count, &LINEAR).is_some_and(|listed| listed != mixers) {
        fields.contradicts("layer_types", &others, format!("is not what `{OBJECT}` says"));
    }
    (kda, mixers)
}

/// Numbers of layers, counted from 1.
fn numbers(fields: &mut Fields<'_>, name: &'static str) -> Vec<u64> {
    fields.needed(name);
    let list = fields.list(name).unwrap_or_default();
    let numbers: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
    if numbers.is_none() {
        fields.contradicts(name, &[], "is not a list of whole numbers".to_owned());
    }
    numbers.unwrap_or_default()
}

/// The networks: by a word for each layer, or dense ones first.
fn networks(fields: &mut Fields<'_>, count: u64) -> Vec<LayerKind> {
    const FIRST: &str = "first_k_dense_replace";
    let words = [(r#""dense""#, LayerKind::Dense), (r#""sparse""#, LayerKind::Moe)];
    let of = |dense, layer| if layer < dense { LayerKind::Dense } else { LayerKind::Moe };
    let (networks, dense) = blocks_or(fields, ("mlp_layer_types", words), FIRST, count, of);
    if dense.is_some_and(|dense| dense > count) {
        fields.contradicts(FIRST, &["num_hidden_layers"], format!("is more than `num_hidden_layers` = {count}"));
    }
    networks
}
