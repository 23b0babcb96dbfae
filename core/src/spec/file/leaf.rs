//! Values that are no tables: how each kind is written, and what is said of what cannot be read. Reading and writing
//! stand side by side, each other's inverse; a new kind of value is one arm in both.

use super::tree::Node;
use crate::key::Key;
use crate::misread::{
    self, meant, name_help, one_of, outgrows_64_bits, percent_meant, shortened, thousandths, whole, without_quotes,
    word_of_group,
};
use crate::spec::{Field, Kind, Spec, Value, Word};
use crate::text::Text;
use alloc::format;
use alloc::string::{String, ToString};
use serde::{Serialize, Serializer, ser};

const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// What is wrong with a value, and what to write instead.
pub(super) struct Complaint {
    pub(super) message: String,
    pub(super) help: String,
}

impl Complaint {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_string()
    }
}

/// The number that stands for a value in [`Numbers`](crate::Numbers).
pub(super) fn read(field: &Field, node: &Node) -> Result<u64, Complaint> {
    match &field.value {
        Value::Number { .. } => number(field.key, node),
        Value::Decimal => decimal(field.key, node),
        Value::Percent => percent(field.key, node),
        // One that is text is read before: it is no number.
        Value::StageList => Err(Complaint::new(
            format!("`{}` is a layout string such as \"Et|(tt|)*30mL\", not {}", field.key.path(), shown(node)),
            "",
        )),
        Value::LayerList => Err(Complaint::new(
            format!("`{}` is a layer list such as \"(MMMA)*12\", not {}", field.key.path(), shown(node)),
            "",
        )),
        Value::Choice { words, kinds } => word(field.key, node, words, kinds),
    }
}

/// A value, given the number that stands for it.
pub(super) struct Leaf<'f> {
    pub(super) field: &'f Field,
    pub(super) code: u64,
    /// Where it is no number.
    pub(super) spec: &'f Spec,
}

impl Serialize for Leaf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let path = self.field.key.path();
        match &self.field.value {
            Value::Number { .. } => serializer.serialize_u64(self.code),
            Value::Decimal => match as_float(self.code) {
                Some(number) => serializer.serialize_f64(number),
                None if self.code.is_multiple_of(1000) => serializer.serialize_u64(self.code / 1000),
                None => Err(ser::Error::custom(format!("`{path}` has more digits than a file keeps"))),
            },
            Value::StageList => serializer.collect_str(&self.spec.layout.stages.list),
            Value::LayerList => serializer.collect_str(&self.spec.architecture.layers.list),
            Value::Percent => serializer.collect_str(&format_args!("{}%", self.code)),
            Value::Choice { words, .. } => match usize::try_from(self.code).ok().and_then(|place| words.get(place)) {
                Some(word) => serializer.serialize_str(word.word),
                None => Err(ser::Error::custom(format!("`{path}` has no such word"))),
            },
        }
    }
}

/// Thousandths as a number with a point, if that number is read as the same.
fn as_float(code: u64) -> Option<f64> {
    let number: f64 = Text::new().thousandths(code).as_str().parse().ok()?;
    if thousandths(&number.to_string()) == Some(code) { Some(number) } else { None }
}

fn number(key: Key, node: &Node) -> Result<u64, Complaint> {
    let path = key.path();
    match node {
        Node::Whole(number) if *number < 0 => Err(negative(key, number)),
        Node::Whole(number) => {
            u64::try_from(*number).map_err(|_| Complaint::new(outgrows_64_bits(key, &number.to_string()), ""))
        }
        // Formats without larger whole numbers give those as numbers with a point.
        Node::Float(number) if number.is_finite() && *number >= TWO_TO_64 => {
            Err(Complaint::new(outgrows_64_bits(key, &format!("{number:?}")), ""))
        }
        Node::Words(words) if words.parse::<u64>().is_ok() => {
            let message = format!("`{path}` is a whole number, not `\"{words}\"`");
            Err(Complaint::new(message, without_quotes(words)))
        }
        Node::Float(number) if let Some(whole) = whole(&number.to_string()) => {
            Err(Complaint::new(format!("`{path}` is a whole number, not {}", shown(node)), format!("write `{whole}`")))
        }
        other => Err(Complaint::new(format!("`{path}` is a whole number, not {}", shown(other)), "")),
    }
}

fn decimal(key: Key, node: &Node) -> Result<u64, Complaint> {
    let path = key.path();
    let digits = match node {
        Node::Whole(number) if *number < 0 => return Err(negative(key, number)),
        Node::Float(number) if *number < 0.0 => return Err(negative(key, number)),
        Node::Whole(number) => number.to_string(),
        // The shortest digits that are read as this number: those that were written, if they were few.
        Node::Float(number) if number.is_finite() => number.to_string(),
        Node::Words(words) if thousandths(words).is_some() => {
            let message = format!("`{path}` is a decimal number such as 1.25, not `\"{words}\"`");
            return Err(Complaint::new(message, without_quotes(words)));
        }
        other => {
            return Err(Complaint::new(format!("`{path}` is a decimal number such as 1.25, not {}", shown(other)), ""));
        }
    };
    misread::decimal(key, &digits).map_err(|message| Complaint::new(message, ""))
}

fn percent(key: Key, node: &Node) -> Result<u64, Complaint> {
    let written = match node {
        Node::Words(words) => words.clone(),
        Node::Whole(number) => number.to_string(),
        Node::Float(number) => number.to_string(),
        _ => String::new(),
    };
    if let (Node::Words(_), Some(digits)) = (node, written.strip_suffix('%'))
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return digits.parse().map_err(|_| Complaint::new(outgrows_64_bits(key, digits), ""));
    }
    let example = percent_meant(&written).unwrap_or(10);
    let message = format!("`{}` is a percentage, not {}", key.path(), shown(node));
    Err(Complaint::new(message, format!("write `\"{example}%\"`")))
}

/// The place of a word in its list.
fn word(key: Key, node: &Node, words: &[Word], kinds: &'static [Kind]) -> Result<u64, Complaint> {
    let written = match node {
        Node::Words(written) => written.clone(),
        Node::Switch(true) if is_switch(words) => "on".to_string(),
        Node::Switch(false) if is_switch(words) => "off".to_string(),
        Node::Switch(switch) => switch.to_string(),
        Node::Whole(number) => number.to_string(),
        _ => String::new(),
    };
    if let Some(place) = words.iter().position(|word| word.word == written) {
        return Ok(place as u64);
    }
    Err(Complaint::new(cannot_be(key.path(), node), word_help(key, &written, words, kinds)))
}

/// What to write in place of what is no word of the list.
fn word_help(key: Key, written: &str, words: &[Word], kinds: &'static [Kind]) -> String {
    if kinds.iter().any(|kind| kind.word == written) {
        return table_of(written, kinds);
    }
    if let Some(help) = name_help(written, words.iter().map(|word| word.word)) {
        return help.into();
    }
    if let Some((kind, key, word)) = word_of_group(written, kinds) {
        let of_kind = if kinds.len() == 1 { String::new() } else { format!(" of kind `{}`", kind.word) };
        return format!("write a table{of_kind} with `{word}` as its `{}`", key.name());
    }
    match meant(written, kinds.iter().map(|kind| kind.word)) {
        Some(name) => table_of(name, kinds),
        None => choices(key, words, kinds),
    }
}

fn is_switch(words: &[Word]) -> bool {
    ["on", "off"].iter().all(|switch| words.iter().any(|word| word.word == *switch))
}

/// `` `schedule` cannot be `gpip` ``
pub(super) fn cannot_be(path: &str, node: &Node) -> String {
    match node {
        Node::Words(words) => format!("`{path}` cannot be `{}`", shortened(words)),
        other => format!("`{path}` cannot be {}", shown(other)),
    }
}

fn table_of(word: &str, kinds: &[Kind]) -> String {
    if kinds.len() == 1 { "write a table of its keys".to_string() } else { format!("write a table of kind `{word}`") }
}

fn choices(key: Key, words: &[Word], kinds: &[Kind]) -> String {
    let names = one_of(words.iter().map(|word| word.word));
    let list = if key == Key::Stages { ", a layout string such as \"Et|(tt|)*30mL\"" } else { "" };
    let of_kind = match kinds {
        [] => return format!("write {names}"),
        [_] => "a table of its keys".to_string(),
        _ => format!("a table of kind {}", one_of(kinds.iter().map(|kind| kind.word))),
    };
    if words.is_empty() { format!("write {of_kind}") } else { format!("write {names}{list}, or {of_kind}") }
}

fn negative(key: Key, number: &impl ToString) -> Complaint {
    Complaint::new(misread::negative(key, &number.to_string()), "")
}

/// What was found, as a message has it behind "not".
fn shown(node: &Node) -> String {
    match node {
        Node::Whole(number) => format!("`{number}`"),
        // A whole one keeps its point: that is what is wrong with it.
        Node::Float(number) => format!("`{}`", shortened(&format!("{number:?}"))),
        Node::Switch(switch) => format!("`{switch}`"),
        Node::Words(words) => format!("`\"{}\"`", shortened(words)),
        Node::List => "a list".to_string(),
        Node::Nothing => "null".to_string(),
        Node::Table(_) => "a table".to_string(),
    }
}
