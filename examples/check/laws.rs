//! The laws themselves, for `--laws`: what must hold, where, and why.

use moe_model::law::{ADVICE, LAWS, Law};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Every law, then all advice.
pub(crate) fn text() -> String {
    let mut text = String::new();
    for (severity, law) in all() {
        let place = law.when.text();
        let place = if place.is_empty() { String::new() } else { format!(", {place}") };
        let _ = writeln!(text, "{severity} {}: {}{place}\n  = note: {}", law.id, law.statement(), law.why);
    }
    text
}

/// The same as data.
pub(crate) fn json() -> Value {
    let law = |(severity, law): (&str, &Law)| {
        json!({
            "severity": severity,
            "law": law.id,
            "statement": law.statement().as_str(),
            "where": law.when.text().as_str(),
            "reason": law.why,
            "keys": law.at.iter().map(|key| key.path()).collect::<Vec<_>>(),
        })
    };
    json!({ "format": "moe-model/laws/1", "laws": all().map(law).collect::<Vec<_>>() })
}

fn all() -> impl Iterator<Item = (&'static str, &'static Law)> {
    LAWS.iter().map(|law| ("error", law)).chain(ADVICE.iter().map(|law| ("warning", law)))
}
