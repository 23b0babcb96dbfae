//! Every row of the rebuilt tables of arXiv:2502.07846, by its id: computed from the library, or named with the reason
//! why it is not. See `tests/data/README.md` for where the rows come from.

use moe_model::inventory::{Element, Lifetime, Module};
use moe_model::preset::MIXTRAL_8X7B;
use moe_model::spec::{
    Accounting, Batch, Capacity, Dropless, Factor, Kernel, MegatronCore, Mesh, Paper, Pool, Precision, Recompute,
    Routing, Schedule, Spec, Split, Switch, Zero, ZeroGroups, ZeroStage,
};
use moe_model::{Budget, Entry, Phase, Plan, Role, moe_model};
use serde_json::Value;
use std::collections::BTreeMap;

moe_model! {
    /// DeepSeek-V3 under the layout analysed in arXiv:2502.07846.
    pub struct DeepSeekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on },
    mtp: 1,

    layout Paper: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, etp: 1, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        schedule: one_f_one_b,
        zero: zero { dense: none, expert: none, groups: moe_block },
        placement: placement { query_rope: replicated, shared_experts: replicated },
        precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
        batch: batch { sequence: 4096, micro: 1, count: 32 },
        recompute: none,
        routing: balanced,
        accounting: paper { kernel: eager, dropout: on, pool: replica },
    },
    /// Fixture B: the rank of stage 1 in the worked example.
    layout Worked: layout {
        zero: zero { dense: optimizer, expert: optimizer, groups: uniform, ways: 8 },
        precision: precision { weights: bf16, gradients: bf16, master: none, moments: fp32 },
        recompute: full,
        accounting: worked_example { checkpoint: sub_block },
        headroom: percent(10),
        ..Paper
    },
}

moe_model! {
    /// Fixture A: a rank small enough to add up by hand; stage 2 of 5 holds 2 layers and 3 micro-batches.
    pub struct HandSized;

    hidden: 256,
    vocab: 512,
    layers: layers { moe: 10 },
    attention: gqa { heads: 4, kv_heads: 4, head_dim: 64 },
    experts: experts { routed: 16, shared: 1, active: 2, ffn: 128 },

    // The fixture shares the state of experts over all 8 ranks of a stage, though only 2 of them are replicas.
    #[allow(deprecated)]
    layout Main: layout {
        mesh: mesh { dp: 8, pp: 5, ep: 4 },
        zero: zero { dense: optimizer, expert: optimizer, groups: uniform, ways: 8 },
        precision: precision { weights: bf16, gradients: bf16, master: none, moments: fp32 },
        batch: batch { sequence: 128, micro: 2, count: 8 },
        recompute: full,
        accounting: worked_example { checkpoint: layer },
        headroom: percent(10),
    },
}

const ZERO: [(&str, ZeroStage); 4] = [
    ("none", ZeroStage::None),
    ("os", ZeroStage::Optimizer),
    ("os+g", ZeroStage::Gradients),
    ("os+g+params", ZeroStage::Parameters),
];

fn tables() -> Value {
    serde_json::from_str(include_str!("data/paper_tables.json")).expect("the tables are JSON")
}

/// The paper's plan with something changed.
fn plan(change: impl FnOnce(&mut Spec)) -> Plan {
    changed(&DeepSeekV3::PAPER, change)
}

fn changed(plan: &Plan, change: impl FnOnce(&mut Spec)) -> Plan {
    plan.changed(change).expect("the changed layout is legal")
}

fn accounting(kernel: Kernel, dropout: Switch, pool: Pool) -> Accounting {
    Accounting::Paper(Paper { kernel, dropout, pool })
}

fn full() -> Plan {
    plan(|spec| spec.layout.recompute = Recompute::Full)
}

/// Sums over the entries of one rank.
fn sum(plan: &Plan, stage: u64, of: impl Fn(&Entry) -> bool, amount: impl Fn(&Entry) -> u64) -> u64 {
    plan.inventory(stage).into_iter().filter(|entry| of(entry)).map(amount).sum()
}

/// Parameters on a rank of stage 1 that a filter lets through.
fn parameters(plan: &Plan, of: impl Fn(&Entry) -> bool) -> u64 {
    sum(plan, 1, |e| e.role == Role::Weight && of(e), |e| e.local_elements() * e.count)
}

/// Bytes that one micro-batch saves on a rank of stage 1, of entries that a filter lets through.
fn saved(plan: &Plan, of: impl Fn(&Entry) -> bool) -> u64 {
    sum(plan, 1, |e| e.lifetime == Lifetime::MicroBatch && of(e), |e| e.bytes().bytes())
}

/// One layer's parameters over all ranks, as the whole model's inventory has them.
fn whole(name: &str, part: &str) -> u64 {
    let inventory = DeepSeekV3::PAPER.inventory(0);
    let entry = inventory.into_iter().find(|e| e.name == name && (part.is_empty() || e.part == part));
    entry.unwrap_or_else(|| panic!("no weight {name} {part}")).global_elements()
}

/// The rows that the library computes, by id.
#[derive(Default)]
struct Rows {
    exact: BTreeMap<String, u64>,
    /// Rounded as the table rounds.
    decimal: BTreeMap<String, f64>,
}

impl Rows {
    fn put(&mut self, id: impl Into<String>, value: u64) {
        let id = id.into();
        assert!(self.exact.insert(id.clone(), value).is_none(), "{id} is computed twice");
    }

    /// BF16 size of some parameters, in GiB to so many places.
    #[allow(clippy::cast_precision_loss)] // the table's own rounding
    fn gib(&mut self, id: &str, parameters: u64, places: i32) {
        let scale = 10_f64.powi(places);
        let gib = 2.0 * parameters as f64 / f64::from(1 << 30);
        self.decimal.insert(id.to_owned(), (gib * scale).round() / scale);
    }
}

/// Tables 1 and 5 and what follows from the declaration itself.
fn constants(rows: &mut Rows) {
    let paper = DeepSeekV3::PAPER;
    let numbers = paper.spec().numbers();
    for (id, path) in [
        ("t1.h", "hidden"),
        ("t1.h_E", "experts.ffn"),
        ("t1.h_F", "layers.ffn"),
        ("t1.d_h", "attention.nope"),
        ("t1.n_h", "attention.heads"),
        ("t1.d_cq", "attention.q_rank"),
        ("t1.d_hr", "attention.rope"),
        ("t1.d_c", "attention.kv_rank"),
        ("t1.N", "experts.routed"),
        ("t1.N_s", "experts.shared"),
        ("t1.v", "vocab"),
        ("t5.DP", "mesh.dp"),
        ("t5.TP", "mesh.tp"),
        ("t5.PP", "mesh.pp"),
        ("t5.EP", "mesh.ep"),
        ("t5.ETP", "mesh.etp"),
        ("t9.s", "batch.sequence"),
        ("t9.Nr", "experts.active"),
        ("t9.CP", "mesh.cp"),
    ] {
        let key = moe_model::Key::ALL.iter().find(|key| key.path() == path).expect("the key exists");
        rows.put(id, numbers.get(*key).expect("the declaration has the key"));
    }
    rows.put("t1.l", (0..paper.stages()).map(|stage| paper.stage(stage).layers()).sum());
    rows.put("t5.EDP", paper.edp());
    rows.put("t5.world", paper.world());
    rows.put("t5.check", paper.stage_ranks());
    rows.put("t9.SP", paper.sequence_ranks());
    let Precision { weights, gradients, master, moments, activations, .. } = paper.spec().layout.precision;
    rows.put("t7.weights_BF16", weights.bytes());
    rows.put("t7.activations_BF16", activations.bytes());
    rows.put("t7.gradients_FP32", gradients.bytes());
    rows.put("t7.optimizer_master_copy_FP32", master.bytes());
    rows.put("t7.momentum_BF16", moments.bytes());
    rows.put("t7.variance_BF16", moments.bytes());
}

/// Tables 2, 3 and 4: the whole model, matrix by matrix, layer by layer, stage by stage.
fn parameter_tables(rows: &mut Rows) {
    let mla: BTreeMap<&str, u64> = [
        ("W_DQ", whole("self_attn.q_a_proj.weight", "")),
        ("W_UQ", whole("self_attn.q_b_proj.weight", "nope")),
        ("W_QR", whole("self_attn.q_b_proj.weight", "rope")),
        ("W_DKV", whole("self_attn.kv_a_proj_with_mqa.weight", "latent")),
        ("W_KR", whole("self_attn.kv_a_proj_with_mqa.weight", "rope")),
        ("W_UK", whole("self_attn.kv_b_proj.weight", "key")),
        ("W_UV", whole("self_attn.kv_b_proj.weight", "value")),
        ("W_O", whole("self_attn.o_proj.weight", "")),
    ]
    .into();
    for (name, elements) in &mla {
        rows.put(format!("t2.{name}"), *elements);
    }
    let latents = whole("self_attn.q_a_layernorm.weight", "") + whole("self_attn.kv_a_layernorm.weight", "");
    let norms = whole("input_layernorm.weight", "") + whole("post_attention_layernorm.weight", "") + latents;
    let attention: u64 = mla.values().sum();
    let routed = whole("mlp.experts.gate_proj.weight", "") * 3;
    let shared = whole("mlp.shared_experts.gate_proj.weight", "") * 3;
    let router = whole("mlp.gate.weight", "");
    let dense = whole("mlp.gate_proj.weight", "") * 3;
    let table = whole("model.embed_tokens.weight", "");
    rows.put("t2.expert", routed / 256);
    rows.put("p.mla_weights", attention);
    rows.put("p.mla_with_latent_norms", attention + latents);
    rows.put("p.norm_per_layer", norms);
    rows.put("p.router", router);
    rows.put("p.moe_layer", router + routed + shared);
    rows.put("p.dense_mlp", dense);
    rows.put("p.embedding", table);

    // The paper's rows of layers add the latent norms twice: once in the MLA row, once in the LN row.
    let dense_layer = attention + norms + dense + latents;
    let moe_layer = attention + norms + router + routed + shared + latents;
    let layers = [
        ("t3.layer0", table + dense_layer),
        ("t3.layers1_2", dense_layer),
        ("t3.layers3_59", moe_layer),
        ("t3.layer60", moe_layer + table),
        // ... and leave out the final norm.
        ("t3.total", 2 * table + 3 * dense_layer + 58 * moe_layer),
        ("t4.stage0", table + 3 * dense_layer + moe_layer),
        ("t4.stage1_14", 4 * moe_layer),
        ("t4.stage15", moe_layer + table),
    ];
    for (id, parameters) in layers {
        rows.put(id, parameters);
        rows.gib(&format!("{id}.gib"), parameters, 3);
    }
    rows.put("t4.total", 2 * table + 3 * dense_layer + 58 * moe_layer);
    rows.put("t3.total_true", DeepSeekV3::ARCHITECTURE.parameters().total());
}

/// Table 6: the parameters of one rank of stages 1 to 14.
fn rank_parameters(rows: &mut Rows) {
    let paper = DeepSeekV3::PAPER;
    let is_split = |e: &Entry| e.local_elements() < e.global_elements();
    let module = |module: Module| move |e: &Entry| e.module == module;
    let attention = module(Module::Attention);
    rows.put("t6.mla_tp_split", parameters(&paper, |e| attention(e) && is_split(e)));
    rows.put("t6.mla_replicated", parameters(&paper, |e| attention(e) && !is_split(e)));
    rows.put("t6.experts", parameters(&paper, |e| e.module.is_moe() && e.module != Module::Router));
    rows.put("t6.router", parameters(&paper, module(Module::Router)));
    let budget = paper.budget(1);
    let counts = [
        ("t6.mla", parameters(&paper, attention)),
        ("t6.rmsnorm", parameters(&paper, module(Module::Norm))),
        ("t6.non_moe", budget.parameters().non_moe),
        ("t6.moe", budget.parameters().moe),
        ("t6.total", budget.parameters().total()),
    ];
    for (id, count) in counts {
        rows.put(id, count);
        rows.put(format!("{id}.bytes"), count * paper.spec().layout.precision.weights.bytes());
        rows.gib(&format!("{id}.gib"), count, 4);
    }
    // What Megatron-LM splits, the default here.
    let megatron = plan(|spec| {
        spec.layout.placement.query_rope = Split::Split;
        spec.layout.placement.shared_experts = Split::Split;
    });
    rows.put("d6.megatron_mla", parameters(&megatron, module(Module::Attention)));
    rows.put("d6.megatron_shared", parameters(&megatron, module(Module::SharedExperts)));
    rows.put("d6.megatron_total", megatron.budget(1).parameters().total());
}

/// Table 8: ZeRO, under the paper's grouping and the general one.
fn zero_tables(rows: &mut Rows) {
    let with = |stage, groups| {
        plan(|spec| {
            spec.layout.zero = Zero { groups, ..Zero::both(stage) };
        })
        .budget(1)
    };
    let mut table = |prefix: &str, budget: &Budget| {
        rows.put(format!("{prefix}.params"), budget.weights().bytes());
        rows.put(format!("{prefix}.gradients"), budget.gradients().bytes());
        rows.put(format!("{prefix}.optimizer"), budget.optimizer().bytes());
        rows.put(format!("{prefix}.total"), budget.static_bytes().bytes());
    };
    for (name, stage) in ZERO {
        table(&format!("t8.{name}"), &with(stage, ZeroGroups::MoeBlock));
    }
    table("d8.regrouped", &with(ZeroStage::Parameters, ZeroGroups::ByReplica));
    let shard = |groups| with(ZeroStage::Parameters, groups).weights().bytes() / 2;
    rows.put("t8.shard_params", shard(ZeroGroups::MoeBlock));
    rows.put("d8.shard_params_regrouped", shard(ZeroGroups::ByReplica));
}

/// Table 10: what four layers save for one micro-batch, term by term.
fn activation_tables(rows: &mut Rows) {
    for micro in [1, 2, 4] {
        let batched = plan(|spec| spec.layout.batch.micro = micro);
        let prefix = format!("t10.none.b{micro}");
        let is_mla = |e: &Entry| e.module == Module::Attention;
        let named = |names: &'static [&'static str]| move |e: &Entry| names.contains(&e.name);
        // q and k hold a head's two parts side by side; the paper's terms count them apart.
        let parts = saved(&batched, named(&["query", "key"]));
        let values = saved(&batched, named(&["value", "attention output"]));
        let block = ["attention block input", "attention norm output", "attention output dropout mask"];
        let scores = ["softmax output", "attention dropout mask", "dropped-out probabilities"];
        rows.put(format!("{prefix}.mla.bsh"), saved(&batched, |e| block.contains(&e.name)));
        rows.put(format!("{prefix}.mla.latent"), saved(&batched, named(&["query latent", "key/value latent"])));
        rows.put(format!("{prefix}.mla.head"), parts / (128 + 64) * 128 + values);
        rows.put(format!("{prefix}.mla.rope"), parts / (128 + 64) * 64);
        rows.put(format!("{prefix}.mla.score"), saved(&batched, |e| scores.contains(&e.name)));
        rows.put(format!("{prefix}.mla"), saved(&batched, is_mla));
        let hidden = ["expert block input", "expert norm output", "shared input", "shared dropout mask"];
        rows.put(format!("{prefix}.moe.bsh"), saved(&batched, |e| hidden.contains(&e.name)));
        rows.put(format!("{prefix}.moe.router"), saved(&batched, named(&["router logits and scores"])));
        rows.put(format!("{prefix}.moe.topk"), saved(&batched, named(&["routing weights"])));
        rows.put(format!("{prefix}.moe.routed"), saved(&batched, |e| e.module == Module::RoutedExperts));
        let shared = named(&["shared gate, up, activation, product"]);
        rows.put(format!("{prefix}.moe.shared"), saved(&batched, shared));
        rows.put(format!("{prefix}.moe"), saved(&batched, |e| e.module.is_moe()));
        rows.put(format!("{prefix}.total"), batched.budget(1).per_micro_batch().bytes());
        let full = changed(&batched, |spec| spec.layout.recompute = Recompute::Full);
        rows.put(format!("t10.full.b{micro}.total"), full.budget(1).per_micro_batch().bytes());
    }
    let one = |plan: &Plan, moe: bool| saved(plan, |e| e.module.is_moe() == moe) / 4;
    let paper = DeepSeekV3::PAPER;
    rows.put("t10.layer.mla_none", one(&paper, false));
    rows.put("t10.layer.moe_none", one(&paper, true));
    rows.put("t10.layer.mla_full", one(&full(), false));
    rows.put("t10.layer.moe_full", one(&full(), true));
    let unsharded = plan(|spec| {
        spec.layout.mesh.tp = 1;
        spec.layout.mesh.sequence_parallel = Switch::Off;
    });
    rows.put("t10.layer.mla_unsharded", one(&unsharded, false));
    rows.put("t10.E_token", paper.slots_per_expert(Pool::Replica, Factor::ONE));
}

/// Objections 1 and 2: micro-batches in flight, the ends of the pipeline, and the worst stage.
fn objections_1_and_2(rows: &mut Rows) {
    let (none, full) = (DeepSeekV3::PAPER, full());
    for stage in 0..none.stages() {
        rows.put(format!("o1.stage{stage}.inflight"), none.in_flight(stage));
        let peak = |plan: &Plan| plan.budget(stage).stored_activations().bytes();
        rows.put(format!("o1.stage{stage}.peak_none"), peak(&none));
        rows.put(format!("o1.stage{stage}.peak_full"), peak(&full));
    }
    let whole_dense = plan(|spec| spec.layout.placement.dense_ffn = Split::Replicated);
    let dense = |plan: &Plan, of: fn(&Entry) -> bool| {
        let of = |e: &Entry| e.lifetime == Lifetime::MicroBatch && e.module == Module::DenseFfn && of(e);
        sum(plan, 0, of, |e| e.bytes().bytes()) / 3
    };
    rows.put("o2.dense_ffn_8bshF", dense(&whole_dense, |e| e.name.contains("gate")));
    rows.put("o2.dense_layer_unsplit", dense(&whole_dense, |_| true));
    rows.put("o2.dense_layer_tp2", dense(&none, |_| true));
    let one = |plan: &Plan, stage| plan.budget(stage).per_micro_batch().bytes();
    rows.put("o2.stage0_none_tp", one(&none, 0));
    rows.put("o2.stage0_none_unsplit", one(&whole_dense, 0));
    for (name, plan) in [("none", &none), ("full", &full)] {
        rows.put(format!("o2.stage1_{name}"), one(plan, 1));
        rows.put(format!("o2.stage15_{name}"), one(plan, 15));
    }
    rows.put("o2.stage0_full", one(&full, 0));
    for (mode, zero, plan) in peaks() {
        rows.put(format!("o2.peak.{mode}.{zero}"), plan.peak().stage);
    }
}

/// The plans whose worst stage the table names, with the names of mode and ZeRO stage.
fn peaks() -> Vec<(&'static str, &'static str, Plan)> {
    let flash = plan(|spec| spec.layout.accounting = accounting(Kernel::Flash, Switch::Off, Pool::Group));
    let mut plans = Vec::new();
    for (mode, base) in [("none", DeepSeekV3::PAPER), ("full", full()), ("none_flash", flash)] {
        for (zero, stage) in ZERO {
            plans.push((mode, zero, changed(&base, |spec| spec.layout.zero = spec.layout.zero.at(stage))));
        }
    }
    plans
}

/// Objection 3: routing skew, dropless and under bounded capacity, in both token pools.
fn objection_3(rows: &mut Rows) {
    let routed = |pool, routing| {
        let plan = plan(|spec| {
            spec.layout.accounting = accounting(Kernel::Eager, Switch::On, pool);
            spec.layout.routing = routing;
        });
        saved(&plan, |e| e.module == Module::RoutedExperts)
    };
    for (name, pool) in [("paper", Pool::Replica), ("ep", Pool::Group)] {
        for (factor, thousandths) in [("1.0", 1000), ("1.5", 1500), ("2", 2000), ("4", 4000), ("8", 8000)] {
            let skew = Factor::thousandths(thousandths);
            rows.put(
                format!("o3.{name}.dyn.I{factor}"),
                routed(pool, Routing::Dropless(Dropless { skew, ..Dropless::DEFAULT })),
            );
        }
        let factors = [("1.0", 1000), ("1.25", 1250), ("1.5", 1500), ("2", 2000), ("4", 4000), ("8", 8000)];
        for (name_of_factor, thousandths) in factors.into_iter().chain([("32", 32_000)]) {
            let factor = Factor::thousandths(thousandths);
            rows.put(
                format!("o3.{name}.static.cf{name_of_factor}"),
                routed(pool, Routing::Capacity(Capacity { factor })),
            );
        }
    }
    let paper = DeepSeekV3::PAPER;
    let rows_of_stage = 4 * paper.routed_rows(Pool::Replica);
    rows.put("o3.bytes_per_copy", routed(Pool::Replica, Routing::BALANCED) / rows_of_stage);
}

/// What the table finds beyond the paper.
fn further(rows: &mut Rows) {
    let with = |kernel, dropout, pool| plan(|spec| spec.layout.accounting = accounting(kernel, dropout, pool));
    let group = with(Kernel::Eager, Switch::On, Pool::Group);
    rows.put("x.ep_pool", group.routed_rows(Pool::Group));
    rows.put("x.moe_layer_ep_consistent", saved(&group, |e| e.module.is_moe()) / 4);
    rows.put("x.moe_4layers_ep_consistent", saved(&group, |e| e.module.is_moe()));
    let mla = |plan: &Plan| saved(plan, |e| e.module == Module::Attention) / 4;
    rows.put("x.mla_flash", mla(&with(Kernel::Flash, Switch::On, Pool::Replica)));
    rows.put("x.mla_flash_nodrop", mla(&with(Kernel::Flash, Switch::Off, Pool::Replica)));
    let none = DeepSeekV3::PAPER.budget(1).per_micro_batch().bytes();
    let dry = with(Kernel::Eager, Switch::Off, Pool::Replica).budget(1).per_micro_batch().bytes();
    rows.put("x.dropout_masks", none - dry);
    rows.put("x.transient_full_eager", full().budget(1).recomputed_block().bytes());
    let scores = ["softmax output", "attention dropout mask", "dropped-out probabilities"];
    let share = saved(&DeepSeekV3::PAPER, |e| scores.contains(&e.name));
    #[allow(clippy::cast_precision_loss)] // the table's own rounding
    rows.decimal.insert("x.score_share".to_owned(), (share as f64 / none as f64 * 1e4).round() / 1e4);
}

/// The worked example's fixtures, with the routing skew that a fixture's name ends in.
fn fixtures() -> Vec<(&'static str, u64, Plan, u64)> {
    let skewed = |plan: &Plan, factor: u64| {
        let skew = Factor::thousandths(factor * 1000);
        changed(plan, |spec| spec.layout.routing = Routing::Dropless(Dropless { skew, ..Dropless::DEFAULT }))
    };
    let a = [1, 2].map(|factor| ("A", factor, skewed(&HandSized::MAIN, factor), 2));
    let b = [1, 2, 8].map(|factor| ("B", factor, skewed(&DeepSeekV3::WORKED, factor), 1));
    a.into_iter().chain(b).collect()
}

fn fixture_rows(rows: &mut Rows) {
    for (name, skew, plan, stage) in fixtures() {
        let prefix = format!("fx.{name}.I{skew}");
        let budget = plan.budget(stage);
        rows.put(format!("{prefix}.params_total"), budget.parameters().total());
        rows.put(format!("{prefix}.weights_bf16"), budget.weights().bytes());
        rows.put(format!("{prefix}.gradients_bf16"), budget.gradients().bytes());
        rows.put(format!("{prefix}.adam_moments_fp32_div8"), budget.optimizer().bytes());
        rows.put(format!("{prefix}.checkpoints"), budget.stored_activations().bytes());
        rows.put(format!("{prefix}.two_a2a_buffers"), budget.role(Role::Communication).bytes());
        rows.put(format!("{prefix}.peak"), budget.peak().bytes());
        rows.put(format!("{prefix}.with_10_percent"), budget.peak().total.with_headroom(10).bytes());
        rows.put(format!("{prefix}.with_15_percent"), budget.peak().total.with_headroom(15).bytes());
    }
}

/// Rows that are no figure of the model, with the reason.
const NOT_THE_MODELS: &[(&str, &str)] = &[
    ("t8.prose_swap", "two figures of Table 8 again, under swapped labels: t8.none.gradients and t8.none.optimizer"),
    ("t9.b", "the list of micro-batch sizes; each is computed under t10"),
    ("t10.fragmentation", "a range that the paper allows, no figure"),
    ("t10.comm_buffers", "a range that the paper allows, no figure"),
    ("o2.breakeven_skew", "a solution, not a figure: `the_skew_at_which_stage_1_overtakes` holds it from both sides"),
    ("x.zero23_with_pp", "a limit of DeepSpeed's pipeline engine, no figure"),
    ("x.latent_sp", "Megatron-LM keeps the latents sequence-sharded; the accounting `paper` keeps them whole"),
];

#[test]
fn every_row_by_its_id() {
    let mut rows = Rows::default();
    constants(&mut rows);
    parameter_tables(&mut rows);
    rank_parameters(&mut rows);
    zero_tables(&mut rows);
    activation_tables(&mut rows);
    objections_1_and_2(&mut rows);
    objection_3(&mut rows);
    further(&mut rows);
    fixture_rows(&mut rows);

    let tables = tables();
    let entries = tables["entries"].as_array().expect("a list of rows");
    let mut wrong = Vec::new();
    for entry in entries {
        let id = entry["id"].as_str().expect("a row has an id");
        let (exact, decimal) = (rows.exact.remove(id), rows.decimal.remove(id));
        let reason = NOT_THE_MODELS.iter().find(|(other, _)| *other == id);
        match (exact, decimal, reason) {
            (Some(ours), None, None) if Some(ours) == entry["value_exact_integer"].as_u64() => {}
            (None, Some(ours), None) if Some(ours) == entry["value"].as_f64() => {}
            (None, None, Some(_)) => {}
            _ => wrong.push(format!("{id}: ours {exact:?} {decimal:?}, the table's {}", entry["value"])),
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), entries.len(), wrong.join("\n"));
    let unknown: Vec<_> = rows.exact.keys().chain(rows.decimal.keys()).collect();
    assert!(unknown.is_empty(), "computed, but no row of the table: {unknown:?}");
    assert_eq!(entries.len(), 311);
}

#[test]
fn the_skew_at_which_stage_1_overtakes() {
    let worst = |thousandths| {
        let skew = Factor::thousandths(thousandths);
        let plan = plan(|spec| spec.layout.routing = Routing::Dropless(Dropless { skew, ..Dropless::DEFAULT }));
        let stored = |stage| plan.budget(stage).stored_activations();
        u64::from(stored(1) > stored(0))
    };
    // The table's row o2.breakeven_skew says 4.6274.
    assert_eq!((worst(4627), worst(4628)), (0, 1));
}

/// The stages of the file: parameters, activations under each recompute and kernel, static bytes under each ZeRO stage.
#[test]
fn every_stage_of_the_file() {
    let (none, full) = (DeepSeekV3::PAPER, full());
    let dry = plan(|spec| spec.layout.accounting = accounting(Kernel::Flash, Switch::Off, Pool::Group));
    let flash = changed(&full, |spec| spec.layout.accounting = accounting(Kernel::Flash, Switch::On, Pool::Replica));
    let tables = tables();
    let stages = tables["stages"].as_array().expect("a list of stages");
    assert_eq!(stages.len(), 16);
    for (index, stage) in (0..).zip(stages) {
        let expect = |key: &str| stage[key].as_u64().unwrap_or_else(|| panic!("stage {index} has {key}"));
        let budget = none.budget(index);
        let layers: Vec<u64> = none.chunk(index, 0).range().collect();
        assert_eq!(stage["layers"], serde_json::json!(layers));
        assert_eq!(budget.parameters().non_moe, expect("params_nonmoe"));
        assert_eq!(budget.parameters().moe, expect("params_moe"));
        assert_eq!(budget.per_micro_batch().bytes(), expect("act_one_none"));
        assert_eq!(full.budget(index).per_micro_batch().bytes(), expect("act_one_full"));
        assert_eq!(dry.budget(index).per_micro_batch().bytes(), expect("act_one_none_flash_nodrop"));
        assert_eq!(full.budget(index).recomputed_block().bytes(), expect("transient_full_eager"));
        assert_eq!(flash.budget(index).recomputed_block().bytes(), expect("transient_full_flash"));
        assert_eq!(budget.recomputed_block().bytes(), 0);
        for count in [4, 8, 16, 64] {
            let counted = |plan: &Plan| changed(plan, |spec| spec.layout.batch.count = count).budget(index);
            assert_eq!(counted(&none).in_flight(), stage["inflight"][count.to_string()].as_u64().expect("a count"));
            if count >= 16 {
                let stored = |plan: &Plan| counted(plan).stored_activations().bytes();
                assert_eq!(stored(&none), expect(&format!("act_peak_none_M{count}")));
                assert_eq!(stored(&full), expect(&format!("act_peak_full_M{count}")));
            }
        }
        for (name, zero) in ZERO {
            let plan = plan(|spec| spec.layout.zero = spec.layout.zero.at(zero));
            assert_eq!(plan.budget(index).static_bytes().bytes(), stage["static"][name].as_u64().expect("bytes"));
        }
    }
}

/// The worst rank of each combination, in bytes and by its stage.
#[test]
fn every_peak_of_the_file() {
    let tables = tables();
    for (mode, zero, plan) in peaks() {
        let peak = &tables["peaks"][format!("total.{mode}.zero_{zero}")];
        assert_eq!(Some(plan.peak().bytes()), peak["bytes"].as_u64(), "{mode} {zero}");
        assert_eq!(Some(plan.peak().stage), peak["stage"].as_u64(), "{mode} {zero}");
    }
    for (mode, plan) in [("none", DeepSeekV3::PAPER), ("full", full())] {
        let stored = |stage: &u64| plan.budget(*stage).stored_activations();
        let worst = (0..16).rev().max_by_key(stored).expect("sixteen stages");
        let peak = &tables["peaks"][format!("activation_only.{mode}")];
        assert_eq!((Some(stored(&worst).bytes()), Some(worst)), (peak["bytes"].as_u64(), peak["stage"].as_u64()));
    }
}

/// The peak stage of activations under each accounting of the file.
#[test]
fn every_variant_of_the_file() {
    let tables = tables();
    let variants = tables["variants"].as_array().expect("a list of variants");
    assert_eq!(variants.len(), 24);
    for variant in variants {
        let is = |key: &str, word: &str| variant[key] == word;
        let plan = plan(|spec| {
            spec.layout.recompute = if is("mode", "full") { Recompute::Full } else { Recompute::None };
            spec.layout.batch.count = variant["M"].as_u64().expect("a count");
            if is("dense_ffn", "unsplit") {
                spec.layout.placement.dense_ffn = Split::Replicated;
            }
            let kernel = if is("attention", "flash") { Kernel::Flash } else { Kernel::Eager };
            let dropout = if variant["dropout_masks"] == true { Switch::On } else { Switch::Off };
            let pool = if is("pool", "ep") { Pool::Group } else { Pool::Replica };
            spec.layout.accounting = accounting(kernel, dropout, pool);
        });
        let stored = |stage: u64| plan.budget(stage).stored_activations().bytes();
        assert_eq!(Some(stored(0)), variant["stage0_bytes"].as_u64(), "{variant}");
        assert_eq!(Some(stored(1)), variant["stage1_bytes"].as_u64(), "{variant}");
        let worst = (0..16).max_by_key(|stage| (stored(*stage), 16 - stage)).expect("sixteen stages");
        assert_eq!(Some(stored(worst)), variant["peak_bytes"].as_u64(), "{variant}");
        // Where several stages are alike the file names any of them.
        let named = variant["peak_stage"].as_u64().expect("a stage");
        assert_eq!(stored(named), stored(worst), "{variant}");
    }
}

/// Skew and capacity: rows a rank, bytes of routed experts, layers and stage, and what is dropped.
#[test]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // factors of the file
fn every_skew_of_the_file() {
    let tables = tables();
    let rows = tables["skew"].as_array().expect("a list of rows");
    assert_eq!(rows.len(), 24);
    for row in rows {
        let pool = if row["pool"] == "ep" { Pool::Group } else { Pool::Replica };
        let factor = |key: &str| row[key].as_f64().map(|f| Factor::thousandths((f * 1000.0).round() as u64));
        let routing = match (factor("imbalance"), factor("capacity_factor")) {
            (Some(skew), None) => Routing::Dropless(Dropless { skew, ..Dropless::DEFAULT }),
            (None, Some(factor)) => Routing::Capacity(Capacity { factor }),
            both => panic!("a row is skewed or bounded: {both:?}"),
        };
        let with = |spec: &mut Spec| {
            spec.layout.routing = routing;
            spec.layout.accounting = accounting(Kernel::Eager, Switch::On, pool);
        };
        let plan = plan(with);
        let expect = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("the row has {key}: {row}"));
        let copies = if row["copies_per_rank"].is_null() { "slots_per_rank" } else { "copies_per_rank" };
        assert_eq!(plan.routed_rows(pool), expect(copies));
        assert_eq!(saved(&plan, |e| e.module == Module::RoutedExperts), expect("routed_bytes_4_layers"));
        assert_eq!(saved(&plan, |e| e.module.is_moe()), expect("moe_bytes_4_layers"));
        assert_eq!(plan.budget(1).per_micro_batch().bytes(), expect("total_none_4_layers"));
        assert_eq!(plan.budget(1).stored_activations().bytes(), expect("stage1_1F1B_15_inflight"));
        if let Some(transient) = row["transient_one_moe_subblock"].as_u64() {
            assert_eq!(saved(&plan, |e| e.module.is_moe()) / 4, transient);
        }
        if let Routing::Capacity(Capacity { factor }) = routing {
            // In millionths, as the file rounds.
            let dropped = |key: &str| (row[key].as_f64().expect("a fraction") * 1e6).round() as u64;
            let share = |(dropped, all): (u64, u64)| (dropped as f64 / all as f64 * 1e6).round() as u64;
            assert_eq!(expect("capacity_per_expert"), plan.slots_per_expert(pool, factor));
            assert_eq!(share(plan.dropped(pool, 32)), dropped("dropped_fraction_if_all_to_one_rank"), "{row}");
            assert_eq!(share(plan.dropped(pool, 8)), dropped("dropped_fraction_if_same_8_experts"), "{row}");
        }
    }
}

/// Fixtures A and B in every phase, with the working sets that their definitions give.
#[test]
fn every_phase_of_the_fixtures() {
    let tables = tables();
    let all = tables["fixtures"].as_array().expect("a list of fixtures");
    assert_eq!(all.len(), fixtures().len());
    for ((name, skew, plan, stage), fixture) in fixtures().into_iter().zip(all) {
        let title = fixture["name"].as_str().expect("a fixture has a name");
        assert!(title.starts_with(name) && title.ends_with(&format!("imbalance {skew}")), "{title}");
        let inputs = |key: &str| fixture["inputs"][key].as_u64().unwrap_or_else(|| panic!("{title} has {key}"));
        let budget = plan.budget(stage);
        assert_eq!(plan.stage(stage).layers(), inputs("layers"));
        assert_eq!(budget.in_flight(), inputs("inflight"));
        assert_eq!(budget.per_micro_batch().bytes(), inputs("ckpt_per_mb"));
        assert_eq!(plan.routed_rows(Pool::Group), inputs("routed_copies"));
        assert_eq!(budget.role_in(Role::Transient, Phase::Forward).bytes(), inputs("W_fwd"));
        assert_eq!(budget.role_in(Role::Transient, Phase::Backward).bytes(), inputs("W_bwd"));
        assert_eq!(budget.role_in(Role::Transient, Phase::OptimizerStep).bytes(), inputs("opt_tmp"));
        let phases = [
            ("idle_between_steps", Phase::BetweenSteps),
            ("forward_last_warmup", Phase::Forward),
            ("backward_first", Phase::Backward),
            ("optimizer_step", Phase::OptimizerStep),
        ];
        for (key, phase) in phases {
            assert_eq!(Some(budget.phase(phase).bytes()), fixture["phases"][key].as_u64(), "{title} {key}");
        }
        assert_eq!(fixture["peak_phase"], "backward_first");
        assert_eq!(budget.peak().phase, Phase::Backward);
        let mastered = changed(&plan, |spec| spec.layout.precision.master = moe_model::spec::Dtype::Fp32);
        let variant = &fixture["variant_with_fp32_master_div8"];
        let peak = mastered.budget(stage).peak();
        assert_eq!(Some(mastered.budget(stage).role(Role::MasterWeight).bytes()), variant["extra"].as_u64());
        assert_eq!(Some(peak.bytes()), variant["peak"].as_u64());
        assert_eq!(Some(peak.total.with_headroom(10).bytes()), variant["with_10_percent"].as_u64());
        assert_eq!(Some(peak.total.with_headroom(15).bytes()), variant["with_15_percent"].as_u64());
    }
}

/// What Table 10's tensors are: each of the file's rows names local shape, bytes an element and sharding.
#[test]
fn the_tensors_behind_table_10() {
    let inventory = DeepSeekV3::PAPER.inventory(1);
    let has = |name: &str, shape: &str, bytes: u64| {
        let of = |e: &&Entry| e.name == name && e.lifetime == Lifetime::MicroBatch;
        let entry = inventory.into_iter().find(of).unwrap_or_else(|| panic!("no tensor {name}"));
        let listed = entry.to_string();
        assert!(listed.contains(&format!("[{shape}] x {bytes} B")), "{listed}");
    };
    has("attention block input", "b, s/2, h", 2);
    has("attention output dropout mask", "b, s/2, h", Element::MASK.bytes);
    has("query latent", "b, s, d_cq", 2);
    has("query", "b, s, n_h/2, (d_h+d_hr)", 2);
    has("softmax output", "b, n_h/2, s, s", 2);
    has("router logits and scores", "b, s, N", 2);
    has("routed input", "R, h", 2);
    has("shared input", "b, s, h", 2);
    has("shared gate, up, activation, product", "b, s, N_s h_E", 2);
    assert_eq!(DeepSeekV3::PAPER.spec().layout.schedule, Schedule::OneFOneB);
    assert_eq!(
        DeepSeekV3::PAPER.spec().layout.batch,
        Batch { sequence: 4096, micro: 1, count: 32, global: 0, group: 0 }
    );
}

/// Beyond the paper each rank bounds its own tokens: EP x ceil(local tokens x active x factor / routed), where the paper
/// rounds up once for the whole pool.
#[test]
fn slots_of_each_rank_and_of_the_pool() {
    // Four ranks with ten tokens of two experts each, eight experts: 2.5 slots for a rank's.
    let slots = |accounting| {
        let mut spec = Spec { architecture: MIXTRAL_8X7B, ..Spec::DEFAULT };
        spec.layout.mesh = Mesh { dp: 4, ep: 4, ..Mesh::DEFAULT };
        spec.layout.batch = Batch { sequence: 10, ..Batch::DEFAULT };
        spec.layout.routing = Routing::Capacity(Capacity { factor: Factor::ONE });
        spec.layout.accounting = accounting;
        let plan = Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"));
        let of_expert = plan.slots_per_expert(Pool::Group, Factor::ONE);
        assert_eq!(plan.routed_rows(Pool::Group), 2 * of_expert, "of two local experts");
        (plan.slots_of_rank(Factor::ONE), of_expert)
    };
    assert_eq!(slots(accounting(Kernel::Flash, Switch::Off, Pool::Group)), (3, 10));
    assert_eq!(slots(Accounting::MegatronCore(MegatronCore::DEFAULT)), (3, 12));
    assert_eq!(slots(Accounting::REFERENCE), (3, 12));
}
