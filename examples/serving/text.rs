//! The report for people.

use crate::number::grouped;
use crate::report::{OfStage, Report};
use crate::table::table;
use moe_model::Bytes;

/// All of it; of several stages the worst is told tensor by tensor.
pub(crate) fn of(report: &Report) -> String {
    let Report { source, ranks, requests, context, block, .. } = report;
    let mut text = format!(
        "{source}: {} of {} tokens each, in blocks of {block}, on {}\n",
        counted(*requests, "request"),
        grouped(*context),
        counted(*ranks, "rank"),
    );
    text += &report.behind.text();
    let worst = report.stages.iter().find(|of| of.stage == report.worst_stage);
    if let Some(of) = worst {
        text += &caches(report, of);
        text += &table("On a rank", &["<", "bytes", "<"], rank(report, of));
    }
    text += &fit(report);
    let warnings = report.warnings.iter().map(|warning| format!("\nwarning: {}\n", warning.replace('\n', "\n  ")));
    text + &warnings.collect::<String>()
}

fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

fn caches(report: &Report, of: &OfStage) -> String {
    let stage = if report.stages.len() > 1 { format!(", of stage {}", of.stage) } else { String::new() };
    let rows = of.caches.iter().map(|cache| {
        let shape: Vec<String> = cache.shape.iter().map(u64::to_string).collect();
        let (count, bytes) = (grouped(cache.count), grouped(cache.bytes));
        vec![cache.name.clone(), shape.join(" x "), cache.format.to_owned(), count, bytes]
    });
    table(&format!("Kept on a rank{stage}"), &["<", "<shape", "<", "layers", "bytes"], rows)
}

fn rank(report: &Report, of: &OfStage) -> Vec<Vec<String>> {
    let size = |name: &str, bytes: u64| vec![name.to_owned(), grouped(bytes), Bytes::new(bytes).to_string()];
    vec![
        size("a token, where all are kept", of.kv_cache_bytes_per_token),
        size("a sequence's states", of.state_bytes_per_sequence),
        size("a sequence of the context", of.kv_cache_bytes_of_sequence),
        size("the cache", of.kv_cache_bytes),
        size("weights", of.weight_bytes),
        size("what prompts work on", of.prefill_bytes),
        size("what single tokens work on", of.decode_bytes),
        size(&format!("at the peak, in {}", report.worst_phase), report.peak_bytes),
    ]
}

fn fit(report: &Report) -> String {
    let (Some(device), Some(bytes), Some(fits)) = (report.device, report.device_bytes, report.fits) else {
        return String::new();
    };
    let header: &[&str] = if report.contexts.iter().any(|longest| longest.otherwise.is_some()) {
        &["requests", "context", "cached otherwise"]
    } else {
        &["requests", "context"]
    };
    let longest = |context: Option<u64>| context.map_or_else(|| "none".to_owned(), grouped);
    let rows = report.contexts.iter().map(|of| {
        let row = [grouped(of.requests), longest(of.context), longest(of.otherwise)];
        row.into_iter().take(header.len()).collect()
    });
    let table = table(&format!("Longest contexts on {device}"), header, rows);
    let (needed, usable) = (Bytes::new(report.needed_bytes), Bytes::new(bytes));
    let fits = if fits { "fits on" } else { "does not fit on" };
    let most = report
        .most_requests
        .map(|most| format!("requests of {} tokens that fit: {}\n", grouped(report.context), grouped(most)));
    let needed = format!("\n{fits} the {usable} of {device}: a rank needs {needed}, headroom included\n");
    table + &needed + &most.unwrap_or_default()
}
