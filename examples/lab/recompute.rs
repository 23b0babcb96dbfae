//! What to compute again in backward: what each policy saves, and the operations and bytes that it costs.

use crate::behind::Behind;
use crate::sheet::{Cell, Column, Failure, Report, Sheet};
use moe_model::cost::Cost;
use moe_model::spec::{Modules, Recompute, Switch};
use moe_model::{Bytes, Device, Plan};

const COLUMNS: &[Column] = &[
    ("policy", "<computed again"),
    ("peak_bytes", "worst rank"),
    ("saved_bytes", "saved"),
    ("operations", "TFLOP"),
    ("operations_percent", "% forward"),
    ("all_to_all_bytes", "all-to-all"),
    ("tensor_bytes", "tensor"),
    ("all_to_all_per_saved", "sent / saved"),
];

const ON: Switch = Switch::On;

/// DeepSeek-V3's: norms, up-projections of latents, and the activation of experts (arXiv:2412.19437, section 3.2.3).
const DEEPSEEK: Modules = Modules { norms: ON, latent_up: ON, activation: ON, ..Modules::DEFAULT };

/// What is computed again.
const POLICIES: [(&str, Recompute, Modules); 10] = [
    ("nothing", Recompute::None, Modules::DEFAULT),
    ("norms", Recompute::Selective, Modules { norms: ON, ..Modules::DEFAULT }),
    ("latent_up", Recompute::Selective, Modules { latent_up: ON, ..Modules::DEFAULT }),
    ("activation", Recompute::Selective, Modules { activation: ON, ..Modules::DEFAULT }),
    ("core_attention", Recompute::Selective, Modules { core_attention: ON, ..Modules::DEFAULT }),
    ("dense", Recompute::Selective, Modules { dense: ON, ..Modules::DEFAULT }),
    ("shared_experts", Recompute::Selective, Modules { shared_experts: ON, ..Modules::DEFAULT }),
    ("experts", Recompute::Selective, Modules { experts: ON, ..Modules::DEFAULT }),
    ("norms, latent_up, activation", Recompute::Selective, DEEPSEEK),
    ("whole layers", Recompute::Full, Modules::DEFAULT),
];

struct Row {
    policy: &'static str,
    peak: Bytes,
    cost: Cost,
}

pub(crate) fn report(plan: &Plan, behind: Behind) -> Result<Report, String> {
    let with = |(policy, recompute, modules): (&'static str, Recompute, Modules)| {
        let mut spec = *plan.spec();
        (spec.layout.recompute, spec.layout.recompute_layers, spec.layout.recompute_together) = (recompute, 0, 0);
        spec.layout.modules = modules;
        // Whether it fits is what this compares.
        spec.layout.device = Device::None;
        Plan::new(spec).map(|plan| (policy, plan))
    };
    let none = with(POLICIES[0]).map_err(|violations| violations.to_string())?.1;
    let stage = none.peak().stage;
    let row = |(policy, plan): (_, Plan)| Row { policy, peak: plan.peak().total, cost: plan.recompute_cost(stage) };
    // A module that layers do not have, or that an accounting does not tell apart, is no policy.
    let rows: Vec<Row> = POLICIES.into_iter().filter_map(|policy| with(policy).ok()).map(row).collect();
    let forward = none.forward_cost(stage);
    let cells = |row: &Row| cells(row, rows[0].peak, forward);
    let sheet = Sheet {
        key: "policies",
        title: format!("Peak of the worst rank, and what a rank of stage {stage} does again for each micro-batch"),
        columns: COLUMNS,
        rows: rows.iter().map(cells).collect(),
        is_shown: true,
    };
    Ok(Report {
        format: "moe-model/lab/recompute/1",
        behind,
        findings: findings(&rows, forward),
        sheets: vec![sheet],
        failure: Some(Failure::of(
            "modules beside `recompute: full`, which computes all of them again",
            plan,
            |spec| {
                spec.layout.recompute = Recompute::Full;
                spec.layout.modules = Modules { experts: ON, ..Modules::DEFAULT };
            },
        )),
    })
}

fn saved(row: &Row, whole: Bytes) -> Bytes {
    Bytes::new(whole.bytes().saturating_sub(row.peak.bytes()))
}

fn cells(row: &Row, whole: Bytes, forward: Cost) -> Vec<Cell> {
    let (cost, saved) = (row.cost, saved(row, whole));
    vec![
        row.policy.into(),
        row.peak.into(),
        saved.into(),
        Cell::Trillions(cost.operations),
        share(cost.operations, forward.operations).map_or(Cell::None, |share| Cell::Decimal(100.0 * share)),
        cost.all_to_all.into(),
        cost.tensor.into(),
        share(cost.all_to_all.bytes(), saved.bytes()).map_or(Cell::None, Cell::Decimal),
    ]
}

#[allow(clippy::cast_precision_loss)] // shown to people
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn percent(row: &Row, forward: Cost) -> String {
    share(row.cost.operations, forward.operations).map_or_else(String::new, |share| format!("{:.2} %", 100.0 * share))
}

fn findings(rows: &[Row], forward: Cost) -> Vec<String> {
    let whole = rows[0].peak;
    let named = |policy: &str| rows.iter().find(|row| row.policy == policy);
    let mut findings = Vec::new();
    let (dear, quiet): (Vec<&Row>, Vec<&Row>) = rows.iter().skip(1).partition(|row| row.cost.all_to_all > Bytes::ZERO);
    if !dear.is_empty() {
        let dear: Vec<String> = dear.iter().map(|row| format!("{} ({})", row.policy, row.cost.all_to_all)).collect();
        findings.push(format!("These go through all-to-all again, for each micro-batch: {}.", dear.join(", ")));
    }
    if let (Some(experts), Some(best)) = (named("experts"), quiet.iter().max_by_key(|row| saved(row, whole))) {
        findings.push(format!(
            "The path over the network is the dear one: `experts` saves {}, does {} of a forward again and sends {} for each \
             micro-batch; of what sends nothing, `{}` saves most: {} for {}.",
            saved(experts, whole),
            percent(experts, forward),
            experts.cost.all_to_all,
            best.policy,
            saved(best, whole),
            percent(best, forward),
        ));
    }
    findings
}
