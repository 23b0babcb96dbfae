//! Pictures of a layout: `cargo run --example picture -- SPEC.toml --out DIR`. Memory by role of each stage (`stages.svg`), a
//! rank's timeline over a step (`timeline.svg`), every rank in every phase (`ranks.svg`), all of them on a page
//! (`index.html`), and the timeline as a trace that <https://ui.perfetto.dev> opens (`trace.json`).
//!
//! Files need nothing beside them. `--json` prints what is drawn instead, in exact integers. Exit code 1: the Spec breaks laws;
//! 2: it cannot be read, or something cannot be written.

#[path = "common/behind.rs"]
#[allow(dead_code)] // how other reports say it
mod behind;
#[path = "common/end.rs"]
mod end;
#[path = "common/exit.rs"]
mod exit;
#[path = "common/file.rs"]
mod file;
#[path = "picture/heat.rs"]
mod heat;
#[path = "check/input.rs"]
mod input;
#[path = "check/meant.rs"]
mod meant;
#[path = "common/number.rs"]
mod number;
#[path = "picture/page.rs"]
mod page;
#[path = "check/places.rs"]
mod places;
#[path = "common/plan.rs"]
mod plan;
#[path = "check/report.rs"]
#[allow(dead_code)] // what `check` says of a Spec that is valid
mod report;
#[path = "picture/stages.rs"]
mod stages;
#[path = "picture/style.rs"]
mod style;
#[path = "check/text.rs"]
mod text;
#[path = "picture/timeline.rs"]
mod timeline;
#[path = "picture/trace.rs"]
mod trace;
#[path = "common/wrapped.rs"]
mod wrapped;

use behind::Behind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use end::end;
use moe_model::timeline::Moment;
use moe_model::{Plan, Role};
use page::Figure;
use serde_json::{Map, Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, process};

fn main() -> ExitCode {
    let matches = command().get_matches();
    end(said(&matches))
}

fn said(matches: &ArgMatches) -> Result<String, (String, u8)> {
    let path: &PathBuf = matches.get_one("SPEC").expect("it has a default");
    let plan = plan::of_file(path)?;
    let behind = Behind::of(&path.display().to_string(), plan.spec());
    let failed = |message: String| (format!("error: {message}\n"), 2);
    let stage = plan::stage(&plan, matches.get_one("rank").copied()).map_err(failed)?;
    let moments = timeline::moments(&plan, stage);
    if matches.get_flag("json") {
        return Ok(data(&plan, stage, &moments, &behind));
    }
    let out: &PathBuf = matches.get_one("out").expect("it has a default");
    let files = files(&plan, stage, &moments, &behind).map_err(failed)?;
    fs::create_dir_all(out).map_err(|error| failed(format!("{}: {error}", out.display())))?;
    let mut said = String::new();
    for (name, text) in files {
        let path = out.join(name);
        write(&path, &text).map_err(|error| failed(format!("{}: {error}", path.display())))?;
        said.extend([path.display().to_string().as_str(), "\n"]);
    }
    Ok(said)
}

/// Whole, or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let part = path.with_added_extension(format!("{}.part", process::id()));
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // What was wrong is said already.
        let _ = fs::remove_file(&part);
    }
    written
}

fn files(plan: &Plan, stage: u64, moments: &[Moment], behind: &Behind) -> Result<[(&'static str, String); 5], String> {
    let Behind { model, accounting, version, device, date } = behind;
    let accounting = accounting.split(':').next().unwrap_or_default();
    let below = format!("{model}, accounting {accounting}, device {device}; {version}, {date}");
    let stages = stages::svg(plan, &below)?;
    let timeline = timeline::svg(plan, stage, &below)?;
    let ranks = heat::svg(plan, &below)?;
    let figures = [
        Figure { svg: &stages, caption: "Memory by role of a rank of each stage, at its peak." },
        Figure {
            svg: &timeline,
            caption: "Memory by role of one rank while each event of a step runs; the peak is marked.",
        },
        Figure { svg: &ranks, caption: "Memory of every rank at the peak of each phase." },
    ];
    let page = page::html(behind, &figures);
    let trace = trace::json(plan, stage, moments, behind);
    Ok([
        ("stages.svg", stages),
        ("timeline.svg", timeline),
        ("ranks.svg", ranks),
        ("index.html", page),
        ("trace.json", trace),
    ])
}

/// What is drawn.
fn data(plan: &Plan, stage: u64, moments: &[Moment], behind: &Behind) -> String {
    let roles = |bytes: &dyn Fn(Role) -> moe_model::Bytes| -> Map<String, Value> {
        Role::ALL.iter().map(|role| (role.name().to_owned(), json!(bytes(*role)))).collect()
    };
    let of_stage = |stage| {
        let budget = plan.budget(stage);
        let phases: Map<String, Value> = plan
            .phases()
            .iter()
            .map(|phase| (phase.name().to_owned(), json!(roles(&|role| budget.role_in(role, *phase)))))
            .collect();
        let ranks = plan.ranks_of_stage(stage);
        json!({ "stage": stage, "first_rank": ranks.start, "last_rank": ranks.end - 1, "phases": phases })
    };
    let of_moment = |moment: &Moment| {
        json!({
            "phase": moment.phase, "event": moment.event, "bytes": roles(&|role| moment.role(role)),
        })
    };
    let data = json!({
        "format": "moe-model/picture/1",
        "behind": behind,
        "stages": (0..plan.stages()).map(of_stage).collect::<Vec<_>>(),
        "timeline": { "stage": stage, "moments": moments.iter().map(of_moment).collect::<Vec<_>>() },
    });
    format!("{data:#}\n")
}

fn command() -> Command {
    Command::new("picture")
        .about("Draws what ranks hold: by stage and role, over a step, and over all ranks and phases")
        .after_help(
            "Files: stages.svg, timeline.svg, ranks.svg, index.html with all of them, and trace.json for \
             ui.perfetto.dev.\n\nExit codes:\n  0  the files' names are on stdout\n  1  the Spec breaks laws\n  \
             2  it cannot be read, or a file cannot be written\nWhat is wrong is on stderr, all of it.",
        )
        .arg(
            Arg::new("SPEC")
                .value_parser(value_parser!(PathBuf))
                .default_value("examples/lab/megatron.toml")
                .help("A model and its layout, as `check` reads it; - reads TOML from stdin"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .default_value("target/picture")
                .help("The folder to write to"),
        )
        .arg(
            Arg::new("rank")
                .long("rank")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .help("The rank whose timeline is drawn [default: one of the stage that is worst]"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print what is drawn, in exact integers"))
}
