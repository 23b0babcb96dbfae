//! Computing in FP8: weights, master weights and moments stay what they are, the weights lie twice in FP8 beside them, and
//! linear layers save their inputs in FP8.

use crate::behind::Behind;
use crate::sheet::{Cell, Column, Failure, Report, Sheet};
use moe_model::inventory::Lifetime;
use moe_model::spec::{Compute, Dtype};
use moe_model::{Bytes, Device, Entry, Plan, Role, Spec};

const COLUMNS: &[Column] = &[
    ("compute", "<computed in"),
    ("weights_format", "<stored in"),
    ("weights_bytes", "weights"),
    ("fp8_copies_bytes", "fp8 copies"),
    ("master_bytes", "master"),
    ("moments_bytes", "moments"),
    ("micro_batch_bytes", "a micro-batch"),
    ("activations_bytes", "in flight"),
    ("peak_bytes", "worst rank"),
];

/// What Transformer Engine keeps of weights in FP8, with scales and histories; its sources begin so.
const SOURCE: &str = "compute in fp8";

struct Row {
    compute: Compute,
    stored: Dtype,
    plan: Plan,
}

pub(crate) fn report(plan: &Plan, behind: Behind) -> Result<Report, String> {
    let weights = plan.spec().layout.precision.weights;
    let of = |compute: Compute, stored: Dtype| {
        let mut spec: Spec = *plan.spec();
        spec.layout.precision.compute = compute;
        spec.layout.precision.weights = stored;
        // Whether it fits is what this compares.
        spec.layout.device = Device::None;
        let plan = Plan::new(spec).map_err(|violations| violations.to_string())?;
        Ok(Row { compute, stored, plan })
    };
    let mut rows: Vec<Row> = Compute::ALL.iter().map(|compute| of(*compute, weights)).collect::<Result<_, String>>()?;
    rows.push(of(Compute::Activations, Dtype::Fp8)?);
    let stage = rows[0].plan.peak().stage;
    let sheet = Sheet {
        key: "formats",
        title: format!("A rank of stage {stage}"),
        columns: COLUMNS,
        rows: rows.iter().map(|row| cells(row, stage)).collect(),
        is_shown: true,
    };
    Ok(Report {
        format: "moe-model/lab/fp8/1",
        behind,
        sheets: vec![sheet],
        findings: findings(&rows, stage),
        failure: Some(Failure::of("FP8 on a device of the generation before, `device` = a100_80gb", plan, |spec| {
            spec.layout.precision.compute = Compute::Fp8Blockwise;
            spec.layout.device = Device::A100Gb80;
        })),
    })
}

fn copies(plan: &Plan, stage: u64) -> Bytes {
    let is_copy = |entry: &&Entry| entry.lifetime == Lifetime::Always && entry.source.starts_with(SOURCE);
    plan.inventory(stage).iter().filter(is_copy).map(Entry::bytes).sum()
}

fn cells(row: &Row, stage: u64) -> Vec<Cell> {
    let budget = row.plan.budget(stage);
    let moments = budget.role(Role::FirstMoment).plus(budget.role(Role::SecondMoment));
    let bytes = [
        budget.weights(),
        copies(&row.plan, stage),
        budget.role(Role::MasterWeight),
        moments,
        budget.per_micro_batch(),
        budget.stored_activations(),
        row.plan.peak().total,
    ];
    [row.compute.word().into(), row.stored.word().into()].into_iter().chain(bytes.map(Cell::from)).collect()
}

fn findings(rows: &[Row], stage: u64) -> Vec<String> {
    let whole = rows[0].plan.budget(stage);
    let of_fp8 = |row: &Row| {
        let budget = row.plan.budget(stage);
        let less = Bytes::new(whole.stored_activations().bytes().saturating_sub(budget.stored_activations().bytes()));
        let copies = copies(&row.plan, stage);
        format!("{} adds {copies} of copies and takes {less} from activations in flight.", row.compute.word())
    };
    let is_same = |row: &&Row| row.plan.budget(stage).static_bytes() == whole.static_bytes();
    let same = rows.iter().filter(is_same).count();
    let stand = format!(
        "Weights, gradients, master weights and moments are the same {} in {same} of {} rows: computing in FP8 is not \
         storing in it.",
        whole.static_bytes(),
        rows.len()
    );
    let last = "The last row stores all weights in FP8, those of norms and embeddings too: no recipe trains so.";
    let fp8 = rows.iter().filter(|row| row.compute.is_fp8()).map(of_fp8);
    [stand].into_iter().chain(fp8).chain([last.to_owned()]).collect()
}
