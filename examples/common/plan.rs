//! The plan of a Spec in a file.

use crate::input;
use crate::report::Report;
use crate::text;
use moe_model::Plan;
use std::path::Path;

/// The plan of a file, or of stdin if the path is `-`; or what is wrong with it, as `check` says it, and its exit code.
pub(crate) fn of_file(path: &Path) -> Result<Plan, (String, u8)> {
    let (name, input) = input::of_file(path);
    match input.as_ref().ok().map(|input| Plan::new(input.declared.spec)) {
        Some(Ok(plan)) => Ok(plan),
        _ => {
            let report = Report::on(name, input);
            Err((text::of(&report), report.exit_code()))
        }
    }
}
