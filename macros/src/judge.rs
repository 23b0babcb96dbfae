//! The core's verdict on every layout, each violation at the token of the number to blame.

use crate::lower::{Model, NamedLayout, Part, Smoke};
use crate::report::Report;
use crate::typed;
use moe_model_core::law::{Law, Rule};
use moe_model_core::verdict::{advise, judge_known};
use moe_model_core::{Bytes, Key, KeySet, Plan, Violation, Violations};
use proc_macro2::{Ident, TokenStream};
use syn::Attribute;

/// A violation, and the layouts that share it: those built on one another hold the same tokens.
struct Finding<'m> {
    id: &'static str,
    text: String,
    place: TokenStream,
    layouts: Vec<&'m NamedLayout>,
}

/// What is legal but costly, for the expansion to say.
pub(crate) struct Warning {
    pub(crate) id: &'static str,
    pub(crate) text: String,
    pub(crate) place: TokenStream,
    /// The layouts that it concerns.
    pub(crate) layouts: Vec<Ident>,
    /// What they allow or expect.
    pub(crate) attrs: Vec<Attribute>,
}

/// Judges each layout that could be read, or the architecture where there is none; returns warnings on those that are
/// legal.
pub(crate) fn judge(model: &Model, report: &mut Report) -> Vec<Warning> {
    let mut errors: Vec<Finding> = Vec::new();
    let mut warnings: Vec<Finding> = Vec::new();
    if model.layouts.is_empty() && !model.architecture.broken {
        let of_layouts = Key::ALL.iter().filter(|key| key.is_layout());
        let unknown = of_layouts.fold(model.architecture.unknown, |unknown, key| unknown.with(*key));
        let part = &model.architecture;
        gather(&judge_known(&part.spec, unknown, part.places.written()), part, None, &mut errors);
    }
    for layout in model.layouts.iter().filter(|layout| !layout.part.broken) {
        let Part { spec, unknown, places, .. } = &layout.part;
        let violations = judge_known(spec, *unknown, places.written());
        gather(&violations, &layout.part, Some(layout), &mut errors);
        if violations.is_empty() {
            gather(&advise(spec, *unknown, places.written()), &layout.part, Some(layout), &mut warnings);
        }
    }
    for error in errors {
        report.error(&error.place, in_layouts(model, &error));
    }
    if report.is_empty() {
        model.smokes.iter().for_each(|smoke| judge_smoke(model, smoke, report));
    }
    warnings.into_iter().flat_map(|finding| warnings_of(model, finding)).collect()
}

/// The most that tests of a layout may hold on the machine that compiles.
const SMOKE_MOST: Bytes = Bytes::gib(1);

/// Judges the model of tests: it keeps every law too, all its numbers are known, and it fits on any machine.
fn judge_smoke(model: &Model, smoke: &Smoke, report: &mut Report) {
    let Smoke { layout: name, small } = smoke;
    let note = format!("\n= note: in the tests `smoke {name}`");
    let Some(own) = model.layouts.iter().find(|layout| layout.name == *name) else { return };
    let Some(layout) = small.layouts.first().filter(|layout| !layout.part.broken) else { return };
    if !typed::is_reference(own) || !typed::is_reference(layout) {
        let help = "\n= help: write `accounting: reference` in the layout";
        report.error(name, format!("`smoke` runs the reference step, whose memory `{name}` does not count{help}"));
        return;
    }
    if own.part.unknown.union(layout.part.unknown) != KeySet::EMPTY {
        let text = "numbers that only the compiler will know make no types, and so no tests of the reference step";
        report.error(name, format!("{text}\n= help: write literal numbers"));
        return;
    }
    let Part { spec, unknown, places, .. } = &layout.part;
    let mut errors = Vec::new();
    gather(&judge_known(spec, *unknown, places.written()), &layout.part, Some(layout), &mut errors);
    for error in &errors {
        let at = error.text.find("\n= help").unwrap_or(error.text.len());
        let (text, help) = error.text.split_at(at);
        report.error(&error.place, format!("{text}{note}{help}"));
    }
    if let Ok(plan) = Plan::new(*spec)
        && plan.peak().bytes() > SMOKE_MOST.bytes()
    {
        let (peak, most) = (plan.peak(), SMOKE_MOST);
        let help = "\n= help: state smaller numbers in its braces: `hidden`, `layers`, `experts`, `batch`, …";
        report.error(name, format!("tests of `{name}` would hold {peak} on the CPU, more than {most}{help}"));
    }
}

/// A finding as one warning on the layouts that do not allow it, and on each that does its own, which what it allows or
/// expects is for.
fn warnings_of(model: &Model, finding: Finding) -> Vec<Warning> {
    let Finding { id, text, place, layouts } = finding;
    let (silent, loud): (Vec<_>, Vec<_>) =
        layouts.into_iter().partition(|layout| layout.attrs.iter().any(is_silencing));
    let alone = silent.into_iter().map(|layout| vec![layout]);
    let warning = |layouts: Vec<&NamedLayout>| {
        let attrs =
            layouts.iter().flat_map(|layout| &layout.attrs).filter(|attr| is_silencing(attr)).cloned().collect();
        let names = layouts.iter().map(|layout| layout.name.clone()).collect();
        let finding = Finding { id, text: text.clone(), place: place.clone(), layouts };
        Warning { id, text: in_layouts(model, &finding), place: finding.place, layouts: names, attrs }
    };
    // One that concerns no layout more than others is said once.
    let loud = (!loud.is_empty() || alone.len() == 0).then_some(loud);
    loud.into_iter().chain(alone).map(warning).collect()
}

/// Whether an attribute is for warnings, which are said as the use of something deprecated.
pub(crate) fn is_silencing(attr: &Attribute) -> bool {
    let names = |list: &syn::MetaList| {
        list.tokens
            .clone()
            .into_iter()
            .any(|token| ["deprecated", "warnings"].iter().any(|lint| token.to_string() == *lint))
    };
    let is_of_lints = attr.path().is_ident("allow") || attr.path().is_ident("expect");
    is_of_lints && attr.meta.require_list().is_ok_and(names)
}

/// The tokens to underline. What is missing from a group is missed where another of its keys asks for it: at `uniform`.
fn place(violation: &Violation, part: &Part) -> TokenStream {
    let group = |key: Key| key.path().rsplit_once('.').map(|(group, _)| group);
    let asks = |law: &Law| {
        let has_it = |key: &Key| law.keys().has(*key) && part.places.has(*key) && group(*key) == group(violation.at);
        let is_missing = matches!(law.rule, Rule::Given(_)) && !part.places.has(violation.at);
        if is_missing { Key::ALL.iter().copied().find(has_it) } else { None }
    };
    part.places.at(violation.law.and_then(asks).unwrap_or(violation.at))
}

/// The text with the layouts that it concerns, where there are several.
fn in_layouts(model: &Model, finding: &Finding) -> String {
    let mut text = finding.text.clone();
    if model.layouts.len() > 1 && !finding.layouts.is_empty() {
        let names: Vec<String> = finding.layouts.iter().map(|layout| format!("`{}`", layout.name)).collect();
        let plural = if names.len() == 1 { "" } else { "s" };
        let note = format!("\n= note: in layout{plural} {}", names.join(", "));
        let at = text.find("\n= help").unwrap_or(text.len());
        text.insert_str(at, &note);
    }
    text
}

fn gather<'m>(violations: &Violations, part: &Part, layout: Option<&'m NamedLayout>, findings: &mut Vec<Finding<'m>>) {
    for violation in violations.iter() {
        let text = violation.text(&part.spec).to_string();
        let place = place(violation, part);
        let layout = layout.filter(|_| concerns_layout(violation));
        match findings.iter_mut().find(|other| other.text == text && is_same_place(&other.place, &place)) {
            Some(other) => other.layouts.extend(layout),
            None => findings.push(Finding { id: violation.id(), text, place, layouts: layout.into_iter().collect() }),
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
