//! Columns of numbers and words.

use comfy_table::{CellAlignment, Table, TableStyle};

/// Rows below their header: columns hold numbers, on the right, or words, on the left, whose header begins with `<`.
pub(crate) fn columns(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_header(header.iter().map(|name| name.trim_start_matches('<')));
    table.add_rows(rows);
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_cell_alignment(if name.starts_with('<') { CellAlignment::Left } else { CellAlignment::Right });
        column.set_padding((0, 2));
    }
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}
