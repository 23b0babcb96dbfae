//! DeepSeek-V3 under the layout of arXiv:2502.07846: what each rank holds, stage by stage, without and with full
//! recomputation, however much of its state is sharded, beside what the paper prints.
//!
//! `cargo run --release --example deepseek_v3` prints tables; `-- --json` prints the same as JSON, in exact integers.
//! Every number of ours comes from the model declared below; what is typed in is what the paper prints.

use clap::{Arg, ArgAction, Command};
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use moe_model::spec::{Accounting, Dropless, Layout, Mesh, Paper, Pool, Routing, ZeroStage};
use moe_model::{Budget, Bytes, H200, Parameters, Peak, Plan, Spec, Stage, Text, Violations, moe_model};
use serde::Serialize;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

moe_model! {
    /// DeepSeek-V3 (arXiv:2412.19437) under the layout analysed in arXiv:2502.07846.
    pub struct DeepSeekV3;

    hidden: 7168,
    vocab: 129_280,
    layers: layers { dense: 3, moe: 58, ffn: 18_432 },
    attention: mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
    experts: experts { routed: 256, shared: 1, active: 8, ffn: 2048, groups: 8, active_groups: 4, correction_bias: on },
    mtp: 1,

    /// The paper's tables 5, 7 and 9, without recomputation.
    layout Paper: layout {
        mesh: mesh { dp: 32, tp: 2, pp: 16, ep: 8, etp: 1, sequence_parallel: on },
        stages: stages { first: 4, last: 1 },
        schedule: one_f_one_b,
        zero: zero { dense: optimizer, expert: optimizer, groups: moe_block },
        placement: placement { query_rope: replicated, shared_experts: replicated },
        precision: precision { weights: bf16, gradients: fp32, master: fp32, moments: bf16 },
        batch: batch { sequence: 4096, micro: 1, count: 32 },
        recompute: none,
        routing: balanced,
        accounting: paper { kernel: eager, dropout: on, pool: replica },
    },

    /// The same with full recomputation.
    layout Full: layout { recompute: full, ..Paper },
}

// The build fails if the worst rank outgrows an H200.
const _: () = assert!(DeepSeekV3::FULL.peak().bytes() < H200.usable().bytes());

/// Changes with any key of the JSON.
const SCHEMA: &str = "moe-model/deepseek_v3/1";
const MODEL: &str = "DeepSeek-V3 (arXiv:2412.19437)";
const SOURCE: &str =
    "arXiv:2502.07846v1; printed values as a published review and third-party transcriptions give them";
/// The paper's device is a rank of stages 1-14, which hold the same.
const PAPER_STAGE: u64 = 1;

/// What only a valid layout gives.
type Checked<T> = Result<T, Box<Violations>>;

fn main() -> ExitCode {
    let json = command().get_matches().get_flag("json");
    let report = match Report::new() {
        Ok(report) => report,
        Err(violations) => {
            eprintln!("{violations}");
            return ExitCode::from(2);
        }
    };
    let mut out = io::stdout().lock();
    match if json { write_json(&mut out, &report) } else { write_tables(&mut out, &report) } {
        Ok(()) => ExitCode::SUCCESS,
        // A reader such as `head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the report could not be written: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    Command::new("deepseek_v3")
        .about("Memory of each rank of DeepSeek-V3 under the layout of arXiv:2502.07846")
        .long_about(
            "Memory of each rank of DeepSeek-V3 under the layout of arXiv:2502.07846.\n\n\
             Prints, for every pipeline stage, parameters, weights, gradients, optimizer state and activations,\n\
             without and with full recomputation; the static bytes under each ZeRO stage; the worst rank of each\n\
             combination; and what the paper prints beside our numbers, with the reason where they differ.",
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the same as JSON, with exact integers, and nothing else"),
        )
}

// ---- The report: numbers of the library, and what the paper prints.

/// What is printed, as tables or as JSON. An amount of memory is an integer of bytes in JSON, as its key says.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    model: &'static str,
    source: &'static str,
    accounting: String,
    not_counted: &'static str,
    world_size: u64,
    ranks_per_stage: u64,
    expert_data_parallel: u64,
    micro_batches: u64,
    whole_model: WholeModel,
    zero: ByZero<ZeroRow>,
    recompute: ByRecompute,
    paper: Vec<Comparison>,
    /// What was declared, whole.
    spec: Spec,
}

#[derive(Serialize)]
struct WholeModel {
    parameters: Count,
    mtp_parameters: u64,
    correction_bias_elements: u64,
}

/// Parameters with their sum, so that no reader has to add.
#[derive(Serialize, PartialEq)]
struct Count {
    moe: u64,
    non_moe: u64,
    total: u64,
}

/// One for each [`ZeroStage`].
#[derive(Serialize)]
struct ByZero<T> {
    none: T,
    optimizer: T,
    gradients: T,
    parameters: T,
}

#[derive(Serialize)]
struct ByRecompute {
    none: Recomputed,
    full: Recomputed,
}

/// What a rank of stage 1 holds between two steps.
#[derive(Serialize)]
struct ZeroRow {
    weights_bytes: Bytes,
    gradients_bytes: Bytes,
    optimizer_bytes: Bytes,
    stage1_static_bytes: Bytes,
    printed: Table8,
}

/// One recompute policy: each pipeline stage as declared, and the worst rank under each [`ZeroStage`].
#[derive(Serialize)]
struct Recomputed {
    stages: Vec<StageRow>,
    worst_rank: ByZero<WorstRank>,
}

/// What a rank of a stage holds.
#[derive(Serialize)]
struct StageRow {
    stage: u64,
    first_layer: u64,
    last_layer: u64,
    dense_layers: u64,
    moe_layers: u64,
    first_rank: u64,
    last_rank: u64,
    parameters: Count,
    weights_bytes: Bytes,
    gradients_bytes: Bytes,
    optimizer_bytes: Bytes,
    static_bytes: Bytes,
    activations: Activations,
    peak: StagePeak,
}

#[derive(Serialize)]
struct Activations {
    per_micro_batch_bytes: Bytes,
    in_flight: u64,
    /// Of all micro-batches in flight, without the recomputed block.
    peak_bytes: Bytes,
    recompute_transient_bytes: Bytes,
}

#[derive(Serialize)]
struct StagePeak {
    phase: &'static str,
    total_bytes: Bytes,
}

#[derive(Serialize)]
struct WorstRank {
    stage: u64,
    first_rank: u64,
    last_rank: u64,
    phase: &'static str,
    total_bytes: Bytes,
}

impl Report {
    fn new() -> Checked<Self> {
        let (plan, full) = (DeepSeekV3::PAPER, DeepSeekV3::FULL);
        let spec = *plan.spec();
        let architecture = spec.architecture;
        Ok(Self {
            schema: SCHEMA,
            model: MODEL,
            source: SOURCE,
            accounting: accounting(spec.layout.accounting),
            not_counted: "MTP modules and correction bias on a rank, communication buffers, fragmentation",
            world_size: plan.world(),
            ranks_per_stage: plan.stage_ranks(),
            expert_data_parallel: plan.edp(),
            micro_batches: spec.layout.batch.count,
            whole_model: WholeModel {
                parameters: architecture.parameters().into(),
                mtp_parameters: architecture.mtp_parameters(),
                correction_bias_elements: architecture.buffer_elements(),
            },
            zero: ByZero::of(|zero| Ok(ZeroRow::new(&with_zero(&plan, zero)?, TABLE_8.get(zero))))?,
            recompute: ByRecompute { none: Recomputed::new(&plan)?, full: Recomputed::new(&full)? },
            paper: comparisons(&plan, &full)?,
            spec,
        })
    }
}

fn accounting(accounting: Accounting) -> String {
    match accounting {
        Accounting::Paper(Paper { kernel, dropout, pool }) => {
            let [kernel, dropout, pool] = [kernel.word(), dropout.word(), pool.word()];
            format!("{} (kernel {kernel}, dropout {dropout}, pool {pool})", accounting.name())
        }
        Accounting::WorkedExample(_) => accounting.name().to_owned(),
    }
}

impl From<Parameters> for Count {
    fn from(parameters: Parameters) -> Self {
        Self { moe: parameters.moe, non_moe: parameters.non_moe, total: parameters.total() }
    }
}

impl<T> ByZero<T> {
    fn of(mut make: impl FnMut(ZeroStage) -> Checked<T>) -> Checked<Self> {
        Ok(Self {
            none: make(ZeroStage::None)?,
            optimizer: make(ZeroStage::Optimizer)?,
            gradients: make(ZeroStage::Gradients)?,
            parameters: make(ZeroStage::Parameters)?,
        })
    }

    fn get(&self, zero: ZeroStage) -> &T {
        match zero {
            ZeroStage::None => &self.none,
            ZeroStage::Optimizer => &self.optimizer,
            ZeroStage::Gradients => &self.gradients,
            ZeroStage::Parameters => &self.parameters,
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&'static str, &T)> {
        ZeroStage::ALL.iter().map(|zero| (zero.word(), self.get(*zero)))
    }
}

impl ZeroRow {
    fn new(plan: &Plan, printed: &Table8) -> Self {
        let budget = plan.budget(PAPER_STAGE);
        Self {
            weights_bytes: budget.weights(),
            gradients_bytes: budget.gradients(),
            optimizer_bytes: budget.optimizer(),
            stage1_static_bytes: budget.static_bytes(),
            printed: *printed,
        }
    }
}

impl Recomputed {
    fn new(plan: &Plan) -> Checked<Self> {
        let stages = (0..plan.stages()).map(|stage| StageRow::new(plan, plan.stage(stage), &plan.budget(stage)));
        let worst_rank = ByZero::of(|zero| with_zero(plan, zero).map(|plan| WorstRank::new(&plan)))?;
        Ok(Self { stages: stages.collect(), worst_rank })
    }
}

impl StageRow {
    fn new(plan: &Plan, stage: Stage, budget: &Budget) -> Self {
        let ranks = plan.ranks_of_stage(stage.index);
        let Peak { phase, total, .. } = budget.peak();
        Self {
            stage: stage.index,
            first_layer: stage.first_layer,
            last_layer: stage.last_layer(),
            dense_layers: stage.dense,
            moe_layers: stage.moe,
            first_rank: ranks.start,
            last_rank: ranks.end - 1,
            parameters: budget.parameters().into(),
            weights_bytes: budget.weights(),
            gradients_bytes: budget.gradients(),
            optimizer_bytes: budget.optimizer(),
            static_bytes: budget.static_bytes(),
            activations: Activations {
                per_micro_batch_bytes: budget.per_micro_batch(),
                in_flight: budget.in_flight(),
                peak_bytes: budget.stored_activations(),
                recompute_transient_bytes: budget.recomputed_block(),
            },
            peak: StagePeak { phase: phase.name(), total_bytes: total },
        }
    }
}

impl WorstRank {
    fn new(plan: &Plan) -> Self {
        let Peak { stage, phase, total } = plan.peak();
        let ranks = plan.ranks_of_stage(stage);
        Self { stage, first_rank: ranks.start, last_rank: ranks.end - 1, phase: phase.name(), total_bytes: total }
    }
}

/// The plan with another layout.
fn variant(plan: &Plan, change: impl FnOnce(&mut Layout)) -> Checked<Plan> {
    let mut spec = *plan.spec();
    change(&mut spec.layout);
    Plan::new(spec).map_err(Box::new)
}

/// The plan under another [`ZeroStage`], over the groups that were declared.
fn with_zero(plan: &Plan, zero: ZeroStage) -> Checked<Plan> {
    variant(plan, |layout| (layout.zero.dense, layout.zero.expert) = (zero, zero))
}

// ---- What the paper prints, and how our numbers compare.

/// A row of the paper's Table 8.
#[derive(Clone, Copy, Serialize)]
struct Table8 {
    weights: &'static str,
    gradients: &'static str,
    optimizer: &'static str,
    total: &'static str,
}

/// Table 8 as printed; the paper calls the stages none, os, os+g and os+g+params.
const TABLE_8: ByZero<Table8> = ByZero {
    none: Table8 { weights: "11.64 GB", gradients: "23.3 GB", optimizer: "46.6 GB", total: "81.54 GB" },
    optimizer: Table8 { weights: "11.64 GB", gradients: "23.3 GB", optimizer: "5.52 GB", total: "40.46 GB" },
    gradients: Table8 { weights: "11.64 GB", gradients: "2.76 GB", optimizer: "5.52 GB", total: "19.92 GB" },
    parameters: Table8 { weights: "1.38 GB", gradients: "2.76 GB", optimizer: "5.52 GB", total: "9.66 GB" },
};

/// A number of ours beside what the paper prints for it.
#[derive(Serialize)]
struct Comparison {
    id: &'static str,
    what: String,
    ours: u64,
    unit: &'static str,
    printed: Option<&'static str>,
    #[serde(rename = "where")]
    place: &'static str,
    agreement: Agreement,
    note: String,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Agreement {
    Equal,
    Rounds,
    Differs,
    NotPrinted,
}

/// A number of ours with its unit.
#[derive(Clone, Copy)]
enum Ours {
    Parameters(u64),
    Memory(Bytes),
}

impl Comparison {
    fn new(id: &'static str, what: impl Into<String>, ours: Ours, place: &'static str) -> Self {
        let (ours, unit) = match ours {
            Ours::Parameters(count) => (count, "parameters"),
            Ours::Memory(bytes) => (bytes.bytes(), "bytes"),
        };
        let (what, agreement, note) = (what.into(), Agreement::NotPrinted, String::new());
        Self { id, what, ours, unit, printed: None, place, agreement, note }
    }

    fn printed(self, printed: &'static str) -> Self {
        Self { printed: Some(printed), agreement: agreement(self.ours, printed), ..self }
    }

    fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}

/// Whether our number is the printed one, as far as digits are printed. A printed "GB" is 2^30 bytes, "B" 10^9.
fn agreement(ours: u64, printed: &str) -> Agreement {
    let (number, unit) = match (printed.strip_suffix(" GB"), printed.strip_suffix('B')) {
        (Some(number), _) => (number, 1_u128 << 30),
        (None, Some(number)) => (number, 1_000_000_000),
        (None, None) => (printed, 1),
    };
    let digits = number.bytes().filter(u8::is_ascii_digit);
    let printed = digits.fold(0, |sum, digit| 10 * sum + u128::from(digit - b'0'));
    let decimals = number.split_once('.').map_or("", |(_, decimals)| decimals);
    let scale = decimals.bytes().fold(1, |scale, _| 10 * scale);
    let rounded = (2 * u128::from(ours) * scale + unit) / (2 * unit);
    match (rounded == printed, unit) {
        (true, 1) => Agreement::Equal,
        (true, _) => Agreement::Rounds,
        (false, _) => Agreement::Differs,
    }
}

const GIB_NOTE: &str = "the paper's \"GB\" is 2^30 bytes, a GiB";

fn comparisons(plan: &Plan, full: &Plan) -> Checked<Vec<Comparison>> {
    let mut rows = compare_model(plan)?;
    rows.extend(compare_device(plan));
    rows.extend(compare_zero(plan)?);
    rows.extend(compare_activations(plan, full)?);
    Ok(rows)
}

/// The model as a whole and stage by stage, before it is split.
fn compare_model(plan: &Plan) -> Checked<Vec<Comparison>> {
    let Spec { architecture, layout } = *plan.spec();
    let total = architecture.parameters().total();
    let weights = Bytes::new(total).times(layout.precision.weights.bytes());
    // One rank a stage, so that the rank holds all of it.
    let whole = variant(plan, |layout| layout.mesh = Mesh { pp: layout.mesh.pp, ..Mesh::DEFAULT })?;
    let stage = |index| Ours::Parameters(whole.budget(index).parameters().total());
    let twice = "the printed rows, added up, count the latent norms twice and leave out the final norm";
    Ok(vec![
        Comparison::new("t3.total", "whole model: parameters", Ours::Parameters(total), "Table 3")
            .printed("671B")
            .note(twice),
        Comparison::new("t3.total.gib", "whole model: weights", Ours::Memory(weights), "Table 3")
            .printed("1250 GB")
            .note(GIB_NOTE),
        Comparison::new("t4.stage0", "stage 0 unsplit: parameters", stage(0), "Table 4")
            .printed("14.16B")
            .note("the printed value is a sum of rounded rows: 1.5 + 2 x 0.58 + 11.5"),
        Comparison::new("t4.stage1_14", "stages 1-14 unsplit: parameters, each", stage(PAPER_STAGE), "Table 4")
            .printed("46B"),
        Comparison::new("t4.stage15", "stage 15 unsplit: parameters", stage(plan.stages() - 1), "Table 4")
            .printed("12.4B")
            .note("ours holds the final norm as well"),
    ])
}

/// A rank of stages 1-14.
fn compare_device(plan: &Plan) -> Vec<Comparison> {
    let budget = plan.budget(PAPER_STAGE);
    let parameters = budget.parameters();
    let weights = Ours::Memory(budget.weights());
    vec![
        Comparison::new("t6.non_moe", "stage 1: non-MoE parameters", Ours::Parameters(parameters.non_moe), "Table 6")
            .printed("429,719,552"),
        Comparison::new("t6.moe", "stage 1: MoE parameters", Ours::Parameters(parameters.moe), "Table 6")
            .printed("5,820,645,376"),
        Comparison::new("t6.total", "stage 1: parameters", Ours::Parameters(parameters.total()), "Table 6")
            .printed("6,250,364,928"),
        Comparison::new("t6.total.bytes", "stage 1: weights", weights, "Table 6").printed("12,500,729,856"),
        Comparison::new("t6.total.gib", "stage 1: weights", weights, "Table 6").printed("11.64 GB").note(GIB_NOTE),
    ]
}

/// A rank of stages 1-14 between two steps, under each [`ZeroStage`].
fn compare_zero(plan: &Plan) -> Checked<Vec<Comparison>> {
    let ids = ByZero {
        none: "t8.none.total",
        optimizer: "t8.os.total",
        gradients: "t8.os+g.total",
        parameters: "t8.os+g+params.total",
    };
    let row = |zero: ZeroStage| -> Checked<Comparison> {
        let ours = with_zero(plan, zero)?.budget(PAPER_STAGE).static_bytes();
        let what = format!("stage 1: static bytes, ZeRO {}", zero.word());
        let row = Comparison::new(ids.get(zero), what, Ours::Memory(ours), "Table 8").printed(TABLE_8.get(zero).total);
        Ok(match row.agreement {
            Agreement::Differs => row
                .note(format!("the printed total is the sum of its rounded parts; exact is {:.3} GiB", ours.as_gib())),
            _ => row.note(GIB_NOTE),
        })
    };
    ZeroStage::ALL.iter().map(|zero| row(*zero)).collect()
}

/// Activations, of which the paper prints formulas for one micro-batch, and what a published review asks about them.
fn compare_activations(plan: &Plan, full: &Plan) -> Checked<Vec<Comparison>> {
    let (none, recomputed) = (plan.budget(PAPER_STAGE), full.budget(PAPER_STAGE));
    let peak = plan.peak();
    let one = "Table 10 prints formulas for one micro-batch, which ours follow, and no numbers";
    let held = format!(
        "Table 10 is one micro-batch; under 1F1B a rank of stage {} holds up to {} (objection 1)",
        none.stage(),
        none.in_flight()
    );
    let block = "Table 10 leaves out the block that backward computes again while it runs";
    let worst = format!(
        "Table 10 is of stages 1-14, the largest by parameters; stage {} is worse, holding {} micro-batches (objection 2)",
        peak.stage,
        plan.in_flight(peak.stage)
    );
    let row = |id, what: &str, bytes| Comparison::new(id, what, Ours::Memory(bytes), "Table 10");
    let mut rows = vec![
        row("t10.none", "stage 1: activations per micro-batch, recompute none", none.per_micro_batch()).note(one),
        row("t10.full", "stage 1: activations per micro-batch, recompute full", recomputed.per_micro_batch()).note(one),
        row("o1.none", "stage 1: activations in flight, recompute none", none.stored_activations()).note(&*held),
        row("o1.full", "stage 1: activations in flight, recompute full", recomputed.stored_activations()).note(held),
        row("o1.block", "stage 1: block recomputed in backward", recomputed.recomputed_block()).note(block),
        row("o2.peak", "worst rank: total peak, recompute none", peak.total).note(worst),
    ];
    rows.extend(compare_routing(plan)?);
    Ok(rows)
}

/// What routing does to the activations of one micro-batch (objection 3).
fn compare_routing(plan: &Plan) -> Checked<Vec<Comparison>> {
    let skew = plan.worst_skew();
    let hot = variant(plan, |layout| layout.routing = Routing::Dropless(Dropless { skew }))?;
    let pool = Pool::Group;
    let grid = variant(plan, |layout| {
        if let Accounting::Paper(paper) = layout.accounting {
            layout.accounting = Accounting::Paper(Paper { pool, ..paper });
        }
    })?;
    let held = |plan: &Plan| Ours::Memory(plan.budget(PAPER_STAGE).per_micro_batch());
    let balanced = format!(
        "the paper takes routing for balanced; the hottest rank may get {} times as much (objection 3)",
        Text::new().thousandths(skew.thousandths)
    );
    let copies = format!(
        "the paper deals one replica's tokens over the EP group; its grid brings {} routed copies a rank, not {}",
        grouped(plan.routed_rows(Pool::Group)),
        grouped(plan.routed_rows(Pool::Replica))
    );
    Ok(vec![
        Comparison::new("o3.skew", "stage 1: activations per micro-batch, hottest rank", held(&hot), "Table 10")
            .note(balanced),
        Comparison::new("o3.pool", "stage 1: activations per micro-batch, pool group", held(&grid), "Table 10")
            .note(copies),
    ])
}

// ---- How it is shown.

fn write_json(out: &mut impl Write, report: &Report) -> io::Result<()> {
    // In one piece: standard output would be flushed at every line.
    let text = serde_json::to_string_pretty(report)?;
    writeln!(out, "{text}")
}

fn write_tables(out: &mut impl Write, report: &Report) -> io::Result<()> {
    write_head(out, report)?;
    write_kinds(out, report)?;
    write_stages(out, "none", &report.recompute.none, report)?;
    write_stages(out, "full", &report.recompute.full, report)?;
    write_zero(out, report)?;
    write_worst(out, report)?;
    write_paper(out, report)
}

fn write_head(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for (label, text) in head_of_model(report).into_iter().chain(head_of_layout(report)) {
        writeln!(out, "{label:<12} {text}")?;
    }
    Ok(())
}

fn head_of_model(report: &Report) -> Vec<(&'static str, String)> {
    let (layers, experts) = (report.spec.architecture.layers, report.spec.architecture.experts);
    let WholeModel { parameters, mtp_parameters, correction_bias_elements } = &report.whole_model;
    let layers = format!("{} dense layers and {} MoE layers", layers.dense, layers.moe);
    let experts = format!("{} routed experts, {} active, {} shared", experts.routed, experts.active, experts.shared);
    let (total, moe, non_moe) = (grouped(parameters.total), grouped(parameters.moe), grouped(parameters.non_moe));
    let (mtp, biases) = (grouped(*mtp_parameters), grouped(*correction_bias_elements));
    vec![
        ("model", format!("{}: {layers}; {experts}", report.model)),
        ("parameters", format!("{total}: {moe} MoE, {non_moe} non-MoE")),
        ("beside them", format!("{mtp} in MTP modules; correction bias, a buffer of {biases} elements")),
    ]
}

fn head_of_layout(report: &Report) -> Vec<(&'static str, String)> {
    let Layout { mesh, zero, placement, precision, batch, schedule, .. } = &report.spec.layout;
    let Mesh { dp, tp, pp, ep, etp, sequence_parallel, .. } = mesh;
    let (world, each, edp) = (grouped(report.world_size), report.ranks_per_stage, report.expert_data_parallel);
    let mesh = format!("dp {dp}, tp {tp}, pp {pp}, ep {ep}, etp {etp}, edp {edp}");
    let (sequence_parallel, schedule) = (sequence_parallel.word(), schedule.word());
    let (weights, gradients) = (precision.weights.word(), precision.gradients.word());
    let (master, moments) = (precision.master.word(), precision.moments.word());
    let activations = precision.activations.word();
    let (query_rope, shared_experts) = (placement.query_rope.word(), placement.shared_experts.word());
    let (micro, sequence) = (batch.micro, grouped(batch.sequence));
    let [dense, expert, groups] = [zero.dense.word(), zero.expert.word(), zero.groups.word()];
    vec![
        ("world", format!("{world} ranks: {pp} stages of {each}")),
        ("layout", format!("{mesh}; sequence parallel {sequence_parallel}; schedule {schedule}")),
        ("ZeRO", format!("dense {dense}, expert {expert}, groups {groups}")),
        ("placement", format!("query_rope {query_rope}, shared_experts {shared_experts}")),
        (
            "precision",
            format!(
                "weights {weights}, gradients {gradients}, master {master}, moments {moments}, activations {activations}"
            ),
        ),
        ("batch", format!("{} micro-batches of {micro} x {sequence} tokens on each replica", report.micro_batches)),
        ("accounting", report.accounting.clone()),
        ("not counted", report.not_counted.to_owned()),
        ("source", report.source.to_owned()),
    ]
}

/// Stages that hold the same, with what stands on a rank between two steps.
fn write_kinds(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let zero = report.spec.layout.zero.dense.word();
    writeln!(out, "\nStatic bytes of a rank, by kind of stage (ZeRO {zero}, with and without recomputation)")?;
    let header = ["<stages", "<layers", "ranks", "MoE\nparameters", "non-MoE\nparameters", "all\nparameters", "static"];
    // A stage is of the kind of the one before if a rank holds as many parameters of each sort.
    let kinds = report.recompute.none.stages.chunk_by(|a, b| a.parameters == b.parameters);
    write_table(out, &header, kinds.filter_map(|kind| Some(kind_cells(kind.first()?, kind.last()?))))
}

fn kind_cells(first: &StageRow, last: &StageRow) -> Vec<String> {
    let layers = range(first.first_layer, last.last_layer);
    let each = if first.stage == last.stage { "" } else { " each" };
    let layers = match (first.dense_layers, first.moe_layers) {
        (0, moe) => format!("{layers} ({moe} MoE{each})"),
        (dense, moe) => format!("{layers} ({dense} dense, {moe} MoE{each})"),
    };
    vec![
        range(first.stage, last.stage),
        layers,
        range(first.first_rank, last.last_rank),
        grouped(first.parameters.moe),
        grouped(first.parameters.non_moe),
        grouped(first.parameters.total),
        first.static_bytes.to_string(),
    ]
}

fn write_stages(out: &mut impl Write, recompute: &str, rows: &Recomputed, report: &Report) -> io::Result<()> {
    let zero = report.spec.layout.zero.dense.word();
    let mut phases: Vec<&str> = rows.stages.iter().map(|row| row.peak.phase).collect();
    phases.dedup();
    let phases = phases.join(", ");
    writeln!(out, "\nA rank of each stage, recompute {recompute} (ZeRO {zero}; peaks in {phases})")?;
    let header = [
        "stage",
        "layers",
        "parameters",
        "weights",
        "gradients",
        "optimizer",
        "activations\nof one\nmicro-batch",
        "in\nflight",
        "activations\nof all\nin flight",
        "recomputed\nblock",
        "peak",
    ];
    write_table(out, &header, rows.stages.iter().map(stage_cells))
}

fn stage_cells(row: &StageRow) -> Vec<String> {
    let activations = &row.activations;
    vec![
        row.stage.to_string(),
        range(row.first_layer, row.last_layer),
        grouped(row.parameters.total),
        row.weights_bytes.to_string(),
        row.gradients_bytes.to_string(),
        row.optimizer_bytes.to_string(),
        activations.per_micro_batch_bytes.to_string(),
        activations.in_flight.to_string(),
        activations.peak_bytes.to_string(),
        activations.recompute_transient_bytes.to_string(),
        row.peak.total_bytes.to_string(),
    ]
}

fn write_zero(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "\nStatic bytes of a rank of stage {PAPER_STAGE} under each ZeRO stage, and what Table 8 prints")?;
    let header = ["<ZeRO", "<", "weights", "gradients", "optimizer", "total", "total in bytes"];
    write_table(
        out,
        &header,
        report.zero.iter().flat_map(|(zero, bytes)| [ours_cells(zero, bytes), table_8_cells(bytes)]),
    )
}

fn ours_cells(zero: &str, bytes: &ZeroRow) -> Vec<String> {
    vec![
        zero.to_owned(),
        "ours".to_owned(),
        bytes.weights_bytes.to_string(),
        bytes.gradients_bytes.to_string(),
        bytes.optimizer_bytes.to_string(),
        bytes.stage1_static_bytes.to_string(),
        grouped(bytes.stage1_static_bytes.bytes()),
    ]
}

fn table_8_cells(bytes: &ZeroRow) -> Vec<String> {
    let Table8 { weights, gradients, optimizer, total } = bytes.printed;
    let parts = [weights, gradients, optimizer, total].map(quoted);
    ["", "printed"].map(str::to_owned).into_iter().chain(parts).collect()
}

fn write_worst(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "\nThe worst rank in its worst phase")?;
    let header = ["<recompute", "<ZeRO", "stage", "ranks", "<phase", "total", "total in bytes"];
    let ByRecompute { none, full } = &report.recompute;
    let rows = [("none", none), ("full", full)].into_iter().flat_map(|(recompute, rows)| {
        rows.worst_rank.iter().map(move |(zero, worst)| worst_cells(recompute, zero, worst))
    });
    write_table(out, &header, rows)?;
    let (ours, device) = (report.recompute.full.worst_rank.optimizer.total_bytes, H200.usable());
    writeln!(
        out,
        "Checked while this was compiled: recompute full with ZeRO optimizer, {ours}, is below an H200's {device}."
    )
}

fn worst_cells(recompute: &str, zero: &str, worst: &WorstRank) -> Vec<String> {
    vec![
        recompute.to_owned(),
        zero.to_owned(),
        worst.stage.to_string(),
        range(worst.first_rank, worst.last_rank),
        worst.phase.to_owned(),
        worst.total_bytes.to_string(),
        grouped(worst.total_bytes.bytes()),
    ]
}

fn write_paper(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(
        out,
        "\nWhat the paper prints beside our numbers, of a rank of stage {PAPER_STAGE} where no other is named"
    )?;
    let mut notes: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for row in &report.paper {
        let note = note_number(&mut notes, &row.note);
        rows.push(comparison_cells(row, &note));
    }
    let header = ["<what", "ours", "", "printed", "table", "<agreement"];
    write_table(out, &header, rows)?;
    for (i, note) in notes.iter().enumerate() {
        writeln!(out, "[{}] {note}", i + 1)?;
    }
    writeln!(out, "Objections are those of a published review of the paper.")
}

/// The number of a note below the table; the same note has the same number.
fn note_number<'a>(notes: &mut Vec<&'a str>, note: &'a str) -> String {
    if note.is_empty() {
        return String::new();
    }
    let place = notes.iter().position(|known| *known == note).unwrap_or_else(|| {
        notes.push(note);
        notes.len() - 1
    });
    format!("[{}]", place + 1)
}

fn comparison_cells(row: &Comparison, note: &str) -> Vec<String> {
    vec![
        row.what.trim_start_matches("stage 1: ").to_owned(),
        grouped(row.ours),
        if row.unit == "bytes" { Bytes::new(row.ours).to_string() } else { String::new() },
        row.printed.map_or_else(String::new, quoted),
        row.place.trim_start_matches("Table ").to_owned(),
        format!("{} {note}", row.agreement.text()),
    ]
}

impl Agreement {
    const fn text(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Rounds => "rounds to it",
            Self::Differs => "differs",
            Self::NotPrinted => "not printed",
        }
    }
}

/// Writes a table: columns hold numbers, on the right, or words, on the left, whose header begins with `<`.
fn write_table(out: &mut impl Write, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> io::Result<()> {
    let height = |name: &&str| name.matches('\n').count();
    let highest = header.iter().map(height).max().unwrap_or(0);
    // Headers stand on the line below them, however many lines they have.
    let lowered = |name: &&str| "\n".repeat(highest - height(name)) + name.trim_start_matches('<');
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(header.iter().map(lowered));
    table.add_rows(rows);
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_cell_alignment(if name.starts_with('<') { CellAlignment::Left } else { CellAlignment::Right });
        column.set_padding((0, 1));
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// `4-7`, or `60` where both ends are one.
fn range(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// As the paper prints it, in quotes, so that nobody takes its "GB" for ours.
fn quoted(printed: &str) -> String {
    format!("\"{printed}\"")
}

/// A whole number with thousands separators.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
