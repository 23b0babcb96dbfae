//! What the paper prints, and how our numbers compare.

use crate::by_zero::ByZero;
use crate::number::grouped;
use moe_model::spec::{Accounting, Dropless, Mesh, Pool, Routing, ZeroStage};
use moe_model::{Bytes, Plan, Spec, Violations};
use serde::Serialize;

/// The paper's device is a rank of stages 1-14, which hold the same.
pub(crate) const PAPER_STAGE: u64 = 1;

const GIB_NOTE: &str = "the paper's \"GB\" is 2^30 bytes, a GiB";

/// A row of the paper's Table 8.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Table8 {
    pub(crate) weights: &'static str,
    pub(crate) gradients: &'static str,
    pub(crate) optimizer: &'static str,
    pub(crate) total: &'static str,
}

/// Table 8 as printed; the paper calls the stages none, os, os+g and os+g+params.
pub(crate) const TABLE_8: ByZero<Table8> = ByZero {
    none: Table8 { weights: "11.64 GB", gradients: "23.3 GB", optimizer: "46.6 GB", total: "81.54 GB" },
    optimizer: Table8 { weights: "11.64 GB", gradients: "23.3 GB", optimizer: "5.52 GB", total: "40.46 GB" },
    gradients: Table8 { weights: "11.64 GB", gradients: "2.76 GB", optimizer: "5.52 GB", total: "19.92 GB" },
    parameters: Table8 { weights: "1.38 GB", gradients: "2.76 GB", optimizer: "5.52 GB", total: "9.66 GB" },
};

/// A number of ours beside what the paper prints for it.
#[derive(Serialize)]
pub(crate) struct Comparison {
    id: &'static str,
    pub(crate) what: String,
    pub(crate) ours: u64,
    pub(crate) unit: Unit,
    pub(crate) printed: Option<&'static str>,
    #[serde(rename = "where")]
    pub(crate) place: &'static str,
    pub(crate) agreement: Agreement,
    pub(crate) note: String,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Parameters,
    Bytes,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Agreement {
    Equal,
    Rounds,
    Differs,
    NotPrinted,
}

impl Comparison {
    fn parameters(id: &'static str, what: &str, ours: u64, place: &'static str) -> Self {
        Self::new(id, what, ours, Unit::Parameters, place)
    }

    fn bytes(id: &'static str, what: &str, ours: Bytes, place: &'static str) -> Self {
        Self::new(id, what, ours.bytes(), Unit::Bytes, place)
    }

    fn new(id: &'static str, what: &str, ours: u64, unit: Unit, place: &'static str) -> Self {
        let (what, agreement, note) = (what.to_owned(), Agreement::NotPrinted, String::new());
        Self { id, what, ours, unit, printed: None, place, agreement, note }
    }

    fn printed(self, printed: &'static str) -> Self {
        Self { printed: Some(printed), agreement: Agreement::of(self.ours, printed), ..self }
    }

    fn note(self, note: &str) -> Self {
        Self { note: note.to_owned(), ..self }
    }
}

impl Agreement {
    /// Whether our number is the printed one, as far as digits are printed. A printed "GB" is 2^30 bytes, "B" 10^9.
    fn of(ours: u64, printed: &str) -> Self {
        let (number, unit) = if let Some(number) = printed.strip_suffix(" GB") {
            (number, 1 << 30)
        } else if let Some(number) = printed.strip_suffix('B') {
            (number, 1_000_000_000)
        } else {
            (printed, 1)
        };
        let decimals = number.split_once('.').map_or("", |(_, decimals)| decimals);
        let scale: u128 = decimals.bytes().map(|_| 10).product();
        let rounded = (2 * u128::from(ours) * scale + unit) / (2 * unit);
        let printed: u128 = number.replace([',', '.'], "").parse().expect("a number is printed");
        match (rounded == printed, unit) {
            (true, 1) => Self::Equal,
            (true, _) => Self::Rounds,
            (false, _) => Self::Differs,
        }
    }
}

/// Every comparison; `full` is the same layout as `none` with full recomputation.
pub(crate) fn comparisons(none: &Plan, full: &Plan) -> Result<Vec<Comparison>, Violations> {
    let mut rows = compare_model(none)?;
    rows.extend(compare_device(none));
    rows.extend(compare_zero(none)?);
    rows.extend(compare_activations(none, full));
    rows.push(compare_worst(none));
    rows.extend(compare_routing(none)?);
    Ok(rows)
}

/// The model as a whole and stage by stage, before it is split.
fn compare_model(plan: &Plan) -> Result<Vec<Comparison>, Violations> {
    let Spec { architecture, layout } = *plan.spec();
    let total = architecture.parameters().total();
    let weights = Bytes::new(total).times(layout.precision.weights.bytes());
    // One rank a stage, so that the rank holds all of it.
    let whole = plan.changed(|spec| spec.layout.mesh = Mesh { pp: spec.layout.mesh.pp, ..Mesh::DEFAULT })?;
    let stage = |index| whole.budget(index).parameters().total();
    Ok(vec![
        Comparison::parameters("t3.total", "whole model: parameters", total, "Table 3")
            .printed("671B")
            .note("the printed rows, added up, count the latent norms twice and leave out the final norm"),
        Comparison::bytes("t3.total.gib", "whole model: weights", weights, "Table 3").printed("1250 GB").note(GIB_NOTE),
        Comparison::parameters("t4.stage0", "stage 0 unsplit: parameters", stage(0), "Table 4")
            .printed("14.16B")
            .note("the printed value is a sum of rounded rows: 1.5 + 2 x 0.58 + 11.5"),
        Comparison::parameters("t4.stage1_14", "stages 1-14 unsplit: parameters, each", stage(PAPER_STAGE), "Table 4")
            .printed("46B"),
        Comparison::parameters("t4.stage15", "stage 15 unsplit: parameters", stage(plan.stages() - 1), "Table 4")
            .printed("12.4B")
            .note("ours holds the final norm as well"),
    ])
}

/// A rank of stages 1-14.
fn compare_device(plan: &Plan) -> [Comparison; 5] {
    let budget = plan.budget(PAPER_STAGE);
    let (parameters, weights) = (budget.parameters(), budget.weights());
    let count = |id, what, count| Comparison::parameters(id, what, count, "Table 6");
    let bytes = |id| Comparison::bytes(id, "stage 1: weights", weights, "Table 6");
    [
        count("t6.non_moe", "stage 1: non-MoE parameters", parameters.non_moe).printed("429,719,552"),
        count("t6.moe", "stage 1: MoE parameters", parameters.moe).printed("5,820,645,376"),
        count("t6.total", "stage 1: parameters", parameters.total()).printed("6,250,364,928"),
        bytes("t6.total.bytes").printed("12,500,729,856"),
        bytes("t6.total.gib").printed("11.64 GB").note(GIB_NOTE),
    ]
}

/// A rank of stages 1-14 between two steps, under each [`ZeroStage`].
fn compare_zero(plan: &Plan) -> Result<Vec<Comparison>, Violations> {
    let ids = ByZero {
        none: "t8.none.total",
        optimizer: "t8.os.total",
        gradients: "t8.os+g.total",
        parameters: "t8.os+g+params.total",
    };
    let row = |stage: ZeroStage| {
        let ours =
            plan.changed(|spec| spec.layout.zero = spec.layout.zero.at(stage))?.budget(PAPER_STAGE).static_bytes();
        let what = format!("stage 1: static bytes, ZeRO {}", stage.word());
        let row = Comparison::bytes(ids.get(stage), &what, ours, "Table 8").printed(TABLE_8.get(stage).total);
        Ok(match row.agreement {
            Agreement::Differs => row
                .note(&format!("the printed total is the sum of its rounded parts; exact is {:.3} GiB", ours.as_gib())),
            _ => row.note(GIB_NOTE),
        })
    };
    ZeroStage::ALL.iter().map(|stage| row(*stage)).collect()
}

/// A row about activations, of which the paper prints formulas for one micro-batch and no numbers.
fn table_10(id: &'static str, what: &str, ours: Bytes, note: &str) -> Comparison {
    Comparison::bytes(id, what, ours, "Table 10").note(note)
}

/// Activations of one micro-batch, and of all that a rank holds.
fn compare_activations(none: &Plan, full: &Plan) -> [Comparison; 5] {
    let (none, full) = (none.budget(PAPER_STAGE), full.budget(PAPER_STAGE));
    let one = "Table 10 prints formulas for one micro-batch, which ours follow, and no numbers";
    let held = &format!(
        "Table 10 is one micro-batch; under 1F1B a rank of stage {} holds up to {} (objection 1)",
        none.stage(),
        none.in_flight()
    );
    let block = "Table 10 leaves out the block that backward computes again while it runs";
    [
        table_10("t10.none", "stage 1: activations per micro-batch, recompute none", none.per_micro_batch(), one),
        table_10("t10.full", "stage 1: activations per micro-batch, recompute full", full.per_micro_batch(), one),
        table_10("o1.none", "stage 1: activations in flight, recompute none", none.stored_activations(), held),
        table_10("o1.full", "stage 1: activations in flight, recompute full", full.stored_activations(), held),
        table_10("o1.block", "stage 1: block recomputed in backward", full.recomputed_block(), block),
    ]
}

/// Which rank is the worst, once all micro-batches are counted.
fn compare_worst(plan: &Plan) -> Comparison {
    let peak = plan.peak();
    let note = format!(
        "Table 10 is of stages 1-14, the largest by parameters; stage {} is worse, holding {} micro-batches (objection 2)",
        peak.stage,
        plan.in_flight(peak.stage)
    );
    table_10("o2.peak", "worst rank: total peak, recompute none", peak.total, &note)
}

/// What routing does to the activations of one micro-batch (objection 3).
fn compare_routing(plan: &Plan) -> Result<[Comparison; 2], Violations> {
    let skew = plan.worst_skew();
    let hot = plan.changed(|spec| spec.layout.routing = Routing::Dropless(Dropless { skew, ..Dropless::DEFAULT }))?;
    let grid = plan.changed(|spec| {
        if let Accounting::Paper(paper) = &mut spec.layout.accounting {
            paper.pool = Pool::Group;
        }
    })?;
    let balanced =
        format!("the paper takes routing for balanced; the hottest rank may get {skew} times as much (objection 3)");
    let copies = format!(
        "the paper deals one replica's tokens over the EP group; its grid brings {} routed copies a rank, not {}",
        grouped(plan.routed_rows(Pool::Group)),
        grouped(plan.routed_rows(Pool::Replica))
    );
    let held = |plan: &Plan| plan.budget(PAPER_STAGE).per_micro_batch();
    Ok([
        table_10("o3.skew", "stage 1: activations per micro-batch, hottest rank", held(&hot), &balanced),
        table_10("o3.pool", "stage 1: activations per micro-batch, pool group", held(&grid), &copies),
    ])
}
