//! The report for people.

use crate::columns::columns;
use crate::report::{Errors, Line, Report};
use moe_model::Bytes;

/// A table of rows, those that are not judged below it, and a summary.
pub(crate) fn of(report: &Report) -> String {
    let (judged, others): (Vec<&Line>, Vec<&Line>) = report.rows.iter().partition(|row| row.not_modelled.is_none());
    let header = ["<row", "static, predicted", "measured", "off", "peak, predicted", "measured", "off", "in"];
    let mut text = columns(&header, judged.into_iter().map(cells));
    text += "\nNot judged\n";
    for row in others {
        let why = row.not_modelled.as_deref().unwrap_or_default().replace("; ", "\n  ");
        text.extend([name(row).as_str(), "\n  ", &why, "\n"]);
    }
    let summary = &report.summary;
    let counts = format!(
        "\n{} rows, {} of them outside the model, {} that do not say what decides\n",
        summary.rows, summary.outside_the_model, summary.cannot_be_judged
    );
    text += &counts;
    let header = ["<errors without their sign", "rows", "median", "p90", "worst"];
    let line = |name: &str, errors: &Errors| {
        let percent = |number: f64| format!("{number:.2} %");
        let Errors { median_abs_percent, p90_abs_percent, worst_abs_percent, .. } = *errors;
        let [median, p90, worst] = [median_abs_percent, p90_abs_percent, worst_abs_percent].map(percent);
        vec![name.to_owned(), errors.count.to_string(), median, p90, worst]
    };
    let bound = &summary.bound;
    let lines = [
        line("static", &summary.standing),
        line("peak", &summary.peak),
        line("static, rows against the median of rows with the same arguments", &bound.standing),
        line("peak, likewise", &bound.peak),
    ];
    text + &columns(&header, lines) + "\n" + &report.behind.text()
}

/// The test's directory and its hardware.
fn name(row: &Line) -> String {
    let golden = row.golden.trim_start_matches("golden_values_").trim_end_matches(".json");
    format!("{} {golden}", row.test.rsplit('/').next().unwrap_or_default())
}

fn cells(row: &Line) -> Vec<String> {
    let size = |bytes: Option<u64>| bytes.map(|bytes| Bytes::new(bytes).to_string()).unwrap_or_default();
    let off = |percent: Option<f64>| percent.map(|percent| format!("{percent:+.2} %")).unwrap_or_default();
    vec![
        name(row),
        size(row.predicted_static_bytes),
        size(row.measured_static_bytes),
        off(row.static_error_percent),
        size(row.predicted_peak_bytes),
        size(Some(row.measured_peak_bytes)),
        off(row.peak_error_percent),
        row.peak_phase.unwrap_or_default().replace('_', " "),
    ]
}
