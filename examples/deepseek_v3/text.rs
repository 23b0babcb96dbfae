//! How numbers and tables are written.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// A table below its title: columns hold numbers, on the right, or words, on the left, whose header begins with `<`.
pub(crate) fn table(title: &str, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let height = |name: &&str| name.matches('\n').count();
    let highest = header.iter().map(height).max().unwrap_or(0);
    // Headers stand on the line below them, however many lines they have.
    let lowered = |name: &&str| "\n".repeat(highest - height(name)) + name.trim_start_matches('<');
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(header.iter().map(lowered));
    table.add_rows(rows);
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_cell_alignment(if name.starts_with('<') { CellAlignment::Left } else { CellAlignment::Right });
        column.set_padding((0, 1));
    }
    format!("\n{title}\n{}", lines(table.lines()))
}

/// Lines, each ended and without spaces at its end.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `4-7`, or `60` where both ends are one.
pub(crate) fn range(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// As the paper prints it, in quotes, so that nobody takes its "GB" for ours.
pub(crate) fn quoted(printed: &str) -> String {
    format!("\"{printed}\"")
}
