//! ZeRO stages compared: what a rank saves, and what it sends to other replicas for that.

use crate::behind::Behind;
use crate::sheet::{Cell, Column, Failure, Report, Sheet};
use moe_model::spec::{Target, ZeroStage};
use moe_model::{Budget, Bytes, Plan};

const COLUMNS: &[Column] = &[
    ("zero", "<ZeRO"),
    ("weights_bytes", "weights"),
    ("gradients_bytes", "gradients"),
    ("optimizer_bytes", "optimizer"),
    ("static_bytes", "in all"),
    ("saved_bytes", "saved"),
    ("sent_gradients_bytes", "gradients sent"),
    ("sent_weights_bytes", "weights sent"),
    ("sent_bytes", "sent a step"),
];

/// One ZeRO stage, on a rank of the stage that is the worst as declared.
struct Row {
    zero: ZeroStage,
    budget: Budget,
    sent: moe_model::replicas::ReplicaTraffic,
}

pub(crate) fn report(plan: &Plan, behind: Behind) -> Result<Report, String> {
    if plan.spec().layout.served().is_some() {
        return Err("the layout serves: it has no state to share out".to_owned());
    }
    let stage = plan.peak().stage;
    let row = |zero: &ZeroStage| {
        let mut spec = *plan.spec();
        spec.layout.zero = spec.layout.zero.at(*zero);
        // Whether it fits is what this compares.
        spec.layout.device = moe_model::Device::None;
        let plan = Plan::new(spec).map_err(|violations| format!("under ZeRO {}: {violations}", zero.word()))?;
        Ok(Row { zero: *zero, budget: plan.budget(stage), sent: plan.replica_traffic(stage) })
    };
    let rows: Vec<Row> = ZeroStage::ALL.iter().map(row).collect::<Result<_, String>>()?;
    let whole = rows[0].budget.static_bytes();
    let micro_batches = plan.spec().layout.batch.count;
    let sheet = Sheet {
        key: "zero",
        title: format!(
            "A rank of stage {stage} between two steps, and what it sends to replicas in a step of {micro_batches} \
             micro-batches"
        ),
        columns: COLUMNS,
        rows: rows.iter().map(|row| cells(row, whole)).collect(),
        is_shown: true,
    };
    Ok(Report {
        format: "moe-model/lab/zero/1",
        behind,
        sheets: vec![sheet],
        findings: findings(&rows, whole, micro_batches),
        failure: Some(Failure::of("sharded gradients in a pipeline, under `target: deepspeed`", plan, |spec| {
            spec.layout.zero = spec.layout.zero.at(ZeroStage::Gradients);
            spec.layout.target = Target::Deepspeed;
        })),
    })
}

fn saved(row: &Row, whole: Bytes) -> Bytes {
    Bytes::new(whole.bytes() - row.budget.static_bytes().bytes())
}

fn cells(row: &Row, whole: Bytes) -> Vec<Cell> {
    let Row { zero, budget, sent } = row;
    let parts = [budget.weights(), budget.gradients(), budget.optimizer(), budget.static_bytes(), saved(row, whole)];
    let sent = [sent.gradients, sent.weights, sent.total()];
    [zero.word().into()].into_iter().chain(parts.into_iter().chain(sent).map(Cell::from)).collect()
}

fn findings(rows: &[Row], whole: Bytes, micro_batches: u64) -> Vec<String> {
    let said = |row: &Row, before: &Row| {
        let more = |bytes: Bytes, than: Bytes| match bytes.bytes().checked_sub(than.bytes()) {
            Some(more) => format!("{} more", Bytes::new(more)),
            None => format!("{} less", Bytes::new(than.bytes() - bytes.bytes())),
        };
        let step = Bytes::new(saved(row, whole).bytes().saturating_sub(saved(before, whole).bytes()));
        let sent = more(row.sent.total(), before.sent.total());
        format!("Sharding {} as well saves {step} and sends {sent}.", row.zero.word())
    };
    let steps = rows.windows(2).map(|pair| said(&pair[1], &pair[0]));
    let why = format!(
        "Gradients that are sharded are reduced for each of {micro_batches} micro-batches, not once a step; weights that \
         are sharded are gathered for each forward and backward."
    );
    steps.chain([why]).collect()
}
