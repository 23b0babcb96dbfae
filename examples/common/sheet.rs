//! What is said in tables, once for people, for programs and for spreadsheets.

use crate::behind::Behind;
use crate::number::grouped;
use crate::table::table;
use crate::wrapped::wrapped;
use moe_model::{Bytes, Plan, Spec, Violation, judge};
use serde_json::{Map, Value, json};

/// What a cell holds.
#[derive(Clone)]
pub(crate) enum Cell {
    Word(String),
    Count(u64),
    Bytes(Bytes),
    /// People read it in 10^12.
    Trillions(u64),
    /// What no integer says: a share or a ratio.
    Decimal(f64),
    /// There is none.
    None,
}

/// A column: its name in JSON and CSV, and its header, which begins with `<` above words.
pub(crate) type Column = (&'static str, &'static str);

/// Rows below their columns.
pub(crate) struct Sheet {
    pub(crate) key: &'static str,
    pub(crate) title: String,
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Whether people read it row by row, or only programs do.
    pub(crate) is_shown: bool,
}

/// What breaks a law, and what is said of it.
pub(crate) struct Failure {
    what: String,
    laws: Vec<&'static str>,
    message: String,
}

/// All that is said.
pub(crate) struct Report {
    /// Of the JSON; changes with any key of it.
    pub(crate) format: &'static str,
    pub(crate) behind: Behind,
    /// The first is what `--csv` prints.
    pub(crate) sheets: Vec<Sheet>,
    /// What follows from them, a sentence each.
    pub(crate) findings: Vec<String>,
    pub(crate) failure: Option<Failure>,
}

impl From<Bytes> for Cell {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<&str> for Cell {
    fn from(word: &str) -> Self {
        Self::Word(word.to_owned())
    }
}

impl From<String> for Cell {
    fn from(word: String) -> Self {
        Self::Word(word)
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Count(count) => grouped(*count),
            Self::Bytes(bytes) => bytes.to_string(),
            #[allow(clippy::cast_precision_loss)] // shown to people
            Self::Trillions(count) => format!("{:.2}", *count as f64 / 1e12),
            Self::Decimal(decimal) => format!("{decimal:.2}"),
            Self::None => "-".to_owned(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Word(word) => json!(word),
            Self::Count(count) | Self::Trillions(count) => json!(count),
            Self::Bytes(bytes) => json!(bytes.bytes()),
            Self::Decimal(decimal) => json!(decimal),
            Self::None => Value::Null,
        }
    }

    /// As a spreadsheet program reads it: plain digits.
    fn csv(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Count(count) | Self::Trillions(count) => count.to_string(),
            Self::Bytes(bytes) => bytes.bytes().to_string(),
            Self::Decimal(decimal) => decimal.to_string(),
            Self::None => String::new(),
        }
    }
}

impl Failure {
    /// Of a plan with something changed.
    pub(crate) fn of(what: &str, plan: &Plan, change: impl FnOnce(&mut Spec)) -> Self {
        let mut spec = *plan.spec();
        change(&mut spec);
        let violations = judge(&spec);
        let laws = violations.iter().map(Violation::id).collect();
        let message = if violations.is_empty() { "this is legal here".to_owned() } else { violations.to_string() };
        Self { what: what.to_owned(), laws, message }
    }
}

impl Report {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = self.behind.text();
        for sheet in self.sheets.iter().filter(|sheet| sheet.is_shown) {
            let header: Vec<&str> = sheet.columns.iter().map(|(_, title)| *title).collect();
            let rows = sheet.rows.iter().map(|row| row.iter().map(Cell::text).collect());
            text += &table(&sheet.title, &header, rows);
        }
        text.extend(self.findings.iter().map(|finding| wrapped("\n* ", finding)));
        text.push('\n');
        if let Some(Failure { what, message, .. }) = &self.failure {
            text.extend(["\nWhat fails: ", what, "\n"]);
            text.extend(message.lines().map(|line| {
                // Further lines stand behind `= note: `.
                let begin = line.find(": ").filter(|_| line.starts_with('=')).map_or(0, |at| at + 2);
                let (begin, rest) = line.split_at(begin);
                wrapped(begin, rest) + "\n"
            }));
        }
        text
    }

    /// For programs, in exact integers.
    pub(crate) fn json(&self) -> String {
        let mut report = Map::new();
        report.insert("format".to_owned(), json!(self.format));
        report.insert("behind".to_owned(), json!(self.behind));
        report.insert("findings".to_owned(), json!(self.findings));
        if let Some(Failure { what, laws, message }) = &self.failure {
            report.insert("failure".to_owned(), json!({ "what": what, "laws": laws, "message": message }));
        }
        for Sheet { key, columns, rows, .. } in &self.sheets {
            let row = |row: &Vec<Cell>| -> Map<String, Value> {
                columns.iter().zip(row).map(|((key, _), cell)| ((*key).to_owned(), cell.json())).collect()
            };
            report.insert((*key).to_owned(), json!(rows.iter().map(row).collect::<Vec<_>>()));
        }
        format!("{:#}\n", Value::Object(report))
    }

    /// For spreadsheet programs: the first sheet, with what is behind it in every row.
    pub(crate) fn csv(&self) -> Result<String, String> {
        let Behind { model, accounting, version, device, date } = &self.behind;
        let behind = [
            ("model", model.as_str()),
            ("accounting", accounting),
            ("version", version),
            ("device", device),
            ("date", date),
        ];
        let sheet = self.sheets.first().ok_or("there is no table")?;
        let said = |error: csv::Error| error.to_string();
        let mut writer = csv::Writer::from_writer(Vec::new());
        let names = sheet.columns.iter().map(|(key, _)| *key).chain(behind.map(|(key, _)| key));
        writer.write_record(names).map_err(said)?;
        for row in &sheet.rows {
            let cells = row.iter().map(Cell::csv).chain(behind.map(|(_, value)| value.to_owned()));
            writer.write_record(cells).map_err(said)?;
        }
        let bytes = writer.into_inner().map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }
}
