//! Labs: small studies of what a layout costs, each in a moment: `cargo run --example lab -- zero`. Each has a Spec beside it
//! (`examples/lab/zero.toml`), what it said of that (`zero.txt`, asserted by a test), and something that fails, with the reason;
//! a file of yours may stand in the Spec's place. `--json` and `--csv` print the same in exact integers.
//!
//! Exit code 0: the report is on stdout; 1: the Spec breaks laws; 2: it cannot be read. What is wrong goes to stderr.

#[path = "common/behind.rs"]
mod behind;
#[path = "common/columns.rs"]
mod columns;
#[path = "common/end.rs"]
mod end;
#[path = "common/exit.rs"]
mod exit;
#[path = "common/file.rs"]
mod file;
#[path = "lab/fp8.rs"]
mod fp8;
#[path = "check/input.rs"]
mod input;
#[path = "check/meant.rs"]
mod meant;
#[path = "common/number.rs"]
mod number;
#[path = "check/places.rs"]
mod places;
#[path = "common/plan.rs"]
#[allow(dead_code)] // a rank that is asked for
mod plan;
#[path = "lab/ranks.rs"]
mod ranks;
#[path = "lab/recompute.rs"]
mod recompute;
#[path = "check/report.rs"]
#[allow(dead_code)] // what `check` says of a Spec that is valid
mod report;
#[path = "lab/serve.rs"]
mod serve;
#[path = "common/sheet.rs"]
mod sheet;
#[path = "common/table.rs"]
mod table;
#[path = "check/text.rs"]
mod text;
#[path = "lab/worked.rs"]
mod worked;
#[path = "common/wrapped.rs"]
mod wrapped;
#[path = "lab/zero.rs"]
mod zero;

use behind::Behind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use end::end;
use moe_model::Plan;
use sheet::Report;
use std::path::PathBuf;
use std::process::ExitCode;

/// A lab: its name, what it shows, its own Spec, and what makes its report.
struct Lab {
    name: &'static str,
    about: &'static str,
    spec: &'static str,
    run: fn(&Plan, Behind) -> Result<Report, String>,
}

const LABS: [Lab; 6] = [
    Lab {
        name: "ranks",
        about: "What every rank holds, by role and phase, a row each: --csv opens in a spreadsheet program",
        spec: "examples/lab/ranks.toml",
        run: ranks::report,
    },
    Lab {
        name: "zero",
        about: "ZeRO stages compared: bytes that a rank saves, and bytes that it sends for that",
        spec: "examples/lab/zero.toml",
        run: zero::report,
    },
    Lab {
        name: "recompute",
        about: "What to compute again: memory, operations and all-to-all bytes of each policy",
        spec: "examples/lab/megatron.toml",
        run: recompute::report,
    },
    Lab {
        name: "worked",
        about: "A hypothetical rank added up by hand, beside what the program says of it",
        spec: "examples/lab/worked.toml",
        run: worked::report,
    },
    Lab {
        name: "fp8",
        about: "Computing in FP8: what it adds to weights that stay whole, and what it takes from activations",
        spec: "examples/lab/megatron.toml",
        run: fp8::report,
    },
    Lab {
        name: "serve",
        about: "Serving against training the same model on the same ranks",
        spec: "examples/lab/serve.toml",
        run: serve::report,
    },
];

fn main() -> ExitCode {
    let matches = command().get_matches();
    let (name, matches) = matches.subcommand().expect("clap demands one");
    let lab = LABS.iter().find(|lab| lab.name == name).expect("clap knows no other");
    end(said(lab, matches))
}

fn said(lab: &Lab, matches: &ArgMatches) -> Result<String, (String, u8)> {
    let path: &PathBuf = matches.get_one("SPEC").expect("it has a default");
    let plan = plan::of_file(path)?;
    let failed = |message: String| (format!("error: {message}\n"), 1);
    let report = (lab.run)(&plan, Behind::of(&path.display().to_string(), plan.spec())).map_err(failed)?;
    match (matches.get_flag("json"), matches.get_flag("csv")) {
        (true, _) => Ok(report.json()),
        (_, true) => report.csv().map_err(failed),
        _ => Ok(report.text()),
    }
}

fn command() -> Command {
    let labs = LABS.iter().map(|lab| {
        let flag =
            |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
        Command::new(lab.name)
            .about(lab.about)
            .arg(
                Arg::new("SPEC")
                    .value_parser(value_parser!(PathBuf))
                    .default_value(lab.spec)
                    .help("A model and its layout, as `check` reads it; - reads TOML from stdin"),
            )
            .arg(flag("json", "Print JSON, in exact integers").conflicts_with("csv"))
            .arg(flag("csv", "Print the first table as CSV, in exact integers"))
    });
    Command::new("lab")
        .about("Small studies of what a layout costs")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "Exit codes:\n  0  the report is on stdout\n  1  the Spec breaks laws, or the lab does not apply to it\n  \
             2  the Spec cannot be read\nWhat is wrong is on stderr, all of it.",
        )
        .subcommands(labs)
}
