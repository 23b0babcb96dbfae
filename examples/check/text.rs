//! The report for people: for stdout if the Spec is valid, else for stderr.

use crate::behind::Behind;
use crate::places::Place;
use crate::report::{Finding, Report, Run};
use crate::wrapped::wrapped;

/// All of it.
pub(crate) fn of(report: &Report) -> String {
    let file = &report.file;
    let mut text = String::new();
    if let Some(failure) = &report.error {
        if failure.faults.is_empty() {
            text += &said(file, Place::default(), "error", &failure.message);
        }
        for wrong in &failure.faults {
            let line = wrong.text.iter().map(|line| format!("\n| {line}"));
            let help = wrong.help.iter().map(|help| format!("\n= help: {help}"));
            let message: String = [wrong.message.clone()].into_iter().chain(line).chain(help).collect();
            text += &said(file, wrong.place, "error", &message);
        }
    }
    text += &all(file, "error", &report.violations);
    if report.valid {
        text += &summary(report);
    }
    text + &all(file, "warning", &report.warnings)
}

fn all(file: &str, severity: &str, findings: &[Finding]) -> String {
    findings.iter().map(|finding| said(file, finding.place, severity, &finding.text)).collect()
}

/// A message behind its place; its further lines stand under it.
fn said(file: &str, place: Place, severity: &str, message: &str) -> String {
    let at = match place {
        Place { line: Some(line), column: Some(column) } => format!(":{line}:{column}"),
        _ => String::new(),
    };
    format!("{file}{at}: {severity}: {}\n", message.replace('\n', "\n  "))
}

fn summary(report: &Report) -> String {
    let mut lines = vec![format!("{}: valid", report.file)];
    if let (Some(world), Some(peak)) = (report.world, &report.peak) {
        lines.push(format!("world   {}", counted(world, "rank")));
        lines.push(format!("peak    {}: ranks {} to {}", peak.text, peak.first_rank, peak.last_rank));
    }
    if let Some(chunks) = report.chunks.filter(|chunks| *chunks > 1) {
        lines.push(format!("chunks  {chunks} on each rank of the pipeline"));
    }
    for (i, run) in report.stages.iter().enumerate() {
        lines.push(format!("{:<7} {}", if i == 0 { "stages" } else { "" }, stages(run)));
    }
    lines.extend(report.stages_left_out_from.map(|first| format!("{:<7} {first} and on: not listed", "")));
    if let Some(Behind { accounting, version, device, date, .. }) = &report.behind {
        lines.push(wrapped("rules   ", accounting));
        lines.push(format!("counted by {version} on {date}, device {device}"));
    }
    lines.join("\n") + "\n"
}

fn stages(run: &Run) -> String {
    let Run { first_stage, last_stage, dense_layers, moe_layers } = *run;
    let layers = counted(dense_layers + moe_layers, "layer");
    let (stages, each) = if first_stage == last_stage {
        (first_stage.to_string(), "")
    } else {
        (format!("{first_stage} to {last_stage}"), " each")
    };
    match (dense_layers, moe_layers) {
        (0, 0) => format!("{stages}: no layer{each}"),
        (_, 0) => format!("{stages}: {layers}{each}, dense"),
        (0, _) => format!("{stages}: {layers}{each}, with experts"),
        (dense, moe) => format!("{stages}: {layers}{each}, {dense} dense and {moe} with experts"),
    }
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
