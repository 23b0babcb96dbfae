//! What is to be served, and how: out of a file or by name, with what the command line says on top.

use crate::{KEYS, file, given};
use clap::ArgMatches;
use moe_model::config::Config;
use moe_model::preset::Preset;
use moe_model::spec::file::Document;
use moe_model::spec::{Architecture, Field, Layout, Service, Serving, Value};
use moe_model::{Key, Spec};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Larger files are not read: no config is.
const LARGEST: u64 = 4 << 20;

/// A Spec whose layout serves.
pub(crate) struct Input {
    /// The preset's name, or the file's.
    pub(crate) source: String,
    pub(crate) spec: Spec,
}

pub(crate) fn read(matches: &ArgMatches) -> Result<Input, String> {
    let (source, mut spec) = match given(matches, "preset") {
        Some(name) => (name.to_owned(), of_architecture(preset(name)?)),
        None => of_file(matches.get_one::<PathBuf>("FILE").expect("clap demands one of both"))?,
    };
    if spec.layout.served().is_none() {
        return Err(said(
            &source,
            "its layout serves nothing\n= help: write a table `serving` with `requests` and `context`",
        ));
    }
    let mut wrong = String::new();
    for (name, key, _) in KEYS {
        if let Some(text) = given(matches, name) {
            match code(*key, text) {
                Ok(code) => spec.set(*key, code),
                Err(message) => wrong += &said(&format!("--{name}"), &message),
            }
        }
    }
    if wrong.is_empty() { Ok(Input { source, spec }) } else { Err(wrong) }
}

fn preset(name: &str) -> Result<Architecture, String> {
    match Preset::named(name) {
        Some(preset) => Ok(preset.architecture),
        None => Err(format!("error: there is no preset `{name}`\n  = help: --help lists them\n")),
    }
}

/// One request of 4096 tokens, until the command line says otherwise.
fn of_architecture(architecture: Architecture) -> Spec {
    let serving = Serving { requests: 1, context: 4096, ..Serving::DEFAULT };
    Spec { architecture, layout: Layout { serving: Service::Serving(serving), ..Layout::DEFAULT } }
}

/// A config by its extension, else a Spec in TOML.
fn of_file(path: &Path) -> Result<(String, Spec), String> {
    let source = if path == "-" { "stdin".to_owned() } else { path.display().to_string() };
    let text = file::bytes(path, LARGEST).and_then(|bytes| {
        String::from_utf8(bytes)
            .map_err(|error| format!("byte {} of the file is not UTF-8", error.utf8_error().valid_up_to()))
    });
    let text = text.map_err(|message| said(&source, &message))?;
    if path.extension() == Some(OsStr::new("json")) {
        let config = Config::from_json(&text).map_err(|error| {
            error.faults().iter().map(|fault| said(&source, &fault.to_string())).collect::<String>()
        })?;
        return Ok((source, of_architecture(config.architecture)));
    }
    let document: Document = toml::from_str(&text).map_err(|error| said(&source, error.to_string().trim_end()))?;
    let declared = document.read().map_err(|faults| {
        let text = |help: &str| if help.is_empty() { String::new() } else { format!("\n= help: {help}") };
        faults.iter().map(|fault| said(&source, &(fault.message.clone() + &text(&fault.help)))).collect::<String>()
    })?;
    Ok((source, declared.spec))
}

/// A value as a Spec has it: a number, or the place of a word in its list.
fn code(key: Key, text: &str) -> Result<u64, String> {
    if let Some(Field { value: Value::Choice { words, .. }, .. }) = Spec::field(key) {
        let place = words.iter().position(|word| word.word == text);
        let known: Vec<&str> = words.iter().map(|word| word.word).collect();
        let place = place.ok_or_else(|| format!("`{text}` is none of {}", known.join(", ")))?;
        return Ok(place as u64);
    }
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}

/// A message behind what it is said of; its further lines stand under it.
pub(crate) fn said(source: &str, message: &str) -> String {
    format!("{source}: error: {}\n", message.replace('\n', "\n  "))
}
