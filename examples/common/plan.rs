//! The plan of a Spec in a file.

use crate::input;
use crate::report::Report;
use crate::text;
use moe_model::Plan;
use std::path::Path;

/// The plan of a file, or of stdin if the path is `-`; or what is wrong with it, as `check` says it, and its exit code.
pub(crate) fn of_file(path: &Path) -> Result<Plan, (String, u8)> {
    let (name, input) = input::of_file(path);
    if let Ok(Ok(plan)) = input.as_ref().map(|input| Plan::new(input.declared.spec)) {
        return Ok(plan);
    }
    let report = Report::on(name, input);
    Err((text::of(&report), report.exit_code()))
}

/// The stage of a rank, or the worst one where none is asked for.
pub(crate) fn stage(plan: &Plan, rank: Option<u64>) -> Result<u64, String> {
    match rank {
        Some(rank) if rank >= plan.world() => Err(format!("`--rank {rank}`: there are {} ranks, from 0", plan.world())),
        Some(rank) => Ok(plan.coordinates(rank).pp),
        None => Ok(plan.peak().stage),
    }
}
