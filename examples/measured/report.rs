//! What the model says of each row, and how far off it is.

use crate::behind::Behind;
use crate::rows::Row;
use moe_model::config::Reason;
use moe_model::inventory::Phase;
use moe_model::{Plan, Spec};
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Report {
    format: &'static str,
    pub(crate) behind: Behind,
    pub(crate) rows: Vec<Line>,
    pub(crate) summary: Summary,
}

/// A row, predicted or not.
#[derive(Serialize)]
pub(crate) struct Line {
    pub(crate) test: String,
    pub(crate) golden: String,
    pub(crate) measured_static_bytes: Option<u64>,
    pub(crate) predicted_static_bytes: Option<u64>,
    pub(crate) static_error_percent: Option<f64>,
    pub(crate) measured_peak_bytes: u64,
    pub(crate) predicted_peak_bytes: Option<u64>,
    pub(crate) peak_error_percent: Option<f64>,
    pub(crate) peak_phase: Option<&'static str>,
    /// Why it is not predicted.
    pub(crate) not_modelled: Option<String>,
    /// Whether that is for want of something that the row does not say.
    pub(crate) cannot_be_judged: bool,
}

#[derive(Serialize)]
pub(crate) struct Summary {
    pub(crate) rows: usize,
    pub(crate) outside_the_model: usize,
    pub(crate) cannot_be_judged: usize,
    #[serde(rename = "static")]
    pub(crate) standing: Errors,
    pub(crate) peak: Errors,
    /// What a model can reach at best that says the same of rows with the same arguments: their median.
    pub(crate) bound: Bound,
}

#[derive(Serialize)]
pub(crate) struct Bound {
    #[serde(rename = "static")]
    pub(crate) standing: Errors,
    pub(crate) peak: Errors,
}

/// Errors without their sign.
#[derive(Serialize)]
pub(crate) struct Errors {
    pub(crate) count: usize,
    pub(crate) median_abs_percent: f64,
    pub(crate) p90_abs_percent: f64,
    pub(crate) worst_abs_percent: f64,
}

impl Report {
    pub(crate) fn of(source: &str, rows: &[Row]) -> Self {
        let judged: Vec<Line> = rows.iter().map(judge).collect();
        let errors = |of: fn(&Line) -> Option<f64>| Errors::of(judged.iter().filter_map(of).collect());
        let outside = |row: &&Line| row.not_modelled.is_some() && !row.cannot_be_judged;
        let summary = Summary {
            rows: judged.len(),
            outside_the_model: judged.iter().filter(outside).count(),
            cannot_be_judged: judged.iter().filter(|row| row.cannot_be_judged).count(),
            standing: errors(|row| row.static_error_percent),
            peak: errors(|row| row.peak_error_percent),
            bound: Bound {
                standing: bound(rows, &judged, |row| row.static_bytes),
                peak: bound(rows, &judged, |row| Some(row.peak_bytes)),
            },
        };
        let accounting = "megatron_core, Megatron-LM d98e8a64 (2026-08-22)".to_owned();
        let behind = Behind { accounting, ..Behind::without_accounting(source, "as each row names it") };
        Self { format: "moe-model/measured/2", behind, rows: judged, summary }
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and words are JSON") + "\n"
    }
}

fn judge(row: &Row) -> Line {
    let mut judged = Line {
        test: row.test.clone(),
        golden: row.golden.clone(),
        measured_static_bytes: row.static_bytes,
        predicted_static_bytes: None,
        static_error_percent: None,
        measured_peak_bytes: row.peak_bytes,
        predicted_peak_bytes: None,
        peak_error_percent: None,
        peak_phase: None,
        not_modelled: None,
        cannot_be_judged: false,
    };
    match plan(row) {
        Ok(plan) => {
            let stage = row.stage.unwrap_or(plan.stages() - 1);
            let budget = plan.budget(stage);
            let (standing, peak) = (budget.phase(Phase::BetweenSteps).bytes(), budget.peak());
            judged.predicted_static_bytes = Some(standing);
            judged.static_error_percent = row.static_bytes.map(|measured| error(standing, measured));
            judged.predicted_peak_bytes = Some(peak.bytes());
            judged.peak_error_percent = Some(error(peak.bytes(), row.peak_bytes));
            judged.peak_phase = Some(peak.phase.name());
        }
        Err((why, cannot_be_judged)) => {
            judged.not_modelled = Some(why);
            judged.cannot_be_judged = cannot_be_judged;
        }
    }
    judged
}

/// The plan of a row; or why there is none, and whether that is for want of something that the row does not say.
fn plan(row: &Row) -> Result<Plan, (String, bool)> {
    let spec = row.run().spec().map_err(|error| {
        let cannot_be_judged = error.faults().iter().any(|fault| matches!(fault.reason, Reason::Missing { .. }));
        let said: Vec<String> = error.faults().iter().map(|fault| first_line(&fault.to_string())).collect();
        (said.join("; "), cannot_be_judged)
    })?;
    Plan::new(spec).map_err(|violations| (refused(&spec, &violations), false))
}

fn refused(spec: &Spec, violations: &moe_model::Violations) -> String {
    let said: Vec<String> = violations.iter().map(|violation| first_line(violation.text(spec).as_str())).collect();
    said.join("; ")
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// How far a prediction is off, in percent of what was measured.
#[allow(clippy::cast_precision_loss)] // percents of bytes
fn error(predicted: u64, measured: u64) -> f64 {
    100.0 * (predicted as f64 - measured as f64) / measured as f64
}

impl Errors {
    fn of(errors: Vec<f64>) -> Self {
        let mut sizes: Vec<f64> = errors.into_iter().map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        // The least that so many tenths of them do not exceed.
        let at = |tenths: usize| sizes.get((sizes.len() * tenths).div_ceil(10).saturating_sub(1)).copied();
        let [median, p90, worst] = [5, 9, 10].map(|tenths| at(tenths).unwrap_or(0.0));
        Self { count: sizes.len(), median_abs_percent: median, p90_abs_percent: p90, worst_abs_percent: worst }
    }
}

/// How far rows are off the median of those with the same arguments, of predicted rows that have such.
fn bound(rows: &[Row], judged: &[Line], of: fn(&Row) -> Option<u64>) -> Errors {
    let predicted = rows.iter().zip(judged).filter(|(_, judged)| judged.not_modelled.is_none());
    let predicted: Vec<_> = predicted.filter_map(|(row, _)| Some((row.twin(), of(row)?))).collect();
    let errors = predicted.iter().filter_map(|(twin, measured)| {
        let twins = predicted.iter().filter(|(other, _)| other == twin);
        let mut twins: Vec<u64> = twins.map(|(_, measured)| *measured).collect();
        twins.sort_unstable();
        (twins.len() > 1).then(|| error(twins[(twins.len() - 1) / 2], *measured))
    });
    Errors::of(errors.collect())
}
