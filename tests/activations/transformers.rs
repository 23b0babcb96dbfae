//! Hugging Face transformers.

use crate::{
    Kept, backend, judge, judge_backward, judge_full_size, judge_peaks, judge_works, latent, layer, number,
    of_micro_batch, says, switch, text,
};
use moe_model::Plan;
use moe_model::inventory::Entry;
use moe_model::spec::{
    Accounting, Attention, AttentionCode, Gqa, QkNorm, Recompute, RoutedCode, RouterFormat, Score, Transformers,
};
use serde_json::Value;

/// Families that may peak in attention.
const BEYOND_PEAKS: &[(&str, &str)] = &[
    ("deepseekv3_sdpa", "what the math kernel works on is not measured apart"),
    ("deepseekv3_dense_sdpa", "likewise"),
    ("deepseekv3_dense_eager", "nor is what eager attention works on"),
];

/// The options of a family, which its name, its model and its device say.
fn options(family: &Value) -> Transformers {
    let options = &family["options"];
    let is_latent = says(options, "attn", "mla");
    let (score, router) = match text(options, "model") {
        "mixtral" => (Score::PreSoftmax, RouterFormat::Fp32),
        "qwen3moe" => (Score::PreSoftmax, RouterFormat::Activations),
        "deepseekv3" => (Score::Sigmoid, RouterFormat::Fp32),
        model => panic!("{model} is not known"),
    };
    let is_eager = text(family, "name").split('_').any(|part| part == "eager");
    Transformers {
        attention: if is_eager { AttentionCode::Eager } else { AttentionCode::Sdpa },
        backend: backend(family, is_latent),
        routed: match text(options, "experts") {
            "eager" => RoutedCode::Eager,
            "grouped_mm" => RoutedCode::GroupedMm,
            code => panic!("{code} is not known"),
        },
        score,
        router,
        router_logits: switch(options["aux"] == true),
        ..Transformers::DEFAULT
    }
}

/// A family at some dims: a layer, and what stands in front of it and behind it.
fn plan(family: &Value, dims: &Value) -> Plan {
    let (given, of) = (&family["options"], |key: &str| number(dims, key));
    let mut spec = layer(dims, given["moe"] == true);
    spec.architecture.attention = if says(given, "attn", "mla") {
        spec.architecture.experts.shared = spec.architecture.layers.moe;
        Attention::Mla(latent(dims))
    } else {
        let qk_norm = if says(given, "model", "qwen3moe") { QkNorm::Head } else { QkNorm::None };
        Attention::Gqa(Gqa { heads: of("a"), kv_heads: of("g"), head_dim: of("d"), qk_norm, ..Gqa::DEFAULT })
    };
    spec.layout.recompute = if says(family, "recompute", "full") { Recompute::Full } else { Recompute::None };
    spec.layout.accounting = Accounting::Transformers(options(family));
    Plan::new(spec).unwrap_or_else(|violations| panic!("{}: {violations}", family["name"]))
}

/// Under gradient checkpointing what is made once for all layers is held to be handed to them again.
fn kept(family: &Value, dims: &Value) -> Vec<Kept> {
    let plan = plan(family, dims);
    let is_recomputed = says(family, "recompute", "full");
    let kept = |entry: Entry| Kept {
        module: module(&entry, &plan),
        is_saved: !is_recomputed || !["rotary tables", "positions", "causal mask"].contains(&entry.name),
        entry,
    };
    of_micro_batch(family, &plan).into_iter().map(kept).collect()
}

/// The module that first keeps a tensor, as the file names it.
#[allow(clippy::match_same_arms)] // in the order of a forward
fn module(entry: &Entry, plan: &Plan) -> &'static str {
    let architecture = &plan.spec().architecture;
    let is_latent = matches!(architecture.attention, Attention::Mla(_));
    match entry.name {
        "layer input" => "L",
        name if name.starts_with("attention norm") => match name {
            "attention norm output" if is_latent => "L.attn.q_a_proj",
            "attention norm output" => "L.attn.q_proj",
            _ => "L.input_layernorm",
        },
        name if name.starts_with("query latent norm") => "L.attn.q_a_layernorm",
        "normed query latent" => "L.attn.q_b_proj",
        name if name.starts_with("key/value latent norm") => "L.attn.kv_a_layernorm",
        "normed key/value latent" => "L.attn.kv_b_proj",
        name if name.starts_with("query norm") => "L.attn.q_norm",
        name if name.starts_with("key norm") => "L.attn.k_norm",
        "attention output" => "L.attn.o_proj",
        "dense norm output" => "L.mlp.gate_proj",
        "dense gate" => "L.mlp.act_fn",
        "dense activation, up" => "L.mlp",
        "dense product" => "L.mlp.down_proj",
        "expert norm output" if architecture.experts.shared > 0 => "L.mlp.shared_experts.gate_proj",
        "expert norm output" => "L.mlp.gate",
        name if name.starts_with("dense norm") || name.starts_with("expert norm") => "L.post_attention_layernorm",
        "router input"
        | "sigmoid"
        | "softmax of all"
        | "chosen experts"
        | "sums of chosen scores"
        | "chosen scores" => "L.mlp.gate",
        "routed gate and up" => "L.mlp.experts.act_fn",
        "ends of experts" | "weights of copies" | "weighted output" => "L.mlp.experts",
        name if name.starts_with("routed") || name.starts_with("tokens of copies") => "L.mlp.experts",
        "shared gate" => "L.mlp.shared_experts.act_fn",
        "shared activation, up" => "L.mlp.shared_experts",
        "shared product" => "L.mlp.shared_experts.down_proj",
        "head input" => "lm_head",
        "log-softmax of logits"
        | "shifted targets"
        | "padding of targets"
        | "weight of all targets"
        | "tokens of experts"
        | "scores for the balance loss" => "model",
        name if name.starts_with("final norm") => "model.norm",
        _ => "L.attn",
    }
}

#[test]
fn transformers_keep_what_is_listed() {
    assert_eq!(judge("transformers", kept), 25);
}

#[test]
fn transformers_at_full_size() {
    assert_eq!(judge_full_size("transformers", kept), 3);
}

#[test]
fn transformers_works_on_what_is_listed() {
    assert_eq!(judge_works("transformers", plan), 13);
}

#[test]
fn transformers_peaks_as_listed() {
    assert_eq!(judge_peaks("transformers", BEYOND_PEAKS, plan), 130);
}

#[test]
fn transformers_backward_is_within_the_budget() {
    assert_eq!(judge_backward("transformers", BEYOND_PEAKS, plan), 160);
}
