//! What is wrong in a config, and how it is said.

use super::MODEL_TYPES;
use super::megatron::MEGATRON;
use crate::misread::listed_in_lines;
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt;
use serde_json::Value;

/// Everything that is wrong in a config.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    pub(super) faults: Vec<Fault>,
}

impl ConfigError {
    pub(super) fn of(fault: Fault) -> Self {
        Self { faults: vec![fault] }
    }

    /// What is wrong, one by one.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

/// One thing that is wrong in a config.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The field; empty where it is the file as a whole.
    pub field: String,
    /// Its value as JSON, cut short; empty where there is none.
    pub value: String,
    /// What is wrong with it.
    pub reason: Reason,
}

/// Why a field of a config is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The file is not JSON.
    NotJson {
        /// What the reader of JSON says.
        what: String,
        /// Where, counted from 1.
        line: usize,
        /// See `line`; 0 at the start of a line.
        column: usize,
    },
    /// The file is JSON, but not an object.
    NotAnObject,
    /// The `model_type` is missing or not supported.
    ModelType,
    /// The field is missing, and so are others.
    Missing {
        /// The others.
        others: Vec<String>,
        /// Of which `model_type`; `megatron` of arguments.
        model_type: &'static str,
    },
    /// The field is not known, and may change the model.
    Unknown {
        /// Of which `model_type`; `megatron` of arguments.
        model_type: &'static str,
    },
    /// The value has a meaning that is not supported.
    Unsupported {
        /// The values that are, as JSON.
        supported: &'static [&'static str],
    },
    /// The value is of another type.
    NotA {
        /// What it should be.
        kind: &'static str,
    },
    /// The value, or without one its absence, has an effect that is not modelled.
    NotModelled {
        /// Which.
        why: &'static str,
    },
    /// The value contradicts another field.
    Contradicts {
        /// How: what follows the value in a sentence.
        how: String,
    },
}

impl Fault {
    pub(super) fn of_file(reason: Reason) -> Self {
        Self { field: String::new(), value: String::new(), reason }
    }

    pub(super) fn of(field: &str, value: &Value, reason: Reason) -> Self {
        Self { field: field.to_owned(), value: shortened(&value.to_string()), reason }
    }

    pub(super) fn missing(mut fields: Vec<String>, model_type: &'static str) -> Self {
        let field = if fields.is_empty() { String::new() } else { fields.remove(0) };
        Self { field, value: String::new(), reason: Reason::Missing { others: fields, model_type } }
    }

    pub(super) fn model_type(value: Option<&Value>) -> Self {
        Self::of("model_type", value.unwrap_or(&Value::Null), Reason::ModelType)
    }

    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        // The reader's own words end with the place.
        let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what).to_owned();
        Self::of_file(Reason::NotJson { what, line, column })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, reason } = self;
        match reason {
            Reason::NotJson { what, line, column } => {
                write!(f, "the config is not JSON at line {line}, column {column}: {what}")
            }
            Reason::NotAnObject => f.write_str("the config is not a JSON object"),
            Reason::ModelType => {
                if value == "null" {
                    write!(f, "the config lacks `{field}`, which says how its fields are read")?;
                } else {
                    write!(f, "`{field}` = {value} is not supported yet")?;
                }
                write!(f, "\n= help: supported are {}", listed_in_lines(MODEL_TYPES.iter().map(|known| known.name)))
            }
            Reason::Missing { others, model_type } => {
                let names = [field].into_iter().chain(others).map(String::as_str);
                let who = if *model_type == MEGATRON { "the arguments lack" } else { "the config lacks" };
                write!(f, "{who} {}", listed(names, " and "))
            }
            Reason::Unknown { model_type } if *model_type == MEGATRON => write!(
                f,
                "`{field}` = {value} is not a known argument of Megatron-LM\
                 \n= note: it may change what a rank holds, so it is not passed over"
            ),
            Reason::Unknown { model_type } => write!(
                f,
                "`{field}` = {value} is not a known field of `{model_type}`\
                 \n= note: it may change the shape or the number of tensors, so it is not passed over"
            ),
            Reason::Unsupported { supported } => {
                let supported = if supported.is_empty() { &["null"] } else { *supported };
                let are = if supported.len() == 1 { "is" } else { "are" };
                write!(f, "`{field}` = {value} is not supported yet")?;
                write!(f, "\n= help: supported {are} {}", listed(supported.iter().copied(), " and "))
            }
            Reason::NotA { kind } => write!(f, "`{field}` = {value} is not {kind}"),
            Reason::NotModelled { why } if value == "null" => write!(f, "without `{field}`: {why}"),
            Reason::NotModelled { why } => write!(f, "`{field}` = {value}: {why}"),
            Reason::Contradicts { how } => write!(f, "`{field}` = {value} {how}"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "error: {fault}")?;
        }
        Ok(())
    }
}

impl core::error::Error for ConfigError {}

/// A value, as far as a line of a message has room for it.
fn shortened(value: &str) -> String {
    match value.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", value.split_at(end).0),
        None => value.to_owned(),
    }
}

/// `` `a`, `b` and `c` ``.
fn listed<'a>(names: impl Iterator<Item = &'a str>, last: &str) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match (names.pop(), names.is_empty()) {
        (None, _) => String::new(),
        (Some(name), true) => name,
        (Some(name), false) => format!("{}{last}{name}", names.join(", ")),
    }
}
