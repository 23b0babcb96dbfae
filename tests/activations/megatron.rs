//! megatron-core and Megatron-LM.

use crate::{
    Kept, bytes, data, families, is_cuda, judge, judge_full_size, judge_works, number, of_micro_batch, says, switch,
    text,
};
use moe_model::Plan;
use moe_model::inventory::{Entry, Lifetime, Module};
use moe_model::preset::DEEPSEEK_V3;
use moe_model::sizes::Symbol;
use moe_model::spec::{
    Accounting, Architecture, Attention, AuxLoss, Batch, Capacity, CoreAttention, Dispatcher, ExpertKernel, Experts,
    Factor, GatedActivation, Gqa, Layers, MegatronCore, MegatronVersion, Mesh, Mla, Modules, Norm, NormCode, QkNorm,
    Recompute, RouterFormat, Routing, Score, Spec, Switch,
};
use serde_json::Value;

/// The options of a family.
fn options(family: &Value) -> MegatronCore {
    let (options, text) = (&family["options"], |key: &str| family[key].as_str().unwrap_or_default());
    MegatronCore {
        version: match text("version") {
            "0.11.0" => MegatronVersion::V011,
            "0.16.1" => MegatronVersion::V016,
            _ => MegatronVersion::V020,
        },
        core: match options["core"].as_str() {
            Some("sdpa" | "flash") => CoreAttention::Flash,
            Some("cudnn") => CoreAttention::Cudnn,
            Some("efficient") => CoreAttention::Efficient,
            _ if options["fsm"] == true => CoreAttention::FusedSoftmax,
            _ => CoreAttention::Unfused,
        },
        experts: if options["grouped"] == true { ExpertKernel::Grouped } else { ExpertKernel::Sequential },
        activation: match options["act"].as_str() {
            Some("plain") => GatedActivation::Unfused,
            _ if options["fp8store"] == true => GatedActivation::Fp8Input,
            _ => GatedActivation::Fused,
        },
        dropout: switch(is_cuda(family) && options["drop"].as_f64().is_some_and(|rate| rate > 0.0)),
        score: match options["score"].as_str() {
            Some("sigmoid") => Score::Sigmoid,
            _ if options["pre_softmax"] == true => Score::PreSoftmax,
            _ => Score::Softmax,
        },
        aux_loss: match options["aux"].as_str() {
            Some("aux_loss") => AuxLoss::Batch,
            Some("seq_aux_loss") => AuxLoss::Sequence,
            _ => AuxLoss::None,
        },
        router: if says(options, "rdtype", "fp32") { RouterFormat::Fp32 } else { RouterFormat::Activations },
        dispatcher: match options["dispatcher"].as_str() {
            Some("allgather") => Dispatcher::AllGather,
            _ => Dispatcher::AllToAll,
        },
        pad: switch(options["pad"] == true),
        shared_overlap: switch(options["shared_overlap"] == true),
        distribute: switch(options["distribute"] == true),
        norms: if text("name").ends_with("_cpunorm") { NormCode::Composite } else { NormCode::Fused },
        ..MegatronCore::DEFAULT
    }
}

/// Modules by the names of Megatron-LM's `--recompute-modules`.
fn selected(names: &[Value]) -> Modules {
    let mut modules = Modules::DEFAULT;
    for name in names {
        let module = match name.as_str() {
            Some("core_attn") => &mut modules.core_attention,
            Some("mla_up_proj") => &mut modules.latent_up,
            Some("layernorm") => &mut modules.norms,
            Some("moe_act") => &mut modules.activation,
            Some("shared_experts") => &mut modules.shared_experts,
            Some("moe") => &mut modules.experts,
            Some("mlp") => &mut modules.dense,
            _ => panic!("{name} is no module"),
        };
        *module = Switch::On;
    }
    modules
}

/// The Spec of a family at some dims: a layer, and what stands in front of it and behind it.
fn plan(family: &Value, dims: &Value) -> Plan {
    let (parallel, given, of) = (&family["parallel"], &family["options"], |key: &str| number(dims, key));
    let (is_moe, megatron) = (given["moe"] == true, options(family));
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (of("h"), of("V"));
    architecture.mtp = given["mtp"].as_u64().unwrap_or(0);
    architecture.layers = Layers { dense: u64::from(!is_moe), moe: u64::from(is_moe), ..Layers::DEFAULT };
    architecture.layers.ffn = if is_moe { 0 } else { of("hF") };
    architecture.attention = if says(given, "attn", "mla") {
        let (q_rank, kv_rank, nope, rope, value) = (of("ql"), of("kl"), of("dn"), of("dr"), of("dv"));
        Attention::Mla(Mla { heads: of("a"), q_rank, kv_rank, nope, rope, value, ..Mla::DEFAULT })
    } else {
        let qk_norm = if given["qk_layernorm"] == true { QkNorm::Head } else { QkNorm::None };
        Attention::Gqa(Gqa { heads: of("a"), kv_heads: of("g"), head_dim: of("d"), qk_norm, ..Gqa::DEFAULT })
    };
    if given["gpt"] == true {
        (architecture.norm, architecture.layers.gated) = (Norm::LayerBias, Switch::Off);
        architecture.positions = of("s");
    }
    if is_moe {
        // 0.11 was measured with experts as wide as a dense network.
        let ffn = of(if megatron.version == MegatronVersion::V011 { "hF" } else { "hE" });
        let shared = u64::from(given["shared"] == true);
        let shared_ffn = if shared > 0 { of("hS") } else { 0 };
        architecture.experts =
            Experts { routed: of("N"), active: of("k"), ffn, shared, shared_ffn, ..Experts::DEFAULT };
    }
    let (tp, cp, ep, etp) =
        (number(parallel, "tp"), number(parallel, "cp"), number(parallel, "ep"), number(parallel, "etp"));
    spec.layout.mesh = Mesh {
        dp: (number(parallel, "world") / (tp * cp)).max(1),
        tp,
        cp,
        ep,
        etp: if is_moe { etp } else { 1 },
        sequence_parallel: switch(parallel["sp"] == true),
        ..Mesh::DEFAULT
    };
    spec.layout.batch = Batch { sequence: of("s"), micro: of("b"), ..Batch::DEFAULT };
    spec.layout.recompute = if says(family, "recompute", "full") { Recompute::Full } else { Recompute::None };
    if let Some(modules) = family["recompute"].as_array() {
        (spec.layout.recompute, spec.layout.modules) = (Recompute::Selective, selected(modules));
    }
    if let Some(factor) = given["cap"].as_f64() {
        let factor = if (factor - 1.0).abs() < f64::EPSILON { Factor::ONE } else { Factor::thousandths(1250) };
        spec.layout.routing = Routing::Capacity(Capacity { factor });
    }
    spec.layout.accounting = Accounting::MegatronCore(megatron);
    Plan::new(spec).unwrap_or_else(|violations| panic!("{}: {violations}", family["name"]))
}

/// What a micro-batch keeps, with the one table of rotary embeddings that layers share when they are computed again.
fn kept(family: &Value, plan: &Plan) -> Vec<Entry> {
    let inventory = plan.inventory(0);
    let shared = inventory.iter().filter(|entry| entry.name == "rotary cache");
    of_micro_batch(family, plan).into_iter().chain(shared.copied()).collect()
}

fn of_family(family: &Value, dims: &Value) -> Vec<Kept> {
    let plan = plan(family, dims);
    let entry = |entry: Entry| Kept { module: module(&entry, &plan), is_saved: true, entry };
    kept(family, &plan).into_iter().map(entry).collect()
}

/// The module that first keeps a tensor, as the file names it.
#[allow(clippy::match_same_arms)] // in the order of a forward
fn module(entry: &Entry, plan: &Plan) -> &'static str {
    let Spec { architecture, layout } = plan.spec();
    let Accounting::MegatronCore(options) = layout.accounting else { unreachable!("all are Megatron's") };
    let is_latent = matches!(architecture.attention, Attention::Mla(_));
    let (is_moe, has_shared) = (architecture.layers.moe > 0, architecture.experts.shared > 0);
    let is_grouped = options.experts != ExpertKernel::Sequential;
    let overlaps = options.shared_overlap == Switch::On;
    let modules = layout.modules;
    let is_on = |switch: Switch| switch == Switch::On;
    match entry.name {
        // Inputs of what is computed again belong to what holds it.
        "attention norm input" | "dense norm input" | "expert norm input" if is_on(modules.norms) => "L",
        "query" | "key" | "value" | "fused query, key and value" if is_on(modules.core_attention) => "L.attn",
        "checkpoint of attention" | "rotary frequencies" => "L.attn",
        "normed query latent" | "normed key/value latent" if is_on(modules.latent_up) => "L.attn",
        "expert norm output" if is_on(modules.experts) || is_on(modules.shared_experts) => "L.mlp",
        "dense norm output" if is_on(modules.dense) => "L",
        "masked ids" | "mask of ids" => "embedding.word_embeddings",
        "embedding dropout mask" => "embedding.embedding_dropout",
        "layer input" | "rotary cache" => "decoder",
        "attention norm input" | "attention norm statistics" | "attention norm result" => "L.input_layernorm",
        "attention norm output" if is_latent => "L.attn.linear_q_down_proj",
        "attention norm output" => "L.attn.linear_qkv",
        "rotary tables" => "L.attn",
        "query latent" | "query before its norm" | "query norm statistics" => "L.attn.q_layernorm",
        name if name.starts_with("query latent norm") => "L.attn.q_layernorm",
        "key/value latent" | "rotary key" => "L.attn.kv_layernorm",
        name if name.starts_with("key/value latent norm") => "L.attn.kv_layernorm",
        "key norm statistics" => "L.attn.k_layernorm",
        "fused query, key and value" if entry_has_norms(plan) => "L.attn.k_layernorm",
        "normed query latent" => "L.attn.linear_q_up_proj",
        "normed key/value latent" => "L.attn.linear_kv_up_proj",
        "query of each head" | "key of each head" | "value of each head" => "L.attn.core_attention",
        "query"
        | "key"
        | "value"
        | "log-sum-exp"
        | "random state"
        | "probabilities"
        | "fused attention output"
        | "fused query, key and value" => "L.attn.core_attention",
        "softmax" => "Softmax",
        "fused softmax" | "fused softmax scale" => "L.attn.core_attention.scale_mask_softmax",
        "attention dropout mask" => "L.attn.core_attention.attention_dropout",
        "attention output" => "L.attn.linear_proj",
        "attention output dropout mask" | "dense output dropout mask" => "L",
        "dense norm input" | "dense norm statistics" | "dense norm result" => "L.pre_mlp_layernorm",
        "expert norm input" | "expert norm statistics" => "L.pre_mlp_layernorm",
        "dense norm output" => "L.mlp.linear_fc1",
        "dense gate and up" | "dense silu, up" => "L.mlp",
        "dense product" => "L.mlp.linear_fc2",
        "expert norm output" if has_shared && !overlaps && options.version != MegatronVersion::V011 => {
            "L.mlp.shared_experts.linear_fc1"
        }
        "expert norm output" => "L.mlp.router",
        "shared input" => "L.mlp.shared_experts.linear_fc1",
        "shared gate and up" if overlaps => "L.mlp",
        "shared gate and up" => "L.mlp.shared_experts",
        "shared product" => "L.mlp.shared_experts.linear_fc2",
        "permuted weights"
        | "permuted routing map"
        | "sorted routing map"
        | "indices of copies"
        | "indices of slots"
        | "weights of copies"
        | "outputs of copies" => "L.mlp",
        name if name.starts_with("routed") || name == "weights of rows" || name == "rows of experts" => match name {
            _ if is_grouped => "L.mlp.experts",
            "routed input" => "L.mlp.experts.e*.linear_fc1",
            "routed weighted product" => "L.mlp.experts.e*.linear_fc2",
            _ => "L.mlp.experts.e*",
        },
        "ids of next tokens" => "embedding.word_embeddings",
        name if name.starts_with("embedding norm") => "mtp.L.enorm",
        name if name.starts_with("hidden norm") => "mtp.L.hnorm",
        name if name.starts_with("module norm") => "mtp.L.final_layernorm",
        "embedding and hidden, normed" => "mtp.L.eh_proj",
        "mask of next tokens" | "number of next tokens" | "loss of next tokens" => "model",
        name if name.starts_with("final norm") => "decoder.final_layernorm",
        "head input" => "output_layer",
        "softmax of logits" | "mask of targets" | "masked targets" => "model",
        _ if is_moe => "L.mlp.router",
        name => panic!("`{name}` belongs to no module"),
    }
}

fn entry_has_norms(plan: &Plan) -> bool {
    matches!(plan.spec().architecture.attention, Attention::Gqa(Gqa { qk_norm: QkNorm::Head, .. }))
}

#[test]
fn megatron_core_keeps_what_is_listed() {
    assert_eq!(judge("megatron-core", of_family), 97);
}

/// Whole layers at the sizes of real models.
#[test]
fn megatron_core_at_full_size() {
    assert_eq!(judge_full_size("megatron-core", of_family), 7);
}

/// Several layers, dense ones first, that keep all they save or that are computed again, all or the first of them, each by
/// itself or in pairs.
#[test]
fn megatron_core_on_stacks_of_layers() {
    let data = data();
    let stacks = data["stacks"].as_array().expect("there are stacks");
    let families = families(&data);
    for stack in stacks {
        let family = families.iter().find(|family| family["name"] == stack["family"]).expect("it is measured");
        let (layers, dims) = (text(stack, "layers"), &stack["D"]);
        let [dense, moe] = ['D', 'M'].map(|kind| layers.chars().filter(|layer| *layer == kind).count() as u64);
        let is_full = says(stack, "recompute", "full");
        let changed = plan(family, dims).changed(|spec| {
            let of = &mut spec.architecture;
            (of.layers.dense, of.layers.moe) = (dense, moe);
            of.layers.ffn = if dense > 0 { number(dims, "hF") } else { 0 };
            if moe == 0 {
                of.experts = Experts::DEFAULT;
            }
            spec.layout.recompute = if is_full { Recompute::Full } else { Recompute::None };
            spec.layout.recompute_layers = stack["recompute_layers"].as_u64().unwrap_or(0);
            spec.layout.recompute_together = stack["recompute_together"].as_u64().unwrap_or(0);
        });
        let plan = changed.unwrap_or_else(|violations| panic!("{stack}: {violations}"));
        let sum: u64 = kept(family, &plan).iter().map(|entry| bytes(entry, None)).sum();
        assert_eq!(sum, number(stack, "bytes"), "{stack}");
    }
    assert_eq!(stacks.len(), 50);
}

/// What a block works on at its peak beyond what it saves, where micro-batches are not so small that gradients of weights
/// outgrow them.
#[test]
fn megatron_core_works_on_what_is_listed() {
    assert_eq!(judge_works("megatron-core", plan), 107);
}

/// What polynomials fitted to the same runs say of one layer of DeepSeek-V3, at a sequence of 4096 tokens: attention by how
/// it is computed, and whatever is kept for each copy of a token.
#[test]
fn megatron_core_on_a_layer_of_deepseek_v3() {
    let attention = [
        (CoreAttention::Unfused, 1, 13_709_656_064),
        (CoreAttention::FusedSoftmax, 1, 5_119_721_476),
        (CoreAttention::Flash, 1, 826_851_352),
        // Here without what a fused kernel keeps beside inputs and output.
        (CoreAttention::Flash, 2, 419_454_976),
    ];
    for (core, tp, measured) in attention {
        let mut spec = Spec::DEFAULT;
        spec.architecture = Architecture { mtp: 0, ..DEEPSEEK_V3 };
        spec.layout.batch = Batch { sequence: 4096, ..Batch::DEFAULT };
        spec.layout.mesh = Mesh { tp, sequence_parallel: switch(tp > 1), ..Mesh::DEFAULT };
        let experts = ExpertKernel::Sequential;
        spec.layout.accounting = Accounting::MegatronCore(MegatronCore { core, experts, ..MegatronCore::DEFAULT });
        let inventory = Plan::new(spec).expect("it is legal").inventory(0);
        let kept = || inventory.iter().filter(|entry| entry.lifetime == Lifetime::MicroBatch);
        let is_counted = |name| tp == 1 || !["log-sum-exp", "random state"].contains(&name);
        let of_attention = kept().filter(|entry| entry.module == Module::Attention && is_counted(entry.name));
        assert_eq!(of_attention.map(|entry| entry.bytes().bytes()).sum::<u64>(), 61 * measured, "{core:?} tp {tp}");
        if tp == 1 {
            let of_rows = kept().filter(|entry| entry.shape[0].symbol == Symbol::Rows);
            assert_eq!(of_rows.map(|entry| entry.bytes().bytes()).sum::<u64>(), 58 * 872_546_304);
        }
    }
}
