//! The core's verdict on every layout, each violation at the token of the number to blame.

use crate::lower::{Model, NamedLayout, Part};
use crate::report::Report;
use moe_model_core::verdict::judge_known;
use moe_model_core::{Key, KeySet, Violation};
use proc_macro2::TokenStream;

/// A violation, and the layouts that share it: those built on one another hold the same tokens.
struct Finding<'m> {
    text: String,
    place: TokenStream,
    layouts: Vec<&'m NamedLayout>,
}

/// Judges each layout that could be read, or the architecture where there is none.
pub(crate) fn judge(model: &Model, report: &mut Report) {
    let mut findings: Vec<Finding> = Vec::new();
    if model.layouts.is_empty() && !model.architecture.broken {
        let of_layouts = Key::ALL.iter().filter(|key| key.is_layout());
        let unknown = of_layouts.fold(model.architecture.unknown, |unknown, key| unknown.with(*key));
        judge_part(&model.architecture, unknown, None, &mut findings);
    }
    for layout in model.layouts.iter().filter(|layout| !layout.part.broken) {
        judge_part(&layout.part, layout.part.unknown, Some(layout), &mut findings);
    }
    for finding in findings {
        let mut text = finding.text;
        if model.layouts.len() > 1 && !finding.layouts.is_empty() {
            let names: Vec<String> = finding.layouts.iter().map(|layout| format!("`{}`", layout.name)).collect();
            let plural = if names.len() == 1 { "" } else { "s" };
            let note = format!("\n= note: in layout{plural} {}", names.join(", "));
            let at = text.find("\n= help").unwrap_or(text.len());
            text.insert_str(at, &note);
        }
        report.error(finding.place, text);
    }
}

fn judge_part<'m>(part: &Part, unknown: KeySet, layout: Option<&'m NamedLayout>, findings: &mut Vec<Finding<'m>>) {
    let violations = judge_known(&part.spec, unknown);
    for violation in violations.iter() {
        let text = violation.text(&part.spec).to_string();
        let place = part.places.at(violation.at);
        let layout = layout.filter(|_| concerns_layout(violation));
        match findings.iter_mut().find(|other| other.text == text && is_same_place(&other.place, &place)) {
            Some(other) => other.layouts.extend(layout),
            None => findings.push(Finding { text, place, layouts: layout.into_iter().collect() }),
        }
    }
}

fn concerns_layout(violation: &Violation) -> bool {
    violation.law.map_or(violation.at.is_layout(), |law| law.keys().has_layout())
}

/// Whether two places are the same tokens, by where they begin.
fn is_same_place(a: &TokenStream, b: &TokenStream) -> bool {
    let start = |tokens: &TokenStream| tokens.clone().into_iter().next().map(|token| token.span().start());
    a.to_string() == b.to_string() && start(a) == start(b)
}
