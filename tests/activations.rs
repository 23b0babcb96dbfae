//! What accountings of frameworks list, against what those frameworks keep: live storages of real training steps, measured
//! to the byte. See `tests/data/README.md` for the file.

use moe_model::Plan;
use moe_model::inventory::{Block, Entry, Lifetime, Module, Role};
use moe_model::preset::DEEPSEEK_V3;
use moe_model::sizes::Symbol;
use moe_model::spec::{
    Accounting, Architecture, Attention, AuxLoss, Batch, Capacity, CoreAttention, Dispatcher, ExpertKernel, Experts,
    Factor, GatedActivation, Gqa, Layers, MegatronCore, MegatronVersion, Mesh, Mla, Modules, QkNorm, Recompute,
    RouterFormat, Routing, Score, Spec, Switch,
};
use serde_json::Value;
use std::collections::BTreeMap;

const DATA: &str = include_str!("data/activations.json");

/// Families that no key says, and why.
const BEYOND: &[(&str, &str)] = &[
    ("_gpt_", "learned positions, and GELU with a bias"),
    ("_cpunorm", "norms as PyTorch takes them apart on a CPU"),
    ("_mtp1", "modules for multi-token prediction"),
];

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` of {value}"))
}

fn says(options: &Value, key: &str, word: &str) -> bool {
    options[key] == word
}

const fn switch(on: bool) -> Switch {
    if on { Switch::On } else { Switch::Off }
}

/// The options of a family.
fn options(family: &Value) -> MegatronCore {
    let (options, text) = (&family["options"], |key: &str| family[key].as_str().unwrap_or_default());
    let is_cuda = text("device").starts_with("fake-cuda");
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
        dropout: switch(is_cuda && options["drop"].as_f64().is_some_and(|rate| rate > 0.0)),
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
    architecture.layers = Layers { dense: u64::from(!is_moe), moe: u64::from(is_moe), ..Layers::DEFAULT };
    architecture.layers.ffn = if is_moe { 0 } else { of("hF") };
    architecture.attention = if says(given, "attn", "mla") {
        let (q_rank, kv_rank, nope, rope, value) = (of("ql"), of("kl"), of("dn"), of("dr"), of("dv"));
        Attention::Mla(Mla { heads: of("a"), q_rank, kv_rank, nope, rope, value, ..Mla::DEFAULT })
    } else {
        let qk_norm = if given["qk_layernorm"] == true { QkNorm::Head } else { QkNorm::None };
        Attention::Gqa(Gqa { heads: of("a"), kv_heads: of("g"), head_dim: of("d"), qk_norm, ..Gqa::DEFAULT })
    };
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

/// What an entry takes where so many copies of tokens were received.
fn bytes(entry: &Entry, rows: Option<u64>) -> u64 {
    let length = |dim: &moe_model::sizes::Dim| match (dim.symbol, rows) {
        (Symbol::Rows, Some(rows)) => rows,
        _ => dim.local,
    };
    entry.shape.iter().map(length).product::<u64>() * entry.element.bytes * entry.count
}

/// What a micro-batch keeps, with the one table of rotary embeddings that layers share when they are computed again.
fn kept<'p>(family: &'p Value, plan: &'p Plan) -> impl Iterator<Item = Entry> + 'p {
    // On a CPU the kernel has no dropout whose state it could keep.
    let is_cpu = !family["device"].as_str().unwrap_or_default().starts_with("fake-cuda");
    let inventory = plan.inventory(0);
    let entries: Vec<Entry> = inventory.iter().copied().collect();
    entries.into_iter().filter(move |entry| match entry.lifetime {
        Lifetime::MicroBatch => !(is_cpu && entry.name == "random state"),
        _ => entry.name == "rotary cache",
    })
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
        "attention norm input" | "attention norm statistics" => "L.input_layernorm",
        "attention norm output" if is_latent => "L.attn.linear_q_down_proj",
        "attention norm output" => "L.attn.linear_qkv",
        "rotary tables" => "L.attn",
        "query latent" | "query latent norm statistics" | "query before its norm" | "query norm statistics" => {
            "L.attn.q_layernorm"
        }
        "key/value latent" | "rotary key" | "key/value latent norm statistics" => "L.attn.kv_layernorm",
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
        "dense norm input" | "dense norm statistics" | "expert norm input" | "expert norm statistics" => {
            "L.pre_mlp_layernorm"
        }
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
        "final norm input" | "final norm statistics" => "decoder.final_layernorm",
        "head input" => "output_layer",
        "softmax of logits" | "mask of targets" | "masked targets" => "model",
        _ if is_moe => "L.mlp.router",
        name => panic!("`{name}` belongs to no module"),
    }
}

fn entry_has_norms(plan: &Plan) -> bool {
    matches!(plan.spec().architecture.attention, Attention::Gqa(Gqa { qk_norm: QkNorm::Head, .. }))
}

/// Families with the options of their first rank.
fn families(data: &Value) -> Vec<Value> {
    let mut first = Value::Null;
    let all = data["families"].as_array().expect("there are families");
    let inherit = |family: &Value| {
        let mut family = family.clone();
        if family["options"].is_null() {
            for key in ["options", "parallel", "recompute"] {
                family[key] = first[key].clone();
            }
        } else {
            first = family.clone();
        }
        family
    };
    all.iter().map(inherit).collect()
}

#[test]
fn megatron_core_keeps_what_is_listed() {
    let data: Value = serde_json::from_str(DATA).expect("it is JSON");
    let (mut judged, mut cases, mut modules) = (0, 0, 0);
    let mut wrong = Vec::new();
    for family in families(&data) {
        let name = family["name"].as_str().expect("families have names");
        if BEYOND.iter().any(|(part, _)| name.contains(part)) {
            continue;
        }
        judged += 1;
        for case in family["cases"].as_array().expect("families have cases") {
            let plan = plan(&family, &data["dims"][case["dims"].as_str().expect("cases have dims")]);
            let rows = case["R"].as_u64();
            let (mut sum, mut by_module) = (0, BTreeMap::<&str, u64>::new());
            for entry in kept(&family, &plan) {
                sum += bytes(&entry, rows);
                *by_module.entry(module(&entry, &plan)).or_default() += bytes(&entry, rows);
            }
            if sum != number(case, "bytes_saved") {
                wrong.push(format!("{name} at {}: {sum}, not {}", case["dims"], case["bytes_saved"]));
            }
            cases += 1;
            if let Some(measured) = case["per_module"].as_object() {
                modules += measured.len();
                for module in measured.keys().map(String::as_str).chain(by_module.keys().copied()) {
                    let (listed, measured) =
                        (by_module.get(module).copied(), measured.get(module).and_then(Value::as_u64));
                    if listed != measured {
                        wrong.push(format!("{name} at {}: {module} {listed:?}, not {measured:?}", case["dims"]));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
    println!("{judged} families, {cases} cases, {modules} modules");
}

/// Whole layers at the sizes of real models.
#[test]
fn megatron_core_at_full_size() {
    let data: Value = serde_json::from_str(DATA).expect("it is JSON");
    let families = families(&data);
    let mut judged = 0;
    for check in data["full_size"].as_array().expect("there are checks") {
        let family = families.iter().find(|family| family["name"] == check["family"]);
        let Some(family) = family.filter(|family| !family["name"].as_str().unwrap_or_default().contains("_gpt_"))
        else {
            continue;
        };
        let plan = plan(family, &check["D"]);
        let sum: u64 = kept(family, &plan).map(|entry| bytes(&entry, None)).sum();
        assert_eq!(sum, number(check, "measured"), "{check}");
        judged += 1;
    }
    assert_eq!(judged, 4);
}

/// What a block works on at its peak beyond what it saves, where micro-batches are not so small that gradients of weights
/// outgrow them.
#[test]
fn megatron_core_works_on_what_is_listed() {
    let data: Value = serde_json::from_str(DATA).expect("it is JSON");
    let families = families(&data);
    let mut wrong = Vec::new();
    let checks = data["transients"].as_array().expect("there are transients");
    for check in checks {
        let family = families.iter().find(|family| family["name"] == check["family"]).expect("it is measured");
        let plan = plan(family, &check["D"]);
        let block = match check["block"].as_str() {
            Some("attention") => Block::Attention,
            Some("dense") => Block::Dense,
            _ => Block::Moe,
        };
        let lifetime =
            if check["phase"] == "forward" { Lifetime::InForward(block) } else { Lifetime::InBackward(block) };
        let inventory = plan.inventory(0);
        let works = inventory.iter().filter(|entry| entry.lifetime == lifetime);
        // A block that is measured alone makes what it holds from then on.
        let makes = |entry: &&Entry| match (entry.name, block) {
            ("global memory buffer", Block::Attention) => true,
            ("global memory buffer", _) => plan.spec().layout.mesh.sequence_parallel.is_on(),
            _ => entry.lifetime == Lifetime::Always && entry.module == Module::Router && block == Block::Moe,
        };
        let held = inventory.iter().filter(|entry| entry.role == Role::Workspace).filter(makes);
        let one = |entry: &Entry| bytes(entry, None) / entry.count;
        let sum: u64 = works.map(|entry| bytes(entry, None)).sum::<u64>() + held.map(one).sum::<u64>();
        if sum != number(check, "bytes") {
            wrong.push(format!("{sum}: {check}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), checks.len(), wrong.join("\n"));
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
