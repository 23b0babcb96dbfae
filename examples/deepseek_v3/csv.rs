//! Our numbers beside the paper's, a row each, for spreadsheet programs.

use crate::report::Report;
use crate::sheet::{self, Cell, Column, Sheet};
use serde::Serialize;
use serde_json::Value;

const COLUMNS: &[Column] = &[
    ("id", "<id"),
    ("what", "<what"),
    ("ours", "ours"),
    ("unit", "<unit"),
    ("printed", "<printed"),
    ("where", "<where"),
    ("agreement", "<agreement"),
    ("note", "<note"),
];

pub(crate) fn of(report: &Report) -> Result<String, String> {
    let row = |row: &_| -> Result<Vec<Cell>, String> {
        let row = json(row)?;
        Ok(COLUMNS.iter().map(|(key, _)| cell(&row[*key])).collect())
    };
    let rows = report.paper.iter().map(row).collect::<Result<_, _>>()?;
    let sheet = Sheet { key: "paper", title: String::new(), columns: COLUMNS, rows, is_shown: true };
    let behind = report.behind.clone();
    sheet::Report { format: "", behind, sheets: vec![sheet], findings: Vec::new(), failure: None }.csv()
}

fn json(row: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(row).map_err(|error| error.to_string())
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::String(word) => Cell::Word(word.clone()),
        value => value.as_u64().map_or(Cell::None, Cell::Count),
    }
}
