//! The reference step of the layout: two steps of one rank of each kind of stage as allocations alone, at full scale, and
//! of every stage of a small model of the same shape on the CPU, each allocation asserted against the budget.

use crate::DeepSeekV3Step;
use crate::small::SmallStep;
use moe_model::Bytes;
use moe_model::gpu::smoke::{self, Ran};
use moe_model::gpu::step::Reference;
use moe_model::gpu::{Device, Host, Memory, Meta, StepError};
use serde::Serialize;

/// What two steps of a rank held.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) model: &'static str,
    pub(crate) device: &'static str,
    pub(crate) stage: u64,
    pub(crate) allocations: u64,
    pub(crate) peak_bytes: Bytes,
    pub(crate) budget_bytes: Bytes,
}

/// The first stage, those behind it, and the last; then the small model, whole.
pub(crate) fn rows() -> Result<Vec<Row>, StepError> {
    let plan = DeepSeekV3Step::PLAN;
    let full = [0, 1, plan.stages() - 1].map(|stage| row::<DeepSeekV3Step, _>("DeepSeek-V3", stage, Meta));
    let small = (0..SmallStep::PLAN.stages()).map(|stage| row::<SmallStep, _>("small", stage, Host::new(1)));
    full.into_iter().chain(small).collect()
}

fn row<L: Reference, D: Device>(model: &'static str, stage: u64, device: D) -> Result<Row, StepError> {
    let Ran { allocations, peak, .. } = smoke::run::<L, D>(stage, device)?;
    let budget = L::PLAN.budget(stage).peak().total;
    Ok(Row { model, device: <D as Memory>::NAME, stage, allocations, peak_bytes: peak, budget_bytes: budget })
}
