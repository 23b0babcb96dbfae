//! From a file to what it declares, with the places of its keys, or to all that is wrong with it.

use crate::file;
use crate::meant::meant;
use crate::places::{Place, Places};
use moe_model::spec::file::{Declared, Document, Fault};
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::de::DeTable;

/// Larger files are not read: no Spec is.
const LARGEST: u64 = 1 << 20;

/// A file that could be read.
pub(crate) struct Input {
    pub(crate) declared: Declared,
    text: String,
    places: Places,
}

impl Input {
    /// Where a key stands, or else its group.
    pub(crate) fn place(&self, path: &str) -> Place {
        self.places.of(path).map_or_else(Place::default, |offset| Place::of(&self.text, offset))
    }
}

/// Why there is no Spec.
#[derive(Serialize)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// Each thing that is wrong in the file; none if it could not be opened.
    pub(crate) faults: Vec<Wrong>,
}

/// One thing that is wrong in a file.
#[derive(Serialize)]
pub(crate) struct Wrong {
    /// The path of the key, if that is known.
    key: Option<String>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// Where the key stands, or else its group; of a fault of the whole file, nowhere.
    #[serde(flatten)]
    pub(crate) place: Place,
    /// That line.
    pub(crate) text: Option<String>,
}

/// What a file declares, or stdin if the path is `-`, by the name that messages have for it; JSON if its name ends in
/// `.json`, else TOML.
pub(crate) fn of_file(path: &Path) -> (String, Result<Input, Failure>) {
    let name = if path == "-" { "stdin".to_owned() } else { path.display().to_string() };
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let bytes = file::bytes(path, LARGEST).map_err(|message| Failure { message, faults: Vec::new() });
    (name, bytes.and_then(|bytes| read(bytes, is_json)))
}

/// What the bytes of a file declare.
pub(crate) fn read(bytes: Vec<u8>, is_json: bool) -> Result<Input, Failure> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let (good, message) = (error.utf8_error().valid_up_to(), "the file is not UTF-8");
        // Up to there nothing is replaced.
        let wrong = Wrong::at(message, &String::from_utf8_lossy(error.as_bytes()), good);
        Failure::new(message, vec![wrong])
    })?;
    // What some editors write in front of UTF-8.
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    let (document, places) = if is_json { json(&text)? } else { toml(&text)? };
    match document.read() {
        Ok(declared) => Ok(Input { declared, text, places }),
        Err(faults) => {
            let wrongs = faults.iter().map(|fault| Wrong::of_fault(fault, &text, &places)).collect();
            Err(Failure::new("the file declares no Spec", wrongs))
        }
    }
}

impl Failure {
    /// In the order of the file: TOML's reader sorts keys by name.
    fn new(message: &str, mut faults: Vec<Wrong>) -> Self {
        faults.sort_by_key(|wrong| wrong.place);
        Self { message: message.to_owned(), faults }
    }
}

fn toml(text: &str) -> Result<(Document, Places), Failure> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let failure = |errors: &[toml::de::Error]| {
        let wrong = |error: &toml::de::Error| match error.span() {
            Some(span) => Wrong::unread(error.message(), text, span.start, false),
            None => Wrong::nowhere(error.message()),
        };
        let mut failure = Failure::new("the file is not TOML", errors.iter().map(wrong).collect());
        // One slip makes the rest of its line unreadable.
        failure.faults.dedup_by_key(|wrong| wrong.place.line.unwrap_or_default());
        failure
    };
    if !errors.is_empty() {
        return Err(failure(&errors));
    }
    let places = Places::of_toml(table.get_ref());
    match Document::deserialize(toml::de::Deserializer::from(table)) {
        Ok(document) => Ok((document, places)),
        Err(error) => Err(failure(&[error])),
    }
}

fn json(text: &str) -> Result<(Document, Places), Failure> {
    match serde_json::from_str(text) {
        Ok(document) => Ok((document, Places::of_json(text))),
        Err(error) => {
            let (line, column) = (error.line().max(1), error.column());
            let before = text.split_inclusive('\n').take(line - 1).map(str::len).sum::<usize>();
            let said = error.to_string();
            let message = said.split(" at line ").next().unwrap_or_default();
            // The column counts bytes, from 1.
            let offset = (before + column.saturating_sub(1)).min(text.len());
            let wrong = Wrong::unread(message, text, offset, true);
            Err(Failure::new("the file is not JSON", vec![wrong]))
        }
    }
}

impl Wrong {
    fn of_fault(fault: &Fault, text: &str, places: &Places) -> Self {
        let Fault { path, message, help } = fault.clone();
        let mut wrong = match places.of(&path) {
            Some(offset) => Self::at(&message, text, offset),
            None => Self::nowhere(&message),
        };
        wrong.key = (!path.is_empty()).then_some(path);
        wrong.help = (!help.is_empty()).then_some(help);
        wrong
    }

    fn at(message: &str, text: &str, offset: usize) -> Self {
        let place = Place::of(text, offset);
        let line = place.line.and_then(|line| text.split('\n').nth(line - 1)).unwrap_or_default();
        Self { place, text: Some(shown(line)), ..Self::nowhere(message) }
    }

    /// What is no TOML or JSON, and what its line was meant for.
    fn unread(message: &str, text: &str, offset: usize, is_json: bool) -> Self {
        let wrong = Self::at(message, text, offset);
        let help = wrong.place.line.and_then(|line| meant(text.split('\n').nth(line - 1)?, is_json));
        Self { help, ..wrong }
    }

    fn nowhere(message: &str) -> Self {
        Self { key: None, message: message.to_owned(), help: None, place: Place::default(), text: None }
    }
}

/// A line as far as there is room for it, without what would move a terminal's cursor.
fn shown(line: &str) -> String {
    let mut shown: String = line.trim().chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if line.trim().chars().nth(80).is_some() {
        shown.push('…');
    }
    shown
}
