//! Asks what a model takes to be served: `cargo run --example serving -- SPEC.toml`, or a `config.json`, or `--preset NAME`.
//! What it keeps of each token and each sequence, tensor by tensor, what fills a rank while prompts and single tokens run,
//! and on a device the longest context of as many requests.
//!
//! `--json` prints the same as JSON, in exact integers. The report goes to stdout, with exit code 0 where what is asked for
//! fits on the device, or there is none, and 1 where it does not; what is wrong goes to stderr, all at once, with 2.

#[path = "common/behind.rs"]
mod behind;
#[path = "common/columns.rs"]
mod columns;
#[path = "common/exit.rs"]
mod exit;
#[path = "common/file.rs"]
mod file;
#[path = "serving/input.rs"]
mod input;
#[path = "common/number.rs"]
mod number;
#[path = "serving/report.rs"]
mod report;
#[path = "common/table.rs"]
mod table;
#[path = "serving/text.rs"]
mod text;
#[path = "common/wrapped.rs"]
mod wrapped;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use exit::exit;
use moe_model::Key;
use moe_model::preset::PRESETS;
use report::Report;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options that stand for a key of the layout.
const KEYS: &[(&str, Key, &str)] = &[
    ("requests", Key::ServingRequests, "Sequences that each data-parallel replica keeps at once [default: 1]"),
    ("context", Key::ServingContext, "Tokens of each of them [default: 4096]"),
    ("block", Key::ServingBlock, "Tokens of a block of the cache [default: 16]"),
    ("cache", Key::ServingCache, "Format of keys, values and latents: fp32, bf16, fp16, fp8 [default: bf16]"),
    ("mla", Key::ServingMla, "What is cached of latent attention: latent, expanded [default: latent]"),
    ("prefill", Key::ServingPrefill, "Tokens of prompts that run at once [default: 8192]"),
    ("weights", Key::PrecisionWeights, "Format of weights [default: bf16]"),
    ("tp", Key::MeshTp, "Tensor-parallel ranks [default: 1]"),
    ("pp", Key::MeshPp, "Pipeline stages [default: 1]"),
    ("cp", Key::MeshCp, "Context-parallel ranks [default: 1]"),
    ("dp", Key::MeshDp, "Data-parallel replicas [default: 1]"),
    ("ep", Key::MeshEp, "Expert-parallel ranks [default: 1]"),
    ("device", Key::Device, "What a rank must fit on: a100_40gb, a100_80gb, h100, h200, b200"),
    ("headroom", Key::Headroom, "Percent to keep free on top [default: 0]"),
];

fn main() -> ExitCode {
    let matches = command().get_matches();
    match input::read(&matches).and_then(|input| Report::of(&input)) {
        Ok(report) => {
            let text = if matches.get_flag("json") { report.json() } else { text::of(&report) };
            exit(io::stdout().write_all(text.as_bytes()), ExitCode::from(u8::from(report.fits == Some(false))))
        }
        Err(text) => exit(io::stderr().write_all(text.as_bytes()), ExitCode::from(2)),
    }
}

/// What is said on the command line of a key.
fn given<'m>(matches: &'m ArgMatches, name: &str) -> Option<&'m str> {
    matches.get_one::<String>(name).map(String::as_str)
}

fn command() -> Command {
    let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    let keys = KEYS.iter().map(|(name, _, help)| Arg::new(*name).long(*name).value_name("VALUE").help(*help));
    Command::new("serving")
        .about("What a model takes to be served: its cache by token and sequence, and the longest contexts that fit")
        .after_help(
            "Exit codes:\n  \
             0  it fits, or no device is named; the report is on stdout\n  \
             1  it does not fit; the report is on stdout\n  \
             2  what is wrong is on stderr, all of it",
        )
        .arg(
            Arg::new("FILE")
                .required_unless_present("preset")
                .value_parser(value_parser!(PathBuf))
                .help("A Hugging Face config.json, or a Spec with its layout in TOML; - reads TOML from stdin"),
        )
        .arg(
            Arg::new("preset")
                .long("preset")
                .value_name("NAME")
                .conflicts_with("FILE")
                .help(format!("A published model by name: {}", presets.join(", "))),
        )
        .args(keys)
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON, with exact integers"))
}
