//! Trains a model for two steps and compares what it computes with another implementation:
//! `cargo run --release --example train_step -- DIR`. The folder holds a Hugging Face `config.json` and
//! `weights.safetensors`, a batch in `inputs.safetensors`, and in `expected.safetensors` what transformers makes of it:
//! logits, states, router choices, losses, gradients, and weights after two steps of AdamW.
//!
//! Prints the largest deviation of each group beside its tolerance, and how many allocations were asserted; `--json` prints
//! the same as JSON. `--device cuda`, of a program that is built with `--features cuda`, runs it on the first CUDA device, or
//! over the driver without a GPU that `gpu/stand_in/` is. Exit code 1 if a group deviates by more, 2 if something cannot be read or run.

#[path = "common/behind.rs"]
mod behind;
#[path = "common/columns.rs"]
mod columns;
#[path = "train_step/compare.rs"]
mod compare;
#[path = "common/exit.rs"]
mod exit;
#[path = "train_step/folder.rs"]
mod folder;
#[path = "common/table.rs"]
mod table;
#[path = "train_step/train.rs"]
mod train;
#[path = "common/wrapped.rs"]
mod wrapped;

use clap::{Arg, ArgAction, Command, value_parser};
use compare::Report;
use exit::exit;
use folder::Folder;
use moe_model::gpu::Host;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = command().get_matches();
    let dir = matches.get_one::<PathBuf>("DIR").expect("clap demands it");
    let threads = *matches.get_one::<usize>("threads").expect("it has a default");
    let report = Folder::read(dir).and_then(|folder| match matches.get_one::<String>("device").map(String::as_str) {
        Some("cuda") => on_cuda(&folder),
        _ => train::run(&folder, Host::new(threads.max(1))),
    });
    match report {
        Ok(report) => {
            let code = if report.is_within() { ExitCode::SUCCESS } else { ExitCode::from(1) };
            let text = if matches.get_flag("json") { report.json() } else { said(&report) };
            exit(io::stdout().write_all(text.as_bytes()), code)
        }
        Err(text) => exit(writeln!(io::stderr(), "error: {text}"), ExitCode::from(2)),
    }
}

#[cfg(feature = "cuda")]
fn on_cuda(folder: &Folder) -> Result<Report, String> {
    train::run(folder, moe_model::gpu::Cuda::open(0, None).map_err(|error| error.to_string())?)
}

#[cfg(not(feature = "cuda"))]
fn on_cuda(_: &Folder) -> Result<Report, String> {
    Err("`--device cuda` takes a program that is built with `--features cuda`".to_owned())
}

fn said(report: &Report) -> String {
    let rows = report.groups.iter().map(|group| {
        vec![
            group.name.to_owned(),
            group.tensors.to_string(),
            group.values.to_string(),
            format!("{:.1e}", group.deviation),
            if group.tolerance == 0.0 { "exact".to_owned() } else { format!("{:.0e}", group.tolerance) },
            if group.is_within() { String::new() } else { format!("{} deviates", group.worst) },
        ]
    });
    let columns = ["<", "tensors", "values", "largest deviation", "tolerance", "<"];
    let table = table::table(&report.title, &columns, rows);
    let verdict = if report.is_within() { "Every group is within its tolerance." } else { "Not every group is." };
    format!(
        "{}{table}{} allocations asserted against the budget, which two steps held to the byte; at most {} at once.\n\
         {verdict}\n",
        report.behind.text(),
        report.allocations,
        report.peak
    )
}

fn command() -> Command {
    Command::new("train_step")
        .about("Trains a model for two steps and compares it with what another implementation computed")
        .after_help(
            "Exit codes:\n  0  every group is within its tolerance\n  1  one is not\n  2  something cannot be read or run",
        )
        .arg(
            Arg::new("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("A folder with config.json, weights, inputs and expected.safetensors"),
        )
        .arg(
            Arg::new("threads")
                .long("threads")
                .value_parser(value_parser!(usize))
                .default_value("1")
                .help("Threads of the CPU that compute"),
        )
        .arg(
            Arg::new("device")
                .long("device")
                .value_parser(["host", "cuda"])
                .default_value("host")
                .help("Where it runs: the CPU or the first CUDA device"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
}
