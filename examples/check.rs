//! Checks a Spec in a file: `cargo run --example check -- SPEC.toml`. What the macro says of a declaration while it
//! compiles, this says of a file, with its lines.
//!
//! A valid Spec gets a summary on stdout and exit code 0. Laws that are broken go to stderr, all at once, and the exit
//! code is 1; what cannot be read goes there too, and it is 2. `--json` writes a report to stdout in all three cases.

#[path = "common/behind.rs"]
#[allow(dead_code)] // how other reports say it
mod behind;
#[path = "common/exit.rs"]
mod exit;
#[path = "common/file.rs"]
mod file;
#[path = "check/input.rs"]
mod input;
#[path = "check/laws.rs"]
mod laws;
#[path = "check/meant.rs"]
mod meant;
#[path = "check/places.rs"]
mod places;
#[path = "check/report.rs"]
mod report;
#[path = "check/text.rs"]
mod text;
#[path = "common/wrapped.rs"]
mod wrapped;

use clap::{Arg, ArgAction, Command, value_parser};
use exit::exit;
use report::Report;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = command().get_matches();
    let json = matches.get_flag("json");
    let Some(path) = matches.get_one::<PathBuf>("SPEC") else { return exit(list_laws(json), ExitCode::SUCCESS) };
    let report = Report::of(path);
    exit(print(&report, json, matches.get_flag("explain")), ExitCode::from(report.exit_code()))
}

fn list_laws(json: bool) -> io::Result<()> {
    let text = if json { serde_json::to_string_pretty(&laws::json())? + "\n" } else { laws::text() };
    io::stdout().write_all(text.as_bytes())
}

fn print(report: &Report, json: bool, explain: bool) -> io::Result<()> {
    if json {
        let text = serde_json::to_string_pretty(report)? + "\n";
        return io::stdout().write_all(text.as_bytes());
    }
    let mut text = text::of(report);
    if let Some(peak) = report.peak.as_ref().filter(|_| explain) {
        text.extend(["\nthe peak, ", &peak.text, ":\n", &peak.explained]);
    }
    if report.valid { io::stdout().write_all(text.as_bytes()) } else { io::stderr().write_all(text.as_bytes()) }
}

fn command() -> Command {
    Command::new("check")
        .about("Checks a Mixture-of-Experts model and its layout, declared in a file")
        .long_about(
            "Checks a Mixture-of-Experts model and its layout, declared in a file.\n\n\
             The keys are those of moe_model!: numbers as numbers, words as strings, groups as tables,\n\
             with a kind where there are several. See examples/specs/deepseek_v3.toml.",
        )
        .after_long_help(
            "Exit codes:\n  \
             0  the Spec is valid; a summary is on stdout, with warnings on what is legal but costly\n  \
             1  it breaks laws; all of them are on stderr, each at its line\n  \
             2  it cannot be read; all that is wrong is on stderr, each at its line",
        )
        .arg(
            Arg::new("SPEC")
                .required_unless_present("laws")
                .value_parser(value_parser!(PathBuf))
                .help("The file: JSON if its name ends in .json, else TOML; - reads TOML from stdin"),
        )
        .arg(
            Arg::new("laws")
                .long("laws")
                .action(ArgAction::SetTrue)
                .conflicts_with("SPEC")
                .help("List every law and warning: what must hold, where, and why"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print JSON to stdout, with exact integers, whatever the outcome"),
        )
        .arg(
            Arg::new("explain")
                .long("explain")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["json", "laws"])
                .help("List what the worst rank holds at its peak, tensor by tensor, each with its source"),
        )
}
