//! Counts a model: `cargo run --example inspect -- CONFIG.json`, or `--preset NAME`. Its parameters, all of them and those
//! that a token meets, what its checkpoint holds, and every tensor by its name and shape.
//!
//! `--json` prints the same as JSON, in exact integers; `--declaration` prints it as source of `moe_model!`. What is asked
//! for goes to stdout, with exit code 0; what is wrong with a config goes to stderr, all at once, and the code is 2.

#[path = "common/behind.rs"]
#[allow(dead_code)] // what is said where a layout is counted
mod behind;
#[path = "common/columns.rs"]
mod columns;
#[path = "common/end.rs"]
mod end;
#[path = "common/exit.rs"]
mod exit;
#[path = "common/file.rs"]
mod file;
#[path = "inspect/input.rs"]
mod input;
#[path = "common/number.rs"]
mod number;
#[path = "inspect/report.rs"]
mod report;
#[path = "common/table.rs"]
mod table;
#[path = "inspect/text.rs"]
mod text;
#[path = "common/wrapped.rs"]
mod wrapped;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use end::end;
use input::Input;
use moe_model::preset::PRESETS;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = command().get_matches();
    end(input(&matches).and_then(|input| said(&input, &matches)).map_err(|text| (text, 2)))
}

fn input(matches: &ArgMatches) -> Result<Input, String> {
    match matches.get_one::<String>("preset") {
        Some(name) => Input::preset(name),
        None => Input::config(matches.get_one::<PathBuf>("CONFIG").expect("clap demands one of both")),
    }
}

/// What was asked for, or what is wrong.
fn said(input: &Input, matches: &ArgMatches) -> Result<String, String> {
    if matches.get_flag("declaration") {
        return Ok(input.declaration());
    }
    let report = Report::of(input)?;
    if matches.get_flag("json") { Ok(report.json()) } else { Ok(text::of(&report)) }
}

fn command() -> Command {
    let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    Command::new("inspect")
        .about("Counts a model: parameters, active ones, and every tensor of its checkpoint")
        .after_help("Exit codes:\n  0  what was asked for is on stdout\n  2  what is wrong is on stderr, all of it")
        .arg(
            Arg::new("CONFIG")
                .required_unless_present("preset")
                .value_parser(value_parser!(PathBuf))
                .help("A Hugging Face config.json; - reads it from stdin"),
        )
        .arg(
            Arg::new("preset")
                .long("preset")
                .value_name("NAME")
                .conflicts_with("CONFIG")
                .help(format!("A published model by name: {}", presets.join(", "))),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .conflicts_with("declaration")
                .help("Print JSON, with exact integers"),
        )
        .arg(
            Arg::new("declaration")
                .long("declaration")
                .action(ArgAction::SetTrue)
                .help("Print the architecture as source of moe_model!, ready to paste"),
        )
}
