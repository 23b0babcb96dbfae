//! Tables of reports.

use crate::columns::columns;

/// A table below its title, its header as [`columns`] reads it.
pub(crate) fn table(title: &str, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    format!("\n{title}\n{}", columns(header, rows))
}
