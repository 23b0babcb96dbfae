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
