//! The laws themselves, for `--laws`: what must hold, where, and why.

use moe_model::law::{ADVICE, LAWS, Law, NUMBER_RANGE, NUMBER_RANGE_WHY};
use moe_model::spec::{NUMBER_MAX, StageList};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Every law, then all advice.
pub(crate) fn text() -> String {
    let mut text = format!("error {NUMBER_RANGE}: {}\n  = note: {NUMBER_RANGE_WHY}\n", range());
    let _ = writeln!(text, "error {}: {}", StageList::ID, StageList::NOTATION);
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
    let reading = |id: &str, statement: &str, reason: &str, keys: &[&str]| {
        json!({
            "severity": "error", "law": id, "statement": statement, "where": "", "reason": reason, "keys": keys,
        })
    };
    let first = [
        reading(NUMBER_RANGE, &range(), NUMBER_RANGE_WHY, &[]),
        reading(StageList::ID, "`stages.list` is in the notation", StageList::NOTATION, &["stages.list"]),
    ];
    json!({ "format": "moe-model/laws/1", "laws": first.into_iter().chain(all().map(law)).collect::<Vec<_>>() })
}

/// What is judged before all else.
fn range() -> String {
    format!("a number is at least what its key allows, and at most {NUMBER_MAX}")
}

fn all() -> impl Iterator<Item = (&'static str, &'static Law)> {
    LAWS.iter().map(|law| ("error", law)).chain(ADVICE.iter().map(|law| ("warning", law)))
}
