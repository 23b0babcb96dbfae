//! Where a figure of a report comes from: `cargo run --example explain -- SPEC.toml peak`. Every tensor, product or message that
//! it is the sum of, with its formula, every factor by its name and number, and who counts it so.
//!
//! `--json` and `--csv` print the same in exact integers. Exit code 1: the Spec breaks laws; 2: it cannot be read, or there is
//! no such figure, rank or phase.

#[path = "common/behind.rs"]
mod behind;
#[path = "common/columns.rs"]
mod columns;
#[path = "common/end.rs"]
mod end;
#[path = "common/exit.rs"]
mod exit;
#[path = "explain/figures.rs"]
mod figures;
#[path = "common/file.rs"]
mod file;
#[path = "check/input.rs"]
mod input;
#[path = "check/meant.rs"]
mod meant;
#[path = "common/number.rs"]
mod number;
#[path = "check/places.rs"]
mod places;
#[path = "common/plan.rs"]
mod plan;
#[path = "check/report.rs"]
#[allow(dead_code)] // what `check` says of a Spec that is valid
mod report;
#[path = "common/sheet.rs"]
#[allow(dead_code)] // what labs say
mod sheet;
#[path = "common/table.rs"]
mod table;
#[path = "check/text.rs"]
mod text;
#[path = "common/wrapped.rs"]
mod wrapped;

use behind::Behind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use end::end;
use figures::{Asked, FIGURES, Figure, Term, Traced, Unit};
use moe_model::{Bytes, Phase, Plan};
use number::grouped;
use sheet::{Cell, Report, Sheet};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = command().get_matches();
    end(said(&matches))
}

fn said(matches: &ArgMatches) -> Result<String, (String, u8)> {
    let failed = |message: String| (format!("error: {message}\n"), 2);
    let path: &PathBuf = matches.get_one("SPEC").expect("clap demands it");
    let plan = plan::of_file(path)?;
    let figure = figure(matches.get_one::<String>("FIGURE").expect("it has a default")).map_err(failed)?;
    let asked = asked(&plan, matches).map_err(failed)?;
    let mut traced = (figure.trace)(&plan, asked);
    // What is not there is no part of it.
    traced.terms.retain(|term| term.amount > 0);
    traced.terms.sort_by_key(|term| std::cmp::Reverse(term.amount));
    let behind = Behind::of(&path.display().to_string(), plan.spec());
    match (matches.get_flag("json"), matches.get_flag("csv")) {
        (true, _) => Ok(report(&traced, figure, asked.stage, behind).json()),
        (_, true) => report(&traced, figure, asked.stage, behind).csv().map_err(failed),
        _ => Ok(people(&traced, figure, asked.stage, &behind)),
    }
}

/// By its name, as reports write it.
fn figure(name: &str) -> Result<&'static Figure, String> {
    let plain = name.trim_end_matches("_bytes");
    FIGURES.iter().find(|figure| figure.name == plain).ok_or_else(|| {
        let known: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        format!("there is no figure `{name}`\n  = help: there are {}", known.join(", "))
    })
}

fn asked(plan: &Plan, matches: &ArgMatches) -> Result<Asked, String> {
    let stage = plan::stage(plan, matches.get_one("rank").copied())?;
    let phase = match matches.get_one::<String>("phase") {
        Some(name) => Some(*plan.phases().iter().find(|phase| phase.name() == name).ok_or_else(|| {
            let known: Vec<&str> = plan.phases().iter().map(|phase: &Phase| phase.name()).collect();
            format!("`--phase {name}`: the phases of this layout are {}", known.join(", "))
        })?),
        None => None,
    };
    Ok(Asked { stage, phase })
}

fn shown(amount: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => Bytes::new(amount).to_string(),
        Unit::Parameters | Unit::Operations => grouped(amount),
    }
}

fn people(traced: &Traced, figure: &Figure, stage: u64, behind: &Behind) -> String {
    let Traced { what, unit, figure: amount, terms } = traced;
    let noun = match unit {
        Unit::Bytes => format!("{} B, {}", grouped(*amount), Bytes::new(*amount)),
        Unit::Parameters => format!("{} parameters", grouped(*amount)),
        Unit::Operations => format!("{} operations", grouped(*amount)),
    };
    let mut text = format!("{}: {}\na rank of stage {stage}, {what}: {noun}\n", figure.name, figure.about);
    text.extend(["\n", &behind.text(), "\n"]);
    let mut sources: Vec<&str> = Vec::new();
    let width = terms.iter().map(|term| shown(term.amount, *unit).len()).max().unwrap_or_default().max(12);
    for Term { amount, name, role, formula, source } in terms {
        let number = sources.iter().position(|known| known == source).unwrap_or_else(|| {
            sources.push(source);
            sources.len() - 1
        });
        let amount = shown(*amount, *unit);
        text += &[format!("{amount:>width$}  {name}; {role} [{}]", number + 1), format!("{:width$}  {formula}\n", "")]
            .join("\n");
    }
    let sum: u64 = terms.iter().map(|term| term.amount).sum();
    text += &[format!("{:>width$}  in all\n", shown(sum, *unit))].concat();
    text.extend((1..).zip(sources).map(|(number, source)| format!("[{number}] {source}\n")));
    text
}

fn report(traced: &Traced, figure: &Figure, stage: u64, behind: Behind) -> Report {
    let unit = match traced.unit {
        Unit::Bytes => "bytes",
        Unit::Parameters => "parameters",
        Unit::Operations => "operations",
    };
    let row = |term: &Term| -> Vec<Cell> {
        let Term { amount, name, role, formula, source } = term;
        vec![
            figure.name.into(),
            stage.into(),
            unit.into(),
            name.clone().into(),
            (*role).into(),
            formula.clone().into(),
            (*source).into(),
            (*amount).into(),
        ]
    };
    let sheet = Sheet {
        key: "terms",
        title: String::new(),
        columns: &[
            ("figure", "<figure"),
            ("stage", "stage"),
            ("unit", "<unit"),
            ("name", "<name"),
            ("role", "<role"),
            ("formula", "<formula"),
            ("source", "<source"),
            ("amount", "amount"),
        ],
        rows: traced.terms.iter().map(row).collect(),
        is_shown: true,
    };
    let figure = Sheet {
        key: "figure",
        title: String::new(),
        columns: &[("name", "<figure"), ("stage", "stage"), ("what", "<what"), ("unit", "<unit"), ("amount", "amount")],
        rows: vec![vec![
            figure.name.into(),
            stage.into(),
            traced.what.clone().into(),
            unit.into(),
            traced.figure.into(),
        ]],
        is_shown: true,
    };
    Report { format: "moe-model/explain/1", behind, sheets: vec![sheet, figure], findings: Vec::new(), failure: None }
}

fn command() -> Command {
    let width = FIGURES.iter().map(|figure| figure.name.len()).max().unwrap_or_default();
    let list = FIGURES.iter().map(|figure| format!("  {:width$}  {}\n", figure.name, figure.about));
    Command::new("explain")
        .about("Traces a figure of a report to its tensors, formulas and sources")
        .after_help(format!(
            "Figures, by the names that reports have for them, with or without `_bytes`:\n{}\n\
             Exit codes:\n  0  the figure is on stdout\n  1  the Spec breaks laws\n  \
             2  it cannot be read, or there is no such figure, rank or phase\nWhat is wrong is on stderr, all of it.",
            list.collect::<String>()
        ))
        .arg(
            Arg::new("SPEC")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("A model and its layout, as `check` reads it; - reads TOML from stdin"),
        )
        .arg(Arg::new("FIGURE").default_value("peak").help("What to trace, one of those below"))
        .arg(
            Arg::new("rank")
                .long("rank")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .help("Of which rank [default: one of the stage that is worst]"),
        )
        .arg(
            Arg::new("phase")
                .long("phase")
                .value_name("PHASE")
                .help("In which phase [default: that in which it is most]"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).conflicts_with("csv").help("Print JSON"))
        .arg(Arg::new("csv").long("csv").action(ArgAction::SetTrue).help("Print CSV, for spreadsheet programs"))
}
