//! The report as tables.

use crate::number::grouped;
use crate::paper::{Agreement, Comparison, PAPER_STAGE, Table8, Unit};
use crate::report::{ByRecompute, Recomputed, Report, StageRow, WholeModel, WorstRank, ZeroRow};
use crate::review::{Failure, Objection};
use crate::text::{lines, quoted, range, table};
use crate::wrapped::wrapped;
use moe_model::spec::{Layout, Precision};
use moe_model::{Bytes, H200};

/// Everything that is shown.
pub(crate) fn all(report: &Report) -> String {
    let ByRecompute { none, full } = &report.recompute;
    [
        head(report),
        kinds(report),
        stages(report, "none", none),
        stages(report, "full", full),
        zero(report),
        worst(report),
        paper(report),
        objections(report),
        beyond(report),
        failure(report),
        step(report),
    ]
    .concat()
}

/// What two steps of ranks allocated.
fn step(report: &Report) -> String {
    let rows = report.step.iter().map(|row| {
        let at_most = [row.peak_bytes, row.budget_bytes].map(|bytes| bytes.to_string());
        let [peak, budget] = at_most;
        vec![row.model.to_owned(), row.device.to_owned(), row.stage.to_string(), grouped(row.allocations), peak, budget]
    });
    let allocations: u64 = report.step.iter().map(|row| row.allocations).sum();
    let header = ["<model", "<device", "stage", "allocations", "at most", "budget"];
    let title =
        "Two steps of a rank, full recomputation: every allocation asserted, every peak the budget's to the byte";
    table(title, &header, rows) + &format!("{} allocations asserted.\n", grouped(allocations))
}

fn head(report: &Report) -> String {
    let rows = head_of_model(report).into_iter().chain(head_of_layout(report));
    lines(rows.map(|(label, text)| format!("{label:<12} {text}")))
}

fn head_of_model(report: &Report) -> [(&'static str, String); 3] {
    let (layers, experts) = (report.spec.architecture.layers, report.spec.architecture.experts);
    let WholeModel { parameters, mtp_parameters, correction_bias_elements } = &report.whole_model;
    let layers = format!("{} dense layers and {} MoE layers", layers.dense, layers.moe);
    let experts = format!("{} routed experts, {} active, {} shared", experts.routed, experts.active, experts.shared);
    let (total, moe, non_moe) = (grouped(parameters.total), grouped(parameters.moe), grouped(parameters.non_moe));
    let (mtp, biases) = (grouped(*mtp_parameters), grouped(*correction_bias_elements));
    [
        ("model", format!("{}: {layers}; {experts}", report.behind.model)),
        ("parameters", format!("{total}: {moe} MoE, {non_moe} non-MoE")),
        ("beside them", format!("{mtp} in MTP modules; correction bias, a buffer of {biases} elements")),
    ]
}

fn head_of_layout(report: &Report) -> [(&'static str, String); 10] {
    let Layout { mesh, zero, placement, precision, batch, .. } = &report.spec.layout;
    let (world, each) = (grouped(report.world_size), report.ranks_per_stage);
    let [dense, expert, groups] = [zero.dense.word(), zero.expert.word(), zero.groups.word()];
    let (query_rope, shared_experts) = (placement.query_rope.word(), placement.shared_experts.word());
    let (count, micro, sequence) = (report.micro_batches, batch.micro, grouped(batch.sequence));
    [
        ("world", format!("{world} ranks: {} stages of {each}", mesh.pp)),
        ("layout", mesh_and_schedule(report)),
        ("ZeRO", format!("dense {dense}, expert {expert}, groups {groups}")),
        ("placement", format!("query_rope {query_rope}, shared_experts {shared_experts}")),
        ("precision", formats(*precision)),
        ("batch", format!("{count} micro-batches of {micro} x {sequence} tokens on each replica")),
        ("accounting", report.behind.accounting.clone()),
        ("not counted", report.not_counted.to_owned()),
        ("source", report.source.to_owned()),
        ("counted", format!("by {} on {}", report.behind.version, report.behind.date)),
    ]
}

fn mesh_and_schedule(report: &Report) -> String {
    let Layout { mesh, schedule, .. } = &report.spec.layout;
    let degrees = [
        ("dp", mesh.dp),
        ("tp", mesh.tp),
        ("pp", mesh.pp),
        ("ep", mesh.ep),
        ("etp", mesh.etp),
        ("edp", report.expert_data_parallel),
    ];
    let degrees = degrees.map(|(name, degree)| format!("{name} {degree}")).join(", ");
    format!("{degrees}; sequence parallel {}; schedule {}", mesh.sequence_parallel.word(), schedule.word())
}

fn formats(precision: Precision) -> String {
    let formats = [
        ("weights", precision.weights),
        ("gradients", precision.gradients),
        ("master", precision.master),
        ("moments", precision.moments),
        ("activations", precision.activations),
    ];
    formats.map(|(what, format)| format!("{what} {}", format.word())).join(", ")
}

/// Stages that hold the same, with what stands on a rank between two steps.
fn kinds(report: &Report) -> String {
    let zero = report.spec.layout.zero.dense.word();
    let title = format!("Static bytes of a rank, by kind of stage (ZeRO {zero}, with and without recomputation)");
    let header = ["<stages", "<layers", "ranks", "MoE\nparameters", "non-MoE\nparameters", "all\nparameters", "static"];
    // A stage is of the kind of the one before if a rank holds as many parameters of each sort.
    let kinds = report.recompute.none.stages.chunk_by(|a, b| a.parameters == b.parameters);
    table(&title, &header, kinds.map(kind_cells))
}

/// Stages of one kind, at least one.
fn kind_cells(kind: &[StageRow]) -> Vec<String> {
    let (first, last) = (&kind[0], &kind[kind.len() - 1]);
    let layers = range(first.first_layer, last.last_layer);
    let each = if kind.len() == 1 { "" } else { " each" };
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

fn stages(report: &Report, recompute: &str, rows: &Recomputed) -> String {
    let zero = report.spec.layout.zero.dense.word();
    let mut phases: Vec<&str> = rows.stages.iter().map(|row| row.peak.phase).collect();
    phases.dedup();
    let phases = phases.join(", ");
    let title = format!("A rank of each stage, recompute {recompute} (ZeRO {zero}; peaks in {phases})");
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
    table(&title, &header, rows.stages.iter().map(stage_cells))
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

fn zero(report: &Report) -> String {
    let title = format!("Static bytes of a rank of stage {PAPER_STAGE} under each ZeRO stage, and what Table 8 prints");
    let header = ["<ZeRO", "<", "weights", "gradients", "optimizer", "total", "total in bytes"];
    let rows = report.zero.iter().flat_map(|(zero, row)| [ours_cells(zero, row), printed_cells(row.printed)]);
    table(&title, &header, rows)
}

fn ours_cells(zero: &str, row: &ZeroRow) -> Vec<String> {
    vec![
        zero.to_owned(),
        "ours".to_owned(),
        row.weights_bytes.to_string(),
        row.gradients_bytes.to_string(),
        row.optimizer_bytes.to_string(),
        row.stage1_static_bytes.to_string(),
        grouped(row.stage1_static_bytes.bytes()),
    ]
}

fn printed_cells(row: Table8) -> Vec<String> {
    let Table8 { weights, gradients, optimizer, total } = row;
    let (weights, gradients) = (quoted(weights), quoted(gradients));
    vec![String::new(), "printed".to_owned(), weights, gradients, quoted(optimizer), quoted(total)]
}

fn worst(report: &Report) -> String {
    let header = ["<recompute", "<ZeRO", "stage", "ranks", "<phase", "total", "total in bytes"];
    let ByRecompute { none, full } = &report.recompute;
    let none_rows = none.worst_rank.iter().map(|(zero, worst)| worst_cells("none", zero, worst));
    let full_rows = full.worst_rank.iter().map(|(zero, worst)| worst_cells("full", zero, worst));
    let rows = table("The worst rank in its worst phase", &header, none_rows.chain(full_rows));
    let zero = report.spec.layout.zero.dense;
    let (ours, device) = (full.worst_rank.get(zero).total_bytes, H200.usable());
    let checked = format!("recompute full with ZeRO {}, {ours}, is below an H200's {device}", zero.word());
    format!("{rows}Checked while this was compiled: {checked}.\n")
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

fn paper(report: &Report) -> String {
    let title =
        format!("What the paper prints beside our numbers, of a rank of stage {PAPER_STAGE} where no other is named");
    let header = ["<what", "ours", "", "printed", "table", "<agreement"];
    let distinct = distinct(report.paper.iter().map(|row| row.note.as_str()));
    let rows = table(&title, &header, report.paper.iter().map(|row| comparison_cells(row, &distinct)));
    let notes = notes(&distinct);
    format!("{rows}{notes}")
}

fn objections(report: &Report) -> String {
    let all = (1..).zip(&report.objections).map(|(number, Objection { objection, answer })| {
        format!("{number}. {objection}:\n{}\n", wrapped("   ", answer))
    });
    format!("\nObjections of a published review of the paper, answered\n{}", all.collect::<String>())
}

/// Ranges, and below each the terms that have a name.
fn beyond(report: &Report) -> String {
    let sources = distinct(report.beyond.iter().map(|row| row.source));
    let rows = report.beyond.iter().map(|row| {
        let printed = row.printed.map_or_else(String::new, quoted);
        let what = if row.printed.is_some() { row.what.to_owned() } else { format!("  {}", row.what) };
        let bytes = if row.least_bytes == row.most_bytes {
            row.least_bytes.to_string()
        } else {
            format!("{} to {}", row.least_bytes, row.most_bytes)
        };
        let number = sources.iter().position(|source| *source == row.source).map_or(0, |place| place + 1);
        vec![what, printed, bytes, format!("[{number}]")]
    });
    let title = format!(
        "Beyond the tensors of a rank of stage {PAPER_STAGE}: ranges that the paper allows, and below them what has a name"
    );
    let table = table(&title, &["<what", "printed", "bytes", "<"], rows);
    let sources = notes(&sources);
    let why = "A term is what follows from the layout alone; what an allocator keeps beyond that depends on the order of tensors, \
               channels on the links of a machine: that is what headroom is for.";
    format!("{table}{sources}{}\n", wrapped("", why))
}

fn failure(report: &Report) -> String {
    let Failure { what, message } = &report.failure;
    format!("\nWhat fails: {what}\n{}", lines(message.lines().map(|line| wrapped("", line))))
}

/// Each note once, in the order of the rows; its number is its place, from 1.
fn distinct<'r>(rows: impl Iterator<Item = &'r str>) -> Vec<&'r str> {
    let mut notes = Vec::new();
    for note in rows.filter(|note| !note.is_empty()) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

fn notes(distinct: &[&str]) -> String {
    lines((1..).zip(distinct).map(|(number, note)| format!("[{number}] {note}")))
}

fn comparison_cells(row: &Comparison, notes: &[&str]) -> Vec<String> {
    let amount = match row.unit {
        Unit::Bytes => Bytes::new(row.ours).to_string(),
        Unit::Parameters => String::new(),
    };
    let agreement = match row.agreement {
        Agreement::Equal => "equal",
        Agreement::Rounds => "rounds to it",
        Agreement::Differs => "differs",
        Agreement::NotPrinted => "not printed",
    };
    let number = notes.iter().position(|note| *note == row.note);
    vec![
        row.what.trim_start_matches("stage 1: ").to_owned(),
        grouped(row.ours),
        amount,
        row.printed.map_or_else(String::new, quoted),
        row.place.trim_start_matches("Table ").to_owned(),
        number.map_or_else(|| agreement.to_owned(), |place| format!("{agreement} [{}]", place + 1)),
    ]
}
