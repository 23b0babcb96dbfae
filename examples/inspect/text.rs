//! The report for people: tables of totals, modules and tensors.

use crate::number::grouped;
use crate::report::{Report, Row};
use crate::table::table;
use moe_model::Bytes;

/// All of it.
pub(crate) fn of(report: &Report) -> String {
    let of_type = report.model_type.map(|model_type| format!(", a {model_type}")).unwrap_or_default();
    let mut text = format!("{}{of_type}; tensors named as those of {}\n", report.source, report.naming);
    text += &report.behind.text();
    text += &table("Totals", &["<", "elements"], totals(report));
    text += &table("Sizes", &["<", "bytes", "<"], sizes(report));
    let modules = report.modules.iter().map(|of| vec![of.module.replace('_', " "), grouped(of.parameters)]);
    text += &table("Parameters by module", &["<", "parameters"], modules);
    text += &tensors("Tensors", &report.tensors);
    if let Some(mtp) = &report.mtp {
        text += &tensors("Tensors of multi-token-prediction modules", &mtp.tensors);
    }
    text
}

fn totals(report: &Report) -> Vec<Vec<String>> {
    let parameters = &report.parameters;
    let mut rows = vec![
        ("parameters", parameters.total),
        ("that a token meets", parameters.active),
        ("  without the input embedding", parameters.active_without_input_embedding),
        ("  without embedding and head", parameters.active_without_embedding_and_head),
        ("buffers", report.buffers),
        ("checkpoint", report.checkpoint_elements),
    ];
    if report.block.is_some() {
        rows.push(("scales of blocks", report.scales));
    }
    if let Some(mtp) = &report.mtp {
        rows.extend([
            ("multi-token prediction: parameters", mtp.parameters),
            ("  buffers", mtp.buffers),
            ("  copies of embedding and head", mtp.copies),
        ]);
        if report.block.is_some() {
            rows.push(("  scales of blocks", mtp.scales));
        }
        rows.push(("checkpoint with all of these", mtp.checkpoint_elements));
    }
    rows.into_iter().map(|(name, count)| vec![name.to_owned(), grouped(count)]).collect()
}

fn sizes(report: &Report) -> Vec<Vec<String>> {
    let formats = match report.block {
        Some([rows, columns]) => format!("fp8 in blocks of {rows} x {columns}, the rest in bf16"),
        None => "bf16".to_owned(),
    };
    let size = |name: &str, bytes: u64| vec![name.to_owned(), grouped(bytes), Bytes::new(bytes).to_string()];
    let in_memory = format!("weights in memory, {formats}");
    vec![size(&in_memory, report.weight_bytes), size("checkpoint", report.checkpoint_bytes)]
}

fn tensors(title: &str, rows: &[Row]) -> String {
    let cells = |row: &Row| {
        let shape: Vec<String> = row.shape.iter().map(u64::to_string).collect();
        let kind = if row.kind == "parameter" { "" } else { row.kind };
        vec![row.name.clone(), shape.join(" x "), grouped(row.count), grouped(row.elements), kind.to_owned()]
    };
    table(title, &["<name", "<shape", "number", "elements", "<"], rows.iter().map(cells))
}
