//! The model that is asked about: a preset, or out of a config; or all that is wrong with it.

use crate::file;
use moe_model::checkpoint::Naming;
use moe_model::config::Config;
use moe_model::preset::Preset;
use moe_model::spec::{Architecture, Layout};
use moe_model::{Spec, judge};
use std::path::Path;

/// Larger files are not read: no config is.
const LARGEST: u64 = 4 << 20;

/// A model that can be counted.
pub(crate) struct Input {
    /// The preset's name, or the file's.
    pub(crate) source: String,
    /// None of a preset.
    pub(crate) model_type: Option<&'static str>,
    pub(crate) naming: &'static Naming,
    pub(crate) architecture: Architecture,
    /// Rows and columns of a block of quantised weights; none where the checkpoint is in bf16.
    pub(crate) block: Option<[u64; 2]>,
    /// The type that a declaration of it declares, and its documentation.
    name: String,
    about: String,
}

impl Input {
    pub(crate) fn preset(name: &str) -> Result<Self, String> {
        let Some(preset) = Preset::named(name) else {
            return Err(format!("error: there is no preset `{name}`\n  = help: --help lists them\n"));
        };
        let Preset { naming, architecture, .. } = *preset;
        let about = format!("{}.", preset.about);
        let (source, name) = (name.to_owned(), camel(name));
        Ok(Self { source, model_type: None, naming, architecture, block: None, name, about })
    }

    pub(crate) fn config(path: &Path) -> Result<Self, String> {
        let source = if path == "-" { "stdin".to_owned() } else { path.display().to_string() };
        let text = text(path).map_err(|message| said(&source, &message))?;
        let config = Config::from_json(&text).map_err(|error| {
            error.faults().iter().map(|fault| said(&source, &fault.to_string())).collect::<String>()
        })?;
        let Config { model_type, naming, architecture, block } = config;
        judged(&source, architecture)?;
        let about = format!("Out of a `config.json` of the `model_type` `{model_type}`.");
        let (model_type, name) = (Some(model_type), "Model".to_owned());
        Ok(Self { source, model_type, naming, architecture, block, name, about })
    }

    /// As source of `moe_model!`.
    pub(crate) fn declaration(&self) -> String {
        self.architecture.declaration(&self.name, &self.about)
    }
}

/// Laws that numbers of an architecture break by themselves.
fn judged(source: &str, architecture: Architecture) -> Result<(), String> {
    let spec = Spec { architecture, layout: Layout::DEFAULT };
    let violations = judge(&spec);
    let of_architecture = violations.iter().filter(|violation| !violation.at.is_layout());
    let text: String = of_architecture.map(|violation| said(source, violation.text(&spec).as_str())).collect();
    if text.is_empty() { Ok(()) } else { Err(text) }
}

fn text(path: &Path) -> Result<String, String> {
    String::from_utf8(file::bytes(path, LARGEST)?)
        .map_err(|error| format!("byte {} of the file is not UTF-8", error.utf8_error().valid_up_to()))
}

/// A message behind the name of its file; its further lines stand under it.
pub(crate) fn said(source: &str, message: &str) -> String {
    format!("{source}: error: {}\n", message.replace('\n', "\n  "))
}

/// `deepseek_v3` as the name of a type. Between digits `_` stays, where it tells numbers apart.
fn camel(name: &str) -> String {
    let mut camel = String::new();
    for word in name.split('_') {
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        if is_digit(camel.chars().last()) && is_digit(word.chars().next()) {
            camel.push('_');
        }
        camel.extend(word.chars().take(1).map(|first| first.to_ascii_uppercase()));
        camel.extend(word.chars().skip(1));
    }
    camel
}
