//! What accountings of frameworks list, against what those frameworks keep: live storages of real training steps, measured
//! to the byte. See `tests/data/README.md` for the file.

mod megatron;
mod torchtitan;
mod transformers;

use moe_model::inventory::{Block, Entry, Lifetime, Module, Role};
use moe_model::sizes::{Dim, Symbol};
use moe_model::spec::{Backend, Experts, Layers, Mla, Score, Spec, Switch};
use moe_model::{Plan, moe_model};
use serde_json::Value;
use std::collections::BTreeMap;

fn data() -> Value {
    serde_json::from_str(include_str!("../data/activations.json")).expect("it is JSON")
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` of {value}"))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("`{key}` of {value}"))
}

fn says(options: &Value, key: &str, word: &str) -> bool {
    options[key] == word
}

const fn switch(on: bool) -> Switch {
    if on { Switch::On } else { Switch::Off }
}

fn is_cuda(family: &Value) -> bool {
    text(family, "device").starts_with("fake-cuda")
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

/// The framework of a family; the file names those other than Megatron's.
fn framework(family: &Value) -> &str {
    family["framework"].as_str().unwrap_or("megatron-core")
}

/// What an entry takes where so many copies of tokens were received.
fn bytes(entry: &Entry, rows: Option<u64>) -> u64 {
    let length = |dim: &Dim| match (dim.symbol, rows) {
        (Symbol::Rows, Some(rows)) => rows,
        _ => dim.local,
    };
    entry.shape.iter().map(length).product::<u64>() * entry.element.bytes * entry.count
}

/// What a micro-batch keeps between forward and backward. On a CPU the kernel of attention has no dropout whose state it
/// could keep.
fn of_micro_batch(family: &Value, plan: &Plan) -> Vec<Entry> {
    let is_cuda = is_cuda(family);
    let is_kept = |entry: &&Entry| entry.lifetime == Lifetime::MicroBatch && (is_cuda || entry.name != "random state");
    plan.inventory(0).iter().filter(is_kept).copied().collect()
}

/// The kernel of PyTorch's scaled dot product in a run. On a CPU there is one, where queries are as wide as values.
fn backend(family: &Value, is_latent: bool) -> Backend {
    match text(family, "device") {
        "cpu" if is_latent => Backend::Math,
        "cpu" | "fake-cuda (flash attention op)" => Backend::Flash,
        "fake-cuda (efficient attention op)" => Backend::Efficient,
        "fake-cuda (cudnn attention op)" => Backend::Cudnn,
        device => panic!("{device} is not known"),
    }
}

/// A layer, dense or with experts, of these dims, its attention apart.
fn layer(dims: &Value, is_moe: bool) -> Spec {
    let of = |key: &str| number(dims, key);
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (of("h"), of("V"));
    let ffn = if is_moe { 0 } else { of("hF") };
    architecture.layers = Layers { dense: u64::from(!is_moe), moe: u64::from(is_moe), ffn, ..Layers::DEFAULT };
    if is_moe {
        architecture.experts = Experts { routed: of("N"), active: of("k"), ffn: of("hE"), ..Experts::DEFAULT };
    }
    (spec.layout.batch.sequence, spec.layout.batch.micro) = (of("s"), of("b"));
    spec
}

fn latent(dims: &Value) -> Mla {
    let of = |key: &str| number(dims, key);
    let (q_rank, kv_rank, nope, rope, value) = (of("ql"), of("kl"), of("dn"), of("dr"), of("dv"));
    Mla { heads: of("a"), q_rank, kv_rank, nope, rope, value, ..Mla::DEFAULT }
}

/// Scores by the name that frameworks give them.
fn score(options: &Value, default: Score) -> Score {
    match options["score"].as_str() {
        None => default,
        Some("sigmoid") => Score::Sigmoid,
        Some("softmax") => Score::PreSoftmax,
        Some(score) => panic!("{score} is not known"),
    }
}

/// An entry that is kept.
struct Kept {
    entry: Entry,
    /// The module that first keeps it, as the file names it.
    module: &'static str,
    /// Whether an operation saved it, rather than that it is held by something else.
    is_saved: bool,
}

/// Holds what is listed of every family of a framework, but for some with the reason, at all dims against what was measured:
/// all together and by module, and, where that was measured, against all that was alive, the loss apart. How many there are.
fn judge(of: &str, kept: impl Fn(&Value, &Value) -> Vec<Kept>) -> usize {
    const LOSS: u64 = 4;
    let data = data();
    let (mut judged, mut cases, mut modules) = (0, 0, 0);
    let mut wrong = Vec::new();
    for family in families(&data).iter().filter(|family| framework(family) == of) {
        let name = text(family, "name");
        judged += 1;
        for case in family["cases"].as_array().expect("families have cases") {
            let kept = kept(family, &data["dims"][text(case, "dims")]);
            let rows = case["R"].as_u64();
            let mut note = |what: &str, listed: Option<u64>, measured: Option<u64>| {
                if listed != measured {
                    wrong.push(format!("{name} at {}: {what} {listed:?}, not {measured:?}", case["dims"]));
                }
            };
            let (mut saved, mut alive, mut by_module) = (0, LOSS, BTreeMap::<&str, u64>::new());
            for Kept { entry, module, is_saved } in kept {
                let bytes = bytes(&entry, rows);
                alive += bytes;
                if is_saved {
                    saved += bytes;
                    *by_module.entry(module).or_default() += bytes;
                }
            }
            note("saved", Some(saved), case["bytes_saved"].as_u64());
            if let Some(measured) = case["live_end_fwd"].as_u64() {
                note("alive", Some(alive), Some(measured));
            }
            cases += 1;
            if let Some(measured) = case["per_module"].as_object() {
                modules += measured.len();
                // The layer of a module for multi-token prediction is listed with the others.
                let mut layers = BTreeMap::<String, u64>::new();
                for (module, bytes) in measured {
                    let bytes = bytes.as_u64().expect("bytes are whole");
                    *layers.entry(module.replace("mtp.L.tl.", "L.")).or_default() += bytes;
                }
                for module in layers.keys().map(String::as_str).chain(by_module.keys().copied()) {
                    note(module, by_module.get(module).copied(), layers.get(module).copied());
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
    println!("{of}: {judged} families, {cases} cases, {modules} modules");
    judged
}

/// Holds whole layers of a framework at the sizes of real models against what was measured. How many there are. A check may
/// be of a run like another but for its device or options.
fn judge_full_size(of: &str, kept: impl Fn(&Value, &Value) -> Vec<Kept>) -> usize {
    let data = data();
    let families = families(&data);
    let mut judged = 0;
    for check in data["full_size"].as_array().expect("there are checks") {
        let name = check["like"].as_str().unwrap_or_else(|| text(check, "family"));
        let mut family = families.iter().find(|family| family["name"] == name).expect("it is measured").clone();
        if framework(&family) != of {
            continue;
        }
        for key in ["device", "options"] {
            if let Some(own) = check.get(key) {
                family[key] = own.clone();
            }
        }
        let sum: u64 = kept(&family, &check["D"]).iter().map(|kept| bytes(&kept.entry, None)).sum();
        assert_eq!(sum, number(check, "measured"), "{check}");
        judged += 1;
    }
    judged
}

/// Holds what modules of a framework alone work on at their peaks, beyond what they save, against what was measured; of
/// experts that run one after the other without the largest of them. How many peaks there are.
fn judge_works(of: &str, plan: impl Fn(&Value, &Value) -> Plan) -> usize {
    let data = data();
    let families = families(&data);
    let (mut judged, mut wrong) = (0, Vec::new());
    for check in data["transients"].as_array().expect("there are transients") {
        let family = families.iter().find(|family| family["name"] == check["family"]).expect("it is measured");
        if framework(family) != of {
            continue;
        }
        let block = match text(check, "block") {
            "attention" => Block::Attention,
            "dense" => Block::Dense,
            "head" => Block::Head,
            _ => Block::Moe,
        };
        let lifetime =
            if check["phase"] == "forward" { Lifetime::InForward(block) } else { Lifetime::InBackward(block) };
        let plan = plan(family, &check["D"]);
        let inside = works(&plan, lifetime, &|entry| !AROUND.contains(&entry.name));
        let sum = inside + made(&plan, block) + check["of_largest_expert"].as_u64().unwrap_or(0);
        if sum != number(check, "bytes") {
            wrong.push(format!("{sum}: {check}"));
        }
        judged += 1;
    }
    assert!(wrong.is_empty(), "{} of {judged}:\n{}", wrong.len(), wrong.join("\n"));
    judged
}

/// What a block makes that is measured alone, and holds from then on.
fn made(plan: &Plan, block: Block) -> u64 {
    let inventory = plan.inventory(0);
    let makes = |entry: &&Entry| match (entry.name, block) {
        ("global memory buffer", Block::Attention) => true,
        ("global memory buffer", _) => plan.spec().layout.mesh.sequence_parallel.is_on(),
        _ => entry.lifetime == Lifetime::Always && entry.module == Module::Router && block == Block::Moe,
    };
    let held = inventory.iter().filter(|entry| entry.role == Role::Workspace).filter(makes);
    held.map(|entry| bytes(entry, None) / entry.count).sum()
}

/// What stands around a module while it runs.
const AROUND: [&str; 4] = ["layer input, residual stream", "positions", "causal mask", "loss that is asked for"];

/// What a rank works on in a block.
fn works(plan: &Plan, lifetime: Lifetime, of: &dyn Fn(&Entry) -> bool) -> u64 {
    let inventory = plan.inventory(0);
    let works = inventory.iter().filter(|entry| entry.lifetime == lifetime && of(entry));
    works.map(|entry| bytes(entry, None)).sum()
}

/// Holds the peaks of forwards against what was measured: that of the loss, and that of experts, before shared experts, final
/// norm and loss have saved anything. Some families may have larger ones, with the reason. How many are exact.
fn judge_peaks(of: &str, beyond: &[(&str, &str)], plan: impl Fn(&Value, &Value) -> Plan) -> usize {
    let data = data();
    let (mut judged, mut wrong) = (0, Vec::new());
    for family in families(&data).iter().filter(|family| framework(family) == of) {
        for case in family["cases"].as_array().expect("families have cases") {
            let Some(measured) = case["peak_fwd"].as_u64() else { continue };
            let plan = plan(family, &data["dims"][text(case, "dims")]);
            let kept = of_micro_batch(family, &plan);
            let saved = |of: &dyn Fn(&Entry) -> bool| -> u64 {
                kept.iter().filter(|entry| of(entry)).map(|entry| bytes(entry, None)).sum()
            };
            // The loss that balances experts comes behind the other, but the logits that it reads are there already.
            let of_loss = saved(&|entry| entry.name != "tokens of experts");
            let of_experts = saved(&|entry| {
                let is_later = matches!(entry.module, Module::Head | Module::SharedExperts);
                !is_later && entry.name != "scores for the balance loss"
            });
            let of_loss = of_loss + works(&plan, Lifetime::InForward(Block::Head), &|_| true);
            let of_experts = of_experts + works(&plan, Lifetime::InForward(Block::Moe), &|_| true);
            let listed = of_loss.max(of_experts);
            if beyond.iter().any(|(part, _)| text(family, "name").contains(part)) {
                assert!(listed <= measured, "{} at {}: {listed}, not {measured}", family["name"], case["dims"]);
                continue;
            }
            if listed != measured {
                wrong.push(format!("{} at {}: {of_loss} {of_experts}, not {measured}", family["name"], case["dims"]));
            }
            judged += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {judged}:\n{}", wrong.len(), wrong.join("\n"));
    judged
}

/// Holds the budget of a rank in backward against measured peaks, which it must not fall short of: it counts all that was
/// saved beside the largest of what blocks work on, or compute again. How many peaks there are; of some families, with the
/// reason, none.
fn judge_backward(of: &str, beyond: &[(&str, &str)], plan: impl Fn(&Value, &Value) -> Plan) -> usize {
    let data = data();
    let (mut judged, mut wrong) = (0, Vec::new());
    for family in families(&data).iter().filter(|family| framework(family) == of) {
        let name = text(family, "name");
        if beyond.iter().any(|(part, _)| name.contains(part)) {
            continue;
        }
        for case in family["cases"].as_array().expect("families have cases") {
            let Some(measured) = case["peak_bwd"].as_u64() else { continue };
            let plan = plan(family, &data["dims"][text(case, "dims")]);
            let saved: u64 = of_micro_batch(family, &plan).iter().map(|entry| bytes(entry, None)).sum();
            let works = |block: &Block| works(&plan, Lifetime::InBackward(*block), &|_| true);
            let listed = saved + Block::ALL.iter().map(works).max().unwrap_or_default();
            if listed < measured {
                wrong.push(format!("{name} at {}: {listed}, not {measured}", case["dims"]));
            }
            judged += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {judged}:\n{}", wrong.len(), wrong.join("\n"));
    judged
}

moe_model! {
    /// A layer of Mixtral 8x7B, and one of each by other rules.
    struct Mixtral;

    hidden: 4096,
    vocab: 32_000,
    layers: layers { moe: 1 },
    attention: gqa { heads: 32, kv_heads: 8, head_dim: 128 },
    experts: experts { routed: 8, active: 2, ffn: 14_336 },

    layout Transformers: layout {
        mesh: mesh { dp: 1 },
        batch: batch { sequence: 4096, micro: 2 },
        accounting: transformers {
            attention: sdpa, backend: flash, routed: grouped_mm, score: pre_softmax, router: fp32, normalised: on,
            router_logits: off,
        },
    },
    layout Torchtitan: layout {
        recompute: selective,
        accounting: torchtitan { backend: flash, norms: fused, score: pre_softmax, router: fp32, normalised: on },
        ..Transformers
    },
}

/// The declaration of a check at full size, which transformers ran.
#[test]
fn a_declaration_says_what_was_measured() {
    let data = data();
    let checks = data["full_size"].as_array().expect("there are checks");
    let check = checks.iter().find(|check| check["family"] == "hf_fk_mixtral_flash_grouped").expect("it is there");
    const { assert!(Mixtral::TRANSFORMERS.budget(0).stored_activations().bytes() == 4_173_398_076) };
    assert_eq!(number(check, "measured"), 4_173_398_076);
    // Layer input, what every second product makes, attention and its state, the choice of experts; norm, head and loss.
    let (tokens, heads, width) = (2 * 4096, 32, 128);
    let products = 4096 + 1024;
    let attention = 2 * heads * width * tokens + 4 * heads * tokens + 24;
    let ends = (2 + 2) * 4096 * tokens + 4 * tokens + 4 * 32_000 * tokens + 4;
    let kept = 2 * 4096 * tokens + 2 * products * tokens + attention + (8 + 4) * 2 * tokens + ends;
    assert_eq!(Mixtral::TORCHTITAN.budget(0).stored_activations().bytes(), kept);
}
