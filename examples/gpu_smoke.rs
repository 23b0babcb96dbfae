//! What only a real GPU shows, as JSON: `cargo run --release --features cuda --example gpu_smoke`; `gpu/check` runs it with all
//! other checks and adds PyTorch's times.
//!
//! How the driver rounds allocations and what opening a device takes; a small model beside the CPU; and the rank of
//! arXiv:2502.07846 (DeepSeek-V3, stage 1 of PP16 TP2 EP8, full recomputation, b=1, s=4096) at its own scale, balanced and with
//! every token sent to it: ledger, pool and device side by side in each phase, what a micro-batch in flight keeps beside the
//! paper's formula, term by term, and the time of each piece of work. `--small` takes a small model in the rank's place, for a
//! driver that interprets; `--dry` fills nothing in, for one that computes nothing. Exit code 1 if a check fails, 2 if there is
//! no device or it refuses.

#[path = "gpu_smoke/costs.rs"]
mod costs;
#[path = "common/exit.rs"]
mod exit;
#[path = "gpu_smoke/rank.rs"]
mod rank;
#[path = "common/small.rs"]
mod shape;
#[path = "gpu_smoke/small.rs"]
mod small;
#[path = "gpu_smoke/speed.rs"]
mod speed;
#[path = "gpu_smoke/watched.rs"]
mod watched;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use exit::exit;
use moe_model::gpu::Cuda;
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// All that was found.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    gpu: String,
    driver: String,
    date: String,
    costs: Option<costs::Costs>,
    small: Vec<small::Row>,
    rank: Option<rank::Ranks>,
    /// Checks that failed, in words.
    failures: Vec<String>,
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    match report(&matches) {
        Ok(report) => {
            let text = json(&report);
            let failed = report.failures.iter().try_for_each(|failure| writeln!(io::stderr(), "failed: {failure}"));
            let code = if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) };
            exit(failed.and_then(|()| io::stdout().write_all(text.as_bytes())), code)
        }
        Err(text) => exit(writeln!(io::stderr(), "error: {text}"), ExitCode::from(2)),
    }
}

fn report(matches: &ArgMatches) -> Result<Report, String> {
    let said = |name: &str| matches.get_one::<String>(name).cloned().expect("it has a default");
    let out = matches.get_one::<PathBuf>("out");
    // What was found so far is kept, whatever happens.
    let save = |report: &Report| out.map_or(Ok(()), |path| fs::write(path, json(report)));
    let (is_small, is_dry) = (matches.get_flag("small"), matches.get_flag("dry"));
    let limit = Duration::from_secs(*matches.get_one::<u64>("limit").expect("it has a default"));
    let gpu = opened(None)?.name().map_err(|error| error.to_string())?;
    let (schema, driver, date) = ("moe-model/gpu-smoke/1", said("driver"), said("date"));
    let (costs, small, rank, failures) = (None, Vec::new(), None, Vec::new());
    let mut report = Report { schema, gpu, driver, date, costs, small, rank, failures };
    let saved = |error: io::Error| format!("the report could not be written: {error}");
    report.costs = kept(costs::measure(&mut report.failures), &mut report.failures);
    save(&report).map_err(saved)?;
    // A driver that computes nothing computes no loss.
    if !is_dry {
        report.small = kept(small::rows(&mut report.failures), &mut report.failures).unwrap_or_default();
        save(&report).map_err(saved)?;
    }
    let mut failures = core::mem::take(&mut report.failures);
    let mut see = |rank: rank::Ranks| {
        report.rank = Some(rank);
        save(&report).map_err(saved)
    };
    let measured = rank::measure(is_small, is_dry, limit, &mut failures, &mut see);
    kept(measured, &mut failures);
    report.failures = failures;
    save(&report).map_err(saved)?;
    Ok(report)
}

/// What was found, or that it was not.
fn kept<T>(found: Result<T, String>, failures: &mut Vec<String>) -> Option<T> {
    found.map_err(|error| failures.push(error)).ok()
}

fn json(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("numbers and names are JSON") + "\n"
}

/// The first device.
fn opened(budget: Option<u64>) -> Result<Cuda, String> {
    Cuda::open(0, budget).map_err(|error| error.to_string())
}

/// Says how far it is.
fn progress(text: &str) {
    // Where nobody can be told, nobody is.
    let _ = writeln!(io::stderr(), "{text}");
}

fn command() -> Command {
    let text = |name: &'static str, help: &'static str| Arg::new(name).long(name).default_value("unknown").help(help);
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("gpu_smoke")
        .about("What only a real GPU shows, as JSON")
        .after_help("Exit codes:\n  0  every check holds\n  1  one does not\n  2  there is no device, or it refuses")
        .arg(text("driver", "The driver's version, for the report"))
        .arg(text("date", "The day, for the report"))
        .arg(
            Arg::new("out")
                .long("out")
                .value_parser(value_parser!(PathBuf))
                .help("A file that has what was found so far"),
        )
        .arg(flag("small", "A small model in the place of the paper's rank"))
        .arg(flag("dry", "Nothing is filled in or compared: for a driver that computes nothing"))
        .arg(
            Arg::new("limit")
                .long("limit")
                .value_parser(value_parser!(u64))
                .default_value("100")
                .help("Seconds that a step of the rank may take: with fewer micro-batches where it would take longer"),
        )
}
