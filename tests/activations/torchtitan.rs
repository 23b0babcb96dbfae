//! torchtitan.

use crate::{
    Kept, backend, is_cuda, judge, judge_full_size, judge_peaks, judge_works, latent, layer, of_micro_batch, score,
    switch, text,
};
use moe_model::Plan;
use moe_model::inventory::{Entry, Module};
use moe_model::spec::{Accounting, Attention, NormCode, Recompute, RouterFormat, Score, Torchtitan};
use serde_json::Value;

/// The options of a family. CPUs have neither a kernel for its norms nor an autocast to fp32 for its router.
fn options(family: &Value) -> Torchtitan {
    let (options, is_cuda) = (&family["options"], is_cuda(family));
    Torchtitan {
        backend: backend(family, true),
        norms: if is_cuda { NormCode::Fused } else { NormCode::Composite },
        score: score(options, Score::Sigmoid),
        router: if is_cuda { RouterFormat::Fp32 } else { RouterFormat::Activations },
        normalised: switch(options["rn"] != false),
    }
}

/// A family at some dims: a layer of DeepSeek-V3, and what stands in front of it and behind it.
fn plan(family: &Value, dims: &Value) -> Plan {
    let mut spec = layer(dims, family["options"]["moe"] == true);
    spec.architecture.attention = Attention::Mla(latent(dims));
    spec.architecture.experts.shared = spec.architecture.layers.moe;
    spec.layout.recompute = match text(family, "recompute") {
        "none" => Recompute::None,
        "full" => Recompute::Full,
        "selective" => Recompute::Selective,
        word => panic!("{word} is not known"),
    };
    spec.layout.accounting = Accounting::Torchtitan(options(family));
    Plan::new(spec).unwrap_or_else(|violations| panic!("{}: {violations}", family["name"]))
}

/// What selective checkpointing keeps no operation saved.
fn kept(family: &Value, dims: &Value) -> Vec<Kept> {
    let plan = plan(family, dims);
    let is_selective = text(family, "recompute") == "selective";
    let kept = |entry: Entry| Kept {
        module: module(&entry, &plan),
        is_saved: !is_selective || entry.module == Module::Head || entry.name == "layer input",
        entry,
    };
    of_micro_batch(family, &plan).into_iter().map(kept).collect()
}

/// The module that first keeps a tensor, as the file names it.
#[allow(clippy::match_same_arms)] // in the order of a forward
fn module(entry: &Entry, plan: &Plan) -> &'static str {
    let Accounting::Torchtitan(options) = plan.spec().layout.accounting else { unreachable!("all are torchtitan's") };
    match entry.name {
        "layer input" => "L",
        "attention norm output" => "L.attention.wq_a",
        name if name.starts_with("attention norm") => "L.attention_norm",
        name if name.starts_with("query latent") => "L.attention.q_norm",
        "normed query latent" => "L.attention.wq_b",
        "rotary factors" => "L.attention.rope",
        "rotary key" => "L.attention.kv_norm",
        name if name.starts_with("key/value latent") => "L.attention.kv_norm",
        "normed key/value latent" => "L.attention.wkv_b",
        "attention output" => "L.attention.wo",
        "dense norm output" => "L.feed_forward.w1",
        name if name.starts_with("dense norm") => "L.ffn_norm",
        "dense gate" | "dense up" | "dense activation" => "L.feed_forward",
        "dense product" => "L.feed_forward.w2",
        "expert norm output" if options.router == RouterFormat::Fp32 => "L.moe.shared_experts.w1",
        "expert norm output" | "router input" | "router weight" => "L.moe.router.gate",
        name if name.starts_with("expert norm") => "L.ffn_norm",
        "sigmoid" | "softmax of all" | "chosen experts" | "sums of chosen scores" | "chosen scores" => "L.moe.router",
        "tokens of copies, order" | "weights of copies" | "routed output in fp32" => "L.moe.routed_experts",
        "ends of experts" => "L.moe.routed_experts.inner_experts",
        name if name.starts_with("routed") => "L.moe.routed_experts.inner_experts",
        "shared gate" | "shared up" | "shared activation" => "L.moe.shared_experts",
        "shared product" => "L.moe.shared_experts.w2",
        name if name.starts_with("final norm") => "norm",
        "head input" => "lm_head",
        "log-softmax of logits" | "weight of all targets" => "<top>",
        _ => "L.attention.inner_attention",
    }
}

#[test]
fn torchtitan_keeps_what_is_listed() {
    assert_eq!(judge("torchtitan", kept), 10);
}

#[test]
fn torchtitan_at_full_size() {
    assert_eq!(judge_full_size("torchtitan", kept), 2);
}

#[test]
fn torchtitan_works_on_what_is_listed() {
    assert_eq!(judge_works("torchtitan", plan), 8);
}

#[test]
fn torchtitan_peaks_as_listed() {
    assert_eq!(
        judge_peaks("torchtitan", &[("tt_moe", "what the math kernel works on is not measured apart")], plan),
        20
    );
}
