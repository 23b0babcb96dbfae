//! The report: what the library says of the declared layouts, with what the paper prints.

use crate::behind::Behind;
use crate::by_zero::ByZero;
use crate::paper::{Comparison, PAPER_STAGE, TABLE_8, Table8, comparisons};
use crate::review::{self, Beyond, Failure, Objection};
use crate::step::{self, Row};
use moe_model::{Bytes, H200, Parameters, Peak, Plan, Spec, Violations};
use serde::Serialize;

/// Changes with any key of the JSON.
const SCHEMA: &str = "moe-model/deepseek_v3/4";
const MODEL: &str = "DeepSeek-V3 (arXiv:2412.19437)";
const SOURCE: &str =
    "arXiv:2502.07846v1; printed values as a published review and third-party transcriptions give them";
const NOT_COUNTED: &str = "MTP modules and correction bias on a rank, communication buffers, fragmentation";

/// What is printed, as tables or as JSON. An amount of memory is an integer of bytes in JSON, as its key says.
#[derive(Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    pub(crate) behind: Behind,
    pub(crate) source: &'static str,
    pub(crate) not_counted: &'static str,
    pub(crate) world_size: u64,
    pub(crate) ranks_per_stage: u64,
    pub(crate) expert_data_parallel: u64,
    pub(crate) micro_batches: u64,
    pub(crate) whole_model: WholeModel,
    pub(crate) zero: ByZero<ZeroRow>,
    pub(crate) recompute: ByRecompute,
    pub(crate) paper: Vec<Comparison>,
    pub(crate) objections: Vec<Objection>,
    pub(crate) beyond: Vec<Beyond>,
    pub(crate) failure: Failure,
    /// Two steps of ranks, each allocation asserted against the budget.
    pub(crate) step: Vec<Row>,
    /// What was declared, whole.
    pub(crate) spec: Spec,
}

#[derive(Serialize)]
pub(crate) struct WholeModel {
    pub(crate) parameters: Count,
    pub(crate) mtp_parameters: u64,
    pub(crate) correction_bias_elements: u64,
}

/// Parameters with their sum, so that no reader has to add.
#[derive(Serialize, PartialEq)]
pub(crate) struct Count {
    pub(crate) moe: u64,
    pub(crate) non_moe: u64,
    pub(crate) total: u64,
}

#[derive(Serialize)]
pub(crate) struct ByRecompute {
    pub(crate) none: Recomputed,
    pub(crate) full: Recomputed,
}

/// What a rank of stage 1 holds between two steps.
#[derive(Serialize)]
pub(crate) struct ZeroRow {
    pub(crate) weights_bytes: Bytes,
    pub(crate) gradients_bytes: Bytes,
    pub(crate) optimizer_bytes: Bytes,
    pub(crate) stage1_static_bytes: Bytes,
    pub(crate) printed: Table8,
}

/// One recompute policy: each pipeline stage as declared, and the worst rank under each
/// [`ZeroStage`](moe_model::spec::ZeroStage).
#[derive(Serialize)]
pub(crate) struct Recomputed {
    pub(crate) stages: Vec<StageRow>,
    pub(crate) worst_rank: ByZero<WorstRank>,
}

/// What a rank of a stage holds.
#[derive(Serialize)]
pub(crate) struct StageRow {
    pub(crate) stage: u64,
    pub(crate) first_layer: u64,
    pub(crate) last_layer: u64,
    pub(crate) dense_layers: u64,
    pub(crate) moe_layers: u64,
    pub(crate) first_rank: u64,
    pub(crate) last_rank: u64,
    pub(crate) parameters: Count,
    pub(crate) weights_bytes: Bytes,
    pub(crate) gradients_bytes: Bytes,
    pub(crate) optimizer_bytes: Bytes,
    pub(crate) static_bytes: Bytes,
    pub(crate) activations: Activations,
    pub(crate) peak: StagePeak,
}

#[derive(Serialize)]
pub(crate) struct Activations {
    pub(crate) per_micro_batch_bytes: Bytes,
    pub(crate) in_flight: u64,
    /// Of all micro-batches in flight, without the recomputed block.
    pub(crate) peak_bytes: Bytes,
    pub(crate) recompute_transient_bytes: Bytes,
}

#[derive(Serialize)]
pub(crate) struct StagePeak {
    pub(crate) phase: &'static str,
    pub(crate) total_bytes: Bytes,
}

#[derive(Serialize)]
pub(crate) struct WorstRank {
    pub(crate) stage: u64,
    pub(crate) first_rank: u64,
    pub(crate) last_rank: u64,
    pub(crate) phase: &'static str,
    pub(crate) total_bytes: Bytes,
}

impl Report {
    /// Of one layout without recomputation and with full recomputation.
    pub(crate) fn new(none: &Plan, full: &Plan) -> Result<Self, String> {
        let said = |violations: Violations| violations.to_string();
        let spec = *none.spec();
        let architecture = spec.architecture;
        Ok(Self {
            schema: SCHEMA,
            behind: Behind { model: MODEL.to_owned(), device: H200.word(), ..Behind::of(MODEL, &spec) },
            source: SOURCE,
            not_counted: NOT_COUNTED,
            world_size: none.world(),
            ranks_per_stage: none.stage_ranks(),
            expert_data_parallel: none.edp(),
            micro_batches: spec.layout.batch.count,
            whole_model: WholeModel {
                parameters: architecture.parameters().into(),
                mtp_parameters: architecture.mtp_parameters(),
                correction_bias_elements: architecture.buffer_elements(),
            },
            zero: ByZero::of(none, |plan, stage| ZeroRow::new(plan, *TABLE_8.get(stage))).map_err(said)?,
            recompute: ByRecompute {
                none: Recomputed::new(none).map_err(said)?,
                full: Recomputed::new(full).map_err(said)?,
            },
            paper: comparisons(none, full).map_err(said)?,
            objections: review::objections(none, full).map_err(said)?,
            beyond: review::beyond(full).map_err(said)?,
            failure: review::failure(full, H200),
            step: step::rows().map_err(|error| error.to_string())?,
            spec,
        })
    }
}

impl From<Parameters> for Count {
    fn from(parameters: Parameters) -> Self {
        Self { moe: parameters.moe, non_moe: parameters.non_moe, total: parameters.total() }
    }
}

impl ZeroRow {
    fn new(plan: &Plan, printed: Table8) -> Self {
        let budget = plan.budget(PAPER_STAGE);
        Self {
            weights_bytes: budget.weights(),
            gradients_bytes: budget.gradients(),
            optimizer_bytes: budget.optimizer(),
            stage1_static_bytes: budget.static_bytes(),
            printed,
        }
    }
}

impl Recomputed {
    fn new(plan: &Plan) -> Result<Self, Violations> {
        Ok(Self {
            stages: (0..plan.stages()).map(|stage| StageRow::new(plan, stage)).collect(),
            worst_rank: ByZero::of(plan, |plan, _| WorstRank::new(plan))?,
        })
    }
}

impl StageRow {
    fn new(plan: &Plan, index: u64) -> Self {
        let (stage, ranks, budget) = (plan.stage(index), plan.ranks_of_stage(index), plan.budget(index));
        // One chunk a rank: the paper's schedule does not interleave.
        let layers = plan.chunk(index, 0).range();
        let Peak { phase, total, .. } = budget.peak();
        Self {
            stage: index,
            first_layer: layers.start,
            last_layer: layers.end - 1,
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
