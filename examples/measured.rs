//! Holds the memory model against measured training runs: `cargo run --release --example measured -- FILE`. FILE lists runs
//! of Megatron-LM, each with its arguments, as `tests/data/measured/megatron_ci_moe.json` does.
//!
//! For each row the bytes that the last rank of the pipeline holds between steps and at its peak, as predicted and as
//! measured, or why it is not judged. `--json` prints the same as JSON. Exit code 2: FILE cannot be read.

#[path = "common/behind.rs"]
#[allow(dead_code)] // what is said where a layout is counted
mod behind;
#[path = "common/columns.rs"]
mod columns;
#[path = "common/exit.rs"]
mod exit;
#[path = "common/file.rs"]
mod file;
#[path = "measured/report.rs"]
mod report;
#[path = "measured/rows.rs"]
mod rows;
#[path = "measured/text.rs"]
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
    let path: &PathBuf = matches.get_one("FILE").expect("clap demands it");
    let report = rows::read(path).map(|rows| Report::of(&path.display().to_string(), &rows));
    match report {
        Ok(report) => {
            let text = if matches.get_flag("json") { report.json() } else { text::of(&report) };
            exit(io::stdout().write_all(text.as_bytes()), ExitCode::SUCCESS)
        }
        Err(message) => {
            let text = format!("error: {message}\n --> {}\n", path.display());
            exit(io::stderr().write_all(text.as_bytes()), ExitCode::from(2))
        }
    }
}

fn command() -> Command {
    Command::new("measured")
        .about("Holds the memory model against measured runs of Megatron-LM, row by row")
        .after_help("Exit codes:\n  0  the report is on stdout\n  2  the file cannot be read; why is on stderr")
        .arg(
            Arg::new("FILE").required(true).value_parser(value_parser!(PathBuf)).help(
                "JSON with `rows`, each with `test`, `args`, `env`, `world_size` and bytes; - reads it from stdin",
            ),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
}
