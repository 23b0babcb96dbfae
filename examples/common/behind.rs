//! What is behind the numbers of a report: which model, counted by whose rules, by which version, for which device, and when.

use crate::wrapped::wrapped;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use moe_model::Spec;
use moe_model::preset::{PRESETS, Preset};
use moe_model::spec::Architecture;
use serde::Serialize;
use serde_json::Value;
use std::env;

/// Stands in every report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Behind {
    /// A preset by its name, where the model is one, and the file.
    pub(crate) model: String,
    /// With its version and options, where it has any.
    pub(crate) accounting: String,
    /// Of this library.
    pub(crate) version: &'static str,
    pub(crate) device: &'static str,
    /// When they were computed: the day in UTC, or that of `SOURCE_DATE_EPOCH`.
    pub(crate) date: String,
}

impl Behind {
    /// Of a model by its source: a file, or a name.
    pub(crate) fn of(source: &str, spec: &Spec) -> Self {
        // Modules for multi-token prediction are often left out.
        let mtp = spec.architecture.mtp;
        let is_preset = |preset: &&Preset| Architecture { mtp, ..preset.architecture } == spec.architecture;
        let model = match PRESETS.iter().find(is_preset) {
            Some(preset) if preset.architecture.mtp != mtp => format!("{} with mtp {mtp} ({source})", preset.name),
            Some(preset) if preset.name != source => format!("{} ({source})", preset.name),
            _ => source.to_owned(),
        };
        Self { model, accounting: accounting(spec), ..Self::without_accounting(source, spec.layout.device.word()) }
    }

    /// Of numbers that no accounting counted.
    pub(crate) fn without_accounting(source: &str, device: &'static str) -> Self {
        let version = concat!("moe-model ", env!("CARGO_PKG_VERSION"));
        Self { model: source.to_owned(), accounting: "none".to_owned(), version, device, date: date() }
    }

    /// A line each, long ones wrapped.
    pub(crate) fn text(&self) -> String {
        let Self { model, accounting, version, device, date } = self;
        let accounting = wrapped("accounting  ", accounting);
        format!("model       {model}\n{accounting}\ncounted     by {version} on {date}, device {device}\n")
    }
}

/// `megatron_core: version v0_20, …`.
fn accounting(spec: &Spec) -> String {
    let written = serde_json::to_value(spec).unwrap_or_default();
    match &written["accounting"] {
        Value::String(word) => word.clone(),
        Value::Object(options) => {
            let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let others = options.iter().filter(|(key, _)| *key != "kind");
            let others: Vec<String> = others.map(|(key, value)| format!("{key} {}", word(value))).collect();
            let kind = word(&options["kind"]);
            if others.is_empty() { kind } else { format!("{kind}: {}", others.join(", ")) }
        }
        // What serves saves no activations.
        _ => "serving".to_owned(),
    }
}

/// <https://reproducible-builds.org/specs/source-date-epoch/>
fn date() -> String {
    let given = env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let now = given.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or_else(Timestamp::now);
    TimeZone::UTC.to_datetime(now).date().to_string()
}
